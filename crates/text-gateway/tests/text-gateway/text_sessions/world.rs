//! Environment of the sessions: a store and locks that several instances share, a model whose words
//! are a function of its prompt, a tool of the server. Not for requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_base::wall_clock::Clock;
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{
    BoxError, ChatMessage, KeptSession, Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind,
    Role, SessionLock, SessionLocks, SessionStore, StoreOutcome, Tool, ToolCall, ToolError,
    ToolOutput, ToolRequest, ToolSource,
};
use hearken_proto::ids::SessionId;
use hearken_text_gateway::{Sessions, TextGateway, TextGatewaySettings};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ms;
use crate::text_clients::keep_in;

/// Idle time of sessions, unless a sequence changes it.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// Idle time after such a change.
pub(crate) const SHORT_IDLE: Duration = Duration::from_secs(25);
/// Maximum number of messages that a session remembers.
pub(crate) const MAX_MESSAGES: usize = 10;

/// Store of all instances, which fails on demand.
#[derive(Default)]
pub(crate) struct MemoryStore {
    pub(crate) rows: Mutex<HashMap<SessionId, KeptSession>>,
    pub(crate) fails: AtomicBool,
    pub(crate) has_failed: AtomicBool,
    /// Number of writes that found a newer copy.
    pub(crate) overtaken: AtomicU64,
}

impl MemoryStore {
    /// Takes a moment, and fails if the store is down.
    async fn works(&self) -> Result<(), BoxError> {
        tokio::time::sleep(ms(2)).await;
        match self.fails.load(Ordering::Relaxed) {
            true => Err("the store is down".into()),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        self.works().await?;
        Ok(self.rows.lock().unwrap().get(id).cloned())
    }

    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError> {
        self.works().await?;
        let outcome = keep_in(&mut self.rows.lock().unwrap(), session, known);
        let is_overtaken = outcome == StoreOutcome::Overtaken;
        self.overtaken.fetch_add(u64::from(is_overtaken), Ordering::Relaxed);
        Ok(outcome)
    }

    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError> {
        self.works().await?;
        let mut rows = self.rows.lock().unwrap();
        Ok(rows.get_mut(id).map(|row| row.last_used = last_used).is_some())
    }

    async fn forget(&self, id: &SessionId) -> Result<(), BoxError> {
        self.works().await?;
        self.rows.lock().unwrap().remove(id);
        Ok(())
    }

    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError> {
        self.works().await?;
        let mut rows = self.rows.lock().unwrap();
        let before = rows.len();
        rows.retain(|_, session| session.last_used >= since);
        Ok((before - rows.len()) as u64)
    }
}

/// Locks of all instances.
#[derive(Default)]
struct Locks {
    all: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    fence: Arc<AtomicU64>,
}

impl SessionLocks for Locks {
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let lock = Arc::clone(self.all.lock().unwrap().entry(session.to_owned()).or_default());
        let fence = Arc::clone(&self.fence);
        Box::pin(async move {
            let held = tokio::time::timeout(wait, lock.lock_owned()).await.ok();
            let fence = fence.fetch_add(1, Ordering::Relaxed).cast_signed();
            let lost = CancellationToken::new();
            Ok(held.map(|held| SessionLock { fence, lost, held: Box::new(held) }))
        })
    }

    fn observe(&self, _: i64) {}
}

/// A model that follows the last words of a person: `q7 slow`.
#[derive(Default)]
pub(crate) struct TestModel {
    /// First prompt of each request, by the request's words.
    pub(crate) asked: Mutex<Vec<(String, Vec<ChatMessage>)>>,
    calls: AtomicU64,
}

/// More calls than a round may have, some of them wrong.
const MANY: [(&str, &str); 21] = {
    let mut calls = [("lamp", "{}"); 21];
    calls[0] = ("lamp", "[1]");
    calls[3] = ("lamp", "{");
    calls[5] = ("nothing", "{}");
    calls
};

/// Returns the delay and the calls of a model for these words.
fn deeds(kind: &str) -> (Duration, &'static [(&'static str, &'static str)]) {
    match kind {
        "slow" => (ms(20_000), &[]),
        "slower" => (ms(100_000), &[]),
        "server" => (ms(10), &[("turn_on", "{}")]),
        "client" => (ms(10), &[("lamp", "{}"), ("lamp", "[1]"), ("radio", "{}")]),
        "many" => (ms(10), &MANY),
        "hang" => (ms(10), &[("hang", "{}")]),
        "stuck" => (ms(10), &[("turn_on", "{}"), ("hang", "{}"), ("lamp", "{}")]),
        "mixed" => (ms(10), &[("lamp", "{}"), ("turn_on", "null"), ("lamp", "")]),
        _ => (ms(10), &[]),
    }
}

impl Llm for TestModel {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let mut messages = prompt.messages;
        messages.retain(|m| m.role != Role::System);
        let asked = messages.iter().rfind(|m| m.role == Role::User).map(|m| m.content.clone());
        let asked = asked.unwrap_or_default();
        let answers_tools = messages.last().is_some_and(|m| m.role == Role::Tool);
        if !answers_tools {
            self.asked.lock().unwrap().push((asked.clone(), messages));
        }
        let kind = asked.split(' ').next_back().unwrap_or_default().to_owned();
        let text = |text: String| Ok(LlmDelta::Text(text));
        let finished = Ok(LlmDelta::Finished { truncated: false, usage: None });
        let fault =
            ProviderError::because("model", ProviderErrorKind::Unavailable, "as the words demand");
        let (wait, calls) = if answers_tools { (ms(10), [].as_slice()) } else { deeds(&kind) };
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let call = |(n, (name, arguments)): (usize, &(&str, &str))| {
            let name = (*name).to_owned();
            let arguments = (*arguments).to_owned();
            Ok(LlmDelta::Call(ToolRequest {
                id: format!("c{number}-{n}"),
                name,
                arguments,
                ..ToolRequest::default()
            }))
        };
        let deltas: Vec<Result<LlmDelta, ProviderError>> = match kind.as_str() {
            "fail" | "refused" | "late" => vec![Err(fault)],
            "break" => vec![text("Half".into()), Err(fault)],
            "silent" => vec![finished],
            "hesitant" => vec![text("To be".into())],
            _ if calls.is_empty() => vec![text(format!("To {asked}.")), finished],
            _ => calls.iter().enumerate().map(call).chain([finished]).collect(),
        };
        let begins = stream::once(async move { tokio::time::sleep(wait).await });
        let told = begins.filter_map(|()| async { None }).chain(stream::iter(deltas));
        if kind == "hesitant" { told.chain(stream::pending()).boxed() } else { told.boxed() }
    }
}

/// A tool that changes the world, and takes 5 s.
struct World(Arc<AtomicU64>);

impl ToolSource for World {
    fn name(&self) -> &str {
        "world"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let parameters = json!({"type": "object"});
        let tool = |name: &str| {
            let name = name.into();
            let description = "Changes the world.".into();
            Tool {
                name,
                description,
                parameters: parameters.clone(),
                finishes: false,
                destructive: false,
            }
        };
        [tool("turn_on"), tool("hang")].into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let done = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::time::sleep(if call.name == "hang" { ms(60_000) } else { ms(5_000) }).await;
            done.fetch_add(1, Ordering::Relaxed);
            Ok(ToolOutput::text("on"))
        })
    }
}

/// The instances of a server, and their shared parts.
pub(crate) struct Instances {
    pub(crate) services: Vec<TextGateway>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) model: Arc<TestModel>,
    /// Number of calls of the server's tool that ran to their end.
    pub(crate) turned_on: Arc<AtomicU64>,
}

impl Instances {
    pub(crate) fn start(count: usize) -> Self {
        let store = Arc::<MemoryStore>::default();
        let model = Arc::<TestModel>::default();
        let locks = Arc::<Locks>::default();
        let turned_on = Arc::<AtomicU64>::default();
        let began = Instant::now();
        let day = jiff::Timestamp::from_second(1_750_000_000).unwrap();
        let clock: Clock = Arc::new(move || {
            let past = jiff::SignedDuration::try_from(began.elapsed()).unwrap();
            let now = day.checked_add(past).unwrap();
            jiff::Timestamp::from_millisecond(now.as_millisecond()).unwrap()
        });
        let service = |_| {
            let sessions =
                Sessions::new(store.clone(), IDLE, MAX_MESSAGES).with_clock(clock.clone());
            let sessions = if count > 1 { sessions.with_locks(locks.clone()) } else { sessions };
            let world: Arc<dyn ToolSource> = Arc::new(World(turned_on.clone()));
            TextGateway {
                llm: model.clone(),
                sessions: Arc::new(sessions),
                tools: Arc::new(move |_, _| vec![Arc::clone(&world)]),
                describer: None,
                now: Arc::new(|| "noon".into()),
                settings: TextGatewaySettings::default().into(),
                roles: Arc::new(|_| None),
                turn_journal: TurnJournal::default(),
                rates: TurnRates::default(),
            }
        };
        Self { services: (0..count).map(service).collect(), store: store.clone(), model, turned_on }
    }
}
