//! Binary frames of a device in all three framings: a payload never exceeds its frame, and a packet
//! that is read survives a round trip.

use bytes::Bytes;
use hearken_proto::device::{AudioPacket, Framing};

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    let message = Bytes::copy_from_slice(bytes);
    for framing in [Framing::V1, Framing::V2, Framing::V3] {
        if let Ok(packet) = framing.decode(&message) {
            assert!(packet.opus.len() + framing.header_len() <= message.len());
            let written = framing.encode(&packet);
            assert_eq!(framing.decode(&written), Ok(packet));
        }
        // The length field of version 3 is limited to 65,535.
        if message.len() <= usize::from(u16::MAX) {
            let packet = AudioPacket { opus: message.clone(), timestamp_ms: 0 };
            assert_eq!(framing.decode(&framing.encode(&packet)), Ok(packet));
        }
    }
}
