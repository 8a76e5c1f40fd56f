//! Recordings of speech in WAV files, converted for recognisers. Not for other formats, nor for the words.

use std::io::Cursor;
use std::time::Duration;

use hearken_audio::files::{other_file_format, with_size};
use hearken_audio::pcm;
use hearken_audio::resample::Resampler;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hound::{SampleFormat, WavReader};

/// Maximum length of a recording.
const LONGEST: Duration = Duration::from_secs(30);
/// Maximum size of a file, in bytes: the longest recording in stereo at 48 kHz is slightly smaller.
pub(crate) const MAX_BYTES: usize = 6_000_000;
/// Minimum and maximum sample rate of a file.
const RATES_HZ: std::ops::RangeInclusive<u32> = 8_000..=48_000;

/// Reason why a file is refused, with the remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WavError {
    /// The file is too large.
    #[error("it has more than 6 MB: give at most 30 s")]
    TooLarge,
    /// It is not a WAV file.
    #[error(
        "it is not a WAV file ({0}): convert it into one, 16-bit PCM, mono or stereo, 8 to 48 kHz"
    )]
    NotWav(String),
    /// Its samples have another format.
    #[error("it is not 16-bit PCM, mono or stereo, at 8 to 48 kHz: convert it")]
    Format,
    /// It contains less audio than its header states.
    #[error("it ends too early, or its header is wrong: save it again")]
    CutOff,
    /// It contains too much audio.
    #[error("it is longer than 30 s: shorten it")]
    TooLong,
}

/// Reads a recording. Returns its samples at 16 kHz, mono.
///
/// # Errors
/// The file is not a WAV file, has another format, or is incomplete or too long.
pub(crate) fn read(file: &[u8]) -> Result<Vec<i16>, WavError> {
    if file.len() > MAX_BYTES {
        return Err(WavError::TooLarge);
    }
    let file = &*with_size(file);
    let not_wav = |error: hound::Error| {
        let other = other_file_format(file).map(|name| format!("it is {name}"));
        WavError::NotWav(other.unwrap_or_else(|| error.to_string()))
    };
    let reader = WavReader::new(Cursor::new(file)).map_err(not_wav)?;
    let spec = reader.spec();
    let pcm16 = spec.sample_format == SampleFormat::Int && spec.bits_per_sample == 16;
    if !pcm16 || !matches!(spec.channels, 1 | 2) || !RATES_HZ.contains(&spec.sample_rate) {
        return Err(WavError::Format);
    }
    let told = usize::try_from(reader.len()).unwrap_or(usize::MAX);
    if told > file.len() / 2 {
        return Err(WavError::CutOff);
    }
    let channels = usize::from(spec.channels);
    if pcm::duration(told / channels, spec.sample_rate) > LONGEST {
        return Err(WavError::TooLong);
    }
    let samples: Result<Vec<i16>, _> = reader.into_samples().collect();
    let samples = samples.map_err(|_| WavError::CutOff)?;
    let mono: Vec<i16> = match channels {
        1 => samples,
        _ => samples.as_chunks().0.iter().map(|[left, right]| left.midpoint(*right)).collect(),
    };
    let mut resampler =
        Resampler::new(spec.sample_rate, SAMPLE_RATE_HZ).map_err(|_| WavError::Format)?;
    let mut out = Vec::new();
    resampler.process(&mono, &mut out);
    resampler.finish(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use hound::{WavSpec, WavWriter};
    use proptest::prelude::*;

    use super::*;

    fn wav(channels: u16, rate: u32, bits: u16, frames: usize) -> Vec<u8> {
        let sample_format = if bits == 32 { SampleFormat::Float } else { SampleFormat::Int };
        let spec = WavSpec { channels, sample_rate: rate, bits_per_sample: bits, sample_format };
        let mut file = Vec::new();
        let mut writer = WavWriter::new(Cursor::new(&mut file), spec).unwrap();
        for sample in pcm::tone(440.0, frames, rate) {
            for _ in 0..channels {
                match bits {
                    32 => writer.write_sample(f32::from(sample)).unwrap(),
                    8 => writer.write_sample(sample >> 8).unwrap(),
                    _ => writer.write_sample(sample).unwrap(),
                }
            }
        }
        writer.finalize().unwrap();
        file
    }

    #[test]
    fn recordings_of_all_rates_and_both_channels_become_the_same() {
        let expected = pcm::rms(&pcm::tone(440.0, 16_000, 16_000));
        for (channels, rate) in
            [(1, 8_000), (2, 16_000), (1, 22_050), (2, 44_100), (2, 48_000), (1, 47_999)]
        {
            let sound = read(&wav(channels, rate, 16, rate as usize)).unwrap();
            assert_eq!(sound.len(), 16_000, "{channels} channels at {rate} Hz");
            let loudness = pcm::rms(&sound) / expected;
            assert!((0.97..1.03).contains(&loudness), "{rate} Hz: {loudness}");
        }
        assert_eq!(read(&wav(1, 16_000, 16, 0)), Ok(Vec::new()));
        assert_eq!(read(&wav(2, 48_000, 16, 30 * 48_000)).unwrap().len(), 30 * 16_000);
    }

    #[test]
    fn unsupported_recordings_are_refused() {
        assert_eq!(read(&wav(1, 48_000, 16, 31 * 48_000)), Err(WavError::TooLong));
        assert_eq!(read(&vec![0; MAX_BYTES + 1]), Err(WavError::TooLarge));
        for (channels, rate, bits) in
            [(3, 16_000, 16), (1, 7_999, 16), (1, 48_001, 16), (1, 16_000, 8), (1, 16_000, 32)]
        {
            let file = wav(channels, rate, bits, 100);
            assert_eq!(read(&file), Err(WavError::Format), "{channels} {rate} {bits}");
        }
        for file in [&b""[..], b"RIFF", b"ID3 something", b"OggS"] {
            assert!(matches!(read(file), Err(WavError::NotWav(_))), "{file:?}");
        }
    }

    #[test]
    fn a_wrong_length_in_the_header_is_refused_before_the_samples_are_read() {
        let whole = wav(1, 16_000, 16, 16_000);
        assert_eq!(read(&whole[..whole.len() - 2]), Err(WavError::CutOff));
        for length in [u32::MAX - 1, 1 << 30, 32_002] {
            let mut file = whole.clone();
            file[40..44].copy_from_slice(&length.to_le_bytes());
            assert_eq!(read(&file), Err(WavError::CutOff), "{length}");
        }
        let mut shorter = whole;
        shorter[40..44].copy_from_slice(&200_u32.to_le_bytes());
        assert_eq!(read(&shorter).unwrap().len(), 100, "data after the stated length is ignored");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(read(&bytes));
        }

        #[test]
        fn a_corrupted_file_is_read_or_refused(
            channels in 1..3_u16,
            rate in prop::sample::select(vec![8_000, 16_000, 44_100]),
            spoiled in prop::collection::vec((0..60_usize, any::<u8>()), 0..6),
            end in 0..500_usize,
        ) {
            let mut file = wav(channels, rate, 16, 100);
            for (at, byte) in spoiled {
                file[at] = byte;
            }
            file.truncate(end);
            if let Ok(sound) = read(&file) {
                prop_assert!(pcm::duration(sound.len(), SAMPLE_RATE_HZ) <= LONGEST);
            }
        }
    }
}
