//! Remote procedure calls between instances over Redis. Not for the content of a call.
//!
//! - A request gets one answer within its deadline, or none. No request is sent twice. A caller
//!   that stops waiting cancels the request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use super::shared::{RedisUnavailable, Shared, Subscriber, millis};

/// Queue of messages to read. If it is full, new messages are dropped.
const QUEUE: usize = 1_024;
/// Maximum number of requests of other instances in progress. Further requests are dropped.
const MAX_IN_PROGRESS: usize = 512;
/// Maximum number of own requests that wait for an answer.
const MAX_WAITING: usize = 4_096;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Handler of one RPC method.
pub(super) type RpcHandler = Arc<dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Reason that a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The instance is gone. It has not received the request.
    #[error("the instance has stopped")]
    Gone,
    /// The deadline passed. The instance may have received the request.
    #[error("the instance did not answer in time")]
    Late,
    /// Redis is lost. The instance may have received the request.
    #[error("redis is lost")]
    Lost,
    /// Too many requests are waiting. The request was not sent.
    #[error("too many requests are waiting for an answer")]
    Busy,
    /// The request or its answer is too long.
    #[error("the message is longer than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
}

/// Message between two instances.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RpcMessage {
    #[serde(rename = "ask")]
    Request {
        id: String,
        from: String,
        #[serde(rename = "what")]
        method: String,
        body: Value,
        within_ms: u64,
    },
    /// `None` if the body is too long.
    Answer { id: String, body: Option<Value> },
    #[serde(rename = "withdraw")]
    Cancel { id: String },
    /// Notification: has no answer.
    #[serde(rename = "tell")]
    Notify {
        #[serde(rename = "what")]
        method: String,
        body: Value,
    },
}

/// Sends and answers requests. Clones share one connection.
#[derive(Clone)]
pub(super) struct Rpc(Arc<Inner>);

struct Inner {
    shared: Shared,
    messages: mpsc::Sender<String>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Option<Value>>>>,
    handlers: Mutex<HashMap<&'static str, RpcHandler>>,
}

impl Rpc {
    /// Creates it without handlers and starts its reader as a background task.
    pub(super) fn new(shared: Shared) -> Self {
        let (messages, read) = mpsc::channel(QUEUE);
        let rpc = Self(Arc::new(Inner {
            shared: shared.clone(),
            messages,
            waiting: Mutex::default(),
            handlers: Mutex::default(),
        }));
        let reading = rpc.clone();
        shared.spawn(async move { reading.read(read).await });
        rpc
    }

    /// Returns the channel of this instance, and its subscriber.
    pub(super) fn subscriber(&self) -> (String, Subscriber) {
        let messages = self.0.messages.clone();
        let subscriber = move |message| {
            if messages.try_send(message).is_err() {
                tracing::warn!("dropped a message of another instance: the queue is full");
            }
        };
        (self.channel(self.0.shared.instance()), Box::new(subscriber))
    }

    fn channel(&self, instance: &str) -> String {
        self.0.shared.key(&format!("to:{instance}"))
    }

    /// Registers the handler of an RPC method.
    pub(super) fn register(&self, method: &'static str, handler: RpcHandler) {
        self.0
            .handlers
            .lock()
            .expect("nothing panics while it holds the handlers")
            .insert(method, handler);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Option<Value>>>> {
        self.0.waiting.lock().expect("nothing panics while it holds the requests")
    }

    /// Sends a message. Returns the number of receivers.
    async fn send(&self, instance: &str, message: &RpcMessage) -> Result<u64, NoAnswer> {
        let text = serde_json::to_string(message).map_err(|_| NoAnswer::TooLong)?;
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(NoAnswer::TooLong);
        }
        let channel = self.channel(instance);
        let text = &text;
        let sent = self.0.shared.run(|mut redis| async move {
            redis::cmd("PUBLISH").arg(channel).arg(text).query_async(&mut redis).await
        });
        sent.await.map_err(|RedisUnavailable| NoAnswer::Lost)
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub(super) async fn call(
        &self,
        instance: &str,
        method: &'static str,
        body: Value,
        within: Duration,
    ) -> Result<Value, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let mut pending = PendingRequest {
            rpc: self.clone(),
            instance: instance.to_owned(),
            id: uuid::Uuid::new_v4().simple().to_string(),
            answered: false,
        };
        {
            let mut waiting = self.waiting();
            if waiting.len() >= MAX_WAITING {
                return Err(NoAnswer::Busy);
            }
            waiting.insert(pending.id.clone(), reply);
        }
        let message = RpcMessage::Request {
            id: pending.id.clone(),
            from: self.0.shared.instance().to_owned(),
            method: method.to_owned(),
            body,
            within_ms: millis(within),
        };
        let mut up = self.0.shared.up();
        let receivers =
            self.send(instance, &message).await.inspect_err(|_| pending.answered = true)?;
        if receivers == 0 {
            pending.answered = true;
            return Err(NoAnswer::Gone);
        }
        let answer = tokio::select! {
            answer = timeout(within, answer) => answer.map_err(|_| NoAnswer::Late)?,
            _ = up.wait_for(|up| !up) => return Err(NoAnswer::Lost),
        };
        pending.answered = true;
        answer.ok().flatten().ok_or(NoAnswer::TooLong)
    }

    /// Reads messages of other instances, and runs the handlers of their requests.
    async fn read(&self, mut messages: mpsc::Receiver<String>) {
        let mut running =
            RunningRequests { rpc: self.clone(), tasks: JoinSet::new(), by_id: HashMap::new() };
        loop {
            tokio::select! {
                Some(text) = messages.recv() => match serde_json::from_str(&text) {
                    Ok(message) => running.handle(message),
                    Err(error) => tracing::warn!(%error, "cannot read a message of another instance"),
                },
                Some(done) = running.tasks.join_next() => if let Ok(id) = done {
                    running.by_id.remove(&id);
                },
            }
        }
    }
}

/// Requests of other instances that are in progress.
struct RunningRequests {
    rpc: Rpc,
    tasks: JoinSet<String>,
    by_id: HashMap<String, AbortHandle>,
}

impl RunningRequests {
    fn handle(&mut self, message: RpcMessage) {
        match message {
            RpcMessage::Answer { id, body } => {
                let waiting = self.rpc.waiting().remove(&id);
                // The caller may have stopped waiting.
                waiting.map(|w| w.send(body).unwrap_or_default()).unwrap_or_default();
            }
            RpcMessage::Cancel { id } => {
                if let Some(task) = self.by_id.remove(&id) {
                    task.abort();
                }
            }
            RpcMessage::Request { id, from, method, body, within_ms } => {
                self.begin(id, Some(from), &method, body, Duration::from_millis(within_ms));
            }
            RpcMessage::Notify { method, body } => {
                let id = uuid::Uuid::new_v4().simple().to_string();
                self.begin(id, None, &method, body, Duration::from_secs(5));
            }
        }
    }

    fn begin(
        &mut self,
        id: String,
        from: Option<String>,
        method: &str,
        body: Value,
        within: Duration,
    ) {
        let handlers =
            self.rpc.0.handlers.lock().expect("nothing panics while it holds the handlers");
        let handler = handlers.get(method).map(Arc::clone);
        drop(handlers);
        let Some(handler) = handler.filter(|_| self.tasks.len() < MAX_IN_PROGRESS) else {
            tracing::warn!(
                method,
                "dropped a request of another instance: unknown method, or too many requests"
            );
            return;
        };
        let rpc = self.rpc.clone();
        let pending = id.clone();
        let task = self.tasks.spawn(async move {
            if let Ok(body) = timeout(within, handler(body)).await
                && let Some(from) = from
            {
                rpc.answer(&from, pending.clone(), body).await;
            }
            pending
        });
        self.by_id.insert(id, task);
    }
}

impl Rpc {
    async fn answer(&self, from: &str, id: String, body: Value) {
        let whole = RpcMessage::Answer { id: id.clone(), body: Some(body) };
        let sent = match self.send(from, &whole).await {
            Err(NoAnswer::TooLong) => self.send(from, &RpcMessage::Answer { id, body: None }).await,
            other => other,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "cannot send an answer to another instance");
        }
    }
}

/// Guard of a request that waits for its answer.
struct PendingRequest {
    rpc: Rpc,
    instance: String,
    id: String,
    answered: bool,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.rpc.waiting().remove(&self.id);
        if !self.answered {
            let rpc = self.rpc.clone();
            let instance = self.instance.clone();
            let message = RpcMessage::Cancel { id: std::mem::take(&mut self.id) };
            self.rpc.0.shared.spawn_finishing(async move {
                if rpc.send(&instance, &message).await.is_err() {
                    tracing::debug!("cannot cancel a request to another instance");
                }
            });
        }
    }
}
