//! The web console: its built files (`web/console/dist`), which are embedded in the program. Not
//! for the requests of the page, which use the other routes.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::LazyLock;

use actix_web::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH,
    LOCATION, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use actix_web::{HttpRequest, HttpResponse, web};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use include_dir::{Dir, include_dir};
use sha2::{Digest as _, Sha256};
use url::Position;

use crate::http::fault::not_found;
use crate::http::middleware::is_from_trusted_proxy;
use crate::http::request_identity::reached_at;

/// Path of the console.
pub const PATH: &str = "/console/";
/// Paths of its files.
pub(crate) const FILES: &str = "/console/{path:.*}";

// The built files are in the repository: `cargo build` produces the complete server, without Node. Decision 0070.
static BUILT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/web/console/dist");
static ASSETS: LazyLock<HashMap<&str, Asset>> = LazyLock::new(assets);

/// A file of the console.
struct Asset {
    body: Bytes,
    gzipped: Bytes,
    content_type: &'static str,
    etag: String,
    /// True if its name contains a hash of its content.
    is_hashed: bool,
}

fn assets() -> HashMap<&'static str, Asset> {
    let mut assets = HashMap::new();
    let mut folders = vec![&BUILT];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        for file in folder.files() {
            if let Some(path) = file.path().to_str() {
                assets.insert(path, Asset::new(path, file.contents()));
            }
        }
    }
    assets
}

impl Asset {
    fn new(path: &str, body: &'static [u8]) -> Self {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory does not fail.
        let gzipped = gzip.write_all(body).and_then(|()| gzip.finish()).unwrap_or_default();
        let etag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(Sha256::digest(body)));
        let (_, extension) = path.rsplit_once('.').unwrap_or_default();
        Self {
            body: Bytes::from_static(body),
            gzipped: gzipped.into(),
            content_type: content_type(extension),
            etag,
            is_hashed: path.starts_with("assets/"),
        }
    }
}

fn content_type(extension: &str) -> &'static str {
    match extension {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" | "webmanifest" => "application/json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

/// Returns the content security policy of the page: no access to other servers, and no inline scripts or styles.
fn policy(request: &HttpRequest) -> String {
    // Headers of a proxy count only if proxies are trusted: any client can send them.
    let reached = reached_at(request, is_from_trusted_proxy(request)).ok();
    let host = reached.as_ref().map(|url| &url[Position::BeforeHost..Position::AfterPort]);
    let host = host.unwrap_or("localhost");
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
         font-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; manifest-src 'self'; \
         connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    )
}

/// Redirects to the console (`GET /console`); the relative location also works below the path of a proxy.
pub(crate) async fn redirect() -> HttpResponse {
    let relative = PATH.trim_start_matches('/');
    HttpResponse::PermanentRedirect().insert_header((LOCATION, relative)).finish()
}

/// Returns a file of the console (`GET /console/...`).
pub(crate) async fn file(request: HttpRequest, path: web::Path<String>) -> HttpResponse {
    let name = if path.is_empty() { "index.html" } else { path.as_str() };
    let Some(asset) = ASSETS.get(name) else { return not_found(request).await };
    let has = |header, value: &str| {
        let values = request.headers().get(header).and_then(|values| values.to_str().ok());
        values.is_some_and(|values| values.contains(value))
    };
    let unchanged = has(IF_NONE_MATCH, &asset.etag);
    let mut response = if unchanged { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    let cached = if asset.is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" };
    response
        .insert_header((CACHE_CONTROL, cached))
        .insert_header((ETAG, asset.etag.as_str()))
        .insert_header((VARY, "Accept-Encoding"))
        .insert_header((X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((REFERRER_POLICY, "no-referrer"))
        .insert_header(("Permissions-Policy", "microphone=(self), camera=(), geolocation=()"))
        .insert_header((CONTENT_SECURITY_POLICY, policy(&request)));
    if unchanged {
        return response.finish();
    }
    response.content_type(asset.content_type);
    if has(ACCEPT_ENCODING, "gzip") {
        response.insert_header((CONTENT_ENCODING, "gzip"));
        return response.body(asset.gzipped.clone());
    }
    response.body(asset.body.clone())
}
