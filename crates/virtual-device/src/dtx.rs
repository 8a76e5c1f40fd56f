//! Discontinuous transmission, as the encoder of the boards does it: packets of silence shrink to
//! one byte or to nothing. Pure. Not for real Opus encoding.

use bytes::Bytes;

/// Silence begins to shrink after this many packets: 200 ms, as in libopus.
const AFTER: u32 = 4;
/// One packet in so many is whole, so that the other side's noise does not age: 400 ms.
const REFRESH: u32 = 7;
/// 16-bit samples below this are silence.
const SILENCE: u16 = 200;

/// Shrinks the silent ones of a series of packets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dtx {
    silent: u32,
}

impl Dtx {
    /// The packet that goes out for this one, which encodes `frame`: whole, its first byte, or
    /// nothing at all, which some boards send for every third.
    pub fn packet(&mut self, opus: Bytes, frame: &[i16]) -> Bytes {
        if frame.iter().any(|sample| sample.unsigned_abs() >= SILENCE) {
            self.silent = 0;
            return opus;
        }
        self.silent = self.silent.saturating_add(1);
        match self.silent.checked_sub(AFTER) {
            None => opus,
            Some(n) if n % REFRESH == REFRESH - 1 => opus,
            Some(n) if n % 3 == 2 => Bytes::new(),
            Some(_) => opus.slice(..opus.len().min(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_silence_shrinks_and_speech_does_not() {
        let mut dtx = Dtx::default();
        let opus = Bytes::from_static(&[24, 1, 2]);
        let mut sent = |loud: i16| dtx.packet(opus.clone(), &[0, loud, -3]).len();
        let lengths: Vec<_> = (0..12).map(|_| sent(10)).collect();
        assert_eq!(lengths, [3, 3, 3, 1, 1, 0, 1, 1, 0, 3, 1, 0]);
        assert_eq!(sent(-20_000), 3);
        assert_eq!(sent(0), 3, "a pause between words stays whole");
        assert_eq!(Dtx { silent: 90 }.packet(Bytes::new(), &[0]).len(), 0);
    }
}
