//! Scripted servers that violate the protocol: every call and every attempt to connect ends within
//! its time limit and within bounded memory, and the next one works if the server does.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hearken_base::Secret;
use hearken_ports::{ToolError, ToolOutput, ToolSource};
use hearken_test_support::eventually;
use hearken_test_support::peers::{Peers, peak_memory_bytes};
use hearken_test_support::tool_sources::{
    AGENT, address, call, child, ready, source, sources, states, until, words,
};
use hearken_test_support::vendors::{Request, gone, read_request, respond};
use hearken_tool_sources::{SourceState, Sources, ToolServer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Time limit of the calls in these tests.
const WITHIN: Duration = Duration::from_secs(1);
/// Number of bytes that an endless answer sends before it stops.
const ENDLESS_BYTES: usize = 256 << 20;
/// Tolerated growth of memory.
const FEW_MEBIBYTES: usize = 100;
/// Number of pages with 4 MiB each: more than that memory.
const FAT_PAGES: usize = 30;

/// Misbehaviour of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// None: it answers as a server of 2025-11-25 does.
    Proper,
    /// Accepts the request and never answers.
    Silent,
    /// Answers another request.
    OtherId,
    /// An answer whose result is a number.
    OddResult,
    /// An error without a code.
    OddError,
    /// This status and body, without a message of the protocol.
    Page(u16, &'static str),
    /// Half of the announced body.
    Half,
    /// An endless answer.
    EndlessBody,
    /// A stream of events whose first event is endless.
    EndlessEvent,
    /// A stream of events that ends before the answer.
    NoEvent,
    /// Redirects the client to this port.
    Elsewhere(u16),
    /// Each page of tools has a next one: always the same, or always a different one.
    Pages(&'static str),
    /// Pages of one tool with a description of 4 MiB, to be cached for an hour.
    FatPages,
}

/// Misbehaviours that are soon recognised as no answer, to every request.
const NO_ANSWERS: [Manner; 8] = [
    Manner::OtherId,
    Manner::OddResult,
    Manner::OddError,
    Manner::Page(200, "<html>Welcome</html>"),
    Manner::Page(404, "<html>not here</html>"),
    Manner::Page(500, "cannot read property of undefined"),
    Manner::EndlessEvent,
    Manner::NoEvent,
];

/// Method whose requests get this misbehaviour.
type Rude = (&'static str, Manner);

/// A server on its own port, which misbehaves at requests of one method.
struct Hostile {
    port: u16,
    rude: Arc<Mutex<Rude>>,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Hostile {
    async fn start(rude: Rude) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let rude = Arc::new(Mutex::new(rude));
        let heads = Arc::default();
        let style = Arc::clone(&rude);
        let seen = Arc::clone(&heads);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&style), Arc::clone(&seen)));
            }
        });
        Self { port, rude, heads, task }
    }

    fn settings(&self) -> ToolServer {
        let mut server = address("hostile", format!("http://127.0.0.1:{}/mcp", self.port));
        server.timeout_ms = u64::try_from(WITHIN.as_millis()).unwrap();
        server.start_timeout_ms = 2_000;
        server
    }

    fn behaves(&self, rude: Rude) {
        *self.rude.lock().unwrap() = rude;
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, rude: Arc<Mutex<Rude>>, heads: Arc<Mutex<Vec<String>>>) {
    let Some(Request { head, body }) = read_request(&mut stream).await else { return };
    let posted = head.starts_with("POST ");
    heads.lock().unwrap().push(head);
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (method, style) = *rude.lock().unwrap();
    if asked["method"] == method {
        misbehave(&mut stream, style, &asked).await;
    } else if !posted {
        respond(&mut stream, 405, "", b"").await;
    } else if asked.get("id").is_none() {
        respond(&mut stream, 202, "", b"").await;
    } else {
        answer(&mut stream, &properly(&asked)).await;
    }
}

async fn answer(stream: &mut TcpStream, message: &Value) {
    let body = message.to_string();
    respond(stream, 200, "content-type: application/json\r\n", body.as_bytes()).await;
}

fn tool() -> Value {
    json!({"name": "say", "inputSchema": {"type": "object"}})
}

/// Returns the answer of a server of 2025-11-25.
fn properly(asked: &Value) -> Value {
    let result = match asked["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile", "version": "1"}}),
        "tools/list" => json!({"tools": [tool()]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "said"}]}),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return json!({"jsonrpc": "2.0", "id": asked["id"], "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})
}

async fn misbehave(stream: &mut TcpStream, style: Manner, asked: &Value) {
    let message =
        |key: &str, value: Value| json!({"jsonrpc": "2.0", "id": asked["id"], key: value});
    let json_type = "content-type: application/json\r\n";
    match style {
        Manner::Proper => answer(stream, &properly(asked)).await,
        Manner::Silent => while !gone(stream, Duration::from_secs(600)).await {},
        Manner::OtherId => {
            let mut other = properly(asked);
            other["id"] = json!(4_711);
            answer(stream, &other).await;
        }
        Manner::OddResult => answer(stream, &message("result", json!(7))).await,
        Manner::OddError => {
            answer(stream, &message("error", json!({"message": "no luck"}))).await;
        }
        Manner::Page(status, body) => {
            respond(stream, status, "content-type: text/html\r\n", body.as_bytes()).await;
        }
        Manner::Half => {
            let half = format!("HTTP/1.1 200 OK\r\n{json_type}content-length: 90\r\n\r\n{{\"json");
            stream.write_all(half.as_bytes()).await.ok();
        }
        Manner::EndlessBody => endless(stream, "application/json", "{\"jsonrpc\":\"").await,
        Manner::EndlessEvent => endless(stream, "text/event-stream", "data: ").await,
        Manner::NoEvent => {
            respond(stream, 200, "content-type: text/event-stream\r\n", b": nothing\n\n").await;
        }
        Manner::Elsewhere(port) => {
            let location = format!("location: http://127.0.0.1:{port}/mcp\r\n");
            respond(stream, 307, &location, b"").await;
        }
        Manner::Pages(next) => {
            let next = if next.is_empty() { asked["id"].to_string() } else { next.to_owned() };
            let tools: Vec<Value> = (0..100)
                .map(|n| json!({"name": format!("{}-{n}", asked["id"]), "inputSchema": {}}))
                .collect();
            answer(stream, &message("result", json!({"tools": tools, "nextCursor": next}))).await;
        }
        Manner::FatPages => {
            let cursor = asked["params"]["cursor"].as_str().unwrap_or("0");
            let number = cursor.parse::<usize>().unwrap();
            let tool = json!({
                "name": format!("fat-{number}"),
                "description": "x".repeat(4 << 20),
                "inputSchema": {"type": "object"},
            });
            let mut page = json!({"tools": [tool], "ttlMs": 3_600_000});
            if number + 1 < FAT_PAGES {
                page["nextCursor"] = (number + 1).to_string().into();
            }
            answer(stream, &message("result", page)).await;
        }
    }
}

async fn endless(stream: &mut TcpStream, content_type: &str, start: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n\r\n{start}");
    let piece = vec![b'x'; 1 << 20];
    let mut sent = stream.write_all(head.as_bytes()).await;
    for _ in 0..ENDLESS_BYTES / piece.len() {
        // A refused connection is expected.
        let Ok(()) = sent else { return };
        sent = stream.write_all(&piece).await;
    }
}

/// Checks that memory stayed within bounds since there were this many bytes.
fn peak_is_little_more_than(before: usize) {
    let grown = (peak_memory_bytes() - before) >> 20;
    assert!(grown < FEW_MEBIBYTES, "{grown} MiB more at the peak");
}

async fn say(server: &Arc<dyn ToolSource>) -> Result<ToolOutput, ToolError> {
    call(server, "say", json!({})).await
}

async fn refused(sources: &Sources) -> String {
    until(sources, "failed", |s| matches!(s, SourceState::Failed(_))).await;
    match states(sources).swap_remove(0).1 {
        SourceState::Failed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_call_has_an_end_and_the_next_one_works() {
    let hostile = Hostile::start(("", Manner::Proper)).await;
    let other = Hostile::start(("", Manner::Proper)).await;
    let mut settings = hostile.settings();
    settings.bearer = Secret::new("for this server only");
    let (all, _process) = sources(&[settings]);
    ready(&all).await;
    let server = source(&all, "hostile");
    let before = peak_memory_bytes();
    for style in [
        Manner::Silent,
        Manner::Page(202, ""),
        Manner::Page(204, ""),
        Manner::Page(401, "who?"),
        Manner::Page(502, ""),
        Manner::Half,
        Manner::EndlessBody,
        Manner::Elsewhere(other.port),
    ]
    .into_iter()
    .chain(NO_ANSWERS)
    {
        hostile.behaves(("tools/call", style));
        let begun = Instant::now();
        let answer = say(&server).await;
        let took = begun.elapsed();
        // A bare value is the tool's text.
        let is_told = matches!(style, Manner::OddResult);
        assert!(answer.is_err() || is_told && words(&answer) == "7", "{style:?}: {answer:?}");
        assert!(took < WITHIN * 3, "{style:?}: {took:?}");
        eprintln!("{style:?}: {answer:?} after {took:?}");
        hostile.behaves(("", Manner::Proper));
        let works = || async { say(&server).await.ok() };
        assert_eq!(words(&Ok(eventually("the next call works", works).await)), "said", "{style:?}");
    }
    assert_eq!(other.heads(), Vec::<String>::new(), "our token is sent to one server only");
    assert!(hostile.heads().iter().all(|head| head.contains("Bearer for this server only")));
    peak_is_little_more_than(before);
}

#[tokio::test]
async fn servers_that_do_not_know_the_version_question_are_supported() {
    let refusals = [Manner::Page(400, "Bad Request"), Manner::Page(405, "")];
    for style in refusals.into_iter().chain(NO_ANSWERS) {
        eprintln!("{style:?}");
        let hostile = Hostile::start(("server/discover", style)).await;
        let (all, _process) = sources(&[hostile.settings()]);
        let begun = Instant::now();
        ready(&all).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4), "{style:?}: {took:?}");
        assert_eq!(all.inventory(AGENT).sources[0].protocol, "2025-11-25", "{style:?}");
        assert_eq!(words(&say(&source(&all, "hostile")).await), "said", "{style:?}");
        all.stop().await;
    }
}

#[tokio::test]
async fn handshakes_and_lists_have_an_end() {
    let before = peak_memory_bytes();
    for (method, style) in [
        ("initialize", Manner::Silent),
        ("initialize", Manner::OddResult),
        ("initialize", Manner::Page(403, "go away")),
        ("initialize", Manner::EndlessBody),
        ("tools/list", Manner::OddResult),
        ("tools/list", Manner::Page(500, "oh")),
        ("tools/list", Manner::EndlessBody),
        ("tools/list", Manner::Silent),
    ] {
        let hostile = Hostile::start((method, style)).await;
        let (all, _process) = sources(&[hostile.settings()]);
        let begun = Instant::now();
        let reason = refused(&all).await;
        let took = begun.elapsed();
        eprintln!("{method} {style:?}: {reason} after {took:?}");
        assert!(took < Duration::from_secs(8), "{method} {style:?}: {took:?}");
        assert!(reason.chars().count() < 400, "{reason}");
        hostile.behaves(("", Manner::Proper));
        ready(&all).await;
        let begun = Instant::now();
        all.stop().await;
        assert!(begun.elapsed() < Duration::from_secs(4), "{method} {style:?}");
    }
    peak_is_little_more_than(before);
}

#[tokio::test]
async fn endless_lists_are_truncated() {
    for (next, tools) in [("again", 200), ("", 1_000)] {
        let hostile = Hostile::start(("tools/list", Manner::Pages(next))).await;
        let (all, _process) = sources(&[hostile.settings()]);
        ready(&all).await;
        assert_eq!(all.inventory(AGENT).sources[0].tools.len(), tools);
        all.stop().await;
    }
}

#[tokio::test]
async fn at_most_one_page_of_a_list_is_in_memory() {
    let before = peak_memory_bytes();
    let hostile = Hostile::start(("tools/list", Manner::FatPages)).await;
    let (all, _process) = sources(&[hostile.settings()]);
    ready(&all).await;
    assert_eq!(all.inventory(AGENT).sources[0].tools.len(), FAT_PAGES);
    peak_is_little_more_than(before);
    all.stop().await;
}

fn shell(name: &str, script: &str, rest: Vec<String>) -> ToolServer {
    let mut arguments = vec!["-c".to_owned(), script.to_owned(), "sh".into()];
    arguments.extend(rest);
    child(name, ("sh".into(), arguments))
}

#[tokio::test]
async fn a_child_with_extra_output_works_if_possible() {
    let Some(peers) = Peers::installed() else { return };
    let before = peak_memory_bytes();
    let (program, mut arguments) = peers.everything("stdio");
    arguments.insert(0, program);
    let noisy = "echo Starting ...; echo; echo '{\"level\":\"info\"}'; exec \"$@\"";
    let noisy = shell("noisy", noisy, arguments);
    let endless = format!("head -c {ENDLESS_BYTES} /dev/zero | tr '\\0' x; sleep 60");
    let mut endless = shell("endless", &endless, Vec::new());
    endless.start_timeout_ms = 5_000;
    let (all, process) = sources(&[noisy, endless]);
    until(&all, "known", |state| *state != SourceState::Connecting).await;
    let states = states(&all);
    assert_eq!(states[0].1, SourceState::Ready);
    assert!(matches!(states[1].1, SourceState::Failed(_)), "{states:?}");
    let sum = call(&source(&all, "noisy"), "get-sum", json!({"a": 40, "b": 2})).await;
    assert!(words(&sum).contains("42"), "{sum:?}");
    peak_is_little_more_than(before);
    process.cancel();
    all.stop().await;
}

/// A program that writes its answers after log output and over two lines, after a line in Latin-1
/// and one of 17 MiB.
const ODD_LINES: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  [ -n "$id" ] || continue
  begin="{\"jsonrpc\":\"2.0\",\"id\":$id,"
  printf 'caf\351\n'
  case "$line" in
    *'"initialize"'*)
      printf 'log: %s' "$begin"
      echo '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}' ;;
    *'"tools/list"'*)
      printf '%s\n' "$begin" ' "result":{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}' '}' ;;
    *'"tools/call"'*)
      head -c 17825792 /dev/zero | tr '\0' x
      echo
      printf '%s' "$begin"
      printf '%s\n' '"result":{"content":[{"type":"text","text":"said \ud83d"}]}}' ;;
    *) printf '%s%s\n' "$begin" '"error":{"code":-32601,"message":"no such method"}}' ;;
  esac
done
"#;

#[tokio::test]
async fn odd_lines_of_a_child_lose_no_other_one() {
    let (all, process) = sources(&[shell("odd", ODD_LINES, Vec::new())]);
    ready(&all).await;
    let odd = source(&all, "odd");
    for _ in 0..2 {
        assert_eq!(words(&say(&odd).await), "said \u{fffd}");
    }
    assert_eq!(all.inventory(AGENT).sources[0].connections, 1, "it was not restarted");
    process.cancel();
    all.stop().await;
}
