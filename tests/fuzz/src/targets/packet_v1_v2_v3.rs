//! Binary frames of a device in all three framings: a payload never exceeds its frame, and what is
//! read is read again from what it is written as.

use bytes::Bytes;
use hearken_proto::device::{AudioPacket, Framing};

/// Tries one input.
///
/// # Panics
/// Panics if a promise above is broken.
pub fn run(bytes: &[u8]) {
    let message = Bytes::copy_from_slice(bytes);
    for framing in [Framing::V1, Framing::V2, Framing::V3] {
        if let Ok(packet) = framing.decode(&message) {
            assert!(packet.opus.len() + framing.header_len() <= message.len());
            let written = framing.encode(&packet);
            assert_eq!(framing.decode(&written), Ok(packet));
        }
        // Version 3 counts to 65,535.
        if message.len() <= usize::from(u16::MAX) {
            let packet = AudioPacket { opus: message.clone(), timestamp_ms: 0 };
            assert_eq!(framing.decode(&framing.encode(&packet)), Ok(packet));
        }
    }
}
