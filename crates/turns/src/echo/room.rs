//! A room and its loudspeaker: what the microphone hears of what is played. Not for the person in it.

/// Length of the echo.
const TAPS: usize = 1_920;

/// Room with a loudspeaker that saturates.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    /// Impulse response, from the loudspeaker to the microphone; of energy 1.
    response: Vec<f32>,
    /// Samples from what is played to what is heard: the device's own buffers.
    pub(crate) delay: usize,
    /// How much louder than linear the loudspeaker is driven.
    drive: f64,
    /// Level of the room's own noise, of 32,768.
    pub(crate) noise: f64,
}

impl Room {
    /// Draws a room: small to large, with a good or a bad loudspeaker.
    pub(crate) fn new(chance: &mut fastrand::Rng) -> Self {
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
            drive: 0.5 + 2.5 * chance.f64(),
            noise: 5.0 + 15.0 * chance.f64(),
        }
    }

    /// Returns what is heard of the samples that were played up to now, for the newest `length` of them. What was played
    /// before the first is silence.
    pub(crate) fn echo(&self, played: &[i16], length: usize) -> Vec<f64> {
        let driven: Vec<f32> = played.iter().map(|s| self.speaker(f64::from(*s)) as f32).collect();
        let at = |n: usize| {
            let taps = self.response.iter().zip(driven[..=n].iter().rev());
            f64::from(taps.map(|(h, s)| h * s).sum::<f32>())
        };
        let missing = length.saturating_sub(driven.len());
        let silence = std::iter::repeat_n(0.0, missing);
        silence.chain((driven.len() - (length - missing)..driven.len()).map(at)).collect()
    }

    /// Number of samples before the newest ones that are heard in them.
    pub(crate) const fn reach() -> usize {
        TAPS
    }

    fn speaker(&self, sample: f64) -> f64 {
        let full = 16_384.0 / self.drive;
        full * (sample / full).tanh()
    }
}

/// Rounds to a sample.
pub(crate) fn sample(value: f64) -> i16 {
    value.round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_click_is_heard_as_loud_as_it_was_and_echoes() {
        let room = Room::new(&mut fastrand::Rng::with_seed(1));
        let mut click = vec![0; TAPS + 10];
        click[10] = 1_000;
        let heard = room.echo(&click, TAPS);
        assert!(heard[0] > 100.0 && heard[1..].iter().any(|s| s.abs() > 1.0));
        let energy = heard.iter().map(|s| s * s).sum::<f64>().sqrt();
        assert!((900.0..1_001.0).contains(&energy), "{energy}");
        // What was not played is silent.
        assert_eq!(room.echo(&[], 4), [0.0; 4]);
    }

    #[test]
    fn a_loudspeaker_saturates() {
        let room = Room::new(&mut fastrand::Rng::with_seed(1));
        let [soft, loud] = [1_000.0, 30_000.0].map(|sample| room.speaker(sample));
        assert!(soft > 990.0 && loud < 28_000.0, "{soft} {loud}");
        assert_eq!([sample(4.5e4), sample(-4.5e4), sample(0.6)], [i16::MAX, i16::MIN, 1]);
    }
}
