//! Tools of virtual devices over real sockets: many pages, several concurrent devices, and
//! deviations of devices with other firmware.

use std::time::Duration;

use futures_util::future::join_all;
use hearken::config::Config;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts};
use hearken_virtual_device::toolbox::{Quirks, Toolbox};
use serde_json::Value;

use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

/// The transcript of all utterances.
const QUIETER: &str = r#"call self_audio_speaker_set_volume {"volume":35}"#;

pub(super) async fn asked_for_less() -> Vendors {
    let asr = ListenAiAsr::start(Behaviour::Normal, QUIETER).await;
    Vendors::with(asr, ListenAiTts::start(Behaviour::Normal).await).await
}

/// Several devices on a busy machine process `tts start` late, and a packet right after it is lost.
pub(super) fn patient(config: &mut Config) {
    config.speaking.start_guard = Duration::from_secs(1);
}

/// The requests to the model.
fn requests(vendors: &Vendors) -> Vec<Value> {
    let texts = vendors.llm.seen().texts;
    texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
}

/// The results of tool calls that the model received.
pub(super) fn results(vendors: &Vendors) -> Vec<String> {
    let last = |body: &Value| body["messages"].as_array().unwrap().last().unwrap().clone();
    let told = requests(vendors).iter().map(last).collect::<Vec<_>>();
    let told = told.iter().filter(|message| message["role"] == "tool");
    told.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn two_devices_offer_forty_tools_in_pages_and_each_is_called() {
    let vendors = asked_for_less().await;
    let server = TestServer::start(&vendors, patient).await;
    let one = async || {
        let tools = Toolbox { generated: 40, ..Toolbox::default() };
        let mut person = Person::meet_with_tools(&server.device_url(), tools).await;
        person.until_sent("tool_039").await;
        person.say(&SPEECH).await;
        assert!(!person.answer().await.sentences.is_empty());
        assert_eq!(person.board().volume, 35);
        // Initialisation, three pages of 8,000 bytes for 45 tools, and the call.
        let asked = person.report().messages("mcp").count();
        assert_eq!(asked, 6);
        person
    };
    let people = tokio::join!(one(), one());
    let requests = requests(&vendors);
    assert_eq!(requests.len(), 4, "two turns, each of a call and an answer");
    for request in &requests {
        let tools = request["tools"].as_array().unwrap();
        let names: Vec<&str> =
            tools.iter().map(|t| t["function"]["name"].as_str().unwrap()).collect();
        assert_eq!((names.len(), names[44]), (45, "self_generated_tool_039"));
    }
    assert_eq!(results(&vendors), ["true", "true"]);
    drop(people);
    server.stop().await;
}

#[tokio::test]
async fn devices_with_deviations_are_served_concurrently() {
    let vendors = asked_for_less().await;
    let server = TestServer::start(&vendors, patient).await;
    let none = Quirks::default;
    let quirks = [
        Quirks { empty_cursor: true, ..none() },
        Quirks { picture_results: true, ..none() },
        Quirks { ignores_unknown: true, ..none() },
        Quirks { late: Duration::from_millis(300), ..none() },
        Quirks { silent: true, ..none() },
    ];
    let one = async |quirks: Quirks| {
        let silent = quirks.silent;
        let tools = Toolbox { quirks, ..Toolbox::default() };
        let mut person = Person::meet_with_tools(&server.device_url(), tools).await;
        if !silent {
            person.until_sent(r#""result":{"tools":["#).await;
        }
        person.say(&SPEECH).await;
        assert!(!person.answer().await.sentences.is_empty());
        assert_eq!(person.board().volume, if silent { 70 } else { 35 });
        person
    };
    let people = join_all(quirks.map(one)).await;
    let mut results = results(&vendors);
    results.sort();
    let [picture, unknown, rest @ ..] = &results[..] else { panic!("{results:?}") };
    assert!(picture.starts_with("[a picture, image/"), "{results:?}");
    assert_eq!(unknown, "error: there is no tool `self_audio_speaker_set_volume`");
    assert_eq!(rest, ["true", "true", "true"]);
    drop(people);
    server.stop().await;
}
