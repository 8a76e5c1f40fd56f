//! Room and loudspeaker: what a microphone records of what is played. Persons are elsewhere.

/// Length of the impulse response, in samples.
pub(crate) const TAPS: usize = 1_920;
/// Number of samples that are computed at a time.
const BLOCK: usize = 4_096;
/// Half-width in samples of the resampling window for clock drift.
const NEAR: isize = 16;

/// Room with a loudspeaker that saturates.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    /// Impulse response from the loudspeaker to the microphone, with energy 1.
    response: Vec<f32>,
    /// Samples from playback to recording: the device's own buffers.
    pub(crate) delay: usize,
    /// Factor by which the loudspeaker is driven beyond its linear range.
    drive: f64,
    /// Level of the room noise, of 32,768.
    pub(crate) noise: f64,
}

impl Room {
    /// Draws a small to large room with a good or bad loudspeaker, overdriven by this factor.
    pub(crate) fn new(drive: f64, chance: &mut fastrand::Rng) -> Self {
        let decay = 100.0 + 400.0 * chance.f64();
        let reflections = 0.1 + 0.4 * chance.f64();
        let mut response: Vec<f64> = (0..TAPS)
            .map(|n| (chance.f64() * 2.0 - 1.0) * reflections * (-(n as f64) / decay).exp())
            .collect();
        response[0] = 1.0;
        let energy = response.iter().map(|h| h * h).sum::<f64>().sqrt();
        Self {
            response: response.iter().map(|h| (h / energy) as f32).collect(),
            delay: 160 + chance.usize(..1_600),
            drive: drive * (0.5 + 2.5 * chance.f64()),
            noise: 5.0 + 15.0 * chance.f64(),
        }
    }

    /// Returns the echo of what is played, as `length` samples from the start.
    pub(crate) fn echo(&self, played: &[i16], length: usize) -> Vec<f32> {
        let driven: Vec<f32> = played.iter().map(|s| self.speaker(f64::from(*s)) as f32).collect();
        let mut heard = vec![0.0; length];
        for (block, heard) in heard.chunks_mut(BLOCK).enumerate() {
            for (tap, gain) in self.response.iter().enumerate() {
                let late = (self.delay + tap) as isize - (block * BLOCK) as isize;
                let from = (-late).max(0) as usize;
                let skip = late.max(0) as usize;
                let known = driven.get(from..).unwrap_or_default();
                for (heard, sample) in heard.iter_mut().skip(skip).zip(known) {
                    *heard += gain * sample;
                }
            }
        }
        heard
    }

    fn speaker(&self, sample: f64) -> f64 {
        let full = 16_384.0 / self.drive;
        full * (sample / full).tanh()
    }
}

/// Resamples the sound for a clock that is faster by this many ppm.
pub(crate) fn drifted(sound: &[f32], ppm: f64) -> Vec<f32> {
    if ppm == 0.0 {
        return sound.to_vec();
    }
    let step = 1.0 / (1.0 + ppm * 1e-6);
    (0..sound.len()).map(|n| between(sound, n as f64 * step)).collect()
}

/// Interpolates between two samples, by a windowed sinc.
fn between(sound: &[f32], at: f64) -> f32 {
    let whole = at.floor() as isize;
    let part = at.fract();
    let near = (1 - NEAR..=NEAR).filter_map(|k| {
        let known = usize::try_from(whole + k).ok().and_then(|n| sound.get(n))?;
        let away = part - k as f64;
        if away.abs() < 1e-9 {
            return Some(f64::from(*known));
        }
        let angle = std::f64::consts::PI * away;
        let window = 0.5 + 0.5 * (angle / NEAR as f64).cos();
        Some(f64::from(*known) * window * angle.sin() / angle)
    });
    near.sum::<f64>() as f32
}

/// Rounds to a sample.
pub(crate) fn sample(value: f64) -> i16 {
    value.round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_echo_of_a_click_retains_its_energy() {
        let room = Room::new(1.0, &mut fastrand::Rng::with_seed(1));
        let mut click = vec![0; 5_000];
        click[4_090] = 1_000;
        let heard = room.echo(&click, 4_090 + room.delay + TAPS);
        let at = 4_090 + room.delay;
        assert!(heard[..at].iter().all(|s| s.abs() < f32::EPSILON));
        assert!(heard[at] > 100.0 && heard[at + 1..].iter().any(|s| s.abs() > 1.0));
        let energy = heard.iter().map(|s| s * s).sum::<f32>().sqrt();
        assert!((900.0..1_001.0).contains(&energy), "{energy}");
        // Without playback there is silence.
        assert!(room.echo(&[], 4) == [0.0; 4]);
    }

    #[test]
    fn loud_samples_saturate_the_loudspeaker() {
        let [usual, hard] = [1.0, 3.0].map(|drive| {
            let room = Room::new(drive, &mut fastrand::Rng::with_seed(1));
            [1_000.0, 30_000.0].map(|sample| room.speaker(sample))
        });
        assert!(usual[0] > 990.0 && usual[1] < 28_000.0, "{usual:?}");
        assert!(hard[1] < usual[1] / 2.0, "{hard:?}");
        assert_eq!([sample(4.5e4), sample(-4.5e4), sample(0.6)], [i16::MAX, i16::MIN, 1]);
    }

    #[test]
    fn a_fast_clock_stretches_a_tone() {
        let tone =
            |hz: f64| move |n: usize| (n as f64 * hz * std::f64::consts::TAU / 16_000.0).sin();
        let sound: Vec<f32> = (0..16_000).map(tone(1_000.0)).map(|s| s as f32).collect();
        let heard = drifted(&sound, 1_000.0);
        let slower = tone(1_000.0 / 1.001);
        for (n, heard) in heard.iter().enumerate().take(15_000).skip(100) {
            assert!((f64::from(*heard) - slower(n)).abs() < 0.01, "{n}");
        }
        assert_eq!(drifted(&sound, 0.0), sound);
    }
}
