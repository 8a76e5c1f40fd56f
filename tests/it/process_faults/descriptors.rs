//! A server without free file descriptors: new connections wait, existing ones continue, no CPU
//! time is wasted, and the server recovers as soon as some files are closed. Not for the connection
//! limits of the configuration.

use std::time::Duration;

use futures_util::SinkExt as _;
use hearken_test_support::eventually_within;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::clients::{PATIENCE, Speaker, TextClient, connect, next};
use super::{USUAL, vendors};
use crate::support::process::ServerProcess;

/// Number of connections that exhaust the free descriptors.
const STRANGERS: usize = 60;
/// Number of failed accepts before CPU usage is checked.
const ATTEMPTS: usize = 4;

/// Limits the open files of a running server; files that are already open stay open.
fn limit(server: &ServerProcess, files: u64) {
    let pid = Pid::from_raw(server.pid().try_into().unwrap());
    let limit = Rlimit { current: Some(files), maximum: Some(files) };
    prlimit(pid, Resource::Nofile, limit).unwrap();
}

/// Number of log lines that report a lack of descriptors.
fn complaints(server: &ServerProcess) -> usize {
    server.log().lines().filter(|line| line.contains("Too many open files")).count()
}

async fn is_healthy(server: &ServerProcess) -> bool {
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let asked = client.get(server.http_url("/healthz")).timeout(Duration::from_secs(2));
    asked.send().await.is_ok_and(|answer| answer.status() == 200)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_survives_without_free_descriptors_and_recovers() {
    let vendors = vendors().await;
    let server = ServerProcess::start(&vendors, &USUAL).await;
    let mut text = TextClient::new(server.socket_url("/"));
    let mut speaker = Speaker::new(server.socket_url("/xiaozhi/v1/"), None);
    let mut quiet = connect(&server.socket_url("/")).await;
    next(&mut quiet).await.unwrap();
    assert_eq!(text.say().await.unwrap()["type"], "llm_response");
    assert!(speaker.turn().await);

    limit(&server, u64::try_from(server.open_files()).unwrap() + 8);
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        strangers.push(TcpStream::connect(server.address).await.expect("the backlog accepts it"));
    }
    let said = async || (complaints(&server) > 0).then_some(());
    eventually_within(PATIENCE, "the log reports it", said).await;
    let complained = complaints(&server);
    let spent = server.cpu();
    let begun = tokio::time::Instant::now();
    // A new connection is neither refused nor answered.
    let mut waiting = TcpStream::connect(server.address).await.expect("the backlog accepts it");
    waiting.write_all(b"GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n").await.unwrap();
    // Existing connections continue: each request ends, even if its services need descriptors.
    quiet.send(Message::text(json!({"type": "ping"}).to_string())).await.unwrap();
    assert_eq!(next(&mut quiet).await.unwrap()["type"], "pong");
    let told = text.say().await.expect("the connection is open");
    assert!(["llm_response", "error"].contains(&told["type"].as_str().unwrap()), "{told}");
    assert!(speaker.turn().await, "the device is answered, or hears an apology");
    let again = async || (complaints(&server) >= complained + ATTEMPTS).then_some(());
    eventually_within(PATIENCE, "it retries to accept", again).await;
    let took = begun.elapsed();
    let spent = server.cpu() - spent;
    let lines = complaints(&server) - complained;
    eprintln!("{took:.1?} without descriptors: {spent:.2?} of CPU time, {lines} lines of log");
    // This includes a turn of a device in an unoptimised program.
    assert!(spent < took.mul_f64(0.7), "{spent:?} in {took:?}");
    assert!(lines as f64 <= 10.0 + 10.0 * took.as_secs_f64(), "{lines} lines in {took:?}");

    drop(strangers);
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, waiting.read_to_string(&mut answer)).await;
    read.expect("it is answered once there are descriptors").unwrap();
    assert!(answer.starts_with("HTTP/1.0 200"), "{answer}");
    assert!(is_healthy(&server).await);
    assert_eq!(text.say().await.unwrap()["type"], "llm_response");
    assert!(speaker.turn().await);
    assert_eq!(speaker.last_sentence(), "You said what is the weather");
    assert!(!server.log().contains("panicked"));
}
