//! Reads and writes Ogg Opus files (RFC 7845), which any player opens. Not for decoding.

use std::io::{Cursor, Read, Seek};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use ogg::{PacketReader, PacketWriteEndInfo, PacketWriter};

use super::packet_length;

/// Rate of granule positions, for any rate of the stream (RFC 7845, section 4).
pub const GRANULE_RATE_HZ: u64 = 48_000;
/// Delay that a speech encoder of libopus adds, in samples: 6.5 ms.
pub const PRE_SKIP: u16 = 312;
/// Serial number of the stream; any number is valid in a file with one stream.
const SERIAL: u32 = 0x6865_6172;
const VENDOR: &str = "hearken";
/// Number of packets per page: about one second of 60 ms packets.
const PACKETS_PER_PAGE: usize = 16;

/// Contents of an Ogg Opus file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OggOpus {
    /// Sample rate of the audio before encoding, in Hz.
    pub input_rate_hz: u32,
    /// Number of samples, at 48 kHz, that the encoder put before the audio: a player drops them.
    pub pre_skip: u16,
    /// Comments, as `NAME=value` pairs.
    pub comments: Vec<(String, String)>,
    /// Opus packets.
    pub packets: Vec<Bytes>,
}

impl OggOpus {
    /// Returns the bytes of the file. Empty packets, which Ogg players refuse, become packets of
    /// one byte (DTX) of the same length.
    ///
    /// # Errors
    /// Fails if there are no packets, or the first is empty.
    pub fn render(&self) -> anyhow::Result<Vec<u8>> {
        let mut toc = match self.packets.first().and_then(|p| p.first()) {
            Some(toc) => *toc,
            None => bail!("no audio to write"),
        };
        let mut writer = PacketWriter::new(Cursor::new(Vec::new()));
        let page = PacketWriteEndInfo::EndPage;
        writer.write_packet(head(self.input_rate_hz, self.pre_skip), SERIAL, page, 0)?;
        let page = PacketWriteEndInfo::EndPage;
        writer.write_packet(tags(&self.comments), SERIAL, page, 0)?;
        let mut granule = 0;
        for (at, packet) in self.packets.iter().enumerate() {
            let bytes = if let Some(first) = packet.first() {
                toc = *first;
                packet.to_vec()
            } else {
                // The same length as the packet before: one frame, no data.
                vec![toc & !3]
            };
            let length = packet_length(&bytes).unwrap_or_default();
            granule += length.as_micros() as u64 * GRANULE_RATE_HZ / 1_000_000;
            let end = if at + 1 == self.packets.len() {
                PacketWriteEndInfo::EndStream
            } else if (at + 1).is_multiple_of(PACKETS_PER_PAGE) {
                PacketWriteEndInfo::EndPage
            } else {
                PacketWriteEndInfo::NormalPacket
            };
            writer.write_packet(bytes, SERIAL, end, granule)?;
        }
        Ok(writer.into_inner().into_inner())
    }

    /// Parses a file.
    ///
    /// # Errors
    /// Fails if it is not an Ogg file, or contains anything other than mono Opus.
    pub fn parse(input: impl Read + Seek) -> anyhow::Result<Self> {
        let mut reader = PacketReader::new(input);
        let mut next = || reader.read_packet().context("the Ogg file is damaged");
        let head = next()?.context("the Ogg file is empty")?.data;
        if !head.starts_with(b"OpusHead") || head.len() < 19 {
            bail!("the Ogg file does not hold Opus");
        }
        if head[9] != 1 {
            bail!("the Ogg file has {} channels; devices speak mono", head[9]);
        }
        let pre_skip = u16::from_le_bytes([head[10], head[11]]);
        let input_rate_hz = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        let comments = next()?.map(|tags| comments(&tags.data)).unwrap_or_default();
        let mut packets = Vec::new();
        while let Some(packet) = next()? {
            packets.push(Bytes::from(packet.data));
        }
        Ok(Self { input_rate_hz, pre_skip, comments, packets })
    }

    /// Returns the length of the longest packet.
    pub fn packet_length(&self) -> Option<Duration> {
        self.packets.iter().filter_map(|p| packet_length(p)).max()
    }
}

/// Returns the identification header (RFC 7845, section 5.1).
fn head(input_rate_hz: u32, pre_skip: u16) -> Vec<u8> {
    let mut head = b"OpusHead\x01\x01".to_vec();
    head.extend(pre_skip.to_le_bytes());
    head.extend(input_rate_hz.to_le_bytes());
    head.extend([0, 0, 0]);
    head
}

/// Returns the comment header (RFC 7845, section 5.2).
fn tags(comments: &[(String, String)]) -> Vec<u8> {
    let mut tags = b"OpusTags".to_vec();
    let put = |tags: &mut Vec<u8>, text: &str| {
        tags.extend((text.len() as u32).to_le_bytes());
        tags.extend(text.as_bytes());
    };
    put(&mut tags, VENDOR);
    tags.extend((comments.len() as u32).to_le_bytes());
    for (name, value) in comments {
        put(&mut tags, &format!("{name}={value}"));
    }
    tags
}

/// Parses the comments, up to the first invalid one.
fn comments(tags: &[u8]) -> Vec<(String, String)> {
    let read = || -> Option<Vec<(String, String)>> {
        let (_vendor, rest) = text(tags.strip_prefix(b"OpusTags")?)?;
        let (_count, mut rest) = rest.split_first_chunk::<4>()?;
        let mut found = Vec::new();
        while let Some((comment, after)) = text(rest) {
            rest = after;
            if let Some((name, value)) = comment.split_once('=') {
                found.push((name.to_uppercase(), value.to_owned()));
            }
        }
        Some(found)
    };
    read().unwrap_or_default()
}

/// Parses a text that is preceded by its length, and returns the rest of the bytes.
fn text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, after) = bytes.split_first_chunk::<4>()?;
    let (text, rest) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((String::from_utf8_lossy(text).into_owned(), rest))
}
