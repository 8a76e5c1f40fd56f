//! Discontinuous transmission (DTX) as in the encoder of the boards: packets of silence are reduced
//! to one byte or to none. Pure. Not for real Opus encoding.

use bytes::Bytes;

/// Number of silent packets before the reduction starts: 200 ms, as in libopus.
const AFTER: u32 = 4;
/// Interval of whole packets during silence, which update the comfort noise of the receiver: 400
/// ms.
const REFRESH: u32 = 7;
/// Level of 16-bit samples below which they are silence.
const SILENCE: u16 = 200;

/// Reducer of the silent packets of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dtx {
    silent: u32,
}

impl Dtx {
    /// Returns the packet to send in place of this one, which encodes `frame`: the whole packet,
    /// its first byte, or nothing, which some boards send for every third.
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
