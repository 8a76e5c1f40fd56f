//! Bounds of data held for peers: docs/bounds.md lists each queue, map and list of the product with
//! its budget. The owners' tests show that the budgets hold.

use std::collections::BTreeSet;

use super::root;
use super::tidy::{complain, product_sources};

/// Types that grow without bound unless their owner limits them.
const GROWING: [&str; 6] =
    ["HashMap<", "BTreeMap<", "VecDeque<", "HashSet<", "Mutex<Vec<", "RwLock<Vec<"];
/// Crates that are not part of a server.
const NO_SERVER: [&str; 10] = [
    "dev",
    "engine-program",
    "engines",
    "mock-services",
    "simulation",
    "state-server",
    "test-support",
    "text-client",
    "turns",
    "virtual-device",
];

/// The source folders of the server.
pub(crate) fn folders() -> Vec<String> {
    let mut all = vec!["src".to_owned(), "actors/src".to_owned()];
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if !NO_SERVER.contains(&name.as_str()) {
            all.push(format!("crates/{name}/src"));
        }
    }
    all
}

/// The growing items of a file: `Struct.field`, names of tuple structs, and the number of channels.
fn growing(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    let mut channels = 0;
    for line in text.split("#[cfg(test)]").next().unwrap_or_default().lines() {
        let code = line.split("//").next().unwrap_or_default();
        let grows = GROWING.iter().any(|kind| code.contains(kind));
        let name = code.split_once("struct ").map(|(before, name)| (before.trim(), name));
        if let Some((before, name)) = name
            && (before.is_empty() || before.starts_with("pub"))
            && !line.starts_with(' ')
        {
            let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
            let own = name[..end].to_owned();
            if code.trim_end().ends_with('{') {
                inside = Some(own);
            } else if name[end..].contains('(') && grows {
                found.push(own);
            }
        } else if line == "}" {
            inside = None;
        } else if let (Some(own), true, Some((field, _))) = (&inside, grows, code.split_once(": "))
            && line.starts_with("    ")
            && !line.starts_with("     ")
        {
            let field = field.rsplit(' ').next().unwrap_or(field);
            found.push(format!("{own}.{field}"));
        }
        channels += usize::from(
            ["= mpsc::channel", "= channel", "= sync_channel", "= utterance_channel::channel"]
                .iter()
                .any(|made| code.contains(made)),
        );
        assert!(!code.contains("unbounded_channel"), "a queue without a bound: {line}");
    }
    if channels > 0 {
        found.push(format!("channels: {channels}"));
    }
    found
}

#[test]
fn everything_that_grows_has_a_documented_budget() {
    let mut found = BTreeSet::new();
    for (file, text) in product_sources(&folders()) {
        found.extend(growing(&text).into_iter().map(|what| (file.clone(), what)));
    }
    let text = std::fs::read_to_string(root().join("docs/bounds.md")).unwrap();
    let mut named = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [file, what, holds, budget] = cells[..] else { panic!("four cells: {row}") };
        assert!(!holds.is_empty() && !budget.is_empty(), "{row}");
        named.insert((file.trim_matches('`').to_owned(), what.trim_matches('`').to_owned()));
    }
    let mut faults = Vec::new();
    for (file, what) in found.difference(&named) {
        faults
            .push(format!("{file}: {what}: add it to docs/bounds.md with its content and budget"));
    }
    for (file, what) in named.difference(&found) {
        faults.push(format!("{file}: {what}: is in docs/bounds.md but not in the code"));
    }
    complain(faults);
}
