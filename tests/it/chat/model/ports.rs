//! The ports of the chat service under random sequences: a model that follows its messages, the
//! rules of the state server without a socket, and a bus that counts events. Every step of a turn
//! passes [`Steps`], so that a client can leave at each. Not for the expected results.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use hearken_cluster::LocalBus;
use hearken_ports::{
    BoxError, ChatMessage, EventBus, Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind,
    Published, Role, StateError, StateEvent, StateOutcome, StateServer, Tool, ToolRequest, Watch,
};
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use hearken_state_server::characters::CallOutcome;
use hearken_state_server::storage::StorageError;
use hearken_state_server::{CallError, Storage, tools};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::task::yield_now;

use super::Trouble;

/// Counts the steps of turns, and holds the failure to inject.
pub(super) struct Steps {
    passed: watch::Sender<usize>,
    trouble: Mutex<Trouble>,
    /// The world of this session cannot be deleted.
    pub(super) undeletable: Mutex<Option<SessionId>>,
    /// Slows the deletion of worlds down, so that another request can come in between.
    pub(super) slow_deletes: AtomicBool,
    /// Number of worlds that were to be deleted so far.
    pub(super) deletes: watch::Sender<usize>,
    /// Prompts since the failure was set, without the system message.
    prompts: Mutex<Vec<Vec<ChatMessage>>>,
}

impl Steps {
    pub(super) fn new() -> Self {
        Self {
            passed: watch::Sender::new(0),
            trouble: Mutex::new(Trouble::None),
            undeletable: Mutex::default(),
            slow_deletes: AtomicBool::new(false),
            deletes: watch::Sender::new(0),
            prompts: Mutex::default(),
        }
    }

    /// Number of steps so far.
    pub(super) fn passed(&self) -> usize {
        *self.passed.borrow()
    }

    /// Waits until this many steps have passed.
    pub(super) async fn until(&self, passed: usize) {
        let mut told = self.passed.subscribe();
        told.wait_for(|now| *now >= passed).await.expect("the sender lives");
    }

    /// Sets the failure of the following requests.
    pub(super) fn set(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap() = trouble;
        self.prompts.lock().unwrap().clear();
    }

    fn trouble(&self) -> Trouble {
        *self.trouble.lock().unwrap()
    }

    /// The first prompt since then.
    pub(super) fn first_prompt(&self) -> Option<Vec<ChatMessage>> {
        self.prompts.lock().unwrap().first().cloned()
    }

    /// Counts a step; a waiting test may act before the turn continues.
    async fn pass(&self) {
        self.passed.send_modify(|passed| *passed += 1);
        yield_now().await;
        yield_now().await;
    }
}

/// The model: makes the calls of its last message, or echoes it.
pub(super) struct Model(pub(super) Arc<Steps>);

fn failure(kind: ProviderErrorKind) -> Vec<Result<LlmDelta, ProviderError>> {
    vec![Err(ProviderError::new("scripted", kind))]
}

fn calls_of(text: &str) -> Vec<Result<LlmDelta, ProviderError>> {
    let call = |(n, line): (usize, &str)| {
        let (name, arguments) = line.strip_prefix("call ")?.split_once(' ')?;
        let id = format!("call-{n}");
        let request = ToolRequest {
            id,
            name: name.into(),
            arguments: arguments.into(),
            ..ToolRequest::default()
        };
        Some(Ok(LlmDelta::Call(request)))
    };
    text.lines().enumerate().filter_map(call).collect()
}

impl Model {
    fn deltas(&self, messages: &[ChatMessage]) -> Vec<Result<LlmDelta, ProviderError>> {
        let last = messages.last().expect("a prompt has messages");
        let told = last.role == Role::Tool;
        let asked = messages.iter().rfind(|m| m.role == Role::User).expect("a user message");
        let trouble = self.0.trouble();
        let calls = match trouble {
            Trouble::ModelAway => return failure(ProviderErrorKind::Unavailable),
            Trouble::ModelRefuses => return failure(ProviderErrorKind::BadRequest),
            Trouble::ModelAwayBehindTools if told => {
                return failure(ProviderErrorKind::Unavailable);
            }
            Trouble::ModelInsists => calls_of(&asked.content),
            _ if told => Vec::new(),
            _ => calls_of(&asked.content),
        };
        let mut deltas = Vec::new();
        if calls.is_empty() && trouble != Trouble::ModelSilent {
            let text = |text: &str| Ok(LlmDelta::Text(text.to_owned()));
            deltas.extend([text("You said "), text(&last.content)]);
        }
        if trouble != Trouble::ModelSilent {
            deltas.extend(calls);
        }
        deltas.push(Ok(LlmDelta::Finished { truncated: false, usage: None }));
        deltas
    }
}

impl Llm for Model {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let deltas = self.deltas(&prompt.messages);
        let steps = Arc::clone(&self.0);
        steps.prompts.lock().unwrap().push(prompt.messages[1..].to_vec());
        let step = move |delta| {
            let steps = Arc::clone(&steps);
            async move {
                steps.pass().await;
                delta
            }
        };
        stream::iter(deltas).then(step).boxed()
    }
}

/// The rules of the state server as a port.
pub(super) struct Worlds {
    pub(super) storage: Arc<Storage>,
    pub(super) steps: Arc<Steps>,
}

fn refused(refused: StorageError) -> StateError {
    match refused {
        StorageError::Conflict(version) => StateError::Conflict(Some(version)),
        StorageError::Unknown(what) => StateError::Unknown(what),
        other => StateError::Refused(other.to_string()),
    }
}

fn away() -> StateError {
    StateError::Failed("it is unreachable".into())
}

/// The timestamp of an event, in seconds since 1970, equals the hero's hit points.
fn outcome(done: CallOutcome, version: i64) -> StateOutcome {
    let event = |(kind, about): (&str, Value)| StateEvent {
        id: Some(uuid::Uuid::new_v4().to_string()),
        at: about["hp"].as_i64().and_then(|hp| Timestamp::from_second(hp).ok()),
        kind: kind.to_owned(),
        data: about.as_object().cloned().unwrap_or_default(),
    };
    StateOutcome {
        result: Value::Object(done.result),
        version: Some(version),
        events: done.events.into_iter().map(event).collect(),
        error: None,
    }
}

impl Worlds {
    fn stepped<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Storage, Trouble) -> Result<T, StateError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StateError>> {
        let storage = Arc::clone(&self.storage);
        let steps = Arc::clone(&self.steps);
        Box::pin(async move {
            steps.pass().await;
            let done = match steps.trouble() {
                Trouble::WorldAway => Err(away()),
                trouble => work(&storage, trouble),
            };
            steps.pass().await;
            done
        })
    }
}

impl StateServer for Worlds {
    fn tools(&self) -> BoxFuture<'static, Result<Arc<[Tool]>, StateError>> {
        let list = tools::list();
        let tool = |tool: &Value| Tool {
            name: tool["name"].as_str().unwrap().into(),
            description: String::new(),
            parameters: tool["parameters"].clone(),
            finishes: true,
            destructive: false,
        };
        let all: Arc<[Tool]> = list["tools"].as_array().unwrap().iter().map(tool).collect();
        self.stepped(move |_, _| Ok(all))
    }

    fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        version: Option<i64>,
    ) -> BoxFuture<'static, Result<StateOutcome, StateError>> {
        let session = session.clone();
        let tool = tool.to_owned();
        self.stepped(move |storage, trouble| {
            match trouble {
                Trouble::CallsFail => return Err(away()),
                Trouble::Conflicts => return Err(StateError::Conflict(Some(0))),
                _ => {}
            }
            let done = match storage.call(session.as_str(), &tool, &arguments, version) {
                Ok((done, version)) => outcome(done, version),
                Err(StorageError::CallError(CallError::Rules(why))) => {
                    StateOutcome { error: Some(why), ..StateOutcome::default() }
                }
                Err(other) => return Err(refused(other)),
            };
            match trouble {
                Trouble::AnswersLost => Err(StateError::Timeout(Duration::from_secs(10))),
                _ => Ok(done),
            }
        })
    }

    fn state(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Map<String, Value>, StateError>> {
        let session = session.clone();
        self.stepped(move |storage, _| storage.state(session.as_str()).map_err(refused))
    }

    fn create(
        &self,
        session: &SessionId,
        name: &str,
    ) -> BoxFuture<'static, Result<(), StateError>> {
        let session = session.clone();
        let name = name.to_owned();
        self.stepped(move |storage, _| match storage.create(session.as_str(), &name) {
            Ok(_) | Err(StorageError::Taken) => Ok(()),
            Err(other) => Err(refused(other)),
        })
    }

    fn delete(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StateError>> {
        self.steps.deletes.send_modify(|deletes| *deletes += 1);
        if self.steps.undeletable.lock().unwrap().as_ref() == Some(session) {
            let kept = StateError::Refused("it is undeletable".into());
            return Box::pin(std::future::ready(Err(kept)));
        }
        let session = session.clone();
        let steps = Arc::clone(&self.steps);
        let deleted = self.stepped(move |storage, _| match storage.delete(session.as_str()) {
            Ok(()) | Err(StorageError::Unknown(_)) => Ok(()),
            Err(other) => Err(refused(other)),
        });
        Box::pin(async move {
            for _ in 0..if steps.slow_deletes.load(Ordering::Relaxed) { 30 } else { 0 } {
                steps.pass().await;
                tokio::task::spawn_blocking(|| ()).await.expect("it does nothing");
            }
            deleted.await
        })
    }

    fn restore(
        &self,
        session: &SessionId,
        version: i64,
    ) -> BoxFuture<'static, Result<bool, StateError>> {
        let session = session.clone();
        self.stepped(move |storage, _| {
            storage.restore(session.as_str(), version).map(|_| true).map_err(refused)
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }
}

/// The bus of a single server, with a step before and after each event.
pub(super) struct Bus {
    pub(super) bus: Arc<LocalBus>,
    pub(super) steps: Arc<Steps>,
}

impl EventBus for Bus {
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>> {
        let bus = Arc::clone(&self.bus);
        let steps = Arc::clone(&self.steps);
        Box::pin(async move {
            steps.pass().await;
            let published = bus.publish(event).await?;
            steps.pass().await;
            Ok(published)
        })
    }

    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>> {
        self.bus.watch(session, after)
    }

    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>> {
        self.bus.forget(session)
    }
}
