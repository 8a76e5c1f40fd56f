//! A PostgreSQL whose name nobody knows, or whose name service does not answer: a call fails in time
//! and says so, and the store is used once the name is known. Not for servers that do not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearken_ports::store::{DeviceStore as _, StoreErrorKind};
use hearken_store::SqlStore;
use hearken_test_support::places::{Place, on};
use hearken_test_support::{own_mounts, variable};

/// Longest time of a call that fails: the wait for a connection, and what a busy machine takes.
const WITHIN: Duration = Duration::from_secs(4);
/// The store of the process whose name service does not answer.
const STORE: &str = "HEARKEN_TEST_NAMED";
/// The name that both tests ask for.
const NAME: &str = "postgres.hearken.invalid";
/// The name service, on an address of this machine that nothing else uses.
const SILENT: &str = "127.83.7.1";

fn named(url: &str) -> String {
    let host = url.split(['@', '/']).nth(3).unwrap();
    let (_, port) = host.rsplit_once(':').unwrap();
    url.replacen(host, &format!("{NAME}:{port}"), 1)
}

/// Calls a store that cannot be found. Returns what is said.
async fn fails_in_time(store: &SqlStore) -> String {
    let begun = Instant::now();
    let error = store.check_usable().await.unwrap_err();
    let took = begun.elapsed();
    let why = std::error::Error::source(&error).expect("it has a reason").to_string();
    eprintln!("| PostgreSQL | {error}: {why} | {} ms", took.as_millis());
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(took < WITHIN && why.contains(NAME), "{why} after {took:?}");
    why
}

/// A process with a file of names of its own, which the test writes.
#[tokio::test]
#[ignore = "the other test runs it, with a name service that does not answer"]
async fn a_name_is_asked_for() {
    let Some(url) = variable(STORE) else { return };
    let unknown = SqlStore::at(&named(&url)).unwrap();
    let good = SqlStore::at(&url).unwrap();
    let silent = tokio::net::UdpSocket::bind((SILENT, 53)).await.unwrap();
    for _ in 0..2 {
        let why = fails_in_time(&unknown).await;
        assert!(why.contains("does not answer within"), "{why}");
        good.check_usable().await.expect("others work");
    }
    let (bytes, _) = silent.recv_from(&mut [0; 512]).await.unwrap();
    assert!(bytes > NAME.len(), "the name service was asked");
    std::fs::write("/etc/hosts", format!("127.0.0.1 localhost {NAME}\n")).unwrap();
    unknown.check_usable().await.expect("the name is known");
    good.shut().await;
    unknown.shut().await;
}

async fn a_silent_name_service(place: Arc<Place>) {
    let prepare = own_mounts::only_name_service(SILENT);
    let store = [(STORE, place.url.as_str())];
    own_mounts::run(&prepare, "name_resolution::a_name_is_asked_for", &store).await;
}

async fn an_unknown_name(place: Arc<Place>) {
    let store = SqlStore::at(&named(&place.url)).unwrap();
    let why = fails_in_time(&store).await;
    // The name service of this machine may be silent, too.
    assert!(why.contains("lookup") || why.contains("does not answer within"), "{why}");
    SqlStore::at(&place.url).unwrap().check_usable().await.expect("others work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_of_an_unknown_name() {
    on(Place::postgres().await, an_unknown_name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_while_no_name_service_answers() {
    on(Place::postgres().await, a_silent_name_service).await;
}
