//! Remembered messages of museum sessions on a store in memory: with a model that refuses some of
//! them, with two instances whose locks do not exclude each other, and their age. Not for HTTP, nor
//! for functions.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_base::memory_pool::MemoryPool;
use hearken_base::wall_clock::Clock;
use hearken_cluster::LocalLocks;
use hearken_dialogue::testkit::refusing::RefusingLlm;
use hearken_dialogue::usage::{UsageMeter, UsageSettings};
use hearken_museum::{Museum, MuseumError, MuseumPorts, MuseumSettings};
use hearken_ports::store::MuseumStore;
use hearken_ports::{ChatMessage, Llm, LlmDelta, Prompt, ProviderError};
use hearken_proto::ids::SessionId;
use hearken_proto::museum::{ParseRequest, Register};
use hearken_store::SqlStore;
use jiff::Timestamp;
use jiff::civil::Date;
use serde_json::json;
use tokio::sync::Barrier;

fn instance(llm: Arc<dyn Llm>, store: &Arc<SqlStore>, answers_for: Duration) -> Museum {
    let settings = MuseumSettings { answers_for, ..MuseumSettings::default() };
    instance_at(Arc::new(Timestamp::now), llm, store, settings)
}

fn instance_at(
    clock: Clock,
    llm: Arc<dyn Llm>,
    store: &Arc<SqlStore>,
    settings: MuseumSettings,
) -> Museum {
    let ports = MuseumPorts {
        clock: Arc::clone(&clock),
        expiry_clock: clock,
        llm,
        store: store.clone(),
        locks: Arc::new(LocalLocks::new()),
        answers: None,
        model: "model".into(),
        now: Arc::new(|| "noon".into()),
        memory_pool: MemoryPool::default(),
        usage: UsageMeter::new(UsageSettings::default(), || Date::ZERO),
    };
    Museum::new(ports, settings)
}

fn memory() -> Arc<SqlStore> {
    Arc::new(SqlStore::at("sqlite::memory:").unwrap())
}

async fn register(museum: &Museum) -> SessionId {
    let body = json!({"client_metadata": {}, "functions": []});
    museum.register(Register::read(&body).unwrap(), None).await.unwrap().id
}

async fn parse(museum: &Museum, id: &SessionId, words: &str) -> Result<String, MuseumError> {
    let body = json!({"user_input": words, "scene_type": "public"});
    Ok(museum.parse(id, ParseRequest::read(&body).unwrap()).await?.response)
}

/// The remembered words and answers of a session.
async fn history(store: &SqlStore, id: &SessionId) -> Vec<String> {
    let history = store.find(id).await.unwrap().unwrap().history;
    history.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

/// A museum with one session and a model that refuses prompts.
struct Refusing {
    llm: Arc<RefusingLlm>,
    store: Arc<SqlStore>,
    museum: Museum,
    id: SessionId,
}

impl Refusing {
    async fn start(answers_for: Duration) -> Self {
        let llm = Arc::new(RefusingLlm::new());
        let store = memory();
        let museum = instance(llm.clone(), &store, answers_for);
        let id = register(&museum).await;
        Self { llm, store, museum, id }
    }

    /// Says this, and returns the number of messages in each prompt for it.
    async fn asked(&self, words: &str) -> Vec<usize> {
        self.llm.take_asked();
        assert_eq!(parse(&self.museum, &self.id, words).await.unwrap(), format!("To {words}."));
        self.llm.take_asked().iter().map(Vec::len).collect()
    }
}

fn contains(messages: &[ChatMessage], word: &str) -> bool {
    messages.iter().any(|message| message.content.contains(word))
}

#[tokio::test]
async fn refused_messages_are_forgotten() {
    for answers_for in [Duration::ZERO, Duration::from_secs(60)] {
        let museum = Refusing::start(answers_for).await;
        museum.asked("poison").await;
        museum.llm.refuse(|messages| contains(messages, "poison"));
        // These words are refused themselves: nothing is forgotten for them.
        let refused = parse(&museum.museum, &museum.id, "more poison").await;
        assert!(matches!(refused, Err(MuseumError::Llm(_))), "{refused:?}");
        assert_eq!(history(&museum.store, &museum.id).await, ["poison", "To poison."]);
        assert_eq!(museum.asked("one").await, [3, 1], "asked again without them");
        assert_eq!(history(&museum.store, &museum.id).await, ["one", "To one."]);
        assert_eq!(museum.asked("two").await, [3]);
    }
}

#[tokio::test]
async fn a_session_that_gets_too_long_for_its_model_is_always_answered() {
    let museum = Refusing::start(Duration::ZERO).await;
    museum.llm.refuse(|messages| messages.len() > 6);
    for n in 0..20 {
        let asked = museum.asked(&format!("number {n}")).await;
        assert!(asked.len() <= 2 && *asked.last().unwrap() <= 6, "{n}: {asked:?}");
    }
}

/// A model that answers once both instances have read the session.
struct Meeting {
    inner: RefusingLlm,
    both: Arc<Barrier>,
    meets: Arc<AtomicBool>,
}

impl Llm for Meeting {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let reply = self.inner.reply(prompt);
        let both = Arc::clone(&self.both);
        let meets = self.meets.load(Ordering::Relaxed);
        let met = async move {
            if meets {
                both.wait().await;
            }
            reply
        };
        stream::once(met).flatten().boxed()
    }
}

#[tokio::test]
async fn two_instances_without_a_common_lock_lose_no_turn() {
    let store = memory();
    let both = Arc::new(Barrier::new(2));
    let meets = Arc::<AtomicBool>::default();
    let of_cluster = || {
        let inner = RefusingLlm::new();
        let llm = Meeting { inner, both: Arc::clone(&both), meets: Arc::clone(&meets) };
        instance(Arc::new(llm), &store, Duration::ZERO)
    };
    let one = of_cluster();
    let two = of_cluster();
    let id = register(&one).await;
    parse(&one, &id, "before").await.unwrap();
    meets.store(true, Ordering::Relaxed);
    for n in 0..6 {
        let first = format!("first {n}");
        let second = format!("second {n}");
        let answered = tokio::join!(parse(&one, &id, &first), parse(&two, &id, &second));
        assert_eq!(answered.0.unwrap(), format!("To {first}."));
        assert_eq!(answered.1.unwrap(), format!("To {second}."));
        let kept = history(&store, &id).await;
        for words in [&first, &second] {
            let at = kept.iter().position(|content| content == words).expect("it is remembered");
            assert_eq!(kept[at + 1], format!("To {words}."), "{kept:?}");
        }
        assert!(kept.len() <= MuseumSettings::default().max_messages);
    }
}

/// A model that notes the age of the last turn in each prompt, in minutes.
struct Ages {
    inner: RefusingLlm,
    minutes: Mutex<Vec<Option<u64>>>,
}

impl Llm for Ages {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let minutes = prompt.since_last.map(|passed| passed.as_secs() / 60);
        self.minutes.lock().unwrap().push(minutes);
        self.inner.reply(prompt)
    }
}

#[tokio::test]
async fn each_prompt_has_the_age_of_the_last_turn_whatever_the_heartbeats() {
    let minutes = Arc::new(AtomicI64::new(29_000_000));
    let time = Arc::clone(&minutes);
    let clock: Clock =
        Arc::new(move || Timestamp::from_second(60 * time.load(Ordering::Relaxed)).unwrap());
    let llm = Arc::new(Ages { inner: RefusingLlm::new(), minutes: Mutex::default() });
    let session_timeout = Duration::from_secs(3_600);
    let settings = MuseumSettings { session_timeout, ..MuseumSettings::default() };
    let store = memory();
    let museum = instance_at(clock, llm.clone(), &store, settings);
    let id = register(&museum).await;
    for (number, passed) in [0, 5, 20, -300].into_iter().enumerate() {
        minutes.fetch_add(passed - 1, Ordering::Relaxed);
        museum.heartbeat(&id).await.unwrap();
        minutes.fetch_add(1, Ordering::Relaxed);
        parse(&museum, &id, &format!("number {number}")).await.unwrap();
    }
    // Of a clock that was set back by hours, nothing is known.
    assert_eq!(*llm.minutes.lock().unwrap(), [None, Some(5), Some(20), None]);
}
