//! Contract of all stores for the history of turns, and the erasure of deleted turns from a file.

use std::sync::Arc;

use hearken_ports::ChatStore;
use hearken_ports::store::{
    HistoryFilter, HistoryPart, HistoryStore as _, HistoryTurn, MOST_DELETED, Side, SoundPlace,
    TurnSound,
};
use hearken_proto::chat::ChatStatus;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::{id, session};
use hearken_test_support::places::Place;
use jiff::{SignedDuration, Timestamp};

use super::people::{content, latin, open_again};
use super::{on_every_store, open};

on_every_store!(
    turns_are_listed_newest_first_in_pages,
    words_are_found_in_any_case_and_taken_literally,
    deleting_turns_deletes_their_sound,
    old_and_surplus_turns_are_deleted_oldest_first,
    the_oldest_sound_beyond_the_limit_is_deleted_and_its_words_stay,
    a_large_selection_is_deleted_in_steps,
    purging_a_chat_session_deletes_its_turns,
    a_turn_that_ends_after_its_words_were_deleted_is_not_stored,
);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

pub(super) fn turn(number: u32, client: &str) -> HistoryTurn {
    HistoryTurn {
        number: 0,
        turn_id: format!("00000000-0000-4000-8000-{number:012}"),
        kind: "voice".into(),
        client: client.into(),
        began: at(number.into()),
        outcome: "answered".into(),
        heard: format!("question {number} of {client}"),
        said: format!("回答 {number}"),
        timing: "{\"spans\":[]}".into(),
        sounds: Vec::new(),
    }
}

/// Returns the stored part of a turn that was read.
fn as_stored(turn: &HistoryTurn) -> HistoryTurn {
    HistoryTurn { number: 0, sounds: Vec::new(), ..turn.clone() }
}

pub(super) fn sounds(text: &[u8]) -> Vec<TurnSound> {
    let sound = |side, start_ms| TurnSound {
        place: SoundPlace { side, start_ms, length_ms: 60 },
        packets: text.to_vec().into(),
    };
    vec![sound(Side::Heard, -420), sound(Side::Said, 900)]
}

async fn fill(store: &SqlStore, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let client = if number % 2 == 0 { "even" } else { "odd" };
        store.add_turn(&turn(number, client), &sounds(&[7; 10])).await.unwrap();
    }
}

async fn numbers(store: &SqlStore, filter: &HistoryFilter, most: u32) -> Vec<String> {
    let found = store.turns(filter, most).await.unwrap();
    found
        .iter()
        .map(|found| found.turn_id.trim_start_matches(['0', '-', '4', '8']).to_owned())
        .collect()
}

async fn turns_are_listed_newest_first_in_pages(place: Arc<Place>) {
    let store = open(&place);
    let all = HistoryFilter::default();
    assert_eq!(store.turns(&all, 10).await.unwrap(), []);
    assert_eq!(store.history_summary(9).await.unwrap(), Default::default());
    fill(&store, 1..4).await;
    let text = HistoryTurn {
        kind: "text".into(),
        outcome: "failed".into(),
        said: "\u{0}".into(),
        ..turn(5, "even")
    };
    store.add_turn(&text, &[]).await.unwrap();
    store.add_turn(&turn(5, "again"), &sounds(b"x")).await.unwrap();
    let store = open_again(&place, store).await;
    let found = store.turns(&all, 10).await.unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(
        as_stored(&found[0]),
        HistoryTurn { said: "\u{fffd}".into(), ..text },
        "it is unchanged"
    );
    assert_eq!(as_stored(&found[3]), turn(1, "odd"));
    let places: Vec<_> = sounds(b"").into_iter().map(|sound| sound.place).collect();
    assert_eq!((&found[0].sounds, &found[3].sounds), (&vec![], &places));
    let one = store.turn(&turn(2, "").turn_id).await.unwrap().unwrap();
    assert_eq!(as_stored(&one), turn(2, "even"));
    assert_eq!(store.turn("' OR 1 = 1 --").await.unwrap(), None);
    let first = store.turns(&all, 3).await.unwrap();
    let before = Some(first[2].number);
    assert_eq!(numbers(&store, &HistoryFilter { before, ..all.clone() }, 3).await, ["1"]);
    for (filter, wanted) in [
        (HistoryFilter { client: "odd".into(), ..all.clone() }, vec!["3", "1"]),
        (HistoryFilter { kind: "text".into(), ..all.clone() }, vec!["5"]),
        (
            HistoryFilter { outcome: "answered".into(), client: "even".into(), ..all.clone() },
            vec!["2"],
        ),
        (HistoryFilter { client: "%".into(), ..all }, vec![]),
    ] {
        assert_eq!(numbers(&store, &filter, 10).await, wanted, "{filter:?}");
    }
    let told = store.history_summary(1).await.unwrap();
    assert_eq!((told.turns, told.sound_bytes, told.oldest), (4, 60, Some(at(1))));
    let client = &told.clients[0];
    assert_eq!((told.clients.len(), client.client.as_str(), client.last), (1, "even", at(5)));
    let all = store.history_summary(9).await.unwrap().clients;
    let counts: Vec<_> =
        all.iter().map(|c| (c.client.as_str(), c.kind.as_str(), c.turns)).collect();
    assert_eq!(counts, [("even", "text", 1), ("odd", "voice", 2), ("even", "voice", 1)]);
}

async fn words_are_found_in_any_case_and_taken_literally(place: Arc<Place>) {
    let store = open(&place);
    for (number, heard, said) in [
        (1, "Turn it up by 100%", "OK_done"),
        (2, "Ärger im Büro", "关灯"),
        (3, "a\\b", "okay done"),
    ] {
        let turn = HistoryTurn { heard: heard.into(), said: said.into(), ..turn(number, "a") };
        store.add_turn(&turn, &[]).await.unwrap();
    }
    for (words, wanted) in [
        ("TURN it", vec!["1"]),
        ("0%", vec!["1"]),
        ("ok_d", vec!["1"]),
        ("ÄRGER", vec!["2"]),
        ("büro", vec!["2"]),
        ("关", vec!["2"]),
        ("a\\b", vec!["3"]),
        ("%%", vec![]),
        ("\u{200b}\u{ad}", vec![]),
        ("a_b", vec![]),
        ("up by 100%\nok", vec!["1"]),
        ("", vec!["3", "2", "1"]),
    ] {
        let filter = HistoryFilter { words: words.into(), ..HistoryFilter::default() };
        assert_eq!(numbers(&store, &filter, 10).await, wanted, "{words}");
    }
}

async fn deleting_turns_deletes_their_sound(place: Arc<Place>) {
    let store = open(&place);
    fill(&store, 0..8).await;
    let id = turn(3, "").turn_id;
    let packets = store.sound(&id, Side::Said).await.unwrap();
    assert_eq!(packets.as_deref(), Some(&[7; 10][..]));
    let delete = async |part: HistoryPart| store.delete_turns(&part).await.unwrap();
    assert_eq!(delete(HistoryPart::Turn(id.clone())).await, 1);
    assert_eq!(delete(HistoryPart::Turn(id.clone())).await, 0);
    assert_eq!(store.sound(&id, Side::Said).await.unwrap(), None);
    assert_eq!(delete(HistoryPart::Client("nobody".into())).await, 0);
    assert_eq!(delete(HistoryPart::Client("even".into())).await, 4);
    assert_eq!(numbers(&store, &HistoryFilter::default(), 10).await, ["7", "5", "1"]);
    assert_eq!(delete(HistoryPart::All).await, 3);
    assert_eq!(store.history_summary(9).await.unwrap(), Default::default());
    if place.is_shared() {
        let report = store.check(&mut |_, _| ()).await.unwrap();
        assert_eq!((report.rows["history_sounds"], report.faults), (0, vec![]));
    }
}

async fn old_and_surplus_turns_are_deleted_oldest_first(place: Arc<Place>) {
    let store = open(&place);
    fill(&store, 1..8).await;
    let delete = async |part: HistoryPart| store.delete_turns(&part).await.unwrap();
    assert_eq!(delete(HistoryPart::Before(at(3))).await, 2);
    assert_eq!(delete(HistoryPart::Surplus(5)).await, 0);
    assert_eq!(delete(HistoryPart::Surplus(u64::MAX)).await, 0);
    assert_eq!(delete(HistoryPart::Surplus(2)).await, 3);
    assert_eq!(numbers(&store, &HistoryFilter::default(), 10).await, ["7", "6"]);
    assert_eq!(delete(HistoryPart::Surplus(0)).await, 2);
}

async fn the_oldest_sound_beyond_the_limit_is_deleted_and_its_words_stay(place: Arc<Place>) {
    let store = open(&place);
    fill(&store, 1..5).await;
    for (most, lost, left) in
        [(80, 0, 80), (59, 2, 40), (40, 0, 40), (39, 1, 20), (0, 1, 0), (0, 0, 0)]
    {
        assert_eq!(store.trim_sounds(most).await.unwrap(), lost, "{most}");
        assert_eq!(store.history_summary(0).await.unwrap().sound_bytes, left, "{most}");
    }
    let found = store.turns(&HistoryFilter::default(), 9).await.unwrap();
    assert!(found.len() == 4 && found.iter().all(|found| found.sounds.is_empty()), "{found:?}");
    assert_eq!(store.sound(&turn(4, "").turn_id, Side::Heard).await.unwrap(), None);
}

async fn a_large_selection_is_deleted_in_steps(place: Arc<Place>) {
    let store = open(&place);
    let rows = MOST_DELETED + 3;
    let sql = "INSERT INTO history (turn_id, kind, client, began_ms, outcome, heard, said, searched, \
         timing, sounds, sound_bytes) VALUES ('turn ' || $1, 'text', 'a', 0, '', 'x', '', 'x', '{}', '[]', 0)";
    store.history_summary(0).await.unwrap();
    if !place.is_shared() {
        return;
    }
    let pool =
        sqlx::any::AnyPoolOptions::new().max_connections(1).connect(&place.url).await.unwrap();
    let mut work = pool.begin().await.unwrap();
    for number in 0..rows {
        sqlx::query(sql).bind(number.to_string()).execute(&mut *work).await.unwrap();
    }
    work.commit().await.unwrap();
    pool.close().await;
    assert_eq!(store.delete_turns(&HistoryPart::All).await.unwrap(), u64::from(MOST_DELETED));
    assert_eq!(store.delete_turns(&HistoryPart::All).await.unwrap(), 3);
}

async fn purging_a_chat_session_deletes_its_turns(place: Arc<Place>) {
    let store = open(&place);
    for (number, kind, client) in [(1, "chat", "s1"), (2, "text", "s3"), (3, "chat", "s2")] {
        let turn = HistoryTurn { kind: kind.into(), ..turn(number, client) };
        store.add_turn(&turn, &[]).await.unwrap();
    }
    ChatStore::create(&store, &session("s1"), "").await.unwrap();
    assert!(!store.purge(&id("s1")).await.unwrap(), "it is not deleted");
    assert_eq!(numbers(&store, &HistoryFilter::default(), 9).await, ["3", "2", "1"]);
    let active = [ChatStatus::Active];
    store.set_status(&id("s1"), &active, ChatStatus::Deleted, at(5), None).await.unwrap();
    assert!(store.purge(&id("s1")).await.unwrap());
    assert_eq!(numbers(&store, &HistoryFilter::default(), 9).await, ["3", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_deleted_turn_stays_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqlStore::file(&folder.path().join("hearken.db")).unwrap();
    let words = |number: u32| format!("Rumpelstiltskin said {number}.");
    let sound = |number: u32| format!("sound of Rumpelstiltskin, {number}, {}", "~".repeat(9_000));
    for number in 0..30 {
        let turn = HistoryTurn { heard: words(number), ..turn(number, &format!("{}", number % 3)) };
        store.add_turn(&turn, &sounds(sound(number).as_bytes())).await.unwrap();
    }
    let found = || -> Vec<(bool, bool)> {
        let content = content(folder.path());
        let has = |text: &str| content.contains(&latin(text.as_bytes()));
        let begin = |number| sound(number).get(..34).unwrap_or_default().to_owned();
        (0..30).map(|n| (has(&words(n)) || has(&words(n).to_lowercase()), has(&begin(n)))).collect()
    };
    assert_eq!(found(), [(true, true); 30], "the search finds existing data");
    store.delete_turns(&HistoryPart::Client("1".into())).await.unwrap();
    store.delete_turns(&HistoryPart::Turn(turn(2, "").turn_id)).await.unwrap();
    store.delete_turns(&HistoryPart::Before(at(2))).await.unwrap();
    let wanted = |n: u32| (n % 3 != 1 && n > 2, n % 3 != 1 && n > 2);
    assert_eq!(found(), (0..30).map(wanted).collect::<Vec<_>>());
    store.trim_sounds(0).await.unwrap();
    let wanted: Vec<_> = (0..30).map(|n| (n % 3 != 1 && n > 2, false)).collect();
    assert_eq!(found(), wanted);
    store.shut().await;
    assert_eq!(found(), wanted, "after the last connection is closed");
}

async fn a_turn_that_ends_after_its_words_were_deleted_is_not_stored(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    // Another instance deletes them.
    let [here, there] = [open(&place), open(&place)];
    let before = Timestamp::now();
    let began = |number, client: &str, began| HistoryTurn { began, ..turn(number, client) };
    there.delete_turns(&HistoryPart::Client("a".into())).await.unwrap();
    let later = Timestamp::now().checked_add(SignedDuration::from_secs(1)).unwrap();
    let stored = async || {
        let all = here.turns(&HistoryFilter::default(), 9).await.unwrap();
        all.into_iter().map(|turn| turn.turn_id[35..].to_owned()).collect::<Vec<_>>().concat()
    };
    for (number, client, at) in [(1, "a", before), (2, "b", before), (3, "a", later)] {
        here.add_turn(&began(number, client, at), &[]).await.unwrap();
    }
    assert_eq!(stored().await, "32");
    let deletions = here.deletions_after(before).await.unwrap();
    let parts = |deletions: Vec<(HistoryPart, Timestamp)>| {
        let mut parts: Vec<_> =
            deletions.into_iter().map(|(part, _)| format!("{part:?}")).collect();
        parts.sort();
        parts
    };
    assert_eq!(parts(deletions), [r#"Client("a")"#]);
    // A single turn of a client whose other turns stay.
    let one = turn(5, "b").turn_id;
    there.delete_turns(&HistoryPart::Turn(one.clone())).await.unwrap();
    for number in [5, 6] {
        here.add_turn(&began(number, "b", before), &[]).await.unwrap();
    }
    assert_eq!(stored().await, "632");
    let turn_deleted = format!("Turn({one:?})");
    assert_eq!(
        parts(here.deletions_after(before).await.unwrap()),
        [r#"Client("a")"#, &turn_deleted]
    );
    there.delete_turns(&HistoryPart::All).await.unwrap();
    here.add_turn(&began(4, "c", before), &[]).await.unwrap();
    assert_eq!(stored().await, "");
}
