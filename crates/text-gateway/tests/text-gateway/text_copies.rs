//! Text sessions that two instances use: data stored by one survives, even if the other could not
//! read it, and what one has forgotten does not return. Not for one instance.
#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use hearken_dialogue::testkit::refusing::RefusingLlm;
use hearken_dialogue::testkit::{LlmAct, Script, ScriptedLlm};
use hearken_dialogue::{Character, SharedStyle};
use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::{
    BoxError, KeptSession, Llm, SessionStore, StoreOutcome, Tool, ToolCall, ToolError, ToolOutput,
    ToolSource,
};
use hearken_proto::ids::SessionId;
use hearken_text_gateway::Sessions;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::text_clients::{Client, Free, MemoryStore, service};

/// A store whose reads fail at times.
#[derive(Default)]
struct Shaky {
    kept: MemoryStore,
    next_load_fails: AtomicBool,
}

#[async_trait]
impl SessionStore for Shaky {
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        if self.next_load_fails.swap(false, Ordering::Relaxed) {
            return Err("down".into());
        }
        self.kept.load(id).await
    }

    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError> {
        self.kept.keep(session, known).await
    }

    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError> {
        self.kept.touch(id, last_used).await
    }

    async fn forget(&self, id: &SessionId) -> Result<(), BoxError> {
        self.kept.forget(id).await
    }

    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError> {
        self.kept.forget_unused(since).await
    }
}

impl Shaky {
    async fn state(&self, id: &str) -> Value {
        let kept = self.kept.load(&SessionId::new(id)).await.unwrap().unwrap();
        serde_json::from_str(&kept.state).unwrap()
    }

    /// Returns the words of people in a stored session, and its instructions.
    async fn said(&self, id: &str) -> (Vec<String>, Value) {
        let state = self.state(id).await;
        let messages = state["messages"].as_array().unwrap().iter();
        let said = messages.filter(|message| message["role"] == "user");
        let said = said.map(|message| message["content"].as_str().unwrap().to_owned());
        (said.collect(), state["manner"]["system_prompt"].clone())
    }
}

/// Points in time of a call of [`StyleTool`].
#[derive(Default)]
struct CallTimes {
    begun: Notify,
    may_end: Notify,
}

/// A tool that sets the language and the character of a session when it may.
struct StyleTool {
    style: SharedStyle,
    times: Arc<CallTimes>,
}

impl ToolSource for StyleTool {
    fn name(&self) -> &str {
        "style"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let parameters = json!({"type": "object"});
        let name = "be_german".into();
        let description = "Speaks German.".into();
        [Tool { name, description, parameters, finishes: false, destructive: false }].into()
    }

    fn call(&self, _: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let style = Arc::clone(&self.style);
        let times = Arc::clone(&self.times);
        Box::pin(async move {
            times.begun.notify_one();
            times.may_end.notified().await;
            let mut style = style.lock().unwrap();
            style.language = Some(ReplyLanguage::De);
            style.character = Some(Character { name: "Karl".into(), persona: String::new() });
            Ok(ToolOutput::text("done"))
        })
    }
}

/// Returns a client of a new instance.
async fn client(store: &Arc<Shaky>) -> Client {
    let script = Arc::<Script>::default();
    client_of(store, Arc::new(ScriptedLlm(Arc::clone(&script))), script).await
}

/// Returns a client of a new instance with this model.
async fn client_of(store: &Arc<Shaky>, llm: Arc<dyn Llm>, script: Arc<Script>) -> Client {
    client_with(store, llm, script, Arc::default()).await
}

/// Returns a client of a new instance with this model, whose tool is called at these times.
async fn client_with(
    store: &Arc<Shaky>,
    llm: Arc<dyn Llm>,
    script: Arc<Script>,
    times: Arc<CallTimes>,
) -> Client {
    let mut service = service(llm, Arc::clone(store) as Arc<_>);
    service.tools = Arc::new(move |_, style| {
        let style = Arc::clone(style);
        vec![Arc::new(StyleTool { style, times: Arc::clone(&times) })]
    });
    let sessions = Sessions::new(Arc::clone(store) as Arc<_>, Duration::from_secs(3_600), 10);
    service.sessions = Arc::new(sessions.with_locks(Arc::new(Free)));
    Client::enter(service, script, true).await
}

async fn says(client: &mut Client, text: &str) {
    client.say(text);
    assert_eq!(client.until("llm_response").await["stored"], Value::Null, "{text}");
}

#[actix::test]
async fn data_of_another_instance_survives_a_failed_read() {
    let store = Arc::<Shaky>::default();
    let mut here = client(&store).await;
    let mut there = client(&store).await;
    let id = here.session.clone();
    says(&mut here, "one plain").await;
    there.send(&json!({"type": "start_session", "session_id": id}));
    assert_eq!(there.until("status/connected").await["data"]["session_id"], id.as_str());
    says(&mut there, "two plain").await;
    store.next_load_fails.store(true, Ordering::Relaxed);
    says(&mut here, "three plain").await;
    let said = ["one plain", "two plain", "three plain"].map(str::to_owned);
    assert_eq!(store.said(&id).await.0, said);
    // The same holds for instructions that change an outdated copy.
    says(&mut there, "four plain").await;
    store.next_load_fails.store(true, Ordering::Relaxed);
    here.send(&json!({"type": "configure", "system_prompt": "Be brief."}));
    says(&mut here, "five plain").await;
    let (all, prompt) = store.said(&id).await;
    assert_eq!(all[3..], ["four plain", "five plain"].map(str::to_owned));
    assert_eq!(prompt, "Be brief.");
}

#[actix::test]
async fn a_style_set_in_a_turn_survives_a_use_and_a_turn_of_another_instance() {
    for instructs in [false, true] {
        let store = Arc::<Shaky>::default();
        let script = Arc::<Script>::default();
        let times = Arc::<CallTimes>::default();
        let llm = Arc::new(ScriptedLlm(Arc::clone(&script)));
        let mut here = client_with(&store, llm, Arc::clone(&script), Arc::clone(&times)).await;
        let mut there = client(&store).await;
        let id = here.session.clone();
        says(&mut here, "one plain").await;
        let act = LlmAct::Call("", vec![("be_german", "{}")]);
        script.llm.lock().unwrap().push_back(act);
        here.say("Speak German");
        times.begun.notified().await;
        there.send(&json!({"type": "start_session", "session_id": id}));
        there.until("status/connected").await;
        if instructs {
            there.send(&json!({"type": "configure", "system_prompt": "Be brief."}));
            says(&mut there, "two plain").await;
        }
        times.may_end.notify_one();
        here.until("llm_response").await;
        let style = store.state(&id).await["manner"].clone();
        assert_eq!(
            (&style["language"], &style["character"]["name"]),
            (&json!("de"), &json!("Karl"))
        );
        let (said, prompt) = store.said(&id).await;
        if instructs {
            assert_eq!(said, ["one plain", "two plain", "Speak German"]);
            assert_eq!(prompt, "Be brief.");
        } else {
            assert_eq!(said, ["one plain", "Speak German"]);
        }
    }
}

#[actix::test]
async fn refused_messages_are_forgotten_at_the_second_refusal_on_whichever_instance() {
    for places in [[0, 0], [0, 1], [1, 0]] {
        let store = Arc::<Shaky>::default();
        let model = Arc::new(RefusingLlm::new());
        let mut clients = Vec::new();
        for _ in 0..2 {
            clients.push(client_of(&store, model.clone(), Arc::default()).await);
        }
        let id = clients[0].session.clone();
        clients[0].send(&json!({"type": "configure", "enable_context": true}));
        says(&mut clients[0], "poison").await;
        clients[1].send(&json!({"type": "configure", "enable_context": true}));
        clients[1].send(&json!({"type": "start_session", "session_id": id}));
        clients[1].until("status/connected").await;
        model.refuse(|messages| messages.iter().any(|m| m.content.contains("poison")));
        for at in places {
            clients[at].say("hello");
            assert_eq!(clients[at].until("error").await["code"], "LLM_ERROR", "{places:?}");
        }
        for (at, said) in [(0, vec!["well"]), (1, vec!["well", "again"])] {
            says(&mut clients[at], said.last().unwrap()).await;
            assert_eq!(store.said(&id).await.0, said, "{places:?}");
        }
        // A single refusal forgets nothing.
        model.refuse(|messages| messages.last().is_some_and(|m| m.content == "bad"));
        clients[0].say("bad");
        clients[0].until("error").await;
        says(&mut clients[1], "good").await;
        clients[1].say("bad");
        clients[1].until("error").await;
        says(&mut clients[0], "fine").await;
        assert_eq!(store.said(&id).await.0, ["well", "again", "good", "fine"], "{places:?}");
    }
}
