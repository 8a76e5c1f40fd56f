//! Audio of a recorded turn, extended by the room's own noise and optionally with pauses spliced
//! in. Encoding is in `hearken-virtual-device`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_audio::opus::Decoder;
use hearken_audio::pcm;
use hearken_virtual_device::ogg::{GRANULE_RATE_HZ, OggOpus};
use hearken_virtual_device::recording::FileKind;
use hearken_virtual_device::sound::{self, Sound, UPLINK_RATE_HZ};

use crate::manifest::Sample;

/// Length of the room noise: the quietest part of this length in the recording.
const ROOM: Duration = Duration::from_millis(300);
const FRAME: Duration = Duration::from_millis(20);
/// Minimum distance of a spliced pause from both ends of the speech, and from other pauses.
const APART: Duration = Duration::from_millis(600);
/// Lengths of spliced pauses, in seconds.
const SPLICED: std::ops::Range<f64> = 0.2..1.6;

/// Reads the audio of a recording, 16 kHz mono.
///
/// # Errors
/// Fails if the file cannot be read or has no audio; the message names it.
pub fn read(file: &Path) -> anyhow::Result<Vec<i16>> {
    match FileKind::of(file) {
        Some(FileKind::Wav) => Ok(sound::read_wav(file)?.at_rate(UPLINK_RATE_HZ)?.samples),
        Some(FileKind::Ogg) => {
            read_ogg(file).with_context(|| format!("cannot read {}", file.display()))
        }
        _ => bail!("{}: use a file that ends in .wav, .ogg or .opus", file.display()),
    }
}

fn read_ogg(file: &Path) -> anyhow::Result<Vec<i16>> {
    let ogg = OggOpus::parse(BufReader::new(File::open(file)?))?;
    let mut decoder = Decoder::new(UPLINK_RATE_HZ)?;
    let mut samples = Vec::new();
    for packet in &ogg.packets {
        decoder.decode(packet, &mut samples)?;
    }
    let added = u64::from(ogg.pre_skip) * u64::from(UPLINK_RATE_HZ) / GRANULE_RATE_HZ;
    samples.drain(..samples.len().min(usize::try_from(added)?));
    Ok(samples)
}

/// Appends this much of the room's noise to the recording.
pub fn with_room_behind(sound: &mut Vec<i16>, length: Duration) {
    let room = room(sound);
    append_room(sound, &room, length);
}

/// Returns the quietest part of the recording.
fn room(sound: &[i16]) -> Vec<i16> {
    let length = samples_in(ROOM);
    let parts = sound.windows(length).step_by(samples_in(FRAME));
    let quietest = parts.min_by(|a, b| pcm::rms(a).total_cmp(&pcm::rms(b)));
    quietest.unwrap_or(&[0]).to_vec()
}

/// Appends noise, alternately forwards and backwards, to avoid audible edges.
fn append_room(sound: &mut Vec<i16>, room: &[i16], length: Duration) {
    let there_and_back = room.iter().chain(room.iter().rev()).copied().cycle();
    sound.extend(there_and_back.take(samples_in(length)));
}

/// Returns the recording with an additional pause at the quietest point of its speech; `None` if
/// its speech is too short. The length is drawn from `seed`.
pub fn spliced(sound: &[i16], sample: &Sample, seed: u64) -> Option<(Vec<i16>, Sample)> {
    let from = sample.speech.start + APART;
    let to = sample.speech.end.checked_sub(APART)?;
    let frame = samples_in(FRAME);
    let far =
        |at: Duration| sample.pauses.iter().all(|p| at + APART < p.start || p.end + APART < at);
    let places = (samples_in(from)..samples_in(to)).step_by(frame / 2);
    let free = places.filter(|at| far(pcm::duration(*at, UPLINK_RATE_HZ)));
    let loudness = |at: &usize| pcm::rms(sound.get(*at..at + frame).unwrap_or_default());
    let at = free.min_by(|a, b| loudness(a).total_cmp(&loudness(b)))? + frame / 2;

    let low = SPLICED.start.ln();
    let high = SPLICED.end.ln();
    let drawn = fastrand::Rng::with_seed(seed).f64();
    let pause = Duration::from_secs_f64((low + drawn * (high - low)).exp());
    let start = pcm::duration(at, UPLINK_RATE_HZ);
    let mut longer = sound[..at].to_vec();
    append_room(&mut longer, &room(sound), pause);
    longer.extend_from_slice(&sound[at..]);

    let later = |time: Duration| if time > start { time + pause } else { time };
    let mut pauses: Vec<_> = sample.pauses.iter().map(|p| later(p.start)..later(p.end)).collect();
    let spliced = start..start + pause;
    pauses.push(spliced.clone());
    pauses.sort_by_key(|p| p.start);
    let speech = sample.speech.start..sample.speech.end + pause;
    let group = format!("{} spliced", sample.group);
    let spliced = Some(spliced);
    Some((longer, Sample { group, speech, pauses, spliced, ..sample.clone() }))
}

/// Returns the audio as packets of a device with DTX.
///
/// # Errors
/// Fails if libopus cannot be used.
pub fn packets(samples: Vec<i16>) -> anyhow::Result<Vec<bytes::Bytes>> {
    Sound { samples, rate_hz: UPLINK_RATE_HZ }.packets_with_dtx()
}

fn samples_in(time: Duration) -> usize {
    pcm::samples_in(time, UPLINK_RATE_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn tone(length: Duration) -> Vec<i16> {
        pcm::tone(200.0, samples_in(length), UPLINK_RATE_HZ)
    }

    /// Two words with a short gap, in a quiet room.
    fn two_words() -> (Vec<i16>, Sample) {
        let mut sound = vec![3; samples_in(ms(500))];
        sound.extend(tone(ms(1_000)));
        sound.extend(vec![3; samples_in(ms(40))]);
        sound.extend(tone(ms(1_000)));
        sound.extend(vec![3; samples_in(ms(500))]);
        let sample = Sample {
            file: "x".into(),
            speaker: None,
            group: "en".into(),
            speech: ms(500)..ms(2_540),
            ends_turn: true,
            pauses: Vec::new(),
            spliced: None,
        };
        (sound, sample)
    }

    #[test]
    fn a_pause_is_spliced_between_the_words() {
        let (sound, sample) = two_words();
        let (longer, spliced) = spliced(&sound, &sample, 1).unwrap();
        let [pause] = &spliced.pauses[..] else { panic!("{spliced:?}") };
        assert!((ms(1_490)..ms(1_550)).contains(&pause.start), "{pause:?}");
        let length = pause.end - pause.start;
        assert!((ms(199)..ms(1_601)).contains(&length));
        assert_eq!(longer.len() - sound.len(), samples_in(length));
        assert_eq!(spliced.speech.end, sample.speech.end + length);
        assert_eq!(
            (&spliced.spliced, spliced.group.as_str()),
            (&Some(pause.clone()), "en spliced")
        );
        let inside = &longer[samples_in(pause.start)..samples_in(pause.end)];
        assert!(inside.iter().all(|s| *s == 3));
    }

    #[test]
    fn short_speech_is_not_spliced() {
        let (sound, mut sample) = two_words();
        sample.speech = ms(500)..ms(1_600);
        assert!(spliced(&sound, &sample, 1).is_none());
    }

    #[test]
    fn the_noise_of_the_room_continues_after_the_speech() {
        let (mut sound, _) = two_words();
        let before = sound.len();
        with_room_behind(&mut sound, ms(700));
        assert_eq!(sound.len() - before, samples_in(ms(700)));
        assert!(sound[before..].iter().all(|s| *s == 3));
    }
}
