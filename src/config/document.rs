//! The configuration file: finds its keys, with their lines, under current and old names. Not for
//! the values, nor for the environment.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::error::ConfigError;
use super::schema::reference;
use super::{Config, names};

/// What a file sets.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Values by path.
    pub(super) table: toml::Table,
    /// Line of each key, by path.
    pub(super) lines: BTreeMap<String, usize>,
    /// Warnings about old names.
    pub(super) warnings: Vec<String>,
}

/// A key of the file, with its value.
struct Leaf<'i> {
    name: String,
    line: usize,
    span: std::ops::Range<usize>,
    value: Spanned<DeValue<'i>>,
}

/// Reads the text of a file, and checks its keys and the types of its values.
///
/// # Errors
/// The text is not TOML, has an unknown key, sets a key under two names, or has a value of the wrong
/// type.
pub(super) fn read(file: &Path, text: &str) -> Result<Document, ConfigError> {
    let wrong = |reason: String| ConfigError::File { file: file.to_owned(), reason };
    let parsed = |mut error: toml::de::Error| {
        error.set_input(Some(text));
        wrong(error.to_string().trim_end().to_owned())
    };
    let parsed_table = DeTable::parse(text).map_err(parsed)?.into_inner();
    let mut leaves = Vec::new();
    flatten(text, "", parsed_table, &mut leaves);
    let mut document = Document::default();
    let mut tree = DeTable::new();
    for leaf in leaves {
        let found = names::resolve(&leaf.name);
        let Leaf { name, line, .. } = &leaf;
        if !is_known(&found.path) {
            return Err(wrong(format!("line {line}: {}", unknown(name))));
        }
        if let Some(first) = document.lines.get(&found.path) {
            let reason =
                format!("line {line}: `{name}` is set in line {first}, under another name");
            return Err(wrong(reason));
        }
        if let Some(warning) = found.warning(name) {
            document.warnings.push(format!("{}, line {line}: {warning}", file.display()));
        }
        document.lines.insert(found.path.clone(), *line);
        insert(&mut tree, &found.path, leaf);
    }
    let whole = |tree| Deserializer::from(Spanned::new(0..text.len(), tree));
    Config::deserialize(whole(tree.clone())).map_err(parsed)?;
    document.table = toml::Table::deserialize(whole(tree)).map_err(parsed)?;
    Ok(document)
}

/// Returns the words about a name that no key has.
pub fn unknown(name: &str) -> String {
    let hint = reference().nearest(name).map(|known| format!("; did you mean `{known}`?"));
    format!("there is no key `{name}`{}", hint.unwrap_or_default())
}

/// Reports whether there is a key of this path, or a section, which may be empty.
fn is_known(path: &str) -> bool {
    path == names::EXPERT
        || reference().keys.contains_key(path)
        || reference().sections.contains_key(path)
}

/// Adds the keys of a table, with the names of their sections before theirs. A table that is the
/// value of a key is not a section.
fn flatten<'i>(text: &str, section: &str, table: DeTable<'i>, leaves: &mut Vec<Leaf<'i>>) {
    for (key, value) in table {
        let span = key.span();
        let key = key.into_inner();
        let name = if section.is_empty() { key.into_owned() } else { format!("{section}.{key}") };
        let line = text.get(..span.start).unwrap_or_default().matches('\n').count() + 1;
        let holds_keys = is_section(&name);
        let value_span = value.span();
        match value.into_inner() {
            DeValue::Table(inner) if holds_keys => flatten(text, &name, inner, leaves),
            value => leaves.push(Leaf { name, line, span, value: Spanned::new(value_span, value) }),
        }
    }
}

/// Reports whether keys follow below this name: a section, current or old, or `[expert]` and the
/// sections in it.
fn is_section(name: &str) -> bool {
    let path = name.strip_prefix("expert.").unwrap_or(name);
    name == names::EXPERT || reference().sections.contains_key(path)
}

/// Puts a value at its path. Tables on the way have no place in the text.
fn insert<'i>(table: &mut DeTable<'i>, path: &str, leaf: Leaf<'i>) {
    let mut table = table;
    let mut rest = path;
    while let Some((section, below)) = rest.split_once('.') {
        let key = Spanned::new(leaf.span.clone(), section.to_owned().into());
        let empty = || Spanned::new(leaf.span.clone(), DeValue::Table(DeTable::new()));
        let inner = table.entry(key).or_insert_with(empty);
        let DeValue::Table(inner) = inner.get_mut() else { return };
        table = inner;
        rest = below;
    }
    table.insert(Spanned::new(leaf.span, rest.to_owned().into()), leaf.value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read("f.toml".as_ref(), text).unwrap_err().to_string()
    }

    #[test]
    fn keys_are_found_under_current_and_old_names() {
        let text = "[lanes]\nuplink = 9\n[phrases]\ngreeting_en = 'Hi'\n[expert.asr.pool]\nmax_idle = 3\n\
                    [phrases.zh]\ngreeting = '嗨'\n[llm]\nread_ahead = true\n[llm.extra]\na.b = 1\n\
                    [[tools.servers]]\nname = 'a'\nurl = 'http://h'\n[chat]\n[tools.policy]\n'a/b' = 'ask'\n";
        let found = read("f.toml".as_ref(), text).unwrap();
        let config: Config = toml::Value::Table(found.table.clone()).try_into().unwrap();
        assert_eq!((config.lanes.uplink, config.asr.pool.max_idle), (9, 3));
        assert_eq!(
            (config.phrases.greeting.en.as_str(), config.phrases.greeting.zh.as_str()),
            ("Hi", "嗨")
        );
        assert!(config.llm.prefetch && config.tools.servers.len() == 1);
        assert_eq!(found.lines["lanes.uplink"], 2);
        assert_eq!(found.lines["tools.policy"], 17);
        assert_eq!(found.warnings.len(), 3, "{:?}", found.warnings);
        let first =
            "f.toml, line 2: `lanes.uplink` is now `expert.lanes.uplink`: the old name still works";
        assert!(found.warnings.iter().any(|warning| warning == first), "{:?}", found.warnings);
    }

    #[test]
    fn mistakes_are_named_with_their_line_and_the_remedy() {
        for (text, expected) in [
            (
                "[server]\nport = 1\nprot = 2",
                "line 3: there is no key `server.prot`; did you mean `server.port`?",
            ),
            ("[sever]\nport = 1", "line 1: there is no key `sever`; did you mean `server`?"),
            (
                "[expert.server]\nport = 1",
                "line 2: there is no key `expert.server.port`; did you mean `server.port`?",
            ),
            ("[server]\nport = 'x'", "line 2, column 8"),
            ("[lanes]\nuplink = true", "line 2"),
            ("[lanes]\nuplink = 1\n[expert.lanes]\nuplink = 2", "is set in line"),
            ("server = 1", "invalid type"),
            ("[[tools.servers]]\nnam = 'a'", "line 2"),
            ("[server", "line 1"),
        ] {
            let told = refused(text);
            assert!(told.starts_with("f.toml: ") && told.contains(expected), "{text}: {told}");
        }
    }
}
