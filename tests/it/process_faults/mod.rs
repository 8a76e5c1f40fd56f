//! The program as a process while it, its machine or its services fail: killed, without
//! descriptors, memory or disk, with a jumping clock, with its PostgreSQL killed. For several
//! instances under load, see `cluster`.

mod clients;
mod clock;
mod database;
mod descriptors;
mod disk;
mod kills;
mod memory;

use hearken_test_support::vendors::{Behaviour, ListenAiAsr, ListenAiTts, OpenAiChat};

use crate::support::app::{HEARD, Vendors};

fn echo(asked: &[u8]) -> String {
    format!("You said {}", String::from_utf8_lossy(asked))
}

/// Vendors whose model echoes messages.
pub(crate) async fn vendors() -> Vendors {
    Vendors::of(
        ListenAiAsr::start(Behaviour::Normal, HEARD).await,
        OpenAiChat::answering(echo).await,
        ListenAiTts::start(Behaviour::Normal).await,
    )
}

/// Settings of every server here: shorter pauses end a turn, and rate limits are off.
pub(crate) const USUAL: [(&str, &str); 4] = [
    ("HEARKEN__HEARING__SILENCE_MS", "400"),
    ("HEARKEN__SPEAKING__START_GUARD_MS", "250"),
    ("HEARKEN__HTTP__REQUESTS_PER_MINUTE", "0"),
    ("HEARKEN__AUTH__REQUIRED", "never"),
];
