//! The last seconds of an utterance, for the turn detector and the speaker embedder. Not for the
//! recogniser, which receives the whole utterance while it is spoken.

use std::collections::VecDeque;
use std::time::Duration;

use super::pcm;
use super::voice_detector::SAMPLE_RATE_HZ;

/// Ring buffer of the latest samples. Allocates once.
#[derive(Debug)]
pub struct RecentSpeech {
    samples: VecDeque<i16>,
    most: usize,
}

impl RecentSpeech {
    /// Creates a buffer for this much speech.
    pub fn new(longest: Duration) -> Self {
        let most = pcm::samples_in(longest, SAMPLE_RATE_HZ);
        Self { samples: VecDeque::with_capacity(most), most }
    }

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
        let mut recent = RecentSpeech::new(Duration::from_secs(8));
        let most = recent.most;
        let capacity = recent.samples.capacity();
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
