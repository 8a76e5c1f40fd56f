//! Durability of a file on power loss: the system calls of a process that stores turns are
//! recorded, and no turn is acknowledged before all its writes have been synced to the disk. Not
//! for processes that are killed, whose writes survive in the machine.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::process::Stdio;

use hearken_ports::ChatStore as _;
use hearken_ports::store::DeviceStore as _;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::session;
use hearken_test_support::places::Place;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::killed::{NAME, STORE};

/// Turns that are recorded: enough that the write-ahead log is also copied into the file.
const TURNS: usize = 150;
/// Further turns, of which strace may not have written all calls when it is killed.
const MORE: usize = 10;

/// Files with writes that are not yet synced, updated from the recorded calls line by line.
#[derive(Default)]
struct Disk {
    unsynced: HashSet<String>,
    /// Files that a thread is syncing, by thread.
    syncing: HashMap<String, String>,
    written: HashSet<String>,
    acknowledged: usize,
    syncs: usize,
}

impl Disk {
    /// Reads one line, such as `17 fdatasync(9</folder/hearken.db-wal>) = 0`.
    fn read(&mut self, line: &str) {
        let Some((thread, call)) = line.split_once(' ') else { return };
        let call = call.trim_start();
        if call.contains("\"kept ") {
            self.acknowledged += 1;
            assert!(self.unsynced.is_empty(), "acknowledged, and not synced: {:?}", self.unsynced);
        }
        if let Some(rest) = call.strip_prefix("<... ") {
            let syncs = rest.starts_with("fsync") || rest.starts_with("fdatasync");
            if let Some(file) = self.syncing.remove(thread).filter(|_| syncs) {
                self.synced(&file);
            }
            return;
        }
        let name = call.split('(').next().unwrap_or_default();
        let file = path(call);
        let Some(file) = file.filter(|file| file.contains("hearken.db")) else { return };
        // The index beside the file is rebuilt from the log.
        if file.ends_with("-shm") {
            return;
        }
        match name {
            "pwrite64" | "write" => {
                self.written.insert(file.to_owned());
                self.unsynced.insert(file.to_owned());
            }
            "fsync" | "fdatasync" if call.ends_with("<unfinished ...>") => {
                self.syncing.insert(thread.to_owned(), file.to_owned());
            }
            "fsync" | "fdatasync" => {
                assert!(call.ends_with("= 0"), "{call}");
                self.synced(file);
            }
            _ => {}
        }
    }

    fn synced(&mut self, file: &str) {
        self.unsynced.remove(file);
        self.syncs += 1;
    }
}

/// Returns the path of the first descriptor of a call.
fn path(call: &str) -> Option<&str> {
    let (_, rest) = call.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path)
}

/// Stores turns in a separate process while its calls are recorded. Returns false if they cannot be
/// recorded.
async fn recorded(url: &str, calls: &Path) -> bool {
    let test = "killed::stores_turns_until_it_is_killed";
    let started = Command::new("strace")
        .args(["-f", "-y", "-s", "16", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o"])
        .arg(calls)
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(STORE, url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let Ok(mut child) = started else { return false };
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut kept = 0;
    while kept < TURNS + MORE {
        match lines.next_line().await.unwrap() {
            Some(line) if line.starts_with("kept ") => kept += 1,
            Some(line) if line.starts_with("strace: ") => eprintln!("{line}"),
            Some(line) => panic!("it says {line}"),
            None => return false,
        }
    }
    // When strace ends, the process that it runs also ends.
    child.kill().await.unwrap();
    true
}

#[tokio::test]
async fn a_turn_in_a_file_is_synced_before_it_is_acknowledged() {
    let place = Place::file();
    let store = SqlStore::at(&place.url).unwrap();
    store.create(&session(NAME), "").await.unwrap();
    store.close().await;
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    if !recorded(&place.url, &calls).await {
        eprintln!(
            "skipped: strace is missing, or may not record: `scripts/services start` installs it"
        );
        return;
    }
    let mut disk = Disk::default();
    let recorded = std::fs::read_to_string(&calls).unwrap();
    // strace was killed: an incomplete last line is a call that had not returned.
    let (whole, _) = recorded.rsplit_once('\n').unwrap();
    whole.lines().for_each(|line| disk.read(line));
    eprintln!("{} turns, {} syncs of {:?}", disk.acknowledged, disk.syncs, disk.written);
    assert!(
        disk.acknowledged >= TURNS && disk.syncs >= TURNS,
        "{} {}",
        disk.acknowledged,
        disk.syncs
    );
    assert_eq!(disk.written.len(), 2, "the file, and the log beside it: {:?}", disk.written);
}
