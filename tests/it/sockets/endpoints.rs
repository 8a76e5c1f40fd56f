//! Every WebSocket of our servers, idle and during an answer. Not for how they close.

use std::time::Duration;

use hearken::config::Config;
use hearken_base::Secret;
use hearken_mock_services::{Addresses, Delay, MockServices, Reply};
use hearken_test_support::engines::Gate;
use hearken_test_support::speech::{self, Running};
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_test_support::worlds::Worlds;
use hearken_tool_sources::AgentTokens;
use hearken_virtual_device::sound::Sound;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::libraries::Plan;
use crate::server::voices::voice;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

pub(super) const HELLO: &str = r#"{"type":"hello","version":1,"transport":"websocket"}"#;
const QUESTION: &str = r#"{"type":"listen","state":"detect","text":"tell me a story"}"#;
const SECRET: &str = "the secret of the tests";

/// All servers with WebSockets.
pub(super) struct House {
    pub(super) server: TestServer,
    _vendors: Vendors,
    session: String,
    asr: Running,
    tts: Running,
    doubles: Addresses,
    _doubles: DropGuard,
    _worlds: Worlds,
}

/// Sound that lasts longer than the test.
fn long(sentence: &str) -> Vec<i16> {
    voice(150, if sentence == REPLY[0] { 10_000 } else { 200 }, 24_000)
}

/// An equally long answer of a model, one word at a time.
fn story() -> String {
    format!("{} {}", REPLY[0], "And so it went on and on. ".repeat(40))
}

async fn doubles(stop: CancellationToken) -> Addresses {
    let at_once = Delay::new(Duration::ZERO, 0.0, 1);
    let anywhere = "127.0.0.1:0".parse().unwrap();
    let doubles = MockServices {
        asr: anywhere,
        tts: anywhere,
        llm: anywhere,
        asr_delay: at_once.clone(),
        tts_delay: at_once.clone(),
        tts_speed: 1.0,
        sound: Sound { samples: voice(150, 10_000, 24_000), rate_hz: 24_000 },
        llm_delay: at_once,
        reply: Reply { sentences: 2, word_every: Duration::ZERO, calls: None },
    };
    let (tell, told) = oneshot::channel();
    actix_web::rt::spawn(hearken_mock_services::serve(doubles, stop, |at| tell.send(at).unwrap()));
    told.await.unwrap()
}

impl House {
    pub(super) async fn open(tweak: impl FnOnce(&mut Config)) -> Self {
        let vendors = Vendors::of(
            ListenAiAsr::start(Behaviour::Normal, HEARD).await,
            OpenAiChat::start(Behaviour::Slow, &story()).await,
            ListenAiTts::sounding(long).await,
        );
        let worlds = Worlds::start(1);
        let server = TestServer::start(&vendors, |config| {
            config.state.url = worlds.url.clone();
            config.auth.secret = Secret::new(SECRET);
            config.tools.builtin.enabled = vec!["get_current_time".into()];
            tweak(config);
        })
        .await;
        let made = reqwest::Client::new().post(server.http_url("/api/sessions"));
        let made = made.json(&json!({"name": "a dungeon", "creator_id": "somebody"})).send().await;
        let made: Value = made.unwrap().json().await.unwrap();
        let session = made["session_id"].as_str().unwrap().to_owned();
        let stop = CancellationToken::new();
        Self {
            server,
            _vendors: vendors,
            session,
            asr: speech::asr(&Gate::open(), 1, 4).await,
            tts: speech::tts(&Gate::open(), 1, 64).await,
            doubles: doubles(stop.clone()).await,
            _doubles: stop.drop_guard(),
            _worlds: worlds,
        }
    }

    /// A device after the exchange of hellos.
    pub(super) fn device(&self) -> Plan {
        plan(self.server.device_url(), &[HELLO], r#""hello""#)
    }

    /// A device during a spoken answer.
    pub(super) fn listening_device(&self) -> Plan {
        plan(self.server.device_url(), &[HELLO, QUESTION], "binary")
    }

    pub(super) fn text_client(&self) -> Plan {
        plan(self.server.gateway_url(), &[], "connected")
    }

    /// A text client during a streamed answer.
    pub(super) fn reading_client(&self) -> Plan {
        let say = [
            r#"{"type": "configure", "stream": true}"#,
            r#"{"type": "text_input", "text": "tell me a story"}"#,
        ];
        plan(self.server.gateway_url(), &say, "llm_delta")
    }

    pub(super) fn watcher(&self) -> Plan {
        let path = format!("/api/sessions/{}/ws", self.session);
        plan(self.address(&path), &[], "connected")
    }

    pub(super) fn litemcp(&self) -> Plan {
        let question = r#"{"version": [1, 0, 0], "id": 7, "type": "get", "data": {}}"#;
        plan(self.address("/litemcp/get_current_time"), &[question], "info")
    }

    pub(super) fn tool_client(&self) -> Plan {
        let token = AgentTokens::new(&Secret::new(SECRET), &[]).mint("default").unwrap().0;
        plan(self.address(&format!("/mcp_endpoint/mcp/?token={token}")), &[], "initialize")
    }

    /// The WebSockets of the server itself.
    pub(super) fn of_server(&self) -> Vec<Plan> {
        vec![
            self.device(),
            self.listening_device(),
            self.text_client(),
            self.reading_client(),
            self.watcher(),
            self.litemcp(),
            self.tool_client(),
        ]
    }

    /// Those of the speech services: ours and the mocks.
    pub(super) fn of_speech(&self) -> Vec<Plan> {
        let batch = r#"{"command": "batch_start"}"#;
        let speak = r#"{"type": "tts_request", "request_id": "1", "params": {"text": "hello"}}"#;
        vec![
            plan(format!("ws://{}/", self.asr.address), &[batch], "batch_progress"),
            plan(format!("ws://{}/tts", self.tts.address), &[speak], "binary"),
            plan(format!("ws://{}/", self.doubles.asr), &[batch], "batch_progress"),
            plan(format!("ws://{}/tts", self.doubles.tts), &[speak], "binary"),
        ]
    }

    fn address(&self, path: &str) -> String {
        format!("ws://{}{path}", self.server.address)
    }
}

fn plan(url: String, say: &[&str], until: &'static str) -> Plan {
    let say = say.iter().map(|text| (*text).to_owned()).collect();
    Plan { url, say, until, large: 0, close: None }
}
