//! Voices that differ in pitch, so that a test can distinguish them in a sound. Not for
//! intelligible speech.

use std::sync::LazyLock;

use bytes::Bytes;
use hearken_audio::pcm;
use hearken_virtual_device::sound::Sound;

/// Within an octave, so that no pitch is a multiple of another.
pub(crate) const PITCHES_HZ: [u16; 10] = [100, 110, 120, 130, 140, 150, 160, 170, 180, 190];

/// A buzzing voice.
pub(crate) fn voice(pitch_hz: u16, ms: usize, rate_hz: u32) -> Vec<i16> {
    let length = rate_hz as usize * ms / 1_000;
    let mut sound = vec![0_i16; length];
    for harmonic in [1, 2, 3, 6] {
        let tone = pcm::tone(f32::from(pitch_hz * harmonic), length, rate_hz);
        for (sample, t) in sound.iter_mut().zip(tone) {
            *sample = sample.saturating_add(t / 2);
        }
    }
    sound
}

/// The pitch of a sound, out of [`PITCHES_HZ`].
pub(crate) fn pitch_of(samples: &[i16], rate_hz: u32) -> u16 {
    let likeness = |pitch: &u16| {
        let lag = (f64::from(rate_hz) / f64::from(*pitch)).round() as usize;
        let pairs = samples.iter().zip(samples.iter().skip(lag));
        pairs.map(|(a, b)| i64::from(*a) * i64::from(*b)).sum::<i64>()
    };
    PITCHES_HZ.into_iter().max_by_key(likeness).unwrap()
}

/// Speech for users that need not be distinguished.
pub(crate) static SPEECH: LazyLock<Vec<Bytes>> = LazyLock::new(|| speech(150));

/// Packets of speech followed by silence.
pub(crate) fn speech(pitch_hz: u16) -> Vec<Bytes> {
    let mut samples = voice(pitch_hz, 900, 16_000);
    samples.resize(samples.len() + 16_000 * 6 / 10, 0);
    Sound { samples, rate_hz: 16_000 }.packets().unwrap()
}
