//! Turns a synthesiser's samples into a device's packets: resamples, splits and encodes them,
//! sentence by sentence, without the silence at the start of speech. Not for pacing.

use std::time::Duration;

use bytes::Bytes;

use super::opus::{Encoder, OpusError};
use super::pcm;
use super::resample::{ResampleError, Resampler};
use crate::SpeakingSettings;

/// Loudest sample that counts as silence, about -50 dB relative to full scale.
const SILENT: u16 = 100;
/// Length of silence before the first sound that stays: soft onsets are in it.
const KEPT_BEFORE_SOUND: Duration = Duration::from_millis(20);
/// Maximum length of silence that is removed. A longer one may be intended.
const MOST_LEFT_OUT: Duration = Duration::from_millis(500);
/// Maximum number of changes of the sample rate within a sentence. Each needs another resampler,
/// which can take tens of milliseconds to set up.
const MAX_RATE_CHANGES: u32 = 4;

/// Error: samples that are not encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SamplesError {
    /// Their rate cannot be resampled.
    #[error(transparent)]
    Rate(#[from] ResampleError),
    /// Their rate changes too often in a sentence.
    #[error("the sample rate changes more than {MAX_RATE_CHANGES} times in a sentence")]
    RateChanges,
}

/// Speech encoder of one turn.
pub struct SpeechEncoder {
    encoder: Encoder,
    sample_rate_hz: u32,
    packet_samples: usize,
    /// Resampler and its input rate; reused for all sentences.
    resampler: Option<(u32, Resampler)>,
    /// Number of changes of the input rate in this sentence.
    rate_changes: u32,
    pending: Vec<i16>,
    /// Samples of `pending` that are already encoded.
    encoded: usize,
    /// True until the first packet is encoded.
    fresh: bool,
    /// Number of samples of silence at the start of speech that may still be removed.
    may_leave_out: usize,
}

impl SpeechEncoder {
    /// Creates an encoder with the rate, packet length and quality of these settings.
    ///
    /// # Errors
    /// Fails if libopus refuses the rate or the bitrate.
    pub fn new(settings: &SpeakingSettings) -> Result<Self, OpusError> {
        let rate = settings.sample_rate_hz;
        let encoder = Encoder::new(rate, settings.bitrate_bps, settings.complexity)?;
        Ok(Self {
            encoder,
            sample_rate_hz: rate,
            packet_samples: pcm::samples_in(settings.packet, rate),
            resampler: None,
            rate_changes: 0,
            pending: Vec::new(),
            encoded: 0,
            fresh: true,
            may_leave_out: pcm::samples_in(MOST_LEFT_OUT, rate),
        })
    }

    /// Starts a sentence; remaining samples of an interrupted one are dropped.
    pub fn begin(&mut self) {
        if let Some((_, resampler)) = &mut self.resampler {
            resampler.reset();
        }
        self.rate_changes = 0;
        self.pending.clear();
        self.encoded = 0;
    }

    /// Processes samples of the sentence, whose rate may change.
    ///
    /// # Errors
    /// Fails if this rate cannot be resampled, or if the rate changes too often.
    pub fn push(&mut self, samples: &[i16], rate_hz: u32) -> Result<(), SamplesError> {
        self.pending.drain(..self.encoded);
        self.encoded = 0;
        if self.resampler.as_ref().is_none_or(|(r, _)| *r != rate_hz) {
            if self.rate_changes >= MAX_RATE_CHANGES {
                return Err(SamplesError::RateChanges);
            }
            if let Some((_, mut last)) = self.resampler.take() {
                self.rate_changes += 1;
                last.finish(&mut self.pending);
            }
            self.resampler = Some((rate_hz, Resampler::new(rate_hz, self.sample_rate_hz)?));
        }
        if let Some((_, resampler)) = &mut self.resampler {
            resampler.process(samples, &mut self.pending);
        }
        if self.may_leave_out > 0 {
            self.leave_out_silence();
        }
        Ok(())
    }

    /// Removes the silence at the start of speech, for which the listener would only wait.
    fn leave_out_silence(&mut self) {
        let sound = self.pending.iter().position(|sample| sample.unsigned_abs() > SILENT);
        let silence = sound.unwrap_or(self.pending.len());
        let kept = pcm::samples_in(KEPT_BEFORE_SOUND, self.sample_rate_hz);
        let left_out = silence.saturating_sub(kept).min(self.may_leave_out);
        self.pending.drain(..left_out);
        self.may_leave_out = if sound.is_some() { 0 } else { self.may_leave_out - left_out };
    }

    /// Ends the sentence: its last packet is filled up with silence.
    pub fn finish(&mut self) {
        if let Some((_, resampler)) = &mut self.resampler {
            resampler.finish(&mut self.pending);
        }
        let left = self.pending.len() - self.encoded;
        let padded = self.encoded + left.next_multiple_of(self.packet_samples);
        self.pending.resize(padded, 0);
    }

    /// Returns true until the first packet is encoded.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns true if a whole packet is ready to be encoded.
    pub fn has_packet(&self) -> bool {
        self.pending.len() - self.encoded >= self.packet_samples
    }

    /// Encodes the next whole packet; `None` if there is none.
    ///
    /// # Errors
    /// Fails if libopus refuses the packet's length.
    pub fn packet(&mut self) -> Result<Option<Bytes>, OpusError> {
        let end = self.encoded + self.packet_samples;
        let Some(frame) = self.pending.get(self.encoded..end) else { return Ok(None) };
        self.encoded = end;
        self.fresh = false;
        self.encoder.encode(frame).map(Some)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::opus::Decoder;

    const RATE_HZ: u32 = 24_000;

    /// Returns samples of silence, followed by a tone.
    fn sentence(silence_ms: u64, tone_ms: u64) -> Vec<i16> {
        let samples = |ms| pcm::samples_in(Duration::from_millis(ms), RATE_HZ);
        let mut sentence = vec![SILENT.cast_signed(); samples(silence_ms)];
        sentence.extend(pcm::tone(400.0, samples(tone_ms), RATE_HZ));
        sentence
    }

    fn packets(encoder: &mut SpeechEncoder, sentence: &[i16], chunk: usize) -> Vec<Bytes> {
        encoder.begin();
        let mut packets = Vec::new();
        for samples in sentence.chunks(chunk) {
            encoder.push(samples, RATE_HZ).unwrap();
            packets.extend(std::iter::from_fn(|| encoder.packet().unwrap()));
        }
        encoder.finish();
        packets.extend(std::iter::from_fn(|| encoder.packet().unwrap()));
        packets
    }

    fn encoder() -> SpeechEncoder {
        SpeechEncoder::new(&SpeakingSettings { sample_rate_hz: RATE_HZ, ..Default::default() })
            .unwrap()
    }

    #[test]
    fn silence_at_the_start_of_speech_is_removed_for_any_chunk_size() {
        for chunk in [7, 480, 1_440, 100_000] {
            // 20 of 300 ms stay, and the tone: six packets of 60 ms instead of ten.
            let packets = packets(&mut encoder(), &sentence(300, 300), chunk);
            assert_eq!(packets.len(), 6, "{chunk}");
            let mut decoder = Decoder::new(RATE_HZ).unwrap();
            let mut first = Vec::new();
            decoder.decode(&packets[0], &mut first).unwrap();
            let loud = first.iter().position(|sample| sample.unsigned_abs() > 1_000).unwrap();
            let after = loud * 1_000 / RATE_HZ as usize;
            assert!((15..=40).contains(&after), "{chunk}: {after} ms");
        }
    }

    #[test]
    fn silence_within_speech_and_before_later_sentences_stays() {
        let mut encoder = encoder();
        let mut first = sentence(0, 60);
        first.extend(sentence(300, 60));
        assert_eq!(packets(&mut encoder, &first, 480).len(), 7);
        assert_eq!(packets(&mut encoder, &sentence(300, 300), 480).len(), 10);
    }

    #[test]
    fn a_sentence_whose_rate_changes_too_often_is_refused() {
        let mut encoder = encoder();
        for _ in 0..3 {
            encoder.begin();
            let rates = [16_000, 24_000].into_iter().cycle();
            let pushed: Vec<_> = rates.take(20).map(|rate| encoder.push(&[1], rate)).collect();
            let refused = pushed.iter().position(Result::is_err);
            assert_eq!(refused, Some(5), "after four changes");
            assert_eq!(pushed.last(), Some(&Err(SamplesError::RateChanges)));
            assert_eq!(encoder.push(&[1], 24_000), Err(SamplesError::RateChanges));
        }
        assert_eq!(packets(&mut encoder, &sentence(0, 60), 480).len(), 1, "the next one is spoken");
    }

    #[test]
    fn at_most_half_a_second_is_removed() {
        assert_eq!(packets(&mut encoder(), &sentence(1_100, 0), 480).len(), 10);
        assert_eq!(packets(&mut encoder(), &sentence(10, 50), 480).len(), 1);
        assert_eq!(packets(&mut encoder(), &[], 480).len(), 0);
    }
}
