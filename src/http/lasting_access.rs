//! Access of what lasts: streams and sockets that go on after their request ask again every second
//! whether its credential still opens the route, and end when it does not. Not for the rules, which
//! are those of the route's extractor.

use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use tokio::time::sleep;

use crate::http::fault::Refusal;

/// Interval at which the credential is checked, on every instance: the store has what has ended.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Ends when the extractor `T` refuses the request, whose credential has ended or been restricted
/// since. While the store fails, the last answer holds.
pub(crate) async fn refused<T: FromRequest<Error = Refusal>>(request: HttpRequest) {
    refused_or_changed(request, |_: &T| true).await;
}

/// As [`refused`]; also ends when what the extractor takes from the request is no longer what it was.
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
