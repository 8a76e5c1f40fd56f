//! Approximate number of tokens of a text, for usage that a provider does not report. Not for the
//! usage itself.

use std::io;

use serde::Serialize;

/// Counter of characters in text that is written to it.
#[derive(Default)]
struct Characters {
    narrow: u64,
    wide: u64,
}

impl Characters {
    /// Returns the approximate number of tokens: one for each Chinese character, or for four
    /// letters.
    fn tokens(&self) -> u64 {
        self.wide + self.narrow.div_ceil(4)
    }
}

impl io::Write for Characters {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        for byte in text {
            match byte {
                0..=0x7F => self.narrow += 1,
                // The first byte of a character.
                0xC0.. => self.wide += 1,
                _ => {}
            }
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the approximate number of tokens of a text.
pub fn tokens_of_text(text: &str) -> u64 {
    let mut characters = Characters::default();
    // Counting does not fail.
    io::Write::write_all(&mut characters, text.as_bytes()).unwrap_or_default();
    characters.tokens()
}

/// Returns the approximate number of tokens of a value as JSON, as it is sent.
pub fn tokens_of_json(value: &impl Serialize) -> u64 {
    let mut characters = Characters::default();
    serde_json::to_writer(&mut characters, value).unwrap_or_default();
    characters.tokens()
}
