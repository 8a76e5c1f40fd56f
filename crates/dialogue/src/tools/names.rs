//! Valid tool names for every model's API, derived from the names at the source. Not for listing
//! tools.

use std::collections::HashMap;

/// Maximum length of a name in the OpenAI API.
pub const MAX_NAME: usize = 64;

/// Maximum number of retained names, including those of tools that are no longer offered.
const MAX_KEPT: usize = 2_048;

/// Name of a source and name of a tool at that source.
pub type Origin = (String, String);

/// Names assigned to tools. A tool retains its name, and no two tools share one.
#[derive(Debug, Clone, Default)]
pub struct Names {
    given: HashMap<Origin, String>,
    taken: HashMap<String, Origin>,
}

impl Names {
    /// Returns the name of a source's tool for models: 1 to 64 of `a-z`, `A-Z`, `0-9`, `_` and `-`.
    pub fn assign(&mut self, source: &str, tool: &str) -> String {
        let origin = (source.to_owned(), tool.to_owned());
        if let Some(name) = self.given.get(&origin) {
            return name.clone();
        }
        let with_source = || legal(&format!("{source}_{tool}"));
        let numbered = (2_u64..).map(|n| {
            let number = format!("_{n}");
            let base = with_source();
            format!("{}{number}", &base[..base.len().min(MAX_NAME - number.len())])
        });
        let candidates = [legal(tool), with_source()].into_iter().chain(numbered);
        let free = candidates.into_iter().find(|name| !self.taken.contains_key(name));
        let name = free.expect("there are more numbers than tools");
        self.taken.insert(name.clone(), origin.clone());
        self.given.insert(origin, name.clone());
        name
    }

    /// Forgets the names of removed tools when there are too many names.
    pub fn prune(&mut self, offered: impl Fn(&Origin) -> bool) {
        if self.given.len() > MAX_KEPT {
            self.given.retain(|origin, _| offered(origin));
            self.taken.retain(|_, origin| offered(origin));
        }
    }
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns the name if it is valid, else the nearest valid one.
pub fn nearest(name: &str) -> String {
    legal(name.trim())
}

/// Returns the nearest valid name. A name that loses letters or is cut ends in a hash of the
/// original, which distinguishes different tools.
fn legal(tool: &str) -> String {
    let lost = tool.chars().any(|c| c.is_alphanumeric() && !is_legal(c));
    let kept: String = match lost {
        true => tool.chars().filter(|c| c.is_ascii()).map(or_underscore).collect(),
        false => tool.chars().map(or_underscore).collect(),
    };
    if !lost && !kept.is_empty() && kept.len() <= MAX_NAME {
        return kept;
    }
    let hash = format!("_{:08x}", fnv(tool));
    let stem = kept.trim_matches('_');
    let stem = if stem.is_empty() { "tool" } else { stem };
    format!("{}{hash}", &stem[..stem.len().min(MAX_NAME - hash.len())])
}

fn or_underscore(c: char) -> char {
    if is_legal(c) { c } else { '_' }
}

/// Returns the FNV-1a hash, 32 bits.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Replaces the old names of tools in a text by the new ones, if the name is a separate word.
pub fn rename(text: &str, renamed: &[(&str, &str)]) -> String {
    let mut longest_first: Vec<_> = renamed.iter().filter(|(old, _)| !old.is_empty()).collect();
    longest_first.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = out.chars().next_back();
        let here = longest_first
            .iter()
            .find(|(old, _)| rest.starts_with(old) && is_word(old, before, &rest[old.len()..]));
        if let Some((old, new)) = here {
            out.push_str(new);
            rest = &rest[old.len()..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Reports whether a name is a separate word. Chinese has no spaces between words: a Latin name may
/// touch Han characters.
fn is_word(name: &str, before: Option<char>, after: &str) -> bool {
    let joins = |edge: Option<char>, beside: Option<char>| match (edge, beside) {
        (Some(edge), Some(c)) if edge.is_ascii() => c.is_ascii_alphanumeric() || c == '_',
        (_, Some(c)) => c.is_alphanumeric(),
        _ => false,
    };
    let mut next = after.chars();
    let beside = next.next();
    let beyond = next.next();
    let goes_on = matches!(beside, Some('.' | '-')) && beyond.is_some_and(char::is_alphanumeric);
    !joins(name.chars().next(), before)
        && !matches!(before, Some('.' | '-'))
        && !joins(name.chars().next_back(), beside)
        && !goes_on
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_valid_near_the_original_and_stable() {
        let mut names = Names::default();
        let volume = names.assign("device", "self.audio_speaker.set_volume");
        assert_eq!(volume, "self_audio_speaker_set_volume");
        assert_eq!(names.assign("device", "self.audio_speaker.set_volume"), volume);
        assert_eq!(names.assign("notes", "add-note"), "add-note");
        assert_eq!(names.assign("other", "add-note"), "other_add-note");
        assert_eq!(names.assign("third", "other_add-note"), "third_other_add-note");
        assert_eq!(
            names.assign("device", "self_audio_speaker_set volume"),
            "device_self_audio_speaker_set_volume"
        );
        assert_eq!(names.assign("weather", "天气"), "tool_dd4acd3f");
        assert_eq!(names.assign("weather", "get 天气"), "get_bdf5634f");
        let long = names.assign("a", &"x".repeat(200));
        assert_eq!(long.len(), MAX_NAME);
        assert_eq!(names.assign("b", &"x".repeat(200)).len(), MAX_NAME);
        assert_eq!(names.assign("c", "").len(), 13);
    }

    #[test]
    fn descriptions_use_the_new_names() {
        let renamed =
            [("self.get", "self_get"), ("self.get.all", "self_get_all"), ("天气", "tool_1")];
        let text = "先用self.get.all，再 `self.get`. Not self.getter, self.get.x or myself.get; 查天气不改。「天气」";
        assert_eq!(
            rename(text, &renamed),
            "先用self_get_all，再 `self_get`. Not self.getter, self.get.x or myself.get; 查天气不改。「tool_1」"
        );
    }

    proptest! {
        #[test]
        fn any_names_become_valid_and_differ(tools in proptest::collection::hash_set((".{0,3}", ".{0,90}"), 0..20)) {
            let mut names = Names::default();
            let given: std::collections::HashSet<String> =
                tools.iter().map(|(source, tool)| names.assign(source, tool)).collect();
            prop_assert_eq!(given.len(), tools.len());
            for name in given {
                prop_assert!((1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_legal), "{}", name);
            }
        }
    }
}
