//! Text sessions that two instances use: data stored by one survives, even if the other could not
//! read it, and what one has forgotten does not return. Not for one instance.
#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hearken_dialogue::testkit::refusing::RefusingLlm;
use hearken_dialogue::testkit::{Script, ScriptedLlm};
use hearken_ports::{BoxError, KeptSession, Llm, SessionStore, StoreOutcome};
use hearken_proto::ids::SessionId;
use hearken_text_gateway::Sessions;
use serde_json::{Value, json};

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
    /// Returns the words of people in a stored session, and its instructions.
    async fn said(&self, id: &str) -> (Vec<String>, Value) {
        let kept = self.kept.load(&SessionId::new(id)).await.unwrap().unwrap();
        let state: Value = serde_json::from_str(&kept.state).unwrap();
        let messages = state["messages"].as_array().unwrap().iter();
        let said = messages.filter(|message| message["role"] == "user");
        let said = said.map(|message| message["content"].as_str().unwrap().to_owned());
        (said.collect(), state["manner"]["system_prompt"].clone())
    }
}

/// Returns a client of a new instance.
async fn client(store: &Arc<Shaky>) -> Client {
    let script = Arc::<Script>::default();
    client_of(store, Arc::new(ScriptedLlm(Arc::clone(&script))), script).await
}

/// Returns a client of a new instance with this model.
async fn client_of(store: &Arc<Shaky>, llm: Arc<dyn Llm>, script: Arc<Script>) -> Client {
    let mut service = service(llm, Arc::clone(store) as Arc<_>);
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
