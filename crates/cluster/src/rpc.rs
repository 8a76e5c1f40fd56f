//! Remote procedure calls between instances over Redis. Not for the content of a call.
//!
//! - A request gets one answer within its deadline, or none. Nothing is sent twice. A caller that
//!   stops waiting cancels the request.

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

/// Queue of messages to read. Beyond, the newest is dropped.
const LETTERS: usize = 1_024;
/// Most requests of other instances in progress. Beyond, the newest is dropped.
const MAX_WORKED_ON: usize = 512;
/// Most own requests that wait for an answer.
const MAX_WAITING: usize = 4_096;
/// Longest message, in bytes.
const MAX_LETTER_BYTES: usize = 4 << 20;

/// Handler of one RPC method.
pub(super) type RpcHandler = Arc<dyn Fn(Value) -> BoxFuture<'static, Value> + Send + Sync>;

/// Reason that a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The instance is gone. It has not received the request.
    #[error("the instance has gone")]
    Gone,
    /// The deadline passed. The instance may have received the request.
    #[error("the instance does not answer in time")]
    Late,
    /// Redis is lost. The instance may have received the request.
    #[error("redis is lost")]
    Lost,
    /// Too many requests wait. The request was not sent.
    #[error("too many questions wait")]
    Busy,
    /// The request or its answer is too long.
    #[error("it is longer than {MAX_LETTER_BYTES} bytes")]
    TooLong,
}

/// Message between two instances.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Letter {
    Ask {
        id: String,
        from: String,
        what: String,
        body: Value,
        within_ms: u64,
    },
    /// Has no body if the body is too long.
    Answer {
        id: String,
        body: Option<Value>,
    },
    Withdraw {
        id: String,
    },
    /// Notification: has no answer.
    Tell {
        what: String,
        body: Value,
    },
}

/// Sends and answers requests. Clones share one connection.
#[derive(Clone)]
pub(super) struct Rpc(Arc<Inner>);

struct Inner {
    shared: Shared,
    letters: mpsc::Sender<String>,
    waiting: Mutex<HashMap<String, oneshot::Sender<Option<Value>>>>,
    desks: Mutex<HashMap<&'static str, RpcHandler>>,
}

impl Rpc {
    /// Creates it without handlers and starts its reader as a background task.
    pub(super) fn new(shared: Shared) -> Self {
        let (letters, read) = mpsc::channel(LETTERS);
        let rpc = Self(Arc::new(Inner {
            shared: shared.clone(),
            letters,
            waiting: Mutex::default(),
            desks: Mutex::default(),
        }));
        let reading = rpc.clone();
        shared.attend(async move { reading.read(read).await });
        rpc
    }

    /// Returns the channel of this instance, and its subscriber.
    pub(super) fn subscriber(&self) -> (String, Subscriber) {
        let letters = self.0.letters.clone();
        let subscriber = move |letter| {
            if letters.try_send(letter).is_err() {
                tracing::warn!("a letter of another instance was dropped: there are too many");
            }
        };
        (self.channel(self.0.shared.instance()), Box::new(subscriber))
    }

    fn channel(&self, instance: &str) -> String {
        self.0.shared.key(&format!("to:{instance}"))
    }

    /// Registers the handler of an RPC method.
    pub(super) fn open(&self, what: &'static str, desk: RpcHandler) {
        self.0.desks.lock().expect("nothing panics while it holds the desks").insert(what, desk);
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Option<Value>>>> {
        self.0.waiting.lock().expect("nothing panics while it holds the questions")
    }

    /// Sends a message. Returns the number of receivers.
    async fn post(&self, instance: &str, letter: &Letter) -> Result<u64, NoAnswer> {
        let text = serde_json::to_string(letter).map_err(|_| NoAnswer::TooLong)?;
        if text.len() > MAX_LETTER_BYTES {
            return Err(NoAnswer::TooLong);
        }
        let (channel, text) = (self.channel(instance), &text);
        let posted = self.0.shared.run(|mut redis| async move {
            redis::cmd("PUBLISH").arg(channel).arg(text).query_async(&mut redis).await
        });
        posted.await.map_err(|RedisUnavailable| NoAnswer::Lost)
    }

    /// Sends a request and waits for its answer. Dropping the future cancels the request.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub(super) async fn ask(
        &self,
        instance: &str,
        what: &'static str,
        body: Value,
        within: Duration,
    ) -> Result<Value, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let mut asked = Asked {
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
            waiting.insert(asked.id.clone(), reply);
        }
        let letter = Letter::Ask {
            id: asked.id.clone(),
            from: self.0.shared.instance().to_owned(),
            what: what.to_owned(),
            body,
            within_ms: millis(within),
        };
        let mut up = self.0.shared.up();
        let heard = self.post(instance, &letter).await.inspect_err(|_| asked.answered = true)?;
        if heard == 0 {
            asked.answered = true;
            return Err(NoAnswer::Gone);
        }
        let answer = tokio::select! {
            answer = timeout(within, answer) => answer.map_err(|_| NoAnswer::Late)?,
            _ = up.wait_for(|up| !up) => return Err(NoAnswer::Lost),
        };
        asked.answered = true;
        answer.ok().flatten().ok_or(NoAnswer::TooLong)
    }

    /// Reads messages of other instances, and runs the handlers of their requests.
    async fn read(&self, mut letters: mpsc::Receiver<String>) {
        let mut work = Work { rpc: self.clone(), tasks: JoinSet::new(), by_id: HashMap::new() };
        loop {
            tokio::select! {
                Some(text) = letters.recv() => match serde_json::from_str(&text) {
                    Ok(letter) => work.take(letter),
                    Err(error) => tracing::warn!(%error, "a letter of another instance is no such"),
                },
                Some(done) = work.tasks.join_next() => if let Ok(id) = done {
                    work.by_id.remove(&id);
                },
            }
        }
    }
}

/// Requests of other instances that are in progress.
struct Work {
    rpc: Rpc,
    tasks: JoinSet<String>,
    by_id: HashMap<String, AbortHandle>,
}

impl Work {
    fn take(&mut self, letter: Letter) {
        match letter {
            Letter::Answer { id, body } => {
                let waiting = self.rpc.waiting().remove(&id);
                // The caller may have stopped waiting.
                waiting.map(|w| w.send(body).unwrap_or_default()).unwrap_or_default();
            }
            Letter::Withdraw { id } => {
                if let Some(task) = self.by_id.remove(&id) {
                    task.abort();
                }
            }
            Letter::Ask { id, from, what, body, within_ms } => {
                self.begin(id, Some(from), &what, body, Duration::from_millis(within_ms));
            }
            Letter::Tell { what, body } => {
                let id = uuid::Uuid::new_v4().simple().to_string();
                self.begin(id, None, &what, body, Duration::from_secs(5));
            }
        }
    }

    fn begin(
        &mut self,
        id: String,
        from: Option<String>,
        what: &str,
        body: Value,
        within: Duration,
    ) {
        let desks = self.rpc.0.desks.lock().expect("nothing panics while it holds the desks");
        let desk = desks.get(what).map(Arc::clone);
        drop(desks);
        let Some(desk) = desk.filter(|_| self.tasks.len() < MAX_WORKED_ON) else {
            tracing::warn!(what, "a question of another instance is left without an answer");
            return;
        };
        let (rpc, asked) = (self.rpc.clone(), id.clone());
        let task = self.tasks.spawn(async move {
            if let Ok(body) = timeout(within, desk(body)).await
                && let Some(from) = from
            {
                rpc.answer(&from, asked.clone(), body).await;
            }
            asked
        });
        self.by_id.insert(id, task);
    }
}

impl Rpc {
    async fn answer(&self, from: &str, id: String, body: Value) {
        let whole = Letter::Answer { id: id.clone(), body: Some(body) };
        let posted = match self.post(from, &whole).await {
            Err(NoAnswer::TooLong) => self.post(from, &Letter::Answer { id, body: None }).await,
            other => other,
        };
        if let Err(error) = posted {
            tracing::debug!(%error, "an answer does not reach who asked");
        }
    }
}

/// Guard of a request that waits for its answer.
struct Asked {
    rpc: Rpc,
    instance: String,
    id: String,
    answered: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.rpc.waiting().remove(&self.id);
        if !self.answered {
            let (rpc, instance) = (self.rpc.clone(), self.instance.clone());
            let letter = Letter::Withdraw { id: std::mem::take(&mut self.id) };
            self.rpc.0.shared.begin(async move {
                if rpc.post(&instance, &letter).await.is_err() {
                    tracing::debug!("a question could not be withdrawn");
                }
            });
        }
    }
}
