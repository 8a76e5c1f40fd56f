//! The telephone numbers of a country: whom to call. Not for where the server stands, which its owner configures.

use std::sync::LazyLock;

use hearken_base::language::Language;
use serde::Deserialize;

/// Kinds of numbers that a reply may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Emergency,
    Ambulance,
    Fire,
    Police,
    Poison,
    Crisis,
    Child,
}

impl Kind {
    /// Returns the kind of this name in a reply.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "emergency" => Self::Emergency,
            "ambulance" => Self::Ambulance,
            "fire" => Self::Fire,
            "police" => Self::Police,
            "poison" => Self::Poison,
            "crisis" => Self::Crisis,
            "child" => Self::Child,
            _ => return None,
        })
    }
}

/// Numbers as people write them, with spaces between groups of digits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    /// ISO 3166-1 codes of two letters, and `EU`.
    codes: Vec<String>,
    emergency: String,
    ambulance: Option<String>,
    fire: Option<String>,
    police: Option<String>,
    poison: Option<String>,
    crisis: Option<String>,
    child: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// What is said for the emergency number of a country that is not known.
    unknown: Unknown,
    region: Vec<Numbers>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unknown {
    zh: String,
    en: String,
}

/// Panics if the file of this crate cannot be read; a test reads it.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/regions.toml"))
        .unwrap_or_else(|fault| panic!("correct crates/safety/data/regions.toml: {fault}"))
});

/// A country, by the numbers that people call there. The default is a country that is not known.
#[derive(Debug, Clone, Default)]
pub struct Region(Option<Numbers>);

impl Region {
    /// Returns the region of an ISO 3166-1 code of two letters in any case, or `EU`; the default if it is not in the table.
    pub fn of(code: &str) -> Self {
        let is_it = |numbers: &&Numbers| {
            numbers.codes.iter().any(|known| known.eq_ignore_ascii_case(code.trim()))
        };
        Self(TABLE.region.iter().find(is_it).cloned())
    }

    /// Returns all codes of the table.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        TABLE.region.iter().flat_map(|numbers| &numbers.codes).map(String::as_str)
    }

    /// Returns all numbers of this region as replies in this language say them.
    pub fn numbers(&self, language: Language) -> Vec<String> {
        let Some(numbers) = &self.0 else { return vec![unknown(language)] };
        let others = [
            &numbers.ambulance,
            &numbers.fire,
            &numbers.police,
            &numbers.poison,
            &numbers.crisis,
            &numbers.child,
        ];
        let others = others.into_iter().flatten();
        others.chain([&numbers.emergency]).map(|number| spoken(number, language)).collect()
    }

    /// Returns the number of this kind as a reply says it. The general ones are the emergency number if the country
    /// has none of their own; there is none for the others.
    pub(crate) fn number(&self, kind: Kind, language: Language) -> Option<String> {
        let Some(numbers) = &self.0 else {
            let general = [Kind::Emergency, Kind::Ambulance, Kind::Fire, Kind::Police];
            return general.contains(&kind).then(|| unknown(language));
        };
        let emergency = Some(&numbers.emergency);
        let number = match kind {
            Kind::Emergency => emergency,
            Kind::Ambulance => numbers.ambulance.as_ref().or(emergency),
            Kind::Fire => numbers.fire.as_ref().or(emergency),
            Kind::Police => numbers.police.as_ref().or(emergency),
            Kind::Poison => numbers.poison.as_ref(),
            Kind::Crisis => numbers.crisis.as_ref(),
            Kind::Child => numbers.child.as_ref(),
        };
        number.map(|number| spoken(number, language))
    }
}

fn unknown(language: Language) -> String {
    match language {
        Language::Chinese => TABLE.unknown.zh.clone(),
        Language::English => TABLE.unknown.en.clone(),
    }
}

/// Writes a number so that a voice says its digits one by one: English voices need spaces between them, Chinese ones read a
/// number behind a word for calling so.
fn spoken(number: &str, language: Language) -> String {
    if language == Language::Chinese {
        return number.replace(' ', "");
    }
    let group = |group: &str| group.chars().map(String::from).collect::<Vec<_>>().join(" ");
    number.split(' ').map(group).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_country_are_said_digit_by_digit() {
        let poison = |code: &str, language| Region::of(code).number(Kind::Poison, language);
        assert_eq!(poison("us", Language::English).unwrap(), "1, 8 0 0, 2 2 2, 1 2 2 2");
        assert_eq!(poison("US", Language::Chinese).unwrap(), "18002221222");
        assert_eq!(poison("CN", Language::Chinese), None);
        let fire = |code: &str| Region::of(code).number(Kind::Fire, Language::Chinese).unwrap();
        assert_eq!((fire("CN").as_str(), fire(" gb ").as_str()), ("119", "999"));
        assert_eq!(fire("AQ"), unknown(Language::Chinese));
    }

    #[test]
    fn each_country_is_listed_once_with_digits_only() {
        let mut codes: Vec<&str> = Region::codes().collect();
        codes.sort_unstable();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all);
        assert!(
            codes
                .iter()
                .all(|code| code.len() == 2 && code.chars().all(|c| c.is_ascii_uppercase()))
        );
        for code in codes {
            for number in Region::of(code).numbers(Language::Chinese) {
                assert!(number.chars().all(|c| c.is_ascii_digit()), "{code}: {number}");
                assert!((2..=12).contains(&number.len()), "{code}: {number}");
            }
        }
    }
}
