//! Event bus and locks of a single instance. Not for several instances.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{BoxError, EventBus, KEPT_EVENTS, Published, SessionLock, SessionLocks, Watch};
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Queue of events to one watcher. A watcher whose queue is full is disconnected.
const LANE: usize = 256;
/// Most sessions whose events are stored. Beyond, the sessions without watchers that had no event
/// for the longest time are dropped.
const MAX_TOPICS: usize = 10_000;
/// Bounds of the random step between two fences, in microseconds.
const SHORTEST_STEP: i64 = 1 << 6;
const LONGEST_STEP: i64 = 1 << 16;

/// Recent events and watchers of one session.
#[derive(Default)]
struct Topic {
    kept: VecDeque<Event>,
    watchers: Vec<mpsc::Sender<Event>>,
    /// Sequence number of the last event across all sessions, to find inactive ones.
    last_event: u64,
}

/// Event bus within this process.
#[derive(Default)]
pub struct LocalBus {
    topics: Mutex<HashMap<SessionId, Topic>>,
}

impl LocalBus {
    /// Creates a bus without events.
    pub fn new() -> Self {
        Self::default()
    }

    fn topics(&self) -> MutexGuard<'_, HashMap<SessionId, Topic>> {
        self.topics.lock().expect("nothing panics while it holds the events")
    }

    /// Stores an event and sends it to the watchers, unless it is stored already.
    pub(super) fn publish_now(&self, event: Event) {
        let mut topics = self.topics();
        let topic = topic_of(&mut topics, &event.session_id);
        if !topic.kept.iter().rev().any(|kept| kept.id == event.id) {
            topic.publish_now(event);
        }
    }

    /// Replaces the stored events of a session with `events`, followed by stored ones that `events`
    /// does not contain: those were published while Redis was lost. An event that was published
    /// twice is stored once.
    pub(super) fn load(&self, session: &SessionId, mut events: Vec<Event>) {
        let mut topics = self.topics();
        let topic = topic_of(&mut topics, session);
        let mut known = HashSet::new();
        events.retain(|event| known.insert(event.id.clone()));
        topic.kept.retain(|event| !known.contains(&event.id));
        let unpublished = std::mem::take(&mut topic.kept);
        topic.kept = events.into_iter().chain(unpublished).collect();
        let over = topic.kept.len().saturating_sub(KEPT_EVENTS);
        topic.kept.drain(..over);
    }

    /// Returns true if the session has a watcher.
    pub(super) fn is_watched(&self, session: &SessionId) -> bool {
        let topics = self.topics();
        topics.get(session).is_some_and(|topic| !topic.watchers.iter().all(mpsc::Sender::is_closed))
    }

    /// Drops a session's events.
    pub(super) fn forget(&self, session: &SessionId) {
        self.topics().remove(session);
    }

    pub(super) fn watch_now(&self, session: &SessionId, after: Option<&str>) -> Watch {
        let (sender, events) = mpsc::channel(LANE);
        let mut topics = self.topics();
        let topic = topic_of(&mut topics, session);
        topic.watchers.retain(|watcher| !watcher.is_closed());
        topic.watchers.push(sender);
        let (complete, missed) = missed(topic.kept.iter(), after);
        Watch { complete, missed, events }
    }
}

fn topic_of<'a>(topics: &'a mut HashMap<SessionId, Topic>, session: &SessionId) -> &'a mut Topic {
    if topics.len() >= MAX_TOPICS && !topics.contains_key(session) {
        evict(topics);
    }
    topics.entry(session.clone()).or_default()
}

impl Topic {
    fn publish_now(&mut self, event: Event) {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        self.last_event = COUNT.fetch_add(1, Ordering::Relaxed);
        if self.kept.len() >= KEPT_EVENTS {
            self.kept.pop_front();
        }
        self.kept.push_back(event.clone());
        // A watcher with a full queue is too slow: dropping the sender ends its watch.
        self.watchers.retain(|watcher| watcher.try_send(event.clone()).is_ok());
    }
}

/// Returns true and the events after the event `after`. If that event is not stored, returns false
/// and all events.
fn missed<'a>(
    kept: impl Iterator<Item = &'a Event> + Clone,
    after: Option<&str>,
) -> (bool, Vec<Event>) {
    let Some(after) = after else { return (true, Vec::new()) };
    let mut rest = kept.clone().skip_while(|event| event.id != after);
    if rest.next().is_some() {
        return (true, rest.cloned().collect());
    }
    (false, kept.cloned().collect())
}

/// Drops a tenth of the sessions without watchers: those without an event for the longest time.
fn evict(topics: &mut HashMap<SessionId, Topic>) {
    let quiet = |topic: &Topic| topic.watchers.iter().all(mpsc::Sender::is_closed);
    let mut ages: Vec<_> =
        topics.iter().filter(|(_, t)| quiet(t)).map(|(id, t)| (t.last_event, id.clone())).collect();
    ages.sort_unstable();
    for (_, id) in ages.drain(..ages.len().div_ceil(10)) {
        topics.remove(&id);
    }
}

impl EventBus for LocalBus {
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>> {
        self.publish_now(event);
        Box::pin(std::future::ready(Ok(Published::Everywhere)))
    }

    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>> {
        let watch = self.watch_now(session, after);
        Box::pin(std::future::ready(Ok(watch)))
    }
}

/// Locks within this process.
#[derive(Default)]
pub struct LocalLocks {
    held: Arc<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>>,
    last_fence: Arc<AtomicI64>,
}

impl LocalLocks {
    /// Creates locks, none of them held.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the last fence that was issued or observed.
    pub(super) fn last_fence(&self) -> i64 {
        self.last_fence.load(Ordering::Relaxed)
    }

    fn lock_for(&self, session: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut held = self.held.lock().expect("nothing panics while it holds the locks");
        if let Some(lock) = held.get(session).and_then(Weak::upgrade) {
            return lock;
        }
        held.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        held.insert(session.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

/// Returns a fence greater than any before, also in an earlier run of the process: microseconds
/// since 1970, by the clock where that is greater.
fn next_fence(last: &AtomicI64) -> i64 {
    let now = Timestamp::now().as_microsecond();
    let random = getrandom::u32().unwrap_or_default();
    let next = |last| fence_after(last, now, random);
    let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    next(before.unwrap_or_default())
}

/// Where the clock is behind the last fence, the step from it is random: two instances that know the
/// same fence must not issue the same next one. It is short where little is missing, so that many
/// locks at once do not run ahead of the clock, and of what the next run of the process would issue.
fn fence_after(last: i64, now: i64, random: u32) -> i64 {
    if now > last {
        return now;
    }
    let longest = (last.saturating_sub(now) / 8).clamp(SHORTEST_STEP, LONGEST_STEP);
    last.saturating_add(1 + i64::from(random) % longest)
}

impl SessionLocks for LocalLocks {
    fn lock(
        &self,
        session: &str,
        wait: Duration,
    ) -> BoxFuture<'static, Result<Option<SessionLock>, BoxError>> {
        let lock = self.lock_for(session);
        let last = Arc::clone(&self.last_fence);
        Box::pin(async move {
            let Ok(held) = tokio::time::timeout(wait, lock.lock_owned()).await else {
                return Ok(None);
            };
            let fence = next_fence(&last);
            let lost = CancellationToken::new();
            Ok(Some(SessionLock { fence, lost, held: Box::new(held) }))
        })
    }

    fn observe(&self, fence: i64) {
        self.last_fence.fetch_max(fence, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(session: &str, id: usize) -> Event {
        Event {
            id: id.to_string(),
            session_id: SessionId::new(session),
            kind: "dice.rolled".into(),
            data: serde_json::Map::new(),
            timestamp: Timestamp::UNIX_EPOCH,
        }
    }

    fn ids(events: &[Event]) -> Vec<usize> {
        events.iter().map(|e| e.id.parse().unwrap()).collect()
    }

    #[test]
    fn who_comes_back_is_told_what_was_missed() {
        let bus = LocalBus::new();
        let session = SessionId::new("s");
        for n in 0..KEPT_EVENTS + 3 {
            bus.publish_now(event("s", n));
        }
        bus.publish_now(event("other", 7));
        let last = KEPT_EVENTS + 1;
        let watch = bus.watch_now(&session, Some(&last.to_string()));
        assert_eq!((watch.complete, ids(&watch.missed)), (true, vec![last + 1]));
        let watch = bus.watch_now(&session, Some("1"));
        assert_eq!((watch.complete, watch.missed.len()), (false, KEPT_EVENTS));
        let mut watch = bus.watch_now(&session, None);
        assert!(watch.complete && watch.missed.is_empty());
        bus.publish_now(event("s", 5_000));
        assert_eq!(watch.events.try_recv().unwrap().id, "5000");
    }

    #[test]
    fn a_slow_watcher_is_let_go_and_others_are_not() {
        let bus = LocalBus::new();
        let session = SessionId::new("s");
        let mut slow = bus.watch_now(&session, None).events;
        let mut quick = bus.watch_now(&session, None).events;
        for n in 0..=LANE {
            bus.publish_now(event("s", n));
            assert_eq!(quick.try_recv().unwrap().id, n.to_string());
        }
        for n in 0..LANE {
            assert_eq!(slow.try_recv().unwrap().id, n.to_string(), "nothing in between is missing");
        }
        assert_eq!(slow.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert_eq!(quick.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    #[test]
    fn quiet_sessions_are_forgotten_before_watched_ones() {
        let bus = LocalBus::new();
        let _watched = bus.watch_now(&SessionId::new("0"), None);
        for n in 0..MAX_TOPICS + 1 {
            bus.publish_now(event(&n.to_string(), n));
        }
        let topics = bus.topics();
        assert!(topics.len() <= MAX_TOPICS && topics.contains_key(&SessionId::new("0")));
        assert!(!topics.contains_key(&SessionId::new("1")));
    }

    #[test]
    fn fences_of_a_busy_server_stay_with_the_clock() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut now = 1 << 50;
        let mut last = 0;
        for _ in 0..100_000 {
            // 5,000 locks a second in the mean, some of them within the same microsecond.
            now += if dice.u8(..) < 64 { 0 } else { dice.i64(0..530) };
            let fence = fence_after(last, now, dice.u32(..));
            assert!(fence > last && fence < now + 1_000, "{} us ahead", fence - now);
            last = fence;
        }
        let behind = now - 3_600_000_000;
        let steps = (0..100).map(|_| fence_after(last, behind, dice.u32(..)) - last);
        let steps: HashSet<_> = steps.collect();
        assert!(steps.len() > 95, "two instances with a clock set back hardly meet");
        assert!(steps.iter().all(|step| (1..=LONGEST_STEP).contains(step)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_each_later_than_the_last() {
        let locks = LocalLocks::new();
        let wait = Duration::from_secs(1);
        let first = locks.lock("s", wait).await.unwrap().unwrap();
        assert!(locks.lock("s", wait).await.unwrap().is_none());
        let other = locks.lock("t", wait).await.unwrap().unwrap();
        let fence = first.fence;
        let waiting = locks.lock("s", wait);
        drop(first);
        let second = waiting.await.unwrap().unwrap();
        assert!(second.fence > fence && other.fence > fence && second.fence > other.fence);
    }
}
