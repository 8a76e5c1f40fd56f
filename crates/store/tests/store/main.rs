//! The store: one contract for each port, run on a SQLite file, on SQLite in memory and on a real
//! PostgreSQL; backups and checks. Not for its use by servers, nor for `hearken store`.
//!
//! PostgreSQL is the server that `HEARKEN_TEST_POSTGRES` names; `scripts/services` starts one.
//! Without it those tests are skipped.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod backup;
mod backup_under_load;
mod chat;
mod chat_owners;
mod devices;
mod earlier_versions;
mod failed_upgrades;
mod faults;
mod full_disk;
mod history;
mod killed;
mod migrations;
mod moved_file;
mod museum;
mod name_resolution;
mod old_store;
mod pending_events;
mod people;
mod power_loss;
mod requests;
mod roles;
mod sessions;
mod settings;
mod sync_errors;
mod tls;
mod tools;
mod usage;

use std::time::Duration;

use hearken_store::SqlStore;
use hearken_test_support::places::Place;

/// Runs each of these tests on every kind of store.
macro_rules! on_every_store {
    ($($test:ident),+ $(,)?) => {
        $(
            mod $test {
                use hearken_test_support::places::{Place, on};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn in_memory() {
                    on(Some(Place::memory()), super::$test).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn in_a_file() {
                    on(Some(Place::file()), super::$test).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_postgres() {
                    on(Place::postgres().await, super::$test).await;
                }
            }
        )+
    };
}
use on_every_store;

const HOUR: Duration = Duration::from_secs(3_600);

fn open(place: &Place) -> SqlStore {
    SqlStore::at(&place.url).unwrap()
}
