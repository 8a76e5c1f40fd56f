//! Upgrades that fail: the store is unchanged, the error names the obstacle, and the next attempt
//! succeeds once it is removed. Not for a full disk, see `full_disk`.

use std::error::Error as _;
use std::sync::Arc;

use hearken_ports::store::{DeviceStore as _, StoreError, StoreErrorKind};
use hearken_store::SqlStore;
use hearken_test_support::places::Place;

use super::old_store::{self, dump, execute, kind};
use super::{on_every_store, open};

on_every_store!(
    a_failed_upgrade_leaves_the_store_as_it_was,
    an_upgrade_waits_for_another_in_progress,
    a_store_that_another_program_changed_is_left_alone,
);

/// Obstacle to an upgrade: the statement that adds it, the one that removes it, and parts of the
/// expected error.
struct Obstacle {
    put: &'static str,
    remove: &'static str,
    said: [&'static str; 2],
}

fn obstacles(kind: &str) -> Vec<Obstacle> {
    let mut all = vec![
        Obstacle {
            put: "CREATE TABLE tool_pins (content TEXT)",
            remove: "DROP TABLE tool_pins",
            said: ["migration 8 failed", "tool_pins"],
        },
        Obstacle {
            put: "CREATE TABLE chat_pending_events (content TEXT)",
            remove: "DROP TABLE chat_pending_events",
            said: ["migration 10 failed", "chat_pending_events"],
        },
        Obstacle {
            put: "CREATE TABLE person_voices (content TEXT)",
            remove: "DROP TABLE person_voices",
            said: ["migration 11 failed", "person_voices"],
        },
        Obstacle {
            put: "CREATE TABLE history_sounds (content TEXT)",
            remove: "DROP TABLE history_sounds",
            said: ["migration 12 failed", "history_sounds"],
        },
        Obstacle {
            put: "CREATE TABLE role_versions (content TEXT)",
            remove: "DROP TABLE role_versions",
            said: ["migration 13 failed", "role_versions"],
        },
        Obstacle {
            put: "CREATE TABLE daily_usage (content TEXT)",
            remove: "DROP TABLE daily_usage",
            said: ["migration 14 failed", "daily_usage"],
        },
        Obstacle {
            put: "CREATE TABLE tool_tokens (content TEXT)",
            remove: "DROP TABLE tool_tokens",
            said: ["migration 15 failed", "tool_tokens"],
        },
    ];
    all.push(if kind == "sqlite" {
        Obstacle {
            put: "CREATE TRIGGER obstacle BEFORE UPDATE ON chat_sessions \
                  BEGIN SELECT RAISE(ABORT, 'not permitted'); END",
            remove: "DROP TRIGGER obstacle",
            said: ["migration 9 failed", "not permitted"],
        }
    } else {
        Obstacle {
            put: "CREATE FUNCTION obstacle() RETURNS trigger LANGUAGE plpgsql AS \
                  $$ BEGIN RAISE EXCEPTION 'not permitted'; END $$; \
                  CREATE TRIGGER obstacle BEFORE UPDATE ON chat_sessions \
                  FOR EACH ROW EXECUTE FUNCTION obstacle()",
            remove: "DROP FUNCTION obstacle CASCADE",
            said: ["migration 9 failed", "not permitted"],
        }
    });
    all
}

/// Checks that an error contains these words and the store's name, but no password.
fn reports(error: &StoreError, words: &[&str]) {
    let told = format!("{error}: {}", error.source().expect("it has a reason"));
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert!(!told.contains("hidden-word"), "{told}");
}

/// Returns the address with a password, on a server that requires none, and the store's name in
/// errors.
fn with_password(place: &Place) -> (String, String) {
    if kind(&place.url) == "sqlite" {
        return (place.url.clone(), place.url.trim_start_matches("sqlite://").to_owned());
    }
    let named = place.url.replacen("postgresql:", "postgres:", 1);
    (place.url.replacen('@', ":hidden-word@", 1), named)
}

async fn a_failed_upgrade_leaves_the_store_as_it_was(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    old_store::load(&place).await;
    let original = dump(&place).await;
    let (url, name) = with_password(&place);
    let store = SqlStore::at(&url).unwrap();
    for Obstacle { put, remove, said } in obstacles(kind(&place.url)) {
        execute(&place, put).await;
        let before = dump(&place).await;
        for _ in 0..2 {
            let error = store.upgrade().await.unwrap_err();
            assert_eq!(error.kind, StoreErrorKind::Upgrade);
            reports(&error, &[said[0], said[1], &name, "version 7", "remove the cause"]);
            reports(&store.check_usable().await.unwrap_err(), &said);
        }
        assert_eq!(dump(&place).await, before, "{put}");
        execute(&place, remove).await;
        assert_eq!(dump(&place).await, original, "{put}");
    }
    store.upgrade().await.unwrap();
    store.check_usable().await.unwrap();
    assert_eq!(store.version().await.unwrap(), Some(17));
    assert_eq!(store.devices("", 9).await.unwrap().devices.len(), 3);
    store.shut().await;
}

/// Another server is upgrading: it holds the locks, and has done half of it.
async fn an_upgrade_waits_for_another_in_progress(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    old_store::load(&place).await;
    let pool = old_store::connect(&place).await;
    let mut other = pool.acquire().await.unwrap();
    let begin = if kind(&place.url) == "sqlite" {
        "BEGIN IMMEDIATE; CREATE TABLE half (n INTEGER)"
    } else {
        "BEGIN; SELECT pg_advisory_xact_lock(29384866783782254); CREATE TABLE half (n INTEGER)"
    };
    sqlx::raw_sql(begin).execute(&mut *other).await.unwrap();
    let store = open(&place);
    let error = store.upgrade().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unavailable, "the upgrade can be retried: {error:?}");
    // A patient store waits until the other upgrade has ended; its rollback removes the half-done
    // work.
    let patient = SqlStore::patient(&place.url, "/nowhere".as_ref()).unwrap();
    let (upgraded, ()) = tokio::join!(patient.upgrade(), async {
        sqlx::raw_sql("ROLLBACK").execute(&mut *other).await.unwrap();
    });
    assert_eq!(upgraded.unwrap(), Some(7));
    assert!(!dump(&place).await.iter().any(|line| line.contains("half")));
    store.check_usable().await.unwrap();
    drop(other);
    for store in [store, patient] {
        store.shut().await;
    }
}

async fn a_store_that_another_program_changed_is_left_alone(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    old_store::load(&place).await;
    execute(&place, "UPDATE _sqlx_migrations SET checksum = 'x' WHERE version = 7").await;
    let before = dump(&place).await;
    let error = open(&place).upgrade().await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Upgrade);
    reports(&error, &["another program", "migration 7", &with_password(&place).1]);
    assert_eq!(dump(&place).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_written_is_left_as_it_is() {
    let place = Place::file();
    old_store::load(&place).await;
    let before = dump(&place).await;
    let store = SqlStore::at(&format!("{}?mode=ro", place.url)).unwrap();
    let error = store.upgrade().await.unwrap_err();
    reports(&error, &["readonly", &with_password(&place).1]);
    store.shut().await;
    assert_eq!(dump(&place).await, before);
    let store = open(&place);
    store.upgrade().await.unwrap();
    store.check_usable().await.unwrap();
    store.shut().await;
}
