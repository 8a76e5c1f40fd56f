//! The events' port: what happens in a session, told to whoever watches it, wherever they are
//! connected. Not for what an event means.

use futures_util::future::BoxFuture;
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;
use tokio::sync::mpsc;

use super::BoxError;

/// Events of a session that are kept for who comes back.
pub const KEPT_EVENTS: usize = 1_000;

/// Where events go through.
pub trait EventBus: Send + Sync {
    /// Tells an event to all who watch its session, in the order in which events are published.
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<(), BoxError>>;

    /// Watches a session from now on; with `after` from the event of this id on.
    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>>;
}

/// A session being watched; dropping it ends that.
pub struct Watch {
    /// Everything since the event that was named is there; false where that is not known any
    /// more, so that something may be missing. True where none was named.
    pub complete: bool,
    /// The events that were missed, oldest first.
    pub missed: Vec<Event>,
    /// What comes. Bounded: it ends where its reader is too slow.
    pub events: mpsc::Receiver<Event>,
}
