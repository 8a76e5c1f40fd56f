//! PostgreSQL behind a proxy that injects each kind of fault into its connections. A call ends
//! within its deadline; an acknowledged turn is stored exactly once; the next call succeeds;
//! nothing is left behind. Not for databases that stop, see `killed` and the tests of whole
//! servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hearken_ports::{ChatStore as _, StoreOutcome};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{id, session, turn};
use hearken_test_support::eventually;
use hearken_test_support::fault_proxy::rows::{self, Expected, Row, Wire};
use hearken_test_support::fault_proxy::{Fault, FaultProxy};
use hearken_test_support::observed::observed;
use hearken_test_support::peers::peak_memory_bytes;
use hearken_test_support::places::{Place, on};

/// Bytes on a new connection after which the answer to a statement has started.
const MIDST: usize = 450;
/// Maximum time of a call: the deadline of the store, and a margin for a busy machine.
const WITHIN: Duration = Duration::from_secs(5);
/// Maximum time of a call after the fault: a failed connection attempt may come first.
const NEXT_WITHIN: Duration = Duration::from_secs(2);
/// Maximum memory for all faults together, in bytes: 190 MB, and more if a busy machine runs
/// several of the worst at the same time.
const MOST_MEMORY: usize = 256 << 20;
/// Messages of a turn, long enough that a connection carries more than one packet.
const SAID: [&str; 2] = ["hello", "hello yourself"];

/// Returns the number of messages of a session.
async fn count(store: &SqlStore, name: &str) -> i64 {
    store.session(&id(name)).await.unwrap().unwrap().message_count
}

/// Stores a turn during one fault and another one afterwards. Returns the outcome of the first.
async fn meets(place: Arc<Place>, row: Row) -> Result<Expected, String> {
    let Row { name, fault, expected } = row;
    let proxy = FaultProxy::before(&place.url).await;
    let direct = SqlStore::at(&place.url).unwrap();
    let store = SqlStore::at(&proxy.url()).unwrap();
    let session_id = name.replace(' ', "-");
    direct.create(&session(&session_id), "").await.unwrap();
    let keep = async |after: i64| {
        let begun = Instant::now();
        let kept = store.keep_turn(&turn(&session_id, after, after + 1, &SAID)).await;
        (kept, begun.elapsed())
    };
    // A busy machine may exceed the deadline of the store: this turn only has to be stored before
    // the fault.
    let before = async || {
        keep(0).await.0.ok();
        (count(&direct, &session_id).await == 2).then_some(())
    };
    eventually("the turn before the fault", before).await;
    proxy.set_and_end(fault).await;
    let (hurt, took) = keep(2).await;
    let outcome = match &hurt {
        Ok(StoreOutcome::Kept) => Expected::Answered,
        Ok(_) => Expected::Damaged,
        Err(_) => Expected::Failed,
    };
    let hit = proxy.hit();
    proxy.set_and_end(Fault::None).await;
    let there = count(&direct, &session_id).await;
    let (after, took_after) = keep(there).await;
    eprintln!(
        "| PostgreSQL | {name} | {outcome:?} | {} ms | {} messages | {} ms",
        took.as_millis(),
        there - 2,
        took_after.as_millis()
    );
    let whole = match outcome {
        Expected::Answered => there == 4,
        // The commit may have succeeded although its answer was lost.
        _ => there == 2 || there == 4,
    };
    tokio::time::timeout(WITHIN, store.shut()).await.expect("the store is shut");
    proxy.until_closed().await;
    let kept = |outcome: &Result<_, _>| matches!(outcome, Ok(StoreOutcome::Kept));
    let good = hit > 0
        && expected.contains(&outcome)
        && whole
        && kept(&after)
        && took < WITHIN
        && took_after < NEXT_WITHIN;
    direct.shut().await;
    if good {
        return Ok(outcome);
    }
    Err(format!(
        "{name}: {hit} hit, {hurt:?} in {took:?}, {there} messages, then {after:?} in {took_after:?}"
    ))
}

async fn postgres_withstands_all_faults(place: Arc<Place>) {
    SqlStore::at(&place.url).unwrap().bring_up_to_date().await.unwrap();
    let memory = peak_memory_bytes();
    let seen = observed();
    let all = rows::all(Wire::Bytes, MIDST);
    let mut wrong = Vec::new();
    let mut failed = 0.0;
    // A few at a time: all tests share the 100 connections that PostgreSQL accepts by default.
    let mut all = all.into_iter().peekable();
    while all.peek().is_some() {
        let few = all.by_ref().take(6).map(|row| meets(Arc::clone(&place), row));
        for met in join_all(few).await {
            match met {
                Ok(Expected::Failed) => failed += 1.0,
                Ok(_) => {}
                Err(why) => wrong.push(why),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let counted = seen.counts("hearken_store_failures_total", &[]);
    assert!(failed > 0.0 && counted >= failed, "{counted} failures counted of {failed}");
    let needed = peak_memory_bytes() - memory;
    eprintln!("PostgreSQL: {} KiB for all faults", needed >> 10);
    assert!(needed < MOST_MEMORY, "{needed} bytes");
}

/// All connections of the pool stall while the server is reachable, as after a pulled cable or a
/// failover to another machine.
async fn silent_connections_are_replaced(place: Arc<Place>) {
    let proxy = FaultProxy::before(&place.url).await;
    let store = SqlStore::at(&proxy.url()).unwrap();
    store.bring_up_to_date().await.unwrap();
    let ask = async || {
        let begun = Instant::now();
        (store.session(&id("nobody")).await.map_err(|e| e.to_string()), begun.elapsed())
    };
    join_all((0..40).map(|_| ask())).await;
    let open = proxy.open();
    assert!(open > 8, "the pool has {open} connections only");
    proxy.set(Fault::Frozen);
    // Some of these use a connection that has just passed its check.
    join_all((0..open).map(|_| ask())).await;
    for n in 0..20 {
        let (answer, took) = ask().await;
        assert_eq!(answer, Ok(None), "call {n} after {took:?}");
        assert!(took < NEXT_WITHIN, "call {n}: {took:?}");
    }
    tokio::time::timeout(WITHIN, store.shut()).await.expect("the store is shut");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres() {
    on(Place::postgres().await, postgres_withstands_all_faults).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_postgres_connections() {
    on(Place::postgres().await, silent_connections_are_replaced).await;
}
