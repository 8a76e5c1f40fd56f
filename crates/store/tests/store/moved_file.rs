//! A store whose file is moved away, replaced and restored while it is open: it reports this,
//! creates no second file and loses nothing. Not for files that cannot be written.

use hearken_ports::ChatStore as _;
use hearken_ports::store::{DeviceStore as _, StoreError, StoreErrorKind};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{id, session};

fn why(error: &StoreError) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

/// Creates sessions concurrently, so that the store opens all its connections.
async fn create_many(store: &SqlStore, name: &str) {
    let names: Vec<String> = (0..32).map(|number| format!("{name}-{number}")).collect();
    let created = names.iter().map(async |name| {
        // A new connection finds no file.
        drop(store.create(&session(name), "").await);
        drop(store.session(&id(name)).await);
    });
    futures_util::future::join_all(created).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moved_file_is_reported_and_not_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hearken.db");
    let aside = folder.path().join("aside.db");
    let store = SqlStore::file(&file).unwrap();
    store.create(&session("kept"), "").await.unwrap();
    store.check_usable().await.unwrap();

    std::fs::rename(&file, &aside).unwrap();
    create_many(&store, "away").await;
    assert!(!file.exists(), "a new empty store would hide the old one");
    let error = store.check_usable().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable);
    assert!(why(&error).contains("hearken.db is gone"), "{}", why(&error));

    std::fs::copy(&aside, &file).unwrap();
    let error = store.check_usable().await.unwrap_err();
    assert!(why(&error).contains("not the file that was opened"), "{}", why(&error));

    std::fs::rename(&aside, &file).unwrap();
    store.check_usable().await.unwrap();
    create_many(&store, "back").await;
    for name in ["kept", "back-0", "back-31"] {
        assert!(store.session(&id(name)).await.unwrap().is_some(), "{name}");
    }
    store.shut().await;
}
