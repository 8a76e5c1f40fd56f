//! What a household asks of an assistant, whether an offered tool may provide it, and what is said if none does. Not for the
//! sentences that ask, which are in the files of templates.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::bindings::schema::{OfferedTool, mentions, name_words, words_of_long};

/// The abilities of the crate's file, which a test reads.
pub(crate) static ABILITIES: LazyLock<Abilities> =
    LazyLock::new(|| Abilities::builtin().unwrap_or_default());

/// Most entries whose words one entry takes, over all steps.
const MOST_ENTRIES: usize = 200;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AbilitiesFile {
    abilities: Vec<Entry>,
}

/// Ability, the words by which a tool that may provide it is known, and what is said if there is none.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    /// Words of names, descriptions and parameters.
    #[serde(default)]
    words: Vec<String>,
    /// Words of names alone.
    #[serde(default)]
    named: Vec<String>,
    /// Words of tools that are not looked at.
    #[serde(default)]
    unless: Vec<String>,
    /// Identifiers of entries whose words count too.
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    zh: String,
    #[serde(default)]
    en: String,
}

/// Ability for which no tool is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal<'a> {
    pub(crate) zh: &'a str,
    pub(crate) en: &'a str,
}

/// All abilities.
#[derive(Debug, Clone, Default)]
pub(crate) struct Abilities {
    entries: Vec<Entry>,
}

/// Words of an offered tool.
struct ToolWords {
    name: Vec<String>,
    all: Vec<String>,
}

impl ToolWords {
    fn of(tool: &OfferedTool<'_>) -> Self {
        let name = name_words(tool.name);
        let mut all = name.clone();
        all.extend(words_of_long(tool.description));
        all.extend(words_of_long(&tool.parameters.to_string()));
        Self { name, all }
    }
}

impl Entry {
    /// Reports whether the entry's own words are those of a tool.
    fn is_of(&self, tool: &ToolWords) -> bool {
        let texts = |texts: &[String], words: &[String]| {
            mentions(words, &texts.iter().map(String::as_str).collect::<Vec<_>>())
        };
        !texts(&self.unless, &tool.all)
            && (texts(&self.words, &tool.all) || texts(&self.named, &tool.name))
    }
}

impl Abilities {
    /// Reads the file of the crate; returns what is wrong with it.
    fn builtin() -> Result<Self, String> {
        let file: AbilitiesFile = toml::from_str(include_str!("../templates/abilities.toml"))
            .map_err(|error| error.to_string())?;
        Ok(Self { entries: file.abilities })
    }

    fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Returns the identifiers of all abilities that one of the tools may provide.
    pub(crate) fn of(&self, tools: &[OfferedTool<'_>]) -> BTreeSet<String> {
        let tools: Vec<ToolWords> = tools.iter().map(ToolWords::of).collect();
        let own: BTreeSet<&str> = self
            .entries
            .iter()
            .filter(|entry| tools.iter().any(|tool| entry.is_of(tool)))
            .map(|entry| entry.id.as_str())
            .collect();
        let reaches = |entry: &&Entry| {
            let mut open = vec![entry.id.as_str()];
            for _ in 0..MOST_ENTRIES {
                let Some(id) = open.pop() else { break };
                if own.contains(id) {
                    return true;
                }
                open.extend(
                    self.entry(id)
                        .into_iter()
                        .flat_map(|entry| entry.also.iter().map(String::as_str)),
                );
            }
            false
        };
        self.entries.iter().filter(reaches).map(|entry| entry.id.clone()).collect()
    }

    /// Returns what is said of an ability that is not there; `None` if there is no such ability, or none with a sentence.
    pub(crate) fn refusal(&self, id: &str) -> Option<Refusal<'_>> {
        let entry = self.entry(id)?;
        let refusal = Refusal { zh: &entry.zh, en: &entry.en };
        (!refusal.zh.is_empty() && !refusal.en.is_empty()).then_some(refusal)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::NAMES;

    fn of(name: &str, description: &str) -> BTreeSet<String> {
        let parameters = json!({"type": "object", "properties": {}});
        let tool = OfferedTool { name, description, parameters: &parameters };
        Abilities::builtin().unwrap().of(&[tool])
    }

    #[test]
    fn the_file_is_right() {
        let abilities = Abilities::builtin().unwrap();
        let ids: BTreeSet<&str> = abilities.entries.iter().map(|entry| entry.id.as_str()).collect();
        assert_eq!(ids.len(), abilities.entries.len());
        for entry in &abilities.entries {
            assert!(entry.also.iter().all(|id| ids.contains(id.as_str())), "{}", entry.id);
            assert_eq!(entry.zh.is_empty(), entry.en.is_empty(), "{}", entry.id);
            if let Some(refusal) = abilities.refusal(&entry.id) {
                assert!(refusal.zh.starts_with("抱歉"), "{}", entry.id);
                assert!(refusal.en.starts_with("Sorry"), "{}", entry.id);
                assert!(!entry.words.is_empty() || !entry.also.is_empty(), "{}", entry.id);
            }
        }
        for device in NAMES.devices.iter().filter(|device| device.of.is_none()) {
            assert!(abilities.refusal(&device.key).is_some(), "{}", device.key);
        }
    }

    #[test]
    fn a_tool_that_may_provide_an_ability_is_known() {
        for (name, description, id) in [
            ("phone_call", "", "call"),
            ("x", "拨打联系人的电话", "emergency"),
            ("web_search", "", "weather"),
            ("x", "Turns on, opens or presses a device or entity", "light"),
            ("run_agent", "", "taxi"),
            ("lamp.on", "", "light"),
        ] {
            assert!(of(name, description).contains(id), "{name} {description} {id}");
        }
    }

    #[test]
    fn other_words_provide_no_ability() {
        for (name, description) in [
            ("self.set_theme", "Set the theme of the screen: light or dark"),
            ("set_loudness", "Sets the loudness. If it is unknown, call status first."),
            ("status", "Real-time state of this device: brightness, battery, network"),
        ] {
            assert_eq!(of(name, description), BTreeSet::new(), "{name}");
        }
    }
}
