//! Backups of a store, restored into an empty one: either completely, and then a new backup is
//! identical, or not at all. An input is tried as it is, and as the rows of a backup with a valid
//! first and last line.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hearken_store::{BackupError, RowCounts, SqlStore};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// The target of restores; creating a store takes longer than a restore that fails.
struct Place {
    runtime: Runtime,
    /// Empty between inputs.
    store: RefCell<Rc<SqlStore>>,
    /// First line of a backup.
    header: String,
    /// Number of rows of each table of an empty store.
    counts: RowCounts,
}

impl Place {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (store, (backup, counts)) = runtime.block_on(async {
            let store = empty().await;
            let backup = back_up(&store).await;
            (store, backup)
        });
        let header = backup.lines().next().expect("a backup has a first line").to_owned();
        Self { runtime, store: RefCell::new(Rc::new(store)), header, counts }
    }

    /// A backup with these rows.
    fn around(&self, rows: &str) -> String {
        let mut counts: BTreeMap<String, u64> = self.counts.clone();
        let tables = rows.lines().filter_map(|row| serde_json::from_str::<Value>(row).ok());
        for row in tables {
            if let Some(count) = row["table"].as_str().and_then(|table| counts.get_mut(table)) {
                *count += 1;
            }
        }
        let end = json!({"end": counts});
        format!("{}\n{}\n{end}\n", self.header, rows.trim_end_matches('\n'))
    }
}

thread_local! {
    static PLACE: Place = Place::new();
}

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    PLACE.with(|place| {
        place.runtime.block_on(restore(place, bytes));
        if let Ok(rows) = std::str::from_utf8(bytes) {
            place.runtime.block_on(restore(place, place.around(rows).as_bytes()));
        }
    });
}

async fn restore(place: &Place, backup: &[u8]) {
    let store = Rc::clone(&place.store.borrow());
    let restored = put_back(&store, backup).await;
    let (told, counts) = back_up(&store).await;
    match restored {
        Err(error) => {
            assert!(!matches!(error, BackupError::NotEmpty(_) | BackupError::Missing), "{error}");
            assert_eq!(counts, place.counts, "rows were stored despite: {error}");
        }
        Ok(restored) => {
            assert_eq!(counts, restored);
            let checked = store.check(&mut |_, _| {}).await;
            assert!(checked.is_ok_and(|report| report.rows == counts));
            let fresh = empty().await;
            let again = put_back(&fresh, told.as_bytes()).await;
            assert_eq!(again.unwrap_or_else(|error| panic!("{error}")), counts);
            assert_eq!(back_up(&fresh).await.0, told);
            place.store.replace(Rc::new(empty().await));
        }
    }
}

async fn empty() -> SqlStore {
    let store = SqlStore::at("sqlite::memory:").unwrap_or_else(|error| panic!("{error}"));
    store.bring_up_to_date().await.unwrap_or_else(|error| panic!("{error}"));
    store
}

async fn put_back(store: &SqlStore, backup: &[u8]) -> Result<RowCounts, BackupError> {
    store.restore(&mut &*backup, false, &mut |_, _| {}).await
}

async fn back_up(store: &SqlStore) -> (String, RowCounts) {
    let mut text = Vec::new();
    let counts = store.back_up(&mut text, Timestamp::UNIX_EPOCH, &mut |_, _| {}).await;
    let text = String::from_utf8(text).expect("a backup is text");
    (text, counts.unwrap_or_else(|error| panic!("{error}")))
}
