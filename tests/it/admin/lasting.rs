//! Streams and sockets end with the log-in that opened them. Not for clients that read nothing: see
//! the tests of `src/http/lasting_access.rs`.

use futures_util::StreamExt as _;
use hearken::config::AuthRequired;
use hearken_test_support::PATIENCE;
use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};
use hearken_test_support::worlds::Worlds;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{Admin, ask};
use crate::support::app::Vendors;

/// An answer for which a slow model needs minutes.
fn long_answer(_: &[u8]) -> String {
    "words ".repeat(2_000)
}

#[tokio::test]
async fn streams_and_sockets_end_with_their_log_in() {
    let llm = OpenAiChat::answering(long_answer).await;
    llm.set(Behaviour::Slow);
    let asr = ListenAiAsr::start(Behaviour::Normal, "").await;
    let vendors = Vendors::of(asr, llm, ListenAiTts::start(Behaviour::Normal).await);
    let worlds = Worlds::start(1);
    let admin = Admin::start(&vendors, |config| {
        config.auth.required = AuthRequired::Auto;
        config.state.url = worlds.url.clone();
    })
    .await;
    let server = &admin.server;
    let token = &admin.token;
    let wanted = json!({"name": "n", "creator_id": "user-123"});
    let (status, made) = ask(server, Method::POST, "/api/sessions", token, wanted).await;
    assert_eq!(status, 201, "{made}");
    let session = format!("/api/sessions/{}", made["session_id"].as_str().unwrap());

    let logged_in = |method: Method, path: &str| {
        Client::new().request(method, server.http_url(path)).bearer_auth(token)
    };
    let live = logged_in(Method::GET, "/api/turns/live").send().await.unwrap();
    let question = json!({"message": "hello", "stream": true});
    let chat = logged_in(Method::POST, &format!("{session}/chat")).json(&question);
    let chat = chat.send().await.unwrap();
    assert_eq!([live.status(), chat.status()], [200, 200]);
    let watch = format!("ws://{}{session}/ws", server.address);
    let mut watch = watch.into_client_request().unwrap();
    watch.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    let (mut watch, _) = connect_async(watch).await.unwrap();

    let logged_out = ask(server, Method::POST, "/api/admin/logout", token, Value::Null).await;
    assert_eq!(logged_out.0, 204, "{}", logged_out.1);
    let answer = timeout(PATIENCE, chat.text()).await.expect("the answer ends").unwrap();
    let last = answer.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("event: error\n") && last.contains("UNAUTHORIZED"), "{answer}");
    timeout(PATIENCE, live.text()).await.expect("the turns end").unwrap();
    let closed = async {
        loop {
            match watch.next().await {
                Some(Ok(Message::Close(reason))) => break reason.map(|reason| reason.code.into()),
                Some(Ok(_)) => {}
                other => panic!("no Close, but {other:?}"),
            }
        }
    };
    let closed: Option<u16> = timeout(PATIENCE, closed).await.expect("the socket closes");
    assert_eq!(closed, Some(1008));
    admin.server.stop().await;
}
