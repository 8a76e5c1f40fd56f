//! Voices of roles that failed a short while ago: until their next try, sentences are spoken in the
//! configured voice at once. Not for the health of the synthesiser, which its provider knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time for which a voice is not used after its first failure. It doubles with each further one, up
/// to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum time for which a voice is not used.
const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// Maximum number of remembered voices. Beyond it, all are tried again.
const MAX_VOICES: usize = 512;

/// Voices that failed before their first sound. Clones share them.
#[derive(Clone, Default)]
pub struct FailedVoices(Arc<Inner>);

#[derive(Default)]
struct Inner {
    voices: Mutex<HashMap<Arc<str>, FailedVoice>>,
}

struct FailedVoice {
    /// Failures since the voice last worked.
    failures: u32,
    retry_at: Instant,
}

impl FailedVoices {
    fn voices(&self) -> MutexGuard<'_, HashMap<Arc<str>, FailedVoice>> {
        self.0.voices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the voice to use for this one: the configured one while this one is paused.
    pub(super) fn usable(&self, voice: Arc<str>) -> Arc<str> {
        let failed = self.voices();
        let is_paused = failed.get(&voice).is_some_and(|failed| failed.retry_at > Instant::now());
        if is_paused { Arc::default() } else { voice }
    }

    /// Records a failure before the first sound. Failures of concurrent sentences count once.
    pub(super) fn failed(&self, voice: &Arc<str>) {
        let mut voices = self.voices();
        if voices.len() >= MAX_VOICES && !voices.contains_key(voice) {
            voices.clear();
        }
        let now = Instant::now();
        let failed =
            voices.entry(Arc::clone(voice)).or_insert(FailedVoice { failures: 0, retry_at: now });
        if failed.retry_at <= now {
            let pause = FIRST_PAUSE.saturating_mul(1 << failed.failures.min(16));
            failed.retry_at = now + pause.min(LONGEST_PAUSE);
            failed.failures = failed.failures.saturating_add(1);
        }
    }

    /// Records that a voice was heard.
    pub(super) fn worked(&self, voice: &Arc<str>) {
        self.voices().remove(voice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_voice_that_fails_is_paused_longer_each_time_until_it_works() {
        let voices = FailedVoices::default();
        let nova: Arc<str> = "nova".into();
        for pause in [30, 60, 120, 240, 480, 600, 600] {
            assert_eq!(voices.usable(Arc::clone(&nova)), nova);
            voices.failed(&nova);
            voices.failed(&nova);
            tokio::time::advance(Duration::from_secs(pause - 1)).await;
            assert_eq!(&*voices.usable(Arc::clone(&nova)), "", "{pause}");
            assert_eq!(&*voices.usable("echo".into()), "echo", "others are used meanwhile");
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        voices.worked(&nova);
        voices.failed(&nova);
        tokio::time::advance(FIRST_PAUSE).await;
        assert_eq!(voices.usable(Arc::clone(&nova)), nova);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_remembered_voices_is_limited() {
        let voices = FailedVoices::default();
        (0..3 * MAX_VOICES).for_each(|n| voices.failed(&n.to_string().into()));
        assert_eq!(voices.voices().len(), MAX_VOICES);
    }
}
