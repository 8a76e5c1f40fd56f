//! The words of a command that neither its act nor a filler explains. Not for the list of fillers, see `templates/mentions.toml`.

use super::Command;
use super::acts::{Said, Sort, TOOL};
use crate::exact::Fraction;
use crate::mentions::{Mention, What};
use crate::value::Value;

/// Sorts of values beside which words such as `to` and 的 may stand.
const VALUES: [Sort; 6] =
    [Sort::Level, Sort::Duration, Sort::Clock, Sort::Day, Sort::Rooms, Sort::Scene];
/// Lists of words for such values.
const WORDS_FOR_VALUES: [&str; 5] = ["max", "half", "dark", "light", "mode"];

/// Returns the sort of the value that a mention has.
fn sort(one: &Mention) -> Option<Sort> {
    match &one.what {
        What::Slot(value) => Sort::of(value),
        What::Words(_) => None,
    }
}

impl Said {
    /// Reports whether a mention is one of those that the command may have.
    fn explains(&self, one: &Mention) -> bool {
        match &one.what {
            What::Words(lists) => {
                lists.iter().any(|list| self.acts.contains(list) || self.nouns.contains(list))
            }
            // No command has such a value: it is an article or a pronoun, or a number that is left.
            What::Slot(Value::Level(level, false) | Value::Number(level))
                if *level < Fraction::whole(2) =>
            {
                false
            }
            What::Slot(value) => Sort::of(value).is_some_and(|sort| self.values.contains(&sort)),
        }
    }
}

impl Command<'_> {
    /// Returns the words that belong to no mention; `None` if a mention is neither a part of such a command nor a filler.
    pub(super) fn left_by(&self, said: &Said) -> Option<Vec<String>> {
        if self.values.levels.len() > 1 {
            return None;
        }
        self.left_within(self.mentions.all.len(), self.words.len(), said)
    }

    /// Does so for the mentions and the words before these places.
    pub(super) fn left_within(
        &self,
        mentions: usize,
        words: usize,
        said: &Said,
    ) -> Option<Vec<String>> {
        let mut all = self.mentions.all.iter().take(mentions).enumerate();
        if !all.all(|place| said.explains(place.1) || self.is_filler(place.0, place.1)) {
            return None;
        }
        let left = self.mentions.left.iter().filter(|at| **at < words);
        Some(left.filter_map(|at| self.words.get(*at).cloned()).collect())
    }

    /// Reports whether a tool that names the words at some places, and perhaps the rooms, leaves no word but fillers.
    pub(crate) fn is_explained(&self, has_rooms: bool, is_named: impl Fn(usize) -> bool) -> bool {
        let is_right = |at: usize, one: &Mention| {
            let named = (one.from..one.to).filter(|at| is_named(*at)).count();
            let is_own = match sort(one) {
                Some(Sort::Rooms) => has_rooms || named == one.to - one.from,
                Some(Sort::Device) => named > 0,
                _ => named == one.to - one.from,
            };
            is_own || TOOL.explains(one) || self.is_filler(at, one)
        };
        self.mentions.left.iter().all(|at| is_named(*at))
            && self.mentions.all.iter().enumerate().all(|place| is_right(place.0, place.1))
    }

    /// Reports whether a mention says nothing of its own where it stands.
    fn is_filler(&self, at: usize, one: &Mention) -> bool {
        let behind = || self.behind(at);
        let is_value = |other: &Mention| {
            sort(other).is_some_and(|sort| VALUES.contains(&sort))
                || WORDS_FOR_VALUES.iter().any(|list| other.is(list))
        };
        one.is("filler")
            || one.is("verb")
            || one.is("to") && (self.is_corrected || behind().is_some_and(is_value))
            || one.is("in") && behind().is_some_and(|next| sort(next) == Some(Sort::Rooms))
            || one.is("of") && self.before(at).is_some_and(is_value)
    }

    /// Returns the mention directly before another, but for fillers.
    pub(super) fn before(&self, at: usize) -> Option<&Mention> {
        let mut next = self.mentions.all.get(at)?;
        for one in self.mentions.all.get(..at)?.iter().rev() {
            if one.to != next.from {
                return None;
            }
            if !one.is("filler") {
                return Some(one);
            }
            next = one;
        }
        None
    }

    /// Returns the mention directly behind another, but for fillers.
    fn behind(&self, at: usize) -> Option<&Mention> {
        let mut before = self.mentions.all.get(at)?;
        for one in self.mentions.all.get(at + 1..)? {
            if one.from != before.to {
                return None;
            }
            if !one.is("filler") {
                return Some(one);
            }
            before = one;
        }
        None
    }
}
