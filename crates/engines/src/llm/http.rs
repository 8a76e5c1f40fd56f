//! Routes `POST /v1/chat/completions`, `GET /v1/models` and `GET /healthz`. The bodies are parsed
//! and built in [`super::request`] and [`super::reply`]; no model here.

use std::net::TcpListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use actix_web::dev::Server;
use actix_web::http::{StatusCode, header};
use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use serde_json::json;
use tokio::sync::mpsc;

use super::engine::{EngineQueue, EngineState, Event};
use super::reply::{Envelope, Failure};
use super::request::{self, RequestLimits};

/// Maximum size of a body, in bytes: a long conversation with many tools takes a few hundred
/// kilobytes.
const BODY_LIMIT_BYTES: usize = 1 << 20;
/// Time that running answers may take after the server receives the stop signal, in seconds.
const SHUTDOWN_TIMEOUT_S: u64 = 1;

/// State shared by all requests.
#[derive(Debug, Clone)]
struct ServiceState {
    queue: EngineQueue,
    model: String,
    limits: RequestLimits,
}

/// Creates a server on this socket that submits requests to `queue`. It runs while it is polled,
/// and stops through its handle. `model` is the name that it reports to clients; it accepts any
/// name from them.
pub fn server(
    listener: TcpListener,
    queue: EngineQueue,
    model: &str,
    limits: RequestLimits,
) -> std::io::Result<Server> {
    let state = ServiceState { queue, model: model.to_owned(), limits };
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::new(state.clone()))
            .service(
                web::resource("/v1/chat/completions")
                    .route(web::post().to(chat))
                    .default_service(web::to(wrong_method)),
            )
            .service(
                web::resource("/v1/models")
                    .route(web::get().to(models))
                    .default_service(web::to(wrong_method)),
            )
            .route("/v1/models/{model}", web::get().to(model_named))
            .route("/healthz", web::get().to(health))
            .default_service(web::to(not_found))
    })
    .workers(1)
    // Sends each word immediately.
    .tcp_nodelay(true)
    // Without this, the answer for a client that closed its side would still be generated to the
    // end.
    .h1_allow_half_closed(false)
    .shutdown_timeout(SHUTDOWN_TIMEOUT_S)
    .disable_signals()
    .listen(listener)?
    .run();
    Ok(server)
}

async fn chat(state: web::Data<ServiceState>, body: web::Payload) -> HttpResponse {
    match answer(&state, body).await {
        Ok(response) => response,
        Err(failure) => refuse(&failure),
    }
}

async fn answer(state: &ServiceState, body: web::Payload) -> Result<HttpResponse, Failure> {
    let body = read_body(body).await?;
    let asked = request::parse(&body, state.limits)?;
    let mut events = state.queue.submit(asked.generation)?;
    let envelope = Envelope::new(&state.model, seconds_since_1970(), asked.include_usage);
    if asked.stream {
        // The first event decides the status: a conversation that is too long is answered with a
        // plain 400.
        let first = events.recv().await.ok_or_else(Failure::gone)?;
        if let Event::Failed(error) = first {
            return Err(error.into());
        }
        let opening = envelope.opening();
        let chunks = chunks(envelope, first, events);
        let stream = futures_util::stream::once(std::future::ready(Ok(opening))).chain(chunks);
        return Ok(HttpResponse::Ok()
            .content_type("text/event-stream")
            .insert_header((header::CACHE_CONTROL, "no-cache"))
            .streaming(stream));
    }
    let mut parts = Vec::new();
    loop {
        match events.recv().await.ok_or_else(Failure::gone)? {
            Event::Part(part) => parts.push(part),
            Event::Failed(error) => return Err(error.into()),
            Event::Ended(finish) => {
                return Ok(HttpResponse::Ok().json(envelope.whole(&parts, &finish)));
            }
        }
    }
}

/// Streams the rest of an answer. Dropping the stream drops the channel, which cancels the request.
fn chunks(
    envelope: Envelope,
    first: Event,
    events: mpsc::Receiver<Event>,
) -> impl Stream<Item = Result<Bytes, actix_web::Error>> {
    let state = Some((envelope, Some(first), events));
    futures_util::stream::unfold(state, |state| async move {
        let (mut envelope, first, mut events) = state?;
        let event = match first {
            Some(event) => Some(event),
            None => events.recv().await,
        };
        match event {
            Some(Event::Part(part)) => {
                let chunk = envelope.part(&part);
                Some((Ok(chunk), Some((envelope, None, events))))
            }
            Some(Event::Ended(finish)) => Some((Ok(envelope.ending(&finish)), None)),
            Some(Event::Failed(error)) => Some((Ok(Failure::from(error).event()), None)),
            None => Some((Ok(Failure::gone().event()), None)),
        }
    })
}

async fn read_body(mut body: web::Payload) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(Failure::unreadable)?;
        if bytes.len() + chunk.len() > BODY_LIMIT_BYTES {
            return Err(Failure::too_large(BODY_LIMIT_BYTES));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

async fn models(state: web::Data<ServiceState>) -> HttpResponse {
    HttpResponse::Ok().json(json!({ "object": "list", "data": [model_json(&state.model)] }))
}

async fn model_named(state: web::Data<ServiceState>, name: web::Path<String>) -> HttpResponse {
    if *name == state.model {
        HttpResponse::Ok().json(model_json(&state.model))
    } else {
        refuse(&Failure::not_found("there is no such model: GET /v1/models lists the models"))
    }
}

fn model_json(model: &str) -> serde_json::Value {
    json!({ "id": model, "object": "model", "created": 0, "owned_by": "hearken" })
}

async fn health(state: web::Data<ServiceState>) -> HttpResponse {
    let (waiting, busy) = state.queue.load();
    let (status, word) = match state.queue.state() {
        EngineState::Ready => (StatusCode::OK, "ok"),
        EngineState::Loading => (StatusCode::SERVICE_UNAVAILABLE, "loading"),
        EngineState::Ended(_) => (StatusCode::SERVICE_UNAVAILABLE, "ended"),
    };
    HttpResponse::build(status).json(
        json!({ "status": word, "model": state.model, "waiting": waiting, "answering": busy }),
    )
}

async fn wrong_method() -> HttpResponse {
    refuse(&Failure::wrong_method("this path does not support that method"))
}

async fn not_found() -> HttpResponse {
    refuse(&Failure::not_found(
        "there is nothing here: use /v1/chat/completions, /v1/models or /healthz",
    ))
}

fn refuse(failure: &Failure) -> HttpResponse {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    if let Some(wait) = failure.retry_after {
        response.insert_header((header::RETRY_AFTER, whole_seconds(wait)));
    }
    response.json(failure.json())
}

fn whole_seconds(wait: Duration) -> String {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).to_string()
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
