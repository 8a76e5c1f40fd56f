//! Text clients in virtual time, on scripted ports. Not for real engines or sockets.

mod consent_of_text_clients;
mod text_after;
mod text_clients;
mod text_copies;
mod text_sessions;
mod text_uses;

use std::time::Duration;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Makes time virtual, once a test: each runs on a thread of its own.
pub(crate) fn freeze() {
    thread_local!(static FROZEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if !FROZEN.replace(true) {
        tokio::time::pause();
    }
}
