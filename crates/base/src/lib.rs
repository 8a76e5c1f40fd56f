//! Base code of every crate: secrets and their redaction, durations in settings, reloadable values,
//! tasks and slots that end with their owner, dates, rate-limited log lines, languages of texts,
//! the words of transcripts, private files, thread priority, the environment of child processes,
//! the signals that end a process. Knows no service, no protocol and no HTTP.

pub mod child_env;
pub mod days;
pub mod fair_queue;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod language;
pub mod log;
pub mod memory_pool;
pub mod ms;
pub mod names;
pub mod open_files;
pub mod output;
pub mod pace;
pub mod paced_log;
pub mod priority;
pub mod private_files;
pub mod programs;
pub mod redaction;
pub mod reloadable;
mod secret;
pub mod slots;
pub mod spoken_words;
pub mod stop_signal;
pub mod tasks;
#[cfg(feature = "testkit")]
pub mod testkit;
pub mod wall_clock;

use std::time::Duration;

pub use secret::Secret;

/// Error of any kind, whose source is for people.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Maximum wait for a peer's answer to our Close of a WebSocket, whichever side opened it.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(2);
