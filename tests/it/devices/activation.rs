//! From the code of an unbound device to its binding: acceptance check 3.

use hmac::{Hmac, Mac as _};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;
use sqlx::any::AnyPoolOptions;

use super::{CLIENT, DEVICE, as_admin, as_device, bind, binding, boot, boot_as, read};
use crate::support::app::{TestServer, Vendors};

const SERIAL: &str = "SN-0001";
const KEY: [u8; 32] = [0x5a; 32];

async fn activate(server: &TestServer, body: &Value) -> (u16, Value) {
    let asked = as_device(server, Method::POST, "/xiaozhi/ota/activate").json(body);
    read(asked.send().await.unwrap()).await
}

fn hmac_of(key: &[u8], challenge: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(challenge).finalize();
    mac.into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn proof(challenge: &str, hmac: &str) -> Value {
    json!({
        "algorithm": "hmac-sha256",
        "serial_number": SERIAL,
        "challenge": challenge,
        "hmac": hmac,
    })
}

#[tokio::test]
async fn check_03_an_unbound_device_waits_until_its_code_is_entered() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, binding).await;
    let told = boot(&server).await;
    let activation = &told["activation"];
    let code = activation["code"].as_str().unwrap();
    assert!(code.len() == 6 && code.bytes().all(|b| b.is_ascii_digit()), "{told}");
    assert_eq!(activation["message"], format!("127.0.0.1\n{code}"));
    assert!(!activation["challenge"].as_str().unwrap().is_empty(), "firmware needs one");
    assert_eq!(activation["timeout_ms"], 30_000);
    assert_eq!(told["websocket"]["token"], "");
    assert_eq!(boot(&server).await["activation"], *activation, "a valid code stays the same");
    for path in ["/xiaozhi/ota/activate", "/xiaozhi/ota/activate/"] {
        for body in ["{}", "", "no json"] {
            let asked = as_device(&server, Method::POST, path).body(body);
            assert_eq!(asked.send().await.unwrap().status(), 202, "{path} {body}");
        }
    }
    let (status, device) = read(bind(&server, code).await).await;
    assert_eq!(status, 200, "{device}");
    assert_eq!((&device["device_id"], &device["name"]), (&json!(DEVICE), &json!("kitchen")));
    assert_eq!(activate(&server, &json!({})).await.0, 200);
    let told = boot(&server).await;
    assert_eq!(told.get("activation"), None);
    assert!(told["websocket"]["token"].as_str().unwrap().len() > 40, "{told}");
    let (status, _) = read(bind(&server, code).await).await;
    assert_eq!(status, 404, "a code can be entered once");
}

#[tokio::test]
async fn check_03_a_device_with_a_burned_in_key_must_prove_it() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, binding).await;
    let hex: String = KEY.iter().map(|byte| format!("{byte:02x}")).collect();
    let key_at = format!("/api/provisioning/{SERIAL}");
    let asked = as_admin(&server, Method::PUT, &key_at).json(&json!({"key": hex}));
    assert_eq!(asked.send().await.unwrap().status(), 204);
    let asked = as_device(&server, Method::POST, "/xiaozhi/ota/").header("Serial-Number", SERIAL);
    let told: Value = asked.send().await.unwrap().json().await.unwrap();
    let challenge = told["activation"]["challenge"].as_str().unwrap();
    let right = proof(challenge, &hmac_of(&KEY, challenge));
    let wrong = proof(challenge, &hmac_of(&[1; 32], challenge));
    let unsigned = proof(challenge, "");
    let mut other_algorithm = right.clone();
    other_algorithm["algorithm"] = "md5".into();
    let mut other_serial = right.clone();
    other_serial["serial_number"] = "SN-0002".into();
    let late = proof("yesterday's", &hmac_of(&KEY, "yesterday's"));
    let is = async |case: &str, body: &Value, status: u16| {
        let (got, told) = activate(&server, body).await;
        assert_eq!(got, status, "{case}: {told}");
    };
    is("before it is bound", &right, 202).await;
    is("wrong key", &wrong, 403).await;
    is("no key", &unsigned, 403).await;
    is("another algorithm", &other_algorithm, 400).await;
    bind(&server, told["activation"]["code"].as_str().unwrap()).await;
    is("wrong key", &wrong, 403).await;
    is("another serial number", &other_serial, 403).await;
    is("another challenge", &late, 202).await;
    is("no proof", &json!({}), 202).await;
    is("bound and proven", &right, 200).await;
    let asked = as_admin(&server, Method::DELETE, &key_at);
    assert_eq!(asked.send().await.unwrap().status(), 204);
    // Without a stored key, entry of the code is proof enough.
    is("key unknown", &wrong, 200).await;
}

#[tokio::test]
async fn another_client_with_the_id_of_a_bound_device_is_unbound() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, binding).await;
    let told = boot(&server).await;
    bind(&server, told["activation"]["code"].as_str().unwrap()).await;
    let thief = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/"));
    let thief = thief.header("Device-Id", DEVICE).header("Client-Id", "another");
    let (_, told) = read(thief.send().await.unwrap()).await;
    assert!(told["activation"]["code"].is_string(), "{told}");
    assert_eq!(told["websocket"]["token"], "");
    let told = boot(&server).await;
    assert_eq!(told.get("activation"), None, "the bound client is unaffected: {CLIENT}");
}

#[tokio::test]
async fn a_stranger_who_repeats_the_boot_of_a_device_is_not_bound_without_its_code() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        binding(config);
        config.server.data_dir = folder.path().to_owned();
    })
    .await;
    let one = format!("/api/devices/{DEVICE}");
    let bound = async || {
        let asked = as_admin(&server, Method::PATCH, &one).json(&json!({"bound": true}));
        read(asked.send().await.unwrap()).await
    };
    let made = async |body: Value| {
        let asked = as_admin(&server, Method::POST, &format!("{one}/tokens")).json(&body);
        read(asked.send().await.unwrap()).await
    };
    let is_admitted = async |client: &str| {
        let told = boot_as(&server, client).await;
        told["websocket"]["token"].as_str().unwrap().len() > 40
    };
    // The server creates its store when it first uses it.
    assert!(!is_admitted(CLIENT).await);
    let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
    sqlx::any::install_default_drivers();
    let pool = AnyPoolOptions::new().connect(&url).await.unwrap();
    // The second time, the codes have expired, and the stranger repeats the boot once more.
    for _ in 0..2 {
        assert!(!is_admitted(CLIENT).await);
        for _ in 0..3 {
            assert!(!is_admitted("a stranger").await);
        }
        for (status, told) in [bound().await, made(json!({})).await] {
            assert!(status == 409 && told.to_string().contains("enter the code"), "{told}");
        }
        let (status, told) = made(json!({"client_id": "a stranger"})).await;
        assert_eq!(status, 409, "{told}");
        sqlx::query("DELETE FROM activations").execute(&pool).await.unwrap();
        assert!(!is_admitted("a stranger").await);
        assert_eq!(bound().await.0, 409);
    }
    // The client of the first boot is the one that is bound when all codes have expired.
    sqlx::query("DELETE FROM activations").execute(&pool).await.unwrap();
    pool.close().await;
    let (status, told) = bound().await;
    assert_eq!((status, &told["bound"]), (200, &json!(true)), "{told}");
    assert!(is_admitted(CLIENT).await && !is_admitted("a stranger").await);
    // Its owner is known now: a stranger with a code hinders neither.
    let (status, told) = made(json!({})).await;
    assert_eq!((status, &told["client_id"]), (201, &json!(CLIENT)), "{told}");
    assert_eq!(bound().await.0, 200);
}

#[tokio::test]
async fn a_token_for_a_named_client_binds_it_although_others_have_asked() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, binding).await;
    for client in [CLIENT, "a stranger"] {
        assert_eq!(boot_as(&server, client).await["websocket"]["token"], "", "{client}");
    }
    let path = format!("/api/devices/{DEVICE}/tokens");
    let made = as_admin(&server, Method::POST, &path).json(&json!({"client_id": CLIENT}));
    let (status, told) = read(made.send().await.unwrap()).await;
    assert_eq!(status, 201, "{told}");
    assert!(boot(&server).await["websocket"]["token"].as_str().unwrap().len() > 40);
    assert_eq!(boot_as(&server, "a stranger").await["websocket"]["token"], "");
}

#[tokio::test]
async fn without_binding_there_is_nothing_to_activate() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, super::guarded).await;
    assert_eq!(boot(&server).await.get("activation"), None);
    assert_eq!(activate(&server, &json!({})).await.0, 200);
}

#[tokio::test]
async fn activation_without_an_ota_request_gives_404() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, binding).await;
    assert_eq!(activate(&server, &json!({})).await.0, 404);
}

#[tokio::test]
async fn wrong_codes_are_refused_after_ten() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, binding).await;
    let told = boot(&server).await;
    let code = told["activation"]["code"].as_str().unwrap();
    let wrong = if code == "000000" { "000001" } else { "000000" };
    for _ in 0..10 {
        assert_eq!(bind(&server, wrong).await.status(), 404);
    }
    let refused = bind(&server, code).await;
    assert!(refused.headers().contains_key("retry-after"));
    let (status, told) = read(refused).await;
    assert_eq!((status, &told["error"]["code"]), (429, &json!("TOO_MANY")));
}
