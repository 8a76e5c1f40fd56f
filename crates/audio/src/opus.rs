//! Opus encoding and decoding of mono 16-bit samples. The only file that uses `audiopus` (libopus
//! of the system), whose C binding is no longer maintained: to replace it, rewrite this file.

use audiopus::coder::{Decoder as RawDecoder, Encoder as RawEncoder};
use audiopus::{Application, Bitrate, Channels, SampleRate, Signal};
use bytes::{Bytes, BytesMut};

/// Longest packet that Opus allows, 120 ms (RFC 6716, section 3.2.5), at 48 kHz.
pub(crate) const MAX_PACKET_MS: usize = 120;
/// Size of the encoding buffer, in bytes. No Opus frame is longer than 1,275 bytes (RFC 6716,
/// section 3.4); a packet of ours holds up to three of 20 ms.
const MAX_ENCODED_BYTES: usize = 3 * 1_275 + 7;
/// Size of a block, in bytes. Packets are slices of blocks, some 90 packets of 60 ms at 24 kbit/s
/// in each. A block is freed or reused when the last of its packets is dropped.
const BLOCK_BYTES: usize = 16 * 1_024;

/// Error of Opus encoding or decoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpusError {
    /// Unsupported sample rate, in Hz: Opus runs at 8, 12, 16, 24 and 48 kHz only.
    #[error("opus cannot run at {0} Hz: use 8000, 12000, 16000, 24000 or 48000")]
    Rate(u32),
    /// A packet that does not decode, or a frame without a legal length; as libopus reports it.
    #[error("opus codec failed: {0}")]
    Codec(String),
}

impl From<audiopus::Error> for OpusError {
    fn from(e: audiopus::Error) -> Self {
        Self::Codec(e.to_string())
    }
}

fn rate(sample_rate_hz: u32) -> Result<SampleRate, OpusError> {
    match sample_rate_hz {
        8_000 => Ok(SampleRate::Hz8000),
        12_000 => Ok(SampleRate::Hz12000),
        16_000 => Ok(SampleRate::Hz16000),
        24_000 => Ok(SampleRate::Hz24000),
        48_000 => Ok(SampleRate::Hz48000),
        other => Err(OpusError::Rate(other)),
    }
}

/// Decoder of the packets of one stream, in order.
pub struct Decoder {
    raw: RawDecoder,
    max_samples: usize,
    last_samples: usize,
}

impl Decoder {
    /// Creates a decoder whose output has this rate; packets of any rate may be fed.
    ///
    /// # Errors
    /// Fails if Opus does not support the rate.
    pub fn new(sample_rate_hz: u32) -> Result<Self, OpusError> {
        let raw = RawDecoder::new(rate(sample_rate_hz)?, Channels::Mono)?;
        let per_ms = sample_rate_hz as usize / 1_000;
        Ok(Self { raw, max_samples: per_ms * MAX_PACKET_MS, last_samples: per_ms * 60 })
    }

    /// Decodes a packet, appends its samples to `out` and returns their number. An empty packet, or
    /// one of a single byte (both mean silence, DTX), gives comfort noise of the length of the last
    /// packet.
    ///
    /// # Errors
    /// Fails if the packet is no Opus; the decoder stays usable.
    pub fn decode(&mut self, packet: &[u8], out: &mut Vec<i16>) -> Result<usize, OpusError> {
        let start = out.len();
        let silent = packet.len() <= 1;
        let room = if silent { self.last_samples } else { self.max_samples };
        out.resize(start + room, 0);
        let target = &mut out[start..];
        let decoded = if silent {
            self.raw.decode(None::<&[u8]>, target, false)
        } else {
            self.raw.decode(Some(packet), target, false)
        };
        match decoded {
            Ok(samples) => {
                out.truncate(start + samples);
                self.last_samples = samples.max(1);
                Ok(samples)
            }
            Err(e) => {
                out.truncate(start);
                Err(e.into())
            }
        }
    }
}

/// Encoder of the frames of one stream, in order.
pub struct Encoder {
    raw: RawEncoder,
    scratch: Box<[u8]>,
    block: BytesMut,
}

impl Encoder {
    /// Creates a speech encoder. `complexity` is 0 (cheap) to 10.
    ///
    /// # Errors
    /// Fails if Opus does not support the rate, or if libopus refuses the bitrate or complexity.
    pub fn new(sample_rate_hz: u32, bitrate_bps: i32, complexity: u8) -> Result<Self, OpusError> {
        let mut raw = RawEncoder::new(rate(sample_rate_hz)?, Channels::Mono, Application::Voip)?;
        raw.set_bitrate(Bitrate::BitsPerSecond(bitrate_bps))?;
        raw.set_complexity(complexity.min(10))?;
        raw.set_signal(Signal::Voice)?;
        Ok(Self {
            raw,
            scratch: vec![0; MAX_ENCODED_BYTES].into_boxed_slice(),
            block: BytesMut::new(),
        })
    }

    /// Encodes one frame of 20, 40 or 60 ms into one packet.
    ///
    /// # Errors
    /// Fails if the frame has no legal length.
    pub fn encode(&mut self, frame: &[i16]) -> Result<Bytes, OpusError> {
        let length = self.raw.encode(frame, &mut self.scratch)?;
        if self.block.capacity() < length {
            self.block.reserve(BLOCK_BYTES);
        }
        self.block.extend_from_slice(&self.scratch[..length]);
        Ok(self.block.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcm;

    fn tone(samples: usize, rate: u32) -> Vec<i16> {
        pcm::tone(440.0, samples, rate)
    }

    #[test]
    fn a_tone_survives_at_every_rate_and_frame_length() {
        for rate in [8_000_u32, 16_000, 24_000, 48_000] {
            for ms in [20, 40, 60] {
                let frame = tone((rate / 1_000 * ms) as usize, rate);
                let mut encoder = Encoder::new(rate, 24_000, 5).unwrap();
                let mut decoder = Decoder::new(rate).unwrap();
                let mut out = Vec::new();
                for _ in 0..5 {
                    let packet = encoder.encode(&frame).unwrap();
                    out.clear();
                    assert_eq!(decoder.decode(&packet, &mut out), Ok(frame.len()));
                }
                assert!(pcm::rms(&out) > 0.5 * pcm::rms(&frame), "{rate} Hz, {ms} ms");
            }
        }
    }

    #[test]
    fn silence_packets_last_as_long_as_the_one_before() {
        let mut decoder = Decoder::new(16_000).unwrap();
        let packet = Encoder::new(16_000, 16_000, 0).unwrap().encode(&tone(320, 16_000)).unwrap();
        let mut out = Vec::new();
        decoder.decode(&packet, &mut out).unwrap();
        assert_eq!(decoder.decode(&[], &mut out), Ok(320));
        assert_eq!(decoder.decode(&[0x08], &mut out), Ok(320));
    }

    #[test]
    fn garbage_is_refused_and_the_stream_goes_on() {
        let mut decoder = Decoder::new(16_000).unwrap();
        let mut out = vec![7; 3];
        assert!(decoder.decode(&[0xff; 40], &mut out).is_err());
        assert_eq!(out, [7; 3]);
        let packet = Encoder::new(16_000, 16_000, 0).unwrap().encode(&tone(960, 16_000)).unwrap();
        assert_eq!(decoder.decode(&packet, &mut out), Ok(960));
    }

    #[test]
    fn unsupported_rates_and_lengths_are_refused() {
        assert_eq!(Decoder::new(44_100).err(), Some(OpusError::Rate(44_100)));
        assert!(Encoder::new(24_000, 24_000, 5).unwrap().encode(&[0; 100]).is_err());
    }
}
