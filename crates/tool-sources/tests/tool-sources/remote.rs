//! Real remote servers as sources, over both transports and in both protocol eras, killed and
//! restarted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearken_ports::{ToolContent, ToolError, ToolSource};
use hearken_test_support::peers::{Listening, Peers};
use hearken_test_support::tool_sources::{
    AGENT, address, call, child, echo, environment, ready, source, sources, states, until, words,
};
use hearken_test_support::{eventually, free_port};
use hearken_tool_sources::SourceState;
use serde_json::{Value, json};

#[tokio::test]
async fn a_child_with_25_tools_in_pages_of_three_is_used_in_every_way() {
    let Some(peers) = Peers::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let arguments = ["--pages", "3", "--marks", marks.to_str().unwrap()];
    let mut server = child("pages", peers.pages(&arguments));
    server.env.insert("GREETING".into(), "hi".into());
    let (all, process) = sources(&[server]);
    ready(&all).await;
    let report = &all.inventory(AGENT).sources[0];
    assert_eq!(report.tools.len(), 25);
    // A machine that starts it within 10 s uses the newer version; otherwise it is asked for the
    // older one.
    assert!(["2026-07-28", "2025-11-25"].contains(&report.protocol.as_str()), "{report:?}");
    assert_eq!(report.tools[0].parameters["required"], json!(["text"]));
    let pages = source(&all, "pages");
    answers_of_every_kind(&pages).await;
    environment_is_only_what_is_given(&pages).await;
    learns_a_tool(&pages).await;

    let hanging = call(&pages, "hangs", json!({"seconds": 600}));
    let both = tokio::join!(
        tokio::time::timeout(Duration::from_secs(1), hanging),
        echo(&pages, "meanwhile"),
    );
    assert!(both.0.is_err());
    assert_eq!(both.1.unwrap(), "pages: meanwhile");
    let told = || std::fs::read_to_string(&marks).ok().filter(|told| !told.is_empty());
    assert_eq!(eventually("cancelled at the server", || async { told() }).await, "cancelled\n");

    let number = || async { words(&call(&pages, "process", json!({})).await).to_owned() };
    let first = number().await;
    assert!(matches!(call(&pages, "dies", json!({})).await, Err(ToolError::Unavailable(_))));
    ready(&all).await;
    let second = number().await;
    assert_ne!(first, second);
    let alive = |id: &str| std::path::Path::new("/proc").join(id).exists();
    assert!(!alive(&first) && alive(&second));
    process.cancel();
    all.stop().await;
    assert!(!alive(&second));
    assert!(matches!(echo(&pages, "hi").await, Err(ToolError::Unavailable(_))));
}

pub(super) async fn answers_of_every_kind(pages: &Arc<dyn ToolSource>) {
    assert_eq!(echo(pages, "你好").await.unwrap(), "pages: 你好");
    let sum = call(pages, "numbers", json!({"first": 2, "second": 3})).await;
    assert_eq!(serde_json::from_str::<Value>(words(&sum)).unwrap(), json!({"sum": 5}));
    let failed = call(pages, "fails", json!({"reason": "no rain"})).await;
    assert!(failed.as_ref().unwrap().failed && words(&failed).contains("no rain"), "{failed:?}");
    let picture = call(pages, "picture", json!({})).await.unwrap();
    let png = ToolContent::Image { mime_type: "image/png".into(), base64: "iVBORw==".into() };
    assert_eq!(picture.content, [png]);
    let long = call(pages, "long", json!({"bytes": 5_000_000})).await;
    assert!(words(&long).ends_with("[cut here: 5000000 bytes in all]"));
    let missing = call(pages, "nothing", json!({})).await;
    assert_eq!(missing, Err(ToolError::Unknown("nothing".into())));
}

async fn environment_is_only_what_is_given(pages: &Arc<dyn ToolSource>) {
    let variables = call(pages, "variables", json!({})).await;
    let variables: Vec<String> = serde_json::from_str(words(&variables)).unwrap();
    let mut allowed: Vec<String> = environment().into_keys().collect();
    // Python sets the second itself.
    allowed.extend(["GREETING".into(), "LC_CTYPE".into()]);
    let foreign: Vec<&String> = variables.iter().filter(|v| !allowed.contains(v)).collect();
    assert!(variables.contains(&"GREETING".into()) && foreign.is_empty(), "{variables:?}");
}

pub(super) async fn learns_a_tool(server: &Arc<dyn ToolSource>) {
    assert_eq!(words(&call(server, "learns", json!({"name": "dance"})).await), "learnt");
    let learnt = || async { (server.tools().len() == 26).then_some(()) };
    eventually("the new tool is listed", learnt).await;
    assert_eq!(words(&call(server, "dance", json!({})).await), "new");
}

#[tokio::test]
async fn a_server_at_an_address_is_listed_again_and_reconnected_after_its_death() {
    let Some(peers) = Peers::installed() else { return };
    let port = free_port();
    let (program, mut arguments) = peers.pages(&["--pages", "10"]);
    arguments.extend(["--port".into(), port.to_string()]);
    let start = || Listening::start((program.clone(), arguments.clone()), port);
    let mut listening = start();
    let (all, _process) = sources(&[address("pages", listening.url())]);
    ready(&all).await;
    assert_eq!(all.inventory(AGENT).sources[0].protocol, "2026-07-28");
    let pages = source(&all, "pages");
    assert_eq!(pages.tools().len(), 25);
    learns_a_tool(&pages).await;
    listening.kill();
    let begun = Instant::now();
    let away = echo(&pages, "hi").await;
    assert!(matches!(away, Err(ToolError::Unavailable(_))), "{away:?}");
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert_eq!(pages.tools().len(), 26, "the tools remain listed");
    let _listening = start();
    ready(&all).await;
    assert_eq!(echo(&pages, "hi").await.unwrap(), "pages: hi");
    assert_eq!((pages.tools().len(), all.inventory(AGENT).sources[0].connections), (25, 2));
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_by_itself() {
    let Some(peers) = Peers::installed() else { return };
    let mut server = child("everything", peers.everything("stdio"));
    server.timeout_ms = 1_000;
    let (all, _process) = sources(&[server]);
    ready(&all).await;
    let everything = source(&all, "everything");
    let begun = Instant::now();
    let arguments = json!({"duration": 60, "steps": 2});
    let late = call(&everything, "trigger-long-running-operation", arguments).await;
    assert_eq!(late, Err(ToolError::Timeout(Duration::from_secs(1))));
    assert!(begun.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn the_reference_server_works_over_both_transports() {
    let Some(peers) = Peers::installed() else { return };
    let listening = Listening::start(peers.everything("streamableHttp"), free_port());
    let servers = [child("child", peers.everything("stdio")), address("http", listening.url())];
    let (all, _process) = sources(&servers);
    ready(&all).await;
    for report in all.inventory(AGENT).sources {
        assert_eq!((report.protocol.as_str(), report.tools.len()), ("2025-11-25", 13));
        let server = source(&all, &report.name);
        let sum = call(&server, "get-sum", json!({"a": 2, "b": 40})).await;
        assert!(words(&sum).contains("42"), "{sum:?}");
        let picture = call(&server, "get-tiny-image", json!({})).await.unwrap();
        let image = |c: &ToolContent| matches!(c, ToolContent::Image { .. });
        assert!(picture.content.iter().any(image), "{picture:?}");
        let links = call(&server, "get-resource-links", json!({"count": 2})).await.unwrap();
        let link = |c: &&ToolContent| matches!(c, ToolContent::Text(t) if t.contains("]("));
        assert_eq!(links.content.iter().filter(link).count(), 2, "{links:?}");
        let arguments = json!({"duration": 1, "steps": 4});
        let long = call(&server, "trigger-long-running-operation", arguments).await;
        assert!(words(&long).contains("completed"), "{long:?}");
    }
}

#[tokio::test]
async fn a_restart_between_two_calls_is_not_noticed() {
    let Some(peers) = Peers::installed() else { return };
    let mut server = Listening::start(peers.everything("streamableHttp"), free_port());
    let (all, _process) = sources(&[address("everything", server.url())]);
    ready(&all).await;
    let everything = source(&all, "everything");
    let sum = || call(&everything, "get-sum", json!({"a": 20, "b": 1}));
    assert!(words(&sum().await).contains("21"));
    server.kill();
    let _server = Listening::start(peers.everything("streamableHttp"), server.port);
    // Some of these calls find no server; none is lost, because the port refuses them or the
    // session is unknown.
    let begun = Instant::now();
    let mut answer = sum().await;
    while answer.is_err() && begun.elapsed() < Duration::from_secs(10) {
        answer = sum().await;
    }
    assert!(words(&answer).contains("21"));
}

#[tokio::test]
async fn the_state_of_an_unreachable_server_has_a_reason() {
    let port = free_port();
    let servers = [
        address("nobody", format!("http://127.0.0.1:{port}/mcp")),
        child("missing", ("no-such-program".into(), Vec::new())),
        child("silent", ("sleep".into(), vec!["60".into()])),
        child("broken", ("sh".into(), vec!["-c".into(), "echo no key given >&2; exit 3".into()])),
    ];
    let servers = servers.map(|mut s| {
        s.start_timeout_ms = 500;
        s
    });
    let (all, process) = sources(&servers);
    until(&all, "failed", |s| matches!(s, SourceState::Failed(_))).await;
    let reasons: Vec<String> = states(&all)
        .into_iter()
        .map(|(name, state)| match state {
            SourceState::Failed(reason) => format!("{name}: {reason}"),
            other => panic!("{name}: {other:?}"),
        })
        .collect();
    for (reason, says) in reasons.iter().zip([
        "onnection refused",
        "cannot start `no-such-program`",
        "no handshake within 0.5 s",
        "it said: no key given",
    ]) {
        assert!(reason.contains(says), "{reasons:#?}");
    }
    let nobody = echo(&source(&all, "nobody"), "hi").await;
    assert!(matches!(nobody, Err(ToolError::Unavailable(_) | ToolError::Unknown(_))), "{nobody:?}");
    process.cancel();
    all.stop().await;
}
