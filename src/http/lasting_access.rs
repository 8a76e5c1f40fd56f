//! Access of long-lived responses. Each stream and each socket that outlasts its request is created
//! here, from a [`LastingAccess`]: it checks periodically whether the client may still have the
//! response, also while the client does not read, and no part is sent after that. Not for the rules
//! of access, which are those of the route's extractor.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use actix::{Actor, StreamHandler};
use actix_files::NamedFile;
use actix_http::ws::HandshakeError;
use actix_web::body::{BodySize, BoxBody, MessageBody, SizedStream};
use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, HttpResponse, HttpResponseBuilder, web};
use bytes::Bytes;
use futures_util::Stream;
use hearken_socket::{SocketBudget, SocketContext, SocketFrame};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::http::fault::Refusal;
use crate::http::kept_connections::{break_off, handle_of};

/// Interval at which the credential is checked, on every instance: the store contains the sessions
/// that have not ended.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Time within which a response whose client reads is asked for its next part. The server does not
/// ask while what it has written is unread: such a connection is broken off.
const NOTICED_WITHIN: Duration = Duration::from_millis(250);

/// Error of a response that breaks off because its client has lost access.
#[derive(Debug, thiserror::Error)]
#[error("the client has lost its access to this response")]
struct AccessEnded;

/// Last part of a stream whose client has lost access.
#[derive(Debug)]
pub(crate) enum AtEnd {
    /// None: the stream ends like a complete one.
    Stop,
    /// The connection breaks, so that the client does not treat what it has as complete.
    Break,
    /// This one.
    Tell(Bytes),
}

/// Access of a client to one response. The checks end with the response.
pub(crate) struct LastingAccess {
    ended: CancellationToken,
    /// True once the response has noticed that the access has ended.
    noticed: Rc<Cell<bool>>,
    /// Ends the checks; `None` if the access does not end.
    checks: Option<DropGuard>,
}

impl LastingAccess {
    /// Access that ends when the extractor `T` refuses the request, because its credential has
    /// ended or was restricted. While the store fails, the last result remains valid.
    pub(crate) fn of<T: FromRequest<Error = Refusal> + 'static>(request: &HttpRequest) -> Self {
        Self::of_same(request, |_: &T| true)
    }

    /// Like [`Self::of`]; also ends when the extracted value has changed.
    pub(crate) fn of_same<T: FromRequest<Error = Refusal> + 'static>(
        request: &HttpRequest,
        is_same: impl Fn(&T) -> bool + 'static,
    ) -> Self {
        Self::until(request, refused(request.clone(), is_same))
    }

    /// Access that ends when this future resolves.
    pub(crate) fn until(request: &HttpRequest, end: impl Future<Output = ()> + 'static) -> Self {
        let access = Self::unending();
        let ended = access.ended.clone();
        let noticed = Rc::clone(&access.noticed);
        let connection = handle_of(request);
        let checks = CancellationToken::new();
        let guard = checks.clone().drop_guard();
        actix_web::rt::spawn(checks.run_until_cancelled_owned(async move {
            end.await;
            ended.cancel();
            sleep(NOTICED_WITHIN).await;
            if let Some(connection) = connection.filter(|_| !noticed.get()) {
                tracing::info!(
                    "breaking off a connection: its client has lost access and reads nothing"
                );
                break_off(&connection);
            }
        }));
        Self { checks: Some(guard), ..access }
    }

    /// Access that does not end before the response: of a public file, or by settings that do not
    /// change at run time.
    pub(crate) fn unending() -> Self {
        Self { ended: CancellationToken::new(), noticed: Rc::default(), checks: None }
    }

    /// Resolves when the access has ended.
    pub(crate) fn ended(&self) -> WaitForCancellationFutureOwned {
        self.ended.clone().cancelled_owned()
    }

    /// Creates a streamed response.
    pub(crate) fn stream<S, E>(
        self,
        mut response: HttpResponseBuilder,
        parts: S,
        at_end: AtEnd,
    ) -> HttpResponse
    where
        S: Stream<Item = Result<Bytes, E>> + 'static,
        E: Into<Box<dyn std::error::Error>> + 'static,
    {
        self.guard(response.streaming(parts), Some(at_end))
    }

    /// Creates a response of this size, which breaks when the access ends.
    pub(crate) fn sized<S, E>(
        self,
        mut response: HttpResponseBuilder,
        bytes: u64,
        parts: S,
    ) -> HttpResponse
    where
        S: Stream<Item = Result<Bytes, E>> + 'static,
        E: Into<Box<dyn std::error::Error>> + 'static,
    {
        self.guard(response.body(SizedStream::new(bytes, parts)), Some(AtEnd::Break))
    }

    /// Creates a response with a file, or with the requested ranges of it.
    pub(crate) fn named_file(self, file: NamedFile, request: &HttpRequest) -> HttpResponse {
        self.guard(file.into_response(request), Some(AtEnd::Break))
    }

    /// Answers the handshake of a WebSocket and starts its actor, which must send a Close frame when
    /// [`Self::ended`] resolves.
    ///
    /// # Errors
    /// The request is not a handshake.
    pub(crate) fn socket<A>(
        self,
        actor: A,
        request: &HttpRequest,
        payload: web::Payload,
    ) -> Result<HttpResponse, HandshakeError>
    where
        A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    {
        let upgraded = hearken_socket::upgrade(actor, request, payload)?;
        Ok(self.guard(upgraded, None))
    }

    /// Like [`Self::socket`], for peers whose frames may have up to `max_bytes` bytes.
    ///
    /// # Errors
    /// The request is not a handshake.
    pub(crate) fn socket_with_limit<A>(
        self,
        actor: A,
        request: &HttpRequest,
        payload: web::Payload,
        max_bytes: usize,
    ) -> Result<HttpResponse, HandshakeError>
    where
        A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    {
        let upgraded = hearken_socket::upgrade_with_limit(actor, request, payload, max_bytes)?;
        Ok(self.guard(upgraded, None))
    }

    /// Like [`Self::socket_with_limit`]; the socket is not read while this budget is used up.
    ///
    /// # Errors
    /// The request is not a handshake.
    pub(crate) fn socket_with_budget<A>(
        self,
        actor: A,
        request: &HttpRequest,
        payload: web::Payload,
        max_bytes: usize,
        budget: SocketBudget,
    ) -> Result<HttpResponse, HandshakeError>
    where
        A: Actor<Context = SocketContext<A>> + StreamHandler<SocketFrame>,
    {
        let upgraded =
            hearken_socket::upgrade_with_budget(actor, request, payload, max_bytes, budget)?;
        Ok(self.guard(upgraded, None))
    }

    /// Adds the end of the access to the body of a response. Without `at_end`, the body itself ends
    /// in time.
    fn guard(self, response: HttpResponse, at_end: Option<AtEnd>) -> HttpResponse {
        if self.checks.is_none() {
            return response;
        }
        response.map_body(|_, body| {
            let ended = Box::pin(self.ended());
            BoxBody::new(GuardedBody { body, ended, at_end, access: self })
        })
    }
}

/// Resolves when the extractor `T` refuses the request, or the extracted value has changed.
async fn refused<T: FromRequest<Error = Refusal>>(
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

/// Body of a response that ends with the access of its client.
struct GuardedBody {
    body: BoxBody,
    ended: Pin<Box<WaitForCancellationFutureOwned>>,
    at_end: Option<AtEnd>,
    access: LastingAccess,
}

impl MessageBody for GuardedBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        // Before each part: the body may be asked again long after the access has ended.
        if self.ended.as_mut().poll(cx).is_ready() {
            self.access.noticed.set(true);
            if let Some(at_end) = &mut self.at_end {
                let last = match std::mem::replace(at_end, AtEnd::Stop) {
                    AtEnd::Stop => None,
                    AtEnd::Break => Some(Err(AccessEnded.into())),
                    AtEnd::Tell(part) => Some(Ok(part)),
                };
                self.body = BoxBody::new(());
                return Poll::Ready(last);
            }
        }
        Pin::new(&mut self.body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests;
