//! Chat sessions on a store in memory, with a model that refuses prompts and a state server that
//! fails to create and to delete worlds. Not for HTTP, nor for the content of answers.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_base::tasks::Tasks;
use hearken_chat::turns::RequestOptions;
use hearken_chat::{
    Asker, ChatError, ChatService, ChatSettings, HeldCalls, PublishedEvents, RefusedMessages,
    TouchedSessions,
};
use hearken_cluster::{LocalBus, LocalLocks};
use hearken_dialogue::testkit::refusing::RefusingLlm;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{ChatMessage, SessionFilter, StateError, StateOutcome, StateServer, Tool};
use hearken_proto::chat::{ChatResponse, CreateSnapshot};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// A state server that only records which worlds it has.
#[derive(Default)]
struct Worlds {
    all: Mutex<HashSet<SessionId>>,
    /// Failure of each creation, after the world was created.
    fails: Mutex<Option<StateError>>,
    /// Worlds that cannot be deleted.
    stuck: Mutex<HashSet<SessionId>>,
}

impl Worlds {
    fn count(&self) -> usize {
        self.all.lock().unwrap().len()
    }
}

fn ready<T: Send + 'static>(
    told: Result<T, StateError>,
) -> BoxFuture<'static, Result<T, StateError>> {
    Box::pin(std::future::ready(told))
}

impl StateServer for Worlds {
    fn tools(&self) -> BoxFuture<'static, Result<Arc<[Tool]>, StateError>> {
        ready(Ok(Arc::from([])))
    }

    fn call(
        &self,
        _: &SessionId,
        tool: &str,
        _: Map<String, Value>,
        _: Option<i64>,
    ) -> BoxFuture<'static, Result<StateOutcome, StateError>> {
        ready(Err(StateError::Unknown(tool.to_owned())))
    }

    fn state(&self, _: &SessionId) -> BoxFuture<'static, Result<Map<String, Value>, StateError>> {
        ready(Ok(Map::new()))
    }

    fn create(&self, id: &SessionId, _: &str) -> BoxFuture<'static, Result<(), StateError>> {
        let fails = self.fails.lock().unwrap().clone();
        if fails.as_ref().is_none_or(StateError::may_be_done) {
            self.all.lock().unwrap().insert(id.clone());
        }
        ready(fails.map_or(Ok(()), Err))
    }

    fn delete(&self, id: &SessionId) -> BoxFuture<'static, Result<(), StateError>> {
        if self.stuck.lock().unwrap().contains(id) {
            return ready(Err(StateError::Failed("it is stuck".into())));
        }
        self.all.lock().unwrap().remove(id);
        ready(Ok(()))
    }

    fn restore(&self, _: &SessionId, _: i64) -> BoxFuture<'static, Result<bool, StateError>> {
        ready(Ok(false))
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// A service with its model and state server.
struct Chat {
    service: ChatService,
    llm: Arc<RefusingLlm>,
    worlds: Arc<Worlds>,
}

impl Chat {
    fn with(tweak: impl FnOnce(&mut ChatSettings)) -> Self {
        let llm = Arc::new(RefusingLlm::new());
        let worlds = Arc::<Worlds>::default();
        let mut settings = ChatSettings::default();
        tweak(&mut settings);
        let service = ChatService {
            llm: llm.clone(),
            store: Arc::new(SqlStore::at("sqlite::memory:").unwrap()),
            state: Some(worlds.clone()),
            events: Arc::new(LocalBus::new()),
            locks: Arc::new(LocalLocks::new()),
            tools: Arc::new(|_| Vec::new()),
            describer: None,
            now: Arc::new(|| "noon".into()),
            settings: settings.into(),
            roles: Arc::new(|_| None),
            tasks: Tasks::new(8, Duration::from_secs(1), CancellationToken::new()),
            held: HeldCalls::default(),
            refused: RefusedMessages::default(),
            touched: TouchedSessions::default(),
            published: PublishedEvents::default(),
            turn_journal: TurnJournal::default(),
            forget_calls: Arc::new(|_| {}),
        };
        Self { service, llm, worlds }
    }

    async fn create(&self, asker: &Asker) -> Result<SessionId, ChatError> {
        let wanted = serde_json::from_value(json!({"name": "n", "creator_id": "c"})).unwrap();
        Ok(self.service.create(wanted, asker).await?.id)
    }

    async fn say(&self, id: &SessionId, message: &str) -> Result<ChatResponse, ChatError> {
        let request = serde_json::from_value(json!({"message": message})).unwrap();
        self.service.chat(id, &request, RequestOptions::default()).await
    }

    /// Says this, and returns the number of messages in each prompt for it.
    async fn asked(&self, id: &SessionId, message: &str) -> Vec<usize> {
        self.llm.take_asked();
        let told = self.say(id, message).await.unwrap();
        assert_eq!(told.response, format!("To {message}."));
        self.llm.take_asked().iter().map(Vec::len).collect()
    }

    async fn count(&self, id: &SessionId) -> usize {
        self.service.messages(id, None, 100).await.unwrap().messages.len()
    }
}

fn contains(messages: &[ChatMessage], word: &str) -> bool {
    messages.iter().any(|message| message.content.contains(word))
}

#[tokio::test]
async fn a_session_whose_earlier_messages_are_refused_goes_on_without_them() {
    let chat = Chat::with(|_| {});
    let id = chat.create(&Asker::Anybody).await.unwrap();
    chat.asked(&id, "poison").await;
    let kept = CreateSnapshot::default();
    let snapshot = chat.service.make_snapshot(&Asker::Anybody, &id, kept).await.unwrap();
    chat.llm.refuse(|messages| contains(messages, "poison"));
    assert_eq!(chat.asked(&id, "one").await, [3, 1], "asked again without them");
    assert_eq!(chat.asked(&id, "two").await, [3], "they are not sent again");
    assert_eq!(chat.count(&id).await, 6, "all are stored");
    // These words are refused themselves: nothing is forgotten for them.
    let refused = chat.say(&id, "more poison").await.unwrap_err();
    assert_eq!(refused.fault(), Fault::LlmUnavailable);
    assert_eq!(chat.asked(&id, "three").await, [5]);
    chat.service.restore_snapshot(&id, &snapshot.id).await.unwrap();
    assert_eq!(chat.asked(&id, "four").await, [1], "the same messages");
    let other = chat.create(&Asker::Anybody).await.unwrap();
    chat.asked(&other, "one").await;
    assert_eq!(chat.asked(&other, "two").await, [3]);
}

#[tokio::test]
async fn a_session_that_gets_too_long_for_its_model_is_always_answered() {
    let chat = Chat::with(|_| {});
    chat.llm.refuse(|messages| messages.len() > 6);
    let id = chat.create(&Asker::Anybody).await.unwrap();
    let mut refused = 0;
    for n in 0..20 {
        let asked = chat.asked(&id, &format!("number {n}")).await;
        assert!(asked.len() <= 2 && *asked.last().unwrap() <= 6, "{n}: {asked:?}");
        refused += asked.len() - 1;
    }
    assert_eq!(refused, 6, "once in three messages");
    assert_eq!(chat.count(&id).await, 40);
}

#[tokio::test]
async fn a_world_that_may_have_been_created_is_deleted_with_its_session() {
    for error in [
        StateError::Timeout(Duration::from_secs(5)),
        StateError::Failed("reset".into()),
        StateError::Refused("no".into()),
        StateError::Conflict(None),
    ] {
        let chat = Chat::with(|_| {});
        *chat.worlds.fails.lock().unwrap() = Some(error.clone());
        let failed = chat.create(&Asker::Anybody).await.unwrap_err();
        assert!(matches!(&failed, ChatError::State(told) if *told == error), "{failed:?}");
        assert_eq!(chat.worlds.count(), 0, "{error}");
        let filter = SessionFilter { limit: 9, ..SessionFilter::default() };
        let listed = chat.service.sessions(filter, &Asker::Anybody).await.unwrap();
        assert_eq!(listed.total, 0);
    }
}

#[tokio::test]
async fn room_is_made_by_the_sessions_that_can_be_purged() {
    let ann = Asker::Client("address 203.0.113.1".into());
    for stuck in [vec![0], vec![1], vec![0, 1], vec![0, 1, 2]] {
        let chat = Chat::with(|settings| settings.max_sessions_per_address = 3);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(chat.create(&ann).await.unwrap());
        }
        for id in &all {
            chat.service.delete(id).await.unwrap();
        }
        chat.worlds.stuck.lock().unwrap().extend(stuck.iter().map(|n| all[*n].clone()));
        for n in stuck.len()..3 {
            chat.create(&ann).await.unwrap_or_else(|error| panic!("{n}, {stuck:?}: {error}"));
        }
        // Not the error of a world that has nothing to do with the request.
        assert!(matches!(chat.create(&ann).await, Err(ChatError::ShareUsed(_))), "{stuck:?}");
        chat.worlds.stuck.lock().unwrap().clear();
        for _ in &stuck {
            chat.create(&ann).await.unwrap();
        }
        assert_eq!(chat.worlds.count(), 3, "{stuck:?}");
    }
}

#[tokio::test]
async fn a_message_gets_no_error_of_another_sessions_world() {
    let ann = Asker::Client("address 203.0.113.1".into());
    let chat = Chat::with(|settings| settings.max_bytes_per_address = 2_000);
    let old = chat.create(&ann).await.unwrap();
    chat.say(&old, &"x".repeat(500)).await.unwrap();
    let id = chat.create(&ann).await.unwrap();
    chat.service.delete(&old).await.unwrap();
    chat.worlds.stuck.lock().unwrap().insert(old);
    let say = async || {
        let request = serde_json::from_value(json!({"message": "x".repeat(100)})).unwrap();
        let options = RequestOptions { asker: ann.clone(), ..RequestOptions::default() };
        chat.service.chat(&id, &request, options).await
    };
    let mut answered = 0;
    let refused = loop {
        match say().await {
            Ok(_) => answered += 1,
            Err(error) => break error,
        }
        assert!(answered < 10, "it ends");
    };
    assert!(matches!(refused, ChatError::ShareUsed(_)), "{refused:?}");
    chat.worlds.stuck.lock().unwrap().clear();
    say().await.unwrap();
}
