//! Conversion of samples between engines and protocols, loudness, and trimming of silence.

use hearken_audio::pcm;

/// Converts 16-bit samples to floats in -1..1.
pub fn to_float(samples: &[i16]) -> Vec<f32> {
    samples.iter().map(|s| f32::from(*s) / 32_768.0).collect()
}

/// Converts floats to 16-bit samples. Values outside the range are clipped.
pub fn to_i16(samples: &[f32]) -> Vec<i16> {
    // `as` saturates and makes NaN zero, as required here.
    samples.iter().map(|s| (s * 32_767.0).round() as i16).collect()
}

/// Returns the loudness of the loudest 20 ms of 16 kHz audio, as root mean square on the scale of
/// -1..1.
pub fn loudest(samples: &[i16]) -> f64 {
    samples.chunks(320).map(|frame| pcm::rms(frame) / 32_768.0).fold(0.0, f64::max)
}

/// Removes the near-silence at both ends, except `keep` samples of it.
pub fn trim(samples: &[i16], threshold: i16, keep: usize) -> &[i16] {
    let loud = |s: &i16| s.unsigned_abs() > threshold.unsigned_abs();
    let Some(first) = samples.iter().position(loud) else { return &[] };
    let last = samples.iter().rposition(loud).unwrap_or(first);
    &samples[first.saturating_sub(keep)..(last + 1 + keep).min(samples.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_clip_and_measure() {
        assert_eq!(to_i16(&[0.0, 2.0, -2.0, f32::NAN]), [0, 32_767, -32_768, 0]);
        assert_eq!(to_i16(&to_float(&[123, -7])), [123, -7]);
        assert!(loudest(&[0; 640]) < 1e-9);
        assert!((loudest(&[16_384; 320]) - 0.5).abs() < 1e-9);
        assert_eq!(trim(&[0, 0, 0, 900, -900, 1, 0, 0], 100, 1), [0, 900, -900, 1]);
        assert!(trim(&[1, 2, 3], 100, 1).is_empty());
    }
}
