//! Binary audio frames: one Opus packet with a header of version 1 (none), 2 (16 bytes) or 3 (4
//! bytes). Multi-byte fields are big-endian, as produced by the firmware's `htons`/`htonl`. Not for
//! decoding Opus.

use bytes::{BufMut, Bytes, BytesMut};

use crate::DecodeError;

/// Layout of the header before each Opus packet. It comes from the hello's `version`, else from the
/// handshake's `Protocol-Version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// The whole message is the packet.
    #[default]
    V1,
    /// `u16 version=2 | u16 type | u32 reserved | u32 timestamp ms | u32 payload size`.
    V2,
    /// `u8 type | u8 reserved | u16 payload size`.
    V3,
}

/// One Opus packet with its timestamp in version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AudioPacket {
    /// Opus packet. It may be empty or a single byte while the device detects silence (DTX).
    pub opus: Bytes,
    /// Timestamp in milliseconds. Uplink: time of the last played packet. Downlink: playback time
    /// of the server. 0 unless framing is V2.
    pub timestamp_ms: u32,
}

const V2_HEADER: usize = 16;
const V3_HEADER: usize = 4;
/// Header `type` of an Opus payload, both versions.
const TYPE_OPUS: u16 = 0;

impl Framing {
    /// Returns the framing of a version number. Unknown numbers mean version 1.
    pub fn from_version(version: u32) -> Self {
        match version {
            2 => Self::V2,
            3 => Self::V3,
            _ => Self::V1,
        }
    }

    /// Returns the number of bytes before the Opus packet.
    pub fn header_len(self) -> usize {
        match self {
            Self::V1 => 0,
            Self::V2 => V2_HEADER,
            Self::V3 => V3_HEADER,
        }
    }

    /// Strips the header of one binary message. Ignores bytes after the announced payload.
    ///
    /// # Errors
    /// Returns an error if the message is shorter than its header says, or the header's version or
    /// type is unknown.
    pub fn decode(self, message: &Bytes) -> Result<AudioPacket, DecodeError> {
        match self {
            Self::V1 => Ok(AudioPacket { opus: message.clone(), timestamp_ms: 0 }),
            Self::V2 => {
                need("v2 header", V2_HEADER, message.len())?;
                let version = u16::from_be_bytes([message[0], message[1]]);
                if version != 2 {
                    return Err(DecodeError::Header { what: "v2 version", value: version.into() });
                }
                opus_type(u16::from_be_bytes([message[2], message[3]]))?;
                let timestamp_ms = be_u32(message, 8);
                let size = be_u32(message, 12) as usize;
                Ok(AudioPacket { opus: payload(message, V2_HEADER, size)?, timestamp_ms })
            }
            Self::V3 => {
                need("v3 header", V3_HEADER, message.len())?;
                opus_type(message[0].into())?;
                let size = u16::from_be_bytes([message[2], message[3]]) as usize;
                Ok(AudioPacket { opus: payload(message, V3_HEADER, size)?, timestamp_ms: 0 })
            }
        }
    }

    /// Prepends the header to one Opus packet. Version 3 is limited to 65,535 bytes; no Opus packet
    /// is longer than 1,275.
    pub fn encode(self, packet: &AudioPacket) -> Bytes {
        let size = packet.opus.len();
        if self == Self::V1 {
            return packet.opus.clone();
        }
        let mut out = BytesMut::with_capacity(self.header_len() + size);
        if self == Self::V2 {
            out.put_u16(2);
            out.put_u16(TYPE_OPUS);
            out.put_u32(0);
            out.put_u32(packet.timestamp_ms);
            out.put_u32(u32::try_from(size).unwrap_or(u32::MAX));
        } else {
            out.put_u8(0);
            out.put_u8(0);
            out.put_u16(u16::try_from(size).unwrap_or(u16::MAX));
        }
        out.put_slice(&packet.opus);
        out.freeze()
    }
}

fn need(what: &'static str, need: usize, have: usize) -> Result<(), DecodeError> {
    if have < need { Err(DecodeError::Short { what, need, have }) } else { Ok(()) }
}

fn opus_type(value: u16) -> Result<(), DecodeError> {
    if value == TYPE_OPUS {
        return Ok(());
    }
    Err(DecodeError::Header { what: "payload type", value: value.into() })
}

fn payload(message: &Bytes, start: usize, size: usize) -> Result<Bytes, DecodeError> {
    let have = message.len() - start;
    need("payload", size, have)?;
    Ok(message.slice(start..start + size))
}

fn be_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_malformed_header_has_its_error() {
        let short = Framing::V3.decode(&Bytes::from_static(&[0, 0, 0, 9, 1]));
        assert_eq!(short, Err(DecodeError::Short { what: "payload", need: 9, have: 1 }));
        let json = Framing::V3.decode(&Bytes::from_static(&[1, 0, 0, 0]));
        assert_eq!(json, Err(DecodeError::Header { what: "payload type", value: 1 }));
        let version = Framing::V2.decode(&Bytes::from(vec![0; 16]));
        assert_eq!(version, Err(DecodeError::Header { what: "v2 version", value: 0 }));
    }

    fn framings() -> impl Strategy<Value = Framing> {
        prop_oneof![Just(Framing::V1), Just(Framing::V2), Just(Framing::V3)]
    }

    proptest! {
        #[test]
        fn packets_round_trip(framing in framings(), opus in prop::collection::vec(any::<u8>(), 0..1500), stamp: u32) {
            let timestamp_ms = if framing == Framing::V2 { stamp } else { 0 };
            let packet = AudioPacket { opus: opus.into(), timestamp_ms };
            prop_assert_eq!(framing.decode(&framing.encode(&packet)), Ok(packet));
        }

        #[test]
        fn any_bytes_decode_or_fail(framing in framings(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let message = Bytes::from(bytes);
            if let Ok(packet) = framing.decode(&message) {
                prop_assert!(packet.opus.len() <= message.len());
            }
        }
    }
}
