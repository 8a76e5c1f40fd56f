//! The last seconds of an utterance, which the turn detector is given. Not for the recogniser, which receives all of
//! it while it is spoken.

use std::collections::VecDeque;

use super::pcm;
use super::voice_detector::SAMPLE_RATE_HZ;
use crate::ports::turn_detector::LONGEST_SPEECH;

/// Samples of up to [`LONGEST_SPEECH`]. Allocates once.
#[derive(Debug)]
pub struct RecentSpeech {
    samples: VecDeque<i16>,
    most: usize,
}

impl Default for RecentSpeech {
    fn default() -> Self {
        let most = pcm::samples_in(LONGEST_SPEECH, SAMPLE_RATE_HZ);
        Self { samples: VecDeque::with_capacity(most), most }
    }
}

impl RecentSpeech {
    /// Appends samples; the oldest beyond the limit are dropped.
    pub fn push(&mut self, sound: &[i16]) {
        let sound = &sound[sound.len().saturating_sub(self.most)..];
        let excess = (self.samples.len() + sound.len()).saturating_sub(self.most);
        self.samples.drain(..excess);
        self.samples.extend(sound);
    }

    /// Returns a copy of the samples.
    pub fn to_vec(&self) -> Vec<i16> {
        let (first, second) = self.samples.as_slices();
        [first, second].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_samples_stay_in_order_and_in_place() {
        let mut recent = RecentSpeech::default();
        let (most, capacity) = (recent.most, recent.samples.capacity());
        let counted: Vec<i16> = (0..i16::MAX).collect();
        let mut all = Vec::new();
        for _ in 0..9 {
            recent.push(&counted);
            all.extend_from_slice(&counted);
            assert_eq!(recent.to_vec(), all[all.len().saturating_sub(most)..]);
        }
        recent.push(&vec![7; most + 5]);
        assert_eq!(recent.to_vec(), vec![7; most]);
        assert_eq!(recent.samples.capacity(), capacity);
    }
}
