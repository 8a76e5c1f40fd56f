//! The reviewed replies: templates for each topic, and the numbers of a region in them. Not for which topic a text has.
//!
//! `{ambulance}` stands for a number; `[poison|with|without]` for the first text if the region has that number, else for the
//! second one.

use std::collections::BTreeMap;

use hearken_base::language::Language;

use crate::Topic;
use crate::region::{Kind, Region};

/// Name of the reply of a topic that has no better one.
const DEFAULT: &str = "default";

/// All replies of one language: for each topic those for special cases by their names.
#[derive(Debug)]
pub(crate) struct Replies {
    language: Language,
    of_topic: BTreeMap<Topic, BTreeMap<String, String>>,
}

impl Replies {
    /// Reads the replies of a language; an error names what is wrong in them.
    pub(crate) fn read(toml: &str, language: Language) -> Result<Self, String> {
        let of_topic: BTreeMap<Topic, BTreeMap<String, String>> =
            toml::from_str(toml).map_err(|e| format!("replies: {e}"))?;
        let replies = Self { language, of_topic };
        for topic in Topic::ALL {
            let known = replies.of_topic.get(&topic);
            let known = known.ok_or_else(|| format!("replies: {topic:?} has none"))?;
            if !known.contains_key(DEFAULT) {
                return Err(format!("replies: {topic:?} has no default"));
            }
            for template in known.values() {
                replies.fill(template, &Region::default())?;
            }
        }
        Ok(replies)
    }

    /// Reports whether a topic has a reply of this name.
    pub(crate) fn has(&self, topic: Topic, name: &str) -> bool {
        self.of_topic.get(&topic).is_some_and(|replies| replies.contains_key(name))
    }

    /// Returns the reply of the first of these names that the topic has, else the default.
    pub(crate) fn reply(&self, topic: Topic, names: &[&str], region: &Region) -> String {
        let Some(replies) = self.of_topic.get(&topic) else { return String::new() };
        let special = names.iter().find_map(|name| replies.get(*name));
        let template = special.or_else(|| replies.get(DEFAULT));
        // Both were filled when they were read.
        template.and_then(|template| self.fill(template, region).ok()).unwrap_or_default()
    }

    /// Returns each topic and each of its replies.
    pub(crate) fn all(&self, region: &Region) -> Vec<(Topic, String)> {
        let templates = self
            .of_topic
            .iter()
            .flat_map(|(topic, replies)| replies.keys().map(|name| (*topic, name)));
        templates.map(|(topic, name)| (topic, self.reply(topic, &[name], region))).collect()
    }

    fn fill(&self, template: &str, region: &Region) -> Result<String, String> {
        let number = |name: &str| match Kind::named(name) {
            Some(kind) => Ok(region.number(kind, self.language)),
            None => Err(format!("replies: {{{name}}} is no number")),
        };
        let wrong = || format!("replies: `{template}` has an open bracket");
        let mut chosen = String::new();
        let mut rest = template;
        while let Some((before, choice)) = rest.split_once('[') {
            chosen.push_str(before);
            let (choice, after) = choice.split_once(']').ok_or_else(wrong)?;
            let mut parts = choice.splitn(3, '|');
            let has = number(parts.next().unwrap_or_default())?.is_some();
            let with = parts.next().ok_or_else(wrong)?;
            chosen.push_str(if has { with } else { parts.next().unwrap_or_default() });
            rest = after;
        }
        chosen.push_str(rest);
        let mut filled = String::new();
        let mut rest = chosen.as_str();
        while let Some((before, name)) = rest.split_once('{') {
            filled.push_str(before);
            let (name, after) = name.split_once('}').ok_or_else(wrong)?;
            let missing = || format!("replies: `{template}` needs {{{name}}}");
            filled.push_str(&number(name)?.ok_or_else(missing)?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled.trim().to_owned())
    }
}
