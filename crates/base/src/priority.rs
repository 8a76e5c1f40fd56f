//! Priority of threads on scarce cores. Speech synthesis threads and engines run at a lower
//! priority than the threads that serve sockets, since their results are needed later. Not for the
//! number of concurrent turns.

/// Amount that is added to the `nice` value.
// The output of encoders and engines is needed later than what sockets have to send. Decision 0020.
#[cfg(target_os = "linux")]
const GIVES_WAY: i32 = 5;

/// Lowers the priority of the calling thread, and of the threads and processes that it starts.
pub fn lower_priority() {
    // On Linux the `nice` value belongs to a thread. On other systems it would affect the whole
    // process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(GIVES_WAY) {
        tracing::debug!(%error, "cannot lower the priority of a thread");
    }
}
