//! A disk that fills up and is emptied: acknowledged data is present, refused data is not, and the
//! store continues without being reopened. Not for disks that lose acknowledged writes.

use std::path::{Path, PathBuf};

use hearken_ports::store::DeviceStore as _;
use hearken_ports::{ChatStore as _, StoreOutcome};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{id, session, turn};
use hearken_test_support::places::Place;
use hearken_test_support::{own_mounts, variable};

use super::{chat::said, old_store};

/// Environment variable with the path of the small disk.
const DISK: &str = "HEARKEN_TEST_DISK";
/// Sizes of the disk, of the filler beside the store, and of one message, in bytes.
const DISK_BYTES: usize = 12 << 20;
const FILLER_BYTES: usize = 3 << 20;
const MESSAGE_BYTES: usize = 48 << 10;
/// Number of times that the disk is filled and emptied.
const TIMES: u32 = 3;
/// Number of attempts on a full disk.
const IN_VAIN: usize = 20;
const NAME: &str = "talk";

/// Uses space on a disk: this many bytes, or all that is left.
fn fill(disk: &Path, bytes: usize) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(disk.join("filler")).unwrap();
    let zeros = [0; 4_096];
    for _ in 0..bytes / zeros.len() {
        if file.write_all(&zeros).is_err() {
            break;
        }
    }
}

fn make_room(disk: &Path) {
    std::fs::remove_file(disk.join("filler")).unwrap();
}

/// Runs a test on a small disk of its own, if it has the rights to mount one.
async fn on_a_small_disk(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} none \"${DISK}\"");
    own_mounts::run(&mount, &format!("full_disk::{test}"), &[(DISK, disk)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_no_turn() {
    on_a_small_disk("turns_on_a_small_disk").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_on_a_full_disk_leaves_the_store_as_it_was() {
    on_a_small_disk("an_upgrade_on_a_small_disk").await;
}

/// Stores turns until one is refused, and tries some more. Returns the number of refused turns.
async fn talk_until_full(store: &SqlStore, kept: &mut Vec<String>) -> usize {
    let mut refused = 0;
    while refused < IN_VAIN {
        let after = i64::try_from(kept.len()).unwrap();
        let words = [format!("{after} {}", "字".repeat(MESSAGE_BYTES / 3)), format!("{after} yes")];
        match store.keep_turn(&turn(NAME, after, after + 1, &[&words[0], &words[1]])).await {
            Ok(StoreOutcome::Kept) => kept.extend(words),
            Ok(other) => panic!("{other:?} after {after}"),
            Err(error) => {
                let why = format!("{error}: {}", error.source().expect("it has a reason"));
                assert!(why.contains("full"), "{why}");
                refused += 1;
            }
        }
        assert!(kept.len() < 10_000, "the disk does not fill up");
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other test runs it, on a small disk"]
async fn turns_on_a_small_disk() {
    let Some(disk) = variable(DISK).map(PathBuf::from) else { return };
    let store = SqlStore::file(&disk.join("hearken.db")).unwrap();
    store.create(&session(NAME), "").await.unwrap();
    let mut kept = Vec::new();
    for time in 0..TIMES {
        fill(&disk, FILLER_BYTES);
        let refused = talk_until_full(&store, &mut kept).await;
        assert!(kept.len() >= 20, "{} messages fit, round {time}", kept.len());
        assert_eq!(said(&store, NAME).await, kept, "read on a full disk, round {time}");
        assert!(store.check_usable().await.is_err(), "it is not usable");
        // A server that starts now finds the same content.
        let other = SqlStore::file(&disk.join("hearken.db")).unwrap();
        assert_eq!(said(&other, NAME).await, kept);
        other.shut().await;
        make_room(&disk);
        let after = i64::try_from(kept.len()).unwrap();
        let outcome = store.keep_turn(&turn(NAME, after, after + 1, &["room", "again"])).await;
        assert_eq!(outcome.unwrap(), StoreOutcome::Kept, "without being reopened");
        kept.extend(["room".to_owned(), "again".to_owned()]);
        assert_eq!(store.check(&mut |_, _| ()).await.unwrap().faults, [""; 0]);
        eprintln!("full disk {time}: {} messages stored, {refused} turns refused", kept.len());
        if time + 1 < TIMES {
            empty(&store, &mut kept).await;
        }
    }
    store.shut().await;
    let store = SqlStore::file(&disk.join("hearken.db")).unwrap();
    assert_eq!(said(&store, NAME).await, kept);
    store.shut().await;
}

/// Deletes the session and creates it again, which frees its pages.
async fn empty(store: &SqlStore, kept: &mut Vec<String>) {
    use hearken_proto::chat::ChatStatus::{Active, Deleted};
    let time = jiff::Timestamp::UNIX_EPOCH;
    store.set_status(&id(NAME), &[Active], Deleted, time, None).await.unwrap().unwrap();
    assert!(store.purge(&id(NAME)).await.unwrap());
    store.create(&session(NAME), "").await.unwrap();
    kept.clear();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the other test runs it, on a small disk"]
async fn an_upgrade_on_a_small_disk() {
    let Some(disk) = variable(DISK).map(PathBuf::from) else { return };
    let mut place = Place::memory();
    place.url = format!("sqlite://{}/hearken.db", disk.display());
    old_store::load(&place).await;
    let before = old_store::dump(&place).await;
    let store = SqlStore::at(&place.url).unwrap();
    fill(&disk, DISK_BYTES);
    for _ in 0..3 {
        let error = store.upgrade().await.unwrap_err();
        let why = std::error::Error::source(&error).expect("it has a reason").to_string();
        eprintln!("on a full disk: {error}: {why}");
        assert!(why.contains("hearken.db is full: free some space"), "{why}");
    }
    make_room(&disk);
    assert_eq!(old_store::dump(&place).await, before);
    store.upgrade().await.unwrap();
    store.check_usable().await.unwrap();
    assert_eq!(store.check(&mut |_, _| ()).await.unwrap().faults, [""; 0]);
    store.shut().await;
}
