//! Random mutations of protocol messages: bits, pieces, repetitions, depth, numbers. A seed
//! determines a message. Coverage-guided mutation is up to the fuzz targets.

use std::path::PathBuf;

/// All messages and packets in a folder of `fixtures/wire`.
pub(super) fn goldens(folder: &str) -> Vec<Vec<u8>> {
    let folder = hearken_test_support::repository().join("fixtures/wire").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let read = |file: &PathBuf| {
        let bytes = std::fs::read(file).unwrap();
        match file.extension().and_then(|e| e.to_str()) {
            Some("json") => Some(bytes),
            Some("hex") => Some(unhex(&String::from_utf8(bytes).unwrap())),
            _ => None,
        }
    };
    files.iter().filter_map(read).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks_exact(2).map(pair).collect()
}

/// Random numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % (most.max(1) as u64)).unwrap()
    }
}

/// One of the goldens with one to four mutations, at most 64 KiB long.
pub(super) fn mutated(goldens: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = goldens[random.below(goldens.len())].clone();
    for _ in 0..=random.below(4) {
        change(&mut bytes, goldens, &mut random);
    }
    bytes.truncate(64 << 10);
    bytes
}

fn change(bytes: &mut Vec<u8>, goldens: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(8) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => {
            let piece = bytes[at..].to_vec();
            for _ in 0..random.below(64) {
                bytes.extend_from_slice(&piece[..piece.len().min(512)]);
            }
        }
        3 => {
            let other = &goldens[random.below(goldens.len())];
            bytes.splice(at.., other[random.below(other.len())..].iter().copied());
        }
        4 => {
            let nested = if random.below(2) == 0 { b"[".as_slice() } else { b"{\"a\":" };
            let deep = nested.repeat(1 + random.below(4_000));
            bytes.splice(at..at, deep);
        }
        5 => replace_a_number(bytes, random),
        6 => {
            let odd = ["\u{0}", "\u{fffd}", "\\u0000", "\\ud800", "1e999", "null", "\"\"", "-0"];
            bytes.splice(at..at, odd[random.below(odd.len())].bytes());
        }
        _ => drop(bytes.drain(at..(at + random.below(16)).min(bytes.len()))),
    }
}

/// Replaces a digit by an unusual number, if there is one.
fn replace_a_number(bytes: &mut Vec<u8>, random: &mut Random) {
    let digits: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i].is_ascii_digit()).collect();
    if digits.is_empty() {
        return;
    }
    let at = digits[random.below(digits.len())];
    let odd =
        ["-1", "0", "4294967296", "18446744073709551616", "1e308", "0.1", "-9223372036854775809"];
    bytes.splice(at..=at, odd[random.below(odd.len())].bytes());
}

#[test]
fn a_seed_determines_its_message() {
    let goldens = goldens("gateway/read");
    assert!(goldens.len() > 30);
    let messages: std::collections::HashSet<_> = (0..1_000).map(|n| mutated(&goldens, n)).collect();
    assert!(messages.len() > 800, "{}", messages.len());
    assert_eq!(mutated(&goldens, 7), mutated(&goldens, 7));
}
