//! Samples from a synthesiser's answer, which is raw PCM or a WAV file, whatever was requested.
//! Other formats are detected by their first bytes. Not for the transport of the bytes.

use bytes::{Buf as _, BytesMut};
use hearken_ports::Pcm;

use super::{SAMPLE_RATES_HZ, samples};

/// Longest header, in bytes. With a longer one, the answer is no WAV file.
const MAX_HEADER: usize = 64 << 10;
/// Bytes of a WAV file before its first chunk.
const RIFF: usize = 12;

/// Reason that an answer cannot be played.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Unplayable {
    /// It is not PCM.
    #[error("the answer is {0}, not PCM: set the voice service to `pcm` or `wav`")]
    Format(&'static str),
    /// It is a WAV file in an unsupported encoding.
    #[error("the answer is a WAV file with {0}, not 16-bit PCM of one or two channels")]
    Wav(String),
}

/// Converter from the bytes of one answer, cut anywhere, to samples.
#[derive(Debug, Default)]
pub(super) struct Sound {
    /// Bytes whose format is unknown yet, or half of a sample.
    held: BytesMut,
    shape: Shape,
}

#[derive(Debug, Default, Clone, Copy)]
enum Shape {
    /// Not known yet.
    #[default]
    Unknown,
    /// s16le mono, at the agreed rate.
    Raw,
    /// Samples of a WAV file. `left` is the number of bytes still to come, if the file says so.
    Wav { rate_hz: u32, stereo: bool, left: Option<usize> },
}

/// Result of parsing the first bytes.
enum Header {
    /// Undecided: more bytes are needed.
    More,
    /// Samples of this format begin at this offset.
    Begins(Shape, usize),
}

impl Sound {
    /// Adds bytes and returns the samples that are now complete. `rate_hz` is the rate of raw PCM.
    ///
    /// # Errors
    /// See [`Unplayable`].
    pub(super) fn take(&mut self, bytes: &[u8], rate_hz: u32) -> Result<Option<Pcm>, Unplayable> {
        self.held.extend_from_slice(bytes);
        if let Shape::Unknown = self.shape {
            match parse_header(&self.held)? {
                Header::More => return Ok(None),
                Header::Begins(shape, at) => {
                    self.held.advance(at);
                    self.shape = shape;
                }
            }
        }
        Ok(self.whole(rate_hz))
    }

    /// Ends the answer: returns samples of an answer too short to detect its format. An odd byte is
    /// dropped.
    pub(super) fn finish(&mut self, rate_hz: u32) -> Option<Pcm> {
        if let Shape::Unknown = self.shape {
            self.shape = Shape::Raw;
            if self.held.starts_with(b"RIFF") {
                self.held.clear();
            }
        }
        self.whole(rate_hz)
    }

    fn whole(&mut self, raw_rate_hz: u32) -> Option<Pcm> {
        let (rate_hz, stereo, left) = match self.shape {
            Shape::Unknown => return None,
            Shape::Raw => (raw_rate_hz, false, None),
            Shape::Wav { rate_hz, stereo, left } => (rate_hz, stereo, left),
        };
        let mut bytes = self.held.len().min(left.unwrap_or(usize::MAX));
        bytes -= bytes % if stereo { 4 } else { 2 };
        let piece = self.held.split_to(bytes);
        if let Shape::Wav { left: Some(left), .. } = &mut self.shape {
            *left -= bytes;
            if *left < 2 {
                // Bytes after the samples are not audio.
                self.held.clear();
            }
        }
        let mut samples = samples(&piece);
        if stereo {
            let mix = |pair: &[i16]| i16::midpoint(pair[0], pair[1]);
            samples = samples.chunks_exact(2).map(mix).collect();
        }
        (!samples.is_empty()).then_some(Pcm { samples, sample_rate_hz: rate_hz })
    }
}

/// Detects the format of an answer by its first bytes.
fn parse_header(head: &[u8]) -> Result<Header, Unplayable> {
    match head {
        [] | [_] | [_, _] | [_, _, _] => Ok(Header::More),
        [0xff, ..] if head.len() < 6 => Ok(Header::More),
        [b'R', b'I', b'F', b'F', ..] => match head.get(8..RIFF) {
            None => Ok(Header::More),
            Some(b"WAVE") => wav(head),
            Some(_) => Ok(Header::Begins(Shape::Raw, 0)),
        },
        [b'O', b'g', b'g', b'S', ..] => Err(Unplayable::Format("Ogg")),
        [b'f', b'L', b'a', b'C', ..] => Err(Unplayable::Format("FLAC")),
        [b'I', b'D', b'3', ..] => Err(Unplayable::Format("MP3")),
        _ => match frame(head) {
            None => Ok(Header::Begins(Shape::Raw, 0)),
            // Samples can look like the header of one frame, but not also like the header of the
            // next.
            Some((name, length)) => match head.get(length..length + 6) {
                None => Ok(Header::More),
                Some(next) if frame(next).is_some() => Err(Unplayable::Format(name)),
                Some(_) => Ok(Header::Begins(Shape::Raw, 0)),
            },
        },
    }
}

/// Returns the format and length of the MP3 or AAC frame that begins here, if there is one.
fn frame(head: &[u8]) -> Option<(&'static str, usize)> {
    let &[0xff, second, third, fourth, ..] = head else { return None };
    match (second & 0xf6, second & 0xe6) {
        (0xf0, _) => {
            let length = usize::from(fourth & 3) << 11 | usize::from(*head.get(4)?) << 3;
            let length = length | usize::from(*head.get(5)?) >> 5;
            (length > 7 && third & 0x3c < 0x34).then_some(("AAC", length))
        }
        (_, 0xe2) => {
            const RATES_HZ: [usize; 3] = [44_100, 48_000, 32_000];
            const KBPS_1: [usize; 15] =
                [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
            const KBPS_2: [usize; 15] =
                [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
            let rate_hz = RATES_HZ.get(usize::from(third >> 2 & 3))?;
            let first = second & 0x18 == 0x18;
            let table = if first { KBPS_1 } else { KBPS_2 };
            let kbps = table.get(usize::from(third >> 4)).filter(|kbps| **kbps > 0)?;
            let (slots, rate_hz) = match second & 0x18 {
                0x18 => (144, *rate_hz),
                0x10 => (72, rate_hz / 2),
                0x00 => (72, rate_hz / 4),
                _ => return None,
            };
            Some(("MP3", slots * kbps * 1_000 / rate_hz + usize::from(third >> 1 & 1)))
        }
        _ => None,
    }
}

/// Returns the format and the offset of a WAV file's samples.
fn wav(head: &[u8]) -> Result<Header, Unplayable> {
    let u16_at = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let u32_at =
        |at: usize| head.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut at = RIFF;
    let mut shape = None;
    while let (Some(name), Some(size)) = (head.get(at..at + 4), u32_at(at + 4)) {
        let body = at + 8;
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        match (name, shape) {
            (b"data", Some((rate_hz, stereo))) => {
                // A streaming encoder does not know the length yet.
                let left = Some(length).filter(|_| size != 0 && size < 0x7fff_0000);
                return Ok(Header::Begins(Shape::Wav { rate_hz, stereo, left }, body));
            }
            (b"data", None) => return Err(Unplayable::Wav("no format".into())),
            (b"fmt ", _) => {
                let fields = (u16_at(body), u16_at(body + 2), u32_at(body + 4), u16_at(body + 14));
                let (Some(kind), Some(channels), Some(rate_hz), Some(bits)) = fields else { break };
                let known = matches!(kind, 1 | 0xfffe)
                    && matches!(channels, 1 | 2)
                    && bits == 16
                    && SAMPLE_RATES_HZ.contains(&rate_hz);
                if !known {
                    let told =
                        format!("format {kind}, {channels} channels, {bits} bits, {rate_hz} Hz");
                    return Err(Unplayable::Wav(told));
                }
                shape = Some((rate_hz, channels == 2));
            }
            _ => {}
        }
        at = body.saturating_add(length).saturating_add(length % 2);
        if at > MAX_HEADER {
            return Err(Unplayable::Wav("a header without end".into()));
        }
    }
    Ok(Header::More)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Builds a WAV file with a `data` chunk of this declared size, and `extra` chunks before it.
    pub(in crate::tts) fn file(
        channels: u16,
        rate_hz: u32,
        data: u32,
        extra: &[u8],
        samples: &[i16],
    ) -> Vec<u8> {
        let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
        file.extend(channels.to_le_bytes());
        file.extend(rate_hz.to_le_bytes());
        file.extend([0; 4]);
        file.extend([0, 0, 16, 0]);
        file.extend_from_slice(extra);
        file.extend(b"data");
        file.extend(data.to_le_bytes());
        file.extend(samples.iter().flat_map(|s| s.to_le_bytes()));
        file
    }

    /// Builds three frames of MP3 with these bytes in their headers.
    pub(in crate::tts) fn mp3(second: u8, third: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![0xff, second, third, 0];
        frame.resize(length, 0x55);
        frame.repeat(3)
    }

    /// Returns the samples and their rate, for bytes cut into pieces of this size.
    fn played(bytes: &[u8], size: usize) -> Result<(Vec<i16>, u32), Unplayable> {
        let mut sound = Sound::default();
        let mut all = Vec::new();
        let mut rate = 0;
        let mut add = |pcm: Option<Pcm>| {
            if let Some(pcm) = pcm {
                all.extend_from_slice(&pcm.samples);
                rate = pcm.sample_rate_hz;
            }
        };
        for piece in bytes.chunks(size) {
            add(sound.take(piece, 24_000)?);
        }
        add(sound.finish(24_000));
        Ok((all, rate))
    }

    #[test]
    fn a_wav_file_is_played_from_its_samples_at_its_rate() {
        let speech: Vec<i16> = (0..500).map(|n| n * 60 - 15_000).collect();
        let list = b"LIST\x03\0\0\0abc\0";
        for size in [1, 7, 44, 10_000] {
            let plain = file(1, 16_000, 1_000, b"", &speech);
            assert_eq!(played(&plain, size).unwrap(), (speech.clone(), 16_000), "{size}");
            let endless = file(1, 22_050, u32::MAX, list, &speech);
            assert_eq!(played(&endless, size).unwrap(), (speech.clone(), 22_050), "{size}");
            let mut with_more = file(1, 8_000, 1_000, list, &speech);
            with_more.extend(b"LIST\x04\0\0\0abcd");
            assert_eq!(played(&with_more, size).unwrap(), (speech.clone(), 8_000), "{size}");
            let both: Vec<i16> = speech.iter().flat_map(|s| [*s, *s]).collect();
            let stereo = file(2, 44_100, 2_000, b"", &both);
            assert_eq!(played(&stereo, size).unwrap(), (speech.clone(), 44_100), "{size}");
        }
    }

    #[test]
    fn other_formats_are_told_by_their_first_bytes() {
        let mut aac = vec![0xff, 0xf1, 0x50, 0x80, 0x0a, 0x00, 0xfc];
        aac.resize(80, 1);
        for (bytes, name) in [
            (b"OggS\0\x02\0\0\0\0\0\0\0\0".to_vec(), "Ogg"),
            (b"fLaC\0\0\0\x22\x10\0\x10\0\0\0".to_vec(), "FLAC"),
            (b"ID3\x04\0\0\0\0\0\x23TSSE".to_vec(), "MP3"),
            (mp3(0xfb, 0x90, 417), "MP3"),
            (mp3(0xf3, 0x84, 192), "MP3"),
            (aac.repeat(3), "AAC"),
        ] {
            for size in [1, 5, 10_000] {
                assert_eq!(played(&bytes, size), Err(Unplayable::Format(name)), "{size}");
            }
        }
        let eight_bits = file(1, 16_000, 4, b"", &[0; 4]);
        let eight_bits: Vec<u8> =
            eight_bits.iter().enumerate().map(|(n, b)| if n == 34 { 8 } else { *b }).collect();
        assert!(matches!(played(&eight_bits, 9), Err(Unplayable::Wav(_))));
        assert!(matches!(played(&file(1, 500, 4, b"", &[0; 4]), 9), Err(Unplayable::Wav(_))));
        let endless = b"RIFF\0\0\0\0WAVELIST\0\0\0\x40".repeat(2);
        assert!(matches!(played(&endless, 9), Err(Unplayable::Wav(_))));
    }

    proptest! {
        #[test]
        fn raw_samples_survive_any_cutting(
            samples in prop::collection::vec(any::<i16>(), 0..3_000),
            odd in any::<bool>(),
            size in 1_usize..5_000,
            looks_like in prop::sample::select(vec![0_i16, -1, -1_025, -3_585, 0x4952]),
        ) {
            let mut samples = samples;
            samples.insert(0, looks_like);
            let mut bytes: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
            bytes.extend(odd.then_some(7));
            prop_assert_eq!(played(&bytes, size), Ok((samples, 24_000)));
        }

        #[test]
        fn anything_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200), wav in any::<bool>()) {
            let head: &[u8] = if wav { b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0" } else { b"" };
            drop(played(&[head, &bytes].concat(), 7));
        }
    }
}
