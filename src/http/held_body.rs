//! Body of a response that holds a resource, such as a slot, until it is written. Not for the resource itself.

use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use bytes::Bytes;

struct HeldBody<T> {
    body: BoxBody,
    _held: T,
}

/// Makes the response hold `held` until its body is written or its client has disconnected.
pub(crate) fn hold<T: Unpin + 'static>(
    response: ServiceResponse<BoxBody>,
    held: T,
) -> ServiceResponse<BoxBody> {
    response.map_body(|_, body| BoxBody::new(HeldBody { body, _held: held }))
}

impl<T: Unpin> MessageBody for HeldBody<T> {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}
