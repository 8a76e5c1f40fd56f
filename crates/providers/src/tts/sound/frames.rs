//! Frames of compressed sound without a container, which have no signature at the beginning of the
//! answer: a single header may also be a sample, several at their distances may not. Not for
//! decoding.

/// First frame of an answer.
pub(super) struct Frame {
    /// Name of the format.
    pub(super) name: &'static str,
    /// Distance to the next frame, in bytes.
    length: usize,
    /// Number of further frames that are required, because the header alone may be a sample.
    more: usize,
}

/// Result of comparing bytes with frames.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Framed {
    /// These are frames of this format.
    Yes(&'static str),
    /// More bytes are needed.
    Undecided,
    /// Not frames.
    No,
}

/// Number of bytes that identify a header.
const HEADER: usize = 6;

/// Detects whether frames start here.
pub(super) fn framed(bytes: &[u8]) -> Framed {
    if bytes.len() < HEADER {
        return Framed::Undecided;
    }
    let Some(first) = frame(bytes) else { return Framed::No };
    let mut at = first.length;
    for _ in 0..first.more {
        let Some(next) = bytes.get(at..at + HEADER) else { return Framed::Undecided };
        match frame(next) {
            Some(next) if next.name == first.name => at += next.length,
            _ => return Framed::No,
        }
    }
    Framed::Yes(first.name)
}

/// Returns the frame that starts here, if there is one.
pub(super) fn frame(bytes: &[u8]) -> Option<Frame> {
    match *bytes.get(..HEADER)? {
        [0xff, second, third, fourth, fifth, sixth] => match second & 0xe6 {
            0xe0 if second & 0xf6 == 0xf0 => {
                let length = usize::from(fourth & 3) << 11 | usize::from(fifth) << 3;
                let length = length | usize::from(sixth) >> 5;
                let is_aac = length > 7 && third & 0x3c < 0x34;
                is_aac.then_some(Frame { name: "AAC", length, more: 1 })
            }
            0xe2 => mpeg(second, third).map(|length| Frame { name: "MP3", length, more: 1 }),
            0xe4 => mpeg(second, third).map(|length| Frame { name: "MP2", length, more: 1 }),
            _ => None,
        },
        [0x56, second, third, ..] if second & 0xe0 == 0xe0 => {
            let length = 3 + (usize::from(second & 0x1f) << 8 | usize::from(third));
            Some(Frame { name: "AAC in LATM", length, more: 2 })
        }
        // Neither damaged nor without content.
        [0x47, second, _, fourth, ..] if second & 0x80 == 0 && fourth & 0x30 != 0 => {
            Some(Frame { name: "MPEG-TS", length: 188, more: 2 })
        }
        _ => None,
    }
}

/// Returns the length of an MPEG frame of layer II or III.
fn mpeg(second: u8, third: u8) -> Option<usize> {
    const RATES_HZ: [usize; 3] = [44_100, 48_000, 32_000];
    const KBPS_1_3: [usize; 15] =
        [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
    const KBPS_1_2: [usize; 15] =
        [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384];
    const KBPS_2: [usize; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];
    let is_layer_3 = second & 0x06 == 0x02;
    let is_first = second & 0x18 == 0x18;
    let table = match (is_first, is_layer_3) {
        (true, true) => KBPS_1_3,
        (true, false) => KBPS_1_2,
        (false, _) => KBPS_2,
    };
    let slots = if is_first || !is_layer_3 { 144 } else { 72 };
    let rate_hz = *RATES_HZ.get(usize::from(third >> 2 & 3))?;
    let rate_hz = match second & 0x18 {
        0x18 => rate_hz,
        0x10 => rate_hz / 2,
        0x00 => rate_hz / 4,
        _ => return None,
    };
    let kbps = *table.get(usize::from(third >> 4)).filter(|kbps| **kbps > 0)?;
    Some(slots * kbps * 1_000 / rate_hz + usize::from(third >> 1 & 1))
}
