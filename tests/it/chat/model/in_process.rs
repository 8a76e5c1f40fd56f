//! A chat service with scripted ports and the real store, bus and locks, to play sequences against.
//! Not for the expected results of the sequences.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hearken_base::tasks::Tasks;
use hearken_base::wall_clock::now;
use hearken_chat::turns::RequestOptions;
use hearken_chat::{
    Asker, ChatError, ChatPiece, ChatService, ChatSettings, HeldCalls, PublishedEvents,
    TouchedSessions,
};
use hearken_cluster::{LocalBus, LocalLocks};
use hearken_dialogue::tools::ToolSettings;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_ports::{ChatStore as _, EventBus as _, RequestKey, Watch};
use hearken_proto::chat::{ChatRequest, ChatStatus, CreateSession, CreateSnapshot, Event};
use hearken_proto::ids::SessionId;
use hearken_state_server::Storage;
use hearken_store::SqlStore;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use super::Ask;
use super::known::{ROUNDS, Reply, Seen, Status, UNHURT, line};
use super::playing::System;
use super::ports::{Bus, Model, Steps, Worlds};

/// Time limit for a turn whose client has left.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// The service and the watchers of its sessions.
pub(super) struct ChatInProcess {
    service: ChatService,
    store: Arc<SqlStore>,
    storage: Arc<Storage>,
    bus: Arc<LocalBus>,
    steps: Arc<Steps>,
    watches: HashMap<SessionId, (Watch, Vec<Event>)>,
    _kept: TempDir,
    /// Number of owners of the ports while no turn runs.
    idle: usize,
}

fn shown<T: Serialize>(told: Result<T, ChatError>) -> Reply {
    match told {
        Ok(body) => Reply::to(String::new(), serde_json::to_value(body).unwrap()),
        Err(error) => Reply::to(error.fault().code().to_owned(), error.to_string().into()),
    }
}

/// Body of a request that creates a session.
pub(super) fn wanted(creator: &str) -> Value {
    json!({ "name": "n", "creator_id": creator })
}

/// Adds an unhurt hero to a new world.
pub(super) fn put_hero(storage: &Storage, id: &SessionId) {
    let hero = json!({ "name": "Hero", "id": "hero", "hp_max": UNHURT.0 });
    call(storage, id, "create_character", &hero);
}

/// Another client hurts the hero.
pub(super) fn hurt(storage: &Storage, id: &SessionId) {
    call(storage, id, "update_hp", &json!({ "character_id": "hero", "change": -1 }));
}

fn call(storage: &Storage, id: &SessionId, tool: &str, arguments: &Value) {
    let done = storage.call(id.as_str(), tool, arguments.as_object().unwrap(), None);
    done.unwrap();
}

/// The hero's hit points, and the version of this world.
pub(super) fn hero(state: &Map<String, Value>) -> (i64, i64) {
    let hp = state["characters"][0]["hp"].as_i64();
    // A world without its hero matches no reference.
    (hp.unwrap_or(-1), state["version"].as_i64().unwrap())
}

/// The predictable part of an event. Its timestamp encodes the hit points, see [`super::ports`].
pub(super) fn told(event: &Event) -> String {
    let about = match event.kind.as_str() {
        "character.hp_changed" => event.timestamp.as_second().to_string(),
        "chat.answered" => event.data.parse().unwrap()["message"].as_str().unwrap().to_owned(),
        _ => return event.kind.clone(),
    };
    format!("{} {about}", event.kind)
}

impl ChatInProcess {
    pub(super) async fn start() -> Self {
        let steps = Arc::new(Steps::new());
        let bus = Arc::new(LocalBus::new());
        // The data need not outlive the test: it is in memory if the system has such a folder.
        let kept = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let url = format!("sqlite://{}", kept.path().join("store.db").display());
        let store = Arc::new(SqlStore::at(&url).unwrap());
        let storage = Arc::new(Storage::new(Some(7)));
        let settings = ChatSettings {
            max_iterations: ROUNDS.unsigned_abs() as usize,
            history: 500,
            token_budget: 1_000_000,
            purge_after: Duration::ZERO,
            tools: ToolSettings::default(),
            ..ChatSettings::default()
        };
        let service = ChatService {
            llm: Arc::new(Model(Arc::clone(&steps))),
            store: Arc::clone(&store) as _,
            state: Some(Arc::new(Worlds {
                storage: Arc::clone(&storage),
                steps: Arc::clone(&steps),
            })),
            events: Arc::new(Bus { bus: Arc::clone(&bus), steps: Arc::clone(&steps) }),
            locks: Arc::new(LocalLocks::new()),
            tools: Arc::new(|_| Vec::new()),
            describer: None,
            now: Arc::new(|| "noon".into()),
            settings: settings.into(),
            roles: Arc::new(|_| None),
            tasks: Tasks::new(64, ENDS_WITHIN, CancellationToken::new()),
            held: HeldCalls::default(),
            touched: TouchedSessions::default(),
            published: PublishedEvents::default(),
            turn_journal: TurnJournal::default(),
            forget_calls: Arc::new(|_| {}),
        };
        let watches = HashMap::new();
        let mut this = Self { service, store, storage, bus, steps, watches, _kept: kept, idle: 0 };
        this.idle = this.owners();
        this
    }

    /// Every running turn owns a part of the ports.
    fn owners(&self) -> usize {
        let state = self.service.state.as_ref().map_or(0, Arc::strong_count);
        Arc::strong_count(&self.service.llm) + state + Arc::strong_count(&self.service.events)
    }

    async fn chat(&self, id: &SessionId, ask: Ask, out: Option<mpsc::Sender<ChatPiece>>) -> Reply {
        let Ask::Chat { said, key, stream } = ask else { panic!("{ask:?} is no message") };
        let request: ChatRequest =
            serde_json::from_value(json!({"message": said.text(), "stream": stream})).unwrap();
        let key = key.map(|key| RequestKey { name: format!("key-{key}"), hash: said.text() });
        let options = RequestOptions { key, out, ..RequestOptions::default() };
        shown(Box::pin(self.service.chat(id, &request, options)).await)
    }
}

impl System for ChatInProcess {
    async fn is_idle(&self) -> Result<(), String> {
        let idle = async {
            while self.owners() > self.idle {
                yield_now().await;
            }
        };
        let ended = tokio::time::timeout(ENDS_WITHIN, idle).await;
        ended.map_err(|_| "a turn does not end after its client has left".to_owned())
    }

    async fn make(&mut self) -> SessionId {
        let wanted: CreateSession = serde_json::from_value(wanted("c")).unwrap();
        let id = self.service.create(wanted, &Asker::Anybody).await.unwrap().id;
        put_hero(&self.storage, &id);
        let watch = self.bus.watch(&id, None).await.unwrap();
        self.watches.insert(id.clone(), (watch, Vec::new()));
        id
    }

    fn leave(&mut self, id: &SessionId) {
        self.watches.remove(id);
    }

    fn hurt(&self, id: &SessionId) {
        hurt(&self.storage, id);
    }

    async fn ask(&self, id: &SessionId, ask: Ask, snapshot: &str) -> Reply {
        let service = &self.service;
        match ask {
            Ask::Chat { stream: false, .. } => self.chat(id, ask, None).await,
            Ask::Chat { stream: true, .. } => {
                let (out, mut pieces) = mpsc::channel(2);
                let reading = async { while pieces.recv().await.is_some() {} };
                let (reply, ()) = tokio::join!(self.chat(id, ask, Some(out)), reading);
                reply
            }
            Ask::Snapshot => {
                shown(service.make_snapshot(&Asker::Anybody, id, CreateSnapshot::default()).await)
            }
            Ask::GoBack(_) => shown(service.restore_snapshot(id, snapshot).await),
            Ask::Archive => shown(service.archive(id).await),
            Ask::Restore => shown(service.restore(id).await),
            Ask::Delete => shown(service.delete(id).await),
        }
    }

    async fn ask_and_leave(
        &self,
        id: &SessionId,
        ask: Ask,
        snapshot: &str,
        steps: usize,
        mut polls: usize,
    ) -> Option<Reply> {
        let until = self.steps.passed() + steps;
        let mut asking = Box::pin(self.ask(id, ask, snapshot));
        std::future::poll_fn(|context| {
            if self.steps.passed() >= until {
                match polls.checked_sub(1) {
                    None => return std::task::Poll::Ready(None),
                    Some(left) => polls = left,
                }
            }
            // The turn may run in another task: poll again soon.
            context.waker().wake_by_ref();
            asking.as_mut().poll(context).map(Some)
        })
        .await
    }

    async fn purge(
        &mut self,
        undeletable: Option<&SessionId>,
        restored: Option<&SessionId>,
    ) -> Option<Reply> {
        // A session that was deleted in the same millisecond is purged in the next one.
        let begun = now();
        while now() <= begun {
            yield_now().await;
        }
        *self.steps.undeletable.lock().unwrap() = undeletable.cloned();
        self.steps.slow_deletes.store(restored.is_some(), Ordering::Relaxed);
        let begun = self.steps.passed();
        let restoring = async {
            let id = restored?;
            for _ in 0..200 {
                if self.steps.passed() > begun {
                    break;
                }
                yield_now().await;
            }
            Some(self.ask(id, Ask::Restore, "").await)
        };
        let (_, reply) = tokio::join!(self.service.purge(), restoring);
        *self.steps.undeletable.lock().unwrap() = None;
        self.steps.slow_deletes.store(false, Ordering::Relaxed);
        reply
    }

    async fn resumes(&self, id: &SessionId, missed: usize) -> bool {
        let (_, before) = &self.watches[id];
        let Some(last) = before.len().checked_sub(missed + 1) else { return true };
        let watch = self.bus.watch(id, Some(&before[last].id)).await.unwrap();
        if self.store.session(id).await.unwrap().is_none() {
            // Its events were deleted with it.
            return !watch.complete && watch.missed.is_empty();
        }
        watch.complete && watch.missed == before[last + 1..]
    }

    async fn look(&mut self, id: &SessionId) -> Seen {
        let status = match self.store.session(id).await.unwrap().map(|session| session.status) {
            Some(ChatStatus::Active) => Status::Active,
            Some(ChatStatus::Archived) => Status::Archived,
            Some(ChatStatus::Deleted) => Status::Deleted,
            None => Status::Forgotten,
        };
        let messages = self.service.messages(id, None, 500).await.map(|page| page.messages);
        let lines = messages.unwrap_or_default();
        let lines = lines.iter().map(|message| line(message.role, &message.content)).collect();
        let world = self.storage.state(id.as_str()).ok().map(|state| hero(&state));
        let (watch, before) = self.watches.get_mut(id).unwrap();
        let from = before.len();
        while let Ok(event) = watch.events.try_recv() {
            before.push(event);
        }
        Seen { status, lines, world, told: Some(before[from..].iter().map(told).collect()) }
    }

    fn steps(&self) -> &Steps {
        &self.steps
    }
}
