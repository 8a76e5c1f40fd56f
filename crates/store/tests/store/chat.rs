//! Contract of all stores for chat sessions: their status, messages, turns and snapshots.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearken_ports::store::DeviceStore as _;
use hearken_ports::{ChatStore, KeptTurn, RefusedUntil, SessionFilter, StoreOutcome};
use hearken_proto::chat::{
    ChatSession, ChatStatus, FunctionCall, Message, Role, Snapshot, ToolCall,
};
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{at, id, key, message, session, turn};
use hearken_test_support::places::Place;
use jiff::SignedDuration;
use proptest::prelude::*;

use super::{on_every_store, open};

on_every_store!(
    sessions_are_stored_found_and_paged,
    the_status_changes_only_from_the_listed_ones,
    restoring_or_reading_a_session_counts_as_use,
    turns_are_stored_completely_and_in_order,
    exactly_one_of_concurrent_turns_is_stored,
    many_concurrent_sessions_are_all_stored,
    snapshots_restore_a_dialogue,
    refused_messages_are_stored_with_their_turn_and_outlast_rollbacks,
    a_purged_session_leaves_nothing,
    messages_have_no_gaps_after_any_steps,
);

/// A snapshot of session "a", before this event.
fn snapshot(event: &str, seconds: i64) -> Snapshot {
    Snapshot {
        id: format!("s-{event}"),
        session_id: id("a"),
        name: format!("before the {event}"),
        message_count: 0,
        state_version: None,
        created_at: at(seconds),
    }
}

pub(super) async fn said(store: &SqlStore, name: &str) -> Vec<String> {
    let kept = store.messages(&id(name), None, 1_000).await.unwrap();
    let numbers: Vec<i64> = kept.iter().map(|m| m.number).collect();
    let count = i64::try_from(kept.len()).unwrap();
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "no gaps");
    let session = ChatStore::session(store, &id(name)).await.unwrap().unwrap();
    assert_eq!(session.message_count, count);
    kept.into_iter().map(|m| m.message.content).collect()
}

async fn sessions_are_stored_found_and_paged(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(ChatStore::session(&store, &id("a")).await.unwrap(), None);
    let mut first = session("a");
    first.state_version = Some(7);
    store.create(&first, "").await.unwrap();
    assert_eq!(ChatStore::session(&store, &id("a")).await.unwrap(), Some(first.clone()));
    assert!(store.create(&first, "").await.is_err(), "an id is used once");
    for (n, name) in ["b", "c", "d"].into_iter().enumerate() {
        let last_access_at = at(i64::try_from(n).unwrap() + 1);
        let players = if name == "c" { vec!["guest".into()] } else { Vec::new() };
        store.create(&ChatSession { last_access_at, players, ..session(name) }, "").await.unwrap();
    }
    let find = async |filter: SessionFilter| {
        let page = store.sessions(&filter).await.unwrap();
        let names: String = page.sessions.iter().map(|s| s.id.as_str()).collect();
        (names, page.total)
    };
    let of =
        |user: &str| SessionFilter { user_id: Some(user.into()), limit: 9, ..Default::default() };
    let page = |offset, limit| SessionFilter { offset, limit, ..Default::default() };
    assert_eq!(find(page(0, 9)).await, ("dcba".into(), 4));
    assert_eq!(find(page(1, 2)).await, ("cb".into(), 4));
    assert_eq!(find(page(9, 2)).await, (String::new(), 4));
    assert_eq!(find(of("maker")).await, ("dcba".into(), 4));
    assert_eq!(find(of("leader")).await, ("dcba".into(), 4));
    assert_eq!(find(of("guest")).await, ("c".into(), 1));
    assert_eq!(find(of("a\"")).await, ("a".into(), 1));
    assert_eq!(find(of("%")).await, (String::new(), 0));
    let active = [ChatStatus::Active];
    store.set_status(&id("a"), &active, ChatStatus::Deleted, at(5), None).await.unwrap();
    store.set_status(&id("b"), &active, ChatStatus::Archived, at(5), None).await.unwrap();
    assert_eq!(find(page(0, 9)).await, ("dcb".into(), 3));
    let with = |status| SessionFilter { status: Some(status), limit: 9, ..of("maker") };
    assert_eq!(find(with(ChatStatus::Active)).await, ("dc".into(), 2));
    assert_eq!(find(with(ChatStatus::Archived)).await, ("b".into(), 1));
    assert_eq!(find(with(ChatStatus::Deleted)).await, ("a".into(), 1));
    store.keep_turn(&turn("c", 0, 0, &["hello"])).await.unwrap();
    assert_eq!(find(page(0, 1)).await, ("c".into(), 3), "the one used last is first");
}

async fn the_status_changes_only_from_the_listed_ones(place: Arc<Place>) {
    use ChatStatus::{Active, Archived, Deleted};
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    let set = async |from: &[ChatStatus], to, seconds| {
        let set = store.set_status(&id("a"), from, to, at(seconds), None).await.unwrap();
        set.map(|s| (s.status, s.updated_at))
    };
    assert_eq!(set(&[], Archived, 1).await, None);
    assert_eq!(set(&[Archived, Deleted], Active, 1).await, None);
    assert_eq!(set(&[Active], Archived, 2).await, Some((Archived, at(2))));
    assert_eq!(set(&[Active], Archived, 3).await, None);
    assert_eq!(store.keep_turn(&turn("a", 0, 0, &["x"])).await.unwrap(), StoreOutcome::Closed);
    assert_eq!(set(&[Active, Archived], Deleted, 4).await, Some((Deleted, at(4))));
    assert_eq!(store.keep_turn(&turn("a", 0, 0, &["x"])).await.unwrap(), StoreOutcome::Closed);
    assert_eq!(set(&[Archived, Deleted], Active, 5).await, Some((Active, at(5))));
    assert_eq!(store.keep_turn(&turn("a", 0, 0, &["x"])).await.unwrap(), StoreOutcome::Kept);
    assert_eq!(store.keep_turn(&turn("none", 0, 0, &["x"])).await.unwrap(), StoreOutcome::Closed);
    assert_eq!(store.set_status(&id("none"), &[Active], Deleted, at(6), None).await.unwrap(), None);
}

async fn restoring_or_reading_a_session_counts_as_use(place: Arc<Place>) {
    use ChatStatus::{Active, Deleted};
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    let used = async || store.session(&id("a")).await.unwrap().unwrap().last_access_at;
    let created = used().await;
    store.touch(&id("a"), created + SignedDuration::from_secs(9)).await.unwrap();
    assert_eq!(used().await, created + SignedDuration::from_secs(9));
    store.touch(&id("a"), created).await.unwrap();
    assert_eq!(used().await, created + SignedDuration::from_secs(9), "it was used later");
    store.set_status(&id("a"), &[Active], Deleted, at(400), None).await.unwrap();
    store.touch(&id("a"), at(500)).await.unwrap();
    assert_eq!(used().await, created + SignedDuration::from_secs(9), "it is deleted");
    store.set_status(&id("a"), &[Deleted], Active, at(600), None).await.unwrap();
    assert_eq!(used().await, at(600));
    store.touch(&id("none"), at(700)).await.unwrap();
}

async fn turns_are_stored_completely_and_in_order(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    let function = FunctionCall { name: "roll".into(), arguments: "{\"dice\":\"2d6\"}".into() };
    let connection = Some("ff".into());
    let call = ToolCall { id: "c1".into(), kind: "function".into(), function, connection };
    let mut first = turn("a", 0, 1, &["attack \0 \u{1f409}", ""]);
    first.messages[0].player_id = Some("p".into());
    first.messages[1].tool_calls = vec![call];
    first.messages.push(Message { tool_call_id: Some("c1".into()), ..message(Role::Tool, "9") });
    first.messages.push(message(Role::Assistant, "you hit"));
    first.state_version = Some(3);
    assert_eq!(store.keep_turn(&first).await.unwrap(), StoreOutcome::Kept);
    let kept = store.messages(&id("a"), None, 10).await.unwrap();
    let messages: Vec<Message> = kept.iter().map(|m| m.message.clone()).collect();
    assert_eq!(messages, first.messages, "unchanged");
    let now = ChatStore::session(&store, &id("a")).await.unwrap().unwrap();
    assert_eq!((now.message_count, now.state_version), (4, Some(3)));
    assert_eq!((now.updated_at, now.last_access_at, now.created_at), (at(10), at(10), at(0)));
    for (after, fence, kept) in [
        (0, 1, StoreOutcome::Overtaken),
        (3, 1, StoreOutcome::Overtaken),
        (5, 1, StoreOutcome::Overtaken),
        (4, 0, StoreOutcome::Overtaken),
        (4, 1, StoreOutcome::Kept),
        (6, 9, StoreOutcome::Kept),
        (8, 8, StoreOutcome::Overtaken),
        (8, 9, StoreOutcome::Kept),
    ] {
        let told = store.keep_turn(&turn("a", after, fence, &["q", "r"])).await.unwrap();
        assert_eq!(told, kept, "after {after} under {fence}");
    }
    assert_eq!(said(&store, "a").await.len(), 10);
    let now = ChatStore::session(&store, &id("a")).await.unwrap().unwrap();
    assert_eq!(now.state_version, Some(3), "a turn without a version leaves it unchanged");
    let page = async |before, limit| -> Vec<i64> {
        let page = store.messages(&id("a"), before, limit).await.unwrap();
        page.iter().map(|m| m.number).collect()
    };
    assert_eq!(page(None, 3).await, [8, 9, 10]);
    assert_eq!(page(Some(8), 3).await, [5, 6, 7]);
    assert_eq!(page(Some(2), 3).await, [1]);
    assert!(page(Some(1), 3).await.is_empty() && page(None, 0).await.is_empty());
    assert!(store.messages(&id("none"), None, 3).await.unwrap().is_empty());
}

/// Two servers with many tasks each, all on the same session.
async fn exactly_one_of_concurrent_turns_is_stored(place: Arc<Place>) {
    let one = Arc::new(open(&place));
    one.create(&session("a"), "").await.unwrap();
    let stores =
        if place.is_shared() { vec![one.clone(), open(&place).into()] } else { vec![one.clone()] };
    for round in 0..10 {
        let turns = (0..16).map(|task| {
            let store = Arc::clone(&stores[task % stores.len()]);
            let words = [format!("q{task}"), format!("r{task}")];
            let turn = turn("a", round * 2, 1, &[&words[0], &words[1]]);
            tokio::spawn(async move { store.keep_turn(&turn).await.unwrap() })
        });
        let mut became = BTreeMap::new();
        for told in futures_util::future::join_all(turns).await {
            *became.entry(format!("{:?}", told.unwrap())).or_insert(0) += 1;
        }
        assert_eq!(became, [("Kept".into(), 1), ("Overtaken".into(), 15)].into());
        let said = said(&one, "a").await;
        let question = &said[said.len() - 2];
        let answer = &said[said.len() - 1];
        assert_eq!(question[1..], answer[1..], "question and answer belong to the same turn");
    }
    for store in stores {
        store.close().await;
    }
}

/// More writers than connections: they queue, and none times out.
async fn many_concurrent_sessions_are_all_stored(place: Arc<Place>) {
    let store = Arc::new(open(&place));
    let sessions = (0..48).map(|n| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let name = format!("s{n}");
            store.create(&session(&name), "").await.unwrap();
            for round in 0..8 {
                let turn = turn(&name, round * 2, 1, &["q", "r"]);
                assert_eq!(store.keep_turn(&turn).await.unwrap(), StoreOutcome::Kept);
            }
            assert_eq!(said(&store, &name).await.len(), 16);
        })
    });
    for ended in futures_util::future::join_all(sessions).await {
        ended.unwrap();
    }
}

async fn snapshots_restore_a_dialogue(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    store.create(&session("b"), "").await.unwrap();
    let mut first = turn("a", 0, 1, &["one", "two"]);
    first.state_version = Some(5);
    store.keep_turn(&first).await.unwrap();
    assert_eq!(store.keep_snapshot(&snapshot("early", 20), 0).await.unwrap(), None, "locked later");
    let cave = Snapshot { state_version: Some(4), ..snapshot("cave", 20) };
    let kept = store.keep_snapshot(&cave, 1).await.unwrap().unwrap();
    assert_eq!(
        (kept.message_count, kept.state_version),
        (2, Some(4)),
        "the version of the world, not of the turn"
    );
    store.keep_turn(&turn("a", 2, 2, &["three", "four"])).await.unwrap();
    let told = Snapshot { state_version: Some(9), ..snapshot("dragon", 21) };
    let later = store.keep_snapshot(&told, 2).await.unwrap().unwrap();
    assert_eq!((later.message_count, later.state_version), (4, Some(9)));
    assert_eq!(store.snapshots(&id("a")).await.unwrap(), [kept.clone(), later.clone()]);
    assert!(store.snapshots(&id("b")).await.unwrap().is_empty());

    let restore = async |name: &str, snapshot: &str, fence| {
        store.restore_snapshot(&id(name), snapshot, fence, at(30), None).await.unwrap()
    };
    assert_eq!(restore("b", "s-cave", 3).await, None, "it belongs to another session");
    assert_eq!(restore("a", "s-none", 3).await, None);
    assert_eq!(restore("a", "s-cave", 1).await, None, "it was locked later");
    assert_eq!(restore("a", "s-cave", 3).await, Some(kept.clone()));
    assert_eq!(said(&store, "a").await, ["one", "two"]);
    let now = ChatStore::session(&store, &id("a")).await.unwrap().unwrap();
    assert_eq!((now.state_version, now.updated_at), (Some(4), at(30)));
    let late = turn("a", 4, 2, &["five", "six"]);
    assert_eq!(store.keep_turn(&late).await.unwrap(), StoreOutcome::Overtaken);
    assert_eq!(
        store.keep_turn(&turn("a", 2, 3, &["3", "4", "5"])).await.unwrap(),
        StoreOutcome::Kept
    );
    assert_eq!(restore("a", "s-dragon", 4).await, Some(later));
    assert_eq!(said(&store, "a").await, ["one", "two", "three", "four"]);
    assert_eq!(restore("a", "s-cave", 4).await, Some(kept), "repeatedly");

    let active = [ChatStatus::Active];
    let archived = [ChatStatus::Archived];
    store.set_status(&id("a"), &active, ChatStatus::Archived, at(40), None).await.unwrap();
    assert_eq!(restore("a", "s-cave", 5).await, None, "it is archived");
    assert!(store.keep_snapshot(&snapshot("end", 41), 9).await.unwrap().is_some());
    store.set_status(&id("a"), &archived, ChatStatus::Deleted, at(42), None).await.unwrap();
    assert!(store.keep_snapshot(&snapshot("grave", 43), 9).await.unwrap().is_none());
    let nowhere = Snapshot { session_id: id("none"), ..snapshot("none", 44) };
    assert!(store.keep_snapshot(&nowhere, 9).await.unwrap().is_none());
}

async fn refused_messages_are_stored_with_their_turn_and_outlast_rollbacks(place: Arc<Place>) {
    let store = open(&place);
    store.create(&session("a"), "").await.unwrap();
    store.create(&session("b"), "").await.unwrap();
    let until = async |name: &str| store.refused_until(&id(name)).await.unwrap();
    let nanosecond = SignedDuration::from_nanos(1);
    let refused = |number| Some(RefusedUntil { number, at: at(1) + nanosecond });
    let keep = async |after, fence, refused| {
        let turn = KeptTurn { refused, ..turn("a", after, fence, &["q", "r"]) };
        store.keep_turn(&turn).await.unwrap()
    };
    assert_eq!(keep(0, 1, None).await, StoreOutcome::Kept);
    assert_eq!(until("a").await, None);
    let only = Snapshot { id: "s".into(), ..snapshot("only one", 2) };
    store.keep_snapshot(&only, 1).await.unwrap().unwrap();
    assert_eq!(keep(2, 1, refused(2)).await, StoreOutcome::Kept);
    assert_eq!(until("a").await, refused(2), "with its whole time");
    assert_eq!(keep(4, 0, refused(4)).await, StoreOutcome::Overtaken);
    assert_eq!(keep(2, 1, refused(1)).await, StoreOutcome::Overtaken);
    assert_eq!(keep(4, 1, None).await, StoreOutcome::Kept);
    assert_eq!(until("a").await, refused(2), "only a stored turn changes it");
    assert_eq!((until("b").await, until("none").await), (None, None));
    let back = store.restore_snapshot(&id("a"), "s", 2, at(30), None).await.unwrap();
    assert_eq!((back.unwrap().message_count, until("a").await), (2, refused(2)));
    assert_eq!(keep(2, 2, refused(2)).await, StoreOutcome::Kept);
    let active = [ChatStatus::Active];
    store.set_status(&id("a"), &active, ChatStatus::Deleted, at(40), None).await.unwrap();
    assert!(store.purge(&id("a")).await.unwrap());
    store.create(&session("a"), "").await.unwrap();
    assert_eq!(until("a").await, None, "it goes with its session");
}

async fn a_purged_session_leaves_nothing(place: Arc<Place>) {
    let store = open(&place);
    for name in ["a", "b", "c"] {
        store.create(&session(name), "").await.unwrap();
    }
    let key = Some(key("k"));
    store.keep_turn(&KeptTurn { key, ..turn("a", 0, 0, &["one"]) }).await.unwrap();
    let only = Snapshot { id: "s".into(), ..snapshot("only one", 2) };
    store.keep_snapshot(&only, 0).await.unwrap();
    assert!(!store.purge(&id("a")).await.unwrap(), "only deleted sessions are purged");
    for (name, seconds) in [("a", 100), ("b", 90)] {
        let active = [ChatStatus::Active];
        store.set_status(&id(name), &active, ChatStatus::Deleted, at(seconds), None).await.unwrap();
    }
    // It cannot be restored in the meantime.
    assert!(!store.set_purging(&id("c"), true).await.unwrap(), "it is not deleted");
    for is_purging in [true, false] {
        assert!(store.set_purging(&id("b"), is_purging).await.unwrap());
        let deleted = [ChatStatus::Deleted];
        let restored = store.set_status(&id("b"), &deleted, ChatStatus::Active, at(3), None).await;
        assert_eq!(restored.unwrap().is_none(), is_purging);
    }
    let active = [ChatStatus::Active];
    store.set_status(&id("b"), &active, ChatStatus::Deleted, at(90), None).await.unwrap();
    store.set_purging(&id("a"), true).await.unwrap();
    let purgeable =
        async |before, offset, limit| store.purgeable(at(before), offset, limit).await.unwrap();
    assert!(purgeable(90, 0, 9).await.is_empty());
    assert_eq!(purgeable(91, 0, 9).await, [id("b")]);
    assert_eq!(purgeable(200, 0, 9).await, [id("b"), id("a")]);
    assert_eq!(purgeable(200, 0, 1).await, [id("b")]);
    assert_eq!(purgeable(200, 1, 9).await, [id("a")], "sessions that cannot be purged are skipped");
    assert!(store.purge(&id("a")).await.unwrap());
    assert!(!store.purge(&id("a")).await.unwrap());
    assert_eq!(ChatStore::session(&store, &id("a")).await.unwrap(), None);
    assert!(store.messages(&id("a"), None, 9).await.unwrap().is_empty());
    assert!(store.snapshots(&id("a")).await.unwrap().is_empty());
    assert_eq!(store.request(&id("a"), "k").await.unwrap(), None);
    store.create(&session("a"), "").await.expect("the id is free again");
    assert_eq!(store.keep_turn(&turn("a", 0, 0, &["new"])).await.unwrap(), StoreOutcome::Kept);
}

/// Step of a session.
#[derive(Debug, Clone)]
enum Step {
    Turn { back: i64, fence: i64, messages: usize, key: Option<u8> },
    Snapshot,
    Restore { number: usize, fence: i64 },
    Status(ChatStatus),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let status =
        prop::sample::select(vec![ChatStatus::Archived, ChatStatus::Active, ChatStatus::Active]);
    let turn = (0..3_i64, 0..4_i64, 0..4_usize, prop::option::of(0..4_u8)).prop_map(
        |(back, fence, messages, key)| Step::Turn { back: back - 1, fence, messages, key },
    );
    let step = prop_oneof![
        6 => turn,
        2 => Just(Step::Snapshot),
        2 => (0..4_usize, 0..4_i64).prop_map(|(number, fence)| Step::Restore { number, fence }),
        1 => status.prop_map(Step::Status),
    ];
    prop::collection::vec(step, 1..25)
}

/// Model of a session according to the contract.
#[derive(Default)]
struct Model {
    said: Vec<String>,
    fence: i64,
    archived: bool,
    keys: BTreeMap<String, String>,
    snapshots: Vec<(Vec<String>, BTreeMap<String, String>)>,
}

impl Model {
    fn take(&mut self, turn: &KeptTurn) -> StoreOutcome {
        if self.archived {
            return StoreOutcome::Closed;
        }
        let known = turn.key.as_ref().is_some_and(|key| self.keys.contains_key(&key.name));
        let after = usize::try_from(turn.after).ok();
        if known || turn.fence < self.fence || after != Some(self.said.len()) {
            return StoreOutcome::Overtaken;
        }
        self.fence = turn.fence;
        self.said.extend(turn.messages.iter().map(|m| m.content.clone()));
        self.keys.extend(turn.key.clone().map(|key| (key.name, turn.answer.clone())));
        StoreOutcome::Kept
    }
}

async fn play(store: &SqlStore, name: &str, steps: Vec<Step>) {
    let mut model = Model::default();
    store.create(&session(name), "").await.unwrap();
    for (n, step) in steps.into_iter().enumerate() {
        match step {
            Step::Turn { back, fence, messages, key: named } => {
                let after = i64::try_from(model.said.len()).unwrap() - back;
                let words: Vec<String> = (0..messages).map(|m| format!("{n}.{m}")).collect();
                let said: Vec<&str> = words.iter().map(String::as_str).collect();
                let mut turn = turn(name, after, fence, &said);
                (turn.key, turn.answer) = (named.map(|k| key(&k.to_string())), n.to_string());
                let kept = store.keep_turn(&turn).await.unwrap();
                assert_eq!(kept, model.take(&turn));
            }
            Step::Snapshot => {
                let new = Snapshot {
                    id: format!("{name}-{}", model.snapshots.len()),
                    session_id: id(name),
                    name: String::new(),
                    message_count: 0,
                    state_version: None,
                    created_at: at(0),
                };
                store.keep_snapshot(&new, model.fence).await.unwrap().unwrap();
                model.snapshots.push((model.said.clone(), model.keys.clone()));
            }
            Step::Restore { number, fence } => {
                let snapshot = format!("{name}-{number}");
                let told =
                    store.restore_snapshot(&id(name), &snapshot, fence, at(0), None).await.unwrap();
                let may = !model.archived && fence >= model.fence;
                let expected = model.snapshots.get(number).filter(|_| may);
                assert_eq!(told.is_some(), expected.is_some());
                if let Some((said, keys)) = expected.cloned() {
                    (model.said, model.keys, model.fence) = (said, keys, fence);
                }
            }
            Step::Status(status) => {
                let all = [ChatStatus::Active, ChatStatus::Archived];
                store.set_status(&id(name), &all, status, at(0), None).await.unwrap().unwrap();
                model.archived = status == ChatStatus::Archived;
            }
        }
        assert_eq!(said(store, name).await, model.said);
    }
    for name_of_key in (0..4).map(|key| key.to_string()) {
        let told = store.request(&id(name), &name_of_key).await.unwrap();
        assert_eq!(told.and_then(|known| known.answer), model.keys.get(&name_of_key).cloned());
    }
}

async fn messages_have_no_gaps_after_any_steps(place: Arc<Place>) {
    let store = Arc::new(open(&place));
    let runtime = tokio::runtime::Handle::current();
    let playing = tokio::task::spawn_blocking(move || {
        let config = ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() };
        let mut number = 0;
        let number = std::cell::RefCell::new(&mut number);
        proptest!(config, |(steps in steps())| {
            **number.borrow_mut() += 1;
            let name = format!("s{}", number.borrow());
            runtime.block_on(play(&store, &name, steps));
        });
    });
    playing.await.unwrap();
}
