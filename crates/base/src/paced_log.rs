//! Limits the warnings about one peer, so that its bytes cannot fill the log. Not for metrics, which
//! count everything.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Maximum number of warnings per minute.
const MAX_PER_MINUTE: u32 = 5;
const MINUTE: Duration = Duration::from_secs(60);

/// Warnings about one peer.
#[derive(Debug, Default)]
pub struct PacedLog(Mutex<Warnings>);

#[derive(Debug, Default)]
struct Warnings {
    /// Start of the current minute; `None` before the first warning.
    since: Option<Instant>,
    logged: u32,
    left_out: u64,
}

impl PacedLog {
    /// Logs a warning, with the number of warnings dropped since the last one, if any; or drops it,
    /// because too many were logged within a minute.
    pub fn log(&self, log: impl FnOnce(Option<u64>)) {
        if let Some(left_out) = self.permit() {
            log((left_out > 0).then_some(left_out));
        }
    }

    fn permit(&self) -> Option<u64> {
        let mut warnings = self.0.lock().ok()?;
        if warnings.since.is_none_or(|since| since.elapsed() >= MINUTE) {
            (warnings.since, warnings.logged) = (Some(Instant::now()), 0);
        }
        if warnings.logged >= MAX_PER_MINUTE {
            warnings.left_out += 1;
            return None;
        }
        warnings.logged += 1;
        Some(std::mem::take(&mut warnings.left_out))
    }
}

impl Drop for PacedLog {
    fn drop(&mut self) {
        let left_out = self.0.get_mut().map_or(0, |warnings| warnings.left_out);
        if left_out > 0 {
            tracing::warn!(left_out, "left out further warnings about a peer that has gone");
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
    }
}
