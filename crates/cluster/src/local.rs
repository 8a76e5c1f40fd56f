//! Event bus and locks of a single instance. Not for several instances.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{
    BoxError, EVENTS_KEPT_FOR, EventBus, KEPT_EVENT_BYTES, KEPT_EVENTS, Published, SessionLock,
    SessionLocks, Watch,
};
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Queue of events to one watcher. A watcher whose queue is full is disconnected.
const LANE: usize = 256;
/// Maximum size of the events that wait for one watcher, in bytes, unless it is a single event.
const LANE_BYTES: usize = 512 << 10;
/// Maximum size of the stored events of all sessions, in bytes. Above it, sessions are dropped as
/// above [`MAX_TOPICS`].
const MAX_KEPT_BYTES: usize = 32 << 20;
/// Minimum interval between two searches for sessions with expired events.
const CLEAN_UP_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of sessions with stored events. Above it, the sessions without watchers that had
/// no event for the longest time are dropped.
const MAX_TOPICS: usize = 10_000;
/// Bounds of the random step between two fences, in microseconds.
const SHORTEST_STEP: i64 = 1 << 6;
const LONGEST_STEP: i64 = 1 << 16;

/// Recent events and watchers of one session.
#[derive(Default)]
struct Topic {
    kept: VecDeque<Event>,
    /// Size of `kept`, in bytes.
    kept_bytes: usize,
    watchers: Vec<Watcher>,
    /// Time of the last event, to find inactive sessions.
    last_event: Option<Instant>,
}

/// Queue of events to one watcher.
struct Watcher {
    queue: mpsc::Sender<Event>,
    /// Sizes of the last events that were sent, in bytes; the last of them belong to the waiting
    /// events.
    sent: VecDeque<usize>,
}

/// Recent events of all sessions.
#[derive(Default)]
struct Topics {
    of: HashMap<SessionId, Topic>,
    /// Size of all stored events, in bytes.
    kept_bytes: usize,
    cleaned_up: Option<Instant>,
}

/// Event bus within this process.
#[derive(Default)]
pub struct LocalBus {
    topics: Mutex<Topics>,
}

impl LocalBus {
    /// Creates a bus without events.
    pub fn new() -> Self {
        Self::default()
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().expect("nothing panics while it holds the events")
    }

    /// Stores an event and sends it to the watchers, unless it is stored already.
    pub(super) fn publish_now(&self, event: Event) {
        self.topics().change(&event.session_id.clone(), |topic| {
            if !topic.kept.iter().rev().any(|kept| kept.id == event.id) {
                topic.publish(event);
            }
        });
    }

    /// Replaces the stored events of a session with `events`, followed by stored ones that `events`
    /// does not contain: those were published while Redis was lost. An event that was published
    /// twice is stored once.
    pub(super) fn load(&self, session: &SessionId, mut events: Vec<Event>) {
        let mut known = HashSet::new();
        events.retain(|event| known.insert(event.id.clone()));
        self.topics().change(session, |topic| {
            topic.last_event.get_or_insert_with(Instant::now);
            let unpublished = topic.take_kept();
            let unpublished = unpublished.into_iter().filter(|event| !known.contains(&event.id));
            for event in events.into_iter().chain(unpublished) {
                topic.keep(event);
            }
        });
    }

    /// Returns true if the session has a watcher.
    pub(super) fn is_watched(&self, session: &SessionId) -> bool {
        self.topics().of.get(session).is_some_and(|topic| !topic.is_quiet())
    }

    /// Drops a session's events.
    pub(super) fn forget_now(&self, session: &SessionId) {
        self.topics().remove(session);
    }

    pub(super) fn watch_now(&self, session: &SessionId, after: Option<&str>) -> Watch {
        let (queue, events) = mpsc::channel(LANE);
        self.topics().change(session, |topic| {
            topic.watchers.retain(|watcher| !watcher.queue.is_closed());
            topic.watchers.push(Watcher { queue, sent: VecDeque::new() });
            let (complete, missed) = missed(topic.kept.iter(), after);
            Watch { complete, missed, events }
        })
    }
}

impl Topics {
    /// Changes the stored data of a session, and makes room for it if there is too much.
    fn change<T>(&mut self, session: &SessionId, change: impl FnOnce(&mut Topic) -> T) -> T {
        self.clean_up();
        if self.of.len() >= MAX_TOPICS && !self.of.contains_key(session) {
            self.evict_quiet(session);
        }
        let topic = self.of.entry(session.clone()).or_default();
        let before = topic.kept_bytes;
        let done = change(topic);
        self.kept_bytes = self.kept_bytes.saturating_sub(before) + topic.kept_bytes;
        while self.kept_bytes > MAX_KEPT_BYTES
            && (self.evict_quiet(session) || self.evict_kept(session))
        {}
        done
    }

    fn remove(&mut self, session: &SessionId) {
        if let Some(topic) = self.of.remove(session) {
            self.kept_bytes = self.kept_bytes.saturating_sub(topic.kept_bytes);
        }
    }

    /// Drops expired events, and their sessions unless these are watched.
    fn clean_up(&mut self) {
        let now = Instant::now();
        if self.cleaned_up.is_some_and(|then| now - then < CLEAN_UP_EVERY) {
            return;
        }
        self.cleaned_up = Some(now);
        let is_old =
            |topic: &Topic| topic.last_event.is_none_or(|last| now - last >= EVENTS_KEPT_FOR);
        self.of.retain(|_, topic| {
            if is_old(topic) {
                topic.take_kept();
            }
            !(is_old(topic) && topic.is_quiet())
        });
        self.kept_bytes = self.of.values().map(|topic| topic.kept_bytes).sum();
    }

    /// Drops a tenth of the sessions without watchers: those without an event for the longest time.
    /// Does not touch `used`, which may be about to be watched. Returns false if there are none.
    fn evict_quiet(&mut self, used: &SessionId) -> bool {
        let oldest = self.oldest(used, Topic::is_quiet);
        for id in &oldest {
            self.remove(id);
        }
        !oldest.is_empty()
    }

    /// Drops the stored events of a tenth of the watched sessions, except `used`. Returns false if
    /// there are none.
    fn evict_kept(&mut self, used: &SessionId) -> bool {
        let oldest = self.oldest(used, |topic| topic.kept_bytes > 0);
        for id in &oldest {
            if let Some(topic) = self.of.get_mut(id) {
                self.kept_bytes = self.kept_bytes.saturating_sub(topic.kept_bytes);
                topic.take_kept();
            }
        }
        !oldest.is_empty()
    }

    /// Returns a tenth of the sessions, except `used`, for which `is_wanted` is true: those without
    /// an event for the longest time.
    fn oldest(&self, used: &SessionId, is_wanted: impl Fn(&Topic) -> bool) -> Vec<SessionId> {
        let wanted = self.of.iter().filter(|(id, topic)| *id != used && is_wanted(topic));
        let mut ages: Vec<_> = wanted.map(|(id, topic)| (topic.last_event, id.clone())).collect();
        ages.sort_unstable();
        ages.truncate(ages.len().div_ceil(10));
        ages.into_iter().map(|(_, id)| id).collect()
    }
}

impl Topic {
    /// Returns true if the session has no watchers.
    fn is_quiet(&self) -> bool {
        self.watchers.iter().all(|watcher| watcher.queue.is_closed())
    }

    fn publish(&mut self, event: Event) {
        self.last_event = Some(Instant::now());
        // A watcher with a full queue is too slow: dropping the sender ends its watch.
        self.watchers.retain_mut(|watcher| watcher.send(event.clone()));
        self.keep(event);
    }

    /// Stores an event, and drops the oldest ones above the limits. The last one stays, to
    /// recognise an event that is published again.
    fn keep(&mut self, event: Event) {
        self.kept_bytes += event.bytes();
        self.kept.push_back(event);
        let is_full =
            |topic: &Self| topic.kept.len() > KEPT_EVENTS || topic.kept_bytes > KEPT_EVENT_BYTES;
        while self.kept.len() > 1 && is_full(self) {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes -= oldest.bytes();
        }
    }

    fn take_kept(&mut self) -> VecDeque<Event> {
        self.kept_bytes = 0;
        std::mem::take(&mut self.kept)
    }
}

impl Watcher {
    /// Queues an event, and returns false if the watcher has left or is too slow.
    fn send(&mut self, event: Event) -> bool {
        let waiting = LANE - self.queue.capacity();
        while self.sent.len() > waiting {
            self.sent.pop_front();
        }
        let bytes = event.bytes();
        if waiting > 0 && self.sent.iter().sum::<usize>() + bytes > LANE_BYTES {
            return false;
        }
        self.sent.push_back(bytes);
        self.queue.try_send(event).is_ok()
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

    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>> {
        self.forget_now(session);
        Box::pin(std::future::ready(Ok(())))
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

/// Returns a fence greater than all before, including those of an earlier run of the process:
/// microseconds since 1970, by the clock if that is greater.
fn next_fence(last: &AtomicI64) -> i64 {
    let now = Timestamp::now().as_microsecond();
    let random = getrandom::u32().unwrap_or_default();
    let next = |last| fence_after(last, now, random);
    let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    next(before.unwrap_or_default())
}

/// If the clock is behind the last fence, the step from it is random: two instances with the same
/// last fence must not issue the same next one. The step is short if the difference is small, so
/// that many concurrent locks do not run ahead of the clock, and of the fences of the next run of
/// the process.
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
    use hearken_proto::chat::EventData;
    use serde_json::json;

    use super::*;

    fn event(session: &str, id: usize) -> Event {
        Event {
            id: id.to_string(),
            session_id: SessionId::new(session),
            kind: "dice.rolled".into(),
            data: EventData::default(),
            timestamp: Timestamp::UNIX_EPOCH,
        }
    }

    fn ids(events: &[Event]) -> Vec<usize> {
        events.iter().map(|e| e.id.parse().unwrap()).collect()
    }

    #[test]
    fn a_returning_watcher_gets_the_missed_events() {
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
    fn only_a_slow_watcher_is_disconnected() {
        let bus = LocalBus::new();
        let session = SessionId::new("s");
        let mut slow = bus.watch_now(&session, None).events;
        let mut quick = bus.watch_now(&session, None).events;
        for n in 0..=LANE {
            bus.publish_now(event("s", n));
            assert_eq!(quick.try_recv().unwrap().id, n.to_string());
        }
        for n in 0..LANE {
            assert_eq!(slow.try_recv().unwrap().id, n.to_string(), "no event is missing");
        }
        assert_eq!(slow.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert_eq!(quick.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    #[test]
    fn quiet_sessions_are_dropped_before_watched_ones() {
        let bus = LocalBus::new();
        let _watched = bus.watch_now(&SessionId::new("0"), None);
        for n in 0..MAX_TOPICS + 1 {
            bus.publish_now(event(&n.to_string(), n));
        }
        let topics = &bus.topics().of;
        assert!(topics.len() <= MAX_TOPICS && topics.contains_key(&SessionId::new("0")));
        assert!(!topics.contains_key(&SessionId::new("1")));
    }

    fn large(session: &str, id: usize, bytes: usize) -> Event {
        let data = json!({ "text": "x".repeat(bytes) });
        Event { data: EventData::from(data.as_object().unwrap()), ..event(session, id) }
    }

    #[test]
    fn stored_events_of_a_session_are_bounded_in_bytes() {
        let bus = LocalBus::new();
        let session = SessionId::new("s");
        for n in 0..100 {
            bus.publish_now(large("s", n, KEPT_EVENT_BYTES / 10));
        }
        let watch = bus.watch_now(&session, Some("1"));
        assert_eq!((watch.complete, ids(&watch.missed)), (false, (91..100).collect()));
        let other = SessionId::new("t");
        bus.load(&other, (200..300).map(|n| large("t", n, KEPT_EVENT_BYTES / 4)).collect());
        let watch = bus.watch_now(&other, Some("298"));
        assert_eq!((watch.complete, ids(&watch.missed)), (true, vec![299]));
        bus.forget_now(&session);
        bus.publish_now(large("t", 300, 2 * KEPT_EVENT_BYTES));
        let watch = bus.watch_now(&other, Some("299"));
        assert_eq!((watch.complete, ids(&watch.missed)), (false, vec![300]));
        bus.publish_now(large("t", 301, 1));
        assert_eq!(ids(&bus.watch_now(&other, Some("299")).missed), [301]);
    }

    #[test]
    fn stored_events_of_all_sessions_are_bounded_in_bytes() {
        let bus = LocalBus::new();
        let sessions = 2 * MAX_KEPT_BYTES / KEPT_EVENT_BYTES;
        let _watches: Vec<Watch> = (0..sessions / 2)
            .map(|n| bus.watch_now(&SessionId::new(n.to_string()), None))
            .collect();
        for n in 0..sessions {
            bus.publish_now(large(&n.to_string(), n, KEPT_EVENT_BYTES * 9 / 10));
            let topics = bus.topics();
            let kept: usize = topics.of.values().map(|topic| topic.kept_bytes).sum();
            assert!(kept <= MAX_KEPT_BYTES && kept == topics.kept_bytes, "{n}: {kept}");
        }
        // Events loaded for a watch stay until it starts.
        let loaded = (0..9).map(|n| large("loaded", n, KEPT_EVENT_BYTES / 10)).collect();
        bus.load(&SessionId::new("loaded"), loaded);
        assert_eq!(bus.watch_now(&SessionId::new("loaded"), Some("7")).missed.len(), 1);
        let first = bus.watch_now(&SessionId::new("0"), Some("unknown"));
        assert_eq!(ids(&first.missed), [0], "sessions without watchers are dropped first");
        let last = (sessions - 1).to_string();
        let last = bus.watch_now(&SessionId::new(last), Some("unknown"));
        assert_eq!(last.missed.len(), 1);
    }

    #[test]
    fn waiting_events_of_a_watcher_are_bounded_in_bytes() {
        let bus = LocalBus::new();
        let mut watch = bus.watch_now(&SessionId::new("s"), None);
        for n in 0..20 {
            bus.publish_now(large("s", n, LANE_BYTES));
            assert_eq!(watch.events.try_recv().unwrap().id, n.to_string(), "one may be large");
        }
        for n in 0..3 {
            bus.publish_now(large("s", n + 100, LANE_BYTES * 2 / 5));
        }
        for n in [100, 101] {
            assert_eq!(watch.events.try_recv().unwrap().id, n.to_string());
        }
        assert_eq!(watch.events.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }

    #[tokio::test(start_paused = true)]
    async fn stored_events_expire_and_end_with_their_session() {
        let bus = LocalBus::new();
        let missed = |name| bus.watch_now(&SessionId::new(name), Some("unknown")).missed.len();
        bus.publish_now(event("old", 1));
        bus.publish_now(event("purged", 1));
        bus.forget(&SessionId::new("purged")).await.unwrap();
        tokio::time::advance(EVENTS_KEPT_FOR - CLEAN_UP_EVERY).await;
        assert_eq!((missed("old"), missed("purged")), (1, 0));
        tokio::time::advance(CLEAN_UP_EVERY).await;
        bus.publish_now(event("new", 1));
        assert_eq!((missed("old"), missed("new")), (0, 1));
    }

    #[test]
    fn fences_of_a_busy_server_stay_close_to_the_clock() {
        let mut dice = fastrand::Rng::with_seed(1);
        let mut now = 1 << 50;
        let mut last = 0;
        for _ in 0..100_000 {
            // 5,000 locks a second on average, some of them within the same microsecond.
            now += if dice.u8(..) < 64 { 0 } else { dice.i64(0..530) };
            let fence = fence_after(last, now, dice.u32(..));
            assert!(fence > last && fence < now + 1_000, "{} us ahead", fence - now);
            last = fence;
        }
        let behind = now - 3_600_000_000;
        let steps = (0..100).map(|_| fence_after(last, behind, dice.u32(..)) - last);
        let steps: HashSet<_> = steps.collect();
        assert!(steps.len() > 95, "instances with a clock set back rarely collide");
        assert!(steps.iter().all(|step| (1..=LONGEST_STEP).contains(step)));
    }

    #[tokio::test(start_paused = true)]
    async fn locks_are_exclusive_with_increasing_fences() {
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
