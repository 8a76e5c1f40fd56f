//! One world from start to end: its instances, faults and conversations, and the checks once all
//! faults have ended. Not for many worlds.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hearken_base::wall_clock;
use hearken_ports::{ChatStore as _, Devices as _, SessionStore as _};
use hearken_proto::ids::SessionId;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::clients::Clients;
use crate::devices::Device;
use crate::fleet::Fleet;
use crate::instance::{LOCK_WAIT, Surroundings};
use crate::judge::{Counts, FIRST_DEVICE, FIRST_TEXT, Judge, LAST, Message};
use crate::plan::{APPLICATIONS, DEVICES, Plan, TEXTS};
use crate::redis::Redis;
use crate::store::Database;
use crate::texts::{self, Session, TextClient};
use crate::{determinism, speech};

/// Time limit of a world, in virtual time.
const WORLD_ENDS_WITHIN: Duration = Duration::from_secs(4 * 3_600);
/// Time without faults before the final check: longer than any lease, and than two sweeps.
const CALM: Duration = Duration::from_secs(40);

/// Outcome of a world.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) trace: u64,
    pub(crate) wrong: Vec<String>,
    pub(crate) lasted: Duration,
}

/// Prepares the data that all worlds need. Its random parts are the same in each process. The
/// number selects a core.
pub(crate) fn prepare(job: usize) {
    determinism::stay_on_a_core(job);
    determinism::seed(0);
    bpe_openai::o200k_base().count("");
    speech::encode_all();
}

/// Runs a world in virtual time. Only once per process, which must be prepared: see `determinism`.
pub(crate) fn run(plan: &Plan, shows: bool) -> Outcome {
    determinism::seed(plan.seed);
    // The sockets of text clients and devices are actors.
    let system = actix::System::with_tokio_rt(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().expect("a runtime")
    });
    let mut dice = fastrand::Rng::with_seed(plan.seed ^ 0x5eed);
    let database = Arc::new(Database::new(dice.fork(), plan.bug));
    system.block_on(async {
        determinism::follow_virtual_time();
        wall_clock::begin();
        let begun = Instant::now();
        let judge = Judge::new(dice.fork(), plan, shows);
        let around =
            Surroundings { judge: judge.clone(), database, redis: Redis::new(dice.fork()) };
        if timeout(WORLD_ENDS_WITHIN, live(plan, &around)).await.is_err() {
            judge.wrong("the world does not end");
        }
        let lasted = begun.elapsed();
        let (counts, trace, wrong) = judge.verdict();
        Outcome { counts, trace, wrong, lasted }
    })
}

async fn live(plan: &Plan, around: &Surroundings) {
    let judge = &around.judge;
    let fleet = Fleet::start(around.clone(), plan.instances);
    let calm = CancellationToken::new();
    let over = CancellationToken::new();
    let clients = Clients { fleet: fleet.clone(), judge: judge.clone() };
    let everybody = Everybody::new(clients).await;
    let trouble = tokio::spawn(fleet.clone().trouble(plan.clone(), calm.clone()));
    everybody.talk(&over).await;
    calm.cancel();
    if let Err(error) = trouble.await {
        judge.wrong(format!("the fault injection failed: {error}"));
    }
    judge.note("all faults have ended");
    sleep(CALM).await;
    everybody.say_a_last_word().await;
    sleep(CALM).await;
    judge_end(around, &fleet, &everybody.sessions).await;
    for (conversation, session) in (FIRST_TEXT..).zip(&everybody.texts) {
        judge_text(around, conversation, session);
    }
    over.cancel();
}

/// All clients: the sessions of applications and of text clients, and the devices.
struct Everybody {
    clients: Clients,
    sessions: Vec<SessionId>,
    texts: Vec<Session>,
}

impl Everybody {
    async fn new(clients: Clients) -> Self {
        let mut sessions = Vec::new();
        for _ in 0..APPLICATIONS {
            sessions.push(clients.session().await);
        }
        let texts = (0..TEXTS).map(|_| Session::default()).collect();
        Self { clients, sessions, texts }
    }

    /// Runs all clients until they have finished.
    async fn talk(&self, over: &CancellationToken) {
        let judge = &self.clients.judge;
        let mut talks = JoinSet::new();
        for (number, id) in (0..).zip(&self.sessions) {
            let clients = self.clients.clone();
            let id = id.clone();
            let over = over.clone();
            let begins = judge.pause(0, 20_000);
            talks.spawn(async move {
                sleep(begins).await;
                clients.converse(number, id, over).await;
            });
        }
        for (conversation, session) in (FIRST_TEXT..).zip(&self.texts) {
            let clients = self.clients.clone();
            let session = Rc::clone(session);
            let begins = judge.pause(0, 20_000);
            talks.spawn_local(async move {
                sleep(begins).await;
                texts::converse(clients, conversation, session).await;
            });
        }
        for number in 0..DEVICES {
            let device = Device::new(self.clients.clone(), number);
            let begins = judge.pause(0, 20_000);
            talks.spawn_local(async move {
                sleep(begins).await;
                device.converse().await;
            });
        }
        while let Some(ended) = talks.join_next().await {
            if let Err(error) = ended {
                judge.wrong(format!("a client failed: {error}"));
            }
        }
    }

    /// Sends a last message of each client, which must be answered.
    async fn say_a_last_word(&self) {
        let clients = &self.clients;
        for (conversation, id) in (0..).zip(&self.sessions) {
            let say = async |message| clients.say(id, message, true).await;
            last_message(clients, conversation, say).await;
        }
        for (conversation, session) in (FIRST_TEXT..).zip(&self.texts) {
            let new = || TextClient::new(clients.clone(), Rc::clone(session));
            let say = async |message| new().say(message).await;
            last_message(clients, conversation, say).await;
        }
        for (number, conversation) in (0..DEVICES).zip(FIRST_DEVICE..) {
            let say = async |message| Device::new(clients.clone(), number).say(message).await;
            last_message(clients, conversation, say).await;
            clients.judge.device_ended();
        }
    }
}

/// Sends a last message, which must be answered at once, whatever happened before.
async fn last_message(clients: &Clients, conversation: u16, say: impl AsyncFn(Message) -> bool) {
    let message = Message { conversation, client: 0, number: LAST };
    let begun = Instant::now();
    let mut answered = say(message).await;
    if !answered {
        // It may have lost its answer to the impatience of its client.
        answered = say(Message { number: LAST + 1, ..message }).await;
    }
    if !answered {
        clients.judge.wrong(format!("{message} is not answered after all faults"));
    }
    if begun.elapsed() > LOCK_WAIT * 6 {
        let seconds = begun.elapsed().as_secs();
        clients.judge.wrong(format!("{message} is answered after {seconds} s without faults"));
    }
}

/// Checks what is left after all activity.
async fn judge_end(around: &Surroundings, fleet: &Fleet, sessions: &[SessionId]) {
    let Surroundings { judge, database, redis, .. } = around;
    for (conversation, id) in (0..).zip(sessions) {
        match database.at_once(database.store.messages(id, None, 10_000)) {
            Ok(stored) => judge.stored(conversation, &stored),
            Err(error) => judge.wrong(format!("{conversation} cannot be read: {error}")),
        }
    }
    match database.at_once(database.store.pending_events(None, 1_000)) {
        Ok(pending) if pending.is_empty() => {}
        pending => judge.wrong(format!("events are left in the store: {pending:?}")),
    }
    let held = redis.held_locks();
    if !held.is_empty() {
        judge.wrong(format!("locks are still held: {held:?}"));
    }
    for (number, instance) in fleet.all() {
        if timeout(Duration::from_millis(1), instance.service.tasks.drain()).await != Ok(true) {
            judge.wrong(format!("instance {number} still answers messages"));
        }
        let connected = instance.pipeline.device_registry().connected();
        if !connected.is_empty() {
            judge.wrong(format!("instance {number} still has devices: {}", connected.len()));
        }
    }
}

fn judge_text(around: &Surroundings, conversation: u16, session: &Session) {
    let Surroundings { judge, database, .. } = around;
    // If no answer is stored, `last_message` has reported the fault.
    let Some(id) = texts::stored_id(session) else { return };
    match database.at_once(database.store.load(&SessionId::new(&id))) {
        Ok(Some(stored)) => judge.stored_text(conversation, &stored.state),
        other => judge.wrong(format!("the session of {conversation} cannot be read: {other:?}")),
    }
}
