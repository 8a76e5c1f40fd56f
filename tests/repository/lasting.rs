//! Responses that outlast their request: SECURITY.md lists each long-lived route with what ends it.
//! Tests of the routes show that it does.

use std::collections::BTreeSet;

use super::root;
use super::tidy::complain;

/// Heading of the table in SECURITY.md: route, file, what ends it.
const HEADING: &str = "## What lasts, and what ends it\n";
/// Calls that create a response which outlasts its request.
const LASTING: [&str; 6] = [
    "hearken_socket::upgrade(",
    "hearken_socket::upgrade_with_limit(",
    "WebSocketBridge::new(",
    ".streaming(",
    "SizedStream::new(",
    "NamedFile",
];

/// Files below `src/http` with such responses.
fn lasting_files() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join("src/http")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            if LASTING.iter().any(|call| product.contains(call)) {
                let relative = path.strip_prefix(root()).unwrap();
                found.insert(relative.to_string_lossy().trim_start_matches("./").to_owned());
            }
        }
    }
    found
}

#[test]
fn security_md_lists_every_long_lived_route() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let table = text.split(HEADING).nth(1).expect("SECURITY.md has the table");
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let named: BTreeSet<String> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [_, file, ends] = cells[..] else { panic!("three cells: {row}") };
            assert!(!ends.is_empty(), "{row}");
            file.trim_matches('`').to_owned()
        })
        .collect();
    let found = lasting_files();
    let mut faults = Vec::new();
    for file in found.difference(&named) {
        faults.push(format!("{file} has lasting responses: SECURITY.md must say what ends them"));
    }
    for file in named.difference(&found) {
        faults.push(format!("{file} is in SECURITY.md but has no long-lived responses"));
    }
    complain(faults);
}
