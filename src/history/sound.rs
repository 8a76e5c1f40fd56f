//! Audio of turns in its stored form and as WAV files. Not for which audio is stored.

use std::io::Cursor;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use hearken_audio::opus::{Decoder, Encoder, OpusError};
use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_dialogue::turn_trace::TracedSound;
use hearken_ports::store::{Side, SoundPlace, TurnSound};
use hound::{SampleFormat, WavSpec, WavWriter};

/// Length of a packet, in milliseconds: always for the user's audio, usually for the answer.
const PACKET_MS: i64 = 60;
pub(super) const PACKET: Duration = Duration::from_millis(60);
/// Bitrate of the user's audio, in bit/s; boards send the same.
const BITRATE_BPS: i32 = 16_000;
/// Complexity of its encoder, 0 to 10.
const COMPLEXITY: u8 = 3;
/// Sample rate of WAV files, in Hz.
const WAV_RATE_HZ: u32 = 24_000;
/// Maximum length of a WAV file, in milliseconds.
const LONGEST_MS: i64 = 10 * 60 * 1_000;
/// Minimum gap between two packets that counts as silence; shorter gaps are jitter, in milliseconds.
const GAP_MS: i64 = 30;

/// Encodes the audio of a turn for the store.
pub fn encode(sound: &TracedSound) -> Vec<TurnSound> {
    let heard = heard(sound).inspect_err(|error| tracing::warn!(%error, "cannot encode a sound"));
    [(Side::Heard, heard.unwrap_or_default()), (Side::Said, sound.said.clone())]
        .into_iter()
        .filter(|(_, packets)| !packets.is_empty())
        .map(|(side, packets)| stored(side, &packets))
        .collect()
}

/// Encodes the audio that the recogniser received.
fn heard(sound: &TracedSound) -> Result<Vec<(i64, Bytes)>, OpusError> {
    let length = pcm::samples_in(PACKET, SAMPLE_RATE_HZ);
    let mut encoder = Encoder::new(SAMPLE_RATE_HZ, BITRATE_BPS, COMPLEXITY)?;
    let mut at_ms = sound.heard_from_ms;
    let mut packets = Vec::new();
    for frame in sound.heard.chunks(length) {
        let mut frame = frame.to_vec();
        frame.resize(length, 0);
        packets.push((at_ms, encoder.encode(&frame)?));
        at_ms += PACKET_MS;
    }
    Ok(packets)
}

fn stored(side: Side, packets: &[(i64, Bytes)]) -> TurnSound {
    let mut bytes = BytesMut::new();
    for (at_ms, opus) in packets {
        let (Ok(at_ms), Ok(length)) = (i32::try_from(*at_ms), u16::try_from(opus.len())) else {
            continue;
        };
        bytes.put_i32(at_ms);
        bytes.put_u16(length);
        bytes.extend_from_slice(opus);
    }
    let start_ms = packets.first().map_or(0, |packet| packet.0);
    let last_ms = packets.last().map_or(0, |packet| packet.0);
    let length_ms = last_ms - start_ms + PACKET_MS;
    TurnSound { place: SoundPlace { side, start_ms, length_ms }, packets: bytes.freeze() }
}

/// Returns the packets of stored audio and their times, in milliseconds; stops at a truncated packet.
pub(super) fn packets(stored: &[u8]) -> impl Iterator<Item = (i32, &[u8])> {
    let mut rest = stored;
    std::iter::from_fn(move || {
        let (at_ms, after) = rest.split_first_chunk()?;
        let (length, after) = after.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (opus, after) = after.split_at_checked(length)?;
        rest = after;
        Some((i32::from_be_bytes(*at_ms), opus))
    })
}

/// Decodes stored audio into a WAV file; pauses between packets become silence.
///
/// # Errors
/// The decoder cannot be created. Packets that cannot be decoded are skipped.
pub fn wav(stored: &[u8]) -> Result<Vec<u8>, OpusError> {
    let mut decoder = Decoder::new(WAV_RATE_HZ)?;
    let mut samples: Vec<i16> = Vec::new();
    let per_ms = i64::from(WAV_RATE_HZ / 1_000);
    let first = packets(stored).next().map_or(0, |(at_ms, _)| at_ms);
    for (at_ms, opus) in packets(stored) {
        let at_ms = (i64::from(at_ms) - i64::from(first)).clamp(0, LONGEST_MS);
        let written_ms = i64::try_from(samples.len()).unwrap_or(i64::MAX) / per_ms;
        if written_ms >= LONGEST_MS {
            break;
        }
        if at_ms - written_ms > GAP_MS {
            samples.resize(usize::try_from(at_ms * per_ms).unwrap_or_default(), 0);
        }
        // Packets that cannot be decoded are skipped.
        drop(decoder.decode(opus, &mut samples));
    }
    Ok(wav_file(&samples, WAV_RATE_HZ))
}

/// Returns a mono WAV file of these samples.
pub fn wav_file(samples: &[i16], rate_hz: u32) -> Vec<u8> {
    let spec = WavSpec {
        channels: 1,
        sample_rate: rate_hz,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut file = Vec::new();
    let written = WavWriter::new(Cursor::new(&mut file), spec).and_then(|mut writer| {
        for sample in samples {
            writer.write_sample(*sample)?;
        }
        writer.finalize()
    });
    if let Err(error) = written {
        tracing::error!(%error, "cannot write a WAV file into memory");
    }
    file
}

#[cfg(test)]
mod tests {
    use hound::WavReader;
    use proptest::prelude::*;

    use super::*;

    fn samples(wav: &[u8]) -> Vec<i16> {
        WavReader::new(wav).unwrap().into_samples().map(Result::unwrap).collect()
    }

    #[test]
    fn stored_user_audio_decodes_with_its_start_time() {
        let tone = pcm::tone(440.0, 16_000, SAMPLE_RATE_HZ);
        let sound =
            TracedSound { heard_from_ms: -420, heard: tone.clone(), ..TracedSound::default() };
        let stored = encode(&sound);
        let place = SoundPlace { side: Side::Heard, start_ms: -420, length_ms: 1_020 };
        assert_eq!((stored.len(), stored[0].place), (1, place));
        assert!(stored[0].packets.len() < 4_000, "{} bytes", stored[0].packets.len());
        let back = samples(&wav(&stored[0].packets).unwrap());
        assert_eq!(pcm::duration(back.len(), WAV_RATE_HZ), Duration::from_millis(1_020));
        let loudness = pcm::rms(&back[4_800..19_200]) / pcm::rms(&tone);
        assert!((0.7..1.3).contains(&loudness), "{loudness}");
    }

    #[test]
    fn an_answer_that_paused_pauses_in_the_file() {
        let mut encoder = Encoder::new(WAV_RATE_HZ, 24_000, 5).unwrap();
        let mut packet = || encoder.encode(&pcm::tone(440.0, 1_440, WAV_RATE_HZ)).unwrap();
        let said = vec![(900, packet()), (962, packet()), (2_020, packet())];
        let stored = encode(&TracedSound { said, ..TracedSound::default() });
        let place = SoundPlace { side: Side::Said, start_ms: 900, length_ms: 1_180 };
        assert_eq!(stored[0].place, place);
        let back = samples(&wav(&stored[0].packets).unwrap());
        assert_eq!(pcm::duration(back.len(), WAV_RATE_HZ), Duration::from_millis(1_180));
        assert!(pcm::rms(&back[24_000 / 2..24_000]) < 1.0, "a second of silence between them");
        assert!(encode(&TracedSound::default()).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_stored_bytes_become_a_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let file = wav(&bytes).unwrap();
            prop_assert!(WavReader::new(&file[..]).is_ok());
        }
    }
}
