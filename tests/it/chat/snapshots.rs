//! Snapshots and their worlds, and what is changed of a session while something else goes on in it:
//! the dialogue and the world agree before and after. Not for messages.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hearken_actors::chat::ChatError;
use hearken_actors::ports::{ChatStore as _, ProviderErrorKind, StateError, StateServer as _};
use hearken_actors::testkit::LlmAct;
use hearken_proto::chat::{ChatStatus, CreateSnapshot, Snapshot};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_test_support::eventually;
use jiff::Timestamp;

use super::desk::{Desk, HIT, told};

fn fault<T>(told: &Result<T, ChatError>) -> Option<Fault> {
    told.as_ref().err().map(ChatError::fault)
}

impl Desk {
    async fn hit(&self) {
        self.script.thinks(LlmAct::Call("", vec![HIT]));
        self.say("hit it", None).await.unwrap();
    }

    async fn snapshot(&self) -> Snapshot {
        self.desk.make_snapshot(&self.id, CreateSnapshot::default()).await.unwrap()
    }

    async fn version(&self, id: &SessionId) -> Option<i64> {
        self.state.state(id).await.unwrap()["version"].as_i64()
    }
}

#[tokio::test]
async fn a_snapshot_before_the_first_message_brings_the_world_back() {
    let mut desk = Desk::start().await;
    let id = Desk::session(&desk.desk).await;
    let first = desk.desk.make_snapshot(&id, CreateSnapshot::default()).await.unwrap();
    assert_eq!((first.state_version, first.message_count), (desk.version(&id).await, 0));
    let empty = desk.state.state(&id).await.unwrap()["characters"].clone();
    desk.id = id.clone();
    let goblin = ("create_character", r#"{"name": "Goblin", "id": "goblin", "hp_max": 13}"#);
    desk.script.thinks(LlmAct::Call("", vec![goblin]));
    desk.say("make one", None).await.unwrap();
    assert_ne!(desk.state.state(&id).await.unwrap()["characters"], empty);
    desk.desk.go_back(&id, &first.id).await.unwrap();
    assert_eq!(desk.state.state(&id).await.unwrap()["characters"], empty);
    assert!(desk.said().await.is_empty());
}

#[tokio::test]
async fn a_snapshot_holds_the_world_of_its_moment_also_after_a_message_that_failed() {
    let desk = Desk::start().await;
    let fails = LlmAct::Fail(ProviderErrorKind::BadRequest, Duration::ZERO);
    desk.script.thinks(LlmAct::Call("", vec![HIT])).thinks(fails);
    assert_eq!(fault(&desk.say("hit it", None).await), Some(Fault::LlmUnavailable));
    let kept = desk.snapshot().await;
    assert_eq!(kept.state_version, desk.version(&desk.id).await);
    desk.hit().await;
    assert_eq!(desk.hp().await, 5);
    desk.desk.go_back(&desk.id, &kept.id).await.unwrap();
    assert_eq!((desk.hp().await, desk.said().await.len()), (9, 4));
}

#[tokio::test]
async fn a_snapshot_waits_for_the_message_that_is_being_answered() {
    let desk = Desk::start().await;
    desk.leave_in_the_middle(None).await;
    let release = async {
        tokio::task::yield_now().await;
        desk.state.release();
    };
    let (kept, ()) = tokio::join!(desk.snapshot(), release);
    assert_eq!(kept.message_count, 8, "the whole message");
    assert_eq!(kept.state_version, desk.version(&desk.id).await);
}

#[tokio::test]
async fn going_back_in_an_archived_session_touches_nothing() {
    let desk = Desk::start().await;
    let kept = desk.snapshot().await;
    desk.hit().await;
    desk.desk.archive(&desk.id).await.unwrap();
    let back = desk.desk.go_back(&desk.id, &kept.id).await;
    assert_eq!(fault(&back), Some(Fault::Conflict));
    assert_eq!((desk.hp().await, desk.said().await.len()), (9, 8));
    desk.desk.restore(&desk.id).await.unwrap();
    desk.desk.go_back(&desk.id, &kept.id).await.unwrap();
    desk.desk.go_back(&desk.id, &kept.id).await.expect("as often as one likes");
    assert_eq!((desk.hp().await, desk.said().await.len()), (13, 4));
}

#[tokio::test]
async fn a_dialogue_that_cannot_go_back_leaves_the_world_as_it_was() {
    let desk = Desk::start().await;
    let kept = desk.snapshot().await;
    desk.hit().await;
    // The store knows a later lock than the one that is taken now.
    desk.locks.fence.store(1, Ordering::Relaxed);
    let back = desk.desk.go_back(&desk.id, &kept.id).await;
    assert_eq!(fault(&back), Some(Fault::VersionConflict));
    assert_eq!((desk.hp().await, desk.said().await.len()), (9, 8));
    desk.locks.fence.store(0, Ordering::Relaxed);
    desk.desk.go_back(&desk.id, &kept.id).await.unwrap();
    assert_eq!((desk.hp().await, desk.said().await.len()), (13, 4));
}

#[tokio::test]
async fn a_key_of_after_a_snapshot_is_forgotten_with_its_message() {
    let desk = Desk::start().await;
    let kept = desk.snapshot().await;
    desk.script.thinks(LlmAct::Call("", vec![HIT]));
    desk.say("hit it", Some("k")).await.unwrap();
    desk.desk.go_back(&desk.id, &kept.id).await.unwrap();
    assert_eq!(desk.hp().await, 13);
    desk.script.thinks(LlmAct::Call("", vec![HIT]));
    desk.say("hit it", Some("k")).await.unwrap();
    assert_eq!((desk.hp().await, desk.said().await.len()), (9, 8), "done, and kept");
    desk.say("hit it", Some("k")).await.unwrap();
    assert_eq!(desk.hp().await, 9, "once");
}

#[tokio::test]
async fn what_changes_a_session_waits_for_its_message() {
    let desk = Desk::start().await;
    let mut watch = desk.watch().await;
    desk.leave_in_the_middle(None).await;
    let release = async {
        tokio::task::yield_now().await;
        assert_eq!(desk.desk.session(&desk.id).await.unwrap().status, ChatStatus::Active);
        desk.state.release();
    };
    let (deleted, ()) = tokio::join!(desk.desk.delete(&desk.id), release);
    deleted.unwrap();
    let events = told(&mut watch, "session.deleted").await;
    let ends: Vec<&str> = events.iter().rev().take(2).map(String::as_str).collect();
    assert_eq!(ends, ["session.deleted", "chat.answered"], "{events:?}");
    assert_eq!(fault(&desk.say("hi", None).await), Some(Fault::SessionNotFound));
    assert_eq!(fault(&desk.desk.delete(&desk.id).await), Some(Fault::SessionNotFound));
    for _ in 0..2 {
        desk.desk.restore(&desk.id).await.unwrap();
    }
    assert_eq!((desk.hp().await, desk.said().await.len()), (9, 8));
}

#[tokio::test]
async fn a_world_that_cannot_be_deleted_stops_no_other() {
    let desk = Desk::with(|settings| settings.purge_after = Duration::ZERO).await;
    let mut all = vec![desk.id.clone()];
    for _ in 0..3 {
        all.push(Desk::session(&desk.desk).await);
    }
    desk.state.stuck.lock().unwrap().extend([all[0].clone(), all[2].clone()]);
    for id in &all {
        desk.desk.delete(id).await.unwrap();
    }
    let there = async |id: &SessionId| desk.store.session(id).await.unwrap().is_some();
    // What was deleted in the same millisecond waits for the next.
    eventually("the others are purged", || async {
        desk.desk.purge().await.unwrap();
        (!there(&all[1]).await && !there(&all[3]).await).then_some(())
    })
    .await;
    assert!(there(&all[0]).await && there(&all[2]).await, "they are left for the next time");
    desk.state.stuck.lock().unwrap().clear();
    assert_eq!(desk.desk.purge().await.unwrap(), 2);
    assert!(matches!(desk.state.state(&all[0]).await, Err(StateError::Unknown(_))));
}

#[tokio::test]
async fn a_session_that_is_restored_while_others_are_purged_keeps_its_world() {
    let desk = Desk::with(|settings| settings.purge_after = Duration::ZERO).await;
    desk.desk.delete(&desk.id).await.unwrap();
    eventually("it could be purged", || async {
        let old = desk.store.purgeable(Timestamp::now(), 0, 1).await.unwrap();
        (!old.is_empty()).then_some(())
    })
    .await;
    let lock = desk.desk.locks.lock(desk.id.as_str(), Duration::ZERO).await.unwrap().unwrap();
    let restoring = async {
        // The purge has its list by now, and waits for the session.
        tokio::task::yield_now().await;
        let from = [ChatStatus::Deleted];
        let set = desk.store.set_status(&desk.id, &from, ChatStatus::Active, Timestamp::now());
        set.await.unwrap().unwrap();
        drop(lock);
    };
    let (purged, ()) = tokio::join!(desk.desk.purge(), restoring);
    assert_eq!((purged.unwrap(), desk.hp().await), (0, 13));
}
