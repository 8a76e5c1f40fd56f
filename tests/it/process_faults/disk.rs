//! A disk that fills up and is emptied again under the server's data folder and its recordings: a
//! separate tmpfs. For a missing or locked store, see `server::readiness`.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hearken_test_support::eventually_within;
use serde_json::{Value, json};

use super::clients::{PATIENCE, Speaker, TextClient};
use super::{USUAL, vendors};
use crate::cluster::load::Load;
use crate::support::process::ServerProcess;

const SIZE: &str = "size=6m";
/// Number of requests while the disk is full.
const REQUESTS: usize = 30;

/// A small disk, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    /// `None` if mounting is not permitted.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(folder.path());
        if rustix::process::geteuid().is_root() && mount.status().is_ok_and(|s| s.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped: a tmpfs cannot be mounted here; root may");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn filling(&self) -> PathBuf {
        self.path().join("filling")
    }

    /// Writes until no space is left.
    fn fill(&self) {
        let mut file = File::create(self.filling()).unwrap();
        for size in [1 << 16, 1 << 12, 1] {
            while file.write(&vec![0; size]).is_ok() {}
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.filling()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Files on it may still be open.
        Command::new("umount").arg("-l").arg(self.path()).status().ok();
    }
}

/// Warnings and errors in the log, except the line that each request has.
fn troubles(server: &ServerProcess) -> Vec<String> {
    let log = server.log();
    let told = |line: &&str| line.contains("\"WARN\"") || line.contains("\"ERROR\"");
    let told = log.lines().filter(told).filter(|line| !line.contains("\"message\":\"answered\""));
    told.map(str::to_owned).collect()
}

async fn ready(server: &ServerProcess) -> (u16, Value) {
    let answer = reqwest::get(server.http_url("/readyz")).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn until_ready(server: &ServerProcess, status: u16) -> Value {
    let asked = async || Some(ready(server).await).filter(|(now, _)| *now == status);
    eventually_within(PATIENCE, &format!("readiness {status}"), asked).await.1
}

/// Sends a message in a chat session; returns status and answer.
async fn say(server: &ServerProcess, session: &str, words: &str) -> (u16, Value) {
    let url = server.http_url(&format!("/api/sessions/{session}/chat"));
    let asked = reqwest::Client::new().post(url).json(&json!({"message": words}));
    let answer = asked.timeout(PATIENCE).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported_and_used_again_once_emptied() {
    let Some(disk) = Disk::mount() else { return };
    let data = disk.path().join("data");
    let recordings = disk.path().join("recordings");
    let vendors = vendors().await;
    let mut env = USUAL.to_vec();
    env.push(("HEARKEN__SERVER__DATA_DIR", data.to_str().unwrap()));
    env.push(("HEARKEN__SERVER__RECORD_DIR", recordings.to_str().unwrap()));
    let server = ServerProcess::start(&vendors, &env).await;
    let load = Load::at(server.http_url("/api/sessions"), 1).await;
    let mut text = TextClient::new(server.socket_url("/"));
    let mut speaker = Speaker::new(server.socket_url("/xiaozhi/v1/"), None);
    load.talk(0, 2).await;
    assert_eq!(text.say().await.unwrap()["stored"], json!(null));
    assert!(speaker.turn().await);
    until_ready(&server, 200).await;

    disk.fill();
    let told = until_ready(&server, 503).await;
    assert_eq!((&told["status"], &told["dependencies"]["store"]), (&json!("down"), &json!("down")));
    let before = troubles(&server).len();
    for n in 0..REQUESTS {
        let (status, told) = say(&server, &load.sessions[0], &format!("lost {n}")).await;
        assert_eq!((status, &told["error"]["code"]), (503, &json!("UNAVAILABLE")), "{told}");
        let told = text.say().await.unwrap();
        assert_eq!((&told["type"], &told["stored"]), (&json!("llm_response"), &json!(false)));
    }
    assert!(speaker.turn().await, "a connected device is answered");
    speaker.hang_up();
    assert!(speaker.turn().await, "and so is a new connection");
    assert_eq!(speaker.last_sentence(), "You said what is the weather");
    assert!(server.log().contains("cannot write a recording"), "{}", server.log());
    let told = troubles(&server).split_off(before);
    eprintln!("{} warnings about {} requests without a disk", told.len(), 2 * REQUESTS);
    assert!((1..REQUESTS / 2).contains(&told.len()), "{told:#?}");
    assert!(told.iter().any(|line| line.contains("database or disk is full")), "{told:#?}");

    disk.empty();
    until_ready(&server, 200).await;
    load.talk(2, 2).await;
    assert_eq!(text.say().await.unwrap()["stored"], json!(null));
    let kept = std::fs::read_dir(&recordings).unwrap().count();
    speaker.hang_up();
    assert!(speaker.turn().await);
    let recorded = async || (std::fs::read_dir(&recordings).unwrap().count() > kept).then_some(());
    eventually_within(PATIENCE, "a recording again", recorded).await;
    load.check(&server.http_url(""), 4).await;
}
