//! A process that stores turns is killed repeatedly while it writes: no acknowledged turn is lost,
//! and none is stored in part. Not for machines that lose power.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use hearken_ports::store::DeviceStore as _;
use hearken_ports::{ChatStore, StoreOutcome};
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{session, turn};
use hearken_test_support::places::{Place, on};
use hearken_test_support::variable;
use proptest::test_runner::Config as ProptestConfig;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Number of times that it is killed: a quarter of the cases of an ordinary property, which has 64
/// by default and 256 in `scripts/long tests`.
fn times() -> u32 {
    ProptestConfig::default().cases / 4
}

/// Environment variable with the address of the killed process's store.
pub(super) const STORE: &str = "HEARKEN_TEST_KILLED";
/// Session that the process writes to.
pub(super) const NAME: &str = "talked-in";
/// Messages of each turn: enough that one is written in several parts.
pub(super) const MESSAGES: i64 = 8;

/// Returns the messages of a turn: long, and different for each turn.
pub(super) fn said(number: i64) -> Vec<String> {
    (0..MESSAGES).map(|part| format!("{number}.{part} {}", "word ".repeat(200))).collect()
}

async fn count(store: &SqlStore) -> i64 {
    let session = ChatStore::session(store, &SessionId::new(NAME)).await.unwrap();
    session.expect("it was made").message_count
}

/// Checks that all messages after this number are complete and in order. Returns the number of the
/// last message.
pub(super) async fn whole(store: &SqlStore, last: i64) -> i64 {
    // PostgreSQL may still be committing data that the killed process had sent.
    let (now, begun, kept) = loop {
        let now = count(store).await;
        let begun = u32::try_from(now - last).unwrap();
        let kept = store.messages(&SessionId::new(NAME), None, begun).await.unwrap();
        if count(store).await == now {
            break (now, begun, kept);
        }
    };
    assert_eq!(kept.len(), begun as usize);
    for (n, message) in (last..).zip(&kept) {
        let number = n / MESSAGES;
        let part = usize::try_from(n % MESSAGES).unwrap();
        assert_eq!(message.number, n + 1);
        assert_eq!(message.message.content, said(number)[part], "complete and in order");
    }
    now
}

/// The process that is killed. Without the address of a store it does nothing.
#[tokio::test]
#[ignore = "the other test runs it in a process of its own"]
async fn stores_turns_until_it_is_killed() {
    let Some(url) = variable(STORE) else { return };
    let store = SqlStore::at(&url).unwrap();
    let mut after = count(&store).await;
    loop {
        let said = said(after / MESSAGES);
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let kept = store.keep_turn(&turn(NAME, after, after + 1, &said)).await.unwrap();
        assert_eq!(kept, StoreOutcome::Kept);
        after += MESSAGES;
        // One write, which a pipe accepts completely or not at all: half a number would be a
        // different number.
        std::io::stderr().write_all(format!("kept {after}\n").as_bytes()).unwrap();
    }
}

/// Runs the process and kills it this long after it has reported this many turns. Returns the last
/// reported number.
async fn run(url: &str, turns: u32, more: Duration) -> i64 {
    let name = "killed::stores_turns_until_it_is_killed";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture"])
        .env(STORE, url)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut told = None;
    let mut seen = 0;
    while let Some(line) = lines.next_line().await.unwrap() {
        let Some(number) = line.strip_prefix("kept ") else { panic!("it says {line}") };
        told = Some(number.parse().unwrap());
        seen += 1;
        if seen == turns {
            tokio::time::sleep(more).await;
            child.start_kill().unwrap();
        }
    }
    child.wait().await.unwrap();
    told.expect("it kept turns before it was killed")
}

async fn loses_nothing(url: String) {
    let store = SqlStore::at(&url).unwrap();
    store.create(&session(NAME), "").await.unwrap();
    store.close().await;
    let mut last = 0;
    let mut more_than_told = 0;
    let times = times();
    for time in 0..times {
        let more = Duration::from_micros(u64::from(time) * 7_919 % 2_500);
        let told = run(&url, 1 + time % 3, more).await;
        let store = SqlStore::at(&url).unwrap();
        let now = whole(&store, last).await;
        assert!(told > last, "it continued after it was killed");
        assert!(now == told || now == told + MESSAGES, "reported {told}, stored {now}");
        more_than_told += i64::from(now > told);
        store.close().await;
        last = now;
    }
    eprintln!(
        "killed {times} times, {last} messages stored, {more_than_told} turns stored but unreported"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_no_acknowledged_turn_in_a_file() {
    on(Some(Place::file()), |place| loses_nothing(place.url.clone())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_no_acknowledged_turn_on_postgres() {
    on(Place::postgres().await, |place| loses_nothing(place.url.clone())).await;
}
