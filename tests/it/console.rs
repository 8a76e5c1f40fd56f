//! The web console over real sockets: its files and their headers. `scripts/console` tests the page
//! in a browser.

use reqwest::{Client, Method, Response};

use crate::support::app::{TestServer, Vendors};

async fn ask(
    server: &TestServer,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> Response {
    let client = Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let mut request = client.request(method, server.http_url(path));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.send().await.unwrap()
}

fn header<'a>(answer: &'a Response, name: &str) -> &'a str {
    answer.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}

#[tokio::test]
async fn the_page_and_its_files_are_served_under_a_strict_policy() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let moved = ask(&server, Method::GET, "/console", &[]).await;
    assert_eq!((moved.status().as_u16(), header(&moved, "location")), (308, "console/"));
    let page = ask(&server, Method::GET, "/console/", &[]).await;
    assert_eq!(page.status(), 200);
    assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
    assert_eq!(header(&page, "cache-control"), "no-cache");
    assert_eq!(header(&page, "x-content-type-options"), "nosniff");
    let policy = header(&page, "content-security-policy").to_owned();
    let host = server.http_url("");
    let host = host.trim_start_matches("http://").trim_end_matches('/');
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
    assert!(policy.contains(&format!("connect-src 'self' ws://{host} wss://{host};")), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = page.text().await.unwrap();
    let mut named = 0;
    for attribute in ["src=\"", "href=\""] {
        for part in text.split(attribute).skip(1) {
            let named_as = part.split('"').next().unwrap();
            // Paths are relative, as a proxy may serve the console under a prefix.
            let path = named_as.strip_prefix("./").unwrap_or_else(|| panic!("{named_as}"));
            let path = format!("/console/{path}");
            let file = ask(&server, Method::GET, &path, &[("accept-encoding", "gzip, br")]).await;
            assert_eq!(file.status(), 200, "{path}");
            if path.contains("/assets/") {
                assert!(header(&file, "cache-control").contains("immutable"), "{path}");
                assert_eq!(header(&file, "content-encoding"), "gzip", "{path}");
            }
            named += 1;
        }
    }
    assert!(named >= 2, "{text}");
}

#[tokio::test]
async fn unchanged_files_give_304_and_unknown_files_404() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    let page = ask(&server, Method::GET, "/console/", &[]).await;
    let etag = header(&page, "etag").to_owned();
    let same = ask(&server, Method::GET, "/console/", &[("if-none-match", &etag)]).await;
    assert_eq!((same.status().as_u16(), header(&same, "etag")), (304, etag.as_str()));
    assert_eq!(same.bytes().await.unwrap().len(), 0);
    let head = ask(&server, Method::HEAD, "/console/index.html", &[]).await;
    assert_eq!((head.status().as_u16(), header(&head, "etag")), (200, etag.as_str()));
    for path in
        ["nothing", "../Cargo.toml", "%2e%2e/Cargo.toml", "assets", "assets/", "a/b/c/d/e/f/g"]
    {
        let answer = ask(&server, Method::GET, &format!("/console/{path}"), &[]).await;
        assert!(matches!(answer.status().as_u16(), 404 | 405), "{path}: {}", answer.status());
    }
    let wrong = ask(&server, Method::POST, "/console/", &[]).await;
    assert_eq!((wrong.status().as_u16(), header(&wrong, "allow")), (405, "GET, HEAD"));
}

#[tokio::test]
async fn a_disabled_console_gives_404() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| config.console.enabled = false).await;
    let answer = ask(&server, Method::GET, "/console/", &[]).await;
    assert!(matches!(answer.status().as_u16(), 404 | 405), "{}", answer.status());
}
