//! Tool clients of one agent that have the same tool, and that leave and return between an offer and
//! a call. Not for their sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hearken_base::language::Language;
use hearken_dialogue::SharedStyle;
use hearken_dialogue::tools::{SourceProvider, ToolPolicies, ToolPolicy, ToolSettings, Toolbox};
use hearken_ports::ToolRequest;
use hearken_socket::HeldText;
use hearken_test_support::eventually;
use hearken_tool_sources::{
    Builtin, BuiltinSettings, DEFAULT_AGENT, Endpoint, Environment, Servers, Sources,
    ToolClientToken,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time limit of the calls.
const WITHIN: Duration = Duration::from_secs(10);

/// Names of the tool clients that were called.
type Called = Arc<Mutex<Vec<String>>>;

/// Tool client with the tool `open`.
struct Client {
    answering: JoinHandle<()>,
    serving: JoinHandle<String>,
}

impl Client {
    async fn dial(sources: &Sources, name: &str, called: &Called) -> Self {
        let token = ToolClientToken { agent: DEFAULT_AGENT.into(), serial: String::new() };
        let admitted = sources.endpoint().admit(&token).unwrap();
        let (ask, mut asked) = mpsc::channel::<String>(64);
        let (tell, told) = mpsc::channel::<HeldText>(64);
        let serving = tokio::spawn(admitted.serve(told, ask));
        let known = name.to_owned();
        let called = Arc::clone(called);
        let answering = tokio::spawn(async move {
            while let Some(text) = asked.recv().await {
                let Some(answer) = answer(&text, &known, &called) else { continue };
                if tell.send(HeldText::from(answer)).await.is_err() {
                    return;
                }
            }
        });
        let is_ready = || async {
            let found = sources.named(DEFAULT_AGENT, name)?;
            (!found.tools().is_empty()).then_some(())
        };
        eventually("the tool client is ready", is_ready).await;
        Self { answering, serving }
    }

    async fn leave(self) {
        self.answering.abort();
        self.serving.await.unwrap();
    }
}

/// Answers a request as the tool client with this name.
fn answer(text: &str, name: &str, called: &Called) -> Option<String> {
    let asked: Value = serde_json::from_str(text).unwrap();
    let result = match asked["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        }),
        "tools/list" => {
            json!({"tools": [{"name": "open", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" => {
            called.lock().unwrap().push(name.to_owned());
            json!({"content": [{"type": "text", "text": "open"}]})
        }
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string())
}

/// What happens between the offer and the call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    Nothing,
    WindowLeaves,
    WindowReturns,
    GarageLeaves,
}

fn sources(process: &CancellationToken) -> Sources {
    let servers = Servers::start(&[], &Environment::default(), process).unwrap();
    let builtin = BuiltinSettings { enabled: Vec::new(), ..BuiltinSettings::default() };
    let builtin = Builtin::new(&builtin, &jiff::tz::TimeZone::UTC).unwrap();
    Sources::new(builtin, servers, Endpoint::new(WITHIN))
}

/// A toolbox of the text clients' tools, with this policy for all of them.
fn toolbox(sources: &Sources, policy: ToolPolicy) -> Toolbox {
    let all = sources.clone();
    let others: SourceProvider = Arc::new(move || all.conversation("s-1", &SharedStyle::default()));
    let patterns = [("*".to_owned(), policy)].into();
    let policies = ToolPolicies { patterns, ..ToolPolicies::default() };
    Toolbox::new(
        Vec::new(),
        others,
        ToolSettings { policies: policies.into(), ..ToolSettings::default() },
    )
}

async fn happen(meanwhile: Meanwhile, sources: &Sources, clients: [Client; 2], called: &Called) {
    let [window, garage] = clients;
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::WindowLeaves => window.leave().await,
        Meanwhile::WindowReturns => {
            window.leave().await;
            // It stays connected to the end of the test.
            Client::dial(sources, "window", called).await;
        }
        Meanwhile::GarageLeaves => garage.leave().await,
    }
}

#[tokio::test]
async fn a_call_reaches_the_client_that_was_offered_or_none() {
    for (meanwhile, reached, permitted) in [
        (Meanwhile::Nothing, true, true),
        (Meanwhile::WindowLeaves, false, false),
        (Meanwhile::WindowReturns, false, false),
        // Nothing changes for the tool that the person was asked about.
        (Meanwhile::GarageLeaves, true, true),
    ] {
        let process = CancellationToken::new();
        let sources = sources(&process);
        let called = Called::default();
        let window = Client::dial(&sources, "window", &called).await;
        let garage = Client::dial(&sources, "garage", &called).await;
        let tools = toolbox(&sources, ToolPolicy::Ask);
        let offer = tools.offer();
        let names: Vec<&str> = offer.tools().iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["open", "garage_open"]);
        let open = ToolRequest { id: "1".into(), name: "open".into(), ..ToolRequest::default() };
        let calls = [open];
        let screened = tools.screen(&offer, &calls, &[], "open", Language::English);
        let (held, question) = screened.held.unwrap();
        assert!(question.contains("open"), "{question}");
        happen(meanwhile, &sources, [window, garage], &called).await;
        for is_listed_again in [false, true] {
            let later = if is_listed_again { tools.offer() } else { Arc::clone(&offer) };
            called.lock().unwrap().clear();
            let mut made = tools.begin(&offer, &calls, "open", Instant::now() + WITHIN);
            while made.next().await.is_some() {}
            let expected: &[&str] = if reached { &["window"] } else { &[] };
            assert_eq!(*called.lock().unwrap(), expected, "{meanwhile:?} {is_listed_again}");
            if is_listed_again {
                assert_eq!(held.permitted(true, &later).is_ok(), permitted, "{meanwhile:?}");
            }
        }
        process.cancel();
        sources.stop().await;
    }
}
