//! Shared code of the fuzz targets of several crates: splitting an input into pieces. Behind the
//! feature `fuzzing`; never in a server. Targets of private parts are in files of this name beside
//! those parts.

use fastrand::Rng;

/// Splits bytes into pieces of any length, including empty ones. The same bytes are always split in
/// the same way.
pub fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rng = rng(bytes);
    // Some inputs come in single bytes, others almost whole.
    let most = [1, 3, 16, 256, bytes.len().max(1)][rng.usize(..5)];
    let mut pieces = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rng.usize(..=most).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Splits a text into pieces, as [`pieces`] does, at character boundaries.
pub fn text_pieces(text: &str) -> Vec<&str> {
    let mut texts = Vec::new();
    let mut from = 0;
    let mut at = 0;
    for piece in pieces(text.as_bytes()) {
        at += piece.len();
        if text.is_char_boundary(at) {
            texts.push(&text[from..at]);
            from = at;
        }
    }
    texts
}

/// Returns a random generator that is seeded with these bytes.
pub fn rng(bytes: &[u8]) -> Rng {
    // FNV-1a.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::with_seed(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_whole_and_always_the_same() {
        for text in ["", "a", "你好", "a longer text with 一些 letters, which is cut somewhere"]
        {
            assert_eq!(pieces(text.as_bytes()).concat(), text.as_bytes());
            assert_eq!(text_pieces(text).concat(), text);
            assert_eq!(pieces(text.as_bytes()), pieces(text.as_bytes()));
        }
    }
}
