//! Clients that disconnect before the answer: at every moment of a turn, and every 50 ms of a slow
//! one. With an idempotency key, a repeated request gets the one answer, and the world has changed
//! once; without a key the turn was completed or had no effect. `cluster` does the same with
//! several instances.

use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hearken::config::Config;
use hearken_test_support::socket::{Socket, frame};
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;

use super::answer;
use crate::support::app::{TestServer, Vendors};
use crate::support::slow_worlds::SlowWorlds;

/// Timeout for events that must occur.
const SOON: Duration = Duration::from_secs(40);
/// Pause of the state server, twice per request.
pub(crate) const PAUSE: Duration = Duration::from_millis(40);
/// Interval between the disconnects of a slow turn, in steps.
const STEP: Duration = Duration::from_millis(50);
/// Maximum number of steps: on a machine that takes longer for the turn, they are longer, not more.
const MAX_STEPS: u32 = 60;
/// Interval between the messages of two clients; the store of a busy machine is too slow for
/// hundreds at once.
const APART: Duration = Duration::from_millis(10);
/// Delays after the last moment that is visible from outside, in ms: the turn is stored, published
/// and answered.
const BEHIND: [u64; 6] = [40, 42, 44, 48, 52, 60];

const HURT: &str = r#"call update_hp {"character_id": "hero", "change": -1}"#;

/// A model that makes the requested call and echoes its result.
pub(crate) async fn vendors() -> Vendors {
    Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, "").await,
        OpenAiChat::answering(super::echo).await,
        ListenAiTts::start(Behaviour::Normal).await,
    )
}

/// Servers that share their sessions; may be a single one.
pub(crate) struct Servers<'a> {
    /// `HOST:PORT` of each.
    pub(crate) all: Vec<String>,
    pub(crate) worlds: &'a SlowWorlds,
    pub(crate) vendors: &'a Vendors,
    pub(crate) http: reqwest::Client,
}

/// A session with one message, and its watcher.
struct WatchedSession {
    id: String,
    watcher: Socket,
    /// The server of the first request; later requests go to others.
    at: usize,
}

/// The moment at which a client disconnects.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// When the model has had this many requests.
    Model(usize),
    /// This many ms after this moment of the state server.
    World(usize, u64),
}

impl<'a> Servers<'a> {
    pub(crate) fn new(all: Vec<String>, worlds: &'a SlowWorlds, vendors: &'a Vendors) -> Self {
        Self { all, worlds, vendors, http: reqwest::Client::new() }
    }

    fn address(&self, at: usize) -> &str {
        &self.all[at % self.all.len()]
    }

    async fn watched_session(&self, at: usize) -> WatchedSession {
        let wanted = json!({"name": "n", "creator_id": "c"});
        let url = format!("http://{}/api/sessions", self.address(at));
        let (status, made) = answer(self.http.post(url).json(&wanted)).await;
        assert_eq!(status, 201, "{made}");
        let id = made["id"].as_str().unwrap().to_owned();
        self.worlds.put_hero(&id);
        let url = format!("ws://{}/api/sessions/{id}/ws", self.address(at + 2));
        let mut watcher = connect_async(url).await.unwrap().0;
        frame(&mut watcher, SOON).await.expect("the server confirms the connection");
        WatchedSession { id, watcher, at }
    }

    /// Builds the request with the message to one of the servers.
    fn say(
        &self,
        session: &WatchedSession,
        at: usize,
        key: Option<&str>,
        stream: bool,
    ) -> reqwest::RequestBuilder {
        let url = format!("http://{}/api/sessions/{}/chat", self.address(at), session.id);
        let asked = self.http.post(url).json(&json!({"message": HURT, "stream": stream}));
        let asked = asked.timeout(SOON);
        match key {
            Some(key) => asked.header("Idempotency-Key", key),
            None => asked,
        }
    }

    /// Sends the message and disconnects as soon as `leaves` resolves.
    async fn say_and_leave(
        &self,
        session: &WatchedSession,
        key: Option<&str>,
        stream: bool,
        leaves: impl Future<Output = ()>,
    ) {
        let asking = async {
            let response = self.say(session, session.at, key, stream).send().await.unwrap();
            response.bytes().await.unwrap();
        };
        tokio::select! {
            biased;
            () = leaves => {}
            () = asking => {}
        }
    }

    /// Resolves at this moment, counted from the call.
    fn at(&self, cut: Cut) -> impl Future<Output = ()> {
        let asked = self.vendors.llm.seen().requests;
        let moments = self.worlds.moments();
        async move {
            match cut {
                Cut::Model(n) => {
                    self.vendors.llm.until(|seen| seen.requests >= asked + n).await;
                }
                Cut::World(n, after) => {
                    self.worlds.until(moments + n).await;
                    tokio::time::sleep(Duration::from_millis(after)).await;
                }
            }
        }
    }

    /// All events that a watcher received, up to the end of the session.
    async fn told(&self, session: &mut WatchedSession) -> Vec<String> {
        let url =
            format!("http://{}/api/sessions/{}/archive", self.address(session.at), session.id);
        let (status, told) = answer(self.http.post(url)).await;
        assert_eq!(status, 200, "{told}");
        let mut kinds = Vec::new();
        loop {
            let told = frame(&mut session.watcher, SOON).await.expect("the socket lives");
            match told["event"]["type"].as_str().unwrap() {
                "session.archived" => return kinds,
                kind => kinds.push(kind.to_owned()),
            }
        }
    }

    async fn messages(&self, session: &WatchedSession) -> usize {
        let url =
            format!("http://{}/api/sessions/{}/messages", self.address(session.at), session.id);
        let (status, told) = answer(self.http.get(url)).await;
        assert_eq!(status, 200, "{told}");
        let all = told["messages"].as_array().unwrap().len();
        assert_eq!(told["total"], all, "{told}");
        all
    }

    /// Repeats the request with the same key, to the same and to other servers: one answer, one turn.
    async fn asked_again(&self, mut session: WatchedSession, key: &str, when: &str) {
        let ask = async |at: usize, stream: bool| -> (u16, Value) {
            answer(self.say(&session, at, Some(key), stream)).await
        };
        let (status, first) = ask(session.at + 1, false).await;
        assert_eq!(status, 200, "left {when}: {first}");
        let text = first["response"].as_str().unwrap();
        assert!(text.contains(r#""hp":999"#), "left {when}: {text}");
        assert_eq!(ask(session.at + 2, false).await, (200, first.clone()), "left {when}");
        let (status, streamed) = ask(session.at, true).await;
        let done = streamed.as_str().and_then(|body| body.strip_prefix("event: done\ndata: "));
        let done = done.unwrap_or_else(|| panic!("left {when}: not the answer alone: {streamed}"));
        let done: Value = serde_json::from_str(done).unwrap();
        assert_eq!((status, done), (200, first), "left {when}");
        assert_eq!(self.worlds.hero(&session.id), (999, 3), "left {when}: the change is made once");
        assert_eq!(self.messages(&session).await, 4, "left {when}: the turn is stored once");
        let told = self.told(&mut session).await;
        assert_eq!(told, ["character.hp_changed", "chat.answered"], "left {when}: sent once");
    }

    /// The next message is answered, and the message before was processed completely or not at all.
    async fn whole_or_nothing(&self, mut session: WatchedSession, when: &str) {
        let url =
            format!("http://{}/api/sessions/{}/chat", self.address(session.at + 1), session.id);
        let next = self.http.post(url).json(&json!({"message": "hello"})).timeout(SOON);
        let (status, told) = answer(next).await;
        assert_eq!((status, &told["response"]), (200, &json!("You said hello")), "left {when}");
        let hp = self.worlds.hero(&session.id).0;
        let messages = self.messages(&session).await;
        let told = self.told(&mut session).await;
        match (hp, messages) {
            (1_000, 2) => assert_eq!(told, ["chat.answered"], "left {when}"),
            (999, 6) => {
                let all = ["character.hp_changed", "chat.answered", "chat.answered"];
                assert_eq!(told, all, "left {when}");
            }
            half => panic!("left {when}: hit points and messages are {half:?}, events {told:?}"),
        }
    }

    /// All moments of a turn that are visible from outside.
    async fn moments(&self) -> Vec<Cut> {
        let mut session = self.watched_session(0).await;
        let before = self.worlds.moments();
        let (status, told) = answer(self.say(&session, 0, None, false)).await;
        assert_eq!(status, 200, "{told}");
        self.told(&mut session).await;
        let last = self.worlds.moments() - before;
        assert!(last >= 4, "a turn reads and changes its world");
        let world = (1..=last).map(|n| Cut::World(n, 0));
        let behind = BEHIND.map(|after| Cut::World(last, after));
        [Cut::Model(1), Cut::Model(2)].into_iter().chain(world).chain(behind).collect()
    }

    /// Disconnects at every moment of a turn.
    pub(crate) async fn leave_at_every_moment(&self) {
        for (n, cut) in self.moments().await.into_iter().enumerate() {
            for stream in [false, true] {
                let when = format!("{cut:?}, stream {stream}");
                let session = self.watched_session(n).await;
                self.say_and_leave(&session, Some("k"), stream, self.at(cut)).await;
                self.asked_again(session, "k", &when).await;
                let session = self.watched_session(n).await;
                self.say_and_leave(&session, None, stream, self.at(cut)).await;
                self.whole_or_nothing(session, &when).await;
            }
        }
    }

    /// Disconnects from a slow turn after 50 ms, after 100 ms, and so on, each time in a new session.
    pub(crate) async fn leave_at_every_step(&self) {
        self.vendors.llm.set(Behaviour::Slow);
        let mut session = self.watched_session(0).await;
        let begun = Instant::now();
        assert_eq!(answer(self.say(&session, 0, None, false)).await.0, 200);
        let whole = begun.elapsed();
        self.told(&mut session).await;
        let mut all = Vec::new();
        let step = STEP.max(whole / MAX_STEPS);
        let mut after = step;
        while after < whole + step {
            for stream in [false, true] {
                all.push((self.watched_session(all.len()).await, after, stream));
            }
            after += step;
        }
        let leaving = all.into_iter().zip(0..).map(|((session, after, stream), n)| async move {
            tokio::time::sleep(APART * n).await;
            self.say_and_leave(&session, Some("k"), stream, tokio::time::sleep(after)).await;
            self.asked_again(session, "k", &format!("after {after:?}, stream {stream}")).await;
        });
        let left = join_all(leaving).await.len();
        self.vendors.llm.set(Behaviour::Normal);
        assert!(left > 20, "{left} cuts of a turn of {whole:?}");
    }
}

/// All clients have one address, so request limits are off.
async fn server(vendors: &Vendors, worlds: &SlowWorlds) -> TestServer {
    let tweak = |config: &mut Config| {
        config.state.url = worlds.url.clone();
        config.http.requests_per_minute = 0;
    };
    TestServer::start(vendors, tweak).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_leave_at_every_moment_of_a_turn() {
    let vendors = vendors().await;
    let worlds = SlowWorlds::start(PAUSE).await;
    let server = server(&vendors, &worlds).await;
    let servers = Servers::new(vec![server.address.to_string()], &worlds, &vendors);
    servers.leave_at_every_moment().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_leave_every_50_ms_of_a_slow_turn() {
    let vendors = vendors().await;
    let worlds = SlowWorlds::start(PAUSE).await;
    let server = server(&vendors, &worlds).await;
    let servers = Servers::new(vec![server.address.to_string()], &worlds, &vendors);
    servers.leave_at_every_step().await;
    server.stop().await;
}
