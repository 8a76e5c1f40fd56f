//! Latency from the end of a turn to the first audio of the reply, and the calls of services for
//! it. Whether the turn was over is in [`score`](crate::score).

use std::time::Duration;

use crate::device::Seen;
use crate::manifest::Sample;
use crate::score::{EARLY, Measure};

/// Latency of one group of recordings. Only turns that were not answered before their end count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latency {
    /// Times from the end of speech to the first audio of the reply, in ascending order once complete.
    pub first_audio: Vec<Duration>,
    /// Number of requested final transcripts.
    pub recognised: usize,
    /// Number of prompts to the model.
    pub asked: usize,
    /// Turns that were answered before their end, or not at all.
    pub left_out: usize,
}

impl Measure for Latency {
    fn add(&mut self, sample: &Sample, seen: &Seen) {
        let end = sample.speech.end;
        let decided = seen.told.first().filter(|told| **told + EARLY >= end);
        let heard = seen.audio.first().filter(|_| decided.is_some() && sample.ends_turn);
        let Some(heard) = heard else {
            self.left_out += 1;
            return;
        };
        self.first_audio.push(heard.saturating_sub(end));
        self.recognised += seen.recognised;
        self.asked += seen.asked;
    }
}

impl Latency {
    /// Returns the numbers of recognitions and of prompts per turn.
    pub fn calls_per_turn(&self) -> Option<[f64; 2]> {
        let turns = self.first_audio.len();
        (turns > 0).then(|| [self.recognised, self.asked].map(|calls| calls as f64 / turns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turns_that_were_answered_after_their_end_count() {
        let ms = Duration::from_millis;
        let mut sample = Sample {
            file: "x".into(),
            speaker: None,
            group: "en".into(),
            speech: ms(500)..ms(5_000),
            ends_turn: true,
            pauses: Vec::new(),
            spliced: None,
        };
        let seen = |told, audio| Seen {
            told: vec![ms(told)],
            audio: vec![ms(audio), ms(audio + 60)],
            recognised: 3,
            asked: 1,
        };
        let mut latency = Latency::default();
        latency.add(&sample, &seen(5_400, 5_900));
        latency.add(&sample, &seen(2_400, 5_900));
        latency.add(&sample, &Seen::default());
        sample.ends_turn = false;
        latency.add(&sample, &seen(5_400, 5_900));
        assert_eq!((latency.first_audio.clone(), latency.left_out), (vec![ms(900)], 3));
        assert_eq!(latency.calls_per_turn(), Some([3.0, 1.0]));
    }
}
