//! Limits the log lines about one peer or of one kind, so that clients cannot fill the log. Not for
//! metrics, which count everything.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of warnings per minute, unless stated otherwise.
const MAX_PER_MINUTE: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// Warnings about one peer.
#[derive(Debug)]
pub struct PacedLog {
    warnings: Mutex<Warnings>,
    max_per_minute: u32,
}

#[derive(Debug, Default)]
struct Warnings {
    /// Start of the current minute; `None` before the first warning.
    since: Option<Instant>,
    logged: u32,
    left_out: u64,
}

impl Default for PacedLog {
    fn default() -> Self {
        Self::with_limit(MAX_PER_MINUTE)
    }
}

impl PacedLog {
    /// Creates the log with this maximum number of lines per minute.
    pub fn with_limit(max_per_minute: u32) -> Self {
        Self { warnings: Mutex::default(), max_per_minute }
    }

    /// Logs a warning, with the number of warnings dropped since the last one, if any; or drops it,
    /// because too many were logged within a minute.
    pub fn log(&self, log: impl FnOnce(Option<u64>)) {
        if let Some(left_out) = self.permit() {
            log((left_out > 0).then_some(left_out));
        }
    }

    fn permit(&self) -> Option<u64> {
        let mut warnings = self.warnings.lock().ok()?;
        if warnings.since.is_none_or(|since| since.elapsed() >= MINUTE) {
            (warnings.since, warnings.logged) = (Some(Instant::now()), 0);
        }
        if warnings.logged >= self.max_per_minute {
            warnings.left_out += 1;
            return None;
        }
        warnings.logged += 1;
        Some(std::mem::take(&mut warnings.left_out))
    }
}

impl Drop for PacedLog {
    fn drop(&mut self) {
        let left_out = self.warnings.get_mut().map_or(0, |warnings| warnings.left_out);
        if left_out > 0 {
            tracing::warn!(left_out, "left out further lines of this kind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_warnings_a_minute_are_logged_and_the_next_one_counts_the_others() {
        let log = PacedLog::default();
        let passed = || (0..1_000).filter_map(|_| log.permit()).collect::<Vec<_>>();
        assert_eq!(passed(), [0; 5]);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(passed().is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(passed(), [1_995, 0, 0, 0, 0]);
        let log = PacedLog::with_limit(2);
        assert_eq!((0..9).filter_map(|_| log.permit()).count(), 2);
    }
}
