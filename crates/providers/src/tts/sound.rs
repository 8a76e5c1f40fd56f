//! Samples from a synthesiser's answer, which is raw PCM or WAV files, whatever was requested. Other formats, and text,
//! are detected by their first bytes: they are never played. Not for the transport of the bytes.

use bytes::{Buf as _, BytesMut};
use hearken_audio::files::other_format;
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

/// Format of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleFormat {
    pub(super) rate_hz: u32,
    pub(super) stereo: bool,
}

/// Converter from the bytes of one answer, cut anywhere, to samples. Some servers send a WAV file for each sentence, one
/// behind the other, or write the size of the first piece into the header of all: what follows is played, too.
#[derive(Debug)]
pub(super) struct Sound {
    /// Format of samples without a header.
    raw: SampleFormat,
    /// Bytes that are not decided yet, or half of a sample.
    held: BytesMut,
    place: Place,
}

/// Place in the answer.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Before a header, or samples without one.
    Begin,
    /// In samples. `left` is the number of bytes that are still to come, if a header says so.
    Samples { format: SampleFormat, left: Option<usize> },
    /// Behind samples whose size was told.
    Behind(SampleFormat),
    /// In a chunk of this size that is no sound.
    Chunk { left: usize, format: SampleFormat },
}

/// Result of parsing the first bytes.
enum Header {
    /// Undecided: more bytes are needed.
    More,
    /// These samples begin at this offset, and have so many bytes, if that is told.
    Begins { format: SampleFormat, left: Option<usize>, at: usize },
    /// There is none.
    Missing,
}

impl Sound {
    /// Creates the converter of an answer whose samples have this format if they have no header.
    pub(super) fn new(raw: SampleFormat) -> Self {
        Self { raw, held: BytesMut::new(), place: Place::Begin }
    }

    /// Adds bytes and returns the samples that are now complete.
    ///
    /// # Errors
    /// See [`Unplayable`].
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Pcm>, Unplayable> {
        self.held.extend_from_slice(bytes);
        self.read(false)
    }

    /// Ends the answer: returns what was not decided until now. Half a sample is dropped.
    ///
    /// # Errors
    /// See [`Unplayable`].
    pub(super) fn finish(&mut self) -> Result<Vec<Pcm>, Unplayable> {
        self.read(true)
    }

    fn read(&mut self, end: bool) -> Result<Vec<Pcm>, Unplayable> {
        let mut made = Vec::new();
        while !self.held.is_empty() {
            let goes_on = match self.place {
                Place::Begin => self.begin(end)?,
                Place::Samples { format, left } => self.samples(format, left, end, &mut made),
                Place::Behind(format) => self.behind(format, end),
                Place::Chunk { left, format } => {
                    let skipped = left.min(self.held.len());
                    self.held.advance(skipped);
                    let left = left - skipped;
                    self.place = if left == 0 {
                        Place::Behind(format)
                    } else {
                        Place::Chunk { left, format }
                    };
                    true
                }
            };
            if !goes_on {
                break;
            }
        }
        Ok(made)
    }

    fn begin(&mut self, end: bool) -> Result<bool, Unplayable> {
        let (format, left, at) = match parse_header(&self.held, end, self.raw)? {
            Header::More if !end => return Ok(false),
            Header::Begins { format, left, at } => (format, left, at),
            // A header without its samples.
            Header::More if self.held.starts_with(b"RIFF") => (self.raw, None, self.held.len()),
            Header::More | Header::Missing => (self.raw, None, 0),
        };
        self.held.advance(at);
        self.place = Place::Samples { format, left };
        Ok(true)
    }

    /// Reads samples up to their end, or up to another header.
    fn samples(
        &mut self,
        format: SampleFormat,
        left: Option<usize>,
        end: bool,
        made: &mut Vec<Pcm>,
    ) -> bool {
        let most = self.held.len().min(left.unwrap_or(usize::MAX));
        if let Some(at) = (0..most).find(|at| is_riff(&self.held[*at..])) {
            self.emit(at, format, made);
            self.held.advance(at % format.frame_bytes());
            self.place = Place::Begin;
            return true;
        }
        let undecided = if end { 0 } else { riff_begun(&self.held) };
        let ready = most.min(self.held.len() - undecided);
        let emitted = self.emit(ready, format, made);
        let left = left.map(|left| left - emitted);
        self.place = Place::Samples { format, left };
        // Half a sample at the end of what was told is none.
        match left {
            Some(left) if left < format.frame_bytes() && left <= self.held.len() => {
                self.held.advance(left);
                self.place = Place::Behind(format);
                true
            }
            _ => false,
        }
    }

    /// Returns the bytes of the whole samples among the first ones, which it adds.
    fn emit(&mut self, bytes: usize, format: SampleFormat, made: &mut Vec<Pcm>) -> usize {
        let whole = bytes - bytes % format.frame_bytes();
        let mut samples = samples(&self.held.split_to(whole));
        if format.stereo {
            let mix = |pair: &[i16]| i16::midpoint(pair[0], pair[1]);
            samples = samples.chunks_exact(2).map(mix).collect();
        }
        if !samples.is_empty() {
            made.push(Pcm { samples, sample_rate_hz: format.rate_hz });
        }
        whole
    }

    /// Decides what stands behind the samples of a file.
    fn behind(&mut self, format: SampleFormat, end: bool) -> bool {
        if self.held.len() < RIFF && !end {
            return false;
        }
        self.place = match chunk_behind(&self.held) {
            _ if is_riff(&self.held) => Place::Begin,
            Some(left) => Place::Chunk { left, format },
            None => Place::Samples { format, left: None },
        };
        true
    }
}

impl SampleFormat {
    fn frame_bytes(self) -> usize {
        if self.stereo { 4 } else { 2 }
    }
}

fn is_riff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..RIFF) == Some(b"WAVE".as_slice())
}

/// Returns the number of last bytes with which a header may begin.
fn riff_begun(bytes: &[u8]) -> usize {
    let may_begin = |length: &usize| {
        let tail = &bytes[bytes.len() - length..];
        let name = &tail[..tail.len().min(4)];
        b"RIFF".starts_with(name) && tail.get(8..).is_none_or(|kind| b"WAVE".starts_with(kind))
    };
    (1..RIFF.min(bytes.len() + 1)).rev().find(may_begin).unwrap_or(0)
}

/// Returns the size of the chunk that begins here, its head included, if it is one that stands behind samples.
fn chunk_behind(bytes: &[u8]) -> Option<usize> {
    const KNOWN: [&[u8]; 12] = [
        b"LIST", b"id3 ", b"ID3 ", b"bext", b"fact", b"cue ", b"smpl", b"inst", b"JUNK", b"junk",
        b"PAD ", b"iXML",
    ];
    let name = bytes.get(..4)?;
    let size = bytes.get(4..8)?;
    let size = usize::try_from(u32::from_le_bytes([size[0], size[1], size[2], size[3]])).ok()?;
    KNOWN.contains(&name).then(|| 8 + size + size % 2)
}

/// So many letters in a row are no samples.
const TEXT: usize = 32;

/// Detects the format of an answer by its first bytes. `end`: there are no more.
fn parse_header(head: &[u8], end: bool, raw: SampleFormat) -> Result<Header, Unplayable> {
    if let Some(name) = other_format(head) {
        return Err(Unplayable::Format(name));
    }
    let letters = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let text = head.iter().take_while(|byte| letters(byte)).count();
    let opens = head.trim_ascii_start().first().is_some_and(|byte| b"{[<".contains(byte));
    if text >= TEXT || (end && text == head.len() && opens) {
        return Err(Unplayable::Format("text"));
    }
    match head {
        _ if head.len() < RIFF => Ok(Header::More),
        [b'R', b'I', b'F', b'F', ..] if is_riff(head) => wav(head),
        // It may be text, as long as there are letters alone.
        _ if text == head.len() && !end => Ok(Header::More),
        _ => match frame(head) {
            None => Ok(Header::Missing),
            // Samples can look like the header of one frame, but not also like the header of the
            // next.
            Some((name, length)) => match head.get(length..length + 6) {
                None => Ok(Header::More),
                Some(next) if frame(next).is_some() => Err(Unplayable::Format(name)),
                Some(_) => Ok(Header::Begins { format: raw, left: None, at: 0 }),
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
            (b"data", Some(format)) => {
                // A streaming encoder does not know the length yet.
                let left = Some(length).filter(|_| size != 0 && size < 0x7fff_0000);
                return Ok(Header::Begins { format, left, at: body });
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
                shape = Some(SampleFormat { rate_hz, stereo: channels == 2 });
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

    /// What is agreed on.
    const RAW: SampleFormat = SampleFormat { rate_hz: 24_000, stereo: false };

    /// Returns the samples and their rate, for bytes cut into pieces of this size.
    fn played(bytes: &[u8], size: usize) -> Result<(Vec<i16>, u32), Unplayable> {
        let mut sound = Sound::new(RAW);
        let mut all = Vec::new();
        let mut rate = 0;
        let mut add = |pieces: Vec<Pcm>| {
            for pcm in pieces {
                all.extend_from_slice(&pcm.samples);
                rate = pcm.sample_rate_hz;
            }
        };
        for piece in bytes.chunks(size) {
            add(sound.take(piece)?);
        }
        add(sound.finish()?);
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
    fn files_one_behind_the_other_are_one_sound() {
        let speech: Vec<i16> = (0..500).map(|n| n * 60 - 15_000).collect();
        let twice = [speech.clone(), speech.clone()].concat();
        let list = b"LIST\x04\0\0\0abcd".as_slice();
        let told = file(1, 16_000, 1_000, b"", &speech);
        let endless = file(1, 16_000, u32::MAX, b"", &speech);
        let raw: Vec<u8> = speech.iter().flat_map(|s| s.to_le_bytes()).collect();
        for size in [1, 7, 44, 10_000] {
            for parts in
                [[&told[..], &told], [&endless, &endless], [&endless, &told], [&told, &raw]]
            {
                assert_eq!(
                    played(&parts.concat(), size).unwrap(),
                    (twice.clone(), 16_000),
                    "{size}"
                );
            }
            let apart = [&told, list, &told].concat();
            assert_eq!(played(&apart, size).unwrap(), (twice.clone(), 16_000), "{size}");
            let mut slower = Sound::new(RAW);
            let rates =
                slower.take(&[told.clone(), file(1, 8_000, 1_000, b"", &speech)].concat()).unwrap();
            assert_eq!(
                rates.iter().map(|pcm| pcm.sample_rate_hz).collect::<Vec<_>>(),
                [16_000, 8_000]
            );
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
            (b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\xf7\x81".to_vec(), "WebM"),
            (b"\0\0\0\x20ftypM4A \0\0\0\0".to_vec(), "MP4"),
            (b"#!AMR\n\x3c\x91\x17\x16\xbe\x66".to_vec(), "AMR"),
            (b"{\"error\":{\"message\":\"no such voice\"}}".to_vec(), "text"),
            (b"{\"error\": 1}".to_vec(), "text"),
            (b"<html><head><title>502 Bad Gateway</title></head></html>".to_vec(), "text"),
            (b"The service is temporarily unavailable.".to_vec(), "text"),
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
        fn a_header_may_come_anywhere(
            before in prop::collection::vec(any::<i16>(), 40..100),
            behind in prop::collection::vec(any::<i16>(), 0..100),
            size in 1_usize..200,
        ) {
            let mut bytes: Vec<u8> = before.iter().flat_map(|s| s.to_le_bytes()).collect();
            bytes.extend(file(1, 24_000, u32::MAX, b"", &behind));
            let both = [before, behind].concat();
            prop_assert_eq!(played(&bytes, size), Ok((both, 24_000)));
        }

        #[test]
        fn anything_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200), wav in any::<bool>()) {
            let head: &[u8] = if wav { b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0" } else { b"" };
            drop(played(&[head, &bytes].concat(), 7));
        }
    }
}
