//! Devices from outside the private networks, or through a proxy: access before and after they are
//! bound. Not for codes and tokens themselves.

use hearken::config::{AuthRequired, Config, DeviceAdmission};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::any::AnyPoolOptions;

use super::{
    CLIENT, DEVICE, as_admin, as_device, bind, binding, boot, boot_as, greeted, guarded, headers,
    read, report, upgrade,
};
use crate::support::app::{TestServer, Vendors};

/// Header of a proxy on this machine.
const PROXY: (&str, &str) = ("X-Forwarded-For", "203.0.113.9");

async fn boot_from_outside(server: &TestServer) -> Value {
    boot_from_outside_as(server, CLIENT).await
}

async fn boot_from_outside_as(server: &TestServer, client: &str) -> Value {
    let request = as_device(server, Method::POST, "/xiaozhi/ota/").header(PROXY.0, PROXY.1);
    let client = HeaderValue::from_str(client).unwrap();
    let client = HeaderMap::from_iter([(HeaderName::from_static("client-id"), client)]);
    let request = request.headers(client);
    let (status, answer) = read(request.json(&report("2.0.0")).send().await.unwrap()).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Handshake headers of the device through the proxy.
fn from_outside(token: Option<&str>) -> String {
    format!("{}{}: {}\r\n", headers(DEVICE, CLIENT, token), PROXY.0, PROXY.1)
}

fn token_in(answer: &Value) -> &str {
    answer["websocket"]["token"].as_str().unwrap()
}

/// A request to a tool of the household with a device's token, through the proxy.
fn tool_call(server: &TestServer, token: &str) -> RequestBuilder {
    let request = as_device(server, Method::GET, "/litemcp/get_current_time");
    request.header(PROXY.0, PROXY.1).bearer_auth(token)
}

/// Names of the tools that the model is offered in the device's next turn.
async fn offered(server: &TestServer, vendors: &Vendors, headers: &str) -> Vec<String> {
    let mut socket = greeted(server, headers).await;
    vendors.llm.forget_texts();
    let words = r#"{"type":"listen","state":"detect","text":"What time is it?"}"#;
    futures_util::SinkExt::send(&mut socket, words.into()).await.unwrap();
    let seen = vendors.llm.until(|seen| !seen.texts.is_empty()).await;
    let request: Value = serde_json::from_str(seen.texts.last().unwrap()).unwrap();
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_device_from_outside_has_no_session_before_it_is_bound() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    })
    .await;
    for stranger in ["00000000-0000-4000-8000-00000000000f", ""] {
        assert_eq!(token_in(&boot_from_outside_as(&server, stranger).await), "");
    }
    let answer = boot_from_outside(&server).await;
    assert_eq!(token_in(&answer), "");
    let code = answer["activation"]["code"].as_str().unwrap().to_owned();
    let activate = || as_device(&server, Method::POST, "/xiaozhi/ota/activate");
    assert_eq!(activate().header(PROXY.0, PROXY.1).send().await.unwrap().status(), 202);
    for token in [None, Some("sesame")] {
        let (status, message) = upgrade(&server, &from_outside(token)).await;
        assert_eq!(status, 401, "{token:?}: {message}");
    }
    // At home the device needs no code, but its token from there is not valid from outside.
    let at_home = boot(&server).await;
    let at_home = token_in(&at_home);
    assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, Some(at_home))).await.0, 101);
    let (status, message) = upgrade(&server, &from_outside(Some(at_home))).await;
    assert!(status == 401 && message.contains("has to be bound"), "{status} {message}");
    assert_eq!(tool_call(&server, at_home).send().await.unwrap().status(), 403);

    assert_eq!(bind(&server, &code).await.status(), 200);
    assert_eq!(activate().header(PROXY.0, PROXY.1).send().await.unwrap().status(), 200);
    let answer = boot_from_outside(&server).await;
    assert_eq!(answer.get("activation"), None, "{answer}");
    let token = token_in(&answer);
    assert_eq!(upgrade(&server, &from_outside(Some(token))).await.0, 101);
    assert_eq!(tool_call(&server, token).send().await.unwrap().status(), 200);
    let one = format!("/api/devices/{DEVICE}");
    assert_eq!(as_admin(&server, Method::DELETE, &one).send().await.unwrap().status(), 204);
    assert_eq!(upgrade(&server, &from_outside(Some(token))).await.0, 401);
    assert!(boot_from_outside(&server).await["activation"]["code"].is_string());
}

#[tokio::test]
async fn a_device_from_outside_without_a_client_id_has_no_session_and_binds_nothing() {
    const UNKNOWN: &str = "02:00:00:00:00:99";
    type Rule = (&'static str, fn(&mut Config));
    let rules: [Rule; 4] = [
        ("a code", binding),
        ("a code, without tokens", |config| {
            binding(config);
            config.auth.required = AuthRequired::Never;
        }),
        ("bound", guarded),
        ("a token", |config| {
            guarded(config);
            config.devices.admit = DeviceAdmission::Token;
        }),
    ];
    let vendors = Vendors::start().await;
    for (rule, configure) in rules {
        let server = TestServer::start(&vendors, configure).await;
        // At home, a board without a client id is known by its device id alone.
        if let Some(code) = boot_as(&server, "").await["activation"]["code"].as_str() {
            assert_eq!(bind(&server, code).await.status(), 200, "{rule}");
        }
        let at_home = boot_as(&server, "").await;
        let token = token_in(&at_home);
        for device in [DEVICE, UNKNOWN] {
            let ask = |method: Method, path: &str| {
                let asked = reqwest::Client::new().request(method, server.http_url(path));
                asked.header(PROXY.0, PROXY.1).header("Device-Id", device).json(&json!({})).send()
            };
            for method in [Method::POST, Method::GET] {
                let (status, told) = read(ask(method, "/xiaozhi/ota/").await.unwrap()).await;
                assert_eq!(status, 200, "{rule} {device}: {told}");
                assert_eq!((token_in(&told), told.get("activation")), ("", None), "{rule}: {told}");
            }
            let activated = ask(Method::POST, "/xiaozhi/ota/activate").await.unwrap();
            assert_eq!(activated.status(), 202, "{rule} {device}");
            for token in [None, Some("sesame"), Some(token)] {
                let asked = format!("{}{}: {}\r\n", headers(device, "", token), PROXY.0, PROXY.1);
                let (status, message) = upgrade(&server, &asked).await;
                assert_eq!(status, 401, "{rule} {device} {token:?}: {message}");
                assert!(message.contains("Client-Id"), "{rule} {device} {token:?}: {message}");
            }
        }
        let unknown = as_admin(&server, Method::GET, &format!("/api/devices/{UNKNOWN}"));
        assert_eq!(unknown.send().await.unwrap().status(), 404, "{rule}: nothing is stored");
        let (status, message) = upgrade(&server, &headers(DEVICE, "", Some(token))).await;
        assert_eq!(status, 101, "{rule}: the board at home is unaffected: {message}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_stranger_does_not_change_the_record_of_a_board_without_a_client_id() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    assert!(token_in(&boot_as(&server, "").await).len() > 40, "the board is at home");
    let one = format!("/api/devices/{DEVICE}");
    let shown = async || read(as_admin(&server, Method::GET, &one).send().await.unwrap()).await;
    let (status, before) = shown().await;
    assert_eq!((status, &before["firmware_version"]), (200, &json!("2.0.0")), "{before}");
    let mut other = report("9.9.9");
    other["board"]["type"] = json!("a stranger's");
    other["chip_model_name"] = json!("a stranger's");
    let asked = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/"));
    let asked = asked.header(PROXY.0, PROXY.1).header("Device-Id", DEVICE);
    let asked = asked.header("Client-Id", CLIENT).header("Serial-Number", "a stranger's");
    let (status, told) = read(asked.json(&other).send().await.unwrap()).await;
    assert_eq!((status, token_in(&told)), (200, ""), "{told}");
    assert!(told["activation"]["code"].is_string(), "{told}");
    assert_eq!(shown().await.1, before);
    server.stop().await;
}

/// The answers of the activation to a stranger who sends this device id, without and with a proof
/// for the challenge that the stranger got.
async fn activations_of_a_stranger(server: &TestServer, device: &str) -> Vec<(u16, Value)> {
    let ask = |path: &str, body: Value| {
        let asked = reqwest::Client::new().post(server.http_url(path)).header(PROXY.0, PROXY.1);
        asked.header("Device-Id", device).header("Client-Id", "a stranger").json(&body).send()
    };
    let before = read(ask("/xiaozhi/ota/activate", json!({})).await.unwrap()).await;
    let (_, booted) = read(ask("/xiaozhi/ota/", json!({})).await.unwrap()).await;
    let challenge = &booted["activation"]["challenge"];
    assert!(challenge.is_string(), "{booted}");
    let proof = json!({"algorithm": "hmac-sha256", "challenge": challenge, "hmac": "00"});
    let proven = read(ask("/xiaozhi/ota/activate", proof).await.unwrap()).await;
    vec![before, proven]
}

#[tokio::test]
async fn a_stranger_does_not_learn_which_devices_exist() {
    let vendors = Vendors::start().await;
    for configure in [guarded as fn(&mut Config), binding] {
        let server = TestServer::start(&vendors, configure).await;
        let key = as_admin(&server, Method::PUT, "/api/provisioning/SN-1");
        let key = key.json(&json!({"key": "5a".repeat(32)})).send().await.unwrap();
        assert_eq!(key.status(), 204);
        let known = as_device(&server, Method::POST, "/xiaozhi/ota/");
        let known = known.header("Serial-Number", "SN-1").json(&report("2.0.0")).send().await;
        assert_eq!(known.unwrap().status(), 200);
        let waits = (202, json!({"message": "waiting to be bound"}));
        for device in [DEVICE, "02:00:00:00:00:99"] {
            let told = activations_of_a_stranger(&server, device).await;
            assert_eq!(told, [waits.clone(), waits.clone()], "{device}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn with_admission_by_token_only_an_administrator_admits_devices() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.devices.admit = DeviceAdmission::Token;
    })
    .await;
    let answer = boot_from_outside(&server).await;
    assert_eq!((token_in(&answer), answer.get("activation")), ("", None), "{answer}");
    assert_eq!(upgrade(&server, &from_outside(None)).await.0, 401);
    let path = format!("/api/devices/{DEVICE}/tokens");
    let made = as_admin(&server, Method::POST, &path).json(&json!({"client_id": CLIENT}));
    let (status, made) = read(made.send().await.unwrap()).await;
    assert_eq!(status, 201, "{made}");
    let token = made["token"].as_str().unwrap();
    assert_eq!(upgrade(&server, &from_outside(Some(token))).await.0, 101);
    assert!(token_in(&boot_from_outside(&server).await).len() > 40, "it is bound now");
}

#[tokio::test]
async fn an_unbound_device_from_outside_is_offered_no_tool_of_the_household() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.devices.admit = DeviceAdmission::Anyone;
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    })
    .await;
    let answer = boot_from_outside(&server).await;
    let token = token_in(&answer);
    assert_eq!(offered(&server, &vendors, &from_outside(Some(token))).await, [""; 0]);
    assert_eq!(tool_call(&server, token).send().await.unwrap().status(), 403);
    let near = offered(&server, &vendors, &headers(DEVICE, CLIENT, Some(token))).await;
    assert!(near.iter().any(|name| name == "get_current_time"), "{near:?}");
    let one = format!("/api/devices/{DEVICE}");
    let bound = as_admin(&server, Method::PATCH, &one).json(&json!({"bound": true}));
    let (status, shown) = read(bound.send().await.unwrap()).await;
    assert_eq!((status, &shown["bound"]), (200, &json!(true)), "{shown}");
    assert_eq!(offered(&server, &vendors, &from_outside(Some(token))).await, near);
    let undone = as_admin(&server, Method::PATCH, &one).json(&json!({"bound": false}));
    assert_eq!(undone.send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn devices_from_before_the_upgrade_stay_admitted_and_need_review() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let at = |config: &mut Config| {
        guarded(config);
        config.server.data_dir = folder.path().to_owned();
    };
    let server = TestServer::start(&vendors, at).await;
    let answer = boot(&server).await;
    server.stop().await;
    // The state after the upgrade of the store.
    let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new().connect(&url).await.unwrap();
    sqlx::query("UPDATE devices SET bound = 2").execute(&pool).await.unwrap();
    pool.close().await;

    let server = TestServer::start(&vendors, at).await;
    let socket = greeted(&server, &from_outside(Some(token_in(&answer)))).await;
    let again = boot_from_outside(&server).await;
    assert!(token_in(&again).len() > 40, "{again}");
    drop(socket);
    let one = format!("/api/devices/{DEVICE}");
    let shown = async || read(as_admin(&server, Method::GET, &one).send().await.unwrap()).await.1;
    let device = shown().await;
    assert_eq!((&device["bound"], &device["needs_review"]), (&json!(false), &json!(true)));
    let confirmed = as_admin(&server, Method::PATCH, &one).json(&json!({"bound": true}));
    assert_eq!(confirmed.send().await.unwrap().status(), 200);
    let device = shown().await;
    assert_eq!((&device["bound"], &device["needs_review"]), (&json!(true), &json!(false)));
}

#[tokio::test]
async fn a_failing_store_does_not_end_the_access_of_a_bound_device_from_outside_to_tools() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.server.data_dir = folder.path().to_owned();
        config.tools.builtin.enabled = vec!["get_current_time".into()];
    })
    .await;
    let answer = boot_from_outside(&server).await;
    let code = answer["activation"]["code"].as_str().unwrap();
    assert_eq!(bind(&server, code).await.status(), 200);
    let answer = boot_from_outside(&server).await;
    let token = token_in(&answer);
    assert_eq!(tool_call(&server, token).send().await.unwrap().status(), 200);
    let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new().connect(&url).await.unwrap();
    // A status of 400 or above, but below 500, would end a socket of the device.
    for (rename, status) in
        [("ALTER TABLE devices RENAME TO gone", 503), ("ALTER TABLE gone RENAME TO devices", 200)]
    {
        sqlx::query(rename).execute(&pool).await.unwrap();
        assert_eq!(tool_call(&server, token).send().await.unwrap().status(), status, "{rename}");
    }
    pool.close().await;
}
