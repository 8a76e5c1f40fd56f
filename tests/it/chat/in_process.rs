//! Chat sessions without HTTP: a scripted model, a real store and state server, and adapters with
//! which a test delays the state server or the locks. Not for the tests themselves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_base::tasks::Tasks;
use hearken_chat::turns::RequestOptions;
use hearken_chat::{
    Asker, ChatError, ChatService, ChatSettings, HeldCalls, PublishedEvents, TouchedSessions,
};
use hearken_cluster::{LocalBus, LocalLocks};
use hearken_dialogue::testkit::{LlmAct, Script, ScriptedLlm};
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{
    BoxError, RequestKey, SessionLock, SessionLocks, StateError, StateOutcome, StateServer, Tool,
    Watch,
};
use hearken_proto::chat::{ChatRequest, ChatResponse};
use hearken_proto::ids::SessionId;
use hearken_providers::state::{StateConfig, state_server};
use hearken_store::SqlStore;
use hearken_test_support::worlds::Worlds;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::SEED;

/// Time for requests in progress after the server is asked to stop.
pub(super) const GRACE: Duration = Duration::from_millis(300);

/// A state server whose responses can be held back; the call itself is done by then.
pub(super) struct Held {
    inner: Arc<dyn StateServer>,
    open: watch::Sender<bool>,
    /// Number of completed calls.
    pub(super) done: watch::Sender<usize>,
    /// Time of the last event, as the state server reports it.
    pub(super) happened: Arc<Mutex<Option<Timestamp>>>,
    /// Sessions whose worlds cannot be deleted, with the error.
    pub(super) stuck: Mutex<HashMap<SessionId, StateError>>,
}

impl Held {
    fn before(inner: Arc<dyn StateServer>) -> Self {
        let open = watch::Sender::new(true);
        let done = watch::Sender::new(0);
        Self { inner, open, done, happened: Arc::default(), stuck: Mutex::default() }
    }

    /// Holds back responses to calls from now on.
    pub(super) fn hold(&self) {
        self.open.send_replace(false);
    }

    /// Releases them.
    pub(super) fn release(&self) {
        self.open.send_replace(true);
    }

    /// Waits until this many calls were completed in total.
    pub(super) async fn until(&self, calls: usize) {
        self.done.subscribe().wait_for(|done| *done >= calls).await.unwrap();
    }
}

impl StateServer for Held {
    fn tools(&self) -> BoxFuture<'static, Result<Arc<[Tool]>, StateError>> {
        self.inner.tools()
    }

    fn call(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: Map<String, Value>,
        version: Option<i64>,
    ) -> BoxFuture<'static, Result<StateOutcome, StateError>> {
        let work = self.inner.call(session, tool, arguments, version);
        let mut open = self.open.subscribe();
        let done = self.done.clone();
        let happened = Arc::clone(&self.happened);
        Box::pin(async move {
            let outcome = work.await;
            if let Some(event) = outcome.as_ref().ok().and_then(|outcome| outcome.events.last()) {
                *happened.lock().unwrap() = event.at;
            }
            done.send_modify(|done| *done += 1);
            open.wait_for(|open| *open).await.unwrap();
            outcome
        })
    }

    fn state(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'static, Result<Map<String, Value>, StateError>> {
        self.inner.state(session)
    }

    fn create(
        &self,
        session: &SessionId,
        name: &str,
    ) -> BoxFuture<'static, Result<(), StateError>> {
        self.inner.create(session, name)
    }

    fn delete(&self, session: &SessionId) -> BoxFuture<'static, Result<(), StateError>> {
        if let Some(error) = self.stuck.lock().unwrap().get(session).cloned() {
            return Box::pin(async { Err(error) });
        }
        self.inner.delete(session)
    }

    fn restore(
        &self,
        session: &SessionId,
        version: i64,
    ) -> BoxFuture<'static, Result<bool, StateError>> {
        self.inner.restore(session, version)
    }

    fn timeout(&self) -> Duration {
        self.inner.timeout()
    }
}

/// Locks that can be lost, or that are granted with an old fence.
#[derive(Default)]
pub(super) struct OddLocks {
    locks: LocalLocks,
    /// The fence of each lock, unless zero.
    pub(super) fence: Arc<AtomicI64>,
    /// Number of locks taken.
    taken: Arc<AtomicUsize>,
    last: Arc<Mutex<CancellationToken>>,
}

impl OddLocks {
    /// Loses the lock that was taken last.
    pub(super) fn lose(&self) {
        self.last.lock().unwrap().cancel();
    }
}

impl SessionLocks for OddLocks {
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let taking = self.locks.lock(session, wait);
        let fence = Arc::clone(&self.fence);
        let taken = Arc::clone(&self.taken);
        let last = Arc::clone(&self.last);
        Box::pin(async move {
            let Some(mut lock) = taking.await? else { return Ok(None) };
            taken.fetch_add(1, Ordering::Relaxed);
            *last.lock().unwrap() = lock.lost.clone();
            if fence.load(Ordering::Relaxed) != 0 {
                lock.fence = fence.load(Ordering::Relaxed);
            }
            Ok(Some(lock))
        })
    }

    fn observe(&self, fence: i64) {
        self.locks.observe(fence);
    }
}

/// A chat service with one session, whose world contains a goblin of 13 hit points.
pub(super) struct ChatInProcess {
    pub(super) service: ChatService,
    pub(super) id: SessionId,
    pub(super) script: Arc<Script>,
    pub(super) state: Arc<Held>,
    pub(super) locks: Arc<OddLocks>,
    pub(super) store: Arc<SqlStore>,
    pub(super) process: CancellationToken,
    _worlds: Worlds,
}

/// Call that costs the goblin 4 hit points.
pub(super) const HIT: (&str, &str) = ("update_hp", r#"{"character_id": "goblin", "change": -4}"#);
/// Call that creates the goblin.
const GOBLIN: (&str, &str) =
    ("create_character", r#"{"name": "Goblin", "id": "goblin", "hp_max": 13}"#);

impl ChatInProcess {
    pub(super) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(super) async fn with(tweak: impl FnOnce(&mut ChatSettings)) -> Self {
        let worlds = Worlds::start(SEED);
        let state = StateConfig { url: worlds.url.clone(), ..StateConfig::default() };
        let state = Arc::new(Held::before(state_server(&state).unwrap().unwrap()));
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let script = Arc::new(Script::default());
        let process = CancellationToken::new();
        let locks = Arc::new(OddLocks::default());
        let mut settings = ChatSettings::default();
        tweak(&mut settings);
        let service = ChatService {
            llm: Arc::new(ScriptedLlm(Arc::clone(&script))),
            store: Arc::clone(&store) as _,
            state: Some(Arc::clone(&state) as _),
            events: Arc::new(LocalBus::new()),
            locks: Arc::clone(&locks) as _,
            tools: Arc::new(|_| Vec::new()),
            describer: None,
            now: Arc::new(|| "noon".into()),
            settings: settings.into(),
            roles: Arc::new(|_| None),
            tasks: Tasks::new(8, GRACE, process.clone()),
            held: HeldCalls::default(),
            touched: TouchedSessions::default(),
            published: PublishedEvents::default(),
            turn_journal: TurnJournal::default(),
            forget_calls: Arc::new(|_| {}),
        };
        let id = Self::session(&service).await;
        let this = Self { service, id, script, state, locks, store, process, _worlds: worlds };
        this.script.thinks(LlmAct::Call("", vec![GOBLIN]));
        this.say("make a goblin", None).await.unwrap();
        this
    }

    /// Creates a session.
    pub(super) async fn session(service: &ChatService) -> SessionId {
        let wanted = serde_json::from_value(json!({"name": "n", "creator_id": "c"})).unwrap();
        service.create(wanted, &Asker::Anybody).await.unwrap().id
    }

    /// Sends a message, with an idempotency key if there is one.
    pub(super) async fn say(
        &self,
        message: &str,
        key: Option<&str>,
    ) -> Result<ChatResponse, ChatError> {
        let request: ChatRequest = serde_json::from_value(json!({"message": message})).unwrap();
        let hash = message.to_owned();
        let key = key.map(|name| RequestKey { name: name.into(), hash });
        self.service
            .chat(&self.id, &request, RequestOptions { key, ..RequestOptions::default() })
            .await
    }

    /// Sends the message that hits the goblin, and leaves when the call is done and its response held back.
    pub(super) async fn leave_in_the_middle(&self, key: Option<&str>) {
        self.script.thinks(LlmAct::Call("", vec![HIT]));
        self.state.hold();
        let calls = *self.state.done.borrow() + 1;
        tokio::select! {
            told = self.say("hit it", key) => panic!("it was answered: {told:?}"),
            () = self.state.until(calls) => {}
        }
    }

    /// Hit points of the goblin.
    pub(super) async fn hp(&self) -> i64 {
        let world = self.state.state(&self.id).await.unwrap();
        world["characters"][0]["hp"].as_i64().unwrap()
    }

    /// The stored messages, as `role: content`.
    pub(super) async fn said(&self) -> Vec<String> {
        let kept = self.service.messages(&self.id, None, 100).await.unwrap();
        kept.messages.iter().map(|m| format!("{:?}: {}", m.role, m.content)).collect()
    }

    pub(super) async fn watch(&self) -> Watch {
        self.service.events.watch(&self.id, None).await.unwrap()
    }
}

/// Types of the events up to the first one of this type.
pub(super) async fn told(watch: &mut Watch, last: &str) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    while kinds.last().is_none_or(|kind| kind != last) {
        let next = tokio::time::timeout(super::SOON, watch.events.recv()).await;
        kinds.push(next.expect("an event comes").expect("the watch still runs").kind);
    }
    kinds
}
