//! A client that knows only the id of another device cannot take it over, and a reflashed board can
//! be bound again. Not for the first binding of a device.

use futures_util::StreamExt as _;
use hearken::config::AuthRequired;
use hearken_base::Secret;
use hearken_test_support::places::{Place, on};
use hearken_tool_sources::VisionTokens;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::any::AnyPoolOptions;
use tokio_tungstenite::tungstenite::Message;

use super::{
    CLIENT, DEVICE, SECRET, as_admin, as_device, bind, binding, boot, boot_as, greet, greeted,
    guarded, headers, read, token, upgrade,
};
use crate::support::app::{TestServer, Vendors};

/// Client id that a board generates after its flash was erased.
const ANEW: &str = "00000000-0000-4000-8000-00000000000a";

fn token_of(told: &Value) -> &str {
    told["websocket"]["token"].as_str().unwrap()
}

#[tokio::test]
async fn another_client_with_the_same_id_gets_no_token_and_does_not_disturb_it() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let mut victim = greeted(&server, &headers(DEVICE, CLIENT, Some(&token(&server).await))).await;
    for client in ["another", "", ANEW] {
        let told = boot_as(&server, client).await;
        assert_eq!(token_of(&told), "", "{client:?}: {told}");
        assert!(told["activation"]["code"].is_string(), "{client:?}: {told}");
        let asked = as_device(&server, Method::POST, "/xiaozhi/ota/activate").json(&json!({}));
        let waits = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/activate"));
        let waits = waits.header("Device-Id", DEVICE).header("Client-Id", client).json(&json!({}));
        assert_eq!(waits.send().await.unwrap().status(), 202, "{client:?}");
        assert_eq!(asked.send().await.unwrap().status(), 200, "the bound client need not wait");
        // Without a token, the client hears its code, on a separate connection.
        greeted(&server, &headers(DEVICE, client, None)).await;
        greet(&mut victim).await;
    }
    let (status, shown) = read(
        as_admin(&server, Method::GET, &format!("/api/devices/{DEVICE}")).send().await.unwrap(),
    )
    .await;
    assert_eq!((status, shown.get("client_id")), (200, None), "the client id is secret");
    for _ in 0..10 {
        let told = boot(&server).await;
        assert!(token_of(&told).len() > 40 && told.get("activation").is_none(), "{told}");
        assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, Some(token_of(&told)))).await.0, 101);
    }
}

#[tokio::test]
async fn a_client_that_is_not_admitted_does_not_change_when_a_device_was_seen() {
    const LONG_AGO: &str = "1970-01-01T00:00:01Z";
    let vendors = Vendors::start().await;
    for required in [AuthRequired::Always, AuthRequired::Never] {
        let folder = tempfile::tempdir().unwrap();
        let server = TestServer::start(&vendors, |config| {
            binding(config);
            config.auth.required = required;
            config.server.data_dir = folder.path().to_owned();
        })
        .await;
        let told = boot(&server).await;
        bind(&server, told["activation"]["code"].as_str().unwrap()).await;
        let own = token(&server).await;
        let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
        sqlx::any::install_default_drivers();
        let pool = AnyPoolOptions::new().connect(&url).await.unwrap();
        sqlx::query("UPDATE devices SET last_seen_ms = 1000").execute(&pool).await.unwrap();
        pool.close().await;
        let seen = async || {
            let path = format!("/api/devices/{DEVICE}");
            let (_, device) =
                read(as_admin(&server, Method::GET, &path).send().await.unwrap()).await;
            device["last_seen"].as_str().unwrap().to_owned()
        };
        // It only hears its code.
        assert_eq!(upgrade(&server, &headers(DEVICE, ANEW, None)).await.0, 101, "{required:?}");
        assert_eq!(seen().await, LONG_AGO, "{required:?}");
        if required == AuthRequired::Always {
            assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, None)).await.0, 401);
            assert_eq!(seen().await, LONG_AGO, "without its token");
        }
        let own = Some(own.as_str()).filter(|own| !own.is_empty());
        assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, own)).await.0, 101, "{required:?}");
        assert_ne!(seen().await, LONG_AGO, "{required:?}");
    }
}

#[tokio::test]
async fn a_reflashed_board_is_admitted_by_its_code() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let before = token(&server).await;
    let mut former = greeted(&server, &headers(DEVICE, CLIENT, Some(&before))).await;
    let told = boot_as(&server, ANEW).await;
    let (status, device) =
        read(bind(&server, told["activation"]["code"].as_str().unwrap()).await).await;
    assert_eq!((status, &device["device_id"]), (200, &json!(DEVICE)), "{device}");
    let closed = loop {
        match former.next().await {
            Some(Ok(Message::Close(reason))) => break reason.map(|reason| reason.code.into()),
            Some(Ok(_)) => {}
            other => panic!("no Close, but {other:?}"),
        }
    };
    assert_eq!(closed, Some(1008), "the connection of the former client ends");
    let told = boot_as(&server, ANEW).await;
    assert_eq!(told.get("activation"), None, "{told}");
    greeted(&server, &headers(DEVICE, ANEW, Some(token_of(&told)))).await;
    let (status, message) = upgrade(&server, &headers(DEVICE, CLIENT, Some(&before))).await;
    assert_eq!(status, 401, "{message}");
    assert!(message.contains("revoked"), "{message}");
    assert_eq!(token_of(&boot(&server).await), "", "the former client now needs a code");
}

#[tokio::test]
async fn the_tokens_of_a_deleted_device_are_revoked() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    let before = token(&server).await;
    let camera = VisionTokens::new(&Secret::new(SECRET)).mint(DEVICE);
    let picture = async || {
        let sent = as_device(&server, Method::POST, "/vision/explain").bearer_auth(&camera);
        sent.body("no picture").send().await.unwrap().status().as_u16()
    };
    assert_eq!(picture().await, 400, "its camera is authorised, but this is no picture");
    let gone = as_admin(&server, Method::DELETE, &format!("/api/devices/{DEVICE}")).send().await;
    assert_eq!(gone.unwrap().status(), 204);
    let tool = async |token: &str| {
        let asked = as_device(&server, Method::GET, "/litemcp/none").bearer_auth(token).send();
        asked.await.unwrap().status().as_u16()
    };
    assert_eq!(
        (upgrade(&server, &headers(DEVICE, CLIENT, Some(&before))).await.0, tool(&before).await),
        (401, 403)
    );
    assert_eq!(picture().await, 401, "the token of its camera is revoked too");
    // The next client that sends an OTA request gets the id.
    let told = boot_as(&server, ANEW).await;
    let after = token_of(&told);
    assert_eq!(upgrade(&server, &headers(DEVICE, ANEW, Some(after))).await.0, 101);
    assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, Some(&before))).await.0, 401);
}

#[tokio::test]
async fn without_the_store_tokens_are_accepted_but_not_issued() {
    let vendors = Vendors::start().await;
    for binds in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let broken = tempfile::NamedTempFile::new().unwrap();
        let kept = |config: &mut hearken::config::Config| {
            guarded(config);
            config.ota.binding = binds;
            config.server.data_dir = folder.path().to_owned();
        };
        let server = TestServer::start(&vendors, kept).await;
        if binds {
            let told = boot(&server).await;
            bind(&server, told["activation"]["code"].as_str().unwrap()).await;
        }
        let before = token(&server).await;
        server.stop().await;
        let server = TestServer::start(&vendors, |config| {
            kept(config);
            let url = format!("sqlite://{}/below/a/file.db", broken.path().display());
            config.store.url = Secret::new(url);
        })
        .await;
        assert_eq!(upgrade(&server, &headers(DEVICE, CLIENT, Some(&before))).await.0, 101);
        if binds {
            let (status, message) = upgrade(&server, &headers(DEVICE, CLIENT, None)).await;
            assert_eq!(status, 503, "it is unknown if the device is bound: {message}");
            continue;
        }
        for client in [CLIENT, ANEW] {
            let told = boot_as(&server, client).await;
            assert_eq!(told["websocket"].get("token"), None, "a board retains its token: {told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_instances_know_the_client_of_a_device() {
    on(Place::postgres().await, |place| async move {
        let vendors = Vendors::start().await;
        let shared = |config: &mut hearken::config::Config| {
            guarded(config);
            config.store.url = Secret::new(place.url.clone());
        };
        let one = TestServer::start(&vendors, shared).await;
        let other = TestServer::start(&vendors, shared).await;
        let before = token(&one).await;
        assert_eq!(upgrade(&other, &headers(DEVICE, CLIENT, Some(&before))).await.0, 101);
        let told = boot_as(&other, ANEW).await;
        assert_eq!(token_of(&told), "", "{told}");
        bind(&one, told["activation"]["code"].as_str().unwrap()).await;
        let after = boot_as(&other, ANEW).await;
        assert_eq!(upgrade(&one, &headers(DEVICE, ANEW, Some(token_of(&after)))).await.0, 101);
        for server in [&one, &other] {
            assert_eq!(upgrade(server, &headers(DEVICE, CLIENT, Some(&before))).await.0, 401);
        }
        one.stop().await;
        other.stop().await;
    })
    .await;
}
