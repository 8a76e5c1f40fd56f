//! Failures in a session: chapter 7. Not for invalid requests for a session itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use actix_web::{App, HttpResponse, HttpServer, web};
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{Table, code};
use crate::support::app::Vendors;

#[actix_web::test]
async fn a_message_has_1_to_2000_characters() {
    let table = Table::start().await;
    let session = table.session().await;
    let say = async |body: Value| code(session.post("/chat", body).await);
    let unfit = (400, "INVALID_REQUEST".to_owned());
    for wrong in [
        json!({}),
        json!({"message": ""}),
        json!({"message": " \n"}),
        json!({"message": 5}),
        json!({"message": "好".repeat(2_001)}),
        json!({"message": "hi", "player_id": ""}),
        json!({"message": "hi", "session_id": "another"}),
        json!({"message": "hi", "stream": "yes"}),
    ] {
        assert_eq!(say(wrong.clone()).await, unfit, "{wrong}");
    }
    assert_eq!(session.post("/chat", json!({"message": "好".repeat(2_000)})).await.0, 200);
    let odd = json!({"message": "hi", "session_id": session.id, "player_id": null, "more": 1});
    assert_eq!(session.post("/chat", odd).await.0, 200);
    let huge = json!({"message": "x".repeat(200_000)});
    assert_eq!(session.post("/chat", huge).await.0, 413);
    assert_eq!(session.said().await.len(), 4);
    table.server.stop().await;
}

/// A table whose model never stops calling.
async fn insistent() -> Table {
    let llm = OpenAiChat::start(Behaviour::Insistent, "call roll_dice {\"dice\": \"1d4\"}").await;
    let vendors = Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, "").await,
        llm,
        ListenAiTts::start(Behaviour::Normal).await,
    );
    Table::of(vendors, |_| {}).await
}

#[actix_web::test]
async fn a_turn_has_at_most_ten_rounds_of_calls() {
    let table = insistent().await;
    let session = table.session().await;
    let told = session.post("/chat", json!({"message": "hi"})).await;
    assert_eq!(code(told), (500, "MAX_ITERATIONS_EXCEEDED".into()));
    assert_eq!(table.vendors.llm.seen().requests, 10);
    assert!(session.said().await.is_empty());
    table.server.stop().await;
}

#[actix_web::test]
async fn a_model_failure_is_reported_and_the_next_message_works() {
    let table = Table::with(|config| config.llm.retry_within_ms = 1).await;
    let session = table.session().await;
    for behaviour in [
        Behaviour::HttpStatus(400, None),
        Behaviour::HttpStatus(401, None),
        Behaviour::Garbage,
        Behaviour::ResetMidStream,
        Behaviour::Empty,
    ] {
        table.vendors.llm.set(behaviour);
        let told = code(session.post("/chat", json!({"message": "a longer question"})).await);
        assert_eq!(told, (503, "LLM_UNAVAILABLE".into()), "{behaviour:?}");
    }
    table.vendors.llm.set(Behaviour::Normal);
    session.say("again").await;
    assert_eq!(session.said().await, ["user: again", "assistant: You said again"]);
    table.server.stop().await;
}

#[actix_web::test]
async fn the_model_receives_the_error_of_a_failed_tool() {
    let table = Table::start().await;
    let session = table.session().await;
    let told = session.say(r#"call update_hp {"character_id": "nobody", "change": 1}"#).await;
    assert!(told["response"].as_str().unwrap().starts_with("You said error: "), "{told}");
    let told = session.say("call no_such_tool {}").await;
    assert!(told["response"].as_str().unwrap().contains("there is no tool"), "{told}");
    let told = session.say(r#"call roll_dice {"dice": 5}"#).await;
    assert!(told["response"].as_str().unwrap().contains("arguments are wrong"), "{told}");
    table.server.stop().await;
}

#[actix_web::test]
async fn without_a_state_server_a_session_is_a_dialogue() {
    let table = Table::with(|config| config.state.url.clear()).await;
    let session = table.session().await;
    session.say("hi").await;
    let (status, state) = session.get("/state").await;
    assert_eq!((status, &state["characters"]), (200, &json!([])));
    assert_eq!(session.get("/combat").await.1, json!({"active": false}));
    table.server.stop().await;
}

#[actix_web::test]
async fn an_unreachable_state_server_gives_502() {
    let table = Table::with(|config| config.state.url = "http://127.0.0.1:9".into()).await;
    let wanted = json!({"name": "n", "creator_id": "c"});
    let told = table.post("/api/sessions", wanted).await;
    assert_eq!(code(told), (502, "MCP_SERVER_ERROR".into()));
    assert_eq!(table.get("/api/sessions").await.1["total"], 0, "no session was created");
    table.server.stop().await;
}

#[actix_web::test]
async fn messages_of_a_session_are_answered_in_sequence() {
    let table = Table::start().await;
    let session = table.session().await;
    let say = |n: usize| {
        let path = session.path("/chat");
        let table = &table;
        async move { table.post(&path, json!({"message": n.to_string()})).await.0 }
    };
    let all = futures_util::future::join_all((0..8).map(say)).await;
    assert_eq!(all, [200; 8]);
    let said = session.said().await;
    assert_eq!(said.len(), 16);
    for pair in said.chunks(2) {
        let asked = pair[0].strip_prefix("user: ").unwrap();
        assert_eq!(pair[1], format!("assistant: You said {asked}"));
    }
    table.server.stop().await;
}

#[actix_web::test]
async fn the_wait_for_another_message_is_limited() {
    let table = Table::with(|config| config.chat.lock_wait = Duration::from_millis(50)).await;
    let session = table.session().await;
    table.vendors.llm.set(Behaviour::Slow);
    let long = "a question that takes a while to be said back";
    let first = session.post("/chat", json!({"message": long}));
    let second = async {
        table.vendors.llm.until(|seen| seen.requests == 1).await;
        session.post("/chat", json!({"message": "hi"})).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!((first.0, code(second)), (200, (503, "BUSY".into())));
    table.server.stop().await;
}

/// A state server whose version changes under each of this many calls.
async fn contested(times: usize) -> (String, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let version = Arc::new(AtomicI64::new(1));
    let (tell, told) = oneshot::channel();
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let server = HttpServer::new(move || {
                let calls = Arc::clone(&counted);
                let version = Arc::clone(&version);
                let now = Arc::clone(&version);
                let call = move |body: web::Json<Value>| {
                    let n = calls.fetch_add(1, Ordering::Relaxed);
                    if n < times {
                        version.fetch_add(1, Ordering::Relaxed);
                    }
                    let current = version.load(Ordering::Relaxed);
                    async move {
                        if body["version"].as_i64() != Some(current) {
                            return HttpResponse::Conflict().json(json!({"error": "VERSION_CONFLICT"}));
                        }
                        let answer = json!({"result": {"at": current}, "version": current + 1, "events": []});
                        HttpResponse::Ok().json(answer)
                    }
                };
                let state = move || {
                    let version = now.load(Ordering::Relaxed);
                    async move { HttpResponse::Ok().json(json!({"version": version})) }
                };
                let tools = || async {
                    let schema = json!({"type": "object", "properties": {}});
                    let tool = json!({"name": "act", "description": "Acts.", "parameters": schema});
                    HttpResponse::Ok().json(json!({"tools": [tool]}))
                };
                App::new()
                    .route("/tools", web::get().to(tools))
                    .route("/tools/call", web::post().to(call))
                    .route("/state", web::get().to(state))
                    .route("/state", web::post().to(HttpResponse::Ok))
            })
            .workers(1)
            .disable_signals()
            .bind("127.0.0.1:0")
            .unwrap();
            tell.send(format!("http://{}", server.addrs()[0])).ok();
            server.run().await.unwrap();
        });
    });
    (told.await.unwrap(), calls)
}

#[actix_web::test]
async fn an_outdated_version_is_retried_once() {
    let (url, calls) = contested(1).await;
    let table = Table::with(|config| config.state.url = url).await;
    let session = table.session().await;
    let told = session.say("call act {}").await;
    assert_eq!(told["response"], "You said {\"at\":2}");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    table.server.stop().await;
}

#[actix_web::test]
async fn an_outdated_version_twice_is_a_conflict() {
    let (url, calls) = contested(usize::MAX).await;
    let table = Table::with(|config| config.state.url = url).await;
    let session = table.session().await;
    let told = session.post("/chat", json!({"message": "call act {}"})).await;
    assert_eq!(code(told), (409, "VERSION_CONFLICT".into()));
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert!(session.said().await.is_empty());
    table.server.stop().await;
}

#[actix_web::test]
async fn applications_need_the_token_if_one_is_set() {
    let token = "the token of the applications";
    let table = Table::with(|config| config.chat.token = hearken_base::Secret::new(token)).await;
    assert_eq!(code(table.get("/api/sessions").await), (401, "UNAUTHORIZED".into()));
    let shown = table.request(Method::GET, "/api/sessions").bearer_auth(token);
    assert_eq!(shown.send().await.unwrap().status(), 200);
    let shown = table.request(Method::GET, "/api/sessions").bearer_auth("another of some length");
    assert_eq!(shown.send().await.unwrap().status(), 401);
    let other = table.request(Method::GET, "/api/sessions").bearer_auth(token);
    let other = other.header("Origin", "https://evil.example");
    assert_eq!(other.send().await.unwrap().status(), 403, "a page of another site");
    table.server.stop().await;
}
