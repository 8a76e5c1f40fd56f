//! Our client with our server, over WebSocket, HTTP and standard streams.

use std::net::TcpListener;
use std::process::Stdio;

use hearken::config::AuthRequired;
use hearken_base::Secret;
use hearken_ports::{ToolContent, ToolError};
use hearken_test_support::tool_sources::{
    AGENT, call, litemcp_address, litemcp_program, ready, source, sources, states, until, words,
};
use hearken_test_support::{PATIENCE, eventually};
use hearken_tool_sources::{SourceKind, SourceState, ToolServer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{ADMIN, OwnServer};
use crate::support::app::{TestServer, Vendors};

/// `hearken tools serve TOOL` for this server.
fn served(name: &str, tool: &str, server: &OwnServer) -> ToolServer {
    let url = format!("http://{}", server.address);
    let args = ["tools", "serve", tool, "--url", &url, "--admin-token", ADMIN];
    litemcp_program(name, env!("CARGO_BIN_EXE_hearken"), &args)
}

/// The same tool over every transport.
fn everywhere(server: &OwnServer, tool: &str) -> Vec<ToolServer> {
    let path = tool.replace(' ', "%20").replace('好', "%E5%A5%BD");
    let mut all = vec![
        litemcp_address("socket", server.url("ws", &path)),
        litemcp_address("http", server.url("http", &path)),
    ];
    for server in &mut all {
        server.bearer = Secret::new(ADMIN);
    }
    all.push(served("program", tool, server));
    all
}

#[tokio::test]
async fn every_transport_carries_calls_in_both_directions() {
    let server = OwnServer::start(AuthRequired::Always).await;
    let (all, process) = sources(&everywhere(&server, "subtract"));
    ready(&all).await;
    let reports = all.inventory(AGENT).sources;
    let kinds: Vec<SourceKind> = reports.iter().map(|r| r.kind).collect();
    assert_eq!(kinds, [SourceKind::WebSocket, SourceKind::Http, SourceKind::Stdio]);
    for report in reports {
        assert_eq!((report.protocol.as_str(), report.tools.len()), ("LiteMCP 1.0.0", 1));
        let tool = &report.tools[0];
        assert_eq!((tool.name.as_str(), tool.description.as_str()), ("subtract", "Does subtract"));
        let about = json!({"type": ["number", "string"], "description": "A number\nExample: 2"});
        assert_eq!(tool.parameters["properties"]["a"], about);
        let minus = source(&all, &report.name);
        let three = call(&minus, "subtract", json!({"a": 5, "b": 2, "note": "x"})).await;
        assert_eq!(words(&three), "3", "{}", report.name);
        let texts = call(&minus, "subtract", json!({"b": "2", "a": "-0.5"})).await;
        assert_eq!(words(&texts), "-2.5");
        for (arguments, says) in [
            (json!({"b": 2}), "\"a\" is a required property"),
            (json!({"a": "five", "b": 2}), "is not of type \"number\""),
        ] {
            let wrong = call(&minus, "subtract", arguments).await;
            assert!(wrong.as_ref().unwrap().failed && words(&wrong).contains(says), "{wrong:?}");
        }
        let gap = call(&minus, "subtract", json!({"a": 2})).await;
        let why = "`b` is missing, and another comes after it".to_owned();
        assert_eq!(gap, Err(ToolError::Arguments(why)));
        let other = call(&minus, "sub", json!({})).await;
        assert_eq!(other, Err(ToolError::Unknown("sub".into())));
        let many = (0..40).map(|n| call(&minus, "subtract", json!({"a": n, "b": 0})));
        for (n, answer) in futures_util::future::join_all(many).await.iter().enumerate() {
            assert_eq!(words(answer), n.to_string());
        }
    }
    process.cancel();
    all.stop().await;
}

#[tokio::test]
async fn any_name_and_any_text_arrive_unchanged() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let (all, _process) = sources(&everywhere(&server, "say 好"));
    ready(&all).await;
    for name in ["socket", "http", "program"] {
        let say = source(&all, name);
        assert_eq!(say.tools()[0].name, "say 好");
        for text in ["", "\n\n\n", "\"quoted\" {\"a\":1} \\", "null", "2.50", "天气\u{1f327}\0"] {
            let said = call(&say, "say 好", json!({"text": text})).await;
            assert_eq!(words(&said), text, "{name}");
        }
        let long = "字".repeat(50_000);
        assert_eq!(words(&call(&say, "say 好", json!({"text": long})).await), long);
        let structure = call(&say, "say 好", json!({"text": {"a": [true, null]}})).await;
        assert!(
            matches!(structure, Ok(o) if o.content == [ToolContent::Text("{\"a\":[true,null]}".into())])
        );
    }
}

#[tokio::test]
async fn pictures_failures_and_timeouts_reach_the_client() {
    let server = OwnServer::start(AuthRequired::Never).await;
    for tool in ["picture", "fail", "waits"] {
        let (all, _process) = sources(&everywhere(&server, tool));
        ready(&all).await;
        let sources = ["socket", "http", "program"].map(|name| source(&all, name));
        let calls = sources.iter().map(|source| call(source, tool, json!({})));
        for output in futures_util::future::join_all(calls).await {
            let output = output.unwrap();
            let image =
                ToolContent::Image { mime_type: "image/png".into(), base64: "iVBORw==".into() };
            let text = |text: &str| ToolContent::Text(text.into());
            let (content, failed) = match tool {
                "picture" => (image, false),
                "fail" => (text("the tool failed: no rain"), true),
                _ => (text("the tool did not answer within 2 s"), true),
            };
            assert_eq!((output.content, output.failed), (vec![content], failed));
        }
    }
    assert_eq!((server.marks.count("begun"), server.marks.count("ended")), (3, 3));
}

#[tokio::test]
async fn a_program_that_closes_its_input_gets_all_answers() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let settings = served("program", "subtract", &server);
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(&settings.command)
        .args(&settings.args)
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let get = r#"{"version":[1,0,0],"id":1,"type":"get","data":{}}"#;
    let call = r#"{"version":[1,0,0],"id":2,"type":"call","data":{"tool":"subtract","arguments":["2","5"]}}"#;
    let asked = format!("{get}\n\n\nhello\n\n\n{get}\n\n\n\n{call}");
    child.stdin.take().unwrap().write_all(asked.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let output = ended.expect("it ends after its input").unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let messages: Vec<&str> = text.split_terminator("\n\n\n").collect();
    let [info, result] = messages[..] else { panic!("two answers: {text:?}") };
    assert!(info.starts_with(r#"{"version":[1,0,0],"id":1,"type":"info","#), "{info}");
    assert!(result.starts_with(r#"{"version":[1,0,0],"id":2,"type":"result","#), "{result}");
    assert!(result.contains(r#""content":[{"type":"text","data":"3"}],"error":false"#), "{result}");
}

#[tokio::test]
async fn a_restarted_server_is_reconnected() {
    let server = OwnServer::start(AuthRequired::Never).await;
    let address = server.address;
    let (all, _process) = sources(&[
        litemcp_address("socket", server.url("ws", "subtract")),
        litemcp_address("http", server.url("http", "subtract")),
    ]);
    ready(&all).await;
    drop(server);
    let socket = source(&all, "socket");
    let away = || async { matches!(states(&all)[0].1, SourceState::Failed(_)).then_some(()) };
    eventually("the lost socket is noticed", away).await;
    assert_eq!(socket.tools().len(), 1, "the tools are still listed");
    let listener = || async { TcpListener::bind(address).ok() };
    let listener = eventually("the port is free", listener).await;
    let _server = OwnServer::at(listener, AuthRequired::Never).await;
    for name in ["socket", "http"] {
        let minus = source(&all, name);
        assert_eq!(words(&call(&minus, "subtract", json!({"a": 2, "b": 1})).await), "1", "{name}");
    }
    ready(&all).await;
    assert_eq!(all.inventory(AGENT).sources[0].connections, 2);
}

#[tokio::test]
async fn a_missing_token_is_reported_as_the_reason() {
    let server = OwnServer::start(AuthRequired::Always).await;
    let mut wrong = served("program", "subtract", &server);
    *wrong.args.last_mut().unwrap() = "wrong".into();
    let mut missing = served("missing", "subtract", &server);
    missing.args[2] = "none".into();
    let addresses =
        ["ws", "http"].map(|scheme| litemcp_address(scheme, server.url(scheme, "subtract")));
    let (all, _process) = sources(&[addresses.to_vec(), vec![wrong, missing]].concat());
    until(&all, "failed", |state| matches!(state, SourceState::Failed(_))).await;
    let told = states(&all);
    for ((name, state), says) in told.iter().zip(["403", "403", "403", "404"]) {
        let SourceState::Failed(reason) = state else { panic!("{name} is {state:?}") };
        assert!(reason.contains(says), "{name}: {reason}");
    }
    let mut own = litemcp_address("own", server.url("ws", "subtract"));
    own.headers.insert("Authentication".into(), Secret::new(format!("Bearer {ADMIN}")));
    own.bearer = Secret::new("of somebody else");
    let (all, _process) = sources(&[own]);
    ready(&all).await;
}

#[tokio::test]
async fn the_whole_server_has_the_litemcp_routes() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let url = server.http_url("/litemcp/none");
    let asked = reqwest::get(&url).await.unwrap();
    assert_eq!(asked.status(), 404);
    let body: Value = asked.json().await.unwrap();
    assert_eq!(body["error"]["code"], "NOT_FOUND");
    let other = reqwest::Client::new().delete(&url).send().await.unwrap();
    assert_eq!(
        (other.status().as_u16(), other.headers()["allow"].as_bytes()),
        (405, &b"GET, POST, HEAD"[..])
    );
    server.stop().await;
}
