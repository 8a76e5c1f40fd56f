//! Ten ordinary turns of a session after another holder took its lock: requests, answers, events
//! and stored messages equal those of a session without it. Without HTTP, since a single server
//! loses no lock; `cluster` has real ones. Of the odd event itself, only the end is checked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hearken_chat::turns::RequestOptions;
use hearken_chat::{Asker, ChatError, ChatService};
use hearken_cluster::LocalLocks;
use hearken_dialogue::testkit::LlmAct;
use hearken_dialogue::testkit::ten_turns::{Conversation, TurnSeen, assert_undisturbed, ten_turns};
use hearken_dialogue::turn_trace::Outcome;
use hearken_ports::{ChatMessage, Watch};
use hearken_proto::chat::CreateSnapshot;
use hearken_proto::fault::Fault;
use hearken_test_support::eventually;
use jiff::Timestamp;
use serde_json::json;

use super::in_process::{ChatInProcess, HIT};

const NEVER: Duration = Duration::from_secs(3_600);
/// A fence below that of the stored session.
const OLD: i64 = 1;

/// A client that talks in the session of a chat and watches it.
struct Talk<'a> {
    chat: &'a ChatInProcess,
    watch: Watch,
    /// Number of messages before the first turn.
    before: usize,
}

impl<'a> Talk<'a> {
    async fn new(chat: &'a ChatInProcess) -> Self {
        Self { chat, watch: chat.watch().await, before: chat.said().await.len() }
    }
}

/// A message without the ids of its calls.
fn shown(message: &ChatMessage) -> ChatMessage {
    let mut content = message.content.clone();
    for call in &message.calls {
        content.push_str(&format!(" calls {} {}", call.name, call.arguments));
    }
    ChatMessage::new(message.role, content)
}

impl Conversation for Talk<'_> {
    async fn turn(&mut self, n: usize) -> TurnSeen {
        let script = &self.chat.script;
        if n % 3 == 1 {
            script.thinks(LlmAct::Call("", vec![("open_door", r#"{"door_id": "gate"}"#)]));
        }
        let from = script.prompts.lock().unwrap().len();
        let told = self.chat.say(&format!("question {n}"), None).await.unwrap();
        let mut events = Vec::new();
        while let Ok(event) = self.watch.events.try_recv() {
            events.push(format!("{}: {}", event.kind, event.data.as_str()));
        }
        let rows = self.chat.said().await.split_off(self.before);
        let prompts = script.prompts.lock().unwrap();
        let prompt = |all: &[ChatMessage]| all[1..].iter().map(shown).collect();
        TurnSeen {
            prompts: prompts[from..].iter().map(|asked| prompt(&asked.messages)).collect(),
            answer: format!(
                "{}, {:?}, {}, {:?}",
                told.response, told.state_changes, told.requires_roll, told.turn_info
            ),
            events,
            rows,
        }
    }
}

/// Sends a message; another holder takes the session before the answer is stored.
async fn is_overtaken(chat: &ChatInProcess) {
    let told = chat.say("an odd question", None).await;
    assert_eq!(told.unwrap_err().fault(), Fault::VersionConflict);
}

/// The lock is lost while the model answers.
async fn while_it_is_answered(chat: &ChatInProcess) {
    chat.script.thinks(LlmAct::Write(vec!["late"], NEVER));
    let asked = chat.script.prompts.lock().unwrap().len() + 1;
    let losing = async {
        eventually("the model is asked", || async {
            (chat.script.prompts.lock().unwrap().len() == asked).then_some(())
        })
        .await;
        chat.locks.lose();
    };
    tokio::join!(is_overtaken(chat), losing);
}

/// The lock is lost while a tool changes the world.
async fn while_it_calls(chat: &ChatInProcess) {
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.state.hold();
    let calls = *chat.state.done.borrow() + 1;
    let losing = async {
        chat.state.until(calls).await;
        chat.locks.lose();
        chat.state.release();
    };
    tokio::join!(is_overtaken(chat), losing);
    assert_eq!(chat.hp().await, 9, "the change of the tool remains");
}

/// Only the store notices the loss, as it knows a later lock.
async fn when_it_is_kept(chat: &ChatInProcess) {
    chat.locks.fence.store(OLD, Ordering::Relaxed);
    is_overtaken(chat).await;
    chat.locks.fence.store(0, Ordering::Relaxed);
}

#[tokio::test]
async fn a_turn_that_cannot_be_stored_is_traced_as_failed() {
    let chat = ChatInProcess::start().await;
    let last = || chat.service.turn_journal.last(1).remove(0).outcome;
    assert_eq!(last(), Some(Outcome::Answered));
    when_it_is_kept(&chat).await;
    assert_eq!(last(), Some(Outcome::Failed));
}

/// The clock was an hour ahead when the session was used, and has been set back since.
#[tokio::test]
async fn a_clock_that_was_set_back_costs_one_message_at_most() {
    let chat = ChatInProcess::start().await;
    let ahead = Timestamp::now().as_microsecond() + 3_600_000_000;
    chat.locks.fence.store(ahead, Ordering::Relaxed);
    chat.say("from the future", None).await.unwrap();
    chat.locks.fence.store(0, Ordering::Relaxed);
    is_overtaken(&chat).await;
    chat.say("one", None).await.unwrap();
    // A server that starts learns the stored fences before its first message.
    let next = ChatService { locks: Arc::new(LocalLocks::new()), ..chat.service.clone() };
    next.observe_fences().await;
    let request = serde_json::from_value(json!({"message": "two"})).unwrap();
    next.chat(&chat.id, &request, RequestOptions::default()).await.unwrap();
    assert!(chat.said().await.iter().any(|line| line.contains("two")));
}

/// The same for creating and restoring a snapshot.
#[tokio::test]
async fn a_clock_that_was_set_back_costs_one_snapshot_at_most() {
    let chat = ChatInProcess::start().await;
    let overtaken = |fault: ChatError| assert_eq!(fault.fault(), Fault::VersionConflict);
    let make = async || {
        chat.service.make_snapshot(&Asker::Anybody, &chat.id, CreateSnapshot::default()).await
    };
    let ahead = |hours: i64| Timestamp::now().as_microsecond() + hours * 3_600_000_000;
    for hours in [1, 2] {
        chat.locks.fence.store(ahead(hours), Ordering::Relaxed);
        let made = make().await.unwrap();
        chat.locks.fence.store(0, Ordering::Relaxed);
        if hours == 1 {
            overtaken(make().await.unwrap_err());
        } else {
            overtaken(chat.service.restore_snapshot(&chat.id, &made.id).await.unwrap_err());
        }
        make().await.unwrap();
        chat.service.restore_snapshot(&chat.id, &made.id).await.unwrap();
    }
}

/// Ten turns in a session after this event.
async fn undisturbed(when: &str, odd: impl AsyncFnOnce(&ChatInProcess), plain: &[TurnSeen]) {
    let chat = ChatInProcess::start().await;
    let before = chat.said().await;
    odd(&chat).await;
    assert_eq!(chat.said().await, before, "a lock lost {when}: nothing of the message is stored");
    let after = ten_turns(&mut Talk::new(&chat).await).await;
    assert_undisturbed(&format!("a lock lost {when}"), plain, &after, &[]);
}

#[tokio::test]
async fn ten_turns_are_normal_after_a_lock_was_lost() {
    let chat = ChatInProcess::start().await;
    let plain = ten_turns(&mut Talk::new(&chat).await).await;
    assert!(plain.iter().all(|turn| !turn.events.is_empty() && !turn.rows.is_empty()));
    undisturbed("while the model writes", while_it_is_answered, &plain).await;
    undisturbed("while a tool is called", while_it_calls, &plain).await;
    undisturbed("unnoticed", when_it_is_kept, &plain).await;
}
