//! The server's voice detection while a device plays a reply. The device itself is elsewhere.

use std::time::Duration;

use bytes::Bytes;
use hearken_audio::echo::SentPackets;
use hearken_audio::endpointer::Endpoint;
use hearken_audio::opus::Encoder;
use hearken_audio::utterance_detector::UtteranceDetector;
use hearken_audio::{HearingSettings, pcm};
use hearken_virtual_device::sound::{PACKET, UPLINK_RATE_HZ};

use super::device::{JITTER_MS, Sent, Told, WAY};

/// Remedy against echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// No remedy.
    None,
    /// Echo is distinguished from voice by its level, without timestamps.
    Guard,
    /// Echo is cancelled, by the reported timestamps, and the residual is distinguished from voice.
    Cancel,
}

impl Remedy {
    /// All remedies.
    pub const ALL: [Self; 3] = [Self::None, Self::Guard, Self::Cancel];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Guard => "guarded",
            Self::Cancel => "cancelled",
        }
    }
}

/// Result of the voice detection.
#[derive(Default)]
pub(super) struct Seen {
    /// Times at which speech was detected.
    pub(super) starts: Vec<Duration>,
    /// Audio after the remedy.
    pub(super) sound: Vec<i16>,
}

/// Encodes the signal of a microphone.
///
/// # Errors
/// Fails if libopus cannot be used.
pub(super) fn encode(sound: &[i16]) -> anyhow::Result<Vec<Bytes>> {
    let mut encoder = Encoder::new(UPLINK_RATE_HZ, 24_000, 0)?;
    let block = pcm::samples_in(PACKET, UPLINK_RATE_HZ);
    let packets = sound.chunks_exact(block).map(|samples| encoder.encode(samples));
    Ok(packets.collect::<Result<_, _>>()?)
}

/// Processes the packets of a microphone and their timestamps while a reply is sent.
///
/// # Errors
/// Fails if a packet does not decode.
pub(super) fn hear(
    remedy: Remedy,
    sent: &[Sent],
    told: &[Told],
    packets: &[Bytes],
    seed: u64,
) -> anyhow::Result<Seen> {
    let mut detector = UtteranceDetector::new(HearingSettings::default());
    detector.set_speaking(true);
    let known = SentPackets::default();
    match remedy {
        Remedy::None => {}
        Remedy::Guard => detector.guard_echo(known.clone()),
        Remedy::Cancel => detector.cancel_echo(known.clone()),
    }
    let mut chance = fastrand::Rng::with_seed(seed ^ 11);
    let mut sent = sent.iter().peekable();
    let mut seen = Seen::default();
    let mut now = Duration::ZERO;
    for (told, packet) in told.iter().zip(packets) {
        now = now.max(told.at + WAY + Duration::from_millis(chance.u64(..JITTER_MS)));
        while let Some(packet) = sent.next_if(|packet| packet.at <= now) {
            known.push(packet.stamp, packet.opus.clone());
        }
        let before = detector.unclassified().len();
        detector.decode(packet, told.stamp)?;
        seen.sound.extend_from_slice(&detector.unclassified()[before..]);
        while let Some(classified) = detector.classify() {
            if let Some(Endpoint::Started { .. }) = classified.endpoint {
                seen.starts.push(told.at);
            }
        }
    }
    Ok(seen)
}
