//! A Redis with an unresolved name, while no name server answers: the instance works alone without
//! blocking, and joins the others once the name is resolved. Not for a reachable Redis with faults.

use std::time::{Duration, Instant};

use hearken_base::Secret;
use hearken_cluster::{Cluster, RedisConfig, RedisState};
use hearken_ports::Published;
use hearken_test_support::redis::{Redis, there_is};
use hearken_test_support::{eventually_within, own_mounts, variable};
use tokio_util::sync::CancellationToken;

use super::contracts::event;

/// Maximum time of an operation, and until Redis is found.
const WITHIN: Duration = Duration::from_secs(6);
const FOUND_WITHIN: Duration = Duration::from_secs(20);
/// The port of the Redis, for the process whose name server does not answer.
const PORT: &str = "HEARKEN_TEST_NAMED";
const NAME: &str = "redis.hearken.invalid";
/// The name server, on an unused address of this machine.
const SILENT: &str = "127.83.7.2";

#[tokio::test]
#[ignore = "the other test runs it, with a name server that does not answer"]
async fn a_name_is_looked_up() {
    let Some(port) = variable(PORT) else { return };
    let silent = tokio::net::UdpSocket::bind((SILENT, 53)).await.unwrap();
    let url = Secret::new(format!("redis://{NAME}:{port}"));
    let config = RedisConfig { url, ..Default::default() };
    let process = CancellationToken::new();
    let cluster = Cluster::start(&config, &process).unwrap();
    let (bytes, _) = silent.recv_from(&mut [0; 512]).await.unwrap();
    assert!(bytes > NAME.len(), "the name server was queried");
    for id in 0..20 {
        let begun = Instant::now();
        let held = cluster.locks().lock("s", WITHIN).await;
        assert!(matches!(held, Ok(Some(_))), "{id}");
        let told = cluster.events().publish(event("s", id)).await;
        assert!(matches!(told, Ok(Published::Here)) && begun.elapsed() < WITHIN, "{told:?}");
    }
    assert_eq!(cluster.redis_state(), Some(RedisState::Lost));
    std::fs::write("/etc/hosts", format!("127.0.0.1 localhost {NAME}\n")).unwrap();
    let found = async || (cluster.redis_state() == Some(RedisState::Ok)).then_some(());
    eventually_within(FOUND_WITHIN, "redis is found", found).await;
    // On a busy machine, a command may be late.
    let told = async || {
        let told = cluster.events().publish(event("s", 99)).await;
        matches!(told, Ok(Published::Everywhere)).then_some(())
    };
    eventually_within(FOUND_WITHIN, "it is published everywhere", told).await;
    process.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_while_no_name_server_answers() {
    if !there_is("a redis of an unknown name") {
        return;
    }
    let redis = Redis::start().await;
    let prepare = own_mounts::only_name_service(SILENT);
    let port = redis.port.to_string();
    own_mounts::run(&prepare, "name_resolution::a_name_is_looked_up", &[(PORT, &port)]).await;
}

/// TLS is not built in: an address that requires it is refused, and not used unencrypted.
#[tokio::test]
async fn redis_over_tls_is_refused() {
    let url = Secret::new("rediss://:hidden-word@127.0.0.1:6379");
    let config = RedisConfig { url, ..Default::default() };
    let error = Cluster::start(&config, &CancellationToken::new()).err().expect("it is refused");
    let why = std::error::Error::source(&error).expect("it has a reason").to_string();
    assert!(why.contains("TLS") && !why.contains("hidden-word"), "{why}");
}
