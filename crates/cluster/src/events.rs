//! Event bus of all instances: one stream in Redis for each session, and a channel that names
//! sessions with new events. Not for the meaning of an event.
//!
//! - One task reads the streams and hands events to the watchers of this instance. The same task
//!   starts new watches, to leave no gap between stored events and new ones.
//! - While Redis is lost, events go to the watchers of this instance at once, and to the other
//!   instances when Redis is back. Then the order of events may differ between instances.
//! - If Redis comes back without its data, its streams are read from their start. Watchers miss the
//!   events that Redis lost before this instance had read them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{
    BoxError, EVENTS_KEPT_FOR, EventBus, KEPT_EVENT_BYTES, KEPT_EVENTS, Published, Watch,
};
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use jiff::Timestamp;
use redis::Pipeline;
use redis::streams::{StreamId, StreamRangeReply};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::local::LocalBus;
use super::shared::{RedisUnavailable, Shared, Subscriber};

/// Maximum number of events of one session that are read at once: 2 MiB of the largest. Fewer than
/// fit into a watcher's queue.
const READ_AT_ONCE: usize = 32;
/// Bytes of a stream whose events all have the same size. Streams with mixed sizes take a few times
/// as many.
const STREAM_BYTES: usize = 4 * KEPT_EVENT_BYTES;
/// Minimum number of events in a stream, however large they are: events that are sent together are
/// read before they are dropped.
const FEWEST_IN_STREAM: usize = 2 * SENT_AT_ONCE;
/// Maximum number of sessions that are read at once.
const SESSIONS_AT_ONCE: usize = 32;
/// Maximum number of events that wait for a lost Redis. Above it, the oldest reach this instance
/// only.
const MAX_UNSENT: usize = 10_000;
const MAX_UNSENT_BYTES: usize = 16 << 20;
/// Maximum number of waiting events that are sent at once.
const SENT_AT_ONCE: usize = 100;
/// Maximum number of sessions whose streams are compared at once, after Redis was lost.
const COMPARED_AT_ONCE: usize = 1_000;
/// Capacity of the queue of requests to watch. Further requests wait.
const WATCHES: usize = 64;
/// Interval of the clean-up of sessions without watchers.
const CLEAN_UP_EVERY: Duration = Duration::from_secs(1);
/// Field of a stream entry that contains the event.
const FIELD: &str = "e";

/// Events of all instances. Clones share one bus.
#[derive(Clone)]
pub struct RedisBus(Arc<Inner>);

struct Inner {
    shared: Shared,
    /// Recent events for the watchers of this instance.
    mirror: LocalBus,
    watches: mpsc::Sender<Wanted>,
    announced: Mutex<Announced>,
    wake: Notify,
    unsent: Mutex<VecDeque<Event>>,
}

#[derive(Default)]
struct Announced {
    /// Sessions with events that are not read yet.
    sessions: HashSet<SessionId>,
    /// Sessions whose watches are starting: their streams are being read, and events announced
    /// meanwhile may be too late for that.
    starting: HashSet<SessionId>,
}

struct Wanted {
    session: SessionId,
    after: Option<String>,
    reply: oneshot::Sender<Watch>,
}

impl RedisBus {
    /// Creates the bus and starts its reader as a background task.
    pub fn new(shared: Shared) -> Self {
        let (watches, wanted) = mpsc::channel(WATCHES);
        let bus = Self(Arc::new(Inner {
            shared: shared.clone(),
            mirror: LocalBus::new(),
            watches,
            announced: Mutex::default(),
            wake: Notify::new(),
            unsent: Mutex::default(),
        }));
        let reader =
            Reader { bus: bus.clone(), read_to: HashMap::new(), was_lost: true, data: None };
        shared.spawn(reader.run(wanted));
        bus
    }

    /// Returns the channel that names sessions with new events, and its subscriber.
    pub(super) fn subscriber(&self) -> (String, Subscriber) {
        let bus = self.clone();
        let subscriber = move |session: String| bus.announce(SessionId::new(session));
        (self.0.shared.key("news"), Box::new(subscriber))
    }

    fn announce(&self, session: SessionId) {
        let mut announced = self.announced();
        if announced.starting.contains(&session) || self.0.mirror.is_watched(&session) {
            announced.sessions.insert(session);
            self.0.wake.notify_one();
        }
    }

    fn announced(&self) -> MutexGuard<'_, Announced> {
        self.0.announced.lock().expect("nothing panics while it holds the sessions")
    }

    fn unsent(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.0.unsent.lock().expect("nothing panics while it holds the events")
    }

    fn stream(&self, session: &SessionId) -> String {
        self.0.shared.key(&format!("events:{session}"))
    }

    /// Appends to `pipe` the commands that add an event to its session's stream and announce it.
    fn add(&self, pipe: &mut Pipeline, event: &Event) -> Result<(), serde_json::Error> {
        let stream = self.stream(&event.session_id);
        let kept_ms = i64::try_from(EVENTS_KEPT_FOR.as_millis()).unwrap_or(i64::MAX);
        let event_json = serde_json::to_string(event)?;
        let kept = STREAM_BYTES / event_json.len().max(1);
        let kept = kept.clamp(FEWEST_IN_STREAM, KEPT_EVENTS);
        pipe.cmd("XADD").arg(&stream).arg("MAXLEN").arg("~").arg(kept).arg("*");
        pipe.arg(FIELD).arg(event_json).ignore();
        pipe.pexpire(&stream, kept_ms).ignore();
        pipe.publish(self.0.shared.key("news"), event.session_id.as_str()).ignore();
        Ok(())
    }

    async fn send(&self, pipe: &Pipeline) -> Result<(), RedisUnavailable> {
        self.0.shared.run(|mut redis| async move { pipe.query_async(&mut redis).await }).await
    }

    /// Publishes an event in this instance, and queues it for the others.
    fn queue_event(&self, event: Event) {
        self.0.mirror.publish_now(event.clone());
        let mut unsent = self.unsent();
        if unsent.iter().any(|queued| queued.id == event.id) {
            return;
        }
        unsent.push_back(event);
        let mut bytes: usize = unsent.iter().map(Event::bytes).sum();
        while unsent.len() > MAX_UNSENT || bytes > MAX_UNSENT_BYTES {
            let Some(oldest) = unsent.pop_front() else { break };
            bytes -= oldest.bytes();
        }
        self.0.wake.notify_one();
    }

    async fn publish_or_queue(&self, event: Event) -> Result<Published, BoxError> {
        // Waiting events go first, to preserve the order.
        if self.unsent().is_empty() {
            let mut pipe = redis::pipe();
            self.add(&mut pipe, &event)?;
            if self.send(&pipe).await.is_ok() {
                return Ok(Published::Everywhere);
            }
        }
        self.queue_event(event);
        Ok(Published::Here)
    }
}

impl EventBus for RedisBus {
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>> {
        let bus = self.clone();
        Box::pin(async move { bus.publish_or_queue(event).await })
    }

    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>> {
        let watches = self.0.watches.clone();
        let (reply, watch) = oneshot::channel();
        let wanted = Wanted { session: session.clone(), after: after.map(str::to_owned), reply };
        Box::pin(async move {
            let ended = || BoxError::from("the server is stopping");
            watches.send(wanted).await.map_err(|_| ended())?;
            watch.await.map_err(|_| ended())
        })
    }

    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>> {
        let bus = self.clone();
        let session = session.clone();
        Box::pin(async move {
            bus.0.mirror.forget_now(&session);
            bus.unsent().retain(|event| event.session_id != session);
            let mut pipe = redis::pipe();
            pipe.del(bus.stream(&session)).ignore();
            Ok(bus.send(&pipe).await?)
        })
    }
}

/// Reader of the streams of the sessions that this instance watches.
struct Reader {
    bus: RedisBus,
    /// Last entry that was read from each session's stream.
    read_to: HashMap<SessionId, ReadTo>,
    /// Redis was lost, or not yet connected: its streams may have changed since.
    was_lost: bool,
    /// Identifier of Redis's data at the last connection.
    data: Option<String>,
}

/// Position in a stream.
#[derive(Debug, Clone, Copy)]
struct ReadTo {
    id: EntryId,
    /// Time when the clock of this instance was used as an entry id, because Redis was lost.
    guessed: Option<Instant>,
}

impl ReadTo {
    /// Corrects the position by the last entry of its stream and the current time of Redis's clock.
    fn compare(&mut self, last: EntryId, now: Duration) {
        if let Some(guessed) = self.guessed {
            // Redis's clock may differ from this instance's, and either may have been set since.
            let then = now.saturating_sub(guessed.elapsed()).as_millis();
            let then = EntryId(u64::try_from(then).unwrap_or(u64::MAX), 0);
            self.id = self.id.min(then).min(last);
        } else if last < self.id {
            self.id = EntryId::FIRST;
        }
    }
}

/// Id of a stream's entry: milliseconds since 1970, and a number within them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EntryId(u64, u64);

impl EntryId {
    const FIRST: Self = Self(0, 0);

    fn parse(text: &str) -> Option<Self> {
        let (ms, number) = text.split_once('-')?;
        Some(Self(ms.parse().ok()?, number.parse().ok()?))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

impl Reader {
    async fn run(mut self, mut wanted: mpsc::Receiver<Wanted>) {
        let mut ticks = tokio::time::interval(CLEAN_UP_EVERY);
        let mut up = self.bus.0.shared.up();
        loop {
            let mut watches = Vec::new();
            tokio::select! {
                Some(first) = wanted.recv() => watches.push(first),
                () = self.bus.0.wake.notified() => {}
                changed = up.changed() => match changed {
                    // Announcements were missed while Redis was lost.
                    Ok(()) => {
                        self.was_lost = true;
                        self.bus.announced().sessions.extend(self.read_to.keys().cloned());
                    }
                    Err(_) => return,
                },
                _ = ticks.tick() => self.forget(),
            }
            while watches.len() < SESSIONS_AT_ONCE {
                let Ok(next) = wanted.try_recv() else { break };
                watches.push(next);
            }
            self.send_queued().await;
            if self.was_lost && self.bus.0.shared.is_up() {
                self.was_lost = self.compare().await.is_err();
            }
            self.read(&watches).await;
            // Watches start between two reads, so that there is no gap between missed and new
            // events. Decision 0041.
            for Wanted { session, after, reply } in watches {
                let watch = self.bus.0.mirror.watch_now(&session, after.as_deref());
                // Fails if the caller stopped waiting: then there is no watcher.
                reply.send(watch).unwrap_or_default();
            }
            self.bus.announced().starting.clear();
        }
    }

    /// Drops the events of sessions without watchers.
    fn forget(&mut self) {
        let mirror = &self.bus.0.mirror;
        self.read_to.retain(|session, _| {
            let watched = mirror.is_watched(session);
            if !watched {
                mirror.forget_now(session);
            }
            watched
        });
        let mut announced = self.bus.announced();
        let Announced { sessions, starting } = &mut *announced;
        sessions.retain(|session| starting.contains(session) || mirror.is_watched(session));
    }

    /// Compares Redis with the positions from before it was lost. If Redis has lost its data, or
    /// the end of a stream, the stream is read from its start: by a clock that was set back, its
    /// new entries may have lower ids than the entries already read.
    async fn compare(&mut self) -> Result<(), RedisUnavailable> {
        let name = uuid::Uuid::new_v4().to_string();
        let key = self.bus.0.shared.key("data");
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(&key).arg(name).arg("NX").ignore().get(&key).cmd("TIME");
        let pipe = &pipe;
        let asking = |mut redis| async move { pipe.query_async(&mut redis).await };
        let (data, (seconds, micros)): (String, (u64, u64)) = self.bus.0.shared.run(asking).await?;
        let now = Duration::from_secs(seconds) + Duration::from_micros(micros);
        let before = self.data.replace(data);
        if before.is_some() && before != self.data {
            tracing::warn!("redis came back without its data");
            for read in self.read_to.values_mut().filter(|read| read.guessed.is_none()) {
                read.id = EntryId::FIRST;
            }
        }
        let sessions: Vec<SessionId> = self.read_to.keys().cloned().collect();
        for sessions in sessions.chunks(COMPARED_AT_ONCE) {
            let mut pipe = redis::pipe();
            for session in sessions {
                pipe.xrevrange_count(self.bus.stream(session), "+", "-", 1);
            }
            let pipe = &pipe;
            let asking = |mut redis| async move { pipe.query_async(&mut redis).await };
            let last: Vec<StreamRangeReply> = self.bus.0.shared.run(asking).await?;
            for (session, last) in sessions.iter().zip(last) {
                let last = last.ids.first().and_then(|entry| EntryId::parse(&entry.id));
                if let Some(read) = self.read_to.get_mut(session) {
                    read.compare(last.unwrap_or(EntryId::FIRST), now);
                }
            }
        }
        Ok(())
    }

    /// Sends the queued events to Redis, after it was lost.
    async fn send_queued(&self) {
        while self.bus.0.shared.is_up() {
            let mut pipe = redis::pipe();
            let first: Vec<Event> = self.bus.unsent().iter().take(SENT_AT_ONCE).cloned().collect();
            let written = first.iter().all(|event| self.bus.add(&mut pipe, event).is_ok());
            if first.is_empty() || !written || self.bus.send(&pipe).await.is_err() {
                return;
            }
            let mut unsent = self.bus.unsent();
            // The oldest may have been dropped from a full queue meanwhile.
            while unsent.front().is_some_and(|event| first.iter().any(|sent| sent.id == event.id)) {
                unsent.pop_front();
            }
        }
    }

    /// Reads new events of the sessions to watch, then of those with announced events.
    async fn read(&mut self, watches: &[Wanted]) {
        let mut sessions: Vec<SessionId> = watches.iter().map(|w| w.session.clone()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        {
            let mut announced = self.bus.announced();
            announced.starting.extend(sessions.iter().cloned());
            for session in &sessions {
                announced.sessions.remove(session);
            }
            let room = SESSIONS_AT_ONCE.saturating_sub(sessions.len());
            let rest: Vec<SessionId> = announced.sessions.iter().take(room).cloned().collect();
            for session in rest {
                announced.sessions.remove(&session);
                sessions.push(session);
            }
            // While Redis is lost, they wait for its return.
            if !announced.sessions.is_empty() && self.bus.0.shared.is_up() {
                self.bus.0.wake.notify_one();
            }
        }
        if sessions.is_empty() {
            return;
        }
        match self.ranges(&sessions).await {
            Ok(ranges) => {
                for (session, range) in sessions.into_iter().zip(ranges) {
                    self.take(session, range.ids);
                }
            }
            Err(RedisUnavailable) => self.read_later(sessions),
        }
    }

    async fn ranges(
        &self,
        sessions: &[SessionId],
    ) -> Result<Vec<StreamRangeReply>, RedisUnavailable> {
        let mut pipe = redis::pipe();
        for session in sessions {
            let stream = self.bus.stream(session);
            match self.read_to.get(session) {
                Some(ReadTo { id, .. }) => {
                    pipe.xrange_count(stream, format!("({id}"), "+", READ_AT_ONCE);
                }
                None => {
                    pipe.xrevrange_count(stream, "+", "-", READ_AT_ONCE);
                }
            }
        }
        let pipe = &pipe;
        let asking = |mut redis| async move { pipe.query_async(&mut redis).await };
        let mut ranges: Vec<StreamRangeReply> = self.bus.0.shared.run(asking).await?;
        for (session, range) in sessions.iter().zip(&mut ranges) {
            if !self.read_to.contains_key(session) {
                self.read_earlier(session, &mut range.ids).await?;
            }
        }
        Ok(ranges)
    }

    /// Completes the last entries of a stream, which are in reverse order, with earlier ones up to
    /// the size of stored events, and reverses them.
    async fn read_earlier(
        &self,
        session: &SessionId,
        entries: &mut Vec<StreamId>,
    ) -> Result<(), RedisUnavailable> {
        let bytes =
            |entries: &[StreamId]| -> usize { entries.iter().map(bytes_of_entry).sum::<usize>() };
        let mut page = entries.len();
        while page == READ_AT_ONCE && bytes(entries) < KEPT_EVENT_BYTES {
            let Some(first) = entries.last() else { break };
            let mut pipe = redis::pipe();
            let before = format!("({}", first.id);
            pipe.xrevrange_count(self.bus.stream(session), before, "-", READ_AT_ONCE);
            let pipe = &pipe;
            let asking = |mut redis| async move { pipe.query_async(&mut redis).await };
            let (earlier,): (StreamRangeReply,) = self.bus.0.shared.run(asking).await?;
            page = earlier.ids.len();
            entries.extend(earlier.ids);
        }
        entries.reverse();
        Ok(())
    }

    fn take(&mut self, session: SessionId, entries: Vec<StreamId>) {
        let events = entries.iter().filter_map(|entry| {
            let text: String = entry.get(FIELD)?;
            let event = serde_json::from_str::<Event>(&text);
            event.inspect_err(|error| tracing::warn!(%error, "cannot read an event")).ok()
        });
        let mirror = &self.bus.0.mirror;
        let known = self.read_to.contains_key(&session);
        if known {
            events.for_each(|event| mirror.publish_now(event));
        } else {
            mirror.load(&session, events.collect());
        }
        if known && entries.len() >= READ_AT_ONCE {
            self.bus.announced().sessions.insert(session.clone());
            self.bus.0.wake.notify_one();
        }
        let last = entries.last().and_then(|entry| EntryId::parse(&entry.id));
        if let Some(id) = last.or_else(|| (!known).then_some(EntryId::FIRST)) {
            self.read_to.insert(session, ReadTo { id, guessed: None });
        }
    }

    /// Postpones the reading of sessions until Redis is back. A watch that starts meanwhile gets
    /// the events that other instances publish after this time.
    fn read_later(&mut self, sessions: Vec<SessionId>) {
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let now = ReadTo { id: EntryId(now, 0), guessed: Some(Instant::now()) };
        for session in sessions {
            self.read_to.entry(session.clone()).or_insert(now);
            self.bus.announced().sessions.insert(session);
        }
    }
}

fn bytes_of_entry(entry: &StreamId) -> usize {
    match entry.map.get(FIELD) {
        Some(redis::Value::BulkString(text)) => text.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    /// Start of a watch by the clock of this instance, in milliseconds since 1970.
    const BEGAN: u64 = 1_000 * HOUR_MS;

    /// Returns the position in Redis 9 s after a watch started without it, given the time of its
    /// clock and its last entry.
    async fn read_from(redis_ms: u64, last: u64) -> EntryId {
        let mut read = ReadTo { id: EntryId(BEGAN, 0), guessed: Some(Instant::now()) };
        tokio::time::advance(Duration::from_secs(9)).await;
        read.compare(EntryId(last, 0), Duration::from_millis(redis_ms));
        read.id
    }

    #[tokio::test(start_paused = true)]
    async fn events_since_the_start_of_a_watch_without_redis_are_read_despite_clock_differences() {
        let now = BEGAN + 9_000;
        for (redis_ms, last, expected) in [
            // Both clocks agree: all events since the watch started.
            (now, now - 5, BEGAN),
            // Redis's clock is behind, or was set back with this instance's: an entry 5 s old is
            // new.
            (now - HOUR_MS, now - HOUR_MS - 5_000, BEGAN - HOUR_MS),
            // Redis's clock is ahead, or was set forward with this instance's: an entry from before
            // that is new.
            (now + HOUR_MS, BEGAN + 1_000, BEGAN),
            // No event is new.
            (now, BEGAN - 7, BEGAN - 7),
        ] {
            assert_eq!(read_from(redis_ms, last).await, EntryId(expected, 0), "{redis_ms} {last}");
        }
    }

    #[tokio::test]
    async fn a_stream_that_ends_before_the_read_position_is_read_from_its_start() {
        for (last, expected) in [(5, EntryId(5, 3)), (6, EntryId(5, 3)), (4, EntryId::FIRST)] {
            let mut read = ReadTo { id: EntryId(5, 3), guessed: None };
            read.compare(EntryId(last, 3), Duration::ZERO);
            assert_eq!(read.id, expected);
        }
    }
}
