//! Contracts of the ports of events and locks, the same for a single instance and for instances
//! that share a Redis; and behaviour that needs Redis. Not for whole servers.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hearken_base::Secret;
use hearken_cluster::{Cluster, LocalBus, LocalLocks, RedisConfig, RedisState};
use hearken_ports::{
    EventBus, KEPT_EVENT_BYTES, KEPT_EVENTS, MAX_EVENT_BYTES, SessionLock, SessionLocks, Watch,
};
use hearken_proto::chat::{Event, EventData};
use hearken_proto::ids::SessionId;
use hearken_test_support::eventually;
use hearken_test_support::redis::{Redis, there_is};
use jiff::Timestamp;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const SOON: Duration = Duration::from_secs(30);

/// Returns the configuration of an instance.
fn config(redis: &Redis) -> RedisConfig {
    RedisConfig { url: Secret::new(redis.url()), ..RedisConfig::default() }
}

/// An instance, which leaves when dropped.
pub(super) struct Instance {
    pub(super) cluster: Cluster,
    process: CancellationToken,
}

impl Instance {
    async fn join(redis: &Redis) -> Self {
        Self::of(&config(redis)).await
    }

    /// Starts an instance of this configuration, and waits until Redis is available.
    pub(super) async fn of(config: &RedisConfig) -> Self {
        let process = CancellationToken::new();
        let cluster = Cluster::start(config, &process).unwrap();
        let instance = Self { cluster, process };
        instance.stands(RedisState::Ok).await;
        instance
    }

    async fn stands(&self, standing: RedisState) {
        eventually("redis has the expected state", || async {
            (self.cluster.redis_state() == Some(standing)).then_some(())
        })
        .await;
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.process.cancel();
    }
}

pub(super) fn event(session: &str, id: impl ToString) -> Event {
    Event {
        id: id.to_string(),
        session_id: SessionId::new(session),
        kind: "dice.rolled".into(),
        data: EventData::default(),
        timestamp: Timestamp::UNIX_EPOCH,
    }
}

pub(super) async fn watch(bus: &dyn EventBus, session: &str, after: Option<&str>) -> Watch {
    timeout(SOON, bus.watch(&SessionId::new(session), after)).await.unwrap().unwrap()
}

async fn next(watch: &mut Watch) -> String {
    timeout(SOON, watch.events.recv()).await.expect("an event arrives").expect("it goes on").id
}

fn ids(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.id.as_str()).collect()
}

/// Contract of every bus, seen from two instances of it.
async fn keeps_the_events_contract(here: &dyn EventBus, there: &dyn EventBus) {
    let mut first = watch(there, "s", None).await;
    let mut other = watch(there, "other", None).await;
    assert!(first.complete && first.missed.is_empty());
    for n in 0..300 {
        here.publish(event("s", n)).await.unwrap();
        if n % 3 == 0 {
            // In order, each once, and none of other sessions.
            assert_eq!(next(&mut first).await, (n / 3).to_string());
        }
    }
    for n in 100..300 {
        assert_eq!(next(&mut first).await, n.to_string());
    }
    other.events.try_recv().expect_err("the other session has no events");
    // An event that is published again is delivered once, to watchers and to returning ones.
    for (bus, again) in [(here, 299), (there, 150)] {
        bus.publish(event("s", again)).await.unwrap();
    }
    // A returning watcher gets exactly the missed events, on either instance.
    for (bus, last) in [(here, "300"), (there, "301")] {
        let mut back = watch(bus, "s", Some("297")).await;
        assert!(back.complete);
        let missed: &[&str] = if last == "300" { &["298", "299"] } else { &["298", "299", "300"] };
        assert_eq!(ids(&back.missed), missed);
        there.publish(event("s", last)).await.unwrap();
        assert_eq!(next(&mut back).await, last);
        let unknown = watch(bus, "s", Some("never")).await;
        assert!(!unknown.complete && unknown.missed.len() > 300);
    }
    for n in 0..KEPT_EVENTS + 200 {
        here.publish(event("long", n)).await.unwrap();
    }
    let forgotten = watch(there, "long", Some("1")).await;
    assert!(!forgotten.complete && forgotten.missed.len() <= KEPT_EVENTS);
    assert_eq!(forgotten.missed.last().unwrap().id, (KEPT_EVENTS + 199).to_string());
    // Large events are limited by their bytes: the last of them stay, in order, with the small ones
    // between.
    let data = serde_json::json!({ "text": "x".repeat(MAX_EVENT_BYTES - 1_000) });
    for n in 0..100 {
        let mut large = event("large", 2 * n);
        large.data = EventData::from(data.as_object().unwrap());
        here.publish(large).await.unwrap();
        here.publish(event("large", 2 * n + 1)).await.unwrap();
    }
    let last = watch(there, "large", Some("0")).await;
    assert!(!last.complete, "the first is not stored");
    let numbers: Vec<usize> = ids(&last.missed).iter().map(|id| id.parse().unwrap()).collect();
    let expected: Vec<usize> = (200 - numbers.len()..200).collect();
    assert_eq!(numbers, expected);
    let bytes: usize = last.missed.iter().map(Event::bytes).sum();
    assert!((1..=KEPT_EVENT_BYTES).contains(&bytes), "{bytes}");
}

/// A watch that starts during a sequence of events misses none and gets none twice.
async fn has_no_gap_where_missed_ends(here: &dyn EventBus, there: &dyn EventBus) {
    const EVENTS: usize = 400;
    let telling = async {
        for n in 0..EVENTS {
            here.publish(event("gap", n)).await.unwrap();
        }
    };
    let watching = async {
        for _ in 0..20 {
            let mut watch = watch(there, "gap", Some("0")).await;
            let mut heard: Vec<String> = watch.missed.iter().map(|e| e.id.clone()).collect();
            if !watch.complete && heard.is_empty() {
                tokio::task::yield_now().await;
                continue;
            }
            while heard.len() < 50 {
                heard.push(next(&mut watch).await);
            }
            let numbers: Vec<usize> = heard.iter().map(|id| id.parse().unwrap()).collect();
            assert!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "{numbers:?}");
        }
    };
    tokio::join!(telling, watching);
}

async fn lock(locks: &dyn SessionLocks, session: &str, wait: Duration) -> Option<SessionLock> {
    locks.lock(session, wait).await.unwrap()
}

/// Contract of all locks, seen from two instances of them.
async fn keeps_the_locks_contract(here: &Arc<dyn SessionLocks>, there: &Arc<dyn SessionLocks>) {
    let short = Duration::from_millis(150);
    let first = lock(&**here, "s", SOON).await.unwrap();
    assert!(lock(&**there, "s", short).await.is_none(), "another holder has it");
    let other = lock(&**there, "t", SOON).await.unwrap();
    let before = first.fence.max(other.fence);
    drop((first, other));
    let second = lock(&**there, "s", SOON).await.unwrap();
    assert!(second.fence > before && !second.lost.is_cancelled());
    let now = Timestamp::now().as_microsecond();
    assert!((now - 60_000_000..=now + 1_000_000).contains(&second.fence), "it is recent");
    drop(second);
    // A caller that stops waiting does not get the lock.
    let held = lock(&**here, "s", SOON).await.unwrap();
    drop(timeout(Duration::from_millis(30), there.lock("s", SOON)).await);
    drop(held);
    assert!(lock(&**here, "s", SOON).await.is_some());
    // Many concurrent locks: one at a time, each with a later fence.
    let inside = Arc::new(AtomicUsize::new(0));
    let fences = Arc::new(std::sync::Mutex::new(vec![]));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let locks = Arc::clone(if n % 2 == 0 { here } else { there });
        let inside = Arc::clone(&inside);
        let fences = Arc::clone(&fences);
        tasks.spawn(async move {
            let held = locks.lock("many", Duration::from_secs(20)).await.unwrap().unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            fences.lock().unwrap().push(held.fence);
            tokio::task::yield_now().await;
            assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let fences = fences.lock().unwrap().clone();
    assert!(fences.len() == 20 && fences.is_sorted() && fences.windows(2).all(|f| f[0] != f[1]));
    // Fences of a clock that was ahead are exceeded by every instance.
    let ahead = Timestamp::now().as_microsecond() + 3_600_000_000;
    here.observe(ahead);
    let first = lock(&**here, "s", SOON).await.unwrap().fence;
    let second = lock(&**there, "s", SOON).await.unwrap().fence;
    assert!(ahead < first && first < second, "{ahead} < {first} < {second}");
}

#[tokio::test]
async fn an_instance_without_redis_fulfils_the_contracts() {
    let bus = LocalBus::new();
    keeps_the_events_contract(&bus, &bus).await;
    has_no_gap_where_missed_ends(&bus, &bus).await;
    let locks: Arc<dyn SessionLocks> = Arc::new(LocalLocks::new());
    keeps_the_locks_contract(&locks, &locks).await;
}

#[tokio::test]
async fn two_instances_on_one_redis_fulfil_the_contracts() {
    if !there_is("instances that share a redis") {
        return;
    }
    let redis = Redis::start().await;
    let one = Instance::join(&redis).await;
    let two = Instance::join(&redis).await;
    let here = one.cluster.events();
    let there = two.cluster.events();
    keeps_the_events_contract(&*here, &*there).await;
    has_no_gap_where_missed_ends(&*here, &*there).await;
    keeps_the_locks_contract(&one.cluster.locks(), &two.cluster.locks()).await;
    one.process.cancel();
    let begun = Instant::now();
    one.cluster.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(1), "no background task is left");
}

#[tokio::test]
async fn without_redis_instances_work_alone_and_afterwards_share_events() {
    if !there_is("a redis that is lost") {
        return;
    }
    let mut redis = Redis::start().await;
    let one = Instance::join(&redis).await;
    let two = Instance::join(&redis).await;
    let here = one.cluster.events();
    let there = two.cluster.events();
    let mut own = watch(&*here, "s", None).await;
    let mut other = watch(&*there, "s", None).await;
    here.publish(event("s", "before")).await.unwrap();
    assert_eq!((next(&mut own).await, next(&mut other).await), ("before".into(), "before".into()));
    let held = lock(&*one.cluster.locks(), "s", SOON).await.unwrap();
    redis.kill();
    let begun = Instant::now();
    here.publish(event("s", "meanwhile")).await.unwrap();
    assert_eq!(next(&mut own).await, "meanwhile");
    assert!(begun.elapsed() < Duration::from_secs(2));
    one.stands(RedisState::Lost).await;
    two.stands(RedisState::Lost).await;
    // New events are delivered here at once, returning watchers are served, and locks are local to
    // this instance, with later fences.
    here.publish(event("s", "alone")).await.unwrap();
    assert_eq!(next(&mut own).await, "alone");
    let mut late = watch(&*here, "s", Some("before")).await;
    assert_eq!((late.complete, ids(&late.missed)), (true, vec!["meanwhile", "alone"]));
    assert!(!held.lost.is_cancelled(), "the store decides by the fences");
    assert!(lock(&*one.cluster.locks(), "s", Duration::from_millis(50)).await.is_none());
    let elsewhere = lock(&*two.cluster.locks(), "s", SOON).await.unwrap();
    assert!(elsewhere.fence > held.fence);
    drop(elsewhere);
    redis.begin().await;
    one.stands(RedisState::Ok).await;
    two.stands(RedisState::Ok).await;
    assert_eq!(next(&mut other).await, "meanwhile");
    assert_eq!(next(&mut other).await, "alone");
    there.publish(event("s", "after")).await.unwrap();
    for watch in [&mut own, &mut late, &mut other] {
        assert_eq!(next(watch).await, "after", "once, and nothing in between");
    }
    // The lock that was held throughout is renewed.
    eventually("the lock is renewed", || async {
        let wait = Duration::from_millis(1);
        lock(&*two.cluster.locks(), "s", wait).await.is_none().then_some(())
    })
    .await;
    assert!(!held.lost.is_cancelled());
    drop(held);
    assert!(lock(&*two.cluster.locks(), "s", SOON).await.is_some());
}

#[tokio::test]
async fn a_hanging_redis_is_abandoned_in_time() {
    if !there_is("a redis that hangs") {
        return;
    }
    let redis = Redis::start().await;
    let one = Instance::join(&redis).await;
    let bus = one.cluster.events();
    let mut own = watch(&*bus, "s", None).await;
    redis.signal("-STOP");
    let begun = Instant::now();
    bus.publish(event("s", 1)).await.unwrap();
    let held = lock(&*one.cluster.locks(), "s", SOON).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(next(&mut own).await, "1");
    drop(held);
    redis.signal("-CONT");
    one.stands(RedisState::Ok).await;
    bus.publish(event("s", 2)).await.unwrap();
    assert_eq!(next(&mut own).await, "2", "the previous one is not repeated");
    let all = watch(&*bus, "s", Some("1")).await;
    let heard: HashSet<&str> = ids(&all.missed).into_iter().collect();
    assert_eq!(heard.len(), all.missed.len(), "none twice");
}

#[tokio::test]
async fn locks_of_a_dead_instance_are_released_within_their_lease() {
    if !there_is("an instance that dies") {
        return;
    }
    let redis = Redis::start().await;
    let two = Instance::join(&redis).await;
    // A dropped runtime ends its tasks, like a killed process.
    let config = config(&redis);
    let (told, fence) = std::sync::mpsc::channel();
    let dying = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let cluster = Cluster::start(&config, &CancellationToken::new()).unwrap();
            eventually("redis", || async {
                (cluster.redis_state() == Some(RedisState::Ok)).then_some(())
            })
            .await;
            let held = cluster.locks().lock("s", SOON).await.unwrap().unwrap();
            told.send(held.fence).unwrap();
            std::mem::forget((held, cluster));
        });
        drop(runtime);
    });
    let fence = tokio::task::spawn_blocking(move || fence.recv().unwrap()).await.unwrap();
    dying.join().unwrap();
    let begun = Instant::now();
    let next = lock(&*two.cluster.locks(), "s", Duration::from_secs(20)).await.unwrap();
    assert!(next.fence > fence);
    assert!(begun.elapsed() <= Duration::from_millis(15_500), "{:?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_secs(5), "the lock was held until then");
}

#[tokio::test]
async fn rate_limits_and_caches_are_shared_by_all_instances() {
    if !there_is("what instances count and remember together") {
        return;
    }
    let mut redis = Redis::start().await;
    let one = Instance::join(&redis).await;
    let two = Instance::join(&redis).await;
    let five = NonZeroU32::new(5).unwrap();
    let here = one.cluster.limit("a", five);
    let there = two.cluster.limit("a", five);
    let apart = two.cluster.limit("b", five);
    for n in 0..5 {
        let limit = if n % 2 == 0 { &here } else { &there };
        assert_eq!(limit.take("somebody").await, Ok(()));
    }
    for limit in [&here, &there] {
        let wait = limit.take("somebody").await.unwrap_err();
        assert!(wait > Duration::from_secs(10) && wait <= Duration::from_secs(12), "{wait:?}");
        assert_eq!(limit.take(&format!("{wait:?}")).await, Ok(()), "others have their own");
    }
    assert_eq!(apart.take("somebody").await, Ok(()));
    let found = one.cluster.cache("x").unwrap();
    let missed = two.cluster.cache("y").unwrap();
    let minute = Duration::from_secs(60);
    found.put(&[1, 2], "words", minute).await;
    assert_eq!(two.cluster.cache("x").unwrap().get(&[1, 2]).await.as_deref(), Some("words"));
    assert_eq!((missed.get(&[1, 2]).await, found.get(&[1]).await), (None, None));
    redis.kill();
    one.stands(RedisState::Lost).await;
    assert_eq!(here.take("somebody").await, Ok(()), "counted by this instance alone");
    found.put(&[1, 2], "words", minute).await;
    assert_eq!(found.get(&[1, 2]).await, None);
    assert!(Cluster::alone().cache("x").is_none());
}
