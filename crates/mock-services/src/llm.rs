//! Mock of a language model: answers every request with the same sentences, each numbered to miss
//! all caches. Calls a tool first, if configured. Not for OpenAI's whole API, which the embedded
//! model serves.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use hearken_engines::llm::answer::Part;
use hearken_engines::llm::generation::{Finish, FinishReason, ToolCall};
use hearken_engines::llm::reply::Envelope;
use serde_json::Value;

use super::Delay;

/// Maximum size of a request body, in bytes: a long conversation with many tools.
const BODY_LIMIT_BYTES: usize = 4 << 20;

/// Answer of the model.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Number of sentences in an answer, at least one.
    pub sentences: usize,
    /// Time between two words.
    pub word_every: Duration,
    /// Tool that is called once before the answer, without arguments, if the request offers it.
    pub calls: Option<String>,
}

struct Model {
    delay: Delay,
    reply: Reply,
    answered: AtomicU64,
}

pub(super) fn server(
    listener: TcpListener,
    delay: Delay,
    reply: Reply,
) -> std::io::Result<(Server, SocketAddr)> {
    let address = listener.local_addr()?;
    let model = web::Data::from(Arc::new(Model { delay, reply, answered: AtomicU64::new(0) }));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(model.clone())
            .app_data(web::JsonConfig::default().limit(BODY_LIMIT_BYTES))
            .route("/v1/chat/completions", web::post().to(chat))
    })
    .workers(1)
    .tcp_nodelay(true)
    .disable_signals()
    .shutdown_timeout(1)
    .listen(listener)?
    .run();
    Ok((server, address))
}

async fn chat(model: web::Data<Model>, asked: web::Json<Value>) -> HttpResponse {
    model.delay.pass().await;
    let parts = model.parts(&asked);
    let finish = Finish {
        reason: FinishReason::Stop,
        prompt_tokens: 0,
        cached_tokens: 0,
        completion_tokens: u32::try_from(parts.len()).unwrap_or(u32::MAX),
    };
    let mut envelope = Envelope::new("double", 0, asked["stream_options"]["include_usage"] == true);
    if asked["stream"] != true {
        return HttpResponse::Ok().json(envelope.whole(&parts, &finish));
    }
    let mut chunks = vec![envelope.opening()];
    chunks.extend(parts.iter().map(|part| envelope.part(part)));
    chunks.push(envelope.ending(&finish));
    let pieces = paced(chunks, model.reply.word_every);
    HttpResponse::Ok().content_type("text/event-stream").streaming(pieces)
}

/// Sends the chunks one by one, with pauses.
fn paced(
    chunks: Vec<Bytes>,
    every: Duration,
) -> impl Stream<Item = Result<Bytes, actix_web::Error>> {
    stream::iter(chunks).then(move |chunk| async move {
        if !every.is_zero() {
            tokio::time::sleep(every).await;
        }
        Ok(chunk)
    })
}

impl Model {
    /// Returns a tool call if one is configured and has no result yet, else the words.
    fn parts(&self, asked: &Value) -> Vec<Part> {
        if let Some(name) = self.call(asked) {
            let call = ToolCall { name: name.to_owned(), arguments: "{}".to_owned() };
            return vec![Part::Call(call)];
        }
        let number = self.answered.fetch_add(1, Ordering::Relaxed);
        let words = (1..=self.reply.sentences.max(1)).flat_map(|sentence| {
            let text = format!("This is sentence {sentence} of answer number {number}. ");
            text.split_inclusive(' ').map(|word| Part::Text(word.to_owned())).collect::<Vec<_>>()
        });
        words.collect()
    }

    fn call(&self, asked: &Value) -> Option<&str> {
        let name = self.reply.calls.as_deref()?;
        let offered = asked["tools"].as_array()?.iter().any(|t| t["function"]["name"] == name);
        let last = asked["messages"].as_array()?.last()?;
        (offered && last["role"] == "user").then_some(name)
    }
}
