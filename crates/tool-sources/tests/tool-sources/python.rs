//! The Python SDK's servers: 25 tools in pages of 3 and of 10, over both transports, of the last
//! SDK that supports only sessions (`mcp` 1.30.0, 2025-11-25) and of the current one (`mcp` 2.3.0
//! with `fastmcp` 4.1.2, 2026-07-28); killed, hanging and far too talkative.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearken_ports::{ToolError, ToolSource};
use hearken_test_support::peers::{Listening, Peers, Program, peak_memory_bytes};
use hearken_test_support::tool_sources::{
    AGENT, address, call, child, echo, ready, source, sources,
};
use hearken_test_support::{eventually, free_port};
use hearken_tool_sources::{Sources, ToolServer};
use serde_json::json;

use super::remote::{answers_of_every_kind, learns_a_tool};

/// Servers that support only sessions.
const OLD: Program = Peers::legacy;
/// Current servers.
const NEW: Program = Peers::pages;

/// Starts servers with both sizes of pages over both transports.
fn all_of(peers: &Peers, program: Program) -> (Vec<Listening>, Vec<ToolServer>) {
    let mut running = Vec::new();
    let mut servers = Vec::new();
    for pages in ["3", "10"] {
        servers.push(child(&format!("child {pages}"), program(peers, &["--pages", pages])));
        let server = Listening::paged(peers, program, pages, free_port());
        servers.push(address(&format!("address {pages}"), server.url()));
        running.push(server);
    }
    (running, servers)
}

async fn each_lists_25_tools_and_answers(running: &[Listening], all: &Sources) {
    for server in running {
        server.up().await;
    }
    ready(all).await;
    let before = peak_memory_bytes();
    let reports = all.inventory(AGENT).sources;
    assert_eq!(reports.len(), 4);
    for report in reports {
        let names: Vec<&str> = report.tools.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names.len(), 25, "{}", report.name);
        assert_eq!((names[0], names[24]), ("echo", "filler_14"), "{}", report.name);
        let server = source(all, &report.name);
        answers_of_every_kind(&server).await;
        learns_a_tool(&server).await;
        if report.name.ends_with(" 3") {
            talks_too_much(&server).await;
        }
    }
    let grown = (peak_memory_bytes() - before) >> 20;
    assert!(grown < 120, "{grown} MiB more at the peak");
}

/// Checks that a message over the maximum size is refused, and the next call is answered.
async fn talks_too_much(server: &Arc<dyn ToolSource>) {
    let endless = call(server, "long", json!({"bytes": 40_000_000})).await;
    assert!(endless.is_err());
    let works = || async { echo(server, "after").await.ok() };
    assert_eq!(eventually("it answers again", works).await, "pages: after");
}

#[tokio::test]
async fn servers_with_sessions_list_25_tools_in_pages_and_answer() {
    let Some(peers) = Peers::installed() else { return };
    let (running, servers) = all_of(&peers, OLD);
    let (all, _process) = sources(&servers);
    each_lists_25_tools_and_answers(&running, &all).await;
    for report in all.inventory(AGENT).sources {
        assert_eq!(report.protocol, "2025-11-25", "{report:?}");
    }
}

#[tokio::test]
async fn servers_without_sessions_list_25_tools_in_pages_and_answer() {
    let Some(peers) = Peers::installed() else { return };
    let (running, servers) = all_of(&peers, NEW);
    let (all, _process) = sources(&servers);
    each_lists_25_tools_and_answers(&running, &all).await;
    for report in all.inventory(AGENT).sources {
        // A child that takes 10 s to start is asked for the older version.
        let may_be_slow = report.name.starts_with("child") && report.protocol == "2025-11-25";
        assert!(may_be_slow || report.protocol == "2026-07-28", "{report:?}");
    }
}

/// Checks that a hanging call ends by itself and is cancelled at the server, and that a call whose
/// server is killed ends long before its timeout.
async fn hangs_and_dies(program: Program) {
    let Some(peers) = Peers::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let port = free_port();
    let number = port.to_string();
    let arguments = ["--port", &number, "--marks", marks.to_str().unwrap()];
    let mut running = Listening::start(program(&peers, &arguments), port);
    running.up().await;
    let mut brief = address("brief", running.url());
    let mut patient = address("patient", running.url());
    (brief.timeout_ms, patient.timeout_ms) = (1_000, 30_000);
    let (all, _process) = sources(&[brief, patient]);
    ready(&all).await;
    let brief = source(&all, "brief");
    let patient = source(&all, "patient");
    let hang = json!({"seconds": 600});
    let hung = call(&brief, "hangs", hang.clone()).await;
    assert_eq!(hung, Err(ToolError::Timeout(Duration::from_secs(1))));
    // The file may exist before its content is written.
    let told =
        || async { std::fs::read_to_string(&marks).ok().filter(|told| told.ends_with('\n')) };
    assert_eq!(eventually("cancelled at the server", told).await, "cancelled\n");
    assert_eq!(echo(&brief, "meanwhile").await.unwrap(), "pages: meanwhile");

    let begun = Instant::now();
    let killing = async {
        assert_eq!(echo(&patient, "before").await.unwrap(), "pages: before");
        running.kill();
    };
    let (lost, ()) = tokio::join!(call(&patient, "hangs", hang), killing);
    assert!(matches!(lost, Err(ToolError::Unavailable(_) | ToolError::Failed(_))), "{lost:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn calls_end_when_a_server_with_sessions_hangs_or_dies() {
    hangs_and_dies(OLD).await;
}

#[tokio::test]
async fn calls_end_when_a_server_without_sessions_hangs_or_dies() {
    hangs_and_dies(NEW).await;
}
