//! Turns a synthesiser's samples into a device's packets: resamples, splits and encodes them, one
//! sentence after the other. Not for pacing.

use bytes::Bytes;

use super::opus::{Encoder, OpusError};
use super::pcm;
use super::resample::{ResampleError, Resampler};
use crate::settings::SpeakingSettings;

/// Speech encoder of one turn.
pub struct SpeechEncoder {
    encoder: Encoder,
    sample_rate_hz: u32,
    packet_samples: usize,
    /// Resampler and its input rate; serves one sentence after the other.
    resampler: Option<(u32, Resampler)>,
    pending: Vec<i16>,
    /// Samples of `pending` that are encoded already.
    encoded: usize,
    /// True until the first packet is encoded.
    fresh: bool,
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
            pending: Vec::new(),
            encoded: 0,
            fresh: true,
        })
    }

    /// Begins a sentence; samples left of one that broke off are dropped.
    pub fn begin(&mut self) {
        if let Some((_, resampler)) = &mut self.resampler {
            resampler.reset();
        }
        self.pending.clear();
        self.encoded = 0;
    }

    /// Processes samples of the sentence, whose rate may change.
    ///
    /// # Errors
    /// Fails if this rate cannot be resampled.
    pub fn push(&mut self, samples: &[i16], rate_hz: u32) -> Result<(), ResampleError> {
        self.pending.drain(..self.encoded);
        self.encoded = 0;
        if self.resampler.as_ref().is_none_or(|(r, _)| *r != rate_hz) {
            if let Some((_, mut last)) = self.resampler.take() {
                last.finish(&mut self.pending);
            }
            self.resampler = Some((rate_hz, Resampler::new(rate_hz, self.sample_rate_hz)?));
        }
        if let Some((_, resampler)) = &mut self.resampler {
            resampler.process(samples, &mut self.pending);
        }
        Ok(())
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
