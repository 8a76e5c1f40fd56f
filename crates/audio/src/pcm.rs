//! Arithmetic on mono 16-bit samples. Not for codecs or rate conversion.

use std::time::Duration;

/// Returns the root mean square of the samples, 0 to 32,768; 0 for none.
pub fn rms(samples: &[i16]) -> f64 {
    if samples.is_empty() {
        return 0.0;
    }
    // Integers are summed several at a time, and exactly.
    let square = |s: &i16| i64::from(i32::from(*s) * i32::from(*s));
    let sum: i64 = samples.iter().map(square).sum();
    #[allow(clippy::cast_precision_loss, reason = "a buffer is far shorter than 2^22 samples")]
    let mean = sum as f64 / samples.len() as f64;
    mean.sqrt()
}

/// Returns the duration of this number of samples.
pub fn duration(samples: usize, sample_rate_hz: u32) -> Duration {
    Duration::from_nanos(samples as u64 * 1_000_000_000 / u64::from(sample_rate_hz.max(1)))
}

/// Returns the number of samples in a time, rounded down.
pub fn samples_in(time: Duration, sample_rate_hz: u32) -> usize {
    let samples = time.as_nanos() * u128::from(sample_rate_hz) / 1_000_000_000;
    usize::try_from(samples).unwrap_or(usize::MAX)
}

/// Returns the samples in pieces of at most this time, but at least one sample each.
pub fn pieces(samples: &[i16], time: Duration, sample_rate_hz: u32) -> std::slice::Chunks<'_, i16> {
    samples.chunks(samples_in(time, sample_rate_hz).max(1))
}

/// Converts little-endian bytes to samples; a last odd byte is ignored.
pub fn from_le_bytes(bytes: &[u8]) -> Vec<i16> {
    bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect()
}

/// Converts samples to little-endian bytes.
pub fn to_le_bytes(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|s| s.to_le_bytes()).collect()
}

/// Returns a sine tone at a quarter of full scale.
pub fn tone(frequency_hz: f32, samples: usize, sample_rate_hz: u32) -> Vec<i16> {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a test tone needs no more precision than f32, and stays within i16"
    )]
    let sample = |i: usize| {
        let phase = std::f32::consts::TAU * frequency_hz * i as f32 / sample_rate_hz as f32;
        (phase.sin() * 8_192.0) as i16
    };
    (0..samples).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_short_and_lose_no_sample() {
        let time = Duration::from_millis(100);
        for (length, rate_hz, count) in [
            (0_usize, 24_000, 0),
            (1, 24_000, 1),
            (2_401, 24_000, 2),
            (4_000_000, 16_000, 2_500),
            (3, 0, 3),
        ] {
            let samples: Vec<i16> = (0..=i16::MAX).cycle().take(length).collect();
            let all: Vec<&[i16]> = pieces(&samples, time, rate_hz).collect();
            assert_eq!(all.len(), count, "{length} {rate_hz}");
            assert_eq!(all.concat(), samples);
        }
    }

    #[test]
    fn times_and_samples_convert() {
        assert_eq!(duration(24_000, 24_000), Duration::from_secs(1));
        assert_eq!(samples_in(Duration::from_millis(60), 24_000), 1_440);
        assert_eq!(samples_in(Duration::from_millis(20), 16_000), 320);
    }

    #[test]
    fn bytes_go_both_ways() {
        let samples = [0, 1, -1, i16::MAX, i16::MIN];
        assert_eq!(from_le_bytes(&to_le_bytes(&samples)), samples);
        assert_eq!(from_le_bytes(&[1, 0, 9]), [1]);
    }

    #[test]
    fn loudness_is_the_root_mean_square() {
        assert!(rms(&[]).abs() < f64::EPSILON);
        assert!((rms(&[100, -100, 100]) - 100.0).abs() < 1e-9);
        assert!((rms(&tone(440.0, 16_000, 16_000)) - 5_792.0).abs() < 10.0);
    }
}
