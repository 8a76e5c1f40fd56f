//! WebSocket handshakes from browsers on pages of other sites, or with foreign host names, over
//! sockets. Not for plain requests.

use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::support::app::{TestServer, Vendors};

const PAGE: &str = "https://museum.example";
const NAME: &str = "voice.example";
const STRANGE_PAGE: &str = "the request comes from a page of another site";
const STRANGE_NAME: &str = "is not a known name of this server";

/// Requests a WebSocket with these headers. Returns the status, and the body of a refusal.
async fn shake(server: &TestServer, path: &str, headers: &[(&'static str, &str)]) -> (u16, String) {
    let url = format!("ws://{}{path}", server.address);
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert("device-id", "02:00:00:00:00:0d".parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match connect_async(request).await {
        Ok((_, answer)) => (answer.status().as_u16(), String::new()),
        Err(Error::Http(answer)) => {
            let body = answer.body().clone().unwrap_or_default();
            (answer.status().as_u16(), String::from_utf8(body).unwrap())
        }
        Err(error) => panic!("{path} {headers:?}: {error}"),
    }
}

async fn server(vendors: &Vendors) -> TestServer {
    TestServer::start(vendors, |config| {
        config.http.cors_origins = vec![PAGE.into()];
        config.http.host_names = vec![NAME.into()];
    })
    .await
}

#[actix_web::test]
async fn handshakes_of_other_sites_or_for_foreign_names_are_refused() {
    let vendors = Vendors::start().await;
    let server = server(&vendors).await;
    let port = server.address.port();
    let rebound = format!("rebind.evil:{port}");
    let rebound_page = format!("http://{rebound}");
    for path in [
        "/",
        "/xiaozhi/v1/",
        "/mcp_endpoint/mcp/?token=x",
        "/litemcp/get_current_time",
        "/api/sessions/0193a3c0-0000-7000-8000-000000000001/ws",
    ] {
        for (headers, says) in [
            (&[("origin", "https://evil.example")][..], STRANGE_PAGE),
            (&[("origin", "http://192.168.7.7:9400")], STRANGE_PAGE),
            (&[("origin", "null")], STRANGE_PAGE),
            (&[("host", &*rebound)], STRANGE_NAME),
            // DNS rebinding: the page and the host have the same foreign name.
            (&[("host", &*rebound), ("origin", &*rebound_page)], STRANGE_NAME),
        ] {
            let (status, told) = shake(&server, path, headers).await;
            assert_eq!(status, 403, "{path} {headers:?}: {told}");
            assert!(told.contains(says), "{path} {headers:?}: {told}");
        }
    }
    server.stop().await;
}

#[actix_web::test]
async fn programs_and_own_pages_are_accepted() {
    let vendors = Vendors::start().await;
    let server = server(&vendors).await;
    let port = server.address.port();
    let own = server.address.to_string();
    let own_page = format!("http://{}", server.address);
    let local = format!("localhost:{port}");
    let named = format!("{NAME}:{port}");
    for path in ["/", "/xiaozhi/v1/"] {
        for headers in [
            &[][..],
            &[("origin", &*own_page)],
            &[("origin", "http://localhost:8006")],
            &[("origin", PAGE)],
            &[("host", &*own)],
            &[("host", &*local)],
            &[("host", &*named), ("origin", "https://voice.example")],
        ] {
            let (status, told) = shake(&server, path, headers).await;
            assert_eq!(status, 101, "{path} {headers:?}: {told}");
        }
    }
    server.stop().await;
}
