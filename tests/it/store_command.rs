//! `hearken store` as a command line.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hearken_ports::ChatStore as _;
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{session, turn};

use crate::support::command::hearken;

async fn run(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    hearken(folder, &[&["store"], args].concat()).await
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_store_is_created_checked_backed_up_and_restored_by_command() {
    let folder = tempfile::tempdir().unwrap();
    let one = folder.path().join("one");
    let two = folder.path().join("two");
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let file = out.join("all.backup");
    let name = file.to_str().unwrap();
    let missing = "hearken: there is no store yet: run `hearken store migrate` to create it\n";
    assert_eq!(run(&one, &["check"]).await, (Some(2), String::new(), missing.into()));
    let (code, _, told) = run(&one, &["backup", name]).await;
    assert_eq!((code, told.contains("there is no store yet")), (Some(2), true), "{told}");
    assert!(names(&out).is_empty() && !one.exists());
    let made = "created the tables: version 17\n".to_owned();
    assert_eq!(run(&one, &["migrate"]).await, (Some(0), made, String::new()));
    let known = "the store is up to date: version 17\n".to_owned();
    assert_eq!(run(&one, &["migrate"]).await, (Some(0), known, String::new()));
    let empty = "no faults found: nothing, the store is empty\n".to_owned();
    assert_eq!(run(&one, &["check"]).await, (Some(0), empty, String::new()));

    let store = SqlStore::file(&one.join("hearken.db")).unwrap();
    store.create(&session("a"), "").await.unwrap();
    store.keep_turn(&turn("a", 0, 1, &["hello", "hi"])).await.unwrap();
    let rows = "2 chat_messages, 4 chat_people, 1 chat_sessions";
    std::fs::write(&file, "of yesterday").unwrap();
    let done = (Some(0), String::new(), format!("backed up {rows}\n"));
    assert_eq!(run(&one, &["backup", name]).await, done);
    assert_eq!(names(&out), ["all.backup"], "no other file is left");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, printed, _) = run(&one, &["backup", "-"]).await;
    assert_eq!((code, printed.lines().count()), (Some(0), 9));

    let done = (Some(0), String::new(), format!("restored {rows}\n"));
    assert_eq!(run(&two, &["restore", name]).await, done);
    let (code, _, told) = run(&two, &["restore", name]).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("not empty") && told.contains("--replace"), "{told}");
    let (code, printed, told) = run(&two, &["restore", "--replace", name]).await;
    assert_eq!((code, printed), (done.0, done.1));
    assert!(told.starts_with(&done.2) && told.contains("restart every server"), "{told}");
    let all = format!("no faults found: {rows}\n");
    assert_eq!(run(&two, &["check"]).await, (Some(0), all, String::new()));
    store.shut().await;
}

#[tokio::test]
async fn faults_are_reported_with_their_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.backup");
    let (code, _, told) = run(folder.path(), &["restore", file.to_str().unwrap()]).await;
    assert_eq!(code, Some(2));
    assert!(told.starts_with(&format!("hearken: cannot read {}", file.display())), "{told}");
    std::fs::write(&file, "hello\n").unwrap();
    let (code, _, told) = run(folder.path(), &["restore", file.to_str().unwrap()]).await;
    assert_eq!(code, Some(2));
    let why = "line 1: this is no backup of `hearken store backup`";
    assert_eq!(told, format!("hearken: {}: {why}\n", file.display()));
    let nowhere = folder.path().join("none/x.backup");
    assert_eq!(run(folder.path(), &["migrate"]).await.0, Some(0));
    let (code, _, told) = run(folder.path(), &["backup", nowhere.to_str().unwrap()]).await;
    assert_eq!(code, Some(2));
    assert!(told.contains("cannot write"), "{told}");

    let store = SqlStore::file(&folder.path().join("hearken.db")).unwrap();
    store.create(&session("a"), "").await.unwrap();
    store.keep_turn(&turn("a", 0, 1, &["hello", "hi"])).await.unwrap();
    assert!(store.session(&SessionId::new("a")).await.unwrap().is_some());
    let url = format!("sqlite://{}", folder.path().join("hearken.db").display());
    let pool = sqlx::any::AnyPoolOptions::new().connect(&url).await.unwrap();
    sqlx::query("DELETE FROM chat_messages WHERE number = 1").execute(&pool).await.unwrap();
    pool.close().await;
    store.shut().await;
    let (code, printed, _) = run(folder.path(), &["check"]).await;
    assert_eq!(code, Some(1));
    assert!(
        printed.contains("a should have 2 messages and has 1, the last of number 2"),
        "{printed}"
    );
    let (_, help, _) = run(folder.path(), &["--help"]).await;
    assert!(help.contains("Examples:") && help.contains("DATABASE_URL"), "{help}");
}
