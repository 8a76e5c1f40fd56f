//! Sound in files: detection of formats by their first bytes, and repair of WAV files whose header
//! was written before their size was known. Not for decoding.

use std::borrow::Cow;

/// Signatures of formats other than WAV: offset, bytes, name. Each has at least three bytes with
/// which raw samples hardly start.
const OTHERS: [(usize, &[u8], &str); 35] = [
    (0, b"OggS", "Ogg"),
    (0, b"fLaC", "FLAC"),
    (0, b"ID3", "MP3"),
    (0, b"APETAGEX", "MP3"),
    (0, b"\x1a\x45\xdf\xa3", "WebM"),
    (4, b"ftyp", "MP4"),
    (0, b"#!AMR", "AMR"),
    (0, b"#!SILK", "SILK"),
    (0, b"\x02#!SILK", "SILK"),
    (0, b"FORM", "AIFF"),
    (0, b"caff", "CAF"),
    (0, b"RF64", "RF64"),
    (0, b"BW64", "BW64"),
    (0, b"RIFX", "RIFX"),
    (0, b"riff\x2e\x91\xcf\x11", "Wave64"),
    (0, b".snd", "AU"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "WMA"),
    (0, b"ADIF", "AAC"),
    (0, b"wvpk", "WavPack"),
    (0, b"MAC ", "Monkey's Audio"),
    (0, b"TTA1", "TTA"),
    (0, b"DSD ", "DSD"),
    (0, b"MThd", "MIDI"),
    (0, b"FLV\x01", "FLV"),
    (0, b"\x1f\x8b\x08", "gzip"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard"),
    (0, b"\xfd7zXZ\0", "xz"),
    (0, b"7z\xbc\xaf\x27\x1c", "7z"),
    (0, b"PK\x03\x04", "zip"),
    (0, b"%PDF", "PDF"),
    (0, b"\x89PNG\r\n", "PNG"),
    (0, b"\xff\xd8\xff\xe0", "JPEG"),
    (0, b"\xff\xd8\xff\xe1", "JPEG"),
    (0, b"GIF8", "GIF"),
    (8, b"WEBP", "WebP"),
];
/// Bytes of a WAV file before its first chunk, and of a chunk before its content.
const RIFF: usize = 12;
const CHUNK: usize = 8;

/// Returns the format of a file with these first bytes; `None` for WAV files, raw samples and
/// unknown formats.
pub fn other_format(head: &[u8]) -> Option<&'static str> {
    let found = OTHERS.iter().find(|(place, beginning, _)| {
        head.get(*place..).is_some_and(|head| head.starts_with(beginning))
    });
    found.map(|(_, _, name)| *name)
}

/// Like [`other_format`], for a file that should be WAV or text: also detects MP3 without a tag,
/// whose first bytes may be samples as well.
pub fn other_file_format(head: &[u8]) -> Option<&'static str> {
    let is_mp3 = head.starts_with(b"\xff\xfb") || head.starts_with(b"\xff\xf3");
    other_format(head).or(is_mp3.then_some("MP3"))
}

/// Fills in the size of the samples of a WAV file if its header has none: a program that writes to
/// a pipe does not know the size, and writes 0 or FFFFFFFF.
pub fn with_size(file: &[u8]) -> Cow<'_, [u8]> {
    let Some(at) = unknown_size(file) else { return Cow::Borrowed(file) };
    let mut sized = file.to_vec();
    let samples = sized.len() - at - 4;
    // An incomplete sample at the end is dropped.
    let samples = samples - samples % block(file);
    sized.truncate(at + 4 + samples);
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
    sized[at..at + 4].copy_from_slice(&size(samples));
    let whole = size(sized.len() - CHUNK);
    sized[4..8].copy_from_slice(&whole);
    Cow::Owned(sized)
}

/// Returns the offset of the samples' size if the header has none.
fn unknown_size(file: &[u8]) -> Option<usize> {
    if !file.starts_with(b"RIFF") || file.get(8..RIFF) != Some(b"WAVE") {
        return None;
    }
    let mut at = RIFF;
    loop {
        let name = file.get(at..at + 4)?;
        let size = u32::from_le_bytes(file.get(at + 4..at + CHUNK)?.try_into().ok()?);
        if name == b"data" {
            return matches!(size, 0 | u32::MAX).then_some(at + 4);
        }
        let size = usize::try_from(size).ok()?;
        at = at.checked_add(CHUNK)?.checked_add(size)?.checked_add(size % 2)?;
    }
}

/// Returns the size of one sample of all channels, in bytes.
fn block(file: &[u8]) -> usize {
    let format = file.windows(4).position(|name| name == b"fmt ");
    let block = format.and_then(|at| file.get(at + CHUNK + 12..at + CHUNK + 14));
    block.map_or(1, |block| usize::from(u16::from_le_bytes([block[0], block[1]])).max(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wav(size: u32, samples: usize) -> Vec<u8> {
        let mut file =
            b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0"
                .to_vec();
        file.extend(b"LIST\x03\0\0\0abc\0data");
        file.extend(size.to_le_bytes());
        file.extend(std::iter::repeat_n(7, samples));
        file
    }

    #[test]
    fn an_unknown_size_is_taken_from_the_file() {
        let known = wav(6, 6);
        assert_eq!(with_size(&known), known);
        for unknown in [0, u32::MAX] {
            let sized = with_size(&wav(unknown, 7)).into_owned();
            assert_eq!(sized[sized.len() - 10..sized.len() - 6], 6_u32.to_le_bytes());
            assert_eq!(
                u32::from_le_bytes(sized[4..8].try_into().unwrap()) as usize,
                sized.len() - 8
            );
        }
        assert_eq!(with_size(&wav(9, 6)), wav(9, 6), "a truncated file is unchanged");
    }

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        for (head, name) in [
            (&b"ID3\x04"[..], Some("MP3")),
            (b"OggS", Some("Ogg")),
            (b"\0\0\0\x18ftypM4A", Some("MP4")),
            (b".snd\0\0\0\x18", Some("AU")),
            (b"\x1f\x8b\x08\0", Some("gzip")),
            (b"\x02#!SILK_V3", Some("SILK")),
            (b"RIFX\0\0\0\0WAVE", Some("RIFX")),
            (b"riff\x2e\x91\xcf\x11", Some("Wave64")),
            (b"RIFF", None),
            (b"RIFF\0\0\0\0WAVEfmt ", None),
            (b"\xff\xd8\xff\xff", None),
            (b"\x1f\x8b\x09\0", None),
            (b"{\"a\"", None),
            (b"", None),
        ] {
            assert_eq!(other_format(head), name, "{head:?}");
        }
        let untagged = b"\xff\xfb\x90\x64";
        assert_eq!((other_format(untagged), other_file_format(untagged)), (None, Some("MP3")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_handled(bytes in proptest::collection::vec(any::<u8>(), 0..80), begin in 0_usize..60) {
            let mut file = wav(0, 9);
            file.truncate(begin);
            file.extend(bytes);
            prop_assert!(with_size(&file).len() <= file.len());
            other_format(&file);
        }
    }
}
