//! Clients that leave before the answer: a turn that has started to change the world is completed,
//! stored and published; any other turn is dropped; a repeated request gets the one answer. Not for
//! cutting sockets.

use std::time::Duration;

use futures_util::StreamExt as _;
use hearken_chat::{ChatError, ChatSettings};
use hearken_dialogue::testkit::LlmAct;
use hearken_ports::ProviderErrorKind;
use hearken_proto::fault::Fault;
use hearken_test_support::eventually;
use hearken_test_support::vendors::Behaviour;
use reqwest::Method;
use serde_json::{Value, json};

use super::in_process::{ChatInProcess, HIT, told};
use super::{SOON, Table, answer, code};

const NEVER: Duration = Duration::from_secs(3_600);

fn fault(told: &Result<hearken_proto::chat::ChatResponse, ChatError>) -> Option<Fault> {
    told.as_ref().err().map(ChatError::fault)
}

#[tokio::test]
async fn a_message_that_has_called_a_tool_runs_to_its_end() {
    let chat = ChatInProcess::start().await;
    let mut watch = chat.watch().await;
    let before = chat.said().await.len();
    chat.leave_in_the_middle(None).await;
    chat.state.release();
    let events = told(&mut watch, "chat.answered").await;
    assert!(events.len() > 1, "changes of the world are published: {events:?}");
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, before + 4));
    // The next prompt contains it.
    chat.say("and now?", None).await.unwrap();
    assert!(chat.script.last_prompt().iter().any(|line| line == "User: hit it"));
}

#[tokio::test]
async fn an_event_has_the_time_at_which_it_happened() {
    let chat = ChatInProcess::start().await;
    let mut watch = chat.watch().await;
    chat.leave_in_the_middle(None).await;
    let happened = chat.state.happened.lock().unwrap().expect("the state server reports it");
    chat.state.release();
    let event = tokio::time::timeout(SOON, watch.events.recv()).await.unwrap().unwrap();
    assert_eq!((event.kind.as_str(), event.timestamp), ("character.hp_changed", happened));
}

#[tokio::test]
async fn a_repeated_request_waits_for_its_first_and_gets_that_answer() {
    let chat = ChatInProcess::start().await;
    chat.leave_in_the_middle(Some("k")).await;
    let repeated =
        async { tokio::join!(chat.say("hit it", Some("k")), chat.say("hit it", Some("k"))) };
    let release = async {
        tokio::task::yield_now().await;
        chat.state.release();
    };
    let ((one, two), ()) = tokio::join!(repeated, release);
    let one = one.unwrap();
    let two = two.unwrap();
    assert_eq!((&one, one.response.as_str()), (&two, "Good day."));
    assert!(one.state_changes.contains_key("goblin"), "{one:?}");
    assert_eq!((chat.hp().await, chat.said().await.len()), (9, 8));
}

#[tokio::test]
async fn a_message_whose_client_left_is_dropped_before_its_first_call() {
    let chat = ChatInProcess::start().await;
    for key in [None, Some("k")] {
        chat.script.thinks(LlmAct::Write(vec!["late"], NEVER));
        let asked = chat.script.prompts.lock().unwrap().len() + 1;
        let thinking = eventually("the model is asked", || async {
            (chat.script.prompts.lock().unwrap().len() == asked).then_some(())
        });
        tokio::select! {
            told = chat.say("think", key) => panic!("it was answered: {told:?}"),
            () = thinking => {}
        }
        // The session is free again, unless the request has a key and may be repeated.
        let next = tokio::time::timeout(Duration::from_millis(500), chat.say("next", None)).await;
        assert_eq!(next.is_ok_and(|told| told.is_ok()), key.is_none(), "{key:?}");
    }
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let chat = ChatInProcess::start().await;
    let first = chat.say("hello", Some("k")).await.unwrap();
    assert_eq!(chat.say("hello", Some("k")).await.unwrap(), first);
    let other = chat.say("goodbye", Some("k")).await;
    assert_eq!(fault(&other), Some(Fault::Conflict));
    assert_eq!(chat.said().await.len(), 4 + 2, "nothing of the other request is stored");
}

#[tokio::test]
async fn a_key_can_be_reused_after_a_failure_that_changed_nothing() {
    let chat = ChatInProcess::start().await;
    let fails = || LlmAct::Fail(ProviderErrorKind::Unauthorized, Duration::ZERO);
    chat.script.thinks(fails());
    assert_eq!(fault(&chat.say("hit it", Some("k")).await), Some(Fault::LlmUnavailable));
    // A refused tool call has changed nothing either.
    let nobody = ("update_hp", r#"{"character_id": "nobody", "change": -4}"#);
    chat.script.thinks(LlmAct::Call("", vec![nobody, ("no_such_tool", "{}")])).thinks(fails());
    assert_eq!(fault(&chat.say("hit it", Some("k")).await), Some(Fault::LlmUnavailable));
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.say("hit it", Some("k")).await.unwrap();
    assert_eq!(chat.hp().await, 9);
}

#[tokio::test]
async fn a_turn_that_failed_after_a_change_is_not_repeated() {
    let chat = ChatInProcess::start().await;
    let fails = LlmAct::Fail(ProviderErrorKind::Unauthorized, Duration::ZERO);
    chat.script.thinks(LlmAct::Call("", vec![HIT])).thinks(fails);
    assert_eq!(fault(&chat.say("hit it", Some("k")).await), Some(Fault::LlmUnavailable));
    let asked = chat.script.prompts.lock().unwrap().len();
    let again = chat.say("hit it", Some("k")).await;
    assert_eq!(fault(&again), Some(Fault::Conflict));
    assert_eq!((chat.hp().await, chat.script.prompts.lock().unwrap().len()), (9, asked));
    assert_eq!(chat.said().await.len(), 4, "nothing of it is stored");
    chat.say("what now?", Some("another")).await.unwrap();
}

#[tokio::test]
async fn shutdown_waits_for_turns_that_have_effects() {
    let chat = ChatInProcess::start().await;
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.state.hold();
    let stopping = async {
        chat.state.until(2).await;
        chat.process.cancel();
        assert_eq!(fault(&chat.say("too late", None).await), Some(Fault::GoingAway));
        chat.state.release();
    };
    let (told, ()) = tokio::join!(chat.say("hit it", None), stopping);
    assert_eq!(told.unwrap().response, "Good day.");
    assert!(chat.service.tasks.drain().await);
}

#[tokio::test]
async fn shutdown_drops_turns_without_effects_and_cuts_slow_ones() {
    let chat = ChatInProcess::start().await;
    let thinks_for_ever = || LlmAct::Write(vec!["late"], NEVER);
    let mut watch = chat.watch().await;
    let other = ChatInProcess::start().await;
    other.script.thinks(thinks_for_ever());
    chat.script.thinks(LlmAct::Call("", vec![HIT])).thinks(thinks_for_ever());
    let stopping = async {
        told(&mut watch, "character.hp_changed").await;
        chat.process.cancel();
        other.process.cancel();
    };
    // A key makes no difference: nothing has changed.
    let (begun, not_begun, ()) =
        tokio::join!(chat.say("hit it", None), other.say("hm", Some("k")), stopping);
    assert_eq!(
        (fault(&begun), fault(&not_begun)),
        (Some(Fault::GoingAway), Some(Fault::GoingAway))
    );
}

#[tokio::test]
async fn a_message_times_out_even_after_a_change() {
    let chat = ChatInProcess::start().await;
    // Set only now, so that a slow machine does not fail the messages before.
    let settings = chat.service.settings.get();
    let turn_limit = Duration::from_secs(2);
    chat.service.settings.set(ChatSettings { turn_limit, ..(*settings).clone() });
    chat.script.thinks(LlmAct::Call("", vec![HIT])).thinks(LlmAct::Write(vec!["late"], NEVER));
    assert_eq!(fault(&chat.say("hit it", Some("k")).await), Some(Fault::Unavailable));
    assert_eq!(fault(&chat.say("hit it", Some("k")).await), Some(Fault::Conflict));
    assert_eq!(chat.hp().await, 9);
}

#[tokio::test]
async fn a_call_is_awaited_even_if_the_lock_is_lost() {
    let chat = ChatInProcess::start().await;
    let mut watch = chat.watch().await;
    chat.script.thinks(LlmAct::Call("", vec![HIT]));
    chat.state.hold();
    let losing = async {
        chat.state.until(2).await;
        chat.locks.lose();
        let next = tokio::time::timeout(Duration::from_millis(100), chat.say("next", None)).await;
        assert!(next.is_err(), "the session stays locked until the call has returned");
        chat.state.release();
    };
    let (lost, ()) = tokio::join!(chat.say("hit it", Some("k")), losing);
    assert_eq!(fault(&lost), Some(Fault::VersionConflict));
    assert!(told(&mut watch, "character.hp_changed").await.len() == 1);
    assert_eq!(fault(&chat.say("hit it", Some("k")).await), Some(Fault::Conflict));
}

#[actix_web::test]
async fn a_client_that_disconnects_during_a_call_later_finds_the_answer() {
    let table = Table::start().await;
    let session = table.session().await;
    session.say(r#"call create_character {"name": "Goblin", "id": "goblin", "hp_max": 13}"#).await;
    let hp = async || session.get("/characters").await.1["characters"][0]["hp"].clone();
    for (n, stream) in [false, true].into_iter().enumerate() {
        table.vendors.llm.set(Behaviour::Slow);
        let hit = r#"call update_hp {"character_id": "goblin", "change": -4}"#;
        let key = format!("k{n}");
        let ask = || {
            let request = table.request(Method::POST, &session.path("/chat"));
            let said = json!({"message": hit, "stream": stream});
            request.header("Idempotency-Key", &key).json(&said)
        };
        let left = 13 - 4 * (i64::try_from(n).unwrap() + 1);
        let leaving = async {
            let mut body = ask().send().await.unwrap().bytes_stream();
            while body.next().await.is_some() {}
            panic!("it was answered first");
        };
        tokio::select! {
            () = leaving => {}
            () = eventually("the goblin is hit", || async { (hp().await == left).then_some(()) }) => {}
        }
        let (status, told) = answer(ask()).await;
        assert_eq!(status, 200, "{told}");
        table.vendors.llm.set(Behaviour::Normal);
        assert_eq!((hp().await, session.said().await.len()), (json!(left), 4 * (n + 2)));
    }
    table.server.stop().await;
}

#[actix_web::test]
async fn other_requests_with_effects_are_completed_too() {
    let table = Table::start().await;
    let session = table.session().await;
    table.vendors.llm.set(Behaviour::Slow);
    let talking = session.say("a question that takes a while to be said back, for it is a long one and each of its words is slow");
    let leaving = async {
        table.vendors.llm.until(|seen| seen.requests == 1).await;
        // The request waits for the message in progress; its client disconnects.
        let request = table.request(Method::POST, &session.path("/snapshots"));
        let left = request.timeout(Duration::from_secs(1)).send().await;
        assert!(left.is_err_and(|error| error.is_timeout()));
    };
    tokio::join!(talking, leaving);
    let kept = eventually("the snapshot is there", || async {
        session.get("/snapshots").await.1["snapshots"].as_array()?.first().cloned()
    })
    .await;
    assert_eq!(kept["message_count"], 2, "{kept}");
    table.server.stop().await;
}

#[actix_web::test]
async fn a_key_with_another_body_is_a_conflict() {
    let table = Table::start().await;
    let session = table.session().await;
    let ask = |said: Value| {
        let request = table.request(Method::POST, &session.path("/chat"));
        answer(request.header("Idempotency-Key", "k").timeout(SOON).json(&said))
    };
    let (status, first) = ask(json!({"message": "hi", "player_id": "p"})).await;
    assert_eq!(status, 200, "{first}");
    let same = json!({"message": "hi", "player_id": "p", "context_only": false, "more": 1});
    assert_eq!(ask(same).await, (200, first));
    for other in [
        json!({"message": "hi there", "player_id": "p"}),
        json!({"message": "hi"}),
        json!({"message": "hi", "player_id": "p", "context_only": true}),
    ] {
        assert_eq!(code(ask(other.clone()).await), (409, "CONFLICT".into()), "{other}");
    }
    assert_eq!(session.said().await.len(), 2);
    table.server.stop().await;
}
