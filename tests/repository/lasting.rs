//! Responses that outlast their request: one file creates them all and ends them with the access of
//! their clients, and SECURITY.md lists each long-lived route with what ends it. Tests of that file
//! and of the routes show that it does.

use std::collections::BTreeMap;

use super::root;
use super::tidy::complain;

/// Heading of the table in SECURITY.md: route, file, what ends it.
const HEADING: &str = "## What lasts, and what ends it\n";
/// The file that creates these responses.
const CREATOR: &str = "src/http/lasting_access.rs";
/// Calls that create a response which outlasts its request.
const LASTING: [&str; 7] = [
    "hearken_socket::upgrade",
    "hearken_socket::attach",
    ".streaming(",
    "SizedStream",
    "BodyStream",
    "file.into_response(",
    "image.into_response(",
];
/// Kinds of access, each with the words that SECURITY.md has about it.
const KINDS: [(&str, &str); 3] = [
    ("LastingAccess::of", "checked again"),
    ("LastingAccess::until(", "at every instance"),
    ("LastingAccess::unending(", "does not end"),
];

/// Files below `src/http` without their tests, by name.
fn product_files() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root().join("src/http")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let product = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            let relative = path.strip_prefix(root()).unwrap().to_string_lossy();
            found.insert(relative.trim_start_matches("./").to_owned(), product);
        }
    }
    found
}

#[test]
fn every_long_lived_response_is_created_with_the_access_of_its_client() {
    let mut faults = Vec::new();
    let files = product_files();
    let creator = files.get(CREATOR).expect("the file exists");
    assert!(creator.contains(LASTING[0]) && creator.contains(LASTING[2]), "it creates them");
    for (file, text) in files.iter().filter(|(file, _)| *file != CREATOR) {
        for call in LASTING.iter().filter(|call| text.contains(**call)) {
            faults.push(format!("{file} calls `{call}`: create this response by {CREATOR}"));
        }
        if text.contains("NamedFile") && !text.contains(".named_file(") {
            faults.push(format!("{file} answers with a file: create this response by {CREATOR}"));
        }
    }
    complain(faults);
}

#[test]
fn security_md_lists_every_long_lived_route() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let table = text.split(HEADING).nth(1).expect("SECURITY.md has the table");
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let mut named: BTreeMap<String, &str> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [_, file, ends] = cells[..] else { panic!("three cells: {row}") };
            (file.trim_matches('`').to_owned(), ends)
        })
        .collect();
    let mut faults = Vec::new();
    for (file, text) in product_files().into_iter().filter(|(file, _)| file != CREATOR) {
        let kinds: Vec<_> = KINDS.iter().filter(|(kind, _)| text.contains(kind)).collect();
        if kinds.is_empty() {
            continue;
        }
        let Some(ends) = named.remove(&file) else {
            faults
                .push(format!("{file} has lasting responses: SECURITY.md must say what ends them"));
            continue;
        };
        for (kind, words) in kinds.into_iter().filter(|(_, words)| !ends.contains(words)) {
            faults.push(format!("{file} has `{kind}`: SECURITY.md must say \"{words}\" about it"));
        }
    }
    for file in named.keys() {
        faults.push(format!("{file} is in SECURITY.md but has no long-lived responses"));
    }
    complain(faults);
}
