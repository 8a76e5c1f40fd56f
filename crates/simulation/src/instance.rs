//! One instance of the server: the real devices, chat sessions, text sessions, events and locks,
//! with a store, a Redis and services that may fail. It is started, stopped and killed here. Not
//! for when that happens.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::pipeline::{AudioPool, Pipeline, Ports};
use hearken_actors::settings::PipelineSettings;
use hearken_base::Secret;
use hearken_base::tasks::Tasks;
use hearken_chat::{ChatService, ChatSettings, HeldCalls, PublishedEvents, TouchedSessions};
use hearken_cluster::{Cluster, RedisConfig, RedisState};
use hearken_dialogue::ConversationStyle;
use hearken_dialogue::turn_rate::TurnRates;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{BoxError, EventBus, Published, SessionLock, SessionLocks, ToolSource, Watch};
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use hearken_text_gateway::{Sessions, TextGateway, TextGatewaySettings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::judge::{Judge, MOST_AT_ONCE};
use crate::life::Life;
use crate::model::{Marks, Model};
use crate::plan::Bug;
use crate::redis::{Link, Redis};
use crate::speech::{Recogniser, Synthesiser};
use crate::store::{Database, RemoteStore};

/// Time limit of a message, from its lock on.
const TURN_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of the wait for a session's lock.
pub(crate) const LOCK_WAIT: Duration = Duration::from_secs(10);
/// Number of messages that a text session remembers: all of them.
const REMEMBERED: usize = 1_000;
/// Time for messages in progress after the server was asked to stop.
const GRACE: Duration = Duration::from_secs(8);

/// Shared by all instances.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) judge: Judge,
    pub(crate) database: Arc<Database>,
    pub(crate) redis: Redis,
}

/// A running instance.
#[derive(Clone)]
pub(crate) struct Instance {
    pub(crate) service: ChatService,
    pub(crate) texts: TextGateway,
    pub(crate) pipeline: Pipeline,
    pub(crate) life: Life,
    pub(crate) process: CancellationToken,
    pub(crate) link: watch::Sender<Link>,
    cluster: Cluster,
}

impl Instance {
    pub(crate) fn start(around: &Surroundings, number: usize) -> Self {
        let Surroundings { judge, database, redis } = around.clone();
        let life = Life::default();
        let process = CancellationToken::new();
        let link = watch::Sender::new(Link::Up);
        let url = Secret::new("redis://simulated");
        let config = RedisConfig { url, ..RedisConfig::default() };
        let streams = redis.streams(link.subscribe());
        let cluster = Cluster::start_over(&config, streams, &process).expect("an address");
        let parts = Parts {
            model: Arc::new(Model { judge: judge.clone(), life: life.clone(), instance: number }),
            store: Arc::new(RemoteStore { database, life: life.clone() }),
            locks: Arc::new(LivingLocks { locks: cluster.locks(), life: life.clone() }),
            marks: Arc::new(Marks { judge: judge.clone(), life: life.clone() }),
            process: process.clone(),
        };
        let bus = LivingBus { bus: cluster.events(), life: life.clone(), judge: judge.clone() };
        let most = if judge.plants(Bug::UnboundedLane) { 1_000 } else { MOST_AT_ONCE };
        let service = parts.chats(bus, most);
        let texts = parts.texts();
        let pipeline = parts.pipeline(&judge, &life);
        let background = service.clone();
        let living = life.clone();
        let ended = process.clone();
        let sessions = Arc::clone(&texts.sessions);
        let every = texts.settings.get().sweep_every;
        tokio::spawn(async move {
            let work = async {
                background.observe_fences().await;
                tokio::join!(background.keep_publishing(), sessions.keep_sweeping(every));
            };
            ended.run_until_cancelled(living.within(work)).await;
        });
        Self { service, texts, pipeline, life, process, link, cluster }
    }

    /// Whether it has no connection to Redis.
    pub(crate) fn is_alone(&self) -> bool {
        self.cluster.redis_state() == Some(RedisState::Lost)
    }

    /// Kills it, as `kill -9` does.
    pub(crate) fn kill(&self) {
        self.life.kill();
        self.link.send_replace(Link::Cut);
    }

    /// Stops it gracefully; returns once it has stopped. Messages beyond the grace period are cut.
    pub(crate) async fn stop(&self) {
        self.process.cancel();
        self.service.tasks.drain().await;
        self.cluster.stop().await;
        self.kill();
    }
}

/// Shared by the services of an instance.
struct Parts {
    model: Arc<Model>,
    store: Arc<RemoteStore>,
    locks: Arc<LivingLocks>,
    marks: Arc<dyn ToolSource>,
    process: CancellationToken,
}

impl Parts {
    /// The chat service of applications, with this many concurrent messages.
    fn chats(&self, events: LivingBus, most: usize) -> ChatService {
        let marks = Arc::clone(&self.marks);
        let settings = ChatSettings {
            history: 500,
            token_budget: 1_000_000,
            lock_wait: LOCK_WAIT,
            turn_limit: TURN_LIMIT,
            ..ChatSettings::default()
        };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        ChatService {
            llm: self.model.clone(),
            store: self.store.clone(),
            state: None,
            events: Arc::new(events),
            locks: self.locks.clone(),
            tools: Arc::new(move |_| vec![Arc::clone(&marks)]),
            describer: None,
            now: Arc::new(|| "noon".into()),
            settings: settings.into(),
            roles: Arc::new(|_| None),
            tasks: Tasks::new(most, GRACE, self.process.clone()),
            held: HeldCalls::default(),
            touched: TouchedSessions::default(),
            published: PublishedEvents::default(),
            turn_journal: TurnJournal::default(),
            forget_calls: Arc::new(|_| {}),
        }
    }

    /// The text gateway.
    fn texts(&self) -> TextGateway {
        let marks = Arc::clone(&self.marks);
        let settings = TextGatewaySettings {
            enable_context: true,
            max_messages: REMEMBERED,
            ..TextGatewaySettings::default()
        };
        let sessions = Sessions::new(self.store.clone(), settings.session_idle, REMEMBERED);
        TextGateway {
            llm: self.model.clone(),
            sessions: Arc::new(sessions.with_locks(self.locks.clone())),
            tools: Arc::new(move |_, _| vec![Arc::clone(&marks)]),
            describer: None,
            now: Arc::new(|| "noon".into()),
            settings: settings.into(),
            roles: Arc::new(|_| None),
            turn_journal: TurnJournal::default(),
            rates: TurnRates::default(),
        }
    }

    /// The device pipeline.
    fn pipeline(&self, judge: &Judge, life: &Life) -> Pipeline {
        let marks = Arc::clone(&self.marks);
        let judge = judge.clone();
        let life = life.clone();
        let ports = Ports {
            asr: Arc::new(Recogniser { judge: judge.clone(), life: life.clone() }),
            llm: self.model.clone(),
            tts: Arc::new(Synthesiser { judge, life }),
            turn_detector: None,
            people: None,
            tools: Arc::new(move |_, _| {
                let marks = Arc::clone(&marks);
                Arc::new(move || vec![Arc::clone(&marks)])
            }),
            vision: None,
            style: Arc::new(|_| ConversationStyle::default()),
            roles: Arc::new(|_| None),
            now: Arc::new(|| "noon".into()),
            describer: None,
        };
        let audio = AudioPool::current_thread();
        let mut settings = PipelineSettings::default();
        // Audio quality does not matter.
        settings.speaking.complexity = 0;
        Pipeline::new(ports, settings, audio, self.process.clone())
    }
}

/// The events of an instance that may be killed.
struct LivingBus {
    bus: Arc<dyn EventBus>,
    life: Life,
    judge: Judge,
}

impl EventBus for LivingBus {
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>> {
        let doubled = self.judge.plants(Bug::DoubledEvent) && self.judge.throw(0, 100) == 0;
        let again = doubled.then(|| Event { id: format!("{}-2", event.id), ..event.clone() });
        let publishing = self.bus.publish(event);
        let life = self.life.clone();
        let again = again.map(|event| self.bus.publish(event));
        Box::pin(async move {
            let work = async {
                if let Some(again) = again {
                    again.await?;
                }
                publishing.await
            };
            life.within(work).await
        })
    }

    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>> {
        let watching = self.bus.watch(session, after);
        let life = self.life.clone();
        Box::pin(async move { life.within(watching).await })
    }

    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>> {
        let forgetting = self.bus.forget(session);
        let life = self.life.clone();
        Box::pin(async move { life.within(forgetting).await })
    }
}

/// The locks of an instance that may be killed.
struct LivingLocks {
    locks: Arc<dyn SessionLocks>,
    life: Life,
}

impl SessionLocks for LivingLocks {
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let locking = self.locks.lock(session, wait);
        let life = self.life.clone();
        Box::pin(async move { life.within(locking).await })
    }

    fn observe(&self, fence: i64) {
        self.locks.observe(fence);
    }
}
