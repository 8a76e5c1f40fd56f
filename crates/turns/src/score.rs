//! The metric, as [eot-bench](https://github.com/livekit/eot-bench) defines it. Every silence
//! inside a turn is a hold: an answer there is a cut-off. Holds of 0.2 to 5 s count. The wait is
//! the time from the end of a turn to the answer. Pure. Making the server answer is in
//! [`device`](crate::device).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::device::Seen;
use crate::manifest::{Sample, Stretch};

const HOLDS: RangeInclusive<Duration> = Duration::from_millis(200)..=Duration::from_secs(5);
/// An answer up to this long after a hold still belongs to it: the next words have not reached the server.
const ON_ITS_WAY: Duration = Duration::from_millis(150);
/// An answer up to this long before the marked end belongs to it: the voice had faded out.
pub(crate) const EARLY: Duration = Duration::from_millis(300);

/// Result of a policy in one group of recordings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of silences inside turns.
    pub holds: usize,
    /// Number of silences that were answered.
    pub cut: usize,
    /// Waits after the ends of turns, in ascending order once complete.
    pub waits: Vec<Duration>,
    /// Number of turns without an answer after their end, while the recording ran.
    pub missed: usize,
    /// Number of answers during speech, outside of the holds that count.
    pub in_speech: usize,
}

/// Measurement of one group of recordings.
pub trait Measure {
    /// Adds the result of a recording.
    fn add(&mut self, sample: &Sample, seen: &Seen);
}

impl Measure for Tally {
    fn add(&mut self, sample: &Sample, seen: &Seen) {
        self.add_answers(sample, &seen.told);
    }
}

impl Tally {
    /// Adds a recording that the server answered at these times.
    fn add_answers(&mut self, sample: &Sample, answers: &[Duration]) {
        let end = sample.speech.end;
        let to_pause = |at: &Duration| {
            let pause =
                sample.pauses.iter().position(|p| p.start < *at && *at < p.end + ON_ITS_WAY);
            pause.filter(|_| *at < end)
        };
        let mut cut = vec![false; sample.pauses.len()];
        let mut wait = None;
        for at in answers {
            match to_pause(at) {
                Some(pause) => cut[pause] = true,
                None if *at + EARLY >= end => wait = wait.or(Some(at.saturating_sub(end))),
                None if *at > sample.speech.start => self.in_speech += 1,
                None => {}
            }
        }
        let counts = |(pause, _): &(&Stretch, bool)| {
            let of_its_group = sample.spliced.as_ref().is_none_or(|spliced| spliced == *pause);
            of_its_group && HOLDS.contains(&(pause.end - pause.start))
        };
        for (_, cut) in sample.pauses.iter().zip(cut).filter(counts) {
            self.holds += 1;
            self.cut += usize::from(cut);
        }
        if sample.ends_turn {
            self.missed += usize::from(wait.is_none());
            self.waits.extend(wait);
        }
    }

    /// Returns the share of holds that were cut off.
    pub fn cut_rate(&self) -> Option<f64> {
        (self.holds > 0).then(|| self.cut as f64 / self.holds as f64)
    }

    /// Returns the mean wait after the ends of turns.
    pub fn mean_wait(&self) -> Option<Duration> {
        mean(&self.waits)
    }

    /// Returns this quantile of the waits, such as 0.9 for the p90.
    pub fn wait_at(&self, share: f64) -> Option<Duration> {
        percentile(&self.waits, share)
    }
}

/// Measurements by group.
pub type Groups<T> = BTreeMap<String, T>;

/// Returns the mean.
pub fn mean(times: &[Duration]) -> Option<Duration> {
    let count = u32::try_from(times.len()).ok().filter(|count| *count > 0)?;
    Some(times.iter().sum::<Duration>() / count)
}

/// Returns this quantile of sorted times.
pub fn percentile(times: &[Duration], share: f64) -> Option<Duration> {
    let rank = (times.len() as f64 * share).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied()
}

/// Best points of a curve, as in eot-bench.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OperatingPoints {
    /// Lowest cut-off rates with a mean wait of at most 300 and 600 ms.
    pub cut_at_wait: [Option<f64>; 2],
    /// Shortest mean waits with at most 5 and 10 % of cut-offs.
    pub wait_at_cut: [Option<Duration>; 2],
}

/// Returns the best points of a curve in one group.
pub fn operating_points<'a>(curve: impl Iterator<Item = &'a Tally> + Clone) -> OperatingPoints {
    let points = || curve.clone().filter_map(|t| Some((t.cut_rate()?, t.mean_wait()?)));
    let lowest = |limit: u64| {
        let within = points().filter(|(_, wait)| *wait <= Duration::from_millis(limit));
        within.map(|(cut, _)| cut).min_by(f64::total_cmp)
    };
    let shortest = |limit: f64| points().filter(|(cut, _)| *cut <= limit).map(|(_, w)| w).min();
    OperatingPoints { cut_at_wait: [300, 600].map(lowest), wait_at_cut: [0.05, 0.1].map(shortest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn sample() -> Sample {
        Sample {
            file: "x".into(),
            speaker: None,
            group: "en".into(),
            speech: ms(500)..ms(5_000),
            ends_turn: true,
            // The first is too short to count.
            pauses: vec![ms(1_000)..ms(1_150), ms(2_000)..ms(2_600), ms(3_000)..ms(3_400)],
            spliced: None,
        }
    }

    fn tally(answers: &[u64]) -> Tally {
        let mut tally = Tally::default();
        let answers: Vec<_> = answers.iter().map(|at| ms(*at)).collect();
        tally.add_answers(&sample(), &answers);
        tally
    }

    #[test]
    fn an_answer_in_a_hold_is_a_cut_off() {
        let waits = vec![ms(700)];
        assert_eq!(tally(&[5_700]), Tally { holds: 2, waits: waits.clone(), ..Tally::default() });
        // Inside a hold, and before the server could hear the next words.
        for at in [2_500, 2_700] {
            assert_eq!(tally(&[at, 5_700]).cut, 1, "{at}");
        }
        assert_eq!(tally(&[2_500, 3_300, 5_700]).cut, 2);
        // A short pause counts neither as a hold nor as speech.
        let short = tally(&[1_100, 5_700]);
        assert_eq!((short.cut, short.in_speech), (0, 0));
        assert_eq!(tally(&[4_000, 5_700]).in_speech, 1);
        // If a pause was spliced in, the other pauses count in another group.
        let spliced = Some(ms(3_000)..ms(3_400));
        let mut tally = Tally::default();
        tally.add_answers(&Sample { spliced, ..sample() }, &[ms(2_500), ms(5_700)]);
        assert_eq!((tally.holds, tally.cut, tally.in_speech), (1, 0, 0));
    }

    #[test]
    fn the_wait_starts_at_the_end_of_the_turn() {
        assert_eq!(tally(&[5_400, 6_000]).waits, [ms(400)]);
        assert_eq!(tally(&[4_900]).waits, [ms(0)], "the voice had faded out");
        let never = tally(&[]);
        assert_eq!((never.missed, never.waits.len()), (1, 0));
        let mut part = Tally::default();
        part.add_answers(&Sample { ends_turn: false, ..sample() }, &[ms(5_300)]);
        assert_eq!((part.holds, part.missed, part.waits.len(), part.in_speech), (2, 0, 0, 0));
    }

    #[test]
    fn the_best_points_of_a_curve_are_found() {
        let point =
            |cut, wait| Tally { holds: 100, cut, waits: vec![ms(wait)], ..Tally::default() };
        let curve = [point(30, 250), point(12, 500), point(9, 700), point(4, 900)];
        let points = operating_points(curve.iter());
        assert_eq!(points.cut_at_wait, [Some(0.3), Some(0.12)]);
        assert_eq!(points.wait_at_cut, [Some(ms(900)), Some(ms(700))]);
        assert_eq!(curve[1].wait_at(0.5), Some(ms(500)));
        assert_eq!(operating_points([].iter()), OperatingPoints::default());
    }
}
