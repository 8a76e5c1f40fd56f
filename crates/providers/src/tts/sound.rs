//! Samples from a synthesiser's answer: raw PCM or WAV files, whatever was requested. Other
//! formats, and text, are detected by their first bytes and never played. Not for the transport of
//! the bytes.

mod frames;
mod text;

use bytes::{Buf as _, BytesMut};
use hearken_audio::files::other_format;
use hearken_ports::Pcm;

use self::frames::{Framed, frame, framed};
use self::text::{OPENED, is_text, opens_text};
use super::{SAMPLE_RATES_HZ, samples};

/// Maximum size of a header, in bytes, and maximum number of its chunks. With more, the answer is
/// not a WAV file.
const MAX_HEADER: usize = 4 << 20;
const MAX_CHUNKS: usize = 64;
/// Maximum sample rate of a WAV file, in Hz. Rates above [`SAMPLE_RATES_HZ`] are reduced to that
/// range.
const MAX_WAV_RATE_HZ: u32 = 192_000;
/// Maximum size of a chunk of an unknown name that is skipped after samples, in bytes: such as a
/// manifest with pictures.
const MAX_UNKNOWN_CHUNK: usize = 4 << 20;
/// Maximum number of zero bytes before the first frame of a compressed format. More are silence.
const MAX_ZEROS: usize = 1 << 10;
/// Format name of text in an error.
const TEXT: &str = "text";
/// Bytes of a WAV file before its first chunk.
const RIFF: usize = 12;

/// Reason that an answer cannot be played.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Unplayable {
    /// It is not PCM.
    #[error("the answer is {0}, not PCM: set the voice service to `pcm` or `wav`")]
    Format(&'static str),
    /// Its content type is not that of PCM, and it is not a WAV file.
    #[error("the answer is {0}, not PCM: set the voice service to `pcm` or `wav`")]
    Kind(String),
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

/// Converter from the bytes of one answer, split anywhere, to samples. Some servers send a WAV file
/// for each sentence, one after the other, or write the size of the first piece into the header of
/// the whole: the data after it are played, too.
#[derive(Debug)]
pub(super) struct Sound {
    /// Format of samples without a header.
    raw: SampleFormat,
    /// Content type, if it is not that of PCM: then only a WAV file is played.
    other_kind: Option<String>,
    /// Undecided bytes, or half of a sample.
    held: BytesMut,
    place: Place,
}

/// Place in the answer.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Before a header, or samples without one.
    Begin,
    /// In samples. `left` is the number of bytes that are still to come, if a header declares it.
    Samples { format: SampleFormat, left: Option<usize> },
    /// After samples of a declared size.
    Behind(SampleFormat),
    /// In a chunk of this size that is not sound.
    Chunk { left: usize, format: SampleFormat },
}

/// Result of parsing the first bytes.
enum Header {
    /// Undecided: more bytes are needed.
    More,
    /// These samples start at this offset. `left` is their declared size in bytes, if any.
    Begins { format: SampleFormat, left: Option<usize>, at: usize },
    /// No header.
    Missing,
}

impl Sound {
    /// Creates the converter of an answer whose samples have this format if they have no header.
    pub(super) fn new(raw: SampleFormat) -> Self {
        Self { raw, other_kind: None, held: BytesMut::new(), place: Place::Begin }
    }

    /// Plays only a WAV file, because of this content type.
    pub(super) fn only_wav(self, kind: &str) -> Self {
        Self { other_kind: Some(kind.to_owned()), ..self }
    }

    /// Adds bytes and returns the samples that are now complete.
    ///
    /// # Errors
    /// See [`Unplayable`].
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Pcm>, Unplayable> {
        // Some services send the text of an error after the samples.
        if matches!(self.place, Place::Samples { .. }) && opens_text(bytes) {
            return Err(Unplayable::Format(TEXT));
        }
        self.held.extend_from_slice(bytes);
        self.read(false)
    }

    /// Ends the answer: returns the samples that were undecided. Half a sample is dropped.
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
        Ok(joined(made))
    }

    fn begin(&mut self, end: bool) -> Result<bool, Unplayable> {
        let header = parse_header(&self.held, end).map_err(|why| match &self.other_kind {
            Some(kind) if why == Unplayable::Format(TEXT) => Unplayable::Kind(kind.clone()),
            _ => why,
        })?;
        let (format, left, at) = match header {
            Header::More if !end => return Ok(false),
            Header::Begins { format, left, at } => (format, left, at),
            // A header without its samples.
            Header::More if self.held.starts_with(b"RIFF") => (self.raw, None, self.held.len()),
            Header::More | Header::Missing => match &self.other_kind {
                None => (self.raw, None, 0),
                Some(kind) => {
                    let name = frame(&self.held).map(|frame| Unplayable::Format(frame.name));
                    return Err(name.unwrap_or_else(|| Unplayable::Kind(kind.clone())));
                }
            },
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
        // Half a sample at the end of the declared size is dropped.
        match left {
            Some(left) if left < format.frame_bytes() && left <= self.held.len() => {
                self.held.advance(left);
                self.place = Place::Behind(format);
                true
            }
            _ => false,
        }
    }

    /// Appends the whole samples within the first `bytes`, and returns their size in bytes.
    fn emit(&mut self, bytes: usize, format: SampleFormat, made: &mut Vec<Pcm>) -> usize {
        let whole = bytes - bytes % format.frame_bytes();
        let mut samples = samples(&self.held.split_to(whole));
        let group = format.frame_bytes() / 2;
        if group > 1 {
            samples = samples.chunks_exact(group).map(mean).collect();
        }
        if !samples.is_empty() {
            made.push(Pcm { samples, sample_rate_hz: format.rate_hz / format.step() });
        }
        whole
    }

    /// Classifies the data after the samples of a file.
    fn behind(&mut self, format: SampleFormat, end: bool) -> bool {
        if self.held.len() < OPENED.max(RIFF) && !end {
            return false;
        }
        self.place = match chunk_behind(&self.held) {
            _ if is_riff(&self.held) => Place::Begin,
            // The sound is complete: text after it is dropped.
            _ if opens_text(&self.held) => Place::Chunk { left: usize::MAX, format },
            Some(left) => Place::Chunk { left, format },
            None => Place::Samples { format, left: None },
        };
        true
    }
}

impl SampleFormat {
    /// Returns the number of consecutive input samples that are averaged into one.
    fn step(self) -> u32 {
        self.rate_hz.div_ceil(*SAMPLE_RATES_HZ.end()).max(1)
    }

    /// Returns the number of bytes that make one output sample.
    fn frame_bytes(self) -> usize {
        let frame = if self.stereo { 4 } else { 2 };
        usize::try_from(self.step()).map_or(frame, |step| frame * step)
    }
}

/// Joins consecutive pieces of one rate: a service may send files of a few samples each.
fn joined(pieces: Vec<Pcm>) -> Vec<Pcm> {
    let groups = pieces.chunk_by(|a, b| a.sample_rate_hz == b.sample_rate_hz);
    let join = |group: &[Pcm]| match group {
        [first, _, ..] => {
            let samples: Vec<i16> = group.iter().flat_map(|pcm| pcm.samples.to_vec()).collect();
            Some(Pcm { samples: samples.into(), ..*first })
        }
        _ => group.first().cloned(),
    };
    groups.filter_map(join).collect()
}

fn mean(samples: &[i16]) -> i16 {
    let sum: i64 = samples.iter().map(|sample| i64::from(*sample)).sum();
    let count = i64::try_from(samples.len()).unwrap_or(i64::MAX).max(1);
    i16::try_from(sum / count).unwrap_or_default()
}

fn is_riff(bytes: &[u8]) -> bool {
    bytes.starts_with(b"RIFF") && bytes.get(8..RIFF) == Some(b"WAVE".as_slice())
}

/// Returns the number of last bytes that may be the start of a header.
fn riff_begun(bytes: &[u8]) -> usize {
    let may_begin = |length: &usize| {
        let tail = &bytes[bytes.len() - length..];
        let name = &tail[..tail.len().min(4)];
        b"RIFF".starts_with(name) && tail.get(8..).is_none_or(|kind| b"WAVE".starts_with(kind))
    };
    (1..RIFF.min(bytes.len() + 1)).rev().find(may_begin).unwrap_or(0)
}

/// Returns the size of the chunk that starts here, header included, if it is one that follows
/// samples. Samples do not look like an unknown name and a size: that would take two loud ones made
/// of letters, and a quiet positive one after any other.
fn chunk_behind(bytes: &[u8]) -> Option<usize> {
    const KNOWN: [&[u8]; 12] = [
        b"LIST", b"id3 ", b"ID3 ", b"bext", b"fact", b"cue ", b"smpl", b"inst", b"JUNK", b"junk",
        b"PAD ", b"iXML",
    ];
    let name = bytes.get(..4)?;
    let size = bytes.get(4..8)?;
    let size = usize::try_from(u32::from_le_bytes([size[0], size[1], size[2], size[3]])).ok()?;
    let letters = |byte: &u8| byte.is_ascii_alphanumeric() || b"_- ".contains(byte);
    let is_name = name.iter().all(letters) && name.iter().any(u8::is_ascii_alphabetic);
    let is_chunk = KNOWN.contains(&name) || (is_name && size <= MAX_UNKNOWN_CHUNK);
    is_chunk.then(|| size.saturating_add(8 + size % 2))
}

/// Detects the format of an answer by its first bytes. `end`: there are no more.
fn parse_header(head: &[u8], end: bool) -> Result<Header, Unplayable> {
    if is_riff(head) {
        return wav(head);
    }
    if let Some(name) = other_format(head) {
        return Err(Unplayable::Format(name));
    }
    match is_text(head, end) {
        Some(true) => return Err(Unplayable::Format(TEXT)),
        // The text is undecided while there are only letters.
        None => return Ok(Header::More),
        Some(false) => {}
    }
    if head.len() < RIFF {
        return Ok(Header::More);
    }
    if head.starts_with(b"RIFF") {
        return Err(Unplayable::Format("RIFF without WAVE"));
    }
    let zeros = head.iter().take(MAX_ZEROS).take_while(|byte| **byte == 0).count();
    if zeros == MAX_ZEROS {
        return Ok(Header::Missing);
    }
    match framed(&head[zeros..]) {
        Framed::Yes(name) => Err(Unplayable::Format(name)),
        Framed::Undecided => Ok(Header::More),
        Framed::No => Ok(Header::Missing),
    }
}

/// Returns the format and the offset of a WAV file's samples.
fn wav(head: &[u8]) -> Result<Header, Unplayable> {
    let u16_at = |at: usize| head.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let u32_at =
        |at: usize| head.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut at = RIFF;
    let mut chunks = 0;
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
                // An extensible format has its encoding after the channel mask.
                let kind = match kind {
                    0xfffe if length < 26 => 1,
                    0xfffe => match u16_at(body + 24) {
                        Some(kind) => kind,
                        None => break,
                    },
                    kind => kind,
                };
                let known = kind == 1
                    && matches!(channels, 1 | 2)
                    && bits == 16
                    && (*SAMPLE_RATES_HZ.start()..=MAX_WAV_RATE_HZ).contains(&rate_hz);
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
        chunks += 1;
        if at > MAX_HEADER || chunks > MAX_CHUNKS {
            return Err(Unplayable::Wav("an endless header".into()));
        }
    }
    Ok(Header::More)
}

#[cfg(test)]
pub(super) mod tests;
