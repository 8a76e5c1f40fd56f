//! Transport of one connection to a tool server, which limits what the server leaves unfinished:
//! its own requests until it has read their answers, and our messages until it has read these.
//! rmcp has a task for each of them, and no limit. Not for calls of tools, which their source
//! limits.

use std::borrow::Cow;
use std::collections::HashSet;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_base::paced_log::PacedLog;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Maximum number of requests of one server whose answers it has not read.
pub(super) const MAX_UNANSWERED: usize = 64;
/// Maximum number of our messages that one server has not read. Beyond, its connection ends.
const MAX_UNREAD: usize = 256;
/// Maximum length of the id of a server's request, in bytes.
const MAX_ID_BYTES: usize = 256;
/// Error code for a request beyond the limit (JSON-RPC: an error of this server).
const TOO_MANY: ErrorCode = ErrorCode(-32_000);

/// Ids of the server's requests whose answers it has not read.
#[derive(Default)]
struct Unanswered(Mutex<HashSet<RequestId>>);

impl Unanswered {
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Transport of a connection. Dropping it, which rmcp does at the end of the connection, signals
/// that end.
pub(super) struct PeerTransport<T> {
    inner: T,
    unanswered: Arc<Unanswered>,
    unread: Arc<AtomicUsize>,
    /// Cancelled when the server has too many unread messages.
    is_stuck: CancellationToken,
    /// Error for a request beyond the limit, while it is being sent.
    refusing: JoinSet<()>,
    warnings: PacedLog,
    _gone: DropGuard,
}

impl<T> PeerTransport<T> {
    /// Wraps a transport; `gone` is dropped at the end of the connection.
    pub(super) fn new(inner: T, gone: DropGuard) -> Self {
        Self {
            inner,
            unanswered: Arc::default(),
            unread: Arc::default(),
            is_stuck: CancellationToken::new(),
            refusing: JoinSet::new(),
            warnings: PacedLog::default(),
            _gone: gone,
        }
    }
}

/// Message on its way to the server; counted until it is sent or dropped.
struct Outgoing {
    unread: Arc<AtomicUsize>,
    /// Request that the message answers.
    answers: Option<(Arc<Unanswered>, RequestId)>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.unread.fetch_sub(1, Ordering::Relaxed);
        if let Some((unanswered, id)) = &self.answers {
            unanswered.lock().remove(id);
        }
    }
}

impl<T: Transport<RoleClient>> PeerTransport<T> {
    /// Counts a message that is to be sent.
    fn begin(&self, message: &TxJsonRpcMessage<RoleClient>) -> Outgoing {
        let id = match message {
            JsonRpcMessage::Response(answer) => Some(answer.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let answers = id.map(|id| (Arc::clone(&self.unanswered), id));
        if self.unread.fetch_add(1, Ordering::Relaxed) >= MAX_UNREAD {
            self.is_stuck.cancel();
        }
        Outgoing { unread: Arc::clone(&self.unread), answers }
    }

    /// Counts a message of the server; none if it is a request that is not to be answered.
    fn admit(
        &mut self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        match &message {
            JsonRpcMessage::Request(request) => {
                let id = &request.id;
                if matches!(id, RequestId::String(id) if id.len() > MAX_ID_BYTES) {
                    tracing::debug!("ignored a request of a tool server: its id is too long");
                    return None;
                }
                let mut unanswered = self.unanswered.lock();
                if unanswered.contains(id) {
                    tracing::debug!("ignored a request of a tool server: its id is in use");
                    return None;
                }
                if unanswered.len() >= MAX_UNANSWERED {
                    drop(unanswered);
                    let id = id.clone();
                    self.refuse(id);
                    return None;
                }
                unanswered.insert(id.clone());
            }
            // rmcp does not answer a request that its sender has cancelled.
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.unanswered.lock().remove(id);
                }
            }
            _ => {}
        }
        Some(message)
    }

    /// Answers a request beyond the limit with an error; ignores it while the last such error is
    /// unread.
    fn refuse(&mut self, id: RequestId) {
        while self.refusing.try_join_next().is_some() {}
        if !self.refusing.is_empty() {
            return;
        }
        self.warnings.log(|left_out| {
            tracing::warn!(left_out, "a tool server does not read the answers to its requests");
        });
        let about = format!(
            "{MAX_UNANSWERED} of your requests wait for their answers, the maximum: read these first"
        );
        let error = JsonRpcMessage::error(ErrorData::new(TOO_MANY, about, None), Some(id));
        let sending = self.inner.send(error);
        self.refusing.spawn(async move {
            if let Err(error) = sending.await {
                tracing::debug!(%error, "cannot refuse a request of a tool server");
            }
        });
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for PeerTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let outgoing = self.begin(&item);
        let sending = self.inner.send(item);
        async move {
            let _outgoing = outgoing;
            sending.await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = tokio::select! {
                message = self.inner.receive() => message?,
                () = self.is_stuck.cancelled() => {
                    tracing::warn!("a tool server does not read its messages; disconnecting it");
                    return None;
                }
            };
            if let Some(message) = self.admit(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::FutureExt as _;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;

    /// Server that has sent these messages, and reads ours one by one.
    struct Peer {
        sent: Vec<Value>,
        /// One place: our further messages wait until the server reads.
        read: mpsc::Sender<Value>,
    }

    impl Transport<RoleClient> for Peer {
        type Error = Infallible;

        fn send(
            &mut self,
            item: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            let read = self.read.clone();
            async move {
                read.send(serde_json::to_value(item).unwrap()).await.unwrap();
                Ok(())
            }
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            if self.sent.is_empty() {
                return std::future::pending().await;
            }
            let message = self.sent.remove(0);
            Some(serde_json::from_str(&message.to_string()).unwrap())
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    fn transport(sent: Vec<Value>) -> (PeerTransport<Peer>, mpsc::Receiver<Value>) {
        let (read, reads) = mpsc::channel(1);
        let gone = CancellationToken::new().drop_guard();
        (PeerTransport::new(Peer { sent, read }, gone), reads)
    }

    fn request(id: &Value, method: &str) -> Value {
        let params = match method {
            "sampling/createMessage" => json!({"messages": [], "maxTokens": 1}),
            _ => json!({}),
        };
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    fn answer(id: RequestId) -> TxJsonRpcMessage<RoleClient> {
        JsonRpcMessage::response(rmcp::model::ClientResult::empty(()), id)
    }

    /// Reads messages until none is left; returns the ids of the requests among them.
    fn requests(transport: &mut PeerTransport<Peer>) -> Vec<RequestId> {
        let mut ids = Vec::new();
        while let Some(Some(message)) = transport.receive().now_or_never() {
            if let JsonRpcMessage::Request(request) = message {
                ids.push(request.id);
            }
        }
        ids
    }

    #[tokio::test]
    async fn requests_beyond_the_limit_are_refused_until_their_answers_are_read() {
        for method in ["ping", "roots/list", "sampling/createMessage"] {
            let all = (0..3 * MAX_UNANSWERED).map(|id| request(&json!(id), method)).collect();
            let (mut transport, mut reads) = transport(all);
            let mut ids = requests(&mut transport);
            assert_eq!(ids.len(), MAX_UNANSWERED, "{method}");
            let refused = reads.recv().await.unwrap();
            assert_eq!(refused["id"], MAX_UNANSWERED, "the first excess is told");
            let about = refused["error"]["message"].as_str().unwrap();
            assert!(about.starts_with("64 of your requests wait"), "{about}");
            let first = transport.send(answer(ids.remove(0)));
            first.await.unwrap();
            transport.inner.sent = vec![request(&json!(900), method), request(&json!(901), method)];
            assert_eq!(requests(&mut transport), [RequestId::Number(900)], "{method}");
        }
    }

    #[tokio::test]
    async fn an_answer_counts_until_it_is_read_or_dropped() {
        let (mut transport, _reads) = transport(vec![request(&json!(1), "ping")]);
        requests(&mut transport);
        // The only place is taken: this one waits.
        transport.send(answer(RequestId::Number(7))).await.unwrap();
        let mut waits = Box::pin(transport.send(answer(RequestId::Number(1))));
        assert!(waits.as_mut().now_or_never().is_none());
        assert_eq!(transport.unanswered.lock().len(), 1);
        drop(waits);
        assert_eq!(transport.unanswered.lock().len(), 0);
        assert_eq!(transport.unread.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn repeated_long_and_cancelled_ids_take_no_place_twice() {
        let cancelled = |id: i64| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        let long = json!("x".repeat(MAX_ID_BYTES + 1));
        let mut all = vec![request(&json!(1), "ping"); 200];
        all.extend([request(&long, "ping")]);
        all.extend((2..200).flat_map(|id| [request(&json!(id), "ping"), cancelled(id)]));
        let (mut transport, mut reads) = transport(all);
        assert_eq!(requests(&mut transport).len(), 199);
        assert_eq!(transport.unanswered.lock().len(), 1);
        assert!(reads.try_recv().is_err(), "nothing is refused");
    }

    #[tokio::test]
    async fn a_server_that_reads_nothing_is_disconnected() {
        let (mut transport, _reads) = transport(Vec::new());
        let mut waiting = Vec::new();
        for id in 0..i64::try_from(MAX_UNREAD).unwrap() {
            waiting.push(transport.send(answer(RequestId::Number(id))));
        }
        assert!(transport.receive().now_or_never().is_none(), "the connection stays open");
        waiting.push(transport.send(answer(RequestId::Number(-1))));
        assert!(transport.receive().await.is_none(), "the connection ends");
    }
}
