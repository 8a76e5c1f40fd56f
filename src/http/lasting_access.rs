//! Access of long-lived responses: streams and sockets check periodically whether their credential
//! still opens the route, and end if it does not. Not for the rules, which are those of the route's
//! extractor.

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use tokio::time::sleep;

use crate::http::fault::Refusal;

/// Interval at which the credential is checked, on every instance: the store contains the sessions
/// that have not ended.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Resolves when the extractor `T` refuses the request, because its credential has ended or was
/// restricted. While the store fails, the last result remains valid.
pub(crate) async fn refused<T: FromRequest<Error = Refusal>>(request: HttpRequest) {
    refused_or_changed(request, |_: &T| true).await;
}

/// Like [`refused`]; also resolves when the extracted value has changed.
pub(crate) async fn refused_or_changed<T: FromRequest<Error = Refusal>>(
    request: HttpRequest,
    is_same: impl Fn(&T) -> bool,
) {
    loop {
        sleep(CHECK_EVERY).await;
        let holds = match T::from_request(&request, &mut Payload::None).await {
            Ok(taken) => is_same(&taken),
            Err(refusal) => !refusal.status().is_client_error(),
        };
        if !holds {
            return tracing::info!("closing: the credential no longer opens this route");
        }
    }
}
