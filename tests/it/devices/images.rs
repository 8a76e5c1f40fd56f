//! Firmware images: the offer and the download. The comparison of versions is tested in its own module.

use reqwest::Method;
use serde_json::json;

use super::{as_device, boot, raw_get, read, report};
use crate::support::app::{TestServer, Vendors};

/// A server with two images for a board: the newer one is the bytes 0 to 255, forty times.
async fn serving(vendors: &Vendors) -> (TestServer, tempfile::TempDir, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let image: Vec<u8> = (0..=255).cycle().take(256 * 40).collect();
    std::fs::write(folder.path().join("bread-compact-wifi_2.1.0.bin"), &image).unwrap();
    std::fs::write(folder.path().join("bread-compact-wifi_1.9.0.bin"), "old").unwrap();
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    std::fs::create_dir(folder.path().join("folder_1.0.bin")).unwrap();
    let path = folder.path().to_owned();
    let server = TestServer::start(vendors, |config| config.ota.firmware_dir = path).await;
    (server, folder, image)
}

#[tokio::test]
async fn a_newer_image_for_the_board_is_offered_and_downloaded() {
    let vendors = Vendors::start().await;
    let (server, _folder, image) = serving(&vendors).await;
    let firmware = boot(&server).await["firmware"].clone();
    assert_eq!(firmware["version"], "2.1.0");
    let url = firmware["url"].as_str().unwrap();
    assert_eq!(url, server.http_url("/xiaozhi/ota/firmware/bread-compact-wifi_2.1.0.bin"));
    let loaded = reqwest::get(url).await.unwrap();
    assert_eq!(loaded.status(), 200);
    assert_eq!(loaded.headers()["content-length"], image.len().to_string());
    assert_eq!(loaded.bytes().await.unwrap(), image);
    for version in ["2.1.0", "2.2", "3.0.0"] {
        let asked = as_device(&server, Method::POST, "/xiaozhi/ota/").json(&report(version));
        let (_, told) = read(asked.send().await.unwrap()).await;
        assert_eq!(told["firmware"], json!({"version": version, "url": ""}));
    }
    let mut lamp = report("1.0.0");
    lamp["board"]["type"] = "lamp".into();
    let asked = as_device(&server, Method::POST, "/xiaozhi/ota/").json(&lamp);
    let (_, told) = read(asked.send().await.unwrap()).await;
    assert_eq!(told["firmware"]["url"], "", "no image of this board");
}

#[tokio::test]
async fn a_range_of_an_image_can_be_downloaded() {
    let vendors = Vendors::start().await;
    let (server, _folder, image) = serving(&vendors).await;
    let url = server.http_url("/xiaozhi/ota/firmware/bread-compact-wifi_2.1.0.bin");
    let client = reqwest::Client::new();
    let size = image.len();
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=100-299", 100, 300),
        ("bytes=10000-", 10_000, size),
        ("bytes=-40", size - 40, size),
        ("bytes=1-999999", 1, size),
    ] {
        let part = client.get(&url).header("Range", range).send().await.unwrap();
        assert_eq!(part.status(), 206, "{range}");
        let said = format!("bytes {from}-{}/{size}", to - 1);
        assert_eq!(part.headers()["content-range"], said, "{range}");
        assert_eq!(part.headers()["content-length"], (to - from).to_string(), "{range}");
        assert_eq!(part.bytes().await.unwrap(), &image[from..to], "{range}");
    }
    let beyond = client.get(&url).header("Range", "bytes=20000-").send().await.unwrap();
    assert_eq!(beyond.status(), 416);
    assert_eq!(beyond.headers()["content-range"], format!("bytes */{size}"));
    let head = client.head(&url).send().await.unwrap();
    assert_eq!(
        (head.status().as_u16(), head.headers()["content-length"].to_str().unwrap()),
        (200, "10240")
    );
}

#[tokio::test]
async fn only_images_can_be_downloaded() {
    let vendors = Vendors::start().await;
    let (server, _folder, _) = serving(&vendors).await;
    for file in [
        "secret.txt",
        "folder_1.0.bin",
        "none_1.0.bin",
        "..%2Fsecret.txt",
        "%2e%2e%2fbread-compact-wifi_2.1.0.bin",
        "../firmware/../../../etc/passwd",
        "",
    ] {
        let path = format!("/xiaozhi/ota/firmware/{file}");
        let (head, _, _) = raw_get(&server, &path, "Host: localhost\r\n").await;
        assert!(head.starts_with("http/1.1 404 "), "{file}: {head}");
    }
    let none = TestServer::start(&vendors, |_| {}).await;
    let url = none.http_url("/xiaozhi/ota/firmware/bread-compact-wifi_2.1.0.bin");
    assert_eq!(reqwest::get(url).await.unwrap().status(), 404);
}
