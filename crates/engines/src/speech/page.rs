//! The demo pages beside the two sockets (ports 9201 and 9301), and their health check. The pages
//! connect to the sockets themselves; nothing is synthesised or recognised here.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::{App, HttpResponse, HttpServer, web};
use tokio_util::sync::CancellationToken;

/// Kind of demo page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// Page that records speech and shows the recognised text.
    Recognition,
    /// Page that takes text and plays the synthesised speech.
    Synthesis,
}

/// State of the page's server.
#[derive(Clone)]
struct Served {
    html: Arc<str>,
    ready: Arc<AtomicBool>,
}

/// Serves one page until `stop` is cancelled. `socket` is the address of its WebSocket; `GET
/// /healthz` answers 200 once `ready` is set, 503 before.
///
/// # Errors
/// The listener cannot be used.
pub async fn serve(
    page: Page,
    listener: TcpListener,
    socket: SocketAddr,
    ready: Arc<AtomicBool>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let html = match page {
        Page::Recognition => include_str!("asr_page.html"),
        Page::Synthesis => include_str!("tts_page.html"),
    };
    let html = html.replace("{{port}}", &socket.port().to_string());
    let served = Served { html: html.into(), ready };
    let server = HttpServer::new(move || {
        App::new()
            .app_data(web::Data::new(served.clone()))
            .route("/", web::get().to(show))
            .route("/healthz", web::get().to(health))
    })
    .workers(1)
    .disable_signals()
    .shutdown_timeout(1)
    .listen(listener)?
    .run();
    let handle = server.handle();
    let mut server = std::pin::pin!(server);
    tokio::select! {
        ended = &mut server => ended,
        () = stop.cancelled() => {
            let (ended, ()) = tokio::join!(server, handle.stop(false));
            ended
        }
    }
}

async fn show(served: web::Data<Served>) -> HttpResponse {
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(served.html.to_string())
}

async fn health(served: web::Data<Served>) -> HttpResponse {
    if served.ready.load(Ordering::Acquire) {
        HttpResponse::Ok().json(serde_json::json!({ "status": "ok" }))
    } else {
        HttpResponse::ServiceUnavailable().json(serde_json::json!({ "status": "loading" }))
    }
}
