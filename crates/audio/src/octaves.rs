//! Levels of a sound in octaves. Cheap and coarse: each octave leaks a little into its neighbours.
//! Not for interpreting levels.

use super::voice_detector::FRAME_SAMPLES;

/// Number of bands: one below 250 Hz, then octaves up to 8 kHz.
pub const BANDS: usize = 6;
/// Levels of a frame, in decibels relative to one quantisation step, lowest band first; never below
/// 0.
pub type Levels = [f32; BANDS];
/// Levels of digital silence.
pub const SILENCE: Levels = [0.0; BANDS];

/// Number of times that the spectrum is halved.
const DIVISIONS: usize = BANDS - 1;
/// Low-pass filter of a division (Daubechies, four taps); the high-pass filter mirrors it.
const LOW: [f32; 4] = [0.482_962_9, 0.836_516_3, 0.224_143_87, -0.129_409_52];

/// Filter bank that measures consecutive frames of one sound.
#[derive(Debug, Clone, Default)]
pub struct Octaves {
    /// Last two samples of each division.
    before: [[f32; 2]; DIVISIONS],
}

impl Octaves {
    /// Returns the levels of a frame. Samples beyond [`FRAME_SAMPLES`] are ignored.
    pub fn levels(&mut self, frame: &[i16]) -> Levels {
        let mut sound = [0.0; FRAME_SAMPLES];
        sound.iter_mut().zip(frame).for_each(|(sound, sample)| *sound = f32::from(*sample));
        let mut levels = SILENCE;
        let mut length = FRAME_SAMPLES;
        for (division, before) in self.before.iter_mut().enumerate() {
            let mut energy = 0.0;
            length /= 2;
            for n in 0..length {
                let [a, b] = *before;
                let c = sound[2 * n];
                let d = sound[2 * n + 1];
                let high = LOW[3] * d - LOW[2] * c + LOW[1] * b - LOW[0] * a;
                energy += high * high;
                sound[n] = LOW[0] * d + LOW[1] * c + LOW[2] * b + LOW[3] * a;
                *before = [c, d];
            }
            levels[DIVISIONS - division] = decibels(energy);
        }
        levels[0] = decibels(sound[..length].iter().map(|low| low * low).sum());
        levels
    }
}

/// Returns the level of a frame of this energy.
fn decibels(energy: f32) -> f32 {
    #[allow(clippy::cast_precision_loss, reason = "a small constant")]
    let mean = energy / FRAME_SAMPLES as f32;
    10.0 * mean.max(1.0).log10()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pcm;
    use crate::voice_detector::SAMPLE_RATE_HZ;

    #[test]
    fn a_tone_is_in_its_octave() {
        for (band, hz) in
            [(0, 100.0), (1, 350.0), (2, 700.0), (3, 1_400.0), (4, 2_800.0), (5, 6_000.0)]
        {
            let tone = pcm::tone(hz, 4 * FRAME_SAMPLES, SAMPLE_RATE_HZ);
            let mut octaves = Octaves::default();
            let all: Vec<Levels> = tone.chunks(FRAME_SAMPLES).map(|f| octaves.levels(f)).collect();
            let levels = all[3];
            let loudest = (0..BANDS).max_by(|a, b| levels[*a].total_cmp(&levels[*b]));
            assert_eq!(loudest, Some(band), "{hz} Hz: {levels:?}");
            // A quarter of full scale.
            assert!((72.0..76.0).contains(&levels[band]), "{hz} Hz: {levels:?}");
        }
    }

    proptest! {
        #[test]
        fn no_energy_is_lost_and_silence_is_silent(frame in proptest::collection::vec(any::<i16>(), FRAME_SAMPLES)) {
            let mut octaves = Octaves::default();
            prop_assert_eq!(octaves.levels(&[0; FRAME_SAMPLES]), SILENCE);
            octaves.levels(&frame);
            let levels = octaves.levels(&frame);
            let all: f64 = levels.iter().map(|level| 10_f64.powf(f64::from(*level) / 10.0)).sum();
            let level = 10.0 * all.log10();
            let expected = 20.0 * pcm::rms(&frame).log10();
            prop_assert!((level - expected).abs() < 1.0, "{level} {expected}");
        }
    }
}
