//! Voice activity detection on frames of 20 ms. The only file that uses `webrtc-vad`. Not for
//! deciding when speech starts or ends.

use webrtc_vad::{SampleRate, Vad, VadMode};

use super::pcm;

/// Samples per decision: 20 ms at 16 kHz.
pub const FRAME_SAMPLES: usize = 320;
/// Sample rate of the frames.
pub const SAMPLE_RATE_HZ: u32 = 16_000;

/// Frames per bucket of the noise floor's history (100 ms).
const BUCKET_FRAMES: usize = 5;
/// Number of buckets: the noise floor is the quietest bucket of the last 3 s, and unknown before.
/// Speech always has a dip within that time, so speech never counts as the floor.
const BUCKETS: usize = 30;

/// Detector that separates voice from silence and from steady noise. Not `Send`: libfvad's state is
/// a raw pointer, so create it on the thread that uses it.
pub struct VoiceDetector {
    vad: Vad,
    floor: NoiseFloor,
    min_rms: f64,
    over_noise: f64,
}

impl VoiceDetector {
    /// Creates a detector. `aggressiveness` is libfvad's mode, 0 (all but silence is voice) to 3;
    /// sound below `min_rms` (of 32,768), or not `over_noise` times louder than the noise floor, is
    /// never voice.
    pub fn new(aggressiveness: u8, min_rms: f64, over_noise: f64) -> Self {
        let mode = match aggressiveness {
            0 => VadMode::Quality,
            1 => VadMode::LowBitrate,
            2 => VadMode::Aggressive,
            _ => VadMode::VeryAggressive,
        };
        let vad = Vad::new_with_rate_and_mode(SampleRate::Rate16kHz, mode);
        Self { vad, floor: NoiseFloor::default(), min_rms, over_noise }
    }

    /// Returns true if a frame of [`FRAME_SAMPLES`] is voice. A frame of another length never is.
    pub fn is_voice(&mut self, frame: &[i16]) -> bool {
        let rms = pcm::rms(frame);
        let floor = self.floor.track(rms);
        let loud = rms >= self.min_rms && floor.is_none_or(|f| rms >= f * self.over_noise);
        // libfvad must process every frame, loud or not: it adapts to the noise itself. Measured:
        // without frames below an rms of 5, 4 of the 12 recordings in fixtures/audio start or end
        // elsewhere. Decision 0023.
        let voice = frame.len() == FRAME_SAMPLES && self.vad.is_voice_segment(frame) == Ok(true);
        voice && loud
    }
}

/// Noise floor: the quietest 100 ms of the last 3 s.
#[derive(Default)]
struct NoiseFloor {
    buckets: [f64; BUCKETS],
    /// Number of buckets filled so far; the next one replaces the oldest.
    filled: usize,
    sum: f64,
    frames: usize,
    /// Noise floor, known once the buckets are full.
    quietest: Option<f64>,
}

impl NoiseFloor {
    fn track(&mut self, rms: f64) -> Option<f64> {
        self.sum += rms;
        self.frames += 1;
        if self.frames == BUCKET_FRAMES {
            #[allow(clippy::cast_precision_loss, reason = "a handful of frames")]
            let mean = self.sum / BUCKET_FRAMES as f64;
            self.buckets[self.filled % BUCKETS] = mean;
            self.filled += 1;
            (self.sum, self.frames) = (0.0, 0);
            if self.filled >= BUCKETS {
                self.quietest = self.buckets.iter().copied().reduce(f64::min);
            }
        }
        self.quietest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns deterministic noise of this amplitude.
    fn hiss(frames: usize, amplitude: i32) -> Vec<i16> {
        let mut seed = 12_345_u32;
        let mut next = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let centred = i32::try_from(seed >> 16).unwrap() - 32_768;
            i16::try_from(centred * amplitude / 32_768).unwrap()
        };
        (0..frames * FRAME_SAMPLES).map(|_| next()).collect()
    }

    /// Returns a tone with harmonics.
    fn buzz(frames: usize) -> Vec<i16> {
        let tone = |hz| pcm::tone(hz, frames * FRAME_SAMPLES, SAMPLE_RATE_HZ);
        tone(150.0).iter().zip(tone(450.0)).map(|(a, b)| a.saturating_add(b)).collect()
    }

    fn voiced(voicing: &mut VoiceDetector, samples: &[i16]) -> usize {
        samples.chunks_exact(FRAME_SAMPLES).filter(|f| voicing.is_voice(f)).count()
    }

    #[test]
    fn silence_and_steady_noise_are_no_voice() {
        let mut voicing = VoiceDetector::new(3, 60.0, 1.6);
        assert_eq!(voiced(&mut voicing, &[0; 50 * FRAME_SAMPLES]), 0);
        let noise = hiss(150, 4_000);
        voiced(&mut voicing, &noise);
        assert_eq!(voiced(&mut voicing, &noise), 0, "once the floor is known");
    }

    #[test]
    fn a_loud_harmonic_sound_over_noise_is_voice() {
        let mut voicing = VoiceDetector::new(2, 60.0, 1.6);
        voiced(&mut voicing, &hiss(150, 600));
        assert!(voiced(&mut voicing, &buzz(50)) > 40);
    }

    #[test]
    fn speech_from_the_first_frame_on_is_voice_to_its_end() {
        let mut voicing = VoiceDetector::new(2, 60.0, 1.6);
        assert!(voiced(&mut voicing, &buzz(100)) > 90);
    }

    #[test]
    fn a_frame_of_another_length_is_no_voice_and_no_panic() {
        assert!(!VoiceDetector::new(0, 0.0, 0.0).is_voice(&[9; 7]));
        assert!(!VoiceDetector::new(0, 0.0, 0.0).is_voice(&[]));
    }
}
