//! What the fuzz targets of several crates share: how an input comes in pieces. Behind the feature
//! `fuzzing`; never in a server. Targets of private parts stand beside them, in files of this name.

use fastrand::Rng;

/// Cuts bytes into pieces of any length, also empty ones. The same bytes are always cut in the same
/// places.
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

/// Cuts a text into pieces, as [`pieces`] does, between its characters.
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

/// Returns a source of chance that these bytes decide.
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
