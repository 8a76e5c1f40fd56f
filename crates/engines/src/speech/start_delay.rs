//! Computes the delay before an answer starts, which prevents gaps in the middle of it when the
//! synthesiser is slower than speech. Pure arithmetic; the caller runs the timers.

use std::time::Duration;

/// Piece of audio that has not been synthesised yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Expected duration of its audio.
    pub audio: Duration,
    /// Expected time to synthesise it.
    pub work: Duration,
}

/// Returns the delay from now until playback of `buffered` may start, such that every later piece
/// is ready when it is due. `remaining` are the missing pieces, in order; synthesis of the first of
/// them starts now. Zero if no delay is needed; never more than the time to synthesise everything.
pub fn wait_before_release(buffered: Duration, remaining: &[Piece]) -> Duration {
    let mut made_at = Duration::ZERO;
    let mut plays_until = buffered;
    let mut wait = Duration::ZERO;
    for piece in remaining {
        made_at = made_at.saturating_add(piece.work);
        wait = wait.max(made_at.saturating_sub(plays_until));
        plays_until = plays_until.saturating_add(piece.audio);
    }
    wait
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Simulates playback from `start`. Returns the longest gap between pieces, in seconds.
    fn worst_hole(start: f64, buffered: f64, pieces: &[(f64, f64)]) -> f64 {
        let mut ready = 0.0;
        let mut needed = start + buffered;
        let mut worst = 0.0_f64;
        for (audio, work) in pieces {
            ready += work;
            worst = worst.max(ready - needed);
            needed = needed.max(ready) + audio;
        }
        worst
    }

    fn pieces(seconds: &[(f64, f64)]) -> Vec<Piece> {
        let seconds = seconds.iter();
        let piece = |(audio, work): &(f64, f64)| Piece {
            audio: Duration::from_secs_f64(*audio),
            work: Duration::from_secs_f64(*work),
        };
        seconds.map(piece).collect()
    }

    #[test]
    fn a_fast_synthesiser_waits_for_its_next_piece_only() {
        let second = Duration::from_secs(1);
        assert_eq!(wait_before_release(second, &pieces(&[(2.0, 0.2)])), Duration::ZERO);
        assert_eq!(wait_before_release(second, &[]), Duration::ZERO);
        assert_eq!(wait_before_release(second, &pieces(&[(2.0, 2.0)])), second);
        let slow_end = pieces(&[(2.0, 0.5), (1.0, 4.0)]);
        assert_eq!(wait_before_release(second, &slow_end), Duration::from_millis(1500));
    }

    proptest! {
        #[test]
        fn playback_never_starves_and_never_waits_too_long(
            buffered in 0.05..10.0_f64,
            lengths in prop::collection::vec((0.05..8.0_f64, 0.0..20.0_f64), 0..12),
        ) {
            let wait = wait_before_release(Duration::from_secs_f64(buffered), &pieces(&lengths));
            let wait = wait.as_secs_f64();
            prop_assert!(worst_hole(wait, buffered, &lengths) < 1e-6);
            if wait > 0.01 {
                prop_assert!(worst_hole(wait - 0.01, buffered, &lengths) > 0.0);
            }
        }
    }
}
