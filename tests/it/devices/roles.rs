//! Roles over REST: created, tried, assigned to a device, changed during its conversation, restored
//! and deleted. Not for people, whose voices need a model.

use std::cell::Cell;
use std::sync::Arc;

use futures_util::SinkExt as _;
use hearken::config::Config;
use hearken_ports::role::RoleSettings;
use hearken_ports::store::{Role, RoleOutcome, RoleStore as _, StoreError};
use hearken_store::SqlStore;
use hearken_test_support::vendors::Behaviour;
use hearken_test_support::{eventually, tool_sources};
use hearken_tool_sources::Registry;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::{DEVICE, as_device, boot, read};
use crate::server::json_of;
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{REPLY, TestServer, Vendors};

const ONE: &str = "/api/devices/02:00:00:00:00:01";

async fn start(vendors: &Vendors) -> TestServer {
    TestServer::start(vendors, |config: &mut Config| {
        config.dialogue.system_prompt = "Be brief.".into();
        config.dialogue.emotion_prompt.clear();
        config.llm.model = "usual".into();
        config.llm.max_tokens = 100;
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    })
    .await
}

async fn ask(server: &TestServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let mut asked = as_device(server, method, path);
    if !body.is_null() {
        asked = asked.json(&body);
    }
    read(asked.send().await.unwrap()).await
}

async fn add(server: &TestServer, body: Value) -> Value {
    let (status, role) = ask(server, Method::POST, "/api/roles", body).await;
    assert_eq!(status, 201, "{role}");
    role
}

/// The last request to the model.
fn model_asked(vendors: &Vendors) -> Value {
    serde_json::from_str(vendors.llm.seen().texts.last().expect("the model was asked")).unwrap()
}

/// The request to the model in the next turn of a person.
async fn next_turn(vendors: &Vendors, person: &mut Person) -> Value {
    person.say(&SPEECH).await;
    assert!(!person.answer().await.sentences.is_empty());
    model_asked(vendors)
}

/// Whether the last sentence was synthesised with this voice.
fn spoken_by(vendors: &Vendors, voice: Option<&str>) -> bool {
    let texts = vendors.tts.seen().texts;
    let asked = texts.iter().rev().find(|text| text.contains("mode")).unwrap();
    let asked: Value = serde_json::from_str(asked).unwrap();
    asked.to_string().contains("voice_id") == voice.is_some()
        && voice.is_none_or(|voice| asked.to_string().contains(&format!("\"{voice}\"")))
}

/// Whether the model was offered tools other than those of the board.
fn has_builtin_tools(asked: &Value) -> bool {
    let mut tools = asked["tools"].as_array().unwrap().iter();
    tools.any(|tool| !tool["function"]["name"].as_str().unwrap().starts_with("self_"))
}

#[tokio::test]
async fn a_role_applies_from_the_next_turn_of_its_device() {
    let vendors = Vendors::start().await;
    let server = start(&vendors).await;
    boot(&server).await;
    let pirate = json!({
        "name": " Pirate ", "system_prompt": "Be a pirate.", "model": "bold", "temperature": 0.25,
        "max_tokens": 7, "voice": "hoarse", "language": "de", "tools_off": ["builtin"],
        "memory": false, "history": "text", "interruption": "cut",
        "instant": "commands",
    });
    let role = add(&server, pirate).await;
    assert_eq!((&role["name"], &role["version"]), (&json!("Pirate"), &json!(1)));
    let id = role["id"].as_str().unwrap().to_owned();
    let mut person = Person::meet_as(&server.device_url(), DEVICE).await;
    let asked = next_turn(&vendors, &mut person).await;
    assert_eq!(
        (&asked["model"], asked["messages"].as_array().unwrap().len()),
        (&json!("usual"), 2)
    );
    assert!(has_builtin_tools(&asked) && spoken_by(&vendors, None), "{asked}");

    let (status, shown) = ask(&server, Method::PATCH, ONE, json!({"role": id})).await;
    assert_eq!((status, &shown["role"]), (200, &json!(id)));
    for _ in 0..2 {
        let asked = next_turn(&vendors, &mut person).await;
        let system = asked["messages"][0]["content"].as_str().unwrap();
        assert!(system.starts_with("Be a pirate.") && system.contains("German"), "{system}");
        assert!(!system.contains("中文回答"), "{system}");
        assert_eq!((&asked["model"], &asked["temperature"]), (&json!("bold"), &json!(0.25)));
        assert_eq!(asked["max_tokens"], 7);
        assert_eq!(asked["messages"].as_array().unwrap().len(), 2, "it remembers nothing");
        assert!(!has_builtin_tools(&asked) && spoken_by(&vendors, Some("hoarse")), "{asked}");
    }
    the_rest_of_the_role_works(&vendors, &server, &id, &mut person).await;
    drop(person);
    server.stop().await;
}

#[tokio::test]
async fn instructions_may_contain_any_characters() {
    let vendors = Vendors::start().await;
    let server = start(&vendors).await;
    for (n, (text, kept)) in [
        (r"say \u0000", r"say \u0000"),
        (r"say \\u0000 and \", r"say \\u0000 and \"),
        ("say \0 \u{1f600} \"'%_", "say  \u{1f600} \"'%_"),
    ]
    .into_iter()
    .enumerate()
    {
        let role = add(&server, json!({"name": format!("R{n}"), "system_prompt": text})).await;
        assert_eq!(role["system_prompt"], kept);
        let (status, all) = ask(&server, Method::GET, "/api/roles", Value::Null).await;
        assert_eq!((status, all["roles"].as_array().map(Vec::len)), (200, Some(n + 1)));
    }
    server.stop().await;
}

/// The history of its turns, precedence of the device's instructions, a new version, and deletion.
async fn the_rest_of_the_role_works(
    vendors: &Vendors,
    server: &TestServer,
    id: &str,
    person: &mut Person,
) {
    eventually("the turns of the role are stored", async || {
        let (_, told) = ask(server, Method::GET, "/api/history", Value::Null).await;
        (told["turns"].as_array()?.len() == 2).then_some(())
    })
    .await;

    // Instructions of the device take precedence over those of its role.
    ask(server, Method::PATCH, ONE, json!({"system_prompt": "Be a cook."})).await;
    let asked = next_turn(vendors, person).await;
    assert!(asked["messages"][0]["content"].as_str().unwrap().starts_with("Be a cook."), "{asked}");
    ask(server, Method::PATCH, ONE, json!({"system_prompt": null})).await;
    let path = format!("/api/roles/{id}");
    let change =
        json!({"system_prompt": "Be kind.", "memory": true, "model": null, "language": null});
    let (status, changed) = ask(server, Method::PATCH, &path, change).await;
    assert_eq!(
        (status, &changed["version"], &changed["voice"]),
        (200, &json!(2), &json!("hoarse"))
    );
    let asked = next_turn(vendors, person).await;
    assert!(asked["messages"][0]["content"].as_str().unwrap().starts_with("Be kind."), "{asked}");
    assert_eq!(
        (&asked["model"], asked["messages"].as_array().unwrap().len() > 2),
        (&json!("usual"), true)
    );

    assert_eq!(ask(server, Method::DELETE, &path, Value::Null).await.0, 204);
    let asked = next_turn(vendors, person).await;
    assert!(asked["messages"][0]["content"].as_str().unwrap().starts_with("Be brief."), "{asked}");
    assert!(!has_builtin_tools(&asked), "the role withheld them: {asked}");
    let (_, shown) = ask(server, Method::GET, ONE, Value::Null).await;
    assert_eq!(shown["role"], *id, "it can be seen");
    let (status, told) = ask(server, Method::PATCH, ONE, json!({"role": id})).await;
    assert_eq!(status, 400, "{told}");
    let (status, shown) = ask(server, Method::PATCH, ONE, json!({"role": null})).await;
    assert_eq!((status, &shown["role"]), (200, &Value::Null));
    assert!(has_builtin_tools(&next_turn(vendors, person).await));
}

#[tokio::test]
async fn versions_are_listed_and_restored() {
    let vendors = Vendors::start().await;
    let server = start(&vendors).await;
    let first = add(&server, json!({"name": "a", "voice": "one"})).await;
    let path = format!("/api/roles/{}", first["id"].as_str().unwrap());
    let change = async |body: Value| ask(&server, Method::PATCH, &path, body).await;
    let (_, same) = change(json!({"voice": "one", "name": "a"})).await;
    assert_eq!(same, first, "no change makes no new version");
    let (_, second) = change(json!({"voice": "two", "name": "b"})).await;
    let versions =
        async || ask(&server, Method::GET, &format!("{path}/versions"), Value::Null).await;
    let (_, told) = versions().await;
    let roles = |n: usize| told["versions"][n]["role"].clone();
    let numbers = &told["versions"][0]["version"];
    assert_eq!((roles(0), roles(1), numbers), (second, first, &json!(2)));
    let restore = async |version: Value| {
        ask(&server, Method::POST, &format!("{path}/restore"), json!({"version": version})).await
    };
    let (status, back) = restore(json!(1)).await;
    assert_eq!(
        (status, &back["version"], &back["voice"], &back["name"]),
        (200, &json!(3), &json!("one"), &json!("a"))
    );
    assert_eq!((restore(json!(9)).await.0, restore(json!("1")).await.0), (404, 400));
    add(&server, json!({"name": "b"})).await;
    assert_eq!(restore(json!(2)).await.0, 409, "another role has this name now");
    let (_, all) = ask(&server, Method::GET, "/api/roles", Value::Null).await;
    let names: Vec<_> =
        all["roles"].as_array().unwrap().iter().map(|role| role["name"].as_str()).collect();
    assert_eq!(
        (names, all["languages"].as_array().unwrap().len()),
        (vec![Some("a"), Some("b")], 10)
    );
    let (status, one) = ask(&server, Method::GET, &path, Value::Null).await;
    assert_eq!((status, one), (200, back));
    server.stop().await;
}

#[tokio::test]
async fn a_role_is_tried_before_it_is_saved() {
    let vendors = Vendors::start().await;
    let server = start(&vendors).await;
    let tried = async |body: Value| ask(&server, Method::POST, "/api/roles/try", body).await;
    let body = json!({"text": " Hello? ", "system_prompt": "Be a cat.", "model": "m", "max_tokens": 9,
        "temperature": 0.7, "language": "fr"});
    let (status, told) = tried(body).await;
    assert_eq!(
        (status, &told["answer"], &told["model"]),
        (200, &json!(REPLY.join(" ")), &json!("m"))
    );
    let asked = model_asked(&vendors);
    let system = asked["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("Be a cat.") && system.contains("French"), "{system}");
    assert_eq!(
        (&asked["messages"][1]["content"], &asked["max_tokens"]),
        (&json!("Hello?"), &json!(9))
    );
    assert_eq!(asked["temperature"].to_string(), "0.7");
    for wrong in [
        json!({}),
        json!({"text": " "}),
        json!({"text": "x".repeat(4_001)}),
        json!({"text": "a", "name": "b"}),
    ] {
        assert_eq!(tried(wrong.clone()).await.0, 400, "{wrong}");
    }
    vendors.llm.set(Behaviour::HttpStatus(500, None));
    assert_eq!(tried(json!({"text": "a"})).await.0, 503);
    vendors.llm.set(Behaviour::Normal);
    assert_eq!(tried(json!({"text": "a"})).await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn an_invalid_role_is_refused_with_the_field() {
    let vendors = Vendors::start().await;
    let server = start(&vendors).await;
    boot(&server).await;
    let a = add(&server, json!({"name": "a"})).await;
    let path = format!("/api/roles/{}", a["id"].as_str().unwrap());
    for (field, value) in [
        ("name", json!("a".repeat(65))),
        ("name", json!(" ")),
        ("name", json!(null)),
        ("system_prompt", json!("好".repeat(8_001))),
        ("model", json!(1)),
        ("temperature", json!(1.5)),
        ("temperature", json!("warm")),
        ("max_tokens", json!(0)),
        ("max_tokens", json!(1.5)),
        ("voice", json!("a\nb")),
        ("language", json!("tlh")),
        ("tools_off", json!("all")),
        ("interruption", json!("shout")),
        ("instant", json!("some")),
        ("history", json!("everything")),
        ("memory", json!("yes")),
        ("colour", json!("red")),
    ] {
        for (method, path) in [(Method::PATCH, path.as_str()), (Method::POST, "/api/roles")] {
            let mut body = json!({"name": "b"});
            body[field] = value.clone();
            let (status, told) = ask(&server, method, path, body).await;
            let about = told["error"]["message"].as_str().unwrap_or_default();
            assert!(status == 400 && about.contains(field), "{field} {value}: {told}");
        }
    }
    assert_eq!(ask(&server, Method::POST, "/api/roles", json!({"voice": "x"})).await.0, 400);
    assert_eq!(ask(&server, Method::POST, "/api/roles", json!([{"name": "x"}])).await.0, 400);
    assert_eq!(ask(&server, Method::POST, "/api/roles", json!({"name": "a"})).await.0, 409);
    let unknown = "/api/roles/00000000-0000-4000-8000-000000000009";
    for (method, path, body) in [
        (Method::GET, unknown.to_owned(), Value::Null),
        (Method::PATCH, unknown.to_owned(), json!({"voice": "x"})),
        (Method::DELETE, unknown.to_owned(), Value::Null),
        (Method::GET, format!("{unknown}/versions"), Value::Null),
        (Method::POST, format!("{unknown}/restore"), json!({"version": 1})),
    ] {
        assert_eq!(ask(&server, method.clone(), &path, body).await.0, 404, "{method} {path}");
    }
    for role in [json!("nobody's"), json!(1), json!("")] {
        let (status, told) = ask(&server, Method::PATCH, ONE, json!({"role": role})).await;
        let about = told["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && about.contains("`role`"), "{told}");
    }
    let (status, shown) = ask(&server, Method::PATCH, ONE, json!({"role": null})).await;
    assert_eq!((status, &shown["role"]), (200, &Value::Null));
    let (_, all) = ask(&server, Method::GET, "/api/roles", Value::Null).await;
    assert_eq!(all["roles"], json!([a]), "nothing has changed");
    server.stop().await;
}

#[tokio::test]
async fn text_clients_and_applications_use_the_configured_role() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config: &mut Config| {
        config.gateway.role = "Pirate".into();
        config.gateway.enable_context = true;
        config.chat.role = "Pirate".into();
        config.llm.model = "usual".into();
    })
    .await;
    let pirate = json!({
        "name": "Pirate", "system_prompt": "Be a pirate at {current_time}.", "model": "bold",
        "temperature": 0.25, "max_tokens": 7, "language": "de", "memory": false, "history": "text",
    });
    let (_, session) =
        ask(&server, Method::POST, "/api/sessions", json!({"name": "a", "creator_id": "b"})).await;
    let chat = format!("/api/sessions/{}/chat", session["session_id"].as_str().unwrap());
    let (mut text, _) = connect_async(server.gateway_url()).await.unwrap();
    let mut id = String::new();
    for is_there in [false, true] {
        if is_there {
            let role = add(&server, pirate.clone()).await;
            role["id"].as_str().unwrap().clone_into(&mut id);
        }
        for turn in 0..2 {
            let question = json!({"type": "text_input", "text": "hello"});
            text.send(Message::text(question.to_string())).await.unwrap();
            json_of(&mut text, "llm_response").await;
            in_role(&model_asked(&vendors), is_there, turn);
            let (status, told) =
                ask(&server, Method::POST, &chat, json!({"message": "hello"})).await;
            assert_eq!(status, 200, "{told}");
            in_role(&model_asked(&vendors), is_there, turn);
        }
    }
    // Settings of the client take precedence.
    for own in [
        json!({"type": "configure", "temperature": 0.5, "max_tokens": 9}),
        json!({"type": "text_input", "text": "hello"}),
    ] {
        text.send(Message::text(own.to_string())).await.unwrap();
    }
    json_of(&mut text, "llm_response").await;
    let asked = model_asked(&vendors);
    assert_eq!((&asked["temperature"], &asked["max_tokens"]), (&json!(0.5), &json!(9)));
    eventually("the turns of the role are stored", async || {
        let (_, told) = ask(&server, Method::GET, "/api/history", Value::Null).await;
        (told["turns"].as_array()?.len() == 5).then_some(())
    })
    .await;
    assert_eq!(ask(&server, Method::DELETE, &format!("/api/roles/{id}"), Value::Null).await.0, 204);
    assert_eq!(ask(&server, Method::POST, &chat, json!({"message": "hello"})).await.0, 200);
    assert_eq!(model_asked(&vendors)["model"], "usual");
    server.stop().await;
}

/// Checks that the request to the model follows the role, or the configuration without it.
fn in_role(asked: &Value, is_there: bool, turn: usize) {
    let system = asked["messages"][0]["content"].as_str().unwrap();
    assert_eq!(system.starts_with("Be a pirate at 2"), is_there, "{system}");
    assert_eq!(system.contains("German"), is_there, "{system}");
    assert_eq!(asked["model"], if is_there { "bold" } else { "usual" });
    if is_there {
        assert_eq!((&asked["temperature"], &asked["max_tokens"]), (&json!(0.25), &json!(7)));
        assert_eq!(asked["messages"].as_array().unwrap().len(), 2, "it remembers nothing");
    } else {
        assert_eq!(asked["messages"].as_array().unwrap().len(), 2 + 2 * turn, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_role_is_made_to_what_another_instance_has_stored_meanwhile() {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let (sources, process) = tool_sources::sources(&[]);
    let registry = Registry::new(sources, Arc::clone(&store) as _, false);
    let first = registry.add_role("pirate".into(), RoleSettings::default()).await.unwrap();
    let RoleOutcome::Done(first) = first else { panic!("it was not added") };
    let calls = Cell::new(0);
    let change = |role: &Role| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 {
            // What another instance stores after this one has read the role.
            let settings = RoleSettings { voice: "hoarse".into(), ..role.settings.clone() };
            let Role { role_id, version, name, .. } = role;
            let now = Timestamp::UNIX_EPOCH;
            let stored = store.change_role(role_id, *version, name, &settings, now);
            tokio::task::block_in_place(|| Handle::current().block_on(stored)).unwrap();
        }
        let settings = RoleSettings { model: "bold".into(), ..role.settings.clone() };
        Ok::<_, StoreError>((role.name.clone(), settings))
    };
    let changed = registry.change_role(&first.role_id, change).await.unwrap();
    let RoleOutcome::Done(changed) = changed else { panic!("it was not changed") };
    let RoleSettings { voice, model, .. } = &changed.settings;
    assert_eq!((changed.version, voice.as_str(), model.as_str()), (3, "hoarse", "bold"));
    assert_eq!(calls.get(), 2);
    process.cancel();
}
