//! House rules as a test: what no compiler or linter checks. Not for behaviour.

use std::path::{Path, PathBuf};

const MAX_FILE_LINES: usize = 500;
const MAX_FUNCTION_LINES: usize = 60;
const MAX_ARCHITECTURE_LINES: usize = 150;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below the root that belongs to the product, relative, with its text.
fn files(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if matches!(name.as_str(), "target" | ".git" | "node_modules" | ".hearken") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|x| extensions.iter().any(|e| x == *e))
                || (extensions.contains(&"") && path.extension().is_none())
            {
                let relative = path.strip_prefix(root()).unwrap().to_owned();
                if let Ok(text) = std::fs::read_to_string(&path) {
                    found.push((relative, text));
                }
            }
        }
    }
    assert!(!found.is_empty());
    found
}

fn complain(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_rust_file_says_what_lives_in_it_and_is_short() {
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        if !text.starts_with("//!") {
            faults.push(format!("{}: does not open with //!", path.display()));
        }
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            faults.push(format!("{}: {lines} lines, at most {MAX_FILE_LINES}", path.display()));
        }
    }
    for (path, text) in files(&["py", "sh"]) {
        let opening = text.trim_start_matches("#!/usr/bin/env python3\n");
        if !opening.starts_with(['#', '"']) {
            faults.push(format!("{}: does not open with what it is for", path.display()));
        }
    }
    complain(faults);
}

#[test]
fn functions_are_short() {
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        let lines: Vec<&str> = text.lines().collect();
        for (start, line) in lines.iter().enumerate() {
            let bare = line.trim_start();
            let opens = [
                "fn ",
                "pub fn ",
                "async fn ",
                "pub async fn ",
                "pub(crate) fn ",
                "pub(crate) async fn ",
                "pub(super) fn ",
                "pub(super) async fn ",
            ]
            .iter()
            .any(|f| bare.starts_with(f));
            let signature = lines[start..].iter().find(|l| l.ends_with([';', '{', '}']));
            if !opens || signature.is_none_or(|l| l.ends_with([';', '}'])) {
                continue;
            }
            let close = format!("{}}}", &line[..line.len() - bare.len()]);
            let length = lines[start..].iter().position(|l| *l == close).map_or(1, |n| n + 1);
            if length > MAX_FUNCTION_LINES {
                faults.push(format!(
                    "{}:{}: a function of {length} lines, at most {MAX_FUNCTION_LINES}",
                    path.display(),
                    start + 1
                ));
            }
        }
    }
    complain(faults);
}

#[test]
fn unmaintained_crates_are_known_to_one_file_each() {
    let homes = [
        ("actix_web_actors", "actors/src/ws_link.rs"),
        ("audiopus", "actors/src/audio/opus.rs"),
        ("webrtc_vad", "actors/src/audio/voicing.rs"),
    ];
    // What the codecs cost alone is measured without our code around them.
    let measured_bare = ("actors/benches/hot/floor.rs", ["audiopus", "webrtc_vad"]);
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        for (name, home) in homes {
            let uses = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            let here = uses.clone().any(|l| l.contains(&format!("{name}::")));
            let bare = path == Path::new(measured_bare.0) && measured_bare.1.contains(&name);
            if here && path != Path::new(home) && !bare {
                faults.push(format!("{}: {name} belongs in {home} only", path.display()));
            }
        }
    }
    complain(faults);
}

#[test]
fn rooms_keep_to_their_own() {
    let rules: [(&str, &[&str]); 5] = [
        ("proto/src", &["tokio", "actix", "tracing", "SystemTime", "Instant"]),
        ("actors/src/dialogue", &["actix", "opus", "reqwest"]),
        ("actors/src/audio", &["actix", "tokio", "async fn"]),
        ("src/emulator", &["crate::http", "crate::app", "crate::config", "crate::providers"]),
        ("src/providers", &["crate::http", "crate::app", "hearken_actors::actors::device"]),
    ];
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        for (room, banned) in rules.iter().filter(|(room, _)| path.starts_with(room)) {
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            for (number, line) in code.enumerate() {
                let Some(word) = banned.iter().find(|w| line.contains(**w)) else { continue };
                faults.push(format!(
                    "{}: `{word}` has no place in {room} (code line {number})",
                    path.display()
                ));
            }
        }
    }
    complain(faults);
}

#[test]
fn nothing_is_left_over_and_nothing_names_a_machine() {
    // Put together here, so that this file does not find itself.
    let banned: Vec<String> = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["to", "do!("],
        ["unimpl", "emented!("],
        ["/ro", "ot/"],
        ["/wo", "rk/"],
        ["py", "pi.org"],
        ["python", "hosted.org"],
        ["crates", ".io/"],
        ["npm", "js.org"],
        ["deb.deb", "ian.org"],
    ]
    .iter()
    .map(|parts| parts.concat())
    .collect();
    let mut faults = Vec::new();
    for (path, text) in files(&["rs", "py", "sh", "toml", "md", "html", ""]) {
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = banned.iter().find(|w| line.contains(w.as_str())) {
                faults.push(format!("{}:{}: `{word}`", path.display(), number + 1));
            }
        }
    }
    complain(faults);
}

#[test]
fn names_are_the_fields_own() {
    let banned = [
        "manager",
        "helper",
        "helpers",
        "util",
        "utils",
        "common",
        "misc",
        "data",
        "info",
        "handler",
        "processor",
        "service",
        "core",
    ];
    let mut faults = Vec::new();
    for (path, _) in files(&["rs"]) {
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if banned.contains(&stem.as_str()) {
            faults.push(format!("{}: a name that says nothing", path.display()));
        }
    }
    complain(faults);
}

#[test]
fn the_map_is_short_and_the_papers_are_there() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "BENCHMARKS.md",
        "CHANGELOG.md",
        "config.toml",
        "proto/README.md",
        "actors/README.md",
        "fixtures/README.md",
        "scripts/run",
        "scripts/test",
        ".ci/run",
    ] {
        assert!(root().join(name).exists(), "{name} is missing");
    }
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let lines = map.lines().count();
    assert!(lines <= MAX_ARCHITECTURE_LINES, "ARCHITECTURE.md has {lines} lines");
}
