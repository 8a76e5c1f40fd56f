//! Faults of the state server, each during a message of an application. The message is answered, or
//! refused with a code within a time limit, and log and metrics report the failure; nothing of a
//! refused message is stored; the next message works. Not for the errors of the state server's
//! client.

use std::time::{Duration, Instant};

use hearken::config::Config;
use hearken_test_support::fault_proxy::rows::{self, Expected, Row, Wire};
use hearken_test_support::fault_proxy::{Fault, FaultProxy, Tls};
use hearken_test_support::observed;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_test_support::worlds::Worlds;
use serde_json::{Value, json};

use super::failures;
use crate::support::app::{TestServer, Vendors};

/// Makes the dice fall the same in every test.
const SEED: u64 = 7;
/// Number of response bytes after which the answer has started: inside the list of tools.
const MIDST: usize = 400;
/// Time limit of a message.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);
const ROLL: &str = r#"call roll_dice {"dice": "1d20"}"#;

/// A model that makes requested calls and echoes other messages.
fn echo(asked: &[u8]) -> String {
    let asked = String::from_utf8_lossy(asked);
    if asked.starts_with("call ") { String::new() } else { format!("You said {asked}") }
}

/// A server of chat sessions whose state server is behind a proxy.
struct Gauntlet {
    server: TestServer,
    proxy: FaultProxy,
    http: reqwest::Client,
    session: String,
    _vendors: Vendors,
    _worlds: Worlds,
}

impl Gauntlet {
    async fn start(address: impl FnOnce(&FaultProxy) -> String) -> Self {
        let vendors = Vendors::of(
            ListenAiAsr::start(Behaviour::Normal, "").await,
            OpenAiChat::answering(echo).await,
            ListenAiTts::start(Behaviour::Normal).await,
        );
        let worlds = Worlds::start(SEED);
        let proxy = FaultProxy::before(&worlds.url).await;
        let url = address(&proxy);
        let tweak =
            |config: &mut Config| (config.state.url, config.state.timeout_ms) = (url, 1_500);
        let server = TestServer::start(&vendors, tweak).await;
        let http = reqwest::Client::new();
        let session = String::new();
        Self { server, proxy, http, session, _vendors: vendors, _worlds: worlds }
    }

    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let asked = self.http.post(self.server.http_url(path)).json(&body);
        let answer = asked.timeout(Duration::from_secs(20)).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap_or_default())
    }

    /// Creates the session of the following messages.
    async fn create(&mut self) -> (u16, Value) {
        let (status, made) =
            self.post("/api/sessions", json!({"name": "n", "creator_id": "c"})).await;
        self.session = made["session_id"].as_str().unwrap_or_default().to_owned();
        (status, made)
    }

    async fn say(&self, message: &str) -> (Result<Expected, String>, Duration) {
        let begun = Instant::now();
        let path = format!("/api/sessions/{}/chat", self.session);
        let (status, body) = self.post(&path, json!({ "message": message })).await;
        (outcome(status, &body), begun.elapsed())
    }

    /// Readiness of the server, and of the state server in it.
    async fn readiness(&self) -> Value {
        let (_, told) = self.server.readiness().await;
        json!([told["status"], told["dependencies"]["state_server"]])
    }

    /// Number of stored messages.
    async fn kept(&self) -> i64 {
        let path = format!("/api/sessions/{}/messages", self.session);
        let answer = self.http.get(self.server.http_url(&path)).send().await.unwrap();
        let body: Value = answer.json().await.unwrap();
        body["total"].as_i64().unwrap()
    }
}

/// Outcome of a message, as in the table. An application gets an error instead of an apology.
fn outcome(status: u16, body: &Value) -> Result<Expected, String> {
    let text = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or_default();
    match status {
        200 if !text("/response").is_empty() => Ok(Expected::Answered),
        502..=504 if !text("/error/code").is_empty() => Ok(Expected::Failed),
        _ => Err(format!("{status} {body}")),
    }
}

#[tokio::test]
async fn state_server_faults_are_reported_and_overcome() {
    let mut gauntlet = Gauntlet::start(FaultProxy::url).await;
    assert_eq!(gauntlet.create().await.0, 201);
    assert_eq!(gauntlet.say(ROLL).await.0, Ok(Expected::Answered), "before any fault");
    let mut wrong = Vec::new();
    let log = observed::log();
    let logged = || log.count(&["a request to the state server failed"]);
    for Row { name, fault, expected } in rows::all(Wire::Http, MIDST) {
        let counted = failures(&gauntlet.server, "state").await;
        let before = logged();
        let hit = gauntlet.proxy.hit();
        let kept = gauntlet.kept().await;
        let nothing_to_hit = matches!(fault, Fault::Frozen) && gauntlet.proxy.open() == 0;
        gauntlet.proxy.set(fault);
        let (hurt, took) = gauntlet.say("hello").await;
        gauntlet.proxy.set(Fault::None);
        let was_hit = gauntlet.proxy.hit() > hit || nothing_to_hit;
        let more = gauntlet.kept().await - kept;
        let was_counted = failures(&gauntlet.server, "state").await > counted;
        let failed = hurt == Ok(Expected::Failed);
        let was_logged = logged() > before;
        let told = (was_counted, was_logged) == (failed, failed);
        let (after, _) = gauntlet.say(ROLL).await;
        eprintln!("| StateServer | {name} | {hurt:?} | {} ms | {after:?}", took.as_millis());
        let fits = hurt.as_ref().is_ok_and(|hurt| expected.contains(hurt));
        let whole = more == if hurt == Ok(Expected::Answered) { 2 } else { 0 };
        let works = after == Ok(Expected::Answered);
        if !(fits && was_hit && whole && told && works && took <= ANSWERED_WITHIN) {
            wrong.push(format!(
                "{name}: hit {was_hit}, counted {was_counted}, logged {was_logged}, {hurt:?} in {took:?}, \
                 {more} messages stored, then {after:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(gauntlet.readiness().await, json!(["ready", "ready"]));
    gauntlet.server.stop().await;
    gauntlet.proxy.until_closed().await;
}

#[tokio::test]
async fn state_server_tls_faults_are_reported() {
    let secure = |proxy: &FaultProxy| proxy.url().replacen("http://", "https://", 1);
    let mut gauntlet = Gauntlet::start(secure).await;
    for how in Tls::ALL {
        gauntlet.proxy.set(Fault::Tls(how));
        let begun = Instant::now();
        let (status, made) = gauntlet.create().await;
        assert_eq!(outcome(status, &made), Ok(Expected::Failed), "{how:?}");
        assert!(begun.elapsed() < ANSWERED_WITHIN && gauntlet.proxy.hit() > 0, "{how:?}");
    }
    assert_eq!(gauntlet.readiness().await, json!(["degraded", "down"]));
    let listed = gauntlet.server.http_url("/api/sessions");
    let listed: Value = gauntlet.http.get(listed).send().await.unwrap().json().await.unwrap();
    assert_eq!(listed["total"], 0, "no session was created");
    gauntlet.server.stop().await;
}
