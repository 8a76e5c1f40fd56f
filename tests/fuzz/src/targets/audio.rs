//! Opus packets of a device, through libopus and libfvad, which are C, and the echo canceller. An
//! input consists of packets, each after its length in two bytes. Any input is decoded or refused,
//! within the length of a packet, and decoded samples are encoded again. Run it under
//! AddressSanitizer, as `scripts/fuzz` does.

use bytes::Bytes;
use hearken_audio::HearingSettings;
use hearken_audio::echo::SentPackets;
use hearken_audio::opus::{Decoder, Encoder};
use hearken_audio::utterance_detector::UtteranceDetector;
use hearken_audio::voice_detector::{FRAME_SAMPLES, VoiceDetector};

/// Maximum number of packets of an input: 12 s of a device's sound.
const MAX_PACKETS: usize = 200;

fn packets(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut packets = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (packet, after) = rest.split_at(length);
        packets.push(packet);
        bytes = after;
    }
    packets.truncate(MAX_PACKETS);
    packets
}

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let packets = packets(bytes);
    decode(&packets, [8_000, 12_000, 16_000, 24_000, 48_000][packets.len() % 5]);
    detect(&packets);
    // Arbitrary samples, as the voice detector receives them.
    let samples: Vec<i16> =
        bytes.as_chunks().0.iter().map(|pair| i16::from_le_bytes(*pair)).collect();
    let mut detector = VoiceDetector::new(bytes.first().map_or(0, |byte| byte % 4), 0.0, 0.0);
    for frame in samples.chunks(FRAME_SAMPLES) {
        assert!(!detector.is_voice(frame) || frame.len() == FRAME_SAMPLES);
    }
}

fn decode(packets: &[&[u8]], rate_hz: u32) {
    let mut decoder = Decoder::new(rate_hz).expect("libopus runs at this rate");
    let mut encoder = Encoder::new(rate_hz, 24_000, 0).expect("libopus runs at this rate");
    let per_ms = rate_hz as usize / 1_000;
    let before = [7, -7, 7];
    for packet in packets {
        let mut samples = before.to_vec();
        let decoded = decoder.decode(packet, &mut samples).unwrap_or_default();
        assert!(decoded <= 120 * per_ms, "{decoded} samples");
        assert_eq!(samples.len(), before.len() + decoded);
        assert_eq!(samples[..before.len()], before);
        for frame in samples[before.len()..].chunks_exact(60 * per_ms) {
            let packet = encoder.encode(frame).expect("60 ms are a legal length");
            assert!(!packet.is_empty() && packet.len() <= 3 * 1_275 + 7);
        }
    }
}

fn detect(packets: &[&[u8]]) {
    let mut detector = UtteranceDetector::new(HearingSettings::default());
    // Some devices leave echo cancellation to the server; here the microphone signal is the playback itself.
    let sent = SentPackets::default();
    let echoes = packets.len() % 4 == 3;
    match packets.len() % 4 {
        3 => detector.cancel_echo(sent.clone()),
        1 => detector.guard_echo(sent.clone()),
        _ => {}
    }
    for (stamp, packet) in (1..).zip(packets) {
        detector.set_speaking(packet.len() % 2 == 0);
        sent.push(stamp, Bytes::copy_from_slice(packet));
        let played = if packet.len() % 3 == 0 { 0 } else { stamp.saturating_sub(2) };
        if detector.decode(packet, if echoes { played } else { 0 }).is_err() {
            continue;
        }
        while let Some(classified) = detector.classify() {
            assert!(!detector.sound(&classified).is_empty());
        }
        assert!(detector.unclassified().len() < FRAME_SAMPLES);
    }
    detector.close();
    assert!(detector.unclassified().is_empty());
}
