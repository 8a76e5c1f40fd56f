//! House rules as tests, for what no compiler or linter checks. Not for behaviour.

use std::path::{Path, PathBuf};

use super::root;

/// Comments do not count, neither in files nor in functions.
const MAX_FILE_LINES: usize = 700;
const MAX_FUNCTION_LINES: usize = 80;
const MAX_ARCHITECTURE_LINES: usize = 220;
const MAX_README_LINES: usize = 200;

/// Top folders of the product, as documents name them.
const FOLDERS: [&str; 12] = [
    "actors/",
    "benches/",
    "crates/",
    "deploy/",
    "docs/",
    "examples/",
    "fixtures/",
    "proto/",
    "scripts/",
    "src/",
    "tests/",
    "web/",
];

/// Words that were metaphors in our names, and some without meaning.
const BANNED_WORDS: [&str; 53] = [
    "alike",
    "canned",
    "chore",
    "chores",
    "crowd",
    "crowded",
    "cushion",
    "deed",
    "deeds",
    "desk",
    "desks",
    "doorman",
    "ears",
    "elsewhere",
    "errand",
    "errands",
    "face",
    "faces",
    "guest",
    "guests",
    "helper",
    "helpers",
    "hypothesis",
    "knock",
    "ledger",
    "looking",
    "manners",
    "misc",
    "mood",
    "narrating",
    "narration",
    "oddities",
    "porter",
    "queuer",
    "remotes",
    "ring",
    "roster",
    "seal",
    "seat",
    "seated",
    "seats",
    "shelf",
    "sight",
    "tie",
    "turnstile",
    "util",
    "utils",
    "verdict",
    "visitors",
    "voicing",
    "wires",
    "wiring",
    "wish",
];

/// Relative path and text of every file of the product below the root, except inputs of the fuzzer.
pub(crate) fn files(extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let foreign = matches!(name.as_str(), "target" | ".git" | "node_modules" | ".hearken");
            if foreign || path.ends_with("fixtures/fuzz") {
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

/// Name and text of every source file in these folders, without files of tests and fuzz targets.
pub(crate) fn product_sources(folders: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let named =
        files(&["rs"]).into_iter().map(|(path, text)| (path.to_string_lossy().into_owned(), text));
    let is_product = |name: &str| {
        let inner = folders.iter().find_map(|folder| name.strip_prefix(folder.as_ref()));
        inner.is_some_and(|inner| {
            inner.starts_with('/') && !inner.contains("test") && !inner.contains("fuzz")
        })
    };
    named.filter(|(name, _)| is_product(name)).collect()
}

pub(crate) fn complain(faults: Vec<String>) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[test]
fn files_are_short_and_start_with_their_purpose() {
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        if !text.starts_with("//!") {
            faults.push(format!("{}: does not start with //!", path.display()));
        }
        let lines = text.lines().filter(|line| !is_comment(line)).count();
        if lines > MAX_FILE_LINES {
            faults.push(format!("{}: {lines} lines, at most {MAX_FILE_LINES}", path.display()));
        }
    }
    for (path, text) in files(&["py", "sh"]) {
        let opening = text.trim_start_matches("#!/usr/bin/env python3\n");
        if !opening.starts_with(['#', '"']) {
            faults.push(format!("{}: does not start with its purpose", path.display()));
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
            let end = lines[start..].iter().position(|l| *l == close).map_or(start, |n| start + n);
            let length = lines[start..=end].iter().filter(|line| !is_comment(line)).count();
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

/// The text between this opening parenthesis and its closing one, and the rest.
fn in_parentheses(text: &str) -> Option<(&str, &str)> {
    if !text.starts_with('(') {
        return None;
    }
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return Some((text.get(1..at)?, &text[at + 1..])),
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Whether a statement binds several names to as many expressions; two statements are clearer. A
/// swap does not count.
fn pairs_facts(statement: &str) -> bool {
    let Some((names, rest)) = statement.strip_prefix("let ").and_then(in_parentheses) else {
        return false;
    };
    // Also with the types between the names and the values.
    let typed = rest.strip_prefix(": ").and_then(in_parentheses);
    let rest = typed.map_or(rest, |(_, rest)| rest);
    let Some(values) = rest.trim_start().strip_prefix('=') else { return false };
    let Some((values, rest)) = in_parentheses(values.trim_start()) else { return false };
    let sorted = |list: &str| {
        let mut all: Vec<String> = list.split(',').map(|name| name.trim().to_owned()).collect();
        all.sort();
        all
    };
    rest.starts_with(';') && values.contains(',') && sorted(names) != sorted(values)
}

#[test]
fn lets_do_not_pack_tuples() {
    assert!(pairs_facts("let (a, b) = (x(1), y);"));
    assert!(!pairs_facts("let (a, b) = (b, a);") && !pairs_facts("let (a, b) = pair(x, y);"));
    assert!(pairs_facts("let (a, b): (u8, Vec<u8>) = (x(1), y);"));
    assert!(!pairs_facts("let (read, rest): (Vec<u8>, _) = all;"));
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        let mut from = 0;
        for line in text.lines() {
            let start = from;
            from += line.len() + 1;
            let statement = text[start..].trim_start();
            if pairs_facts(statement) {
                faults.push(format!("{}: {}", path.display(), line.trim()));
            }
        }
    }
    complain(faults);
}

#[test]
fn unmaintained_crates_are_used_in_one_file_each() {
    // The maintenance of these crates has slowed down: if one file uses each, it can be replaced in
    // a day. Decision 0005.
    let homes = [
        ("actix_web_actors", "crates/socket/src/lib.rs"),
        ("audiopus", "crates/audio/src/opus.rs"),
        ("webrtc_vad", "crates/audio/src/voice_detector.rs"),
        ("sonora_aec3", "crates/audio/src/echo_canceller.rs"),
    ];
    // This benchmark measures the codecs without our code around them.
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
fn folders_do_not_use_what_belongs_elsewhere() {
    let rules: [(&str, &[&str]); 4] = [
        ("proto/src", &["tokio", "actix", "tracing", "SystemTime", "Instant"]),
        ("crates/dialogue/src", &["actix", "audiopus", "reqwest", "sqlx"]),
        ("crates/audio/src", &["actix", "tokio", "async fn"]),
        ("crates/providers/src", &["hearken_actors::device", "hearken_actors::pipeline"]),
    ];
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        for (folder, banned) in rules.iter().filter(|(folder, _)| path.starts_with(folder)) {
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            for (number, line) in code.enumerate() {
                let Some(word) = banned.iter().find(|w| line.contains(**w)) else { continue };
                faults.push(format!(
                    "{}: `{word}` does not belong in {folder} (code line {number})",
                    path.display()
                ));
            }
        }
    }
    complain(faults);
}

#[test]
fn test_modules_are_named_tests() {
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]") {
            let module =
                pair[1].split_once("mod ").map(|(_, name)| name.trim_end_matches([';', ' ', '{']));
            if module.is_some_and(|name| name != "tests") || pair[1].starts_with("#[path") {
                faults.push(format!("{}: {}", path.display(), pair[1]));
            }
        }
    }
    complain(faults);
}

#[test]
fn crates_include_only_their_own_files() {
    // Cargo tracks any other file by its absolute path, and rebuilds the crate in each new checkout.
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        let folder = path.parent().unwrap();
        let package = path.ancestors().find(|above| root().join(above).join("Cargo.toml").exists());
        let package = root().join(package.unwrap()).canonicalize().unwrap();
        for part in text.split("include_").skip(1) {
            let named = part.strip_prefix("str!(\"").or_else(|| part.strip_prefix("bytes!(\""));
            let Some((named, _)) = named.and_then(|named| named.split_once('"')) else { continue };
            let file = root().join(folder).join(named).canonicalize();
            if file.is_ok_and(|file| !file.starts_with(&package)) {
                faults.push(format!("{}: `{named}` is no file of this crate", path.display()));
            }
        }
    }
    complain(faults);
}

#[test]
fn no_leftovers_and_no_paths_of_a_machine() {
    // Assembled here, so that this file does not match itself.
    let banned: Vec<String> = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["to", "do!("],
        ["unimpl", "emented!("],
        // Checkouts share their builds: no folder of a checkout may be compiled in.
        ["env!(\"CARGO_MANIF", "EST_DIR"],
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

/// The words of a name in lower case: of a path, of `snake_case` or of `CamelCase`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

/// The type that this line declares, if any.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c: char| c != ' ').trim_start(),
        None => line,
    };
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let rest = kinds.iter().find_map(|kind| line.strip_prefix(*kind))?;
    rest.split(|c: char| !c.is_alphanumeric()).next()
}

#[test]
fn names_are_no_metaphors() {
    let banned = |name: &str| words(name).into_iter().find(|w| BANNED_WORDS.contains(&w.as_str()));
    let mut faults = Vec::new();
    for (path, text) in files(&["rs"]) {
        if let Some(word) = banned(&path.to_string_lossy()) {
            faults.push(format!("{}: `{word}` is banned in file names", path.display()));
        }
        for (number, line) in text.lines().enumerate() {
            let Some(name) = declared(line) else { continue };
            if let Some(word) = banned(name) {
                let place = format!("{}:{}", path.display(), number + 1);
                faults.push(format!("{place}: `{name}`: `{word}` is banned in type names"));
            }
        }
    }
    complain(faults);
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(words("src/text_output.rs"), ["src", "text", "output", "rs"]);
    assert_eq!(words("ToolClient"), ["", "tool", "client"]);
    assert_eq!(declared("    pub(super) struct Guest<T> {"), Some("Guest"));
    assert_eq!(declared("pub type Lookup = Arc<str>;"), Some("Lookup"));
    assert_eq!(declared("let kind = 1;"), None);
}

/// The error in a piece of code in a document that names a file of ours, as `FILE` or as `FILE:FUNCTION`.
fn wrong_name(code: &str) -> Option<String> {
    let (path, function) = match code.split_once(':') {
        Some((path, function)) => (path, Some(function)),
        None => (code, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !FOLDERS.iter().any(|folder| path.starts_with(folder)) || !path.chars().all(plain) {
        return None;
    }
    let place = root().join(path);
    if !place.exists() {
        return Some(format!("there is no {path}"));
    }
    let function = function?;
    let text = std::fs::read_to_string(&place).unwrap_or_default();
    let there = ["(", "<"].iter().any(|open| text.contains(&format!("fn {function}{open}")));
    (!there).then(|| format!("{path} has no function {function}"))
}

/// Whether the file of a link is missing. Other links are not checked.
fn is_dead(link: &str, folder: &Path) -> bool {
    let file = link.split('#').next().unwrap_or_default();
    !file.is_empty() && !file.contains("://") && !root().join(folder).join(file).exists()
}

#[test]
fn documents_name_existing_files_and_functions() {
    let mut faults = Vec::new();
    for (path, text) in files(&["md"]) {
        // The changelog of a release has the names of its time.
        if path == Path::new("CHANGELOG.md") {
            continue;
        }
        let folder = path.parent().unwrap();
        let mut is_code = false;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with("```") {
                is_code = !is_code;
            }
            if is_code {
                continue;
            }
            let place = format!("{}:{}", path.display(), number + 1);
            let codes = line.split('`').skip(1).step_by(2);
            faults.extend(codes.filter_map(wrong_name).map(|wrong| format!("{place}: {wrong}")));
            let links = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            let dead = links.filter(|link| is_dead(link, folder));
            faults.extend(dead.map(|link| format!("{place}: {link} leads nowhere")));
        }
    }
    let index = std::fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs/decisions")).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name != "README.md" && !index.contains(&name) {
            faults.push(format!("docs/decisions/README.md: {name} is not listed"));
        }
    }
    complain(faults);
}

#[test]
fn required_documents_exist_and_are_short() {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "BENCHMARKS.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "GLOSSARY.md",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "config.toml",
        "docs/README.md",
        "docs/decisions/README.md",
        "docs/state-machines/README.md",
        "proto/README.md",
        "actors/README.md",
        "fixtures/README.md",
        "rust-toolchain.toml",
        "scripts/run",
        "scripts/test",
        ".ci/run",
    ] {
        assert!(root().join(name).exists(), "{name} is missing");
    }
    for (name, most) in
        [("ARCHITECTURE.md", MAX_ARCHITECTURE_LINES), ("README.md", MAX_README_LINES)]
    {
        let lines = std::fs::read_to_string(root().join(name)).unwrap().lines().count();
        assert!(lines <= most, "{name} has {lines} lines, at most {most}");
    }
}
