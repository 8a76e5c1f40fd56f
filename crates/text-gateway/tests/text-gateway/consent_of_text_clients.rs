//! Text clients that are asked for consent before a call, like devices in `consent`: in one session
//! and on one connection. In virtual time.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::time::Duration;

use hearken_base::language::has_chinese;
use hearken_dialogue::role::AssignedRole;
use hearken_dialogue::testkit::answering::{Called, sources};
use hearken_dialogue::testkit::{LlmAct, Script, ScriptedLlm};
use hearken_ports::ProviderErrorKind;
use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::role::RoleSettings;
use hearken_text_gateway::{Sessions, TextGateway, TextGatewaySettings};
use serde_json::json;

use crate::text_clients::{Client, Free, MemoryStore, service};

/// An instance with tools that mislead the model.
#[derive(Clone)]
struct Instance {
    service: TextGateway,
    script: Arc<Script>,
    called: Called,
}

impl Instance {
    fn alone() -> Self {
        Self::at(&Arc::default())
    }

    fn at(store: &Arc<MemoryStore>) -> Self {
        let script = Arc::<Script>::default();
        let called = Called::default();
        let llm = Arc::new(ScriptedLlm(Arc::clone(&script)));
        let tools = sources(&called);
        let tools = Arc::new(move |_: &_, _: &_| tools.clone());
        let service = TextGateway { tools, ..service(llm, Arc::clone(store) as _) };
        Self { service, script, called }
    }

    /// One of several instances with this store.
    fn of_cluster(store: &Arc<MemoryStore>) -> Self {
        let mut instance = Self::at(store);
        let sessions = Sessions::new(Arc::clone(store) as _, Duration::from_secs(3_600), 10);
        instance.service.sessions = Arc::new(sessions.with_locks(Arc::new(Free)));
        instance
    }

    async fn client(&self) -> Client {
        Client::enter(self.service.clone(), Arc::clone(&self.script), true).await
    }
}

/// Returns a client that is asked about the camera.
async fn asked() -> (Client, TextGateway, Called) {
    let instance = Instance::alone();
    (asked_at(&instance).await, instance.service, instance.called)
}

async fn asked_at(instance: &Instance) -> Client {
    let mut client = instance.client().await;
    let called = &instance.called;
    for name in ["read_news", "self_camera_take_photo"] {
        client.script.thinks(LlmAct::Call("", vec![(name, r#"{"question":"who"}"#)]));
    }
    assert_eq!(ask(&mut client, "What is the news?").await, "May I use the camera?");
    assert_eq!(photos(called), 0);
    client
}

async fn ask(client: &mut Client, text: &str) -> String {
    client.say(text);
    client.until("llm_response").await["content"].as_str().unwrap().to_owned()
}

fn photos(called: &Called) -> usize {
    let called = called.lock().unwrap();
    called.iter().filter(|call| *call == r#"self.camera.take_photo {"question":"who"}"#).count()
}

#[actix::test]
async fn a_text_client_that_agrees_gets_the_call_once() {
    let (mut client, _, called) = asked().await;
    assert_eq!(ask(&mut client, "Yes").await, "Good day.");
    assert_eq!(photos(&called), 1);
    for _ in 0..10 {
        assert_eq!(ask(&mut client, "Yes").await, "Good day.");
    }
    assert_eq!(photos(&called), 1);
}

#[actix::test]
async fn a_question_is_in_the_language_of_the_role_or_of_the_conversation() {
    for (language, before, words, is_chinese) in [
        (None, "What is this?", "911", false),
        (None, "What is this?", "OK", false),
        (None, "你好", "OK", true),
        (Some(ReplyLanguage::Zh), "What is this?", "What is the news?", true),
    ] {
        let mut instance = Instance::alone();
        let settings = RoleSettings { language, ..RoleSettings::default() };
        let role = Arc::new(AssignedRole { settings, ..AssignedRole::default() });
        instance.service.roles = Arc::new(move |_| Some(Arc::clone(&role)));
        let gateway = TextGatewaySettings { role: "r".into(), ..TextGatewaySettings::default() };
        instance.service.settings = gateway.into();
        let mut client = instance.client().await;
        assert_eq!(ask(&mut client, before).await, "Good day.");
        for name in ["read_news", "self_camera_take_photo"] {
            client.script.thinks(LlmAct::Call("", vec![(name, r#"{"question":"who"}"#)]));
        }
        let question = ask(&mut client, words).await;
        assert_eq!(has_chinese(&question), is_chinese, "{language:?} {before} {words}: {question}");
        assert_ne!(question, "Good day.");
    }
}

#[actix::test]
async fn a_text_client_that_does_not_agree_in_time_gets_no_call() {
    for (words, wait) in [("No", 0), ("What time is it?", 0), ("Yes", 61)] {
        let (mut client, _, called) = asked().await;
        tokio::time::sleep(Duration::from_secs(wait)).await;
        for words in [words, "Yes"] {
            assert_eq!(ask(&mut client, words).await, "Good day.");
        }
        assert_eq!(photos(&called), 0, "{words}");
    }
}

#[actix::test]
async fn a_result_requires_consent_while_an_answer_made_from_it_is_remembered() {
    // Ten messages are remembered, as in the test of devices.
    for (turns_between, photographs) in [(3, 0), (4, 0), (8, 0), (9, 1)] {
        for is_other_instance in [false, true] {
            let store = Arc::<MemoryStore>::default();
            let here = Instance::of_cluster(&store);
            let mut client = here.client().await;
            let remembers = json!({"type": "configure", "enable_context": true});
            client.send(&remembers);
            here.script.thinks(LlmAct::Call("", vec![("read_news", "{}")]));
            assert_eq!(ask(&mut client, "What is the news?").await, "Good day.");
            for _ in 0..turns_between {
                assert_eq!(ask(&mut client, "Thank you.").await, "Good day.");
            }
            let there = if is_other_instance { Instance::of_cluster(&store) } else { here };
            let mut other = there.client().await;
            other.send(&remembers);
            let photo = ("self_camera_take_photo", r#"{"question":"who"}"#);
            there.script.thinks(LlmAct::Call("", vec![photo]));
            let id = &client.session;
            other.send(&json!({"type": "text_input", "text": "Well.", "session_id": id}));
            other.until("llm_response").await;
            assert_eq!(photos(&there.called), photographs, "{turns_between}, {is_other_instance}");
        }
    }
}

#[actix::test]
async fn a_held_call_belongs_to_one_connection_and_one_session() {
    let (mut client, service, called) = asked().await;
    let mut other = Client::enter(service, Arc::clone(&client.script), true).await;
    let yes = json!({"type": "text_input", "text": "Yes", "session_id": client.session});
    other.send(&yes);
    other.until("llm_response").await;
    assert_eq!(ask(&mut other, "Yes").await, "Good day.");
    assert_eq!(photos(&called), 0, "another connection cannot agree");
    client.send(&json!({"type": "end_session"}));
    client.until("status/idle").await;
    assert_eq!(ask(&mut client, "Yes").await, "Good day.");
    assert_eq!(photos(&called), 0, "it ends with its session");
}

/// Asks in the session with this id, and waits for the answer.
async fn ask_in(client: &mut Client, session: &str, text: &str) {
    client.send(&json!({"type": "text_input", "text": text, "session_id": session}));
    client.until("llm_response").await;
}

#[actix::test]
async fn a_held_call_waits_while_its_connection_asks_in_other_sessions() {
    for others in [1, 9] {
        let (mut client, service, called) = asked().await;
        let mut all = Vec::new();
        for _ in 0..others {
            let script = Arc::clone(&client.script);
            all.push(Client::enter(service.clone(), script, true).await);
        }
        for other in all.iter().chain(&all) {
            ask_in(&mut client, &other.session, "What time is it?").await;
        }
        assert_eq!(ask(&mut client, "Yes").await, "Good day.", "in the session of the last one");
        assert_eq!(photos(&called), 0, "another session cannot agree");
        let own = client.session.clone();
        for _ in 0..2 {
            ask_in(&mut client, &own, "Yes").await;
        }
        assert_eq!(photos(&called), 1, "{others}");
    }
}

#[actix::test]
async fn a_held_call_is_dropped_with_its_session_while_its_connection_is_in_another() {
    for ends in [false, true] {
        let (mut client, service, called) = asked().await;
        let mut other = Client::enter(service, Arc::clone(&client.script), true).await;
        let id = client.session.clone();
        ask_in(&mut client, &other.session, "What time is it?").await;
        if ends {
            other.send(&json!({"type": "start_session", "session_id": id}));
            other.until("status/connected").await;
            other.send(&json!({"type": "end_session"}));
            other.until("status/idle").await;
        } else {
            ask_in(&mut other, &id, "No").await;
        }
        client.send(&json!({"type": "text_input", "text": "Yes", "session_id": id}));
        client.until(if ends { "error" } else { "llm_response" }).await;
        assert_eq!(photos(&called), 0);
    }
}

#[actix::test]
async fn a_held_call_is_dropped_if_the_session_goes_on_elsewhere() {
    let store = Arc::<MemoryStore>::default();
    for is_cluster in [false, true] {
        for (elsewhere, fails, photographs) in [
            (None, false, 1),
            (Some("No, play jazz."), false, 0),
            (Some("Yes"), false, 0),
            (Some("不用了"), false, 0),
            (Some("No"), true, 0),
        ] {
            let here = if is_cluster { Instance::of_cluster(&store) } else { Instance::alone() };
            let mut client = asked_at(&here).await;
            if let Some(text) = elsewhere {
                // Another connection of this instance, or one of another instance.
                let there = if is_cluster { Instance::of_cluster(&store) } else { here.clone() };
                let mut other = there.client().await;
                if fails {
                    let kind = ProviderErrorKind::Unauthorized;
                    there.script.thinks(LlmAct::Fail(kind, Duration::ZERO));
                }
                let id = &client.session;
                other.send(&json!({"type": "text_input", "text": text, "session_id": id}));
                other.until(if fails { "error" } else { "llm_response" }).await;
            }
            assert_eq!(ask(&mut client, "Yes").await, "Good day.");
            assert_eq!(photos(&here.called), photographs, "{elsewhere:?}, {is_cluster}");
        }
    }
}

#[actix::test]
async fn a_held_call_waits_although_its_session_is_named_again_meanwhile() {
    let store = Arc::<MemoryStore>::default();
    for is_cluster in [false, true] {
        for is_elsewhere in [false, true] {
            let instance =
                || if is_cluster { Instance::of_cluster(&store) } else { Instance::alone() };
            let here = instance();
            let mut client = asked_at(&here).await;
            let start = json!({"type": "start_session", "session_id": client.session});
            if is_elsewhere {
                let there = if is_cluster { instance() } else { here.clone() };
                let mut other = there.client().await;
                other.send(&start);
                other.until("status/connected").await;
            } else {
                client.send(&start);
                client.until("status/connected").await;
            }
            assert_eq!(ask(&mut client, "Yes").await, "Good day.");
            assert_eq!(photos(&here.called), 1, "{is_cluster}, {is_elsewhere}");
        }
    }
}
