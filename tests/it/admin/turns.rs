//! Recent turns: as a list, as a live stream, and as traces in a collector. Not for the stages of a turn.

use std::time::Duration;

use actix_web::web::{self, Bytes};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use futures_util::{SinkExt as _, StreamExt as _};
use hearken::config::AuthRequired;
use hearken_proto::device::ListenMode;
use hearken_test_support::eventually;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::{Admin, PASSWORD, ask, guarded};
use crate::server::json_of;
use crate::server::person::Person;
use crate::server::turns::good_answer;
use crate::server::voices::SPEECH;
use crate::support::app::{HEARD, REPLY, TestServer, Vendors};

/// A person speaks to a device and is answered.
pub(super) async fn spoken_turn(server: &TestServer) {
    let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
}

pub(super) async fn typed_turn(server: &TestServer) {
    let (mut client, _) = connect_async(server.gateway_url()).await.unwrap();
    let question = json!({"type": "text_input", "text": "hello"});
    client.send(Message::text(question.to_string())).await.unwrap();
    json_of(&mut client, "llm_response").await;
}

/// Waits until this many turns have ended, and returns them.
async fn ended(admin: &Admin, count: usize) -> Vec<Value> {
    eventually("turns end", async || {
        let (status, told) =
            ask(&admin.server, Method::GET, "/api/turns", &admin.token, Value::Null).await;
        assert_eq!(status, 200, "{told}");
        let turns = told["turns"].as_array().unwrap().clone();
        let have = turns.iter().filter(|turn| turn["state"] == "ended").count();
        (have == count).then_some(turns)
    })
    .await
}

#[tokio::test]
async fn turns_are_listed_only_after_login() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |config| config.auth.required = AuthRequired::Auto).await;
    spoken_turn(&admin.server).await;
    typed_turn(&admin.server).await;
    let turns = ended(&admin, 2).await;
    let kinds: Vec<_> = turns.iter().map(|turn| turn["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "voice"]);
    let voice = &turns[1];
    assert_eq!((&voice["outcome"], &voice["heard"]), (&json!("answered"), &json!(HEARD)));
    assert_eq!(voice["said"], REPLY.join(" "));
    assert!(voice["wait_ms"].as_f64().unwrap() > 100.0, "{voice}");
    let spans: Vec<_> =
        voice["spans"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert!(spans.contains(&"silence") && spans.contains(&"playback"), "{spans:?}");
    assert_eq!(turns[0]["heard"], "hello");

    let list = |token: &'static str| {
        ask(&admin.server, Method::GET, "/api/turns?limit=1", token, Value::Null)
    };
    let (status, told) = list(PASSWORD).await;
    assert_eq!((status, told["turns"].as_array().map(Vec::len)), (200, Some(1)));
    for (token, path) in [("", "/api/turns"), ("a.b.c", "/api/turns"), ("wrong", "/api/turns/live")]
    {
        let (status, told) = ask(&admin.server, Method::GET, path, token, Value::Null).await;
        assert_eq!(status, 401, "{path}: {told}");
    }
    for limit in ["0", "501", "x", ""] {
        let path = format!("/api/turns?limit={limit}");
        let (status, _) = ask(&admin.server, Method::GET, &path, PASSWORD, Value::Null).await;
        assert_eq!(status, 400, "{limit}");
    }
}

#[tokio::test]
async fn live_turns_are_streamed_until_the_server_stops() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    typed_turn(&admin.server).await;
    let live = admin.server.http_url("/api/turns/live");
    let stream = Client::new().get(live).bearer_auth(&admin.token).send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let (told, mut turns) = mpsc::unbounded_channel();
    let reading = tokio::spawn(async move {
        let mut stream = stream.bytes_stream();
        let mut text = String::new();
        while let Some(Ok(bytes)) = stream.next().await {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
            while let Some((event, rest)) = text.split_once("\n\n") {
                if let Some(turn) = event.strip_prefix("event: turn\ndata: ") {
                    told.send(serde_json::from_str::<Value>(turn).unwrap()).unwrap_or_default();
                }
                text = rest.to_owned();
            }
        }
    });
    // The stream starts with earlier turns.
    assert_eq!(turns.recv().await.unwrap()["kind"], "text");
    spoken_turn(&admin.server).await;
    let mut states = Vec::new();
    while states.last().is_none_or(|state| state != "ended") {
        let turn = turns.recv().await.unwrap();
        let state = turn["state"].as_str().unwrap().to_owned();
        if turn["kind"] == "voice" && states.last() != Some(&state) {
            states.push(state);
        }
    }
    assert!(
        states.contains(&"listening".into()) && states.contains(&"speaking".into()),
        "{states:?}"
    );
    let took = admin.server.stop().await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    reading.await.unwrap();
}

#[tokio::test]
async fn turn_metrics_have_the_firmware_and_an_exemplar_of_the_last_turn() {
    const DEVICE: &str = "02:00:00:00:00:77";
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let boot = Client::new().post(admin.server.http_url("/xiaozhi/ota/"));
    let boot = boot.header("Device-Id", DEVICE).header("Client-Id", "a client");
    let report = json!({"application": {"version": "2.1.7"}});
    assert_eq!(boot.json(&report).send().await.unwrap().status(), 200);
    let mut person = Person::meet_as(&admin.server.device_url(), DEVICE).await;
    person.say(&SPEECH).await;
    assert_eq!(person.answer().await, good_answer());
    let turn = ended(&admin, 1).await.remove(0);
    assert_eq!(turn["firmware"], "2.1.7");

    let counted = r#"hearken_device_turns_total{firmware="2.1.7",outcome="answered"}"#;
    assert!((admin.server.metric(counted).await - 1.0).abs() < f64::EPSILON);
    let scrape = Client::new().get(admin.server.http_url("/metrics"));
    let scrape =
        scrape.header("Accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    let scraped = scrape.send().await.unwrap();
    let format = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(scraped.headers()["content-type"], format);
    let text = scraped.text().await.unwrap();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let wait =
        r#"hearken_turn_wait_seconds_bucket{kind="voice",outcome="answered",firmware="2.1.7","#;
    let named: Vec<_> = text.lines().filter(|l| l.starts_with(wait) && l.contains(" # ")).collect();
    let trace = format!(r##" # {{trace_id="{}"}} "##, turn["trace_id"].as_str().unwrap());
    assert!(named.len() == 1 && named[0].contains(&trace), "{named:?} {turn}");
}

/// A collector that refuses its first request and forwards every request to the channel.
async fn collector() -> (String, mpsc::UnboundedReceiver<(String, Bytes)>) {
    let (got, requests) = mpsc::unbounded_channel();
    let server = HttpServer::new(move || {
        let got = got.clone();
        let refused = std::sync::atomic::AtomicBool::new(false);
        let take = move |request: HttpRequest, body: Bytes| {
            let first = !refused.swap(true, std::sync::atomic::Ordering::SeqCst);
            let shown = request.headers().get("authorization").and_then(|v| v.to_str().ok());
            let shown = shown.unwrap_or_default().to_owned();
            got.send((shown, body)).unwrap_or_default();
            let answer =
                if first { HttpResponse::ServiceUnavailable() } else { HttpResponse::Ok() };
            async move { { answer }.finish() }
        };
        let take = std::sync::Arc::new(take);
        App::new().route(
            "/v1/traces",
            web::post().to(move |request: HttpRequest, body: Bytes| take(request, body)),
        )
    });
    let server = server.workers(1).disable_signals().bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://{}", server.addrs()[0]);
    tokio::spawn(server.run());
    (url, requests)
}

fn spans(body: &Bytes) -> Vec<Span> {
    let request = ExportTraceServiceRequest::decode(body.clone()).unwrap();
    let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    scopes.flat_map(|scope| scope.spans).collect()
}

#[tokio::test]
async fn a_turn_is_one_trace_and_is_sent_again_to_a_busy_collector() {
    let (url, mut requests) = collector().await;
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.traces.otlp_url = url;
        config.traces.authorization = hearken_base::Secret::new("Bearer of the tests");
    })
    .await;
    let admin = Admin::of(server).await;
    spoken_turn(&admin.server).await;
    let (shown, refused) = requests.recv().await.unwrap();
    assert_eq!(shown, "Bearer of the tests");
    let (_, taken) = requests.recv().await.unwrap();
    assert_eq!(spans(&refused), spans(&taken));
    let spans = spans(&taken);
    let turn = &ended(&admin, 1).await[0];
    let trace_id: String = spans[0].trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(turn["trace_id"], trace_id);
    let (whole, stages) = spans.split_first().unwrap();
    assert_eq!(whole.name, "turn");
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
    assert!(spans.len() >= 12, "{}", spans.len());
    for stage in stages {
        assert_eq!((&stage.parent_span_id, &stage.trace_id), (&whole.span_id, &whole.trace_id));
        assert!(stage.start_time_unix_nano >= whole.start_time_unix_nano);
        assert!(stage.end_time_unix_nano <= whole.end_time_unix_nano);
    }
    let text = String::from_utf8_lossy(&taken);
    assert!(!text.contains(HEARD) && !text.contains(REPLY[0]), "words are in a trace");
    eventually("exported turns are counted", async || {
        let sent = admin.server.metric(r#"hearken_traces_total{outcome="sent"}"#).await;
        (sent >= 1.0).then_some(())
    })
    .await;
}
