//! The reference of all keys as Markdown, for `docs/configuration.md`, and one key or section as
//! text. Not for where they come from, which is [`schema`](super::schema).

use std::fmt::Write as _;

use super::names;
use super::schema::{Key, Kind, Reference, plain, reference};

const OPENING: &str = "# Configuration reference

Every key, generated from the program: `hearken config explain > docs/configuration.md`. How to configure Hearken, with \
examples, is in [configure.md](configure.md).

- The file is `config.toml` in the working directory, or the one that `--config` names. A key that is not set has its default.
- An environment variable overrides the file: `HEARKEN__SECTION__KEY`, or the well-known name beside it. A list is written \
with commas. A secret may come from a file: `LLM_API_KEY_FILE` or `HEARKEN__TTS__API_KEY_FILE` names it.
- Settings that are changed at run time (`PUT /api/admin/config`, the console) override the file, and not the environment.
- `hearken config show` prints the values in use and where each comes from, `hearken config check` checks them.
- Keys in `[expert]` follow from measurements of the program; few installations need them.
";

/// Returns the whole reference as Markdown.
pub fn markdown() -> String {
    let all = reference();
    let mut text = OPENING.to_owned();
    let mut keys: Vec<(&Key, String, String)> = Vec::new();
    for key in all.keys.values() {
        let (section, name) = key.place();
        keys.push((key, section, name));
    }
    let is_expert = |section: &str| section.starts_with(names::EXPERT);
    keys.sort_by(|(_, a, x), (_, b, y)| (is_expert(a), a, x).cmp(&(is_expert(b), b, y)));
    let mut last = "";
    for (key, section, name) in &keys {
        if section != last {
            text.push_str(&section_heading(all, section));
            last = section;
        }
        text.push_str(&row(key, name));
    }
    text
}

/// Returns the heading of a section, with its meaning and the head of its table.
fn section_heading(all: &Reference, section: &str) -> String {
    let path = section.strip_prefix("expert.").unwrap_or(section);
    let heading = match section.strip_suffix("[]") {
        Some(list) => format!("[[{list}]]"),
        None => format!("[{section}]"),
    };
    let mut text = format!("\n## `{heading}`\n");
    if let Some(about) = all.sections.get(path) {
        text.push_str(about);
        text.push('\n');
    }
    text.push_str("\n| Key | Meaning | Values | Default | Environment |\n|---|---|---|---|---|\n");
    text
}

fn row(key: &Key, name: &str) -> String {
    let cell = |text: String| text.replace('|', "\\|").replace('\n', " ");
    let variables: Vec<String> = key.variables().iter().map(|name| format!("`{name}`")).collect();
    let default = default(key).map(|text| format!("`{text}`")).unwrap_or_default();
    format!(
        "| `{name}` | {} | {} | {} | {} |\n",
        cell(key.about.clone()),
        cell(values(key)),
        cell(default),
        variables.join(", ").replace("` (", " (").replace(")`", ")"),
    )
}

/// Returns type, unit and range in words.
fn values(key: &Key) -> String {
    let kind = match key.kind {
        Kind::Boolean => "`true` or `false`",
        Kind::Integer => "whole number",
        Kind::Number => "number",
        Kind::Text => "text",
        Kind::List => "list",
        Kind::Table => "table",
    };
    match (key.one_of.is_empty(), key.unit(), key.range()) {
        (false, unit, Some(range)) => {
            [Some(range.as_str()), unit].into_iter().flatten().collect::<Vec<_>>().join(" ")
        }
        (_, Some(unit), Some(range)) => format!("{range} {unit}"),
        (_, Some(unit), None) => unit.to_owned(),
        (_, None, Some(range)) => format!("{kind}, {range}"),
        (_, None, None) => kind.to_owned(),
    }
}

/// Longest default that is shown.
const LONGEST_DEFAULT: usize = 60;

/// Returns the default as it is written in a file; `None` if the key must be given.
fn default(key: &Key) -> Option<String> {
    let text = match &key.default {
        serde_json::Value::Null => return None,
        serde_json::Value::String(text) => format!("\"{text}\""),
        other => plain(other),
    };
    let text = text.replace('\n', " ");
    if text.chars().count() <= LONGEST_DEFAULT {
        return Some(text);
    }
    Some(text.chars().take(LONGEST_DEFAULT).chain("...".chars()).collect())
}

/// Returns the explanation of a key or section; `None` if there is none of this name.
pub fn explain(name: &str) -> Option<String> {
    let all = reference();
    if let Some(key) = all.key(name) {
        return Some(explain_key(key));
    }
    let path = names::resolve(name).path;
    let path = path.strip_prefix("expert.").unwrap_or(&path);
    let below = |section: &str| section == path || section.strip_prefix("expert.") == Some(path);
    let about = all.sections.get(path)?;
    let mut text = format!("[{name}]\n{about}\n");
    for key in all.keys.values().filter(|key| below(&key.place().0)) {
        let first = key.about.split_inclusive(". ").next().unwrap_or_default().trim_end();
        let _infallible = writeln!(text, "  {:34} {first}", key.name());
    }
    Some(text.trim_end().to_owned())
}

fn explain_key(key: &Key) -> String {
    let mut text = format!("{}\n{}\n", key.name(), key.about);
    let mut line = |label: &str, value: String| {
        let _infallible = writeln!(text, "  {label:12} {value}");
    };
    line("values", values(key).replace('`', ""));
    if let Some(default) = default(key) {
        line("default", default);
    }
    for (number, name) in key.variables().into_iter().enumerate() {
        line(if number == 0 { "environment" } else { "" }, name);
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_sections_are_explained_by_current_and_old_names() {
        let port = explain("server.port").unwrap();
        for part in [
            "server.port\n",
            "values       whole number",
            "default      9400",
            "HEARKEN__SERVER__PORT",
            "CLOUD_PORT",
        ] {
            assert!(port.contains(part), "{part}: {port}");
        }
        assert_eq!(explain("lanes.uplink"), explain("expert.lanes.uplink"));
        assert!(explain("speculation").unwrap().contains("expert.speculation.tries"));
        assert!(explain("expert.lanes").unwrap().contains("expert.lanes.uplink"));
        assert_eq!(explain("server.prot"), None);
    }
}
