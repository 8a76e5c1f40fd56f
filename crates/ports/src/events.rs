//! Port of the event bus: delivers events of a session to its watchers, on any instance. Not for
//! the meaning of events.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use tokio::sync::mpsc;

use super::BoxError;

/// Number of events kept per session for watchers that reconnect.
pub const KEPT_EVENTS: usize = 1_000;
/// Largest event of a state server that is published.
pub const MAX_EVENT_BYTES: usize = 64 << 10;
/// Bytes of the events kept per session. The oldest are dropped beyond.
pub const KEPT_EVENT_BYTES: usize = 256 << 10;
/// Time for which a session's events are kept after the last one.
pub const EVENTS_KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);

/// How far an event was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// To all watchers, on any instance.
    Everywhere,
    /// To the watchers of this instance. Those of others are told once they can be reached, unless
    /// this one ends before.
    Here,
}

/// Event bus.
pub trait EventBus: Send + Sync {
    /// Publishes an event to all watchers of its session. Events arrive in order of publication. An
    /// event that is published again is told once.
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>>;

    /// Watches a session from now on. With `after`, starts behind the event with this id.
    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>>;

    /// Drops the kept events of a session that was purged.
    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>>;
}

/// Subscription to a session. Dropping it ends the subscription.
pub struct Watch {
    /// True if all events after the named one are included, or none was named. False if the named
    /// event is not known any more, and events may be missing.
    pub complete: bool,
    /// Missed events, oldest first.
    pub missed: Vec<Event>,
    /// Future events. The channel is bounded and closes if its reader is too slow.
    pub events: mpsc::Receiver<Event>,
}
