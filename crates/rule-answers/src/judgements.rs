//! The last judgements of whether a person is in danger, so that the words of a turn are judged
//! once: a turn asks before its limits are checked, and again with each round. Not for judging.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hearken_safety::Safe;

/// Maximum number of judgements: those of turns that run at the same time. Those of further turns
/// are made again.
const MAX_JUDGEMENTS: usize = 64;

/// Judgement of the words of a turn.
struct Judgement {
    /// Hash of the texts judged: no words outlive their conversation here.
    texts: u64,
    safe: Option<Safe>,
}

/// The last judgements.
#[derive(Default)]
pub(crate) struct Judgements {
    /// Random keys, so that no client can find two texts with one hash.
    hashing: RandomState,
    /// The newest last.
    last: Mutex<VecDeque<Judgement>>,
}

impl Judgements {
    /// Returns the judgement of these words, said after others: a known one, else that of `judge`.
    pub(crate) fn of(
        &self,
        words: &str,
        before: &[&str],
        judge: impl FnOnce() -> Option<Safe>,
    ) -> Option<Safe> {
        let texts = self.hashing.hash_one((words, before));
        if let Some(known) = self.last().iter().rfind(|known| known.texts == texts) {
            return known.safe.clone();
        }
        // Without the lock: other turns have their judgements.
        let safe = judge();
        let mut last = self.last();
        if last.len() >= MAX_JUDGEMENTS {
            last.pop_front();
        }
        last.push_back(Judgement { texts, safe: safe.clone() });
        safe
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<Judgement>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use hearken_safety::Topic;

    use super::*;

    fn safe(reply: &str) -> Option<Safe> {
        Some(Safe { topic: Topic::Fire, reply: reply.into() })
    }

    #[test]
    fn the_same_texts_are_judged_once() {
        let judgements = Judgements::default();
        let texts: [(&str, &[&str]); 8] = [
            ("help", &[]),
            ("help", &[""]),
            ("help", &["fire"]),
            ("help", &["fire", "hello"]),
            ("help", &["hello", "fire"]),
            ("help", &["hellofire"]),
            ("fire", &["help"]),
            ("helpfire", &[]),
        ];
        // The first one is judged to be in no danger.
        let judged = |number: usize| if number == 0 { None } else { safe(&number.to_string()) };
        for (number, (words, before)) in texts.iter().enumerate() {
            let found = judgements.of(words, before, || judged(number));
            assert_eq!(found, judged(number), "{words} after {before:?}");
        }
        for (number, (words, before)) in texts.iter().enumerate() {
            let known = judgements.of(words, before, || panic!("{words} is judged again"));
            assert_eq!(known, judged(number), "{words} after {before:?}");
        }
    }

    #[test]
    fn only_the_last_judgements_are_retained() {
        let judgements = Judgements::default();
        for number in 0..=MAX_JUDGEMENTS {
            judgements.of(&number.to_string(), &[], || None);
        }
        assert_eq!(judgements.last().len(), MAX_JUDGEMENTS);
        assert_eq!(judgements.of("1", &[], || panic!("it is known")), None);
        assert_eq!(judgements.of("0", &[], || safe("again")), safe("again"), "the oldest is gone");
        assert_eq!(judgements.last().len(), MAX_JUDGEMENTS);
    }
}
