//! OTA responses at boot: acceptance checks 1 and 2, and failures.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::{DEVICE, as_device, boot, guarded, raw_get, read, report};
use crate::support::app::{TestServer, Vendors};

/// Longest response on a busy machine. Firmware waits longer; what it takes is measured in benches.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn check_01_both_methods_and_paths_answer_without_mqtt_or_redirect() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, guarded).await;
    for path in ["/xiaozhi/ota/", "/xiaozhi/ota"] {
        for method in [Method::POST, Method::GET] {
            let begun = Instant::now();
            let mut asked = as_device(&server, method.clone(), path);
            if method == Method::POST {
                asked = asked.json(&report("2.0.0"));
            }
            let answer = asked.send().await.unwrap();
            let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
            let (status, told) = read(answer).await;
            assert_eq!((status, kind.as_str()), (200, "application/json"), "{method} {path}");
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            assert!(told.get("mqtt").is_none() && told.get("activation").is_none(), "{told}");
            assert_eq!(told["firmware"], json!({"version": "2.0.0", "url": ""}));
            let websocket = &told["websocket"];
            assert_eq!(websocket["url"], server.device_url());
            assert_eq!(websocket["version"], 1);
            assert!(websocket["token"].as_str().unwrap().len() > 40, "{told}");
        }
    }
}

#[tokio::test]
async fn check_02_the_time_is_in_milliseconds_and_the_version_is_the_devices_own() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.ota.timezone = "Asia/Kathmandu".into();
    })
    .await;
    let now_ms = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        i64::try_from(since.unwrap().as_millis()).unwrap()
    };
    let before = now_ms();
    let told = boot(&server).await;
    let timestamp = told["server_time"]["timestamp"].as_i64().unwrap();
    assert!((before..=now_ms()).contains(&timestamp), "{told}");
    assert_eq!(told["server_time"]["timezone_offset"], 345, "Nepal is 5:45 h ahead");
    for version in ["2.4.2", "1.6.0", "2.0.0-rc1", "7"] {
        let asked = as_device(&server, Method::POST, "/xiaozhi/ota/").json(&report(version));
        let (_, told) = read(asked.send().await.unwrap()).await;
        assert_eq!(told["firmware"], json!({"version": version, "url": ""}));
    }
    // Firmware throws on versions such as these, and it would parse the version in our response.
    for version in ["v2.0", "nightly", "1..2"] {
        let asked = as_device(&server, Method::POST, "/xiaozhi/ota/").json(&report(version));
        let (status, told) = read(asked.send().await.unwrap()).await;
        assert_eq!((status, told.get("firmware")), (200, None), "{version}");
    }
}

#[tokio::test]
async fn the_websocket_url_has_the_host_of_the_request() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        config.http.host_names = vec!["hearken.local".into(), "voice.lan".into()];
    })
    .await;
    let port = server.address.port();
    let ids = format!("Device-Id: {DEVICE}\r\n");
    for (headers, url) in [
        // As firmware sends it, without the port.
        ("Host: 127.0.0.1\r\n".to_owned(), format!("ws://127.0.0.1:{port}/xiaozhi/v1/")),
        ("Host: hearken.local\r\n".to_owned(), format!("ws://hearken.local:{port}/xiaozhi/v1/")),
        ("Host: voice.lan:81\r\n".to_owned(), "ws://voice.lan:81/xiaozhi/v1/".to_owned()),
        (
            "Host: voice.lan:81\r\nX-Forwarded-Host: evil\r\n".to_owned(),
            "ws://voice.lan:81/xiaozhi/v1/".to_owned(),
        ),
    ] {
        let (_, told, _) = raw_get(&server, "/xiaozhi/ota/", &format!("{headers}{ids}")).await;
        assert_eq!(told["websocket"]["url"], url, "{headers}");
        assert_eq!(told["websocket"]["token"], "", "none is needed on a loopback address");
    }
    let proxied = TestServer::start(&vendors, |config| config.ota.trust_proxy = true).await;
    let headers =
        "Host: localhost\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: voice.example.com\r\n";
    let (_, told, _) = raw_get(&proxied, "/xiaozhi/ota/", &format!("{headers}{ids}")).await;
    assert_eq!(told["websocket"]["url"], "wss://voice.example.com/xiaozhi/v1/");
    let fixed = TestServer::start(&vendors, |config| {
        config.ota.websocket_url = "wss://fixed.example.com/xiaozhi/v1/".into();
    })
    .await;
    let told = boot(&fixed).await;
    assert_eq!(told["websocket"]["url"], "wss://fixed.example.com/xiaozhi/v1/");
}

#[tokio::test]
async fn headers_suffice_and_errors_name_what_is_missing() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |_| {}).await;
    for body in ["", "{", "[1]", "\"x\"", "{\"application\":5}", "\u{0}\u{1}"] {
        let asked = as_device(&server, Method::POST, "/xiaozhi/ota/").body(body.to_owned());
        let (status, told) = read(asked.send().await.unwrap()).await;
        assert_eq!((status, &told["firmware"]["version"]), (200, &json!("2.0.0")), "{body:?}");
    }
    let client = reqwest::Client::new();
    let url = server.http_url("/xiaozhi/ota/?device-id=browser");
    let (status, told) = read(client.get(url).send().await.unwrap()).await;
    assert_eq!((status, &told["firmware"]), (200, &json!({"version": "0.0.0", "url": ""})));
    // A page of another site can make a browser send this request: nothing is stored.
    let listed = client.get(server.http_url("/api/devices")).send().await.unwrap();
    let listed = listed.text().await.unwrap();
    assert!(listed.contains(DEVICE) && !listed.contains("browser"), "{listed}");
    // A browser that opens the address.
    let seen = client.get(server.http_url("/xiaozhi/ota/")).send().await.unwrap();
    assert_eq!(seen.headers()["content-type"], "text/plain; charset=utf-8");
    assert!(seen.text().await.unwrap().contains(&server.device_url()));
    for (case, asked, status, about) in [
        ("no id", client.post(server.http_url("/xiaozhi/ota/")), 400, "Device-Id"),
        ("a bar", client.post(server.http_url("/xiaozhi/ota/?device-id=a|b")), 400, "Device-Id"),
        (
            "a foreign host name",
            as_device(&server, Method::POST, "/xiaozhi/ota/").header("Host", "a b"),
            403,
            "http.host_names",
        ),
        (
            "large",
            as_device(&server, Method::POST, "/xiaozhi/ota/").body("x".repeat(70_000)),
            413,
            "65536 bytes",
        ),
        ("activation", client.post(server.http_url("/xiaozhi/ota/activate")), 400, "Device-Id"),
        ("put", client.put(server.http_url("/xiaozhi/ota/")), 405, "GET or POST"),
    ] {
        let (got, told) = read(asked.send().await.unwrap()).await;
        assert_eq!(got, status, "{case}: {told}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.contains(about), "{case}: {message}");
    }
}

#[tokio::test]
async fn only_listed_devices_get_an_ota_response() {
    let vendors = Vendors::start().await;
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.auth.allowed_devices = vec![DEVICE.to_uppercase().replace("00", "0A")];
    })
    .await;
    for path in ["/xiaozhi/ota/", "/xiaozhi/ota/activate"] {
        let (status, told) =
            read(as_device(&server, Method::POST, path).send().await.unwrap()).await;
        assert_eq!((status, &told["error"]["code"]), (403, &json!("FORBIDDEN")), "{told}");
    }
    let asked = reqwest::Client::new().post(server.http_url("/xiaozhi/ota/"));
    let asked = asked.header("Device-Id", DEVICE.replace("00", "0a"));
    let (status, told) = read(asked.send().await.unwrap()).await;
    assert_eq!((status, told["websocket"]["token"].is_string()), (200, true));
}

#[tokio::test]
async fn ota_works_without_the_store_unless_binding_is_required() {
    let vendors = Vendors::start().await;
    let broken = tempfile::NamedTempFile::new().unwrap();
    let url = format!("sqlite://{}/below/a/file.db", broken.path().display());
    let url = hearken_base::Secret::new(url);
    let server = TestServer::start(&vendors, |config| config.store.url = url.clone()).await;
    let told: Value = boot(&server).await;
    assert_eq!(told["websocket"]["url"], server.device_url());
    let strict = TestServer::start(&vendors, |config| {
        super::binding(config);
        config.store.url = url;
    })
    .await;
    for path in ["/xiaozhi/ota/", "/xiaozhi/ota/activate"] {
        let answer = as_device(&strict, Method::POST, path).send().await.unwrap();
        assert!(answer.headers().contains_key("retry-after"), "{path}");
        let (status, told) = read(answer).await;
        assert_eq!((status, &told["error"]["code"]), (503, &json!("UNAVAILABLE")), "{told}");
    }
    // The store becomes available again.
    let path = broken.into_temp_path();
    std::fs::remove_file(&path).unwrap();
    let told = boot(&strict).await;
    assert!(told["activation"]["code"].is_string(), "{told}");
    strict.stop().await;
    std::fs::remove_dir_all(&path).unwrap();
}
