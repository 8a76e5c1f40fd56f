//! A machine whose clock jumps, by libfaketime: an hour forward and back, and more than a year.
//! Turns, sessions, tokens and deadlines are unaffected. Not for the time of day that clients
//! receive.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hearken_test_support::eventually_within;
use hearken_test_support::vendors::Behaviour;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::clients::{PATIENCE, Speaker, TextClient};
use super::vendors;
use crate::cluster::load::Load;
use crate::support::app::Vendors;
use crate::support::process::ServerProcess;

const HOUR: i64 = 3_600;
/// Clock offsets in sequence, in seconds from the true time.
const JUMPS: [i64; 6] = [0, HOUR + 60, -HOUR - 60, 0, 400 * 24 * HOUR, 0];
/// Time limit for a complete answer of a model.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// The library that fakes a program's time.
fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let library = |folder: PathBuf| folder.join("faketime/libfaketimeMT.so.1");
    let found = folders.map(|folder| library(folder.path())).find(|library| library.exists());
    if found.is_none() {
        eprintln!("skipped: no libfaketime, see scripts/services");
    }
    found
}

/// A server with an adjustable clock, and its vendors.
struct Clocked {
    server: ServerProcess,
    vendors: Vendors,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

/// Writes the offset of the clock, in seconds.
fn set(file: &Path, off: i64) {
    let next = file.with_extension("next");
    std::fs::write(&next, format!("{off:+}\n")).unwrap();
    std::fs::rename(next, file).unwrap();
}

impl Clocked {
    async fn start(library: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let vendors = vendors().await;
        let file = folder.path().join("off");
        set(&file, 0);
        let answers_within = ANSWERS_WITHIN.as_millis().to_string();
        let env = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            // The monotonic clock of timers is not affected.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
            ("HEARKEN__HEARING__SILENCE_MS", "400"),
            ("HEARKEN__SPEAKING__START_GUARD_MS", "250"),
            ("HEARKEN__HTTP__REQUESTS_PER_MINUTE", "0"),
            ("HEARKEN__AUTH__REQUIRED", "always"),
            ("HEARKEN__GATEWAY__OPEN_TO_ALL", "true"),
            ("HEARKEN__CHAT__OPEN_TO_ALL", "true"),
            ("HEARKEN__MUSEUM__OPEN_TO_ALL", "true"),
            ("HEARKEN__LLM__TIMEOUT_MS", &answers_within),
        ];
        let server = ServerProcess::start(&vendors, &env).await;
        Self { server, vendors, file, _folder: folder }
    }

    /// The OTA response to a device.
    async fn boot(&self) -> Value {
        let report = json!({"board": {"type": "test"}, "application": {"version": "1.0.0"}});
        let asked = reqwest::Client::new()
            .post(self.server.http_url("/xiaozhi/ota/"))
            .header("Device-Id", super::clients::DEVICE_ID)
            .header("Client-Id", super::clients::CLIENT_ID)
            .json(&report);
        let answer = asked.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json().await.unwrap()
    }

    /// Sets the offset of the clock in seconds, and waits until the server reports that time.
    async fn set(&self, off: i64) {
        set(&self.file, off);
        eventually_within(PATIENCE, "the other time", async || {
            let told = self.boot().await["server_time"]["timestamp"].as_i64().unwrap();
            let now_off = told / 1_000 - Timestamp::now().as_second();
            ((now_off - off).abs() < 30).then_some(())
        })
        .await;
    }

    async fn museum(&self, path: &str, session: &str, body: Value) -> (u16, Value) {
        let asked = reqwest::Client::new().post(self.server.http_url(path)).json(&body);
        let answer = asked.header("session-id", session).send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    /// Registers a museum client; returns its session.
    async fn visitor(&self) -> String {
        let about = json!({"client_type": "web", "client_version": "1"});
        let wanted = json!({"client_metadata": about, "functions": []});
        let (_, made) = self.museum("/api/session/register", "", wanted).await;
        made["session_id"].as_str().unwrap().to_owned()
    }

    /// Sends a request of a museum client; returns the status.
    async fn ask(&self, visitor: &str) -> u16 {
        let asked = json!({"user_input": "Hi", "client_type": "web", "scene_type": "public"});
        self.museum("/api/agent/parse", visitor, asked).await.0
    }

    fn text_client(&self) -> TextClient {
        TextClient::new(self.server.socket_url("/"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clock_jumps_cost_no_turn_and_no_session() {
    let Some(library) = library() else { return };
    let clocked = Clocked::start(&library).await;
    let token = clocked.boot().await["websocket"]["token"].as_str().unwrap().to_owned();
    let url = clocked.server.socket_url("/xiaozhi/v1/");
    let mut staying = Speaker::new(url, Some(token));
    let load = Load::at(clocked.server.http_url("/api/sessions"), 1).await;
    let mut connected = clocked.text_client();
    let mut coming = clocked.text_client();
    let visitor = clocked.visitor().await;
    assert_eq!(clocked.ask(&visitor).await, 200);
    for (n, off) in JUMPS.into_iter().enumerate() {
        clocked.set(off).await;
        let seen = load.talk(n, 1).await;
        assert!(seen.is_served(), "{off}: {:?}", seen.statuses);
        for client in [&mut connected, &mut coming] {
            let told = client.say().await.unwrap();
            assert_eq!((&told["type"], &told["stored"]), (&json!("llm_response"), &json!(null)));
        }
        coming.hang_up();
        assert_eq!(clocked.ask(&visitor).await, 200, "{off}: a museum session");
        // Every second time, a new connection with the token of the first boot.
        if n % 2 == 0 {
            staying.hang_up();
        }
        assert!(staying.turn().await, "{off}");
        assert_eq!(staying.last_sentence(), "You said what is the weather", "{off}");
    }
    load.check(&clocked.server.http_url(""), JUMPS.len()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_do_not_depend_on_the_time_of_day() {
    let Some(library) = library() else { return };
    let clocked = Clocked::start(&library).await;
    let mut text = clocked.text_client();
    text.say().await.unwrap();
    for jump in [400 * 24 * HOUR, -HOUR] {
        let requests = clocked.vendors.llm.seen().requests;
        clocked.vendors.llm.set(Behaviour::Slow);
        let jumping = async {
            clocked.vendors.llm.until(|seen| seen.requests > requests).await;
            clocked.set(jump).await;
        };
        let (told, ()) = tokio::join!(text.say(), jumping);
        assert_eq!(told.unwrap()["type"], "llm_response", "a slow answer arrives");

        clocked.vendors.llm.set(Behaviour::Silent);
        let begun = Instant::now();
        let requests = clocked.vendors.llm.seen().requests;
        let jumping = async {
            clocked.vendors.llm.until(|seen| seen.requests > requests).await;
            clocked.set(0).await;
        };
        let (told, ()) = tokio::join!(text.say(), jumping);
        let took = begun.elapsed();
        assert_eq!(told.unwrap()["type"], "error", "a silent model times out");
        assert!(took >= ANSWERS_WITHIN && took < ANSWERS_WITHIN + PATIENCE / 2, "{took:?}");
        clocked.vendors.llm.set(Behaviour::Normal);
        assert_eq!(text.say().await.unwrap()["type"], "llm_response");
    }
}
