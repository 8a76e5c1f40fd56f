//! Random sequences of all events of museum sessions, and ten turns after each event, on the real
//! service with a store in memory. The table of states and events is in
//! docs/state-machines/museum-session.md. Not for REST.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_base::memory_pool::MemoryPool;
use hearken_base::wall_clock::Clock;
use hearken_cluster::LocalLocks;
use hearken_dialogue::testkit::ten_turns::{Conversation, TurnSeen, assert_undisturbed, ten_turns};
use hearken_dialogue::usage::{UsageMeter, UsageSettings};
use hearken_museum::{Museum, MuseumError, MuseumPorts, MuseumSettings};
use hearken_ports::store::MuseumStore as _;
use hearken_ports::{
    ChatMessage, Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, Role, ToolChoice,
    ToolRequest,
};
use hearken_proto::ids::SessionId;
use hearken_proto::museum::{ParseRequest, Parsed, Register};
use hearken_store::SqlStore;
use jiff::Timestamp;
use jiff::civil::Date;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Sequences for each proptest case: 512 in total by default, 2,048 in `scripts/long tests`.
const SEQUENCES_PER_CASE: u32 = 2;
/// Maximum number of concurrent sessions.
const MOST: u64 = 3;
/// Timeout of a session, in seconds, unless a sequence changes it.
const LASTS: i64 = 60;

/// A model that obeys the last word of a message once its gate is open.
struct TestModel {
    asked: Mutex<Vec<Vec<ChatMessage>>>,
    gate: watch::Sender<bool>,
}

impl Llm for TestModel {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let last = prompt.messages.iter().rfind(|m| m.role == Role::User).unwrap();
        let words = last.content.clone();
        self.asked.lock().unwrap().push(prompt.messages[1..].to_vec());
        let call = |arguments: &str| {
            let id = "call_0".to_owned();
            let name = "wave".to_owned();
            Ok(LlmDelta::Call(ToolRequest {
                id,
                name,
                arguments: arguments.into(),
                ..ToolRequest::default()
            }))
        };
        let fault = |kind| Err(ProviderError::because("model", kind, "as it was told"));
        let kind = words.split(' ').next_back().unwrap();
        let told = match kind {
            "fail" => fault(ProviderErrorKind::Unavailable),
            "refused" => fault(ProviderErrorKind::BadRequest),
            "late" => fault(ProviderErrorKind::Timeout),
            "silent" => Ok(LlmDelta::Text(String::new())),
            "call" => call("{\"times\": 2}"),
            "null" => call("null"),
            "wrong" if prompt.tool_choice == ToolChoice::Auto => call("{\"times\": \"two\"}"),
            _ => Ok(LlmDelta::Text(format!("To {words}."))),
        };
        let mut gate = self.gate.subscribe();
        let opened = stream::once(async move { gate.wait_for(|open| *open).await.is_ok() });
        let finished = Ok(LlmDelta::Finished { truncated: false, usage: None });
        opened.filter_map(|_| async { None }).chain(stream::iter([told, finished])).boxed()
    }
}

/// A museum service with its store and clock.
struct House {
    museum: Arc<Museum>,
    store: Arc<SqlStore>,
    model: Arc<TestModel>,
    seconds: Arc<AtomicI64>,
}

fn settings(lasts: i64) -> MuseumSettings {
    MuseumSettings {
        max_sessions: MOST,
        session_timeout: Duration::from_secs(lasts.unsigned_abs()),
        answers_for: Duration::ZERO,
        ..MuseumSettings::default()
    }
}

impl House {
    fn open() -> Self {
        Self::with(Arc::new(SqlStore::at("sqlite::memory:").unwrap()))
    }

    fn with(store: Arc<SqlStore>) -> Self {
        let model = Arc::new(TestModel { asked: Mutex::default(), gate: watch::Sender::new(true) });
        let seconds = Arc::new(AtomicI64::new(1_750_000_000));
        let time = Arc::clone(&seconds);
        let clock: Clock =
            Arc::new(move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap());
        let ports = MuseumPorts {
            clock: Arc::clone(&clock),
            expiry_clock: clock,
            llm: model.clone(),
            store: store.clone(),
            locks: Arc::new(LocalLocks::new()),
            answers: None,
            model: "model".into(),
            now: Arc::new(|| "noon".into()),
            memory_pool: MemoryPool::default(),
            usage: UsageMeter::new(UsageSettings::default(), || Date::ZERO),
        };
        let museum = Arc::new(Museum::new(ports, settings(LASTS)));
        Self { museum, store, model, seconds }
    }

    fn now(&self) -> i64 {
        self.seconds.load(Ordering::Relaxed)
    }

    async fn register(&self) -> Result<SessionId, MuseumError> {
        let parameters = json!({"type": "object", "properties": {"times": {"type": "number"}}});
        let function = json!({"name": "wave", "description": "waves", "parameters": parameters});
        let body = json!({"client_metadata": {}, "functions": [function]});
        Ok(self.museum.register(Register::read(&body).unwrap(), None).await?.id)
    }

    async fn sweep(&self) {
        let now = Timestamp::from_second(self.now()).unwrap();
        self.store.remove_expired(now, 1_000).await.unwrap();
    }
}

fn says(words: &str) -> ParseRequest {
    ParseRequest::read(&json!({"user_input": words, "scene_type": "public"})).unwrap()
}

/// One event of a sequence.
#[derive(Debug, Clone, Copy)]
enum Step {
    Register,
    Heartbeat(usize),
    Parse(usize, &'static str),
    /// A request whose answer is held back until [`Step::Open`].
    Begin(usize, &'static str),
    Open,
    Unregister(usize),
    End(usize),
    Info(usize),
    Pass(i64),
    Sweep,
    Lasts(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0_usize..5;
    let kinds = vec!["plain", "plain", "call", "null", "wrong", "fail", "refused", "silent"];
    let kind = proptest::sample::select(kinds);
    prop_oneof![
        3 => Just(Step::Register),
        2 => session.clone().prop_map(Step::Heartbeat),
        6 => (session.clone(), kind.clone()).prop_map(|(s, k)| Step::Parse(s, k)),
        2 => (session.clone(), kind).prop_map(|(s, k)| Step::Begin(s, k)),
        1 => Just(Step::Open),
        1 => session.clone().prop_map(Step::Unregister),
        1 => session.clone().prop_map(Step::End),
        1 => session.prop_map(Step::Info),
        3 => proptest::sample::select(vec![1_i64, 20, 59, 60, 61]).prop_map(Step::Pass),
        2 => Just(Step::Sweep),
        1 => proptest::sample::select(vec![LASTS, 30]).prop_map(Step::Lasts),
    ]
}

/// The reference of a session.
struct Known {
    id: SessionId,
    expires: i64,
    gone: bool,
    /// Messages and answers, in order.
    turns: Vec<(String, String)>,
}

type Parsing = tokio::task::JoinHandle<Result<Parsed, MuseumError>>;

/// A sequence while it is played.
struct Play {
    house: House,
    sessions: Vec<Known>,
    lasts: i64,
    asked: usize,
    /// Requests without an answer yet: the session, the message, the pending answer.
    open: Vec<(usize, String, Parsing)>,
}

impl Play {
    async fn of(store: Arc<SqlStore>, steps: &[Step]) {
        let sessions = Vec::new();
        let open = Vec::new();
        let house = House::with(store);
        let mut play = Self { house, sessions, lasts: LASTS, asked: 0, open };
        for step in steps {
            play.step(*step).await;
        }
        play.answer().await;
        let live = (0..play.sessions.len()).filter(|n| play.is_live(*n)).count() as u64;
        let stats = play.house.museum.stats().await.unwrap();
        assert_eq!(stats.active_sessions, live);
        for known in &play.sessions {
            play.house.store.remove(&known.id).await.unwrap();
        }
    }

    fn is_live(&self, session: usize) -> bool {
        let now = self.house.now();
        self.sessions.get(session).is_some_and(|known| !known.gone && known.expires > now)
    }

    fn id(&self, session: usize) -> SessionId {
        let known = self.sessions.get(session);
        known.map_or_else(|| SessionId::new("nobodys"), |known| known.id.clone())
    }

    async fn step(&mut self, step: Step) {
        let museum = Arc::clone(&self.house.museum);
        match step {
            Step::Register => self.register().await,
            Step::Heartbeat(n) => {
                let beat = museum.heartbeat(&self.id(n)).await;
                assert_eq!(beat.is_ok(), self.is_live(n), "{beat:?}");
                self.used(n);
            }
            // The model answers no request before its gate is open.
            Step::Parse(n, kind) if !self.open.is_empty() => self.begin(n, kind).await,
            Step::Parse(n, kind) => {
                let words = self.words(kind);
                let answered = museum.parse(&self.id(n), says(&words)).await;
                self.parsed(n, &words, answered);
            }
            Step::Begin(n, kind) => self.begin(n, kind).await,
            Step::Open => self.answer().await,
            Step::Unregister(n) => {
                let left = museum.unregister(&self.id(n)).await;
                assert_eq!(left.is_ok(), self.is_live(n), "{left:?}");
                self.forget(n);
            }
            Step::End(n) => {
                museum.end(&self.id(n)).await.unwrap();
                self.forget(n);
            }
            Step::Info(n) => {
                assert_eq!(museum.describe(&self.id(n)).await.is_ok(), self.is_live(n));
            }
            // A request in progress uses its session repeatedly, in real time.
            Step::Pass(seconds) => {
                self.answer().await;
                self.house.seconds.fetch_add(seconds, Ordering::Relaxed);
            }
            Step::Sweep => self.house.sweep().await,
            Step::Lasts(lasts) => {
                self.lasts = lasts;
                museum.change(settings(lasts));
            }
        }
    }

    async fn register(&mut self) {
        let live = (0..self.sessions.len()).filter(|n| self.is_live(*n)).count() as u64;
        match self.house.register().await {
            Ok(id) => {
                assert!(live < MOST, "too many sessions");
                let expires = self.house.now() + self.lasts;
                let turns = Vec::new();
                self.sessions.push(Known { id, expires, gone: false, turns });
            }
            Err(error) => {
                assert!(matches!(error, MuseumError::Full) && live >= MOST, "{live}: {error}");
            }
        }
    }

    fn used(&mut self, session: usize) {
        if self.is_live(session) {
            self.sessions[session].expires = self.house.now() + self.lasts;
        }
    }

    fn forget(&mut self, session: usize) {
        if let Some(known) = self.sessions.get_mut(session) {
            known.gone = true;
        }
    }

    fn words(&mut self, kind: &str) -> String {
        self.asked += 1;
        format!("q{} {kind}", self.asked)
    }

    async fn begin(&mut self, session: usize, kind: &str) {
        if !self.is_live(session) || self.open.iter().any(|(busy, ..)| *busy == session) {
            return;
        }
        self.house.model.gate.send_replace(false);
        let words = self.words(kind);
        let id = self.id(session);
        let museum = Arc::clone(&self.house.museum);
        let request = says(&words);
        let asked = || self.house.model.asked.lock().unwrap().len();
        let before = asked();
        let parsing = tokio::spawn(async move { museum.parse(&id, request).await });
        while asked() == before && !parsing.is_finished() {
            tokio::task::yield_now().await;
        }
        self.used(session);
        self.open.push((session, words, parsing));
    }

    async fn answer(&mut self) {
        self.house.model.gate.send_replace(true);
        for (session, words, parsing) in std::mem::take(&mut self.open) {
            let answered = parsing.await.unwrap();
            self.parsed(session, &words, answered);
        }
    }

    fn parsed(&mut self, session: usize, words: &str, answered: Result<Parsed, MuseumError>) {
        let live = self.is_live(session);
        let kind = words.split(' ').next_back().unwrap();
        match answered {
            Ok(answer) => {
                assert!(live, "{words} was answered in an expired session");
                let called = matches!(kind, "call" | "null").then_some("wave");
                assert_eq!(answer.operation.as_deref(), called, "{words}");
                assert_eq!(answer.operation_params.len(), usize::from(kind == "call"));
                self.check_prompt(session, words);
                self.sessions[session].turns.push((words.to_owned(), answer.response));
            }
            Err(MuseumError::Gone) => assert!(!live, "{words} was not answered"),
            Err(MuseumError::Llm(_)) => assert!(matches!(kind, "fail" | "refused"), "{words}"),
            Err(MuseumError::NoWords) => assert_eq!(kind, "silent"),
            Err(other) => panic!("{words}: {other}"),
        }
        self.used(session);
    }

    /// Checks that the prompt has the last turns of the session, and no others.
    fn check_prompt(&self, session: usize, words: &str) {
        let asked = self.house.model.asked.lock().unwrap();
        let of = |prompt: &&Vec<ChatMessage>| prompt.iter().any(|m| m.content == words);
        let prompt = asked.iter().find(of).expect("it was asked");
        let mut told: Vec<(&str, String)> = Vec::new();
        for message in prompt {
            match (message.role, told.last_mut()) {
                (Role::User, _) => told.push((&message.content, String::new())),
                (Role::Assistant, Some(last)) => last.1.push_str(&message.content),
                _ => {}
            }
        }
        assert_eq!(told.pop().unwrap().0, words);
        let turns = &self.sessions[session].turns;
        assert!(told.len() >= turns.len().min(2), "{told:?} of {turns:?}");
        let last = turns[turns.len() - told.len()..].iter().map(|(w, a)| (w.as_str(), a.clone()));
        assert_eq!(told, last.collect::<Vec<_>>());
    }
}

/// Sequences are the same in each run, so that the result does not depend on chance.
#[test]
fn sessions_match_the_reference_in_random_sequences() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The store must be dropped within the runtime.
    let _within = runtime.enter();
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases *= SEQUENCES_PER_CASE;
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let played = Cell::new(0);
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let steps = proptest::collection::vec(step(), 1..24);
    let result = TestRunner::new_with_rng(config, rng).run(&steps, |steps| {
        played.set(played.get() + 1);
        runtime.block_on(Play::of(Arc::clone(&store), &steps));
        Ok(())
    });
    if let Err(error) = result {
        panic!("after {} sequences: {error}", played.get());
    }
}

/// A client with its own museum service.
struct Visitor {
    house: House,
    session: SessionId,
}

impl Visitor {
    async fn enter() -> Self {
        let house = House::open();
        let session = house.register().await.unwrap();
        Self { house, session }
    }

    async fn fails(&self, kind: &str) {
        let said = says(&format!("odd {kind}"));
        self.house.museum.parse(&self.session, said).await.unwrap_err();
    }

    async fn happens(&mut self, event: &str) {
        let museum = Arc::clone(&self.house.museum);
        match event {
            "a failure of the model" => self.fails("fail").await,
            "a message that the model refuses" => self.fails("refused").await,
            "a model timeout" => self.fails("late").await,
            "a model without text" => self.fails("silent").await,
            "a heartbeat" => assert!(museum.heartbeat(&self.session).await.is_ok()),
            "other settings" => museum.change(settings(LASTS * 2)),
            "a full server" => while self.house.register().await.is_ok() {},
            "an expiry" | "a sweep" => {
                self.house.seconds.fetch_add(LASTS + 1, Ordering::Relaxed);
                if event == "a sweep" {
                    self.house.sweep().await;
                }
                self.fails("plain").await;
                self.session = self.house.register().await.unwrap();
            }
            "a client that left and registered again" => {
                museum.unregister(&self.session).await.unwrap();
                self.session = self.house.register().await.unwrap();
            }
            "a client that did not wait" => {
                self.house.model.gate.send_replace(false);
                let asked = museum.parse(&self.session, says("odd plain"));
                tokio::time::timeout(Duration::from_millis(50), asked).await.unwrap_err();
                self.house.model.gate.send_replace(true);
            }
            other => panic!("unknown event: {other}"),
        }
    }
}

impl Conversation for Visitor {
    async fn turn(&mut self, n: usize) -> TurnSeen {
        self.house.model.asked.lock().unwrap().clear();
        let words = format!("turn {n} {}", ["plain", "call", "null"][n % 3]);
        let told = self.house.museum.parse(&self.session, says(&words)).await.unwrap();
        let kept = self.house.store.find(&self.session).await.unwrap().unwrap();
        let row = |mut message: Value| {
            // The date of the turn, which an event may move.
            message.as_object_mut().unwrap().remove("ended_ms");
            message.to_string()
        };
        TurnSeen {
            prompts: self.house.model.asked.lock().unwrap().clone(),
            answer: told.response,
            events: vec![format!("{:?} {:?}", told.operation, told.operation_params)],
            rows: kept.history.into_iter().map(row).collect(),
        }
    }
}

#[tokio::test]
async fn ten_turns_are_normal_after_any_event() {
    let undisturbed = ten_turns(&mut Visitor::enter().await).await;
    for event in [
        "a failure of the model",
        "a message that the model refuses",
        "a model timeout",
        "a model without text",
        "a heartbeat",
        "other settings",
        "a full server",
        "an expiry",
        "a sweep",
        "a client that left and registered again",
        "a client that did not wait",
    ] {
        let mut visitor = Visitor::enter().await;
        visitor.happens(event).await;
        assert_undisturbed(event, &undisturbed, &ten_turns(&mut visitor).await, &[]);
    }
}
