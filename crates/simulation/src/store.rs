//! The store as an instance sees it: the real one, behind a network that delays and loses requests
//! and responses. Not for its content.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hearken_ports::{
    BoxError, ChatStore, KeptMessage, KeptSession, KeptTurn, KnownRequest, PendingEvent,
    RefusedUntil, RequestKey, SessionFilter, SessionPage, SessionStore, StorageUsage, StoreOutcome,
};
use hearken_proto::chat::{ChatSession, ChatStatus, Event, Snapshot};
use hearken_proto::ids::SessionId;
use hearken_store::SqlStore;
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio::task::coop::unconstrained;
use tokio::time::sleep;

use crate::determinism::at_this_date;
use crate::life::Life;
use crate::plan::Bug;

/// Time limit of a call to a store that does not respond, as of the real one.
const GIVES_UP_AFTER: Duration = Duration::from_secs(4);

/// Faults of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Weather {
    /// It works.
    #[default]
    Fair,
    /// One call in ten fails or takes long.
    Shaky,
    /// It cannot be reached.
    Down,
    /// It writes, but its responses are lost.
    Deaf,
    /// It has no space for writes; reads work.
    Full,
}

/// The database, shared by all instances.
pub(crate) struct Database {
    pub(crate) store: SqlStore,
    /// A separate runtime, as its clock is not virtual; its thread runs the deferred work of the store.
    runtime: Runtime,
    weather: Mutex<Weather>,
    dice: Mutex<fastrand::Rng>,
    bug: Option<Bug>,
}

impl Database {
    pub(crate) fn new(dice: fastrand::Rng, bug: Option<Bug>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_time().build().expect("a runtime");
        // The thread of the runtime opens the one connection. If callers did, chance would decide
        // which of them draws the keys of its maps.
        let opening = runtime.spawn(async {
            let store = SqlStore::at("sqlite::memory:").expect("a store in memory");
            store.bring_up_to_date().await.expect("tables in memory");
            store
        });
        let store = futures_executor::block_on(opening).expect("the store does not panic");
        Self { store, runtime, weather: Mutex::default(), dice: Mutex::new(dice), bug }
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        *self.weather.lock().expect("no panic while it is locked") = weather;
    }

    /// Waits without advancing virtual time: work of the database is instantaneous.
    pub(crate) fn at_once<T>(&self, work: impl Future<Output = T>) -> T {
        at_this_date(|| {
            let _entered = self.runtime.enter();
            // The task budget of the other runtime would never be renewed.
            futures_executor::block_on(unconstrained(work))
        })
    }

    fn throw(&self, from: u64, to: u64) -> u64 {
        self.dice.lock().expect("no panic while it is locked").u64(from..to)
    }

    fn meets(&self, writes: bool) -> Fate {
        let weather = *self.weather.lock().expect("no panic while it is locked");
        match weather {
            Weather::Down => Fate::Lost,
            Weather::Deaf => Fate::Unanswered,
            Weather::Full if writes => Fate::Refused,
            Weather::Shaky => match self.throw(0, 40) {
                0 => Fate::Lost,
                1 => Fate::Refused,
                2 => Fate::Unanswered,
                3 => Fate::Slow,
                _ => Fate::Done,
            },
            Weather::Fair | Weather::Full => Fate::Done,
        }
    }
}

/// Fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Slow,
    Refused,
    /// The request is lost.
    Lost,
    /// It is executed, but the response is lost.
    Unanswered,
}

/// An instance's store.
pub(crate) struct RemoteStore {
    pub(crate) database: Arc<Database>,
    pub(crate) life: Life,
}

impl RemoteStore {
    async fn call<T: Send>(
        &self,
        writes: bool,
        work: impl Future<Output = Result<T, BoxError>> + Send,
    ) -> Result<T, BoxError> {
        let ms = |from, to| Duration::from_micros(self.database.throw(from, to));
        let calling = async {
            sleep(ms(100, 3_000)).await;
            match self.database.meets(writes) {
                Fate::Lost => {
                    sleep(GIVES_UP_AFTER).await;
                    Err(BoxError::from("the store does not answer"))
                }
                Fate::Refused => Err(BoxError::from("disk full")),
                Fate::Unanswered => {
                    // It is executed, whatever the caller receives.
                    drop(self.database.at_once(work));
                    sleep(GIVES_UP_AFTER).await;
                    Err(BoxError::from("the store does not answer"))
                }
                fate => {
                    let done = self.database.at_once(work);
                    let slow = fate == Fate::Slow;
                    sleep(if slow { ms(100_000, 3_500_000) } else { ms(100, 3_000) }).await;
                    done
                }
            }
        };
        self.life.within(calling).await
    }

    fn store(&self) -> &SqlStore {
        &self.database.store
    }

    /// The bug `LostFence`: uses the fence of the holder that has overtaken the lock.
    fn fence(&self, fence: i64) -> i64 {
        if self.database.bug != Some(Bug::LostFence) {
            return fence;
        }
        self.database.at_once(self.store().last_fence()).unwrap_or_default().max(fence)
    }
}

#[async_trait]
impl ChatStore for RemoteStore {
    async fn create(&self, session: &ChatSession, owner: &str) -> Result<(), BoxError> {
        self.call(true, self.store().create(session, owner)).await
    }

    async fn owner(&self, id: &SessionId) -> Result<Option<String>, BoxError> {
        self.call(false, self.store().owner(id)).await
    }

    async fn usage(&self, owner: &str) -> Result<StorageUsage, BoxError> {
        self.call(false, self.store().usage(owner)).await
    }

    async fn oldest_deleted(
        &self,
        owner: &str,
        offset: u32,
    ) -> Result<Option<SessionId>, BoxError> {
        self.call(false, self.store().oldest_deleted(owner, offset)).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<ChatSession>, BoxError> {
        self.call(false, self.store().session(id)).await
    }

    async fn sessions(&self, filter: &SessionFilter) -> Result<SessionPage, BoxError> {
        self.call(false, self.store().sessions(filter)).await
    }

    async fn set_status(
        &self,
        id: &SessionId,
        from: &[ChatStatus],
        to: ChatStatus,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<ChatSession>, BoxError> {
        self.call(true, self.store().set_status(id, from, to, at, event)).await
    }

    async fn touch(&self, id: &SessionId, at: Timestamp) -> Result<(), BoxError> {
        self.call(true, ChatStore::touch(self.store(), id, at)).await
    }

    async fn unused(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError> {
        self.call(false, self.store().unused(before, offset, limit)).await
    }

    async fn purgeable(
        &self,
        before: Timestamp,
        offset: u32,
        limit: u32,
    ) -> Result<Vec<SessionId>, BoxError> {
        self.call(false, self.store().purgeable(before, offset, limit)).await
    }

    async fn set_purging(&self, id: &SessionId, is_purging: bool) -> Result<bool, BoxError> {
        self.call(true, self.store().set_purging(id, is_purging)).await
    }

    async fn purge(&self, id: &SessionId) -> Result<bool, BoxError> {
        self.call(true, self.store().purge(id)).await
    }

    async fn messages(
        &self,
        id: &SessionId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<KeptMessage>, BoxError> {
        self.call(false, self.store().messages(id, before, limit)).await
    }

    async fn refused_until(&self, id: &SessionId) -> Result<Option<RefusedUntil>, BoxError> {
        self.call(false, self.store().refused_until(id)).await
    }

    async fn begin_request(
        &self,
        id: &SessionId,
        key: &RequestKey,
        fence: i64,
    ) -> Result<StoreOutcome, BoxError> {
        self.call(true, self.store().begin_request(id, key, self.fence(fence))).await
    }

    async fn forget_request(&self, id: &SessionId, key: &str, fence: i64) -> Result<(), BoxError> {
        self.call(true, self.store().forget_request(id, key, self.fence(fence))).await
    }

    async fn keep_turn(&self, turn: &KeptTurn) -> Result<StoreOutcome, BoxError> {
        let mut turn = KeptTurn { fence: self.fence(turn.fence), ..turn.clone() };
        if self.database.bug == Some(Bug::LostFence) {
            // It does not notice either that the session has changed.
            let last = self.database.at_once(self.store().messages(&turn.session_id, None, 1))?;
            turn.after = last.last().map_or(0, |kept| kept.number);
        }
        // The bug `MissingSync`: an acknowledged write is lost.
        if self.database.bug == Some(Bug::MissingSync) && self.database.throw(0, 100) == 0 {
            return self.call(true, async { Ok(StoreOutcome::Kept) }).await;
        }
        self.call(true, self.store().keep_turn(&turn)).await
    }

    async fn last_fence(&self) -> Result<i64, BoxError> {
        self.call(false, self.store().last_fence()).await
    }

    async fn request(&self, id: &SessionId, key: &str) -> Result<Option<KnownRequest>, BoxError> {
        self.call(false, self.store().request(id, key)).await
    }

    async fn keep_snapshot(
        &self,
        snapshot: &Snapshot,
        fence: i64,
    ) -> Result<Option<Snapshot>, BoxError> {
        self.call(true, self.store().keep_snapshot(snapshot, self.fence(fence))).await
    }

    async fn snapshots(&self, id: &SessionId) -> Result<Vec<Snapshot>, BoxError> {
        self.call(false, self.store().snapshots(id)).await
    }

    async fn restore_snapshot(
        &self,
        id: &SessionId,
        snapshot_id: &str,
        fence: i64,
        at: Timestamp,
        event: Option<&Event>,
    ) -> Result<Option<Snapshot>, BoxError> {
        let fence = self.fence(fence);
        self.call(true, self.store().restore_snapshot(id, snapshot_id, fence, at, event)).await
    }

    async fn pending_events(
        &self,
        session: Option<&SessionId>,
        limit: u32,
    ) -> Result<Vec<PendingEvent>, BoxError> {
        self.call(false, self.store().pending_events(session, limit)).await
    }

    async fn remove_events(&self, numbers: &[i64]) -> Result<(), BoxError> {
        self.call(true, self.store().remove_events(numbers)).await
    }
}

#[async_trait]
impl SessionStore for RemoteStore {
    async fn load(&self, id: &SessionId) -> Result<Option<KeptSession>, BoxError> {
        self.call(false, self.store().load(id)).await
    }

    async fn keep(
        &self,
        session: &KeptSession,
        known: Option<SystemTime>,
    ) -> Result<StoreOutcome, BoxError> {
        let blind = self.database.bug == Some(Bug::BlindStore);
        let keeping = async {
            let stored = if blind { self.store().load(&session.id).await? } else { None };
            self.store().keep(session, stored.map(|stored| stored.last_used).or(known)).await
        };
        self.call(true, keeping).await
    }

    async fn touch(&self, id: &SessionId, last_used: SystemTime) -> Result<bool, BoxError> {
        self.call(true, SessionStore::touch(self.store(), id, last_used)).await
    }

    async fn forget(&self, id: &SessionId) -> Result<(), BoxError> {
        self.call(true, self.store().forget(id)).await
    }

    async fn forget_unused(&self, since: SystemTime) -> Result<u64, BoxError> {
        self.call(true, self.store().forget_unused(since)).await
    }
}
