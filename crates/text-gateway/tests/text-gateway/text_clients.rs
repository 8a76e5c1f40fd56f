//! Text clients in virtual time: deadlines, time-outs of tools, sessions that expire, silent peers.
//! Not for the content of the messages, which needs no clock.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use actix_http::ws::Message;
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hearken_base::slots::Slots;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::testkit::{LlmAct, Script, ScriptedLlm};
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{
    BoxError, KeptSession, Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, SessionLock,
    SessionLocks, SessionStore, StoreOutcome, Tool, ToolCall, ToolError, ToolOutput, ToolSource,
};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_socket::testkit::{MemorySocket, Received};
use hearken_text_gateway::text_client::TextClientActor;
use hearken_text_gateway::{Sessions, TextGateway, TextGatewaySettings};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{freeze, ms};

/// Maximum wait for anything, in virtual time.
const PATIENCE: Duration = Duration::from_secs(400);

/// Stores sessions in memory, by the real clock.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<HashMap<SessionId, KeptSession>>);

/// Stores a session according to the contract of a store.
pub(crate) fn keep_in(
    rows: &mut HashMap<SessionId, KeptSession>,
    session: &KeptSession,
    known: Option<SystemTime>,
) -> StoreOutcome {
    match (rows.get(&session.id).map(|row| row.last_used), known) {
        (None, Some(_)) => return StoreOutcome::Closed,
        (stored, known) if stored != known => return StoreOutcome::Overtaken,
        _ => {}
    }
    rows.insert(session.id.clone(), session.clone());
    StoreOutcome::Kept
}

/// Stores nothing: its sessions only follow the virtual clock.
struct NoStore;

#[async_trait]
impl SessionStore for NoStore {
    async fn load(&self, _: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        Ok(None)
    }

    async fn keep(&self, _: &KeptSession, _: Option<SystemTime>) -> Result<StoreOutcome, BoxError> {
        Ok(StoreOutcome::Kept)
    }

    async fn touch(&self, _: &SessionId, _: SystemTime) -> Result<bool, BoxError> {
        Ok(true)
    }

    async fn forget(&self, _: &SessionId) -> Result<(), BoxError> {
        Ok(())
    }

    async fn forget_unused(&self, _: SystemTime) -> Result<u64, BoxError> {
        Ok(0)
    }
}

#[async_trait]
impl SessionStore for MemoryStore {
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        Ok(self.0.lock().unwrap().get(id).cloned())
    }

    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError> {
        Ok(keep_in(&mut self.0.lock().unwrap(), session, known))
    }

    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError> {
        let mut all = self.0.lock().unwrap();
        Ok(all.get_mut(id).map(|kept| kept.last_used = last_used).is_some())
    }

    async fn forget(&self, id: &SessionId) -> Result<(), BoxError> {
        self.0.lock().unwrap().remove(id);
        Ok(())
    }

    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError> {
        let mut all = self.0.lock().unwrap();
        let before = all.len();
        all.retain(|_, session| session.last_used >= since);
        Ok((before - all.len()) as u64)
    }
}

/// A server's tool that never answers.
struct Hanging;

impl ToolSource for Hanging {
    fn name(&self) -> &str {
        "hanging"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let parameters = json!({"type": "object"});
        let name = "hang".into();
        let description = "Hangs.".into();
        [Tool { name, description, parameters, finishes: false, destructive: false }].into()
    }

    fn call(&self, _: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::pending())
    }
}

/// A server's tool that takes 5 s, and finishes even if its turn is cut.
struct Lasting(Arc<AtomicBool>);

impl ToolSource for Lasting {
    fn name(&self) -> &str {
        "lasting"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let parameters = json!({"type": "object"});
        let name = "last".into();
        let description = "Lasts.".into();
        [Tool { name, description, parameters, finishes: true, destructive: false }].into()
    }

    fn call(&self, _: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let done = Arc::clone(&self.0);
        Box::pin(async move {
            tokio::time::sleep(ms(5_000)).await;
            done.store(true, Ordering::Relaxed);
            Ok(ToolOutput::default())
        })
    }
}

/// A model that panics.
struct Broken;

impl Llm for Broken {
    fn reply(&self, _: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        panic!("a bug in the server");
    }
}

/// One text client.
pub(crate) struct Client {
    service: TextGateway,
    pub(crate) script: Arc<Script>,
    socket: MemorySocket,
    pub(crate) session: String,
}

pub(crate) fn service(llm: Arc<dyn Llm>, store: Arc<dyn SessionStore>) -> TextGateway {
    let settings = TextGatewaySettings::default();
    TextGateway {
        llm,
        sessions: Arc::new(Sessions::new(store, settings.session_idle, settings.max_messages)),
        tools: Arc::new(|_, _| vec![Arc::new(Hanging)]),
        describer: None,
        now: Arc::new(|| "noon".into()),
        settings: settings.into(),
        roles: Arc::new(|_| None),
        turn_journal: TurnJournal::default(),
        rates: TurnRates::default(),
    }
}

impl Client {
    async fn connect() -> Self {
        let script = Arc::<Script>::default();
        let service = service(Arc::new(ScriptedLlm(Arc::clone(&script))), Arc::new(NoStore));
        Self::enter(service, script, true).await
    }

    pub(crate) async fn enter(
        service: TextGateway,
        script: Arc<Script>,
        answers_pings: bool,
    ) -> Self {
        Self::enter_from(None, service, script, answers_pings).await
    }

    /// Enters from an address whose rate is limited, if one is given.
    async fn enter_from(
        address: Option<&str>,
        service: TextGateway,
        script: Arc<Script>,
        answers_pings: bool,
    ) -> Self {
        freeze();
        let slot = Slots::new(1, 1).take(address).unwrap();
        let actor = TextClientActor::new(service.clone(), Some(slot), CancellationToken::new());
        let socket = MemorySocket::open(actor, answers_pings);
        let mut client = Self { service, script, socket, session: String::new() };
        let connected = client.until("status/connected").await;
        client.session = connected["data"]["session_id"].as_str().unwrap().to_owned();
        client
    }

    pub(crate) fn send(&self, message: &Value) {
        self.socket.send(Message::Text(message.to_string().into()));
    }

    pub(crate) fn say(&self, text: &str) {
        self.send(&json!({"type": "text_input", "text": text}));
    }

    async fn next(&mut self) -> (Duration, Received) {
        let down = self.socket.next_by(Instant::now() + PATIENCE).await.expect("a message arrives");
        (down.at, down.what)
    }

    pub(crate) async fn until(&mut self, name: &str) -> Value {
        loop {
            match self.next().await.1 {
                what if what.name() != name => {}
                Received::Text(value) => return value,
                other => panic!("{name} is {other:?}"),
            }
        }
    }
}

#[actix::test]
async fn a_server_tool_has_10_s_and_a_clients_tool_30_s() {
    let mut client = Client::connect().await;
    let tool = json!({"name": "open_door", "description": "d", "parameters": {"type": "object"}});
    client.send(&json!({"type": "register_tools", "tools": [tool]}));
    client.until("tools_registered").await;
    for (tool, seconds, code) in
        [("hang", 10, "TOOL_EXECUTION_FAILED"), ("open_door", 30, "TOOL_RESULT_TIMEOUT")]
    {
        client.script.llm.lock().unwrap().push_back(LlmAct::Call("", vec![(tool, "{}")]));
        let begun = client.socket.now();
        client.say("do it");
        let told = client.until("error").await;
        assert_eq!(told["code"], code);
        let took = client.socket.now() - begun;
        assert!((took.as_secs_f64() - f64::from(seconds)).abs() < 0.5, "{tool}: {took:?}");
    }
    client.say("well");
    client.until("llm_response").await;
}

#[actix::test]
async fn failures_of_the_model_and_panics_are_reported() {
    let mut client = Client::connect().await;
    for (act, code) in [
        (LlmAct::Fail(ProviderErrorKind::Timeout, ms(120_000)), "TIMEOUT"),
        (LlmAct::Fail(ProviderErrorKind::Unavailable, ms(1)), "LLM_ERROR"),
        (LlmAct::Break("Half an ans", ProviderErrorKind::Unavailable), "LLM_ERROR"),
    ] {
        client.script.llm.lock().unwrap().push_back(act);
        client.say("hi");
        assert_eq!(client.until("error").await["code"], code);
    }
    let mut client =
        Client::enter(service(Arc::new(Broken), Arc::new(NoStore)), Arc::default(), true).await;
    for _ in 0..2 {
        client.say("hi");
        assert_eq!(client.until("error").await["code"], "INTERNAL_ERROR");
    }
}

#[actix::test]
async fn a_person_in_danger_is_answered_though_requests_come_too_fast() {
    let script = Arc::<Script>::default();
    script.urgent.lock().unwrap().extend(["My baby is choking!", "厨房着火了"]);
    let few = AdmissionSettings { turns_per_address: 1, ..AdmissionSettings::default() };
    let service = TextGateway {
        rates: TurnRates::new(&few),
        ..service(Arc::new(ScriptedLlm(Arc::clone(&script))), Arc::new(NoStore))
    };
    let mut client = Client::enter_from(Some("192.0.2.1"), service, script, true).await;
    client.say("hi");
    client.until("llm_response").await;
    // However many refused requests are before it.
    let refused = ["hi"; 50];
    for words in [&refused[..], &["My baby is choking!", "hi", "厨房着火了"]].concat() {
        client.say(words);
        let last = if words == "hi" { "error" } else { "llm_response" };
        client.until(last).await;
    }
}

#[actix::test]
async fn rules_know_what_was_said_before_with_and_without_context() {
    for (has_context, known, messages) in
        [(true, vec![], 4), (false, vec!["My baby is choking!"], 2)]
    {
        let mut client = Client::connect().await;
        client.send(&json!({"type": "configure", "enable_context": has_context}));
        for words in ["My baby is choking!", "What now?"] {
            client.say(words);
            client.until("llm_response").await;
        }
        let prompts = client.script.prompts.lock().unwrap();
        let last = prompts.last().unwrap();
        assert_eq!(last.earlier.words, known);
        assert_eq!(last.messages.len(), messages);
    }
}

#[actix::test]
async fn requests_without_a_turn_come_at_the_pace_of_their_address() {
    for (request, answer) in [
        (json!({"type": "start_session", "session_id": "invented"}), "error"),
        (json!({"type": "end_session"}), "status/idle"),
        (json!({"type": "start_session"}), "status/connected"),
    ] {
        for (address, waits) in [(Some("192.0.2.1"), true), (None, false)] {
            let script = Arc::<Script>::default();
            let service = service(Arc::new(ScriptedLlm(Arc::clone(&script))), Arc::new(NoStore));
            let mut client = Client::enter_from(address, service, script, true).await;
            let begun = client.socket.now();
            for _ in 0..60 {
                client.send(&request);
                client.until(answer).await;
            }
            let took = client.socket.now() - begun;
            assert_eq!(took >= ms(1_900), waits, "{request}: {took:?}");
        }
    }
}

/// Store that is down.
struct DeadStore;

#[async_trait]
impl SessionStore for DeadStore {
    async fn load(&self, _: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        Err("down".into())
    }

    async fn keep(&self, _: &KeptSession, _: Option<SystemTime>) -> Result<StoreOutcome, BoxError> {
        Err("down".into())
    }

    async fn touch(&self, _: &SessionId, _: SystemTime) -> Result<bool, BoxError> {
        Err("down".into())
    }

    async fn forget(&self, _: &SessionId) -> Result<(), BoxError> {
        Err("down".into())
    }

    async fn forget_unused(&self, _: SystemTime) -> Result<u64, BoxError> {
        Err("down".into())
    }
}

#[actix::test]
async fn an_answer_that_could_not_be_stored_reports_it() {
    for (store, told) in [
        (Arc::new(DeadStore) as Arc<dyn SessionStore>, json!(false)),
        (Arc::new(MemoryStore::default()), Value::Null),
    ] {
        let script = Arc::<Script>::default();
        let service = service(Arc::new(ScriptedLlm(Arc::clone(&script))), store);
        let mut client = Client::enter(service, script, true).await;
        client.say("one plain");
        assert_eq!(client.until("llm_response").await["stored"], told);
    }
}

#[actix::test]
async fn a_client_without_pongs_is_closed_after_300_s() {
    let mut alive = Client::connect().await;
    let mut silent = Client::enter(alive.service.clone(), Arc::default(), false).await;
    let (at, what) = silent.next().await;
    assert_eq!(what, Received::Closed(1000));
    assert!((300..=330).contains(&at.as_secs()), "{at:?}");
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    alive.send(&json!({"type": "ping"}));
    alive.until("pong").await;
}

impl Client {
    /// Asks for a long answer, piece by piece, and does not read it.
    async fn reads_no_answer(&mut self) {
        self.send(&json!({"type": "configure", "stream": true}));
        let pieces = vec!["Well, well. "; 100];
        self.script.llm.lock().unwrap().push_back(LlmAct::Write(pieces, ms(10)));
        self.say("talk");
        self.until("llm_delta").await;
        self.socket.read(false);
    }
}

#[actix::test]
async fn a_client_whose_socket_accepts_nothing_for_30_s_is_closed_with_its_turn() {
    let mut client = Client::connect().await;
    let mut other = Client::enter(client.service.clone(), Arc::default(), true).await;
    client.reads_no_answer().await;
    let begun = other.socket.now();
    // The turn holds the memory of its session.
    let session = &client.session;
    other.send(&json!({"type": "text_input", "text": "hi", "session_id": session}));
    other.until("llm_response").await;
    let took = other.socket.now() - begun;
    assert!((ms(30_000)..ms(31_000)).contains(&took), "{took:?}");
    client.socket.read(true);
    let lagging = Received::Closed(Fault::Lagging.row().close_code);
    while client.next().await.1 != lagging {}
}

#[actix::test]
async fn a_client_that_reads_slowly_gets_its_whole_answer() {
    let mut client = Client::connect().await;
    client.reads_no_answer().await;
    for _ in 0..5 {
        tokio::time::sleep(ms(29_000)).await;
        client.socket.read(true);
        tokio::time::sleep(ms(20)).await;
        client.socket.read(false);
    }
    client.socket.read(true);
    let told = client.until("llm_response").await;
    assert_eq!(told["content"].as_str().unwrap().matches("Well, well.").count(), 100);
}

#[actix::test]
async fn a_session_lasts_an_hour_from_its_last_use() {
    let mut client = Client::connect().await;
    let first = client.session.clone();
    let minute = Duration::from_secs(60);
    let sweeping = tokio::spawn({
        let sessions = Arc::clone(&client.service.sessions);
        async move { sessions.keep_sweeping(minute).await }
    });
    for _ in 0..3 {
        tokio::time::sleep(59 * minute).await;
        client.send(&json!({"type": "text_input", "text": "hi", "session_id": first}));
        client.until("llm_response").await;
    }
    tokio::time::sleep(61 * minute).await;
    client.send(&json!({"type": "text_input", "text": "hi", "session_id": first}));
    assert_eq!(client.until("error").await["code"], "SESSION_ERROR");
    client.send(&json!({"type": "start_session", "session_id": first}));
    assert_eq!(client.until("error").await["code"], "SESSION_ERROR");
    client.say("hi");
    client.until("llm_response").await;
    sweeping.abort();
}

#[actix::test]
async fn a_restored_session_knows_when_its_last_turn_ended() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let store = Arc::<MemoryStore>::default();
    let date = Arc::new(Mutex::new(Timestamp::from_second(1_790_000_000).unwrap()));
    let mut id: Option<String> = None;
    // The clock is set back by two days before the last instance starts.
    for (hours, known) in [(0, None), (8, Some(8 * HOUR)), (0, Some(Duration::ZERO)), (-48, None)] {
        *date.lock().unwrap() += SignedDuration::from_hours(hours);
        let clock = Arc::clone(&date);
        let sessions = Sessions::new(Arc::clone(&store) as _, 24 * HOUR, 10)
            .with_clock(Arc::new(move || *clock.lock().unwrap()));
        let script = Arc::<Script>::default();
        let llm = Arc::new(ScriptedLlm(Arc::clone(&script)));
        let mut service = service(llm, Arc::clone(&store) as _);
        service.sessions = Arc::new(sessions);
        let mut client = Client::enter(service, script, true).await;
        if let Some(id) = &id {
            client.send(&json!({"type": "start_session", "session_id": id}));
            client.until("status/connected").await;
        } else {
            id = Some(client.session.clone());
        }
        client.say("hi");
        client.until("llm_response").await;
        let since_last = client.script.prompts.lock().unwrap().last().unwrap().since_last;
        // Seconds of virtual time may pass before the prompt is built.
        let minutes = |time: Duration| time.as_secs() / 60;
        assert_eq!(since_last.map(minutes), known.map(minutes), "after {hours} h");
    }
}

#[actix::test]
async fn a_stored_session_is_resumed_unless_it_is_expired_or_corrupt() {
    let hour = Duration::from_secs(3_600);
    let store = Arc::<MemoryStore>::default();
    let state = r#"{"messages":[],"manner":{"system_prompt":"Be brief."}}"#;
    for (id, state, age) in [
        ("fresh", state, hour - Duration::from_secs(60)),
        ("old", state, hour + Duration::from_secs(60)),
        ("spoilt", "{", Duration::ZERO),
    ] {
        let id = SessionId::new(id);
        let last_used = SystemTime::now() - age;
        let kept = KeptSession { id: id.clone(), state: state.into(), last_used };
        store.0.lock().unwrap().insert(id, kept);
    }
    let script = Arc::<Script>::default();
    let service = service(Arc::new(ScriptedLlm(Arc::clone(&script))), store.clone());
    let mut client = Client::enter(service, script, true).await;
    for (id, code) in [("old", "SESSION_ERROR"), ("spoilt", "INTERNAL_ERROR")] {
        client.send(&json!({"type": "start_session", "session_id": id}));
        assert_eq!(client.until("error").await["code"], code, "{id}");
    }
    client.send(&json!({"type": "start_session", "session_id": "fresh"}));
    client.until("status/connected").await;
    client.say("hi");
    client.until("llm_response").await;
    assert_eq!(client.script.prompts.lock().unwrap()[0].messages[0].content, "Be brief.");
    client.service.sessions.sweep().await.unwrap();
    let mut left: Vec<String> = store.0.lock().unwrap().keys().map(ToString::to_string).collect();
    left.sort();
    assert_eq!(left, ["fresh", "spoilt"]);
}

#[actix::test]
async fn a_finishing_call_outlives_its_cancelled_request() {
    let script = Arc::<Script>::default();
    let done = Arc::<AtomicBool>::default();
    let lasting = Arc::new(Lasting(Arc::clone(&done)));
    let mut service = service(Arc::new(ScriptedLlm(Arc::clone(&script))), Arc::new(NoStore));
    service.tools = Arc::new(move |_, _| vec![lasting.clone()]);
    let mut client = Client::enter(service, script, true).await;
    client.script.llm.lock().unwrap().push_back(LlmAct::Call("", vec![("last", "{}")]));
    client.send(&json!({"type": "configure", "stream": true}));
    client.say("do it");
    client.until("status/processing").await;
    tokio::time::sleep(ms(1_000)).await;
    client.send(&json!({"type": "cancel"}));
    assert_eq!(client.until("llm_response").await["cancelled"], true);
    assert!(!done.load(Ordering::Relaxed));
    tokio::time::sleep(ms(5_000)).await;
    assert!(done.load(Ordering::Relaxed), "the call was cut with its request");
}

#[actix::test]
async fn a_request_ends_with_its_connection() {
    let mut client = Client::connect().await;
    assert!(Arc::strong_count(&client.service.llm) > 1);
    client.script.llm.lock().unwrap().push_back(LlmAct::Write(vec!["late"], ms(60_000)));
    client.say("hi");
    client.until("status/processing").await;
    client.socket.drop_connection();
    let (at, what) = client.next().await;
    assert_eq!(what, Received::Gone);
    assert!(at < Duration::from_secs(2), "{at:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(Arc::strong_count(&client.service.llm), 1, "an actor outlived its connection");
}

/// Locks that are always free.
pub(crate) struct Free;

impl SessionLocks for Free {
    fn lock(
        &self,
        _: &str,
        _: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let lost = CancellationToken::new();
        Box::pin(async { Ok(Some(SessionLock { fence: 1, lost, held: Box::new(()) })) })
    }

    fn observe(&self, _: i64) {}
}

#[actix::test]
async fn a_session_used_by_another_instance_is_reloaded_once() {
    freeze();
    let store = Arc::new(MemoryStore::default());
    let sessions = Sessions::new(store, Duration::from_secs(60), 10).with_locks(Arc::new(Free));
    let first = Arc::clone(sessions.begin().session());
    sessions.keep(&first, &*sessions.lock_memory(&first).await).await.unwrap();
    tokio::time::advance(Duration::from_secs(61)).await;
    // By the store's clock it was just used, as if by another instance.
    let second = sessions.find(first.id()).await.unwrap();
    assert!(!Arc::ptr_eq(&first, second.session()), "the copy in memory has expired");
    assert!(Arc::ptr_eq(second.session(), sessions.find(first.id()).await.unwrap().session()));
}

#[actix::test]
async fn idle_sessions_in_memory_are_bounded_in_bytes_and_reloaded_from_the_store() {
    const SESSIONS: usize = 3_000;
    const PROMPT_BYTES: usize = 32_000;
    freeze();
    let sessions = Sessions::new(Arc::new(MemoryStore::default()), Duration::from_secs(60), 10);
    let mut ids = Vec::new();
    for _ in 0..SESSIONS {
        let session = sessions.begin();
        let memory = sessions.lock_memory(&session).await;
        session.style().system_prompt = "x".repeat(PROMPT_BYTES);
        sessions.keep(&session, &memory).await.unwrap();
        ids.push(session.id().clone());
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let in_memory = ids.iter().filter(|id| sessions.find_in_memory(id).is_some()).count();
    assert!(in_memory * PROMPT_BYTES <= 64 << 20, "{in_memory} sessions are in memory");
    assert!(in_memory * PROMPT_BYTES >= 50 << 20, "only {in_memory} sessions are in memory");
    assert!(sessions.find_in_memory(&ids[SESSIONS - 1]).is_some(), "the newest stays");
    assert!(sessions.find_in_memory(&ids[0]).is_none(), "the oldest is evicted");
    let again = sessions.find(&ids[0]).await.unwrap();
    assert_eq!(again.style().system_prompt.len(), PROMPT_BYTES);
}

#[actix::test]
async fn nothing_of_a_session_is_stored_before_its_first_turn() {
    freeze();
    let store = Arc::new(MemoryStore::default());
    let script = Arc::<Script>::default();
    let service = service(Arc::new(ScriptedLlm(Arc::clone(&script))), store.clone());
    let mut client = Client::enter(service, script, true).await;
    let id = SessionId::new(client.session.clone());
    client.send(&json!({"type": "configure", "system_prompt": "Be brief."}));
    client.send(&json!({"type": "start_session", "session_id": client.session}));
    client.until("status/connected").await;
    assert_eq!(store.load(&id).await.unwrap(), None);
    client.say("one plain");
    client.until("llm_response").await;
    let kept = store.load(&id).await.unwrap().unwrap();
    assert!(kept.state.contains("Be brief."), "{}", kept.state);
}

#[actix::test]
async fn an_endless_answer_of_the_model_is_cut_off() {
    let mut client = Client::connect().await;
    let piece: &str = "word ".repeat(20_000).leak();
    client.script.llm.lock().unwrap().push_back(LlmAct::Write(vec![piece; 20], ms(1)));
    client.say("hi");
    let content = client.until("llm_response").await["content"].as_str().unwrap().len();
    assert!((100_000..=256 << 10).contains(&content), "{content} bytes");
}
