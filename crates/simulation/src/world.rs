//! One world from beginning to end: its instances, faults and conversations, and what is judged when
//! all is calm again. Not for many worlds.

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::ports::ChatStore as _;
use hearken_proto::ids::SessionId;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::clients::Clients;
use crate::determinism;
use crate::fleet::Fleet;
use crate::instance::{LOCK_WAIT, Surroundings};
use crate::judge::{Counts, Judge, Message};
use crate::plan::{CONVERSATIONS, Plan};
use crate::redis::Redis;
use crate::store::Database;

/// Longest time of a world, in virtual time.
const WORLD_ENDS_WITHIN: Duration = Duration::from_secs(4 * 3_600);
/// How long all is calm before the end is judged: longer than any lease, and than two sweeps.
const CALM: Duration = Duration::from_secs(40);
/// Number of a conversation's last message, which must be answered.
const LAST: u16 = 99;

/// What came of a world.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) trace: u64,
    pub(crate) wrong: Vec<String>,
    pub(crate) lasted: Duration,
}

/// Runs a world, in virtual time. Once in a process: see `determinism`.
pub(crate) fn run(plan: &Plan, shows: bool) -> Outcome {
    determinism::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let mut dice = fastrand::Rng::with_seed(plan.seed ^ 0x5eed);
    let database = Arc::new(Database::new(dice.fork(), plan.bug));
    runtime.block_on(async {
        determinism::follow_virtual_time();
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
    let (calm, over) = (CancellationToken::new(), CancellationToken::new());
    let clients = Clients { fleet: fleet.clone(), judge: judge.clone() };
    let mut sessions = Vec::new();
    for _ in 0..CONVERSATIONS {
        sessions.push(clients.session().await);
    }
    let trouble = tokio::spawn(fleet.clone().trouble(plan.clone(), calm.clone()));
    let mut talks = JoinSet::new();
    for (number, id) in (0..).zip(&sessions) {
        let (clients, id, over) = (clients.clone(), id.clone(), over.clone());
        let begins = judge.pause(0, 20_000);
        talks.spawn(async move {
            sleep(begins).await;
            clients.converse(number, id, over).await;
        });
    }
    while let Some(ended) = talks.join_next().await {
        if let Err(error) = ended {
            judge.wrong(format!("a client ended: {error}"));
        }
    }
    calm.cancel();
    if let Err(error) = trouble.await {
        judge.wrong(format!("the faults ended: {error}"));
    }
    judge.note("all is calm");
    sleep(CALM).await;
    for (conversation, id) in (0..).zip(&sessions) {
        last_message(&clients, conversation, id).await;
    }
    sleep(CALM).await;
    judge_end(around, &fleet, &sessions).await;
    over.cancel();
}

/// Whatever happened before: now a message is answered, at once.
async fn last_message(clients: &Clients, conversation: u16, id: &SessionId) {
    let message = Message { conversation, client: 0, number: LAST };
    let begun = Instant::now();
    let mut answered = clients.say(id, message, true).await;
    if !answered {
        // It may have lost its answer to the impatience of its client.
        answered = clients.say(id, Message { number: LAST + 1, ..message }, true).await;
    }
    if !answered {
        clients.judge.wrong(format!("{message} is not answered though all is calm"));
    }
    if begun.elapsed() > LOCK_WAIT * 6 {
        let seconds = begun.elapsed().as_secs();
        clients.judge.wrong(format!("{message} is answered after {seconds} s though all is calm"));
    }
}

/// Judges what is left when nothing happens any more.
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
        judge.wrong(format!("locks are held though all is calm: {held:?}"));
    }
    for (number, instance) in fleet.all() {
        if timeout(Duration::from_millis(1), instance.service.tasks.drain()).await != Ok(true) {
            judge.wrong(format!("instance {number} still answers though all is calm"));
        }
    }
}
