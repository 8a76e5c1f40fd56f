//! Sounds over a reply: excerpts of recordings, noises, and their levels. Pure. Their timing is elsewhere.

use std::sync::Arc;
use std::time::Duration;

use hearken_audio::pcm;
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use crate::acted::Sound;
use crate::echo::room;

/// Fade at both ends of an excerpt, to avoid clicks.
const FADE: Duration = Duration::from_millis(8);
/// Share of the level of the loudest frame from which a frame counts as voice.
const HEARD_FROM: f64 = 0.1;
/// Length of a frame.
const FRAME: Duration = Duration::from_millis(10);

pub(crate) fn samples_in(time: Duration) -> usize {
    pcm::samples_in(time, UPLINK_RATE_HZ)
}

/// Returns the length of a sound.
pub(crate) fn length(sound: &[i16]) -> Duration {
    pcm::duration(sound.len(), UPLINK_RATE_HZ)
}

/// Returns the sound at this level, of 32,768, with faded ends.
pub(crate) fn levelled(sound: &[i16], level: f64) -> Vec<i16> {
    let gain = level / pcm::rms(sound).max(1.0);
    let fade = samples_in(FADE).min(sound.len() / 2).max(1);
    let last = sound.len().saturating_sub(1);
    let share = |n: usize| ((n + 1).min(last - n + 1) as f64 / fade as f64).min(1.0);
    sound.iter().enumerate().map(|(n, s)| room::sample(f64::from(*s) * gain * share(n))).collect()
}

/// Returns a sound with the words that the recogniser returns for it, and the span of its voice.
pub(crate) fn voiced(samples: Vec<i16>, words: &'static str) -> Sound {
    let frame = samples_in(FRAME);
    let levels: Vec<f64> = samples.chunks(frame).map(pcm::rms).collect();
    let loudest = levels.iter().copied().fold(0.0, f64::max);
    let loud = |level: &f64| *level >= loudest * HEARD_FROM;
    let first = levels.iter().position(loud).unwrap_or_default();
    let last = levels.iter().rposition(loud).unwrap_or_default() + 1;
    let at = |frames: usize| length(&samples[..(frames * frame).min(samples.len())]);
    Sound { voice: at(first)..at(last), samples: Arc::from(samples), words }
}

/// Returns an excerpt of this length, preferably at least half as loud as the whole recording.
pub(crate) fn piece(sound: &[i16], length: Duration, chance: &mut fastrand::Rng) -> Vec<i16> {
    let length = samples_in(length).min(sound.len());
    let whole = pcm::rms(sound);
    let mut drawn = || {
        let from = chance.usize(..=sound.len() - length);
        sound[from..from + length].to_vec()
    };
    let tried: Vec<Vec<i16>> = (0..20).map(|_| drawn()).collect();
    let loud = tried.iter().find(|piece| pcm::rms(piece) >= whole / 2.0);
    loud.or(tried.first()).cloned().unwrap_or_default()
}

/// Returns a cough: one to three decaying bursts of noise.
pub(crate) fn cough(chance: &mut fastrand::Rng) -> Vec<i16> {
    let mut sound = Vec::new();
    for burst in 0..chance.usize(1..=3) {
        if burst > 0 {
            sound.resize(sound.len() + samples_in(ms(chance.u64(120..300))), 0);
        }
        let decay = samples_in(ms(chance.u64(40..120))) as f64;
        let length = samples_in(ms(chance.u64(120..300)));
        let bright = 0.2 + 0.5 * chance.f64();
        let mut smooth = 0.0;
        sound.extend((0..length).map(|n| {
            let rises = (n as f64 / samples_in(FADE) as f64).min(1.0);
            let level = 8_000.0 * rises * (-(n as f64) / decay).exp();
            smooth += bright * (chance.f64() * 2.0 - 1.0 - smooth);
            room::sample(smooth * level)
        }));
    }
    sound
}

/// Returns a click, like that of a cup or a door.
pub(crate) fn click(chance: &mut fastrand::Rng) -> Vec<i16> {
    let decay = samples_in(ms(chance.u64(2..15))) as f64;
    let level = 6_000.0 + 12_000.0 * chance.f64();
    let noise = |n: usize, chance: &mut fastrand::Rng| {
        (chance.f64() * 2.0 - 1.0) * level * (-(n as f64) / decay).exp()
    };
    (0..samples_in(ms(80))).map(|n| room::sample(noise(n, chance))).collect()
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_of_a_voice_excludes_quiet_ends() {
        let mut sound = vec![2; samples_in(ms(200))];
        sound.extend(pcm::tone(200.0, samples_in(ms(300)), UPLINK_RATE_HZ));
        sound.extend(vec![2; samples_in(ms(100))]);
        let sound = voiced(sound, "words");
        assert_eq!((sound.voice, sound.words), (ms(200)..ms(500), "words"));
    }

    #[test]
    fn a_levelled_sound_has_its_level_and_faded_ends() {
        let sound = levelled(&pcm::tone(200.0, samples_in(ms(900)), UPLINK_RATE_HZ), 1_500.0);
        let level = pcm::rms(&sound);
        assert!((1_450.0..1_501.0).contains(&level), "{level}");
        assert!(sound[0].abs() < 30 && sound[sound.len() - 1].abs() < 30);
        assert_eq!(levelled(&[], 1.0), [0; 0]);
    }

    #[test]
    fn excerpts_are_loud_and_noises_are_short() {
        let mut chance = fastrand::Rng::with_seed(1);
        let mut sound = vec![0; samples_in(ms(2_000))];
        sound.extend(pcm::tone(200.0, samples_in(ms(500)), UPLINK_RATE_HZ));
        for _ in 0..20 {
            let piece = piece(&sound, ms(300), &mut chance);
            assert_eq!(length(&piece), ms(300));
            assert!(pcm::rms(&piece) >= pcm::rms(&sound) / 2.0);
            assert!(length(&cough(&mut chance)) < ms(1_600));
            assert_eq!(length(&click(&mut chance)), ms(80));
        }
    }
}
