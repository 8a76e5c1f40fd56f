//! Every request body of the API, invalid in every way, by the description of the API. Not for valid bodies.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use hearken_test_support::worlds::Worlds;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::app::{TestServer, Vendors};

const PASSWORD: &str = "the password of the tests";

/// A server without limits on requests.
struct Open {
    server: TestServer,
    token: String,
    museum: String,
}

async fn start(vendors: &Vendors, worlds: &Worlds) -> Open {
    let server = TestServer::start(vendors, |config| {
        config.admin.password = hearken_base::Secret::new(PASSWORD);
        config.http.requests_per_minute = 0;
        config.ota.trust_proxy = true;
        config.museum.requests_per_minute = 0;
        config.state.url = worlds.url.clone();
    })
    .await;
    let http = Client::new();
    let post = async |path: &str, body: Value| {
        let answer = http.post(server.http_url(path)).json(&body).send().await.unwrap();
        answer.json::<Value>().await.unwrap()
    };
    let login = json!({"username": "admin", "password": PASSWORD});
    let token = post("/api/admin/login", login).await["access_token"].as_str().unwrap().to_owned();
    let client = json!({"client_metadata": {}, "functions": []});
    let museum =
        post("/api/session/register", client).await["session_id"].as_str().unwrap().to_owned();
    Open { server, token, museum }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text).unwrap();
    packed.finish().unwrap()
}

/// Bodies that no route accepts, and the error for each.
fn wrong() -> Vec<(Vec<u8>, &'static str)> {
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(127), "]".repeat(127));
    let utf16 = r#"{"x":1}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        (b"[]".to_vec(), "must be a JSON object, not an array"),
        (br#"["x"]"#.to_vec(), "must be a JSON object, not an array"),
        (b"7".to_vec(), "must be a JSON object, not a number"),
        (br#""x""#.to_vec(), "must be a JSON object, not text"),
        ("\u{feff}[]".into(), "must be a JSON object, not an array"),
        (br#"{"x":1"#.to_vec(), "is not JSON: EOF while parsing"),
        (b"{}{}".to_vec(), "is not JSON: trailing characters"),
        (b"{} x".to_vec(), "is not JSON: trailing characters"),
        (b"name=x&creator_id=y".to_vec(), "is not JSON: expected"),
        (br#"{"x":"\ud800"}"#.to_vec(), "is not JSON: unexpected end of hex escape"),
        (br#"{"x":1,"x":2}"#.to_vec(), "stands twice"),
        (br#"{"x":[{"y":1,"\u0079":2}]}"#.to_vec(), "stands twice"),
        (b"{\"x\":\"\xe4\"}".to_vec(), "is no UTF-8 text, or is compressed"),
        (utf16, "is not JSON: "),
        (gzip(b"{}"), "is no UTF-8 text, or is compressed"),
        (deep.into(), "is nested deeper than 127 levels"),
    ]
}

struct Route {
    method: Method,
    path: String,
    may_be_left_out: bool,
}

impl Route {
    /// Every route of the description that has a body.
    async fn all(server: &TestServer) -> Vec<Self> {
        let told = reqwest::get(server.http_url("/api/openapi.json")).await.unwrap();
        let told: Value = told.json().await.unwrap();
        let mut routes = Vec::new();
        for (path, methods) in told["paths"].as_object().unwrap() {
            // Device orders are separate routes, except that they share one description.
            let path = path.replace("{order}", "alert").replace(['{', '}'], "");
            for (method, about) in methods.as_object().unwrap() {
                let body = &about["requestBody"];
                if !body["content"]["application/json"].is_null() {
                    let method = method.to_uppercase().parse().unwrap();
                    let may_be_left_out = path.ends_with("/snapshots");
                    routes.push(Self { method, path: path.clone(), may_be_left_out });
                }
            }
        }
        routes
    }

    fn ask(&self, open: &Open, body: Vec<u8>) -> RequestBuilder {
        // Logins are limited by address.
        let address = format!("10.{}.{}.1", fastrand::u8(..), fastrand::u8(..));
        Client::new()
            .request(self.method.clone(), open.server.http_url(&self.path))
            .bearer_auth(&open.token)
            .header("session-id", &open.museum)
            .header("x-forwarded-for", address)
            .body(body)
    }

    /// Sends a request that must be refused; returns the code and the message of the error.
    async fn refused(&self, open: &Open, body: Vec<u8>) -> (String, String) {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let answer = self.ask(open, body).send().await.unwrap();
        let status = answer.status().as_u16();
        let told: Value = answer.json().await.unwrap();
        let museum = self.path.starts_with("/api/agent") || self.path.starts_with("/api/session/");
        let about = format!("{} {} {shown:?}: {status} {told}", self.method, self.path);
        assert_eq!(status, if museum { 422 } else { 400 }, "{about}");
        if museum {
            let mistake = &told["errors"][0];
            assert_eq!(mistake["loc"][0], "body", "{about}");
            return ("INVALID_REQUEST".into(), mistake["msg"].as_str().unwrap().to_owned());
        }
        let error = &told["error"];
        let text = |field: &str| error[field].as_str().unwrap().to_owned();
        (text("code"), text("message"))
    }
}

#[actix_web::test]
async fn a_body_that_is_no_valid_object_is_refused_by_every_route() {
    let vendors = Vendors::start().await;
    let worlds = Worlds::start(1);
    let open = start(&vendors, &worlds).await;
    let routes = Route::all(&open.server).await;
    assert!(routes.len() >= 15, "{}", routes.len());
    for route in &routes {
        let chats = route.path.starts_with("/api/sessions") && !route.path.ends_with("/tools");
        let mut bodies = wrong();
        if !route.may_be_left_out {
            bodies.push((Vec::new(), "is empty, but must be a JSON object"));
            bodies.push((b" \r\n".to_vec(), "is empty, but must be a JSON object"));
            bodies.push((b"null".to_vec(), "must be a JSON object, not null"));
        }
        for (body, says) in bodies {
            let (code, told) = route.refused(&open, body).await;
            let museum = route.path.starts_with("/api/agent") || route.path.contains("/session/");
            let expected = if chats || museum { "INVALID_REQUEST" } else { "BAD_REQUEST" };
            assert_eq!(code, expected, "{}: {told}", route.path);
            assert!(told.contains(says), "{} {}: {told}", route.method, route.path);
        }
    }
    open.server.stop().await;
}

/// Routes, each with a body with an invalid field and the error for it.
fn wrong_fields() -> Vec<(Route, &'static str, &'static str)> {
    let route = |method: Method, path: &str| Route {
        method,
        path: path.to_owned(),
        may_be_left_out: false,
    };
    let create = || route(Method::POST, "/api/sessions");
    let chat = || route(Method::POST, "/api/sessions/0193a3c0-0000-7000-8000-000000000001/chat");
    let login = || route(Method::POST, "/api/admin/login");
    vec![
        (create(), r#"{"name":"a","creator_id":null}"#, "`creator_id` is missing"),
        (create(), r#"{"name":["a"],"creator_id":"b"}"#, "`name` must be text, not an array"),
        (
            create(),
            r#"{"name":"a","creator_id":"b","players":["c",{}]}"#,
            "`players[1]` must be text, not an object",
        ),
        (
            create(),
            r#"{"name":"a","creator_id":"b","max_players":1e99}"#,
            "`max_players` must be a whole number from 0 to 4294967295, not 1e",
        ),
        (
            create(),
            r#"{"name":"a","creator_id":"b","max_players":99999999999999999999}"#,
            "`max_players` must be a whole number from 0 to 4294967295, not ",
        ),
        (chat(), r#"{"message":"a","message":"b"}"#, "`message` stands twice"),
        (chat(), r#"{"message":"a","stream":"yes"}"#, "`stream` must be true or false, not text"),
        (login(), r#"{"username":"admin"}"#, "`password` is missing"),
        (
            login(),
            r#"{"username":"a","password":"b","more":1}"#,
            "`more` is not known here; known is `username` or `password`",
        ),
        (
            route(Method::PUT, "/api/devices/x/tools"),
            r#"{"off":["a",1]}"#,
            "`off[1]` must be text, not a number",
        ),
        (
            route(Method::POST, "/api/tools/call"),
            r#"{"source":"a","tool":"b","arguments":[]}"#,
            "`arguments` must be an object, not an array",
        ),
        (
            route(Method::POST, "/api/devices/x/custom"),
            r#"{"payload":["a"]}"#,
            "`payload` must be an object, not an array",
        ),
        (
            route(Method::POST, "/api/agent/parse"),
            r#"{"user_input":"a","user_input":"b"}"#,
            "stands twice",
        ),
    ]
}

#[actix_web::test]
async fn the_error_for_an_invalid_field_names_it_and_what_is_expected() {
    let vendors = Vendors::start().await;
    let worlds = Worlds::start(1);
    let open = start(&vendors, &worlds).await;
    for (route, body, says) in wrong_fields() {
        let (_, told) = route.refused(&open, body.into()).await;
        assert!(told.contains(says), "{body}: {told}");
    }
    open.server.stop().await;
}

#[actix_web::test]
async fn null_counts_as_absent_and_content_headers_are_ignored() {
    let vendors = Vendors::start().await;
    let worlds = Worlds::start(1);
    let open = start(&vendors, &worlds).await;
    let create = |body: Vec<u8>| {
        Route { method: Method::POST, path: "/api/sessions".into(), may_be_left_out: false }
            .ask(&open, body)
    };
    let bare = json!({"name": "失落的地牢", "creator_id": "u"}).to_string();
    let nulls = json!({"name": "失落的地牢", "creator_id": "u", "players": null,
        "max_players": null, "dm_user_id": null, "more": null});
    let marked = format!("\u{feff}{bare}");
    let mut session = String::new();
    for (body, kind) in [
        (nulls.to_string(), "application/json"),
        (bare.clone(), "text/plain; charset=iso-8859-1"),
        (bare.clone(), "application/x-www-form-urlencoded"),
        (marked, "application/json; charset=utf-8"),
    ] {
        let answer = create(body.into()).header(CONTENT_TYPE, kind).send().await.unwrap();
        let status = answer.status();
        let told: Value = answer.json().await.unwrap();
        assert_eq!(status, 201, "{kind}: {told}");
        assert_eq!(told["max_players"], 5);
        session = told["session_id"].as_str().unwrap().to_owned();
    }
    // Declared as compressed, but not compressed; and the reverse.
    let odd = create(bare.clone().into()).header(CONTENT_ENCODING, "gzip").send().await.unwrap();
    assert_eq!(odd.status(), 201);
    let packed = create(gzip(bare.as_bytes())).header(CONTENT_ENCODING, "gzip");
    let packed = packed.send().await.unwrap();
    assert_eq!(packed.status(), 400);
    assert!(packed.text().await.unwrap().contains("or is compressed"));

    let path = format!("/api/sessions/{session}/chat");
    let chat = Route { method: Method::POST, path, may_be_left_out: false };
    let said = json!({"message": "hello", "stream": null, "context_only": null, "player_id": null,
        "session_id": null});
    let answer = chat.ask(&open, said.to_string().into()).send().await.unwrap();
    let status = answer.status();
    let told: Value = answer.json().await.unwrap();
    assert_eq!(status, 200, "{told}");
    assert!(told["response"].as_str().is_some_and(|words| !words.is_empty()), "{told}");

    let path = format!("/api/sessions/{session}/snapshots");
    let keep = Route { method: Method::POST, path, may_be_left_out: true };
    for body in ["", " \n", "null", "{}", r#"{"name":null}"#] {
        let answer = keep.ask(&open, body.into()).send().await.unwrap();
        assert_eq!(answer.status(), 201, "{body:?}");
    }
    open.server.stop().await;
}

/// Unreadable parts of a device's report are ignored: firmware does not boot after a refusal.
#[actix_web::test]
async fn a_device_boots_with_an_unreadable_report() {
    let vendors = Vendors::start().await;
    let worlds = Worlds::start(1);
    let open = start(&vendors, &worlds).await;
    for (body, _) in wrong() {
        let report = Client::new()
            .post(open.server.http_url("/xiaozhi/ota/"))
            .header("device-id", "02:00:00:00:00:07")
            .body(body);
        assert_eq!(report.send().await.unwrap().status(), 200);
    }
    open.server.stop().await;
}
