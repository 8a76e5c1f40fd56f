//! HTTP routes: `GET /tools`, `POST /tools/call`, `GET`, `POST` and `DELETE /state`, `POST
//! /state/restore`, `GET /health`. Not for the work behind them.

use std::net::{SocketAddr, TcpListener};

use actix_web::dev::{Payload, Server};
use actix_web::http::StatusCode;
use actix_web::{App, FromRequest, HttpRequest, HttpResponse, HttpServer, web};
use futures_util::future::LocalBoxFuture;
use hearken_proto::json;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::storage::{Storage, StorageError};
use super::{CallError, tools};

/// Maximum size of a request body, in bytes.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Maximum length of a session's id, and of a name, in bytes.
const MAX_TEXT_BYTES: usize = 200;

/// Time for requests in progress at shutdown.
const SHUTDOWN_TIMEOUT_S: u64 = 1;

/// Creates a server for these sessions, and returns it with its address. It runs while it is
/// polled. Needs an actix system.
///
/// # Errors
/// The address is in use.
pub fn server(listen: SocketAddr, storage: Storage) -> std::io::Result<(Server, SocketAddr)> {
    let listener = TcpListener::bind(listen)?;
    let address = listener.local_addr()?;
    let storage = web::Data::new(storage);
    let factory = move || App::new().app_data(storage.clone()).configure(routes);
    let server = HttpServer::new(factory)
        .workers(1)
        .shutdown_timeout(SHUTDOWN_TIMEOUT_S)
        .disable_signals()
        .listen(listener)?;
    Ok((server.run(), address))
}

fn routes(services: &mut web::ServiceConfig) {
    let query = web::QueryConfig::default().error_handler(|error, _| wrong(error.to_string()));
    let state = web::resource("/state")
        .route(web::get().to(state))
        .route(web::post().to(create))
        .route(web::delete().to(delete));
    services
        .app_data(web::PayloadConfig::new(MAX_BODY_BYTES))
        .app_data(query)
        .route("/tools", web::get().to(|| async { HttpResponse::Ok().json(tools::list()) }))
        .route("/tools/call", web::post().to(call))
        .service(state)
        .route("/state/restore", web::post().to(restore))
        .route(
            "/health",
            web::get().to(|| async { HttpResponse::Ok().json(json!({ "status": "ok" })) }),
        )
        .default_service(web::to(|| async {
            error_response(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing here")
        }));
}

fn wrong(what: String) -> actix_web::Error {
    let answer = error_response(StatusCode::BAD_REQUEST, "INVALID_REQUEST", &what);
    actix_web::error::InternalError::from_response(what, answer).into()
}

/// A JSON body.
struct Body<T>(T);

impl<T: DeserializeOwned + 'static> FromRequest for Body<T> {
    type Error = actix_web::Error;
    type Future = LocalBoxFuture<'static, Result<Self, Self::Error>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let bytes = web::Bytes::from_request(request, payload);
        Box::pin(async move {
            let bytes = bytes.await.map_err(|error| wrong(error.to_string()))?;
            json::read(&bytes).map(Self).map_err(|error| wrong(error.about("the body")))
        })
    }
}

#[derive(Deserialize)]
struct Call {
    session_id: String,
    tool_name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    version: Option<i64>,
}

#[derive(Deserialize)]
struct Creation {
    session_id: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Restoration {
    session_id: String,
    version: i64,
}

#[derive(Deserialize)]
struct Session {
    session_id: String,
}

async fn call(storage: web::Data<Storage>, Body(call): Body<Call>) -> HttpResponse {
    let session = call.session_id.clone();
    let done = off_the_loop(move || {
        storage.call(&call.session_id, &call.tool_name, &call.arguments, call.version)
    });
    match done.await {
        Ok((outcome, version)) => {
            let events: Vec<Value> = outcome
                .events
                .into_iter()
                .map(|(kind, about)| event(&session, kind, about))
                .collect();
            let message = json!({ "result": outcome.result, "version": version, "events": events });
            HttpResponse::Ok().json(message)
        }
        // The rules do not allow it: the model receives this as an answer.
        Err(StorageError::CallError(CallError::Rules(why))) => {
            HttpResponse::Ok().json(json!({ "result": null, "events": [], "error": why }))
        }
        Err(refused) => refusal(&refused),
    }
}

fn event(session: &str, kind: &str, about: Value) -> Value {
    let id = uuid::Uuid::new_v4();
    let now = Timestamp::now().to_string();
    json!({ "id": id, "session_id": session, "type": kind, "data": about, "timestamp": now })
}

async fn state(storage: web::Data<Storage>, session: web::Query<Session>) -> HttpResponse {
    match storage.state(&session.session_id) {
        Ok(state) => HttpResponse::Ok().json(state),
        Err(refused) => refusal(&refused),
    }
}

async fn create(storage: web::Data<Storage>, Body(asked): Body<Creation>) -> HttpResponse {
    let Creation { session_id, name } = asked;
    if session_id.is_empty() || session_id.len().max(name.len()) > MAX_TEXT_BYTES {
        let what = "`session_id` must be there, and it and `name` at most 200 bytes long";
        return error_response(StatusCode::BAD_REQUEST, "INVALID_REQUEST", what);
    }
    let id = session_id.clone();
    match off_the_loop(move || storage.create(&session_id, &name)).await {
        Ok(version) => {
            HttpResponse::Created().json(json!({ "session_id": id, "version": version }))
        }
        Err(refused) => refusal(&refused),
    }
}

async fn delete(storage: web::Data<Storage>, session: web::Query<Session>) -> HttpResponse {
    match off_the_loop(move || storage.delete(&session.session_id)).await {
        Ok(()) => HttpResponse::Ok().json(json!({ "message": "State deleted" })),
        Err(refused) => refusal(&refused),
    }
}

async fn restore(storage: web::Data<Storage>, Body(asked): Body<Restoration>) -> HttpResponse {
    let Restoration { session_id, version } = asked;
    let id = session_id.clone();
    match off_the_loop(move || storage.restore(&session_id, version)).await {
        Ok(version) => HttpResponse::Ok().json(json!({ "session_id": id, "version": version })),
        Err(refused) => refusal(&refused),
    }
}

/// Runs work that may write a file on a separate thread, so that it blocks no other request.
async fn off_the_loop<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    web::block(work).await.unwrap_or(Err(StorageError::Full))
}

fn refusal(why: &StorageError) -> HttpResponse {
    let message = why.to_string();
    match why {
        StorageError::Unknown(_) => error_response(StatusCode::NOT_FOUND, "NOT_FOUND", &message),
        StorageError::Taken => error_response(StatusCode::CONFLICT, "STATE_EXISTS", &message),
        StorageError::Conflict(version) => HttpResponse::Conflict().json(json!({
            "error": { "code": "VERSION_CONFLICT", "message": message }, "version": version,
        })),
        StorageError::Full => error_response(StatusCode::INSUFFICIENT_STORAGE, "FULL", &message),
        StorageError::CallError(CallError::NoTool(_)) => {
            error_response(StatusCode::NOT_FOUND, "UNKNOWN_TOOL", &message)
        }
        StorageError::CallError(_) => {
            error_response(StatusCode::BAD_REQUEST, "INVALID_ARGUMENTS", &message)
        }
    }
}

fn error_response(status: StatusCode, code: &str, message: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({ "error": { "code": code, "message": message } }))
}
