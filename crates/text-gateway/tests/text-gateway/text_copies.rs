//! Text sessions that two instances use: data stored by one survives, even if the other could not
//! read it. Not for one instance.
#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hearken_dialogue::testkit::{Script, ScriptedLlm};
use hearken_ports::{BoxError, KeptSession, SessionStore, StoreOutcome};
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
    let mut service =
        service(Arc::new(ScriptedLlm(Arc::clone(&script))), Arc::clone(store) as Arc<_>);
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
