//! The time zone `ota.timezone` for all clocks of a running server: prompts, the time tool, and the
//! displays of devices. Not for the calendar of a zone.

use futures_util::SinkExt as _;
use hearken_proto::device::ListenMode;
use hearken_test_support::socket::frame;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_test_support::worlds::Worlds;
use jiff::{SignedDuration, Timestamp, Zoned};
use reqwest::Client;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::PATIENCE;
use super::person::Person;
use super::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

/// A zone that no test machine uses: UTC+5:45, without daylight saving time.
const ZONE: &str = "Asia/Kathmandu";

/// The message of all clients: the model calls the tool that it names.
const ASKED: &str = "call get_current_time {}";

/// Answers once the tool has returned the time.
fn reply(asked: &[u8]) -> String {
    if asked.starts_with(b"call ") { String::new() } else { "It is late.".into() }
}

/// A server whose prompts contain the time, and its clients.
struct Setup {
    server: TestServer,
    vendors: Vendors,
    _worlds: Worlds,
    since: Timestamp,
}

impl Setup {
    async fn start() -> Self {
        let vendors = Vendors::of(
            ListenAiAsr::start(Behaviour::Normal, ASKED).await,
            OpenAiChat::answering(reply).await,
            ListenAiTts::start(Behaviour::Normal).await,
        );
        let worlds = Worlds::start(7);
        let server = TestServer::start(&vendors, |config| {
            config.ota.timezone = ZONE.into();
            config.state.url = worlds.url.clone();
            config.tools.builtin.enabled = vec!["get_current_time".into()];
            config.dialogue.emotion_prompt.clear();
            for prompt in [
                &mut config.dialogue.system_prompt,
                &mut config.gateway.system_prompt,
                &mut config.chat.system_prompt,
                &mut config.museum.system_prompt,
            ] {
                *prompt = "{current_time}\nBe brief.".into();
            }
        })
        .await;
        Self { server, vendors, _worlds: worlds, since: Timestamp::now() }
    }

    async fn post(&self, path: &str, session: &str, body: Value) -> Value {
        let asked = Client::new().post(self.server.http_url(path)).timeout(PATIENCE);
        let asked = asked.header("session-id", session).json(&body).send();
        let answer = asked.await.unwrap();
        let status = answer.status();
        let told = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {told}");
        serde_json::from_str(&told).unwrap()
    }

    /// Checks that this time is between the start of the test and now, to the second or to the minute.
    fn check(&self, frontend: &str, moment: Timestamp, within: SignedDuration) {
        let first = self.since - within;
        let last = Timestamp::now();
        assert!(moment >= first && moment <= last, "{frontend}: {first} {moment} {last}");
    }

    /// Checks that the time in the last prompt of this frontend is in the zone; returns the prompt.
    fn prompted(&self, frontend: &str) -> Vec<Value> {
        let texts = self.vendors.llm.seen().texts;
        let body: Value = serde_json::from_str(texts.last().expect("it was asked")).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        let told = messages[0]["content"].as_str().unwrap().lines().next().unwrap();
        let told = Zoned::strptime("%Y-%m-%d %H:%M %A %Q", told);
        let told = told.unwrap_or_else(|error| panic!("{frontend}: {error}: {messages:?}"));
        assert_eq!(told.time_zone().iana_name(), Some(ZONE), "{frontend}");
        self.check(frontend, told.timestamp(), SignedDuration::from_mins(1));
        self.vendors.llm.forget_texts();
        messages
    }

    /// Checks the prompt, and that the time tool returned the time in the zone.
    fn told_both(&self, frontend: &str) {
        let messages = self.prompted(frontend);
        let result = messages.iter().find(|message| message["role"] == "tool");
        let result =
            result.unwrap_or_else(|| panic!("{frontend}: no tool was called: {messages:?}"));
        self.tool(frontend, result["content"].as_str().unwrap());
    }

    fn tool(&self, frontend: &str, result: &str) {
        let told: Value = serde_json::from_str(result).unwrap();
        let moment = told["datetime"].as_str().unwrap();
        assert!(told["timezone"] == ZONE && moment.ends_with("+05:45"), "{frontend}: {told}");
        self.check(frontend, moment.parse().unwrap(), SignedDuration::from_secs(1));
    }
}

#[actix_web::test]
async fn prompts_and_the_time_tool_use_the_configured_time_zone() {
    let setup = Setup::start().await;

    let url = setup.server.device_url();
    let mut person = Person::meet(&url, 1, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await.sentences, ["It is late."]);
    setup.told_both("device");
    drop(person);

    let (mut client, _) = connect_async(setup.server.gateway_url()).await.unwrap();
    let asked = json!({"type": "text_input", "text": ASKED}).to_string();
    client.send(Message::text(asked)).await.unwrap();
    while frame(&mut client, PATIENCE).await.unwrap()["type"] != "llm_response" {}
    setup.told_both("text client");

    let wanted = json!({"name": "n", "creator_id": "c", "max_players": 1});
    let made = setup.post("/api/sessions", "", wanted).await;
    let path = format!("/api/sessions/{}/chat", made["session_id"].as_str().unwrap());
    setup.post(&path, "", json!({"message": ASKED})).await;
    setup.told_both("application");

    let wanted =
        json!({"client_metadata": {"client_type": "web", "client_version": "1"}, "functions": []});
    let made = setup.post("/api/session/register", "", wanted).await;
    let asked = json!({"user_input": "Late?", "client_type": "web", "scene_type": "public"});
    setup.post("/api/agent/parse", made["session_id"].as_str().unwrap(), asked).await;
    setup.prompted("museum client");

    let asked = json!({"source": "builtin", "tool": "get_current_time", "arguments": {}});
    let told = setup.post("/api/tools/call", "", asked).await;
    setup.tool("by hand", told["content"][0]["text"].as_str().unwrap());
    setup.server.stop().await;
}
