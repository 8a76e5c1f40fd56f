//! Log-mel filterbank as Kaldi defines it: the input for which CAM++ was trained. Not for the
//! model.
//!
//! Samples of -1 to 1. Frames of 400 samples (25 ms) every 160, none beyond the ends; for each
//! frame: subtraction of the mean, pre-emphasis of 0.97, Povey's window, a transform of 512. 80
//! triangular bands, evenly spaced on the mel scale 1,127 ln(1 + f / 700) from 20 Hz to 8 kHz; the
//! logarithm of their energy, no dither. Finally the mean of each band over all frames is
//! subtracted, as 3D-Speaker does. Source: `compute-fbank-feats` of Kaldi.

use std::f32::consts::PI;

use hearken_inference::BandEnergies;

const RATE_HZ: f32 = 16_000.0;
const WINDOW: usize = 400;
const HOP: usize = 160;
const TRANSFORM: usize = 512;
/// Number of bands of the filterbank.
pub(crate) const BANDS: usize = 80;
const LOWEST_HZ: f32 = 20.0;
const PRE_EMPHASIS: f32 = 0.97;
/// Exponent of Povey's window, a Hann window that is narrower at its base.
const POVEY: f32 = 0.85;
/// Minimum energy, for samples up to 1.
const FLOOR: f32 = f32::EPSILON;

/// Computes filterbanks; its buffers are reused.
pub(crate) struct Fbank(BandEnergies);

impl Fbank {
    pub(crate) fn new() -> Self {
        let hann = |n: usize| 0.5 - 0.5 * (2.0 * PI * n as f32 / (WINDOW - 1) as f32).cos();
        let window = (0..WINDOW).map(|n| hann(n).powf(POVEY)).collect();
        let lowest = mel(LOWEST_HZ);
        let step = (mel(RATE_HZ / 2.0) - lowest) / (BANDS + 1) as f32;
        let triangle = |band: usize, bin: usize| {
            let peak = lowest + step * (band + 1) as f32;
            let away = (mel(bin as f32 * RATE_HZ / TRANSFORM as f32) - peak).abs();
            (1.0 - away / step).max(0.0)
        };
        Self(BandEnergies::new(TRANSFORM, window, BANDS, triangle))
    }

    /// Returns the filterbank of the speech, frame after frame.
    pub(crate) fn of(&mut self, speech: &[i16]) -> Vec<f32> {
        let mut features = Vec::with_capacity(speech.len() / HOP * BANDS);
        for frame in speech.windows(WINDOW).step_by(HOP) {
            let mut energies = [0.0; BANDS];
            self.0.of(emphasised(frame), &mut energies);
            features.extend(energies.map(|energy| energy.max(FLOOR).ln()));
        }
        let frames = (features.len() / BANDS).max(1) as f32;
        for band in 0..BANDS {
            let mean = features.iter().skip(band).step_by(BANDS).sum::<f32>() / frames;
            features.iter_mut().skip(band).step_by(BANDS).for_each(|value| *value -= mean);
        }
        features
    }
}

/// Returns the frame without its mean, and with emphasised high frequencies.
fn emphasised(frame: &[i16]) -> impl Iterator<Item = f32> {
    let sample = |sample: &i16| f32::from(*sample) / 32_768.0;
    let mean = frame.iter().map(sample).sum::<f32>() / frame.len() as f32;
    let centred = move |place: &i16| sample(place) - mean;
    // The first sample is its own predecessor.
    let before = frame.first().into_iter().chain(frame).map(centred);
    frame.iter().map(centred).zip(before).map(|(sample, before)| sample - PRE_EMPHASIS * before)
}

fn mel(hertz: f32) -> f32 {
    1_127.0 * (1.0 + hertz / 700.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of some bands in frames 0, 3 and 7, as kaldi-native-fbank 1.23 computes them for
    /// `noise_and_pulses`.
    const KNOWN: [(usize, [f32; 3]); 8] = [
        (0, [1.628, 1.504, -2.618]),
        (1, [1.582, 2.582, -1.391]),
        (2, [2.025, 1.504, -1.889]),
        (10, [0.046, 0.732, -0.069]),
        (20, [-0.656, 1.322, -0.745]),
        (40, [0.705, -0.02, -0.69]),
        (60, [0.821, -0.044, -0.692]),
        (79, [1.427, 0.685, -0.934]),
    ];

    /// Returns 100 ms of noise, loud and then quiet, with a pulse every 100 samples and an offset.
    fn noise_and_pulses() -> Vec<i16> {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7FFF_FFFF;
            i16::try_from(state >> 16 & 0xFFF).unwrap() - 2_048
        };
        let sample = |n: i16| {
            let noise = noise();
            let pulse = if n % 100 == 0 { 6_000 } else { 0 };
            (if n < 800 { noise } else { noise.div_euclid(8) }) + pulse + 300
        };
        (0..1_600).map(sample).collect()
    }

    #[test]
    fn features_match_kaldi() {
        let features = Fbank::new().of(&noise_and_pulses());
        assert_eq!(features.len(), 8 * BANDS);
        for (band, known) in KNOWN {
            for (frame, known) in [0, 3, 7].into_iter().zip(known) {
                let value = features[frame * BANDS + band];
                assert!(
                    (value - known).abs() < 0.002,
                    "frame {frame}, band {band}: {value}, not {known}"
                );
            }
        }
    }

    #[test]
    fn loudness_does_not_matter() {
        let loud = &noise_and_pulses()[..800];
        let quiet: Vec<i16> = loud.iter().map(|s| s / 4 * 2).collect();
        let louder: Vec<i16> = quiet.iter().map(|s| s * 2).collect();
        let mut fbank = Fbank::new();
        let pairs = fbank.of(&quiet).into_iter().zip(fbank.of(&louder));
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-3));
    }

    #[test]
    fn silence_and_short_speech_have_finite_features() {
        let mut fbank = Fbank::new();
        assert!(fbank.of(&[]).is_empty() && fbank.of(&[7; WINDOW - 1]).is_empty());
        assert_eq!(fbank.of(&[0; WINDOW]).len(), BANDS);
        for speech in [vec![0; 16_000], vec![i16::MIN; 16_000]] {
            assert!(fbank.of(&speech).iter().all(|value| value.is_finite()));
        }
    }
}
