//! A backup over HTTP: complete, restorable, and for administrators only. Not for its rows.

use hearken_test_support::eventually;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{Admin, ask, log_in};
use crate::support::app::Vendors;
use crate::support::command::hearken;

#[tokio::test]
async fn a_downloaded_backup_can_be_restored() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let admin = Admin::start(&vendors, |config| config.server.data_dir.clone_from(&data)).await;
    admin.set(json!({"llm.model": "the model of the backup"})).await;
    let url = admin.server.http_url("/api/admin/backup");
    let asked = Client::new().get(&url).bearer_auth(&admin.token).send().await.unwrap();
    assert_eq!(asked.status(), 200);
    let header = |name: &str| asked.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "application/x-ndjson");
    assert!(header("content-disposition").starts_with("attachment; filename=\"hearken-"));
    let told = asked.text().await.unwrap();
    assert!(told.lines().last().unwrap().starts_with("{\"end\":"), "{told}");
    assert!(told.contains("the model of the backup"), "{told}");
    let left: Vec<_> = std::fs::read_dir(&data).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("part")), "{left:?}");

    let file = folder.path().join("hearken.backup");
    std::fs::write(&file, &told).unwrap();
    let restored = folder.path().join("restored");
    let (code, _, said) = hearken(&restored, &["store", "restore", file.to_str().unwrap()]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(admin.get("/audit").await.to_string().contains("backup downloaded"));
}

#[tokio::test]
async fn a_client_that_resumes_a_download_gets_a_whole_backup() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let url = admin.server.http_url("/api/admin/backup");
    for range in ["bytes=100-", "bytes=0-9", "bytes=-5", "bytes=999999999-"] {
        let asked = Client::new().get(&url).bearer_auth(&admin.token).header("Range", range);
        let told = asked.send().await.unwrap();
        assert_eq!(told.status(), 200, "{range}");
        for header in ["accept-ranges", "content-range", "etag", "last-modified"] {
            assert!(!told.headers().contains_key(header), "{range}: {header}");
        }
        let length = told.headers()["content-length"].to_str().unwrap().parse::<usize>().unwrap();
        let told = told.text().await.unwrap();
        assert_eq!(told.len(), length, "{range}");
        assert!(told.lines().last().unwrap().starts_with("{\"end\":"), "{range}: {told}");
    }
}

#[tokio::test]
async fn backups_are_for_administrators_and_run_one_at_a_time() {
    let vendors = Vendors::start().await;
    let admin = Admin::start(&vendors, |_| {}).await;
    let body = json!({"name": "anna", "right": "member", "password": "a password of anna"});
    assert_eq!(ask(&admin.server, Method::POST, "/api/accounts", &admin.token, body).await.0, 201);
    let (_, pair) = log_in(&admin.server, "anna", "a password of anna").await;
    let token = pair["access_token"].as_str().unwrap();
    let path = "/api/admin/backup";
    assert_eq!(ask(&admin.server, Method::GET, path, token, Value::Null).await.0, 403);
    let all = (0..8).map(|_| ask(&admin.server, Method::GET, path, &admin.token, Value::Null));
    let told = futures_util::future::join_all(all).await;
    let codes: Vec<_> = told.iter().map(|(code, _)| *code).collect();
    assert!(
        codes.contains(&200) && codes.iter().all(|code| [200, 409].contains(code)),
        "{codes:?}"
    );
    eventually("the next one works", async || {
        let (code, _) = ask(&admin.server, Method::GET, path, &admin.token, Value::Null).await;
        (code == 200).then_some(())
    })
    .await;
}
