//! Port of the event bus: delivers events of a session to its watchers, on any instance. Not for
//! the meaning of events.

use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use tokio::sync::mpsc;

use super::BoxError;

/// Number of events stored per session for watchers that reconnect.
pub const KEPT_EVENTS: usize = 1_000;
/// Maximum size of a published event of a state server.
pub const MAX_EVENT_BYTES: usize = 64 << 10;
/// Maximum total size of the events stored per session, in bytes. Beyond it, the oldest are
/// dropped.
pub const KEPT_EVENT_BYTES: usize = 256 << 10;
/// Retention of a session's events after the last one.
pub const EVENTS_KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Reach of a published event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// The watchers on all instances.
    Everywhere,
    /// The watchers of this instance. Those of other instances get the event once they can be
    /// reached, unless this instance stops before.
    Here,
}

/// Event bus.
pub trait EventBus: Send + Sync {
    /// Publishes an event to all watchers of its session. Events arrive in order of publication. An
    /// event that is published twice is delivered once.
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>>;

    /// Watches a session from now on. With `after`, starts after the event with this id.
    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>>;

    /// Drops the stored events of a session that was purged.
    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>>;
}

/// Subscription to a session. Dropping it ends the subscription.
pub struct Watch {
    /// True if all events after the named one are included, or none was named. False if the named
    /// event is no longer stored, so that events may be missing.
    pub complete: bool,
    /// Missed events, oldest first.
    pub missed: Vec<Event>,
    /// Future events. The channel is bounded and closes if its reader is too slow.
    pub events: mpsc::Receiver<Event>,
}
