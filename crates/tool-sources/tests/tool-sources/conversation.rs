//! The tools that change the style of one session, and the sources of a conversation without a
//! device.

use std::time::Duration;

use hearken_dialogue::{ConversationStyle, SharedStyle};
use hearken_ports::ToolSource as _;
use hearken_ports::reply_language::ReplyLanguage;
use hearken_proto::ids::{DeviceId, SessionId};
use hearken_test_support::tool_sources::{address, environment};
use hearken_tool_sources::{Builtin, BuiltinSettings, Endpoint, Servers, Sources, ToolServer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::builtin::{ask, told};

fn style(shared: &SharedStyle) -> ConversationStyle {
    shared.lock().unwrap().clone()
}

#[tokio::test]
async fn the_language_of_answers_is_set_and_returned_in_one_session_only() {
    let all = Builtin::new(&BuiltinSettings::default(), &jiff::tz::TimeZone::UTC).unwrap();
    let shared = SharedStyle::default();
    let other = SharedStyle::default();
    let tools = all.for_conversation("s-1", &shared);
    let none = told(&tools, "get_response_language", json!({})).await;
    assert_eq!((&none["language"], &none["name_en"]), (&json!("zh"), &json!("Chinese")));
    assert_eq!(none["message"], "none is set: answer in the user's language");
    let list = told(&tools, "list_supported_languages", json!({})).await;
    assert_eq!(list["current"], "zh", "the document's default");
    let done = told(&tools, "set_response_language", json!({"language": "en"})).await;
    let expected = json!({"language": "en", "name": "英语", "name_en": "English",
        "message": "from now on, answer in English only"});
    assert_eq!(done, expected);
    assert_eq!(style(&shared).language, Some(ReplyLanguage::En));
    assert!(style(&shared).instructions("be kind", "").contains("English"));
    for (wrong, says) in [
        (json!({"language": "tlh"}), "the language `tlh` is not known: use one of zh, en, ja, "),
        (json!({}), "`language` is missing: use one of zh, en, ja, ko, de, fr, ru, pt, es, it"),
    ] {
        let (failed, why) = ask(&tools, "set_response_language", wrong).await;
        assert!(failed && why.starts_with(says), "{why}");
    }
    assert_eq!(told(&tools, "get_response_language", json!({})).await["language"], "en");
    let list = told(&tools, "list_supported_languages", json!({})).await;
    let codes: Vec<&str> = list["languages"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|l| l["language"].as_str())
        .collect();
    assert_eq!(codes, ["zh", "en", "ja", "ko", "de", "fr", "ru", "pt", "es", "it"]);
    assert_eq!(
        (&list["languages"][7]["name"], &list["current"]),
        (&json!("葡萄牙语"), &json!("en"))
    );
    let elsewhere = all.for_conversation("s-2", &other);
    assert_eq!(told(&elsewhere, "get_response_language", json!({})).await, none);
    assert_eq!(style(&other), ConversationStyle::default());
}

#[tokio::test]
async fn a_character_is_entered_reported_and_left() {
    let shared = SharedStyle::default();
    let all = Builtin::new(&BuiltinSettings::default(), &jiff::tz::TimeZone::UTC).unwrap();
    let tools = all.for_conversation("s-1", &shared);
    let list = told(&tools, "list_available_characters", json!({})).await;
    let names: Vec<&str> =
        list["characters"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names, ["孙悟空", "诸葛亮", "Sherlock Holmes"]);
    let off = json!({"active": false, "character": null, "session_id": "s-1"});
    assert_eq!(told(&tools, "get_roleplay_status", json!({})).await, off);

    let asked = json!({"character": " “sherlock HOLMES” ", "session_id": "s-1"});
    let done = told(&tools, "enter_roleplay_mode", asked).await;
    assert_eq!((&done["active"], &done["character"]), (&json!(true), &json!("Sherlock Holmes")));
    assert!(done["persona"].as_str().unwrap().contains("Baker Street"), "{done}");
    assert!(style(&shared).instructions("be kind", "").contains("Baker Street"));
    let on = json!({"active": true, "character": "Sherlock Holmes", "session_id": "s-1"});
    assert_eq!(told(&tools, "get_roleplay_status", json!({"session_id": "s-1"})).await, on);
    let list = told(&tools, "list_available_characters", json!({})).await;
    assert_eq!(list["current"], "Sherlock Holmes");

    let (failed, why) = ask(&tools, "enter_roleplay_mode", json!({"character": "Moriarty"})).await;
    let says = "there is no character `Moriarty`: use one of 孙悟空, 诸葛亮, Sherlock Holmes";
    assert!(failed && why == says, "{why}");
    for name in ["enter_roleplay_mode", "exit_roleplay_mode", "get_roleplay_status"] {
        let foreign = json!({"character": "孙悟空", "session_id": "s-2"});
        let (failed, why) = ask(&tools, name, foreign).await;
        assert!(failed && why.starts_with("`s-2` is not this session"), "{name}: {why}");
    }
    assert_eq!(told(&tools, "get_roleplay_status", json!({})).await, on);

    let done = told(&tools, "exit_roleplay_mode", json!({"session_id": ""})).await;
    assert_eq!((&done["active"], &done["was"]), (&json!(false), &json!("Sherlock Holmes")));
    assert_eq!(style(&shared), ConversationStyle::default());
    let again = told(&tools, "exit_roleplay_mode", json!({})).await;
    assert_eq!(
        (&again["was"], &again["message"]),
        (&json!(null), &json!("no character was being played"))
    );

    let nobody = BuiltinSettings { characters: Vec::new(), ..BuiltinSettings::default() };
    let tools =
        Builtin::new(&nobody, &jiff::tz::TimeZone::UTC).unwrap().for_conversation("s-1", &shared);
    let (failed, why) = ask(&tools, "enter_roleplay_mode", json!({"character": "孙悟空"})).await;
    assert!(failed && why == "there are no characters to play", "{why}");
}

#[tokio::test]
async fn a_conversation_has_the_shared_sources_and_its_own_tools() {
    let process = CancellationToken::new();
    // No server listens there: an unreachable server does not remove a source from the list.
    let away = |name: &str| address(name, "http://127.0.0.1:9/mcp".into());
    let servers = [
        away("everybodys"),
        ToolServer { devices: vec!["02:00:00:00:00:01".into()], ..away("ones") },
        ToolServer { enabled: false, ..away("off") },
    ];
    let remotes = Servers::start(&servers, &environment(), &process).unwrap();
    let all = Builtin::new(&BuiltinSettings::default(), &jiff::tz::TimeZone::UTC).unwrap();
    let sources = Sources::new(all, remotes, Endpoint::new(Duration::from_secs(1)));
    let conversation = sources.conversation("s-1", &SharedStyle::default());
    let names: Vec<&str> = conversation.iter().map(|s| s.name()).collect();
    assert_eq!(names, ["builtin", "everybodys", "endpoint"]);
    assert_eq!(conversation[0].tools().len(), 10);
    let application = sources.chat_session();
    let names: Vec<&str> = application.iter().map(|s| s.name()).collect();
    assert_eq!(names, ["builtin", "everybodys", "endpoint"]);
    assert_eq!(application[0].tools().len(), 3, "its sessions have no style to change");
    let session = SessionId::new("s-2");
    let device = sources.lookup()(&DeviceId::new("02:00:00:00:00:01"), &session)();
    let names: Vec<&str> = device.iter().map(|s| s.name()).collect();
    assert_eq!(names, ["builtin", "everybodys", "ones", "endpoint"]);
    assert_eq!(device[0].tools().len(), 3, "small models choose badly among many");
    assert_eq!(sources.builtin().tools().len(), 3);
    process.cancel();
    sources.stop().await;
}
