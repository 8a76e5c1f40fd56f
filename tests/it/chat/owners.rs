//! Owners of sessions: clients without a token use only their own sessions, on every route, and
//! store no more than their share. The addresses come from a trusted proxy's header, as the test
//! machine has one address only.

use std::time::Duration;

use futures_util::StreamExt as _;
use hearken::config::{AuthRequired, Config};
use hearken_base::Secret;
use hearken_chat::turns::RequestOptions;
use hearken_chat::{Asker, ChatError};
use hearken_ports::{ChatStore as _, KeptTurn, RequestKey, StoreOutcome};
use hearken_proto::chat::{ChatResponse, CreateSnapshot};
use hearken_proto::ids::SessionId;
use hearken_test_support::chat_rows::turn;
use hearken_test_support::eventually;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::in_process::ChatInProcess;
use super::{Table, answer, code};

const ADMIN: &str = "the admin token of the tests";
const ANN: &str = "203.0.113.1";
const BOB: &str = "203.0.113.2";

/// No token required, behind a proxy that reports addresses.
fn open(config: &mut Config) {
    config.auth.required = AuthRequired::Always;
    config.auth.admin_token = Secret::new(ADMIN);
    config.chat.open_to_all = true;
    config.ota.trust_proxy = true;
}

fn from(table: &Table, address: &str, method: Method, path: &str) -> RequestBuilder {
    table.request(method, path).header("x-forwarded-for", address)
}

async fn create(table: &Table, address: &str) -> (u16, Value) {
    let wanted = json!({"name": "n", "creator_id": "user-123"});
    answer(from(table, address, Method::POST, "/api/sessions").json(&wanted)).await
}

async fn created(table: &Table, address: &str) -> String {
    let (status, made) = create(table, address).await;
    assert_eq!(status, 201, "{made}");
    made["session_id"].as_str().unwrap().to_owned()
}

async fn listed(request: RequestBuilder) -> Vec<String> {
    let (status, told) = answer(request).await;
    assert_eq!(status, 200, "{told}");
    let ids = told["sessions"].as_array().unwrap().iter();
    ids.map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

async fn watched(table: &Table, address: &str, id: &str) -> bool {
    let url = format!("ws://{}/api/sessions/{id}/ws", table.server.address);
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("x-forwarded-for", address.parse().unwrap());
    match connect_async(request).await {
        Ok((mut socket, _)) => socket.next().await.is_some(),
        Err(_) => false,
    }
}

#[actix_web::test]
async fn another_clients_session_is_not_found() {
    let table = Table::with(open).await;
    let id = created(&table, ANN).await;
    let path = format!("/api/sessions/{id}");
    let say = json!({"message": "hello"});
    let mut snapshot = String::new();
    for (method, part, body) in [
        (Method::GET, "", Value::Null),
        (Method::POST, "/chat", say.clone()),
        (Method::GET, "/messages", Value::Null),
        (Method::GET, "/state", Value::Null),
        (Method::GET, "/characters", Value::Null),
        (Method::GET, "/combat", Value::Null),
        (Method::POST, "/snapshots", json!({"name": "s"})),
        (Method::GET, "/snapshots", Value::Null),
        (Method::POST, "/snapshots/SNAPSHOT/restore", Value::Null),
        (Method::POST, "/archive", Value::Null),
        (Method::POST, "/restore", Value::Null),
        (Method::DELETE, "", Value::Null),
        (Method::POST, "/restore", Value::Null),
    ] {
        let path = format!("{path}{}", part.replace("SNAPSHOT", &snapshot));
        let ask = |address| from(&table, address, method.clone(), &path).json(&body);
        let gone = (404, "SESSION_NOT_FOUND".to_owned());
        assert_eq!(code(answer(ask(BOB)).await), gone, "{method} {path}");
        let (status, told) = answer(ask(ANN)).await;
        assert!(status == 200 || status == 201, "{method} {path}: {told}");
        if let Some(made) = told["id"].as_str().filter(|_| part == "/snapshots") {
            made.clone_into(&mut snapshot);
        }
    }
    assert!(!watched(&table, BOB, &id).await && watched(&table, ANN, &id).await);
    let of_bob = created(&table, BOB).await;
    let list = |address| from(&table, address, Method::GET, "/api/sessions");
    assert_eq!(listed(list(ANN)).await, std::slice::from_ref(&id));
    assert_eq!(listed(list(BOB).query(&[("user_id", "user-123")])).await, [of_bob]);
    let administrator = listed(list("203.0.113.3").bearer_auth(ADMIN)).await;
    assert_eq!(administrator.len(), 2, "the administrator sees both: {administrator:?}");
    let shown = from(&table, "203.0.113.3", Method::GET, &path).bearer_auth(ADMIN);
    assert_eq!(answer(shown).await.0, 200);
    table.server.stop().await;
}

#[actix_web::test]
async fn the_application_token_opens_all_sessions() {
    let table = Table::with(|config| {
        open(config);
        config.chat.token = Secret::new("the token of the application");
    })
    .await;
    let with = |address, method, path: &str| {
        from(&table, address, method, path).bearer_auth("the token of the application")
    };
    let wanted = json!({"name": "n", "creator_id": "user-123"});
    let (_, made) = answer(with(ANN, Method::POST, "/api/sessions").json(&wanted)).await;
    let path = format!("/api/sessions/{}", made["session_id"].as_str().unwrap());
    assert_eq!(answer(with(BOB, Method::GET, &path)).await.0, 200);
    assert_eq!(listed(with(BOB, Method::GET, "/api/sessions")).await.len(), 1);
    assert_eq!(answer(from(&table, ANN, Method::GET, &path)).await.0, 401);
    table.server.stop().await;
}

#[actix_web::test]
async fn the_number_of_sessions_per_address_is_limited() {
    let table = Table::with(|config| {
        open(config);
        config.chat.max_sessions_per_address = 2;
    })
    .await;
    let first = created(&table, ANN).await;
    let second = created(&table, ANN).await;
    let (status, told) = create(&table, ANN).await;
    assert_eq!((status, &told["error"]["code"]), (400, &json!("INVALID_REQUEST")), "{told}");
    assert!(told["error"]["message"].as_str().unwrap().contains("delete some"), "{told}");
    created(&table, BOB).await;
    let path = format!("/api/sessions/{first}");
    assert_eq!(answer(from(&table, ANN, Method::DELETE, &path)).await.0, 200);
    let third = created(&table, ANN).await;
    let list = from(&table, ANN, Method::GET, "/api/sessions");
    let mut left = listed(list).await;
    left.sort();
    assert_eq!(left, [second, third], "deleted sessions do not count");
    table.server.stop().await;
}

#[actix_web::test]
async fn a_client_stores_no_more_bytes_than_its_share() {
    let most = 2_000;
    let chat = ChatInProcess::with(|settings| settings.max_bytes_per_address = most).await;
    let ann = Asker::Client("address 203.0.113.1".into());
    let wanted = serde_json::from_value(json!({"name": "n", "creator_id": "c"})).unwrap();
    let id = chat.service.create(wanted, &ann).await.unwrap().id;
    let mut turns = 0;
    while chat.service.check_share(&ann).await.is_ok() {
        let kept = KeptTurn { session_id: id.clone(), ..turn("", turns, 0, &[&"x".repeat(500)]) };
        assert_eq!(chat.store.keep_turn(&kept).await.unwrap(), StoreOutcome::Kept);
        turns += 1;
        assert!(turns < 10, "it ends");
    }
    assert!((2..=4).contains(&turns), "{turns}");
    assert!(chat.service.check_share(&Asker::Credential).await.is_ok());
    assert!(chat.service.check_share(&Asker::Client("address 203.0.113.2".into())).await.is_ok());
}

#[actix_web::test]
async fn an_unused_session_is_deleted_and_can_be_restored() {
    let chat = ChatInProcess::with(|settings| settings.retention = Duration::from_millis(1)).await;
    eventually("it is deleted", || async {
        (chat.service.delete_unused().await.unwrap() == 1).then_some(())
    })
    .await;
    assert!(chat.service.session(&chat.id).await.is_err());
    chat.service.restore(&chat.id).await.unwrap();
    let kept = ChatInProcess::with(|settings| settings.retention = Duration::ZERO).await;
    assert_eq!(kept.service.delete_unused().await.unwrap(), 0, "without a limit none is deleted");
}

async fn says(
    chat: &ChatInProcess,
    id: &SessionId,
    asker: &Asker,
    message: &str,
) -> Result<ChatResponse, ChatError> {
    let request = serde_json::from_value(json!({"message": message})).unwrap();
    let key = RequestKey { name: message.into(), hash: message.into() };
    let options =
        RequestOptions { key: Some(key), asker: asker.clone(), ..RequestOptions::default() };
    chat.service.chat(id, &request, options).await
}

#[actix_web::test]
async fn the_number_of_sessions_limits_only_new_ones() {
    let chat = ChatInProcess::with(|settings| settings.max_sessions_per_address = 2).await;
    let ann = Asker::Client("address 203.0.113.1".into());
    let create = async || {
        let wanted = serde_json::from_value(json!({"name": "n", "creator_id": "c"})).unwrap();
        chat.service.create(wanted, &ann).await
    };
    let used = create().await.unwrap().id;
    let deleted = create().await.unwrap().id;
    chat.service.delete(&deleted).await.unwrap();
    says(&chat, &used, &ann, "hello").await.unwrap();
    chat.service.make_snapshot(&ann, &used, CreateSnapshot::default()).await.unwrap();
    chat.service.restore(&deleted).await.unwrap();
    says(&chat, &deleted, &ann, "it was not purged").await.unwrap();
    assert!(matches!(create().await, Err(ChatError::ShareUsed(_))));
    chat.service.delete(&deleted).await.unwrap();
    assert!(create().await.is_ok(), "a new session may take the place of a deleted one");
    assert!(chat.service.restore(&deleted).await.is_err());
}

#[actix_web::test]
async fn a_repeated_request_is_answered_without_room_for_another() {
    let chat = ChatInProcess::with(|settings| settings.max_bytes_per_address = 2_000).await;
    let ann = Asker::Client("address 203.0.113.1".into());
    let wanted = serde_json::from_value(json!({"name": "n", "creator_id": "c"})).unwrap();
    let id = chat.service.create(wanted, &ann).await.unwrap().id;
    let words = "word ".repeat(500);
    let first = says(&chat, &id, &ann, &words).await.unwrap();
    assert_eq!(says(&chat, &id, &ann, &words).await.unwrap().response, first.response);
    assert!(matches!(says(&chat, &id, &ann, "more").await, Err(ChatError::ShareUsed(_))));
    let credential = says(&chat, &id, &Asker::Credential, "more").await;
    assert!(credential.is_ok(), "the limit is for clients without a credential");
}
