//! PostgreSQL over TLS: a server whose handshake fails is refused in time for each cause, with its
//! reason and without the password, and a good server is used afterwards. Not for stored data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hearken_ports::store::{DeviceStore as _, StoreErrorKind};
use hearken_store::SqlStore;
use hearken_test_support::fault_proxy::{Fault, FaultProxy, SecurePostgres, Tls, authority_pem};
use hearken_test_support::places::{Place, on};

/// Maximum time of a failing call: the wait for a connection, and a margin for a busy machine.
const WITHIN: Duration = Duration::from_secs(4);

/// Returns part of the error of each failure.
fn said(how: Tls) -> &'static str {
    match how {
        Tls::Untrusted => "UnknownIssuer",
        Tls::Expired => "expired",
        Tls::OtherName => "not valid for name",
        Tls::Plain => "unexpected response",
        Tls::Cut => "error communicating",
        Tls::Version => "ProtocolVersion",
    }
}

async fn postgres_over_tls_fails_in_six_ways(place: Arc<Place>) {
    let host = place.url.split(['@', '/']).nth(3).unwrap();
    let server = tokio::net::lookup_host(host).await.unwrap().next().unwrap();
    let secure = SecurePostgres::before(server).await;
    let url = place.url.replacen(host, &secure.address.to_string(), 1);
    let proxy = FaultProxy::before(&url).await;
    let pem = place.folder.path().join("authority.pem");
    std::fs::write(&pem, authority_pem()).unwrap();
    let url = proxy.url().replacen('@', ":hidden-word@", 1);
    let url = format!("{url}?sslmode=verify-full&sslrootcert={}", pem.display());
    for how in Tls::ALL {
        let store = SqlStore::at(&url).unwrap();
        let hit = proxy.hit();
        proxy.set_and_end(Fault::Tls(how)).await;
        let begun = Instant::now();
        let error = store.check_usable().await.unwrap_err();
        let took = begun.elapsed();
        let why = std::error::Error::source(&error).expect("it has a reason").to_string();
        eprintln!("| PostgreSQL | TLS {how:?} | {error}: {why} | {} ms", took.as_millis());
        assert!(proxy.hit() > hit && took < WITHIN, "{how:?} took {took:?}");
        assert_eq!(error.kind, StoreErrorKind::Unavailable);
        assert!(why.contains(said(how)), "{how:?}: {why}");
        let port = format!(":{}/", proxy.port());
        assert!(why.contains(&port) && !why.contains("hidden-word"), "{why}");
        proxy.set_and_end(Fault::None).await;
        store.check_usable().await.expect("a good server is used");
        store.shut().await;
    }
    // A server without TLS gets no plain-text connection.
    let plain = place.url.replacen('@', ":hidden-word@", 1) + "?sslmode=verify-full";
    let error = SqlStore::at(&plain).unwrap().check_usable().await.unwrap_err();
    let why = std::error::Error::source(&error).expect("it has a reason").to_string();
    assert!(why.contains("does not support TLS"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_over_tls() {
    on(Place::postgres().await, postgres_over_tls_fails_in_six_ways).await;
}
