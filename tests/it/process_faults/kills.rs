//! Repeated `kill -9` of the server while chat clients, a text client, a watcher of events and a
//! device use it: it restarts without help, no acknowledged message is lost, nothing is stored
//! twice or in part, and nothing is left behind.
//!
//! `HEARKEN_KILLS` sets the number of kills on each store; `scripts/long kills` sets it.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hearken_ports::SessionStore as _;
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use hearken_test_support::places::{Place, on};
use hearken_test_support::{eventually_within, free_port, variable};
use tokio_util::sync::CancellationToken;

use super::clients::{PATIENCE, Speaker, TextClient, Watcher};
use super::{USUAL, vendors};
use crate::cluster::load::{Load, Seen};
use crate::support::command::hearken_with;
use crate::support::process::ServerProcess;

const KILLS: &str = "HEARKEN_KILLS";
/// Default number of kills on each store.
const FEW: usize = 15;
/// Number of chat sessions in use.
const SESSIONS: usize = 4;
/// After every this many kills, the server runs until the text client and the device have been answered.
const BREATH_EVERY: usize = 25;
/// Time limit for two answers in each session after the last kill, on a busy machine: no lock of a
/// dead server delays them.
const CALM: Duration = Duration::from_secs(15);

/// Waits until the counter has increased.
async fn one_more(count: &AtomicUsize) {
    let before = count.load(Ordering::Relaxed);
    let grown = async || (count.load(Ordering::Relaxed) > before).then_some(());
    eventually_within(PATIENCE, "a further answer", grown).await;
}

/// All clients.
struct Clients {
    load: Load,
    text: TextClient,
    watcher: Watcher,
    speaker: Speaker,
}

impl Clients {
    async fn of(server: &ServerProcess) -> Self {
        let load = Load::at(server.http_url("/api/sessions"), SESSIONS).await;
        let watched = format!("/api/sessions/{}/ws", load.sessions[0]);
        Self {
            text: TextClient::new(server.socket_url("/")),
            watcher: Watcher::new(server.socket_url(&watched)),
            speaker: Speaker::new(server.socket_url("/xiaozhi/v1/"), None),
            load,
        }
    }

    /// Runs all clients during this many kills. Returns the duration of each restart, the
    /// observations of the chat clients, and the number of messages in each session.
    async fn while_killed(
        &mut self,
        server: &mut ServerProcess,
        kills: usize,
    ) -> (Vec<Duration>, Seen, usize) {
        let Self { load, text, watcher, speaker } = self;
        let end = CancellationToken::new();
        let load = &*load;
        let answered = (text.answered.clone(), speaker.answered.clone());
        let killing = async {
            let mut restarts = Vec::new();
            for kill in 1..=kills {
                let progress = load.reached(load.answered() + fastrand::usize(1..=3));
                tokio::time::timeout(PATIENCE, progress).await.expect("chat clients are answered");
                if kill % BREATH_EVERY == 0 {
                    tokio::join!(one_more(&answered.0), one_more(&answered.1));
                }
                // At any moment of a turn.
                tokio::time::sleep(Duration::from_micros(fastrand::u64(..20_000))).await;
                let begun = Instant::now();
                server.kill().await;
                server.start_again().await;
                restarts.push(begun.elapsed());
            }
            end.cancel();
            restarts
        };
        let chatting = async {
            let mut seen = Seen::default();
            let mut messages = 0;
            while !end.is_cancelled() {
                seen.add(load.talk(messages, 3).await);
                messages += 3;
            }
            (seen, messages)
        };
        let (restarts, (seen, messages), (), (), ()) = tokio::join!(
            killing,
            chatting,
            text.talk(&end),
            watcher.watch(&end),
            speaker.talk(&end)
        );
        (restarts, seen, messages)
    }

    /// After the last kill, all clients are answered at once. Returns the number of messages in each session.
    async fn calm(&mut self, mut messages: usize) -> usize {
        let begun = Instant::now();
        let seen = self.load.talk(messages, 2).await;
        messages += 2;
        assert!(seen.is_served(), "{seen:?}");
        assert!(begun.elapsed() < CALM, "{:?}", begun.elapsed());
        self.watcher.until(messages - 1).await;
        // The first attempt may use the connection of a dead server.
        assert!(self.text.say().await.is_some() || self.text.say().await.is_some());
        assert!(self.speaker.turn().await || self.speaker.turn().await);
        messages
    }

    /// Checks that the store has what was acknowledged.
    async fn check(&mut self, server: &ServerProcess, store: &SqlStore, messages: usize) {
        self.load.check(&server.http_url(""), messages).await;
        let missing = messages - self.watcher.told.len();
        assert!(missing == 0 || self.watcher.incomplete > 0, "{missing} events are missing");
        let id = SessionId::new(self.text.session.clone().unwrap());
        let kept = store.load(&id).await.unwrap().expect("the session is stored");
        self.text.check(&kept.state);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Repeatedly kills a server on this store, or on a file in its data folder.
async fn is_killed(database: Option<&str>) {
    let kills = variable(KILLS).map_or(FEW, |kills| kills.parse().unwrap());
    let vendors = vendors().await;
    let port = free_port().to_string();
    let mut env = USUAL.to_vec();
    env.extend([("CLOUD_PORT", port.as_str()), ("HEARKEN__GATEWAY__MAX_MESSAGES", "200")]);
    env.extend(database.map(|url| ("DATABASE_URL", url)));
    let mut server = ServerProcess::start(&vendors, &env).await;
    let data = server.folder().join("data");
    let mut clients = Clients::of(&server).await;
    let begun = Instant::now();
    let (mut restarts, seen, messages) = Box::pin(clients.while_killed(&mut server, kills)).await;
    let took = begun.elapsed();
    restarts.sort_unstable();
    eprintln!(
        "{kills} kills in {took:.1?}, {:.2} a second; restarts p50 {:.0?}, longest {:.0?}; chat: {} \
         answers, attempts {:?}, longest {:.1?}; text client: {} answers; device: {} answers; \
         events: {} of {messages} received, {} connections incomplete",
        kills as f64 / took.as_secs_f64(),
        restarts[kills / 2],
        restarts[kills - 1],
        seen.answered,
        seen.statuses,
        seen.percentile(100),
        clients.text.answered.load(Ordering::Relaxed),
        clients.speaker.answered.load(Ordering::Relaxed),
        clients.watcher.told.len(),
        clients.watcher.incomplete,
    );
    assert!(seen.troubles() > 0, "requests were interrupted: {:?}", seen.statuses);
    let messages = clients.calm(messages).await;
    let store = match database {
        Some(url) => SqlStore::at(url),
        None => SqlStore::file(&data.join(hearken_store::FILE_NAME)),
    };
    clients.check(&server, &store.unwrap(), messages).await;
    let log = server.log();
    assert!(!log.contains("panicked"), "{log}");
    server.terminate().await;

    let database = database.map(|url| ("DATABASE_URL", url));
    let checked = hearken_with(&data, database.as_slice(), &["store", "check"]).await;
    assert!(checked.0 == Some(0) && checked.1.contains("no faults found"), "{checked:?}");
    let left = names(&data);
    let own = ["admin_token", "secret", "hearken.db"];
    assert!(left.iter().all(|name| own.contains(&&**name)), "{left:?} are left");
    assert_eq!(names(&server.folder().join("tmp")), [""; 0], "temporary files are left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kills_on_sqlite() {
    Box::pin(is_killed(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kills_on_postgresql() {
    on(Place::postgres().await, |place| async move {
        Box::pin(is_killed(Some(&place.url))).await;
    })
    .await;
}
