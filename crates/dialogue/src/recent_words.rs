//! The person's words of the last turns of a dialogue, whether these are remembered or not: rules
//! about people in danger read them. Not for the messages of a prompt: see [`crate::memory`].

use std::collections::VecDeque;

use hearken_ports::EarlierWords;
use tokio::time::Instant;

/// Maximum number of turns.
const MAX_TURNS: usize = 16;
/// Maximum size of all words, in bytes, unless those of one turn are larger.
const MAX_BYTES: usize = 16 << 10;

/// Words of the last turns, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RecentWords {
    words: VecDeque<String>,
    /// End of the last of these turns.
    ended: Option<Instant>,
}

impl RecentWords {
    /// Adds the words of a turn that is over. Forgets the oldest ones beyond the limits.
    pub(crate) fn add(&mut self, words: String) {
        if words.trim().is_empty() {
            return;
        }
        self.words.push_back(words);
        self.ended = Some(Instant::now());
        while self.is_too_long() {
            self.words.pop_front();
        }
    }

    fn is_too_long(&self) -> bool {
        let bytes = self.words.iter().map(String::len).sum::<usize>();
        self.words.len() > MAX_TURNS || (self.words.len() > 1 && bytes > MAX_BYTES)
    }

    /// Returns the words as part of a prompt.
    pub(crate) fn earlier(&self) -> EarlierWords {
        let words = self.words.iter().cloned().collect();
        EarlierWords { words, passed: self.ended.map(|ended| ended.elapsed()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_words_are_forgotten_beyond_the_limits() {
        let mut recent = RecentWords::default();
        assert_eq!(recent.earlier(), EarlierWords::default());
        for n in 0..20 {
            recent.add(n.to_string());
            recent.add(" ".into());
        }
        let passed = Duration::from_secs(7);
        tokio::time::advance(passed).await;
        let words: Vec<String> = (4..20).map(|n| n.to_string()).collect();
        assert_eq!(recent.earlier(), EarlierWords { words, passed: Some(passed) });
        let long = |letter: &str| letter.repeat(MAX_BYTES / 2);
        for letter in ["a", "b", "c"] {
            recent.add(long(letter));
        }
        assert_eq!(recent.earlier().words, [long("b"), long("c")]);
        recent.add("d".repeat(MAX_BYTES + 1));
        assert_eq!(recent.earlier().words.len(), 1);
    }
}
