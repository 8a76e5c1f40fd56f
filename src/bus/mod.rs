//! What instances of the server tell each other: events, who holds what. Not for what an event
//! means.

mod local;

pub use local::{LocalBus, LocalLocks};
