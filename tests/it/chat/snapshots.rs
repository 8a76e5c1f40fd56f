//! Snapshots and their worlds, and concurrent changes of a session: the dialogue and the world
//! agree before and after. Not for messages.

use std::sync::atomic::Ordering;
use std::time::Duration;

use hearken_chat::{Asker, ChatError};
use hearken_dialogue::testkit::LlmAct;
use hearken_ports::{ChatStore as _, ProviderErrorKind, StateError, StateServer as _};
use hearken_proto::chat::{ChatStatus, CreateSnapshot, Snapshot};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_test_support::eventually;
use jiff::Timestamp;

use super::in_process::{ChatInProcess, HIT, told};

fn fault<T>(told: &Result<T, ChatError>) -> Option<Fault> {
    told.as_ref().err().map(ChatError::fault)
}

impl ChatInProcess {
    async fn hit(&self) {
        self.script.thinks(LlmAct::Call("", vec![HIT]));
        self.say("hit it", None).await.unwrap();
    }

    async fn snapshot(&self) -> Snapshot {
        self.service
            .make_snapshot(&Asker::Anybody, &self.id, CreateSnapshot::default())
            .await
            .unwrap()
    }

    async fn version(&self, id: &SessionId) -> Option<i64> {
        self.state.state(id).await.unwrap()["version"].as_i64()
    }
}

#[tokio::test]
async fn a_snapshot_before_the_first_message_restores_the_world() {
    let mut chat = ChatInProcess::start().await;
    let id = ChatInProcess::session(&chat.service).await;
    let first =
        chat.service.make_snapshot(&Asker::Anybody, &id, CreateSnapshot::default()).await.unwrap();
    assert_eq!((first.state_version, first.message_count), (chat.version(&id).await, 0));
    let empty = chat.state.state(&id).await.unwrap()["characters"].clone();
    chat.id = id.clone();
    let goblin = ("create_character", r#"{"name": "Goblin", "id": "goblin", "hp_max": 13}"#);
    chat.script.thinks(LlmAct::Call("", vec![goblin]));
    chat.say("make one", None).await.unwrap();
    assert_ne!(chat.state.state(&id).await.unwrap()["characters"], empty);
    chat.service.restore_snapshot(&id, &first.id).await.unwrap();
    assert_eq!(chat.state.state(&id).await.unwrap()["characters"], empty);
    assert!(chat.said().await.is_empty());
}

#[tokio::test]
async fn a_snapshot_after_a_failed_message_has_the_current_world() {
    let chat = ChatInProcess::start().await;
    let fails = LlmAct::Fail(ProviderErrorKind::Unauthorized, Duration::ZERO);
    chat.script.thinks(LlmAct::Call("", vec![HIT])).thinks(fails);
    assert_eq!(fault(&chat.say("hit it", None).await), Some(Fault::LlmUnavailable));
    let kept = chat.snapshot().await;
    assert_eq!(kept.state_version, chat.version(&chat.id).await);
    chat.hit().await;
    assert_eq!(chat.hp().await, 5);
    chat.service.restore_snapshot(&chat.id, &kept.id).await.unwrap();
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, 4));
}

#[tokio::test]
async fn a_snapshot_waits_for_the_message_in_progress() {
    let chat = ChatInProcess::start().await;
    chat.leave_in_the_middle(None).await;
    let release = async {
        tokio::task::yield_now().await;
        chat.state.release();
    };
    let (kept, ()) = tokio::join!(chat.snapshot(), release);
    assert_eq!(kept.message_count, 8, "the whole message");
    assert_eq!(kept.state_version, chat.version(&chat.id).await);
}

#[tokio::test]
async fn restoring_a_snapshot_of_an_archived_session_changes_nothing() {
    let chat = ChatInProcess::start().await;
    let kept = chat.snapshot().await;
    chat.hit().await;
    chat.service.archive(&chat.id).await.unwrap();
    let back = chat.service.restore_snapshot(&chat.id, &kept.id).await;
    assert_eq!(fault(&back), Some(Fault::Conflict));
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, 8));
    chat.service.restore(&chat.id).await.unwrap();
    chat.service.restore_snapshot(&chat.id, &kept.id).await.unwrap();
    chat.service.restore_snapshot(&chat.id, &kept.id).await.expect("it can be restored again");
    assert_eq!((chat.hp().await, chat.said().await.len()), (13, 4));
}

#[tokio::test]
async fn a_failed_restore_leaves_the_world_unchanged() {
    let chat = ChatInProcess::start().await;
    let kept = chat.snapshot().await;
    chat.hit().await;
    // The store knows a later lock than the one that is taken here.
    chat.locks.fence.store(1, Ordering::Relaxed);
    let back = chat.service.restore_snapshot(&chat.id, &kept.id).await;
    assert_eq!(fault(&back), Some(Fault::VersionConflict));
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, 8));
    chat.locks.fence.store(0, Ordering::Relaxed);
    chat.service.restore_snapshot(&chat.id, &kept.id).await.unwrap();
    assert_eq!((chat.hp().await, chat.said().await.len()), (13, 4));
}

#[tokio::test]
async fn a_key_used_after_a_snapshot_is_forgotten_at_its_restore() {
    let chat = ChatInProcess::start().await;
    let kept = chat.snapshot().await;
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.say("hit it", Some("k")).await.unwrap();
    chat.service.restore_snapshot(&chat.id, &kept.id).await.unwrap();
    assert_eq!(chat.hp().await, 13);
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.say("hit it", Some("k")).await.unwrap();
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, 8), "done and stored");
    chat.say("hit it", Some("k")).await.unwrap();
    assert_eq!(chat.hp().await, 9, "once");
}

#[tokio::test]
async fn changes_of_a_session_wait_for_the_message_in_progress() {
    let chat = ChatInProcess::start().await;
    let mut watch = chat.watch().await;
    chat.leave_in_the_middle(None).await;
    let release = async {
        tokio::task::yield_now().await;
        assert_eq!(chat.service.session(&chat.id).await.unwrap().status, ChatStatus::Active);
        chat.state.release();
    };
    let (deleted, ()) = tokio::join!(chat.service.delete(&chat.id), release);
    deleted.unwrap();
    let events = told(&mut watch, "session.deleted").await;
    let ends: Vec<&str> = events.iter().rev().take(2).map(String::as_str).collect();
    assert_eq!(ends, ["session.deleted", "chat.answered"], "{events:?}");
    assert_eq!(fault(&chat.say("hi", None).await), Some(Fault::SessionNotFound));
    assert_eq!(fault(&chat.service.delete(&chat.id).await), Some(Fault::SessionNotFound));
    for _ in 0..2 {
        chat.service.restore(&chat.id).await.unwrap();
    }
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, 8));
}

#[tokio::test]
async fn an_undeletable_world_does_not_stop_the_purge_of_others() {
    let chat = ChatInProcess::with(|settings| settings.purge_after = Duration::ZERO).await;
    let mut all = vec![chat.id.clone()];
    for _ in 0..3 {
        all.push(ChatInProcess::session(&chat.service).await);
    }
    let refused = (all[0].clone(), StateError::Refused("it is stuck".into()));
    let lost = (all[2].clone(), StateError::Failed("the connection was closed".into()));
    chat.state.stuck.lock().unwrap().extend([refused, lost]);
    for id in &all {
        chat.service.delete(id).await.unwrap();
    }
    let there = async |id: &SessionId| chat.store.session(id).await.unwrap().is_some();
    // A session that was deleted in the same millisecond is purged in the next one.
    eventually("the others are purged", || async {
        chat.service.purge().await.unwrap();
        (!there(&all[1]).await && !there(&all[3]).await).then_some(())
    })
    .await;
    assert!(there(&all[0]).await && there(&all[2]).await, "they are left for the next purge");
    // The world of the first still exists; that of the other may be deleted.
    chat.service.restore(&all[0]).await.unwrap();
    chat.service.delete(&all[0]).await.unwrap();
    assert_eq!(fault(&chat.service.restore(&all[2]).await), Some(Fault::SessionNotFound));
    chat.state.stuck.lock().unwrap().clear();
    eventually("these are purged too", || async {
        chat.service.purge().await.unwrap();
        (!there(&all[0]).await && !there(&all[2]).await).then_some(())
    })
    .await;
    assert!(matches!(chat.state.state(&all[0]).await, Err(StateError::Unknown(_))));
}

#[tokio::test]
async fn a_session_restored_during_a_purge_keeps_its_world() {
    let chat = ChatInProcess::with(|settings| settings.purge_after = Duration::ZERO).await;
    chat.service.delete(&chat.id).await.unwrap();
    eventually("it could be purged", || async {
        let old = chat.store.purgeable(Timestamp::now(), 0, 1).await.unwrap();
        (!old.is_empty()).then_some(())
    })
    .await;
    let lock = chat.service.locks.lock(chat.id.as_str(), Duration::ZERO).await.unwrap().unwrap();
    let restoring = async {
        // By now the purge has its list and waits for the session.
        tokio::task::yield_now().await;
        let from = [ChatStatus::Deleted];
        let set =
            chat.store.set_status(&chat.id, &from, ChatStatus::Active, Timestamp::now(), None);
        set.await.unwrap().unwrap();
        drop(lock);
    };
    let (purged, ()) = tokio::join!(chat.service.purge(), restoring);
    assert_eq!((purged.unwrap(), chat.hp().await), (0, 13));
}
