//! Who gives way where cores are scarce: threads that make speech, and engines, to the threads of
//! sockets, since what they make is needed later. Not for how many turns may run.

/// How much they give way, as `nice` counts.
#[cfg(target_os = "linux")]
const GIVES_WAY: i32 = 5;

/// Has the thread that asks, and the threads and processes that it starts, give way.
pub fn lower_priority() {
    // On Linux this is a thread's own; elsewhere all of this process would give way.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(GIVES_WAY) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}
