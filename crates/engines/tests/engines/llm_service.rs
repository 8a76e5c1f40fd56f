//! The language model's HTTP service over real sockets, with a scripted model in place of the
//! native one. Not for the real model's answers.

use std::net::TcpListener;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    CreateChatCompletionRequest, CreateChatCompletionResponse, FinishReason as Reason,
};
use futures_util::StreamExt;
use hearken_engines::llm::engine::{Engine, EngineState};
use hearken_engines::llm::generation::{
    Emit, Finish, FinishReason, Generation, Generator, LlmError, Piece, Role,
};
use hearken_engines::llm::http;
use hearken_engines::llm::request::RequestLimits;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// Timeout of a test, over ten times its normal duration.
const PATIENCE: Duration = Duration::from_secs(10);

/// Model that executes the last message of the user as its script.
struct Scripted {
    seen: UnboundedSender<Seen>,
}

/// Action of the scripted model.
#[derive(Debug, PartialEq)]
enum Seen {
    Started(String),
    Cut(String),
}

impl Generator for Scripted {
    fn generate(&mut self, request: &Generation, emit: Emit<'_>) -> Result<Finish, LlmError> {
        let words = request.messages.iter().rfind(|m| m.role == Role::User).unwrap();
        let words = words.content.as_str();
        self.seen.send(Seen::Started(words.into())).unwrap();
        let mut finish = Finish {
            reason: FinishReason::Stop,
            prompt_tokens: 11,
            cached_tokens: 5,
            completion_tokens: 3,
        };
        let (order, rest) = words.split_once(' ').unwrap_or((words, ""));
        match order {
            "say" => {
                for bytes in rest.as_bytes().chunks(2) {
                    if emit(Piece::Bytes(bytes)).is_break() {
                        finish.reason = FinishReason::Cut;
                        break;
                    }
                }
            }
            "long" => {
                assert!(emit(Piece::Bytes(rest.as_bytes())).is_continue());
                finish.reason = FinishReason::Length;
            }
            // Reads its prompt until the request is cancelled.
            "read" => {
                while emit(Piece::Reading).is_continue() {
                    std::thread::yield_now();
                }
                self.seen.send(Seen::Cut(words.into())).unwrap();
                finish.reason = FinishReason::Cut;
            }
            // Emits one word, then waits until the request is cancelled.
            "chatter" => {
                assert!(emit(Piece::Bytes(b"well, ")).is_continue());
                while emit(Piece::Reading).is_continue() {
                    std::thread::yield_now();
                }
                self.seen.send(Seen::Cut(words.into())).unwrap();
                finish.reason = FinishReason::Cut;
            }
            "too-long" => return Err(LlmError::TooLong { tokens: 5000, limit: 4000 }),
            "break" => {
                assert!(emit(Piece::Bytes(b"half")).is_continue());
                return Err(LlmError::Engine("out of order".into()));
            }
            _ => panic!("asked to"),
        }
        Ok(finish)
    }
}

struct Running {
    engine: Engine,
    http: ServerHandle,
    base: String,
    seen: UnboundedReceiver<Seen>,
}

impl Running {
    fn start(most_waiting: usize) -> Self {
        let (sender, seen) = mpsc::unbounded_channel();
        let engine = Engine::start(most_waiting, move |use_it| {
            use_it(&mut Scripted { seen: sender });
            Ok(())
        });
        Self::serve(engine.unwrap(), seen)
    }

    fn serve(engine: Engine, seen: UnboundedReceiver<Seen>) -> Self {
        // The result is an error if another test of this process installed it first.
        rustls::crypto::ring::default_provider().install_default().ok();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let limits = RequestLimits::default();
        let server = http::server(listener, engine.queue(), "scripted", limits).unwrap();
        let http = server.handle();
        actix_web::rt::spawn(server);
        Self { engine, http, base, seen }
    }

    fn openai(&self) -> Client<OpenAIConfig> {
        let config = OpenAIConfig::new().with_api_base(format!("{}/v1", self.base));
        Client::with_config(config.with_api_key("none"))
    }

    fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("{}/v1/chat/completions", self.base);
        reqwest::Client::new().post(url).timeout(PATIENCE).json(body)
    }

    async fn seen(&mut self) -> Seen {
        tokio::time::timeout(PATIENCE, self.seen.recv()).await.unwrap().unwrap()
    }

    async fn ready(&self) {
        let mut state = self.engine.queue().watch();
        state.wait_for(|state| *state == EngineState::Ready).await.unwrap();
    }

    async fn stop(self) {
        assert!(self.engine.stop(PATIENCE).await);
        self.http.stop(false).await;
    }
}

fn ask(words: &str) -> Value {
    json!({ "model": "any", "messages": [{ "role": "user", "content": words }] })
}

fn ask_with(words: &str, fields: Value) -> Value {
    let mut body = ask(words);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// Builds a request for `create_stream`, which does not set `stream` itself.
fn streamed(mut body: Value) -> CreateChatCompletionRequest {
    body["stream"] = json!(true);
    typed(body)
}

fn typed(body: Value) -> CreateChatCompletionRequest {
    serde_json::from_value(body).unwrap()
}

fn tool() -> Value {
    let parameters = json!({ "type": "object", "properties": {} });
    json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": parameters } }] })
}

#[actix_web::test]
async fn an_openai_client_reads_a_streamed_answer() {
    let running = Running::start(4);
    let body = ask_with("say 你好, 朋友😀", json!({ "stream_options": { "include_usage": true } }));
    let mut stream = running.openai().chat().create_stream(streamed(body)).await.unwrap();
    let mut text = String::new();
    let mut reasons = Vec::new();
    let mut usage = None;
    let mut chunks = 0;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.unwrap();
        chunks += 1;
        assert_eq!(chunk.object, "chat.completion.chunk");
        assert!(chunk.id.starts_with("chatcmpl-"));
        usage = chunk.usage.or(usage);
        for choice in chunk.choices {
            assert_eq!(chunks == 1, choice.delta.role.is_some());
            text.push_str(&choice.delta.content.unwrap_or_default());
            reasons.extend(choice.finish_reason);
        }
    }
    assert_eq!(text, "你好, 朋友😀");
    assert!(chunks > 4, "{chunks} chunks: not streamed");
    assert_eq!(reasons, [Reason::Stop]);
    let usage = usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (11, 3, 14));
    assert_eq!(usage.prompt_tokens_details.unwrap().cached_tokens, Some(5));
    running.stop().await;
}

#[actix_web::test]
async fn a_stream_is_framed_as_by_openai() {
    let running = Running::start(4);
    let response =
        running.post(&ask_with("say Hi", json!({ "stream": true }))).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let body = response.text().await.unwrap();
    let events: Vec<&str> = body.split_terminator("\n\n").collect();
    let (last, chunks) = events.split_last().unwrap();
    assert_eq!(*last, "data: [DONE]");
    let deltas: Vec<(Value, Value)> = chunks
        .iter()
        .map(|event| serde_json::from_str::<Value>(event.strip_prefix("data: ").unwrap()).unwrap())
        .map(|chunk| {
            assert_eq!(chunk.get("usage"), None);
            (chunk["choices"][0]["delta"].clone(), chunk["choices"][0]["finish_reason"].clone())
        })
        .collect();
    assert_eq!(
        deltas,
        [
            (json!({ "role": "assistant", "content": "" }), Value::Null),
            (json!({ "content": "Hi" }), Value::Null),
            (json!({}), json!("stop")),
        ]
    );
    running.stop().await;
}

#[actix_web::test]
async fn an_openai_client_reads_a_whole_answer() {
    let running = Running::start(4);
    let chat = running.openai();
    let cases = [
        ("say one END two", json!({ "stop": ["END"] }), "one ", Reason::Stop),
        ("long and on", json!({}), "and on", Reason::Length),
    ];
    for (words, fields, text, reason) in cases {
        let answer: CreateChatCompletionResponse =
            chat.chat().create(typed(ask_with(words, fields))).await.unwrap();
        assert_eq!(answer.choices[0].message.content.as_deref(), Some(text));
        assert_eq!(answer.choices[0].finish_reason, Some(reason));
        assert_eq!(answer.usage.unwrap().total_tokens, 14);
    }
    running.stop().await;
}

#[actix_web::test]
async fn tool_calls_are_returned_as_calls() {
    let running = Running::start(4);
    let written = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
    let body = ask_with(&format!("say {written}"), tool());
    let whole: Value = running.post(&body).send().await.unwrap().json().await.unwrap();
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    assert_eq!(
        choice["message"]["tool_calls"][0]["function"],
        json!({ "name": "f", "arguments": "{\"x\":1}" })
    );

    let mut stream = running.openai().chat().create_stream(streamed(body)).await.unwrap();
    let mut calls = Vec::new();
    let mut reasons = Vec::new();
    while let Some(chunk) = stream.next().await {
        for choice in chunk.unwrap().choices {
            assert_eq!(choice.delta.content.unwrap_or_default(), "");
            calls.extend(choice.delta.tool_calls.unwrap_or_default());
            reasons.extend(choice.finish_reason);
        }
    }
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].index, 0);
    assert!(calls[0].id.as_ref().unwrap().starts_with("call_"));
    let function = calls[0].function.as_ref().unwrap();
    assert_eq!(function.name.as_deref(), Some("f"));
    assert_eq!(function.arguments.as_deref(), Some("{\"x\":1}"));
    assert_eq!(reasons, [Reason::ToolCalls]);
    running.stop().await;
}

#[actix_web::test]
async fn wrong_requests_get_the_right_status_and_openais_error() {
    let running = Running::start(4);
    let client = reqwest::Client::new();
    let url = |path: &str| format!("{}{path}", running.base);
    let chat = url("/v1/chat/completions");
    let cases = [
        (client.post(&chat).body("{"), 400, Value::Null),
        (client.post(&chat).body(b"\xff\x00".to_vec()), 400, Value::Null),
        (client.post(&chat).json(&json!({})), 400, json!("messages")),
        (client.post(&chat).json(&ask_with("say", json!({ "n": 3 }))), 400, json!("n")),
        (client.post(&chat).json(&ask("too-long")), 400, json!("messages")),
        (
            client.post(&chat).json(&ask_with("too-long", json!({ "stream": true }))),
            400,
            json!("messages"),
        ),
        (client.post(&chat).body(vec![b' '; (1 << 20) + 1]), 413, Value::Null),
        (client.get(&chat), 405, Value::Null),
        (client.post(url("/v1/models")), 405, Value::Null),
        (client.get(url("/v1/models/other")), 404, Value::Null),
        (client.get(url("/v1/embeddings")), 404, Value::Null),
        (client.get(url("/")), 404, Value::Null),
        (client.post(&chat).json(&ask("break")), 500, Value::Null),
    ];
    for (request, status, param) in cases {
        let response = request.timeout(PATIENCE).send().await.unwrap();
        let seen = response.status().as_u16();
        let body: Value = response.json().await.unwrap();
        assert_eq!((seen, &body["error"]["param"]), (status, &param), "{body}");
        assert!(body["error"]["message"].as_str().is_some_and(|m| !m.is_empty()), "{body}");
        assert!(body["error"]["type"].is_string(), "{body}");
    }
    let refused = running.openai().chat().create(typed(ask("too-long"))).await.unwrap_err();
    let OpenAIError::ApiError(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.api_error.code.as_deref(), Some("context_length_exceeded"));
    running.stop().await;
}

#[actix_web::test]
async fn models_and_health_are_reported() {
    let running = Running::start(4);
    running.ready().await;
    let get = async |path: &str| {
        let response = reqwest::get(format!("{}{path}", running.base)).await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    let (status, models) = get("/v1/models").await;
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("scripted")));
    assert_eq!(get("/v1/models/scripted").await.0, 200);
    let health = json!({ "status": "ok", "model": "scripted", "waiting": 0, "answering": false });
    assert_eq!(get("/healthz").await, (200, health));
    running.stop().await;
}

#[actix_web::test]
async fn health_is_503_until_loaded_and_requests_wait_for_it() {
    let (sender, seen) = mpsc::unbounded_channel();
    let (load, may_load) = std::sync::mpsc::channel::<()>();
    let engine = Engine::start(4, move |use_it| {
        may_load.recv().unwrap();
        use_it(&mut Scripted { seen: sender });
        Ok(())
    });
    let running = Running::serve(engine.unwrap(), seen);
    let health = format!("{}/healthz", running.base);
    assert_eq!(reqwest::get(&health).await.unwrap().status(), 503);
    let early = running.post(&ask("say hi")).send();
    load.send(()).unwrap();
    assert_eq!(early.await.unwrap().status(), 200);
    assert_eq!(reqwest::get(&health).await.unwrap().status(), 200);
    running.stop().await;
}

#[actix_web::test]
async fn a_full_queue_refuses_with_a_retry_time() {
    let mut running = Running::start(1);
    let first = running.post(&ask("read")).send();
    let first = actix_web::rt::spawn(first);
    assert_eq!(running.seen().await, Seen::Started("read".into()));
    let second = actix_web::rt::spawn(running.post(&ask("say second")).send());
    while running.engine.queue().load() != (1, true) {
        tokio::task::yield_now().await;
    }
    let third = running.post(&ask("say third")).send().await.unwrap();
    assert_eq!(third.status(), 429);
    let wait: u64 = third.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(wait >= 1);
    assert_eq!(third.json::<Value>().await.unwrap()["error"]["code"], "rate_limit_exceeded");

    // A waiting request is served as soon as the first one is cancelled.
    first.abort();
    assert_eq!(running.seen().await, Seen::Cut("read".into()));
    assert_eq!(second.await.unwrap().unwrap().status(), 200);
    running.stop().await;
}

#[actix_web::test]
async fn requests_are_answered_in_the_order_they_came() {
    let mut running = Running::start(8);
    let blocker = actix_web::rt::spawn(running.post(&ask("read")).send());
    assert_eq!(running.seen().await, Seen::Started("read".into()));
    let mut waiting = Vec::new();
    for n in 0..5 {
        waiting.push(actix_web::rt::spawn(running.post(&ask(&format!("say {n}"))).send()));
        while running.engine.queue().load().0 != n + 1 {
            tokio::task::yield_now().await;
        }
    }
    // The third is cancelled while it waits: it never starts.
    waiting.remove(2).abort();
    blocker.abort();
    assert_eq!(running.seen().await, Seen::Cut("read".into()));
    for n in [0, 1, 3, 4] {
        assert_eq!(running.seen().await, Seen::Started(format!("say {n}")));
    }
    running.stop().await;
}

#[actix_web::test]
async fn a_low_priority_request_waits_for_all_others_and_is_cancelled_by_them() {
    let mut running = Running::start(8);
    let flex = json!({ "service_tier": "flex" });
    let early = actix_web::rt::spawn(running.post(&ask_with("read", flex.clone())).send());
    assert_eq!(running.seen().await, Seen::Started("read".into()));
    let late = actix_web::rt::spawn(running.post(&ask_with("say late", flex)).send());
    while running.engine.queue().load().0 != 1 {
        tokio::task::yield_now().await;
    }
    assert_eq!(running.seen.try_recv().ok(), None, "two of low priority do not cancel each other");
    let urgent = actix_web::rt::spawn(running.post(&ask("say now")).send());
    assert_eq!(running.seen().await, Seen::Cut("read".into()));
    assert_eq!(running.seen().await, Seen::Started("say now".into()));
    assert_eq!(running.seen().await, Seen::Started("say late".into()));
    for answered in [early, late, urgent] {
        assert!(answered.await.unwrap().unwrap().status().is_success());
    }
    running.stop().await;
}

#[actix_web::test]
async fn a_client_that_leaves_stops_the_model() {
    let mut running = Running::start(4);
    // In the middle of a streamed answer.
    let mut response = running.post(&ask_with("chatter", json!({ "stream": true }))).send().await;
    response.as_mut().unwrap().chunk().await.unwrap().unwrap();
    assert_eq!(running.seen().await, Seen::Started("chatter".into()));
    drop(response);
    assert_eq!(running.seen().await, Seen::Cut("chatter".into()));
    // Before the first word, streamed or not.
    for stream in [false, true] {
        let body = ask_with("read", json!({ "stream": stream }));
        let request = actix_web::rt::spawn(running.post(&body).send());
        assert_eq!(running.seen().await, Seen::Started("read".into()));
        request.abort();
        assert_eq!(running.seen().await, Seen::Cut("read".into()), "stream: {stream}");
    }
    running.stop().await;
}

#[actix_web::test]
async fn an_error_in_the_middle_ends_the_stream_with_it() {
    let running = Running::start(4);
    let body = ask_with("break", json!({ "stream": true }));
    let text = running.post(&body).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("\"content\":\"half\""), "{text}");
    assert!(text.contains("out of order"), "{text}");
    assert!(!text.contains("[DONE]") && !text.contains("\"finish_reason\":\"stop\""), "{text}");
    running.stop().await;
}

#[actix_web::test]
async fn a_model_that_crashes_ends_the_engine_and_every_request() {
    let mut running = Running::start(4);
    let crash = running.post(&ask("crash")).send().await.unwrap();
    assert_eq!(crash.status(), 503);
    assert_eq!(running.seen().await, Seen::Started("crash".into()));
    let mut state = running.engine.queue().watch();
    let state = state.wait_for(|state| matches!(state, EngineState::Ended(_))).await.unwrap();
    assert!(matches!(*state, EngineState::Ended(Some(LlmError::Engine(_)))), "{state:?}");
    drop(state);
    let late = running.post(&ask("say hi")).send().await.unwrap();
    assert_eq!(late.status(), 503);
    assert!(late.headers().contains_key("retry-after"));
    let health = reqwest::get(format!("{}/healthz", running.base)).await.unwrap();
    assert_eq!(health.status(), 503);
    running.stop().await;
}

#[actix_web::test]
async fn stopping_ends_a_running_answer_at_once() {
    let mut running = Running::start(4);
    let open = actix_web::rt::spawn(running.post(&ask("read")).send());
    assert_eq!(running.seen().await, Seen::Started("read".into()));
    assert!(running.engine.stop(PATIENCE).await);
    assert_eq!(open.await.unwrap().unwrap().status(), 503);
    running.http.stop(true).await;
}

#[actix_web::test]
async fn a_model_that_cannot_be_loaded_is_reported() {
    let engine = Engine::start(1, |_| Err(LlmError::Load("no file".into()))).unwrap();
    let mut state = engine.queue().watch();
    let state = state.wait_for(|state| matches!(state, EngineState::Ended(_))).await.unwrap();
    assert_eq!(*state, EngineState::Ended(Some(LlmError::Load("no file".into()))));
}
