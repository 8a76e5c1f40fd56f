//! Messages between a xiaozhi device and the server over one WebSocket: JSON text frames
//! ([`Uplink`], [`Downlink`]) and binary audio frames ([`packet`]). Not for MCP payloads, which
//! pass through as JSON ([`crate::jsonrpc`] parses them).

pub mod downlink;
pub mod emotion;
pub mod iot;
pub mod packet;
pub mod uplink;

pub use downlink::{Downlink, ServerHello, SystemCommand};
pub use emotion::Emotion;
pub use iot::IotReport;
pub use packet::{AudioPacket, Framing};
pub use uplink::{Features, Hello, ListenMode, Uplink};

use serde::{Deserialize, Serialize};

/// Audio format of one direction, as in both hellos. Absent fields have the firmware's own
/// defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AudioParams {
    /// Codec; always `opus` from Hearken.
    #[serde(default = "default_format")]
    pub format: String,
    /// Samples per second: 8000, 12000, 16000, 24000 or 48000.
    #[serde(default = "default_sample_rate")]
    pub sample_rate: u32,
    /// Number of channels; always 1.
    #[serde(default = "default_channels")]
    pub channels: u8,
    /// Length of one packet in milliseconds: 20, 40 or 60 in practice.
    #[serde(default = "default_frame_duration")]
    pub frame_duration: u32,
}

impl AudioParams {
    /// Returns mono Opus with this rate and packet length.
    pub fn opus(sample_rate: u32, frame_duration: u32) -> Self {
        Self { format: default_format(), sample_rate, channels: 1, frame_duration }
    }
}

impl AudioParams {
    /// Sample rates of Opus, in samples per second.
    pub const SAMPLE_RATES: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];
    /// Packet lengths that firmware can produce or play, in milliseconds.
    pub const FRAME_DURATIONS: [u32; 8] = [5, 10, 20, 40, 60, 80, 100, 120];
}

impl Default for AudioParams {
    /// Returns the format that firmware sends: 16 kHz, 60 ms.
    fn default() -> Self {
        Self::opus(default_sample_rate(), default_frame_duration())
    }
}

fn default_format() -> String {
    "opus".into()
}

fn default_sample_rate() -> u32 {
    16_000
}

fn default_channels() -> u8 {
    1
}

fn default_frame_duration() -> u32 {
    60
}
