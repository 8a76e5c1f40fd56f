//! Text clients whose sockets are cut during a call of a server's tool, at every message and every
//! 100 ms of a turn, and that resume their session at other instances: a call that started is made
//! once and completed, and the session remembers all of the turn or nothing. Applications are
//! tested in `cutting`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_base::Secret;
use hearken_test_support::eventually;
use hearken_test_support::places::{Place, on};
use hearken_test_support::redis::there_is;
use hearken_test_support::socket::{Socket, frame};
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_tool_sources::AgentTokens;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::crossings::{connect, known};
use super::instances::{Instance, Instances, SECRET};
use crate::support::app::Vendors;

/// Timeout for events that must occur.
const SOON: Duration = Duration::from_secs(30);
/// Duration of a tool call.
const WORK: Duration = Duration::from_millis(300);
/// Interval between the cuts of a slow turn.
const STEP: Duration = Duration::from_millis(100);
/// The text of the model before it calls the tool.
const BEFORE_CALL: &str = "Let me see.";

fn said(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    if asked.starts_with("call ") { BEFORE_CALL.into() } else { format!("You said {asked}") }
}

/// A tool client with one slow tool that counts its calls by number.
struct Switch {
    calls: Arc<Mutex<HashMap<u64, Calls>>>,
    task: JoinHandle<()>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Calls {
    begun: usize,
    ended: usize,
}

impl Switch {
    async fn connect(at: &Instance) -> Self {
        let token = AgentTokens::new(&Secret::new(SECRET), &[]).mint("default").unwrap().0;
        let socket = connect(&at.socket(&format!("/mcp_endpoint/mcp/?token={token}")), &[]).await;
        let calls = Arc::default();
        let task = tokio::spawn(serve(socket, Arc::clone(&calls)));
        Self { calls, task }
    }

    fn calls(&self, number: usize) -> Calls {
        let calls = self.calls.lock().unwrap();
        calls.get(&(number as u64)).copied().unwrap_or_default()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves the tool; calls run concurrently.
async fn serve(socket: Socket, calls: Arc<Mutex<HashMap<u64, Calls>>>) {
    let (sink, mut stream) = socket.split();
    let sink = Arc::new(tokio::sync::Mutex::new(sink));
    while let Some(Ok(message)) = stream.next().await {
        let Message::Text(text) = message else { continue };
        let asked: Value = serde_json::from_str(&text).unwrap();
        let sink = Arc::clone(&sink);
        let calls = Arc::clone(&calls);
        tokio::spawn(async move {
            let Some(result) = answer(&asked, &calls).await else { return };
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result});
            // The test may be over.
            sink.lock().await.send(Message::text(answer.to_string())).await.unwrap_or_default();
        });
    }
}

async fn answer(asked: &Value, calls: &Mutex<HashMap<u64, Calls>>) -> Option<Value> {
    Some(match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}}, "serverInfo": {"name": "switch", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "turn_on", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let number = asked["params"]["arguments"]["number"].as_u64().unwrap();
            calls.lock().unwrap().entry(number).or_default().begun += 1;
            tokio::time::sleep(WORK).await;
            calls.lock().unwrap().entry(number).or_default().ended += 1;
            json!({"content": [{"type": "text", "text": format!("on {number}")}]})
        }
        _ => return None,
    })
}

/// The moment at which a socket is cut.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// After this many messages of the turn.
    Messages(usize),
    /// This long after the question.
    Time(Duration),
}

/// A text client at an instance, in a session.
struct Client {
    socket: Socket,
    session: String,
}

impl Client {
    async fn connect(at: &Instance, streams: bool) -> Self {
        let mut client =
            Self { socket: connect(&at.socket("/"), &[]).await, session: String::new() };
        client.session = id_of(&client.next().await);
        client.send(json!({"type": "configure", "enable_context": true, "stream": streams})).await;
        client
    }

    async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        frame(&mut self.socket, SOON).await.expect("the connection is open")
    }

    async fn resume(&mut self, session: &str) {
        self.send(json!({"type": "start_session", "session_id": session})).await;
        assert_eq!(id_of(&self.next().await), session, "it is the same session");
        self.session = session.to_owned();
    }

    async fn say(&mut self, text: &str) {
        self.send(json!({"type": "text_input", "text": text})).await;
    }

    /// Sends a question; returns the number of messages up to its answer. The session must stay the same.
    async fn ask(&mut self, text: &str) -> usize {
        self.say(text).await;
        for count in 1.. {
            let told = self.next().await;
            assert_ne!(told["type"], "error", "{text}: {told}");
            assert_ne!(told["status"], "connected", "{text}: another session: {told}");
            if told["type"] == "llm_response" {
                return count;
            }
        }
        unreachable!("the range is infinite")
    }
}

fn id_of(told: &Value) -> String {
    assert_eq!(told["status"], "connected", "{told}");
    told["data"]["session_id"].as_str().unwrap().to_owned()
}

fn call(number: usize) -> String {
    format!(r#"call turn_on {{"number": {number}}}"#)
}

/// The instances, and a tool client at one of them.
struct House {
    cluster: Instances,
    switch: Switch,
}

impl House {
    async fn start(place: &Place) -> Self {
        let vendors = Vendors::of(
            ListenAiAsr::start(Behaviour::Normal, "").await,
            OpenAiChat::answering(said).await,
            ListenAiTts::start(Behaviour::Normal).await,
        );
        let cluster = Instances::start(vendors, &place.url).await;
        let switch = Switch::connect(&cluster.all[2]).await;
        for at in &cluster.all {
            eventually("the tool is known", || async {
                (known(at).await == ["switch"]).then_some(())
            })
            .await;
        }
        Self { cluster, switch }
    }

    fn at(&self, number: usize) -> &Instance {
        &self.cluster.all[number % self.cluster.all.len()]
    }

    /// The prompt with this question, without the instructions.
    fn prompt(&self, question: &str) -> Vec<Value> {
        let texts = self.cluster.vendors.llm.seen().texts;
        let bodies = texts.iter().rev().filter_map(|text| serde_json::from_str(text).ok());
        let mut prompts = bodies.map(|body: Value| body["messages"].as_array().unwrap().clone());
        let found = prompts.find(|all| all.last().unwrap()["content"] == question);
        let found = found.unwrap_or_else(|| panic!("the model was not asked `{question}`"));
        found.into_iter().filter(|message| message["role"] != "system").collect()
    }

    /// Resumes a session at this instance; returns the prompt of its question.
    async fn go_on(&self, at: usize, session: &str, question: &str) -> Vec<Value> {
        let mut client = Client::connect(self.at(at), true).await;
        client.resume(session).await;
        client.ask(question).await;
        self.prompt(question)
    }

    /// Cuts the socket of one client and resumes at each instance. True if the call had started.
    async fn cut_off(&self, number: usize, streams: bool, cut: Cut) -> bool {
        let when = format!("{cut:?}, streams {streams}, at {}", number % 3);
        let mut client = Client::connect(self.at(number), streams).await;
        client.ask(&format!("first {number}")).await;
        client.say(&call(number)).await;
        match cut {
            Cut::Messages(count) => {
                for _ in 0..count {
                    client.next().await;
                }
            }
            Cut::Time(time) => tokio::time::sleep(time).await,
        }
        let Client { socket, session } = client;
        drop(socket);
        let mut all = self.go_on(number + 1, &session, &format!("second {number}")).await;
        let calls = self.switch.calls(number);
        let begun = calls.begun > 0;
        let once = if begun { Calls { begun: 1, ended: 1 } } else { Calls::default() };
        assert_eq!(calls, once, "cut {when}");
        is_whole(&all, number, begun, &when);
        // At the other instances the session is the same, even if an older copy is in memory.
        for (later, word) in ["third", "fourth"].into_iter().enumerate() {
            let last = all.last().unwrap()["content"].as_str().unwrap().to_owned();
            let question = format!("{word} {number}");
            let told = self.go_on(number + 2 + later, &session, &question).await;
            all.push(json!({"role": "assistant", "content": format!("You said {last}")}));
            all.push(json!({"role": "user", "content": question}));
            assert_eq!(shown(&told), shown(&all), "cut {when}");
        }
        assert_eq!(self.switch.calls(number), once, "cut {when}: no call was started later");
        begun
    }

    /// Number of messages of an uncut turn, and its duration.
    async fn whole_turn(&self, number: usize, streams: bool) -> (usize, Duration) {
        let mut client = Client::connect(self.at(number), streams).await;
        let begun = Instant::now();
        (client.ask(&call(number)).await, begun.elapsed())
    }
}

/// Messages as `role: content`.
fn shown(messages: &[Value]) -> Vec<String> {
    let line = |m: &Value| {
        let content = m["content"].as_str().unwrap_or_default();
        format!("{}: {content}", m["role"].as_str().unwrap())
    };
    messages.iter().map(line).collect()
}

/// Checks that the cut turn is remembered with its call and result, or not at all, and that no
/// message is mixed with another.
fn is_whole(all: &[Value], number: usize, begun: bool, when: &str) {
    let mut wanted =
        vec![format!("user: first {number}"), format!("assistant: You said first {number}")];
    let mut told = shown(all);
    if begun {
        wanted.push(format!("user: {}", call(number)));
        wanted.push(format!("assistant: {BEFORE_CALL}"));
        wanted.push(format!("tool: on {number}"));
        let calls = all[3]["tool_calls"].as_array().unwrap_or_else(|| panic!("{when}: {all:?}"));
        assert_eq!((calls.len(), &calls[0]["id"]), (1, &all[4]["tool_call_id"]), "cut {when}");
        // Of the answer, the part that was sent is remembered; if none was, the adapter sends an
        // acknowledgement.
        if told.len() == wanted.len() + 2 {
            let rest = told.remove(wanted.len());
            let answer = format!("assistant: You said on {number}");
            let is_part = answer.starts_with(&rest) && rest.len() > 11;
            assert!(is_part || rest == "assistant: OK.", "cut {when}: {rest}");
        }
    }
    wanted.push(format!("user: second {number}"));
    assert_eq!(told, wanted, "cut {when}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_client_that_is_cut_off_resumes_at_another_instance() {
    if !there_is("text clients that are cut off and resume at another instance") {
        return;
    }
    on(Place::postgres().await, |place| async move {
        let house = House::start(&place).await;
        let mut numbers = 0..;
        let mut next = || numbers.next().expect("the range is infinite");
        let mut cuts = Vec::new();
        for streams in [false, true] {
            let (messages, _) = house.whole_turn(next(), streams).await;
            assert!(messages >= 3, "{messages} messages of a turn with a call");
            for count in 1..=messages {
                // One cut at each instance.
                cuts.extend([0; 3].map(|_| (next(), streams, Cut::Messages(count))));
            }
        }
        let cutting = cuts.iter().map(|(n, streams, cut)| house.cut_off(*n, *streams, *cut));
        let by_messages = join_all(cutting).await;
        house.cluster.vendors.llm.set(Behaviour::Slow);
        house.cluster.vendors.llm.forget_texts();
        let (_, whole) = house.whole_turn(next(), true).await;
        let mut cuts = Vec::new();
        let mut after = STEP;
        while after < whole + STEP {
            cuts.extend([false, true].map(|streams| (next(), streams, Cut::Time(after))));
            after += STEP;
        }
        let cutting = cuts.iter().map(|(n, streams, cut)| house.cut_off(*n, *streams, *cut));
        let by_time = join_all(cutting).await;
        let begun = |all: &[bool]| all.iter().filter(|begun| **begun).count();
        eprintln!(
            "cut by messages: {}, {} with a call; by time: {} of a turn of {whole:.1?}, {} with a call",
            by_messages.len(),
            begun(&by_messages),
            by_time.len(),
            begun(&by_time),
        );
        assert!(begun(&by_messages) > 0, "calls begin");
        assert!((1..by_time.len()).contains(&begun(&by_time)), "cuts before and after the call");
    })
    .await;
}
