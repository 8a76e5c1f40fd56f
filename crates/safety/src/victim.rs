//! Who is in danger: the beings that a text names, and which of them its danger is about. Not for what the danger is.

use std::cmp::Reverse;
use std::ops::Range;

use serde::Deserialize;

use crate::pattern::{Candidates, Compiler, List, Text};

/// Who is in danger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The speaker, or another person who is no baby.
    Person,
    Infant,
    Animal,
}

/// The lists of a file of rules that beings are recognised by.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    /// Words for babies, for animals, for people of any age, for the speaker, and pronouns for others.
    infants: Vec<String>,
    animals: Vec<String>,
    people: Vec<String>,
    speakers: Vec<String>,
    pronouns: Vec<String>,
    /// Words of these that name nobody in danger: food, things of an animal, what a person does with it.
    bystanders: Vec<String>,
    /// What tells that somebody who is named otherwise is a baby.
    ages: Vec<String>,
    /// What tells that an animal is hurt: a pronoun behind it may mean it.
    hurt: Vec<String>,
    /// What tells that an animal has hurt a person: it is not the one in danger.
    attacks: Vec<String>,
}

/// What a being is named by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Speaker,
    Pronoun,
    Of(Victim),
}

/// A being in a text.
#[derive(Debug)]
struct Being {
    words: Range<usize>,
    name: Name,
    /// True for an animal that a pronoun or a clause without subject may mean.
    is_hurt: bool,
}

impl Being {
    /// Returns the being that a pronoun behind it may mean.
    fn meant(&self) -> Option<Victim> {
        match self.name {
            Name::Of(Victim::Animal) if !self.is_hurt => None,
            Name::Of(victim) => Some(victim),
            Name::Speaker | Name::Pronoun => None,
        }
    }
}

/// The compiled lists.
#[derive(Debug)]
pub(crate) struct Beings {
    infants: List,
    animals: List,
    people: List,
    speakers: List,
    pronouns: List,
    bystanders: List,
    ages: List,
    hurt: List,
    attacks: List,
}

/// The beings of one text.
struct Cast<'a> {
    text: &'a Text,
    /// In the order of their words; none is part of another.
    beings: Vec<Being>,
    /// True if the text tells that somebody is a baby.
    has_age: bool,
}

impl Beings {
    pub(crate) fn compile(written: &Written, compiler: &mut Compiler<'_>) -> Self {
        Self {
            infants: compiler.list(&written.infants),
            animals: compiler.list(&written.animals),
            people: compiler.list(&written.people),
            speakers: compiler.list(&written.speakers),
            pronouns: compiler.list(&written.pronouns),
            bystanders: compiler.list(&written.bystanders),
            ages: compiler.list(&written.ages),
            hurt: compiler.list(&written.hurt),
            attacks: compiler.list(&written.attacks),
        }
    }

    /// Returns who is in one of these dangers; nothing if the text tells it by a pronoun only, or not at all. Of an animal and
    /// another it is the other.
    pub(crate) fn victim(
        &self,
        dangers: &[Range<usize>],
        whole: &Text,
        candidates: &Candidates<'_>,
    ) -> Option<Victim> {
        let cast = self.cast(whole, candidates);
        let is_part = |one: &Range<usize>, of: &Range<usize>| {
            one != of && of.start <= one.start && one.end <= of.end
        };
        let is_apart = dangers.iter().any(|danger| !whole.has_pause(danger));
        // The shortest words of a danger begin nearest to the one who is in it, most often in one clause.
        let nearest = dangers.iter().filter(|danger| {
            let has_shorter = dangers.iter().any(|other| is_part(other, danger));
            let is_continued = is_apart && whole.has_pause(danger);
            !has_shorter && !is_continued
        });
        let victims: Vec<Victim> = nearest.filter_map(|danger| cast.victim(danger)).collect();
        let other = victims.iter().find(|victim| **victim != Victim::Animal);
        other.or(victims.first()).copied()
    }

    fn cast<'a>(&self, whole: &'a Text, candidates: &Candidates<'_>) -> Cast<'a> {
        let mut text = whole.clone();
        candidates.of(&self.bystanders).for_each(|pattern| text.hide(&pattern));
        let hurt = candidates.matches_in_clauses(&self.hurt, &text);
        let mut beings = Vec::new();
        // Of two names for the same words, the first one holds: a baby is a person, too.
        for (list, name) in [
            (&self.infants, Name::Of(Victim::Infant)),
            (&self.animals, Name::Of(Victim::Animal)),
            (&self.people, Name::Of(Victim::Person)),
            (&self.speakers, Name::Speaker),
            (&self.pronouns, Name::Pronoun),
        ] {
            for words in candidates.matches_in_clauses(list, &text) {
                let is_hurt = hurt.iter().any(|by| by.start < words.end && words.start < by.end);
                beings.push(Being { words, name, is_hurt });
            }
        }
        beings.sort_by_key(|being| (being.words.start, Reverse(being.words.end)));
        let mut end = 0;
        beings.retain(|being| {
            let is_whole = being.words.end > end;
            end = end.max(being.words.end);
            is_whole
        });
        if candidates.has(&self.attacks, whole) {
            beings.retain(|being| being.name != Name::Of(Victim::Animal));
        }
        Cast { text: whole, beings, has_age: candidates.has(&self.ages, whole) }
    }
}

impl Cast<'_> {
    /// Returns who is in this danger.
    fn victim(&self, danger: &Range<usize>) -> Option<Victim> {
        let Some(subject) = self.subject(danger) else { return self.unnamed(danger) };
        match subject.name {
            Name::Speaker => Some(Victim::Person),
            Name::Of(Victim::Animal) if !self.is_alone(subject, danger) => Some(Victim::Person),
            Name::Of(Victim::Person) => Some(self.by_age()),
            Name::Of(victim) => Some(victim),
            Name::Pronoun => self
                .antecedent(subject.words.start)
                .map(|victim| if victim == Victim::Person { self.by_age() } else { victim })
                .or_else(|| self.has_age.then_some(Victim::Infant)),
        }
    }

    fn by_age(&self) -> Victim {
        if self.has_age { Victim::Infant } else { Victim::Person }
    }

    /// Returns the first being whose words begin at one of these places.
    fn first_in(&self, places: &Range<usize>) -> Option<&Being> {
        self.beings.iter().find(|being| places.contains(&being.words.start))
    }

    /// Returns the being that the words of a danger are said of: the last one before them in their clause, else the first one
    /// in them. Of a speaker who does something to another, the other.
    fn subject(&self, danger: &Range<usize>) -> Option<&Being> {
        let clause = self.text.clause(danger.start);
        let mut before = self.beings.iter().rev();
        let before = before
            .find(|being| being.words.start <= danger.start && clause.contains(&being.words.start));
        let inside = self.first_in(&(danger.start..danger.end));
        let is_subject =
            |being: &&Being| being.name != Name::Speaker || being.words.contains(&danger.start);
        before.filter(is_subject).or(inside).or(before)
    }

    /// Reports whether nobody but an animal can be meant: no other being is before it in its clause, nor in the words of the
    /// danger.
    fn is_alone(&self, animal: &Being, danger: &Range<usize>) -> bool {
        let clause = self.text.clause(animal.words.start);
        let is_person = |being: &&Being| being.name != Name::Of(Victim::Animal);
        let mut others = self.beings.iter().filter(is_person);
        !others.any(|being| {
            let start = being.words.start;
            let is_before = clause.contains(&start) && start < animal.words.start;
            is_before && being.name != Name::Speaker
                || (animal.words.end..danger.end).contains(&start)
        })
    }

    /// Returns whom a pronoun at a place means: in the last clause before it that names anybody, the first one.
    fn antecedent(&self, place: usize) -> Option<Victim> {
        let before = || {
            let earlier = self.beings.iter().take_while(move |being| being.words.start < place);
            earlier.filter(|being| being.meant().is_some())
        };
        let clause = self.text.clause(before().last()?.words.start);
        before().find(|being| clause.contains(&being.words.start))?.meant()
    }

    /// Returns who is in a danger whose clause names nobody before it.
    fn unnamed(&self, danger: &Range<usize>) -> Option<Victim> {
        let clause = self.text.clause(danger.start);
        if self.text.has_unknown(&(clause.start..danger.start)) {
            // It may be said of somebody by name.
            return None;
        }
        let behind = || self.first_in(&(danger.end..clause.end)).and_then(Being::meant);
        let later = || {
            let mut later = self.beings.iter().filter(|being| being.words.start >= danger.end);
            later.find_map(Being::meant)
        };
        self.antecedent(danger.start).or_else(behind).or_else(later)
    }
}
