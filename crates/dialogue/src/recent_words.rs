//! The person's words of the last turns of a client, whether these are remembered or not: rules
//! about people in danger read them, also after the client has connected again. Not for the messages
//! of a prompt: see [`crate::memory`].

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_base::wall_clock;
use hearken_ports::EarlierWords;
use jiff::Timestamp;
use tokio::time::Instant;

/// Maximum number of turns of a client.
const MAX_TURNS: usize = 16;
/// Maximum size of all words of a client, in bytes, unless those of one turn are larger.
const MAX_BYTES: usize = 16 << 10;
/// Maximum number of clients.
const MAX_CLIENTS: usize = 10_000;

/// Words of the last turns of all clients, by client. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RecentWords(Arc<Mutex<HashMap<String, Words>>>);

/// Words of one client, which its dialogues share: the next connection knows what was said in the
/// one before. The words of a dialogue without a client are its own.
#[derive(Debug, Clone, Default)]
pub struct ClientWords {
    all: RecentWords,
    client: String,
}

/// Words of the last turns of one client.
#[derive(Debug, Default)]
struct Words {
    /// Turns, oldest first.
    turns: VecDeque<TurnWords>,
    /// End of the last of these turns.
    ended: Option<Instant>,
}

/// Words of one turn.
#[derive(Debug)]
struct TurnWords {
    words: String,
    /// Date of the end of the turn.
    ended: Timestamp,
}

impl RecentWords {
    /// Returns the words of this client. Those of clients that were silent for longer than a danger
    /// lasts are forgotten.
    #[must_use]
    pub fn of(&self, client: &str) -> ClientWords {
        self.lock().retain(|_, words| words.is_current());
        ClientWords { all: self.clone(), client: client.to_owned() }
    }

    /// Forgets the words of the turns of this client, or of all clients, that ended until this date.
    pub fn forget(&self, client: Option<&str>, until: Timestamp) {
        self.lock().retain(|id, words| {
            if client.is_none_or(|client| client == id.as_str()) {
                words.turns.retain(|turn| turn.ended > until);
            }
            !words.turns.is_empty()
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Words>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientWords {
    /// Adds the words of a turn that is over. Forgets the oldest ones beyond the limits.
    pub fn add(&self, words: String) {
        if words.trim().is_empty() {
            return;
        }
        let mut all = self.all.lock();
        if !all.contains_key(&self.client) {
            make_room(&mut all);
        }
        all.entry(self.client.clone()).or_default().add(words);
    }

    /// Returns the words as part of a prompt.
    pub fn earlier(&self) -> EarlierWords {
        self.all.lock().get(&self.client).map(Words::earlier).unwrap_or_default()
    }
}

/// Makes room for another client: forgets those that were silent for longer than a danger lasts,
/// else the one that was silent for longest.
fn make_room(all: &mut HashMap<String, Words>) {
    if all.len() < MAX_CLIENTS {
        return;
    }
    all.retain(|_, words| words.is_current());
    if all.len() < MAX_CLIENTS {
        return;
    }
    let oldest = all.iter().min_by_key(|(_, words)| words.ended).map(|(client, _)| client.clone());
    if let Some(oldest) = oldest {
        all.remove(&oldest);
    }
}

impl Words {
    fn add(&mut self, words: String) {
        self.turns.push_back(TurnWords { words, ended: wall_clock::now() });
        self.ended = Some(Instant::now());
        while self.is_too_long() {
            self.turns.pop_front();
        }
    }

    fn is_too_long(&self) -> bool {
        let bytes = self.turns.iter().map(|turn| turn.words.len()).sum::<usize>();
        self.turns.len() > MAX_TURNS || (self.turns.len() > 1 && bytes > MAX_BYTES)
    }

    /// Returns true if further words may go on with a danger in these.
    fn is_current(&self) -> bool {
        self.ended.is_some_and(|ended| ended.elapsed() <= EarlierWords::DANGER_LASTS)
    }

    fn earlier(&self) -> EarlierWords {
        let words = self.turns.iter().map(|turn| turn.words.clone()).collect();
        EarlierWords { words, passed: self.ended.map(|ended| ended.elapsed()) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_words_are_forgotten_beyond_the_limits() {
        let recent = ClientWords::default();
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

    #[tokio::test(start_paused = true)]
    async fn the_words_of_a_client_last_as_long_as_a_danger() {
        let all = RecentWords::default();
        all.of("a").add("fire".into());
        tokio::time::advance(EarlierWords::DANGER_LASTS).await;
        all.of("b").add("hello".into());
        assert_eq!(all.of("a").earlier().words, ["fire"]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(all.of("a").earlier(), EarlierWords::default());
        assert_eq!(all.lock().len(), 1, "only those of the other client");
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_that_was_silent_for_longest_is_forgotten_beyond_the_limit() {
        let all = RecentWords::default();
        let client = |number: usize| ClientWords { all: all.clone(), client: number.to_string() };
        for number in 0..=MAX_CLIENTS {
            client(number).add("hello".into());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(all.lock().len(), MAX_CLIENTS);
        assert!(client(0).earlier().words.is_empty());
        assert_eq!(client(1).earlier().words, ["hello"]);
    }

    #[test]
    fn deleted_words_are_forgotten_and_later_ones_are_not() {
        let all = RecentWords::default();
        let [anna, ben] = ["anna", "ben"].map(|client| all.of(client));
        let said = |of: &ClientWords| of.earlier().words;
        for client in [&anna, &ben] {
            client.add("fire".into());
        }
        all.forget(Some("anna"), Timestamp::MIN);
        assert_eq!(said(&anna), ["fire"], "it was said after the deletion");
        all.forget(Some("anna"), Timestamp::MAX);
        assert_eq!((said(&anna).len(), said(&ben).len()), (0, 1));
        anna.add("smoke".into());
        assert_eq!(said(&anna), ["smoke"]);
        all.forget(None, Timestamp::MAX);
        assert_eq!((said(&anna).len(), said(&ben).len()), (0, 0));
    }
}
