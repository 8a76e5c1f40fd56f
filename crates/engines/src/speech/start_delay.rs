//! How long the start of an answer waits, so that a synthesiser slower than speech does not leave
//! a hole in the middle of it. Pure arithmetic; timers are the caller's.

use std::time::Duration;

/// A piece still to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// How long it is expected to sound.
    pub audio: Duration,
    /// How long it is expected to take.
    pub work: Duration,
}

/// How long to wait from now before playback of `buffered` may begin, such that every later piece
/// is ready when its turn comes. `remaining` are the pieces still to be made, in order; the first
/// of them begins now. Zero when nothing need wait; never more than it takes to make everything.
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
    use super::*;
    use proptest::prelude::*;

    /// Plays from `start`: the longest hole between pieces, in seconds.
    fn worst_hole(start: f64, buffered: f64, pieces: &[(f64, f64)]) -> f64 {
        let (mut ready, mut needed, mut worst) = (0.0, start + buffered, 0.0_f64);
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
