//! Backups while others write, restored into a new store: each is consistent, and every session in
//! it is complete. Not for the format of a backup.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use hearken_ports::{ChatStore, KeptTurn, SessionFilter, StoreOutcome};
use hearken_proto::chat::{ChatStatus, Event, EventData, Snapshot};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{at, id, key, session, turn};
use hearken_test_support::places::Place;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::chat::said;
use super::{backup, on_every_store, open};

on_every_store!(a_backup_under_load_is_consistent);

/// Number of concurrent writers. Every second one publishes its events.
const WRITERS: usize = 6;
/// Number of consecutive backups.
const BACKUPS: u64 = 4;
/// Turns stored between two backups, and during one.
const BETWEEN: u64 = 12;
/// Turns between two snapshots of a session.
const SNAPSHOT_EVERY: i64 = 5;
/// Turns between two sessions that are created and deleted.
const GONE_EVERY: i64 = 3;

/// Number of steps that were started, and of acknowledged ones.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Steps {
    begun: i64,
    done: i64,
}

/// Steps by session: turns of sessions that continue; creation and deletion of sessions that do
/// not.
#[derive(Default)]
struct Acknowledged {
    sessions: Mutex<BTreeMap<String, Steps>>,
    turns: watch::Sender<u64>,
}

impl Acknowledged {
    fn begins(&self, session: &str) {
        self.sessions.lock().unwrap().entry(session.into()).or_default().begun += 1;
    }

    fn is_done(&self, session: &str) {
        self.sessions.lock().unwrap().entry(session.into()).or_default().done += 1;
    }

    fn now(&self) -> BTreeMap<String, Steps> {
        self.sessions.lock().unwrap().clone()
    }

    /// Waits until this many further turns are stored.
    async fn after_more(&self, turns: u64) {
        let wanted = *self.turns.borrow() + turns;
        self.turns.subscribe().wait_for(|kept| *kept >= wanted).await.unwrap();
    }
}

fn event(name: &str, number: i64) -> Event {
    let data = serde_json::json!({ "turn": number });
    Event {
        id: format!("{name}-{number}"),
        session_id: id(name),
        kind: "chat.answered".into(),
        data: EventData::from(data.as_object().unwrap()),
        timestamp: at(number),
    }
}

/// Stores turns of a session until stopped, makes snapshots, and publishes events if the writer's
/// number is odd.
async fn write(
    store: Arc<SqlStore>,
    record: Arc<Acknowledged>,
    writer: usize,
    stop: watch::Receiver<bool>,
) {
    let name = format!("talk-{writer}");
    for number in 0.. {
        if *stop.borrow() {
            break;
        }
        let words = [format!("问题 {number}"), format!("answer {number}")];
        let next = KeptTurn {
            key: Some(key(&number.to_string())),
            answer: format!("{{\"n\":{number}}}"),
            event: Some(event(&name, number)),
            ..turn(&name, number * 2, number, &[&words[0], &words[1]])
        };
        record.begins(&name);
        assert_eq!(store.keep_turn(&next).await.unwrap(), StoreOutcome::Kept);
        record.is_done(&name);
        record.turns.send_modify(|turns| *turns += 1);
        if writer % 2 == 1 {
            let told = store.pending_events(Some(&id(&name)), 9).await.unwrap();
            let told: Vec<i64> = told.iter().map(|event| event.number).collect();
            store.remove_events(&told).await.unwrap();
        }
        if number % SNAPSHOT_EVERY == 0 {
            snapshot(&store, &name, number).await;
        }
        if number % GONE_EVERY == 0 {
            create_and_delete(&store, &record, &format!("gone-{writer}-{number}")).await;
        }
    }
}

async fn snapshot(store: &SqlStore, name: &str, number: i64) {
    let new = Snapshot {
        id: format!("{name}-{number}"),
        session_id: id(name),
        name: number.to_string(),
        message_count: 0,
        state_version: None,
        created_at: at(number),
    };
    let kept = store.keep_snapshot(&new, number).await.unwrap().unwrap();
    assert_eq!(kept.message_count, (number + 1) * 2);
}

/// Performs two steps: creates a session with a turn, and deletes it.
async fn create_and_delete(store: &SqlStore, record: &Acknowledged, name: &str) {
    record.begins(name);
    store.create(&session(name), "").await.unwrap();
    store.keep_turn(&turn(name, 0, 1, &["q", "r"])).await.unwrap();
    record.is_done(name);
    record.begins(name);
    let from = [ChatStatus::Active];
    let to = ChatStatus::Deleted;
    store.set_status(&id(name), &from, to, at(9), None).await.unwrap().unwrap();
    assert!(store.purge(&id(name)).await.unwrap());
    record.is_done(name);
}

/// Output of a backup. At its first row, when the read has started, it waits until others have
/// written more.
struct Slow<'a> {
    record: &'a Acknowledged,
    written: Vec<u8>,
    /// Steps started before the first row.
    begun: Option<BTreeMap<String, Steps>>,
}

impl Write for Slow<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.written.is_empty() && self.begun.is_none() {
            self.begun = Some(self.record.now());
            tokio::task::block_in_place(|| {
                Handle::current().block_on(self.record.after_more(BETWEEN))
            });
        }
        self.written.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn a_backup_under_load_is_consistent(place: Arc<Place>) {
    if !place.is_shared() {
        // The backup occupies its only connection.
        return;
    }
    let store = Arc::new(open(&place));
    let record = Arc::new(Acknowledged::default());
    let stop = watch::Sender::new(false);
    for writer in 0..WRITERS {
        store.create(&session(&format!("talk-{writer}")), "").await.unwrap();
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| tokio::spawn(write(Arc::clone(&store), Arc::clone(&record), n, stop.subscribe())))
        .collect();
    for _ in 0..BACKUPS {
        record.after_more(BETWEEN).await;
        let before = record.now();
        let mut out = Slow { record: &record, written: Vec::new(), begun: None };
        store.back_up(&mut out, at(0), &mut |_, _| ()).await.unwrap();
        let written = out.written;
        let begun = out.begun.expect("there are rows");
        let copy = SqlStore::at("sqlite::memory:").unwrap();
        backup::restore(&copy, &written, false).await.unwrap();
        assert_eq!(copy.check(&mut |_, _| ()).await.unwrap().faults, [""; 0]);
        is_consistent(&copy, &before, &begun).await;
    }
    stop.send_replace(true);
    for writer in writers {
        writer.await.unwrap();
    }
    eprintln!("{} turns while {BACKUPS} backups were made", *record.turns.borrow());
    store.shut().await;
}

/// Checks a restored store: it contains all that was acknowledged before the backup, nothing that
/// started after its read, and no partial data.
async fn is_consistent(
    copy: &SqlStore,
    before: &BTreeMap<String, Steps>,
    begun: &BTreeMap<String, Steps>,
) {
    for (name, at_most) in begun {
        let at_least = before.get(name).copied().unwrap_or_default();
        if name.starts_with("talk") {
            let turns = whole_turns(copy, name).await;
            let fits = at_least.done <= turns && turns <= at_most.begun;
            assert!(fits, "{name} has {turns}, of {at_least:?} to {at_most:?}");
        } else {
            let there = ChatStore::session(copy, &id(name)).await.unwrap();
            if at_least.done == 2 {
                assert_eq!(there, None, "{name} was deleted before the backup");
            } else if at_least.done == 1 && at_most.begun == 1 {
                assert!(there.is_some(), "{name} was not deleted");
            }
        }
    }
    let all = SessionFilter { limit: 9_999, ..Default::default() };
    for session in copy.sessions(&all).await.unwrap().sessions {
        assert!(begun.contains_key(session.id.as_str()), "{} started later", session.id);
    }
}

/// Returns the number of turns of a session. Each must have both messages, the request and the
/// event.
async fn whole_turns(copy: &SqlStore, name: &str) -> i64 {
    let said = said(copy, name).await;
    let turns = i64::try_from(said.len()).unwrap() / 2;
    for number in 0..turns {
        let first = usize::try_from(number * 2).unwrap();
        let words = [format!("问题 {number}"), format!("answer {number}")];
        assert_eq!(said[first..first + 2], words, "{name}");
        let known = copy.request(&id(name), &number.to_string()).await.unwrap().unwrap();
        assert_eq!(known.answer, Some(format!("{{\"n\":{number}}}")));
    }
    assert_eq!(copy.request(&id(name), &turns.to_string()).await.unwrap(), None);
    let events = copy.pending_events(Some(&id(name)), 9_999).await.unwrap();
    let events: Vec<String> = events.into_iter().map(|pending| pending.event.id).collect();
    let all: Vec<String> = (0..turns).map(|number| format!("{name}-{number}")).collect();
    if name.ends_with(['1', '3', '5']) {
        // At most the last event is not yet published.
        assert!(events.is_empty() || events[..] == all[all.len() - 1..], "{name}: {events:?}");
    } else {
        assert_eq!(events, all, "{name}");
    }
    for snapshot in copy.snapshots(&id(name)).await.unwrap() {
        let made_after: i64 = snapshot.name.parse().unwrap();
        assert!(made_after < turns, "{name}: a snapshot of turn {made_after} of {turns}");
        assert_eq!(snapshot.message_count, (made_after + 1) * 2);
    }
    turns
}
