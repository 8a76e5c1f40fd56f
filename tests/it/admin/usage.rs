//! Usage accounting and daily limits for each kind of client. Not for the SQL of the totals.

use futures_util::SinkExt as _;
use hearken::config::{AuthRequired, Config};
use hearken_proto::device::ListenMode;
use hearken_test_support::eventually;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::turns::{spoken_turn, typed_turn};
use super::{Admin, PASSWORD, ask, guarded};
use crate::server::json_of;
use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

const NO_MORE: &str = "That was all for today. Let's talk again tomorrow.";

async fn usage(admin: &Admin) -> Value {
    let (status, told) =
        ask(&admin.server, Method::GET, "/api/usage", &admin.token, Value::Null).await;
    assert_eq!(status, 200, "{told}");
    told
}

/// Waits until this many turns are counted, and returns the usage.
async fn used(admin: &Admin, turns: u64) -> Value {
    eventually("turns are counted", async || {
        let told = usage(admin).await;
        (told["used_today"]["turns"] == turns).then_some(told)
    })
    .await
}

/// Speaks to a device and returns the text of its reply.
async fn told_by_device(person: &mut Person) -> String {
    person.say(&SPEECH).await;
    person.answer().await.sentences.concat()
}

/// Sends a message to an application's session; returns status and body.
async fn chatted(server: &TestServer, session: &str) -> (u16, Value) {
    let path = format!("/api/sessions/{session}/chat");
    ask(server, Method::POST, &path, "", json!({"message": "hello"})).await
}

async fn chat_session(server: &TestServer) -> String {
    let body = json!({"name": "a", "creator_id": "ann"});
    let (status, told) = ask(server, Method::POST, "/api/sessions", "", body).await;
    assert_eq!(status, 201, "{told}");
    told["session_id"].as_str().unwrap().to_owned()
}

/// Registers a museum session; returns the value of its header.
async fn museum_session(server: &TestServer) -> String {
    let body = json!({"client_metadata": {"client_type": "web", "client_version": "1.0.0"},
        "functions": []});
    let (status, told) = ask(server, Method::POST, "/api/session/register", "", body).await;
    assert_eq!(status, 200, "{told}");
    told["session_id"].as_str().unwrap().to_owned()
}

async fn parsed(server: &TestServer, session: &str, said: &str) -> (u16, Value) {
    let body = json!({"user_input": said, "client_type": "web", "scene_type": "public"});
    let asked = Client::new().post(server.http_url("/api/agent/parse"));
    let answer = asked.header("session-id", session).json(&body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

fn priced(config: &mut Config) {
    config.llm.price_per_million_output = 1e6;
    config.usage.currency = "EUR".into();
    config.usage.asr_price_per_hour = 3_600.0;
    config.dialogue.emotion_prompt.clear();
}

#[tokio::test]
async fn usage_and_cost_per_client_survive_a_restart() {
    let vendors = Vendors::start().await;
    let mut config = vendors.config();
    guarded(&mut config);
    priced(&mut config);
    let admin = Admin::of(TestServer::of(config.clone(), Vec::new()).await).await;
    assert_eq!(usage(&admin).await["days"], json!([]));
    spoken_turn(&admin.server).await;
    let told = used(&admin, 1).await;
    let [sums, device, role] = [&told["used_today"], &told["devices"][0], &told["roles"][0]];
    let number = |name: &str| sums[name].as_f64().unwrap();
    assert!((0.5..10.0).contains(&number("heard_seconds")), "{told}");
    assert!((0.1..10.0).contains(&number("said_seconds")), "{told}");
    let chars: usize = REPLY.iter().map(|sentence| sentence.chars().count()).sum();
    assert_eq!(sums["said_chars"], chars);
    assert!(number("completion_tokens") >= 1.0, "{told}");
    let cost = number("completion_tokens") + number("heard_seconds");
    assert!((number("cost") - cost).abs() < 1e-6, "{told}");
    assert_eq!(
        (&told["currency"], &device["turns"], &role["role_id"]),
        (&json!("EUR"), &json!(1), &json!(""))
    );
    typed_turn(&admin.server).await;
    let chat = chat_session(&admin.server).await;
    assert_eq!(chatted(&admin.server, &chat).await.0, 200);
    let museum = museum_session(&admin.server).await;
    assert_eq!(parsed(&admin.server, &museum, "hello").await.0, 200);
    let tried = json!({"text": "hello"});
    let (status, _) =
        ask(&admin.server, Method::POST, "/api/roles/try", &admin.token, tried.clone()).await;
    assert_eq!(status, 200);
    let told = used(&admin, 5).await;
    let mut kinds: Vec<_> = told["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| kind["kind"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["chat", "museum", "text", "trial", "voice"]);
    assert_eq!((&told["days"][0]["turns"], &told["days"][0]["day"]), (&json!(5), &told["today"]));

    typed_turn(&admin.server).await;
    admin.server.stop().await;
    // The last turn ended seconds ago; today's limit includes it.
    config.usage.total_cost = cost;
    let admin = Admin::of(TestServer::of(config, Vec::new()).await).await;
    let again = used(&admin, 6).await;
    assert_eq!(again["reached"], json!([{"of": "total", "id": "", "limit": "cost"}]));
    assert_eq!(chatted(&admin.server, &chat).await.0, 429);
    let (status, _) = ask(&admin.server, Method::POST, "/api/roles/try", &admin.token, tried).await;
    assert_eq!(status, 429);
    admin.server.stop().await;
}

#[tokio::test]
async fn clients_at_a_limit_get_a_notice_until_the_limit_is_lifted() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| config.llm.model = "m".into()).await;
    let server = &admin.server;
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    assert_eq!(told_by_device(&mut person).await, REPLY.concat());
    let chat = chat_session(server).await;
    let museum = museum_session(server).await;
    assert_eq!(chatted(server, &chat).await.0, 200);
    let (mut text, _) = connect_async(server.gateway_url()).await.unwrap();
    used(&admin, 2).await;
    admin.set(json!({"usage.total_tokens": 1})).await;
    vendors.forget_texts();
    for _ in 0..2 {
        assert_eq!(told_by_device(&mut person).await, NO_MORE);
        let question = json!({"type": "text_input", "text": "hello"});
        text.send(Message::text(question.to_string())).await.unwrap();
        let told = json_of(&mut text, "error").await;
        assert_eq!(
            (&told["code"], &told["message"]),
            (&json!("LLM_ERROR"), &json!("Today's limit is reached"))
        );
        let (status, told) = chatted(server, &chat).await;
        let error = &told["error"];
        assert_eq!((status, &error["code"]), (429, &json!("LIMIT_REACHED")), "{told}");
        let message =
            "today's limit is reached: nothing is left today of the tokens for all clients";
        assert_eq!(error["message"], message);
        let (status, told) = parsed(server, &museum, "hello").await;
        assert_eq!(status, 429, "{told}");
    }
    assert_eq!(vendors.llm.seen().texts, [""; 0], "the model is not asked");
    let told = used(&admin, 10).await;
    assert_eq!(told["used_today"]["refused"], 8);
    assert_eq!(told["reached"], json!([{"of": "total", "id": "", "limit": "tokens"}]));
    admin.set(json!({"usage.total_tokens": 0})).await;
    for _ in 0..10 {
        assert_eq!(told_by_device(&mut person).await, REPLY.concat());
        assert_eq!(chatted(server, &chat).await.0, 200);
    }
    let texts = vendors.llm.seen().texts.join("\n");
    assert!(
        texts.contains(HEARD) && !texts.contains("all for today"),
        "refused messages are not remembered"
    );
}

#[tokio::test]
async fn totals_outlive_a_deleted_device_and_need_a_token() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let device = "02:00:00:00:00:09";
    let report = Client::new().post(admin.server.http_url("/xiaozhi/ota/"));
    let report = report.header("Device-Id", device).header("Client-Id", "a-board").json(&json!({}));
    assert_eq!(report.send().await.unwrap().status(), 200);
    let mut person = Person::meet_as(&admin.server.device_url(), device).await;
    told_by_device(&mut person).await;
    drop(person);
    let told = used(&admin, 1).await;
    assert_eq!(told["devices"][0]["client"], device);
    let path = format!("/api/devices/{device}");
    assert_eq!(ask(&admin.server, Method::DELETE, &path, &admin.token, Value::Null).await.0, 204);
    let told = usage(&admin).await;
    assert_eq!((&told["devices"][0]["client"], &told["days"][0]["turns"]), (&json!(""), &json!(1)));
    for query in ["?days=0", "?days=401", "?days=x", "?days="] {
        let path = format!("/api/usage{query}");
        assert_eq!(ask(&admin.server, Method::GET, &path, PASSWORD, Value::Null).await.0, 400);
    }
    for (key, value) in [("currency", json!("a very long name of it")), ("total_cost", json!(-1))] {
        let body = json!({format!("usage.{key}"): value});
        assert_eq!(admin.ask(Method::PUT, "/config", body).await.0, 400, "{key}");
    }
    let guarded = Admin::start(&vendors, |c| c.auth.required = AuthRequired::Auto).await;
    assert_eq!(ask(&guarded.server, Method::GET, "/api/usage", "", Value::Null).await.0, 401);
}
