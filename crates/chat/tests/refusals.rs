//! Chat sessions with a model that refuses prompts and a state server that fails to create and to
//! delete worlds; those that several instances serve, on every kind of store. Not for HTTP, nor for
//! the content of answers.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_base::tasks::Tasks;
use hearken_chat::turns::RequestOptions;
use hearken_chat::{
    Asker, ChatError, ChatService, ChatSettings, HeldCalls, PublishedEvents, TouchedSessions,
};
use hearken_cluster::{LocalBus, LocalLocks};
use hearken_dialogue::testkit::refusing::RefusingLlm;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{
    ChatMessage, SessionFilter, SessionLocks, StateError, StateOutcome, StateServer, Tool,
};
use hearken_proto::chat::{ChatResponse, CreateSnapshot};
use hearken_proto::fault::Fault;
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use hearken_test_support::places::{Place, on};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// What happens while the state server is asked for a world.
type Meanwhile = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// A state server that only records which worlds it has.
#[derive(Default)]
struct Worlds {
    all: Arc<Mutex<HashSet<SessionId>>>,
    /// Happens before its next answer.
    meanwhile: Mutex<Option<Meanwhile>>,
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

    fn state(&self, id: &SessionId) -> BoxFuture<'static, Result<Map<String, Value>, StateError>> {
        let all = Arc::clone(&self.all);
        let meanwhile = self.meanwhile.lock().unwrap().take();
        let id = id.clone();
        Box::pin(async move {
            if let Some(meanwhile) = meanwhile {
                meanwhile().await;
            }
            let is_there = all.lock().unwrap().contains(&id);
            if is_there { Ok(Map::new()) } else { Err(StateError::Unknown(id.to_string())) }
        })
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
        Self::on("sqlite::memory:", tweak)
    }

    /// With the store at this URL.
    fn on(url: &str, tweak: impl FnOnce(&mut ChatSettings)) -> Self {
        let llm = Arc::new(RefusingLlm::new());
        let worlds = Arc::<Worlds>::default();
        let mut settings = ChatSettings::default();
        tweak(&mut settings);
        let service = ChatService {
            llm: llm.clone(),
            store: Arc::new(SqlStore::at(url).unwrap()),
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
            touched: TouchedSessions::default(),
            published: PublishedEvents::default(),
            turn_journal: TurnJournal::default(),
            forget_calls: Arc::new(|_| {}),
        };
        Self { service, llm, worlds }
    }

    /// Another instance, with the same store and servers.
    fn other_instance(&self, locks: Arc<dyn SessionLocks>) -> Self {
        let service = ChatService {
            locks,
            held: HeldCalls::default(),
            touched: TouchedSessions::default(),
            published: PublishedEvents::default(),
            ..self.service.clone()
        };
        Self { service, llm: Arc::clone(&self.llm), worlds: Arc::clone(&self.worlds) }
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

/// Runs a test on every kind of store.
async fn on_every_store<F, T>(test: F)
where
    F: Fn(Arc<Place>) -> T + Copy,
    T: Future<Output = ()> + Send + 'static,
{
    for place in [Some(Place::memory()), Some(Place::file()), Place::postgres().await] {
        on(place, test).await;
    }
}

#[tokio::test]
async fn every_instance_leaves_out_the_refused_messages_and_no_others() {
    on_every_store(|place| async move {
        let one = Chat::on(&place.url, |_| {});
        let two = one.other_instance(Arc::clone(&one.service.locks));
        let snapshot = async |id: &SessionId| {
            let wanted = CreateSnapshot::default();
            one.service.make_snapshot(&Asker::Anybody, id, wanted).await.unwrap().id
        };
        one.llm.refuse(|messages| messages.len() > 1 && contains(messages, "poison"));
        let id = one.create(&Asker::Anybody).await.unwrap();
        let empty = snapshot(&id).await;
        one.asked(&id, "poison").await;
        let poisoned = snapshot(&id).await;
        assert_eq!(one.asked(&id, "a").await, [3, 1], "asked again without them");
        assert_eq!(two.asked(&id, "b").await, [3], "another instance does not send them either");
        two.service.restore_snapshot(&id, &poisoned).await.unwrap();
        assert_eq!(one.asked(&id, "c").await, [1], "the same messages");
        two.service.restore_snapshot(&id, &empty).await.unwrap();
        assert_eq!(two.asked(&id, "d").await, [1]);
        assert_eq!(two.asked(&id, "e").await, [3]);
        assert_eq!(one.asked(&id, "f").await, [5], "other messages have their numbers");
        assert_eq!(two.asked(&id, "g").await, [7]);
    })
    .await;
}

/// Deletes and purges a session at another instance.
fn purged_by(other: &Chat, id: &SessionId) -> Meanwhile {
    let service = other.service.clone();
    let id = id.clone();
    Box::new(move || {
        Box::pin(async move {
            service.delete(&id).await.unwrap();
            // Only sessions that were deleted before now are purged.
            while service.purge().await.unwrap() == 0 {
                tokio::task::yield_now().await;
            }
        })
    })
}

#[tokio::test]
async fn no_message_leaves_a_world_of_a_session_that_is_purged_meanwhile() {
    on_every_store(|place| async move {
        let one = Chat::on(&place.url, |settings| settings.purge_after = Duration::ZERO);
        // While Redis is lost, the lock of one instance does not keep the other out.
        let two = one.other_instance(Arc::new(LocalLocks::new()));
        for context_only in [true, false] {
            let id = one.create(&Asker::Anybody).await.unwrap();
            *one.worlds.meanwhile.lock().unwrap() = Some(purged_by(&two, &id));
            let message = json!({"message": "hello", "context_only": context_only});
            let message = serde_json::from_value(message).unwrap();
            let told = one.service.chat(&id, &message, RequestOptions::default()).await;
            match told {
                Ok(told) => assert!(context_only && told.context.is_some(), "{told:?}"),
                Err(error) => {
                    assert!(matches!(&error, ChatError::SessionNotFound(_)), "{error:?}");
                    assert!(!context_only);
                }
            }
            assert_eq!(one.worlds.count(), 0, "{context_only}");
        }
    })
    .await;
}

#[tokio::test]
async fn only_a_message_that_is_answered_creates_a_missing_world() {
    let chat = Chat::with(|_| {});
    let id = chat.create(&Asker::Anybody).await.unwrap();
    chat.worlds.all.lock().unwrap().clear();
    let message = json!({"message": "hello", "context_only": true});
    let message = serde_json::from_value(message).unwrap();
    let told = chat.service.chat(&id, &message, RequestOptions::default()).await.unwrap();
    assert!(told.context.is_some());
    assert_eq!(chat.worlds.count(), 0);
    chat.asked(&id, "hello").await;
    assert_eq!(chat.worlds.count(), 1);
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
