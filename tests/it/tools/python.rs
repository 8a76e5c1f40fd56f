//! A conversation with a device while a tool server with the Python SDK dies and restarts. The
//! servers alone are tested in `crates/tool-sources/tests`.

use std::time::Duration;

use hearken_proto::device::ListenMode;
use hearken_test_support::free_port;
use hearken_test_support::peers::{Listening, Peers, Program};
use hearken_test_support::tool_sources::address;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts};

use super::check_24::ready;
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

/// Has turns while the server is up, dead, and up again.
async fn a_conversation_outlives(program: Program) {
    let Some(peers) = Peers::installed() else { return };
    let port = free_port();
    let mut pages = Listening::paged(&peers, program, "10", port);
    pages.up().await;
    let asr = ListenAiAsr::start(Behaviour::Normal, r#"call echo {"text":"hi"}"#).await;
    let vendors = Vendors::with(asr, ListenAiTts::start(Behaviour::Normal).await).await;
    let url = pages.url();
    let server = TestServer::start(&vendors, |config| {
        config.tools.servers = vec![address("pages", url)];
        // Interpreters keep the machine busy: the device may process `tts start` late.
        config.speaking.start_guard = Duration::from_secs(1);
    })
    .await;
    ready(&server, 1).await;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    let mut told = async || {
        vendors.forget_texts();
        person.say(&SPEECH).await;
        assert!(!person.answer().await.sentences.is_empty());
        // The last tool result in the prompt.
        let asked = vendors.llm.seen().texts.pop().unwrap();
        let asked: serde_json::Value = serde_json::from_str(&asked).unwrap();
        let last = asked["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["role"], "tool", "{asked}");
        last["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(told().await, "pages: hi");
    pages.kill();
    let dead = told().await;
    assert!(dead.starts_with("error: the tool cannot be reached"), "{dead}");
    let pages = Listening::paged(&peers, program, "3", port);
    pages.up().await;
    assert_eq!(told().await, "pages: hi");
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn a_conversation_survives_the_death_of_a_server_with_sessions() {
    a_conversation_outlives(Peers::legacy).await;
}

#[tokio::test]
async fn a_conversation_survives_the_death_of_a_server_without_sessions() {
    a_conversation_outlives(Peers::pages).await;
}
