//! `hearken devices` and `hearken token` as command lines.

use hearken::config::AuthRequired;
use hearken_base::Secret;
use reqwest::Method;
use serde_json::Value;

use super::{CLIENT, DEVICE, as_admin, boot, guarded, headers, upgrade};
use crate::support::app::{TestServer, Vendors};
use crate::support::command::hearken;

#[tokio::test]
async fn a_device_is_bound_named_listed_and_forgotten_by_command() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        config.auth.required = AuthRequired::Always;
        config.ota.binding = true;
        config.server.data_dir = folder.path().to_owned();
    })
    .await;
    let url = server.http_url("");
    let run = async |args: &[&str]| {
        let args = [&["devices", "--url", &url], args].concat();
        let (code, out, err) = hearken(folder.path(), &args).await;
        (code, if code == Some(0) { out } else { err })
    };
    assert_eq!(run(&[]).await, (Some(0), "no devices yet\n".into()));
    let told = boot(&server).await;
    let code = told["activation"]["code"].as_str().unwrap();
    let bound = run(&["bind", code, "--name", "kitchen"]).await;
    assert_eq!(bound, (Some(0), format!("bound {DEVICE}\n")));
    let (_, list) = run(&["list"]).await;
    let mut lines = list.lines();
    assert!(lines.next().unwrap().starts_with("DEVICE"), "{list}");
    let line = lines.next().unwrap();
    for part in [DEVICE, "kitchen", "bread-compact-wifi", "2.0.0", "bound"] {
        assert!(line.contains(part), "{part}: {list}");
    }
    let renamed = run(&["rename", DEVICE, "living room"]).await;
    assert_eq!(renamed, (Some(0), format!("renamed {DEVICE}\n")));
    let assigned = run(&["assign", DEVICE, "--agent", "kitchen"]).await;
    assert_eq!(assigned, (Some(0), format!("assigned {DEVICE}\n")));
    let (_, json) = run(&["list", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["name"], &json[0]["agent"]), (&"living room".into(), &"kitchen".into()));
    let (code, told) = run(&["say", DEVICE, "hello"]).await;
    assert_eq!(code, Some(2));
    assert_eq!(told, format!("hearken: the device is not connected: {DEVICE}\n"));
    let (code, told) = run(&["custom", DEVICE, "{"]).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("the payload must be a JSON object"), "{told}");
    for args in [&["reboot", DEVICE][..], &["close", DEVICE], &["custom", DEVICE, "{}"]] {
        let (code, told) = run(args).await;
        assert_eq!(code, Some(2), "{args:?}");
        assert!(told.contains("the device is not connected"), "{args:?}: {told}");
    }
    assert_eq!(run(&["forget", DEVICE]).await, (Some(0), "forgotten\n".into()));
    let (code, told) = run(&["forget", DEVICE]).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("no such device"), "{told}");
    let key = folder.path().join("key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    let provisioned = run(&["provision", "SN-1", key.to_str().unwrap()]).await;
    assert_eq!(provisioned, (Some(0), "provisioned\n".into()));
    assert_eq!(run(&["unprovision", "SN-1"]).await, (Some(0), "key forgotten\n".into()));
}

#[tokio::test]
async fn the_admin_token_is_required_and_may_come_from_a_file() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        config.auth.required = AuthRequired::Always;
        config.server.data_dir = folder.path().to_owned();
    })
    .await;
    let url = server.http_url("");
    let elsewhere = tempfile::tempdir().unwrap();
    let (code, _, told) = hearken(elsewhere.path(), &["devices", "--url", &url]).await;
    assert_eq!(code, Some(2));
    assert!(
        told.contains("the admin token is missing") && told.contains("--admin-token"),
        "{told}"
    );
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "no token was created");
    let file = folder.path().join("admin_token");
    let args = ["devices", "--url", &url, "--admin-token-file", file.to_str().unwrap()];
    assert_eq!(hearken(elsewhere.path(), &args).await.0, Some(0));
}

#[tokio::test]
async fn the_error_for_an_unreachable_server_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}", hearken_test_support::free_port());
    let (code, _, told) = hearken(folder.path(), &["devices", "--url", &url]).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("is the server running there? (--url)"), "{told}");
    let (code, _, told) = hearken(folder.path(), &["devices", "--url", "nonsense"]).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("use http://HOST:PORT"), "{told}");
}

#[tokio::test]
async fn a_printed_token_admits_its_device() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        config.auth.required = AuthRequired::Always;
        config.server.data_dir = folder.path().to_owned();
    })
    .await;
    let upper = DEVICE.to_uppercase();
    let args = ["token", "--device-id", &upper, "--client-id", CLIENT, "--days", "1"];
    let (code, token, err) = hearken(folder.path(), &args).await;
    assert_eq!(code, Some(0), "{err}");
    let (status, message) = upgrade(&server, &headers(DEVICE, CLIENT, Some(token.trim()))).await;
    assert_eq!(status, 101, "{message}");
    let args = ["token", "--device-id", "x", "--days", "31"];
    let (code, _, told) = hearken(folder.path(), &args).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("--days must be 1 to 30"), "{told}");
}

#[tokio::test]
async fn no_token_is_printed_that_counts_as_revoked() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.auth.secret = Secret::default();
        config.server.data_dir = folder.path().to_owned();
    })
    .await;
    let path = format!("/api/devices/{DEVICE}/tokens");
    let revoked = as_admin(&server, Method::DELETE, &path).send().await.unwrap();
    assert_eq!(revoked.status(), 204);
    let upper = DEVICE.to_uppercase();
    let args = ["token", "--device-id", &upper, "--client-id", CLIENT];
    let (code, out, told) = hearken(folder.path(), &[&args[..], &["--days", "1"]].concat()).await;
    assert_eq!((code, out.as_str()), (Some(2), ""), "{told}");
    assert!(told.contains("were revoked less than 29 days ago"), "{told}");
    // At once after the revocation, too.
    let (code, token, told) = hearken(folder.path(), &args).await;
    assert_eq!(code, Some(0), "{told}");
    let (status, message) = upgrade(&server, &headers(DEVICE, CLIENT, Some(token.trim()))).await;
    assert_eq!(status, 101, "{message}");
    server.stop().await;
}
