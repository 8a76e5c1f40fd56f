//! Storing and deleting of turns: a journal with an in-memory store, and a store whose file is temporarily unusable.

use hearken_dialogue::turn_trace::{ClientKind, Outcome};
use hearken_ports::role::Keep;
use hearken_ports::store::{DeviceStore as _, HistoryFilter};
use hearken_store::SqlStore;
use hearken_test_support::eventually;

use super::*;

fn settings(keep: Keep) -> HistoryConfig {
    HistoryConfig { keep, ..HistoryConfig::default() }
}

/// Ends a turn with these words.
fn turn(journal: &TurnJournal, words: &str) {
    let trace = journal.begin(ClientKind::Text, "a client");
    trace.answers(words);
    trace.said("yes");
    trace.finish(Outcome::Answered);
}

async fn heard(history: &History) -> Vec<String> {
    let turns = history.store().turns(&HistoryFilter::default(), 10).await.unwrap();
    turns.into_iter().map(|found| found.heard).collect()
}

fn in_memory(keep: Keep) -> (History, TurnJournal) {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let journal = TurnJournal::default();
    (History::new(store, settings(keep), journal.clone(), CallLog::new(true)), journal)
}

#[tokio::test]
async fn only_turns_that_end_while_the_history_is_on_are_stored() {
    let (history, journal) = in_memory(Keep::Off);
    let process = CancellationToken::new();
    turn(&journal, "before");
    history.change(settings(Keep::Text));
    turn(&journal, "meanwhile");
    journal.begin(ClientKind::Voice, "a cough").finish(Outcome::Silent);
    let unfinished = journal.begin(ClientKind::Text, "a client");
    unfinished.answers("unfinished");
    history.change(settings(Keep::Off));
    drop(unfinished);
    turn(&journal, "after");
    history.store_rest(&process).await;
    assert_eq!(heard(&history).await, ["meanwhile"]);
    let kept = history.store().turns(&HistoryFilter::default(), 10).await.unwrap().remove(0);
    assert_eq!(
        (kept.kind.as_str(), kept.outcome.as_str(), kept.said.as_str()),
        ("text", "answered", "yes")
    );
    let timing: serde_json::Value = serde_json::from_str(&kept.timing).unwrap();
    assert_eq!(timing["spans"][0]["name"], "prompt");
}

#[tokio::test]
async fn turns_beyond_the_limits_are_deleted() {
    let (history, journal) = in_memory(Keep::Text);
    for number in 0..4 {
        turn(&journal, &format!("{number}"));
    }
    history.store_rest(&CancellationToken::new()).await;
    let now = Timestamp::now();
    assert_eq!(history.trim(now).await.unwrap(), 0);
    history.change(HistoryConfig { max_turns: 3, ..settings(Keep::Text) });
    assert_eq!(history.trim(now).await.unwrap(), 1);
    assert_eq!(heard(&history).await, ["3", "2", "1"]);
    let days = |days: i32| now + SignedDuration::from_hours(24 * i64::from(days));
    assert_eq!(history.trim(days(29)).await.unwrap(), 0);
    history.change(HistoryConfig { retention_days: 0, ..settings(Keep::Text) });
    assert_eq!(history.trim(days(10_000)).await.unwrap(), 0);
    history.change(settings(Keep::Off));
    assert_eq!(history.trim(days(31)).await.unwrap(), 3, "also while the history is off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_stored_once_the_store_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let [file, aside] = ["hearken.db", "aside.db"].map(|name| folder.path().join(name));
    std::fs::write(&file, "this is no database, and it is long enough to be seen as such").unwrap();
    let journal = TurnJournal::default();
    let process = CancellationToken::new();
    let store = Arc::new(SqlStore::file(&file).unwrap());
    let history = History::new(
        Arc::clone(&store) as _,
        settings(Keep::Text),
        journal.clone(),
        CallLog::new(true),
    );
    let running = tokio::spawn(history.clone().run(process.clone()));
    turn(&journal, "first");
    eventually("the store was asked", async || store.check_usable().await.err()).await;
    std::fs::rename(&file, &aside).unwrap();
    turn(&journal, "second");
    eventually("both are stored", async || {
        (heard(&history).await == ["second", "first"]).then_some(())
    })
    .await;
    process.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn a_turn_that_began_before_its_client_was_deleted_is_not_stored_when_it_ends() {
    let parts = [HistoryPart::Client("a client".into()), HistoryPart::All];
    for part in parts {
        let (history, journal) = in_memory(Keep::Text);
        let begin = |client: &str| {
            let trace = journal.begin(ClientKind::Text, client);
            trace.answers("words");
            trace
        };
        let theirs = begin("a client");
        let other = begin("another client");
        assert_eq!(history.delete(&part).await.unwrap(), 0);
        // Times have a resolution of one millisecond.
        sleep(Duration::from_millis(5)).await;
        let later = begin("a client");
        for trace in [theirs, other, later] {
            trace.finish(Outcome::Answered);
        }
        history.store_rest(&CancellationToken::new()).await;
        let kept = if part == HistoryPart::All { 1 } else { 2 };
        assert_eq!(heard(&history).await.len(), kept, "{part:?}");
    }
}

#[tokio::test]
async fn deleting_turns_of_a_client_forgets_its_words_for_the_rules_about_danger() {
    let said = |words: &RecentWords| {
        ["a client", "another client"].map(|client| words.of(client).earlier().words.len())
    };
    for is_stored in [true, false] {
        let (history, journal) = in_memory(if is_stored { Keep::Text } else { Keep::Off });
        let words = RecentWords::default();
        let history = history.with_recent_words(words.clone());
        turn(&journal, "fire");
        let id = journal.last(1)[0].id.to_string();
        if is_stored {
            history.store_rest(&CancellationToken::new()).await;
            // The turn is found in the store, although the journal no longer has it.
            journal.forget(|_| true);
        }
        for (part, left) in [
            (HistoryPart::Turn("unknown".into()), [1, 1]),
            (HistoryPart::Surplus(1_000), [1, 1]),
            (HistoryPart::Turn(id), [0, 1]),
            (HistoryPart::Client("a client".into()), [0, 1]),
            (HistoryPart::All, [0, 0]),
        ] {
            words.forget(None, Timestamp::MAX);
            for client in ["a client", "another client"] {
                words.of(client).add("fire".into());
            }
            history.delete(&part).await.unwrap();
            assert_eq!(said(&words), left, "{part:?}, stored {is_stored}");
        }
    }
}
