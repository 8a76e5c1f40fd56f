//! Log-mel spectrogram as Whisper defines it, of the last 8 s: the input for which Smart Turn was
//! trained. Not for the model.
//!
//! Speech is at the end, with zeros before it; the waveform is normalised to mean 0 and variance 1.
//! Frames of 400 samples (periodic Hann window, reflected at both ends) every 160, 80 bands on
//! Slaney's mel scale with Slaney's areas, log10 limited to 8 below the highest, then (x + 4) / 4.
//! Source: `WhisperFeatureExtractor` of Hugging Face's transformers, with `do_normalize`.

use std::f32::consts::PI;

use hearken_inference::BandEnergies;

const RATE_HZ: f32 = 16_000.0;
/// Number of samples that the model receives: 8 s.
pub(crate) const SAMPLES: usize = 128_000;
const WINDOW: usize = 400;
const HOP: usize = 160;
/// Number of bands of the spectrogram.
pub(crate) const BANDS: usize = 80;
/// Number of frames of the spectrogram.
pub(crate) const FRAMES: usize = SAMPLES / HOP;
const FLOOR: f32 = 1e-10;
/// Added to the variance, so that silence can be normalised.
const EPSILON: f32 = 1e-7;
/// Dynamic range below the highest value, in powers of ten.
const RANGE: f32 = 8.0;

/// Computes spectrograms; its buffers are reused.
pub(crate) struct LogMel(BandEnergies);

impl LogMel {
    pub(crate) fn new() -> Self {
        let hann = |n: usize| 0.5 - 0.5 * (2.0 * PI * n as f32 / WINDOW as f32).cos();
        let edges = edges();
        let triangle = |band: usize, bin: usize| {
            let low = edges[band];
            let peak = edges[band + 1];
            let high = edges[band + 2];
            let at = bin as f32 * RATE_HZ / WINDOW as f32;
            let area = 2.0 / (high - low);
            (((at - low) / (peak - low)).min((high - at) / (high - peak))).max(0.0) * area
        };
        Self(BandEnergies::new(WINDOW, (0..WINDOW).map(hann).collect(), BANDS, triangle))
    }

    /// Returns the spectrogram of the last 8 s of the speech, band after band.
    pub(crate) fn of(&mut self, speech: &[i16]) -> Vec<f32> {
        let wave = normalised(speech);
        let mut features = vec![0.0; BANDS * FRAMES];
        let silent = SAMPLES.saturating_sub(speech.len());
        let mut column = [0.0; BANDS];
        let mut alike = false;
        for place in 0..FRAMES {
            let start = (place * HOP) as isize - (WINDOW / 2) as isize;
            // All frames in the zeros before the speech are equal.
            let in_zeros = start >= 0 && start as usize + WINDOW <= silent;
            if !(in_zeros && alike) {
                self.column(&wave, start, &mut column);
            }
            alike = in_zeros;
            for (band, value) in column.iter().enumerate() {
                features[band * FRAMES + place] = *value;
            }
        }
        let lowest = features.iter().copied().fold(f32::MIN, f32::max) - RANGE;
        for value in &mut features {
            *value = (value.max(lowest) + 4.0) / 4.0;
        }
        features
    }

    /// Computes one frame, which starts at this sample.
    fn column(&mut self, wave: &[f32], start: isize, column: &mut [f32; BANDS]) {
        let samples = (0..WINDOW).map(|offset| wave[reflected(start + offset as isize)]);
        self.0.of(samples, column);
        for value in column {
            *value = value.max(FLOOR).log10();
        }
    }
}

/// Returns the last 8 s, zeros before the speech included, with mean 0 and variance 1.
fn normalised(speech: &[i16]) -> Vec<f32> {
    let speech = &speech[speech.len().saturating_sub(SAMPLES)..];
    let mut wave = vec![0.0; SAMPLES - speech.len()];
    wave.extend(speech.iter().map(|s| f32::from(*s) / 32_768.0));
    let mean = wave.iter().map(|s| f64::from(*s)).sum::<f64>() / SAMPLES as f64;
    let square = |s: &f32| (f64::from(*s) - mean).powi(2);
    let variance = wave.iter().map(square).sum::<f64>() / SAMPLES as f64;
    let mean = mean as f32;
    let scale = 1.0 / (variance as f32 + EPSILON).sqrt();
    for sample in &mut wave {
        *sample = (*sample - mean) * scale;
    }
    wave
}

/// Returns the position of a sample beyond an end: the wave is mirrored there, without its last
/// sample.
fn reflected(place: isize) -> usize {
    let last = SAMPLES as isize - 1;
    let place = place.abs();
    (if place > last { 2 * last - place } else { place }) as usize
}

/// Returns the edges of the bands in Hz: each band spans three of them.
fn edges() -> Vec<f32> {
    let highest = mel(RATE_HZ / 2.0);
    (0..BANDS + 2).map(|n| hertz(highest * n as f32 / (BANDS + 1) as f32)).collect()
}

/// Above this frequency, in Hz, the scale is logarithmic.
const LINEAR_TO_HZ: f32 = 1_000.0;
const LINEAR_TO_MEL: f32 = 15.0;

fn mel(hertz: f32) -> f32 {
    if hertz < LINEAR_TO_HZ {
        3.0 * hertz / 200.0
    } else {
        LINEAR_TO_MEL + (hertz / LINEAR_TO_HZ).ln() * 27.0 / 6.4_f32.ln()
    }
}

fn hertz(mel: f32) -> f32 {
    if mel < LINEAR_TO_MEL {
        200.0 * mel / 3.0
    } else {
        LINEAR_TO_HZ * ((mel - LINEAR_TO_MEL) * 6.4_f32.ln() / 27.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use hearken_audio::pcm;

    use super::*;

    #[test]
    fn a_tone_is_in_its_band_at_its_time() {
        let tone = pcm::tone(1_000.0, 32_000, 16_000);
        let features = LogMel::new().of(&tone);
        assert_eq!(features.len(), BANDS * FRAMES);
        let at = |place: usize| {
            let column = (0..BANDS).map(|band| features[band * FRAMES + place]);
            let loudest = column.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            (mel_centre(loudest.0), loudest.1)
        };
        let (centre, level) = at(FRAMES - 50);
        assert!((950.0..1_050.0).contains(&centre), "{centre} Hz");
        // 6 s of zeros before it, then 2 s of tone.
        assert!(level - at(FRAMES / 2).1 > 1.5);
        let highest = features.iter().copied().fold(f32::MIN, f32::max);
        let lowest = features.iter().copied().fold(f32::MAX, f32::min);
        assert!((highest - lowest - RANGE / 4.0).abs() < 1e-4);
    }

    fn mel_centre(band: usize) -> f32 {
        hertz(mel(RATE_HZ / 2.0) * (band + 1) as f32 / (BANDS + 1) as f32)
    }

    #[test]
    fn frames_in_the_zeros_are_the_same_without_the_shortcut() {
        let tone = pcm::tone(300.0, 20_000, 16_000);
        let mut zeros = vec![0; SAMPLES - tone.len()];
        zeros.extend_from_slice(&tone);
        let mut mel = LogMel::new();
        assert_eq!(mel.of(&tone), mel.of(&zeros));
    }

    #[test]
    fn silence_and_too_long_speech_have_finite_features() {
        let mut mel = LogMel::new();
        for speech in [Vec::new(), vec![0; 16_000], vec![i16::MIN; SAMPLES + 77]] {
            assert!(mel.of(&speech).iter().all(|value| value.is_finite()));
        }
        let long = pcm::tone(440.0, SAMPLES + 5_000, 16_000);
        assert_eq!(mel.of(&long), mel.of(&long[5_000..]));
    }

    #[test]
    fn the_scale_is_invertible() {
        for hz in [0.0, 440.0, 999.0, 1_000.0, 4_000.0, 8_000.0] {
            assert!((hertz(mel(hz)) - hz).abs() < 0.5, "{hz}");
        }
    }
}
