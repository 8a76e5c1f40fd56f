//! A disk whose syncs fail at times (strace answers them with EIO): a turn whose sync failed is not
//! acknowledged, the store continues, and all acknowledged data is present. Not for a full disk,
//! nor for power loss.

use std::io::Write as _;
use std::process::Stdio;

use hearken_ports::store::DeviceStore as _;
use hearken_ports::{ChatStore as _, StoreOutcome};
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{session, turn};
use hearken_test_support::places::Place;
use hearken_test_support::variable;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::killed::{MESSAGES, NAME, STORE, said, whole};

/// Number of turns to store, and minimum number of failures.
const TURNS: usize = 100;
const FAILURES: usize = 5;
/// Syncs of a thread that fail: the twentieth, and each seventh from there on.
const FAILING: &str = "inject=fsync,fdatasync:error=EIO:when=20+7";

fn report(what: &str) {
    // One write, which a pipe accepts completely or not at all.
    std::io::stderr().write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// The process whose syncs fail. Without the address of a store it does nothing.
#[tokio::test]
#[ignore = "the other test runs it in a process of its own"]
async fn stores_turns_despite_errors() {
    let Some(url) = variable(STORE) else { return };
    let store = SqlStore::at(&url).unwrap();
    let mut after = 0;
    let mut kept = 0;
    let mut failed = 0;
    while kept < TURNS || failed < FAILURES {
        let said = said(after / MESSAGES);
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        match store.keep_turn(&turn(NAME, after, after + 1, &said)).await {
            Ok(StoreOutcome::Kept) => {
                after += MESSAGES;
                kept += 1;
                report(&format!("kept {after}"));
            }
            Ok(other) => report(&format!("not kept: {other:?}")),
            Err(error) => {
                failed += 1;
                report(&format!("failed: {error}"));
                // As a request would: continues from the stored messages.
                if let Ok(Some(session)) = store.session(&SessionId::new(NAME)).await {
                    after = session.message_count;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_turn_whose_sync_fails_is_not_acknowledged_and_the_next_one_is() {
    let place = Place::file();
    let store = SqlStore::at(&place.url).unwrap();
    store.create(&session(NAME), "").await.unwrap();
    store.close().await;
    let started = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", FAILING])
        .arg(std::env::current_exe().unwrap())
        .args(["sync_errors::stores_turns_despite_errors", "--exact", "--ignored", "--nocapture"])
        .env(STORE, &place.url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let Ok(mut child) = started else {
        eprintln!("skipped: strace is missing: `scripts/services start` installs it");
        return;
    };
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut told = 0;
    let mut kept = 0;
    let mut failed = 0;
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.starts_with("failed: ") {
            failed += 1;
        } else if let Some(number) = line.strip_prefix("kept ") {
            told = number.parse().unwrap();
            kept += 1;
        } else {
            assert!(line.starts_with("strace: "), "it says {line}");
            eprintln!("{line}");
        }
    }
    if !child.wait().await.unwrap().success() && kept == 0 {
        eprintln!("skipped: strace may not record here");
        return;
    }
    assert!(kept >= TURNS && failed >= FAILURES, "{kept} stored, {failed} failed");
    let store = SqlStore::at(&place.url).unwrap();
    let now = whole(&store, 0).await;
    eprintln!("{kept} turns stored, {failed} failed, {now} messages in total");
    assert!(now == told || now == told + MESSAGES, "reported {told}, stored {now}");
    store.close().await;
}
