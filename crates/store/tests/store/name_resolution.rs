//! A PostgreSQL server whose name is unknown, or whose name service does not answer: a call fails
//! in time with the reason, and the store is usable once the name resolves. Not for servers that do
//! not answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearken_ports::store::{DeviceStore as _, StoreErrorKind};
use hearken_store::SqlStore;
use hearken_test_support::places::{Place, on};
use hearken_test_support::{own_mounts, variable};

/// Maximum time of a failing call: the wait for a connection, and a margin for a busy machine.
const WITHIN: Duration = Duration::from_secs(4);
/// Environment variable with the address of the store of the process whose name service does not
/// answer.
const STORE: &str = "HEARKEN_TEST_NAMED";
/// Name that both tests look up.
const NAME: &str = "postgres.hearken.invalid";
/// Address of the name service: a loopback address that nothing else uses.
const SILENT: &str = "127.83.7.1";

fn named(url: &str) -> String {
    let host = url.split(['@', '/']).nth(3).unwrap();
    let (_, port) = host.rsplit_once(':').unwrap();
    url.replacen(host, &format!("{NAME}:{port}"), 1)
}

/// Calls a store whose name cannot be resolved. Returns the error's reason.
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

/// Runs in a process with its own hosts file, which the test writes.
#[tokio::test]
#[ignore = "the other test runs it, with a name service that does not answer"]
async fn a_name_is_looked_up() {
    let Some(url) = variable(STORE) else { return };
    let unknown = SqlStore::at(&named(&url)).unwrap();
    let good = SqlStore::at(&url).unwrap();
    let silent = tokio::net::UdpSocket::bind((SILENT, 53)).await.unwrap();
    for _ in 0..2 {
        let why = fails_in_time(&unknown).await;
        assert!(why.contains("does not answer within"), "{why}");
        good.check_usable().await.expect("other stores work");
    }
    let (bytes, _) = silent.recv_from(&mut [0; 512]).await.unwrap();
    assert!(bytes > NAME.len(), "the name service got a query");
    std::fs::write("/etc/hosts", format!("127.0.0.1 localhost {NAME}\n")).unwrap();
    unknown.check_usable().await.expect("the name resolves");
    good.shut().await;
    unknown.shut().await;
}

async fn a_silent_name_service(place: Arc<Place>) {
    let prepare = own_mounts::only_name_service(SILENT);
    let store = [(STORE, place.url.as_str())];
    own_mounts::run(&prepare, "name_resolution::a_name_is_looked_up", &store).await;
}

async fn an_unknown_name(place: Arc<Place>) {
    let store = SqlStore::at(&named(&place.url)).unwrap();
    let why = fails_in_time(&store).await;
    // The name service of this machine may also be silent.
    assert!(why.contains("lookup") || why.contains("does not answer within"), "{why}");
    SqlStore::at(&place.url).unwrap().check_usable().await.expect("other stores work");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_of_an_unknown_name() {
    on(Place::postgres().await, an_unknown_name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_while_no_name_service_answers() {
    on(Place::postgres().await, a_silent_name_service).await;
}
