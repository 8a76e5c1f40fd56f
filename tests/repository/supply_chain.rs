//! Checks of downloads: nothing without a hash. The reader of the model catalogue itself refuses
//! entries without one.

use super::root;

/// Path and text of each script, and of each file of the engines' models.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("scripts"), root().join("crates/engines/src/models")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                found.push((path.display().to_string(), text));
            }
        }
    }
    found
}

#[test]
fn pip_and_npm_install_nothing_without_a_hash() {
    let mut seen = 0;
    for (path, text) in sources() {
        // A command may span several lines and calls.
        let words: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with(['#', '/']))
            .flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"',[](){}@".contains(c)))
            .filter(|word| !word.is_empty())
            .collect();
        for (at, pair) in words.windows(2).enumerate() {
            let pip = pair[0].ends_with("pip") && ["install", "download"].contains(&pair[1]);
            let npm = pair[0] == "npm" && ["install", "ci", "i"].contains(&pair[1]);
            if !pip && !npm {
                continue;
            }
            seen += 1;
            let command = &words[at..words.len().min(at + 40)];
            let has = |option: &str| command.contains(&option);
            let locked = pair[1] == "ci" || has("--package-lock-only");
            let safe =
                if pip { has("--require-hashes") } else { locked && has("--ignore-scripts") };
            assert!(safe, "{path}: {}", command.join(" "));
        }
    }
    assert!(seen >= 5, "only {seen} uses of pip and npm were found");
}

#[test]
fn each_locked_package_has_a_hash() {
    let mut files = vec![root().join("crates/engines/src/models/requirements.txt")];
    let locks = std::fs::read_dir(root().join("scripts/locks")).unwrap();
    files
        .extend(locks.map(|l| l.unwrap().path()).filter(|l| l.extension() == Some("txt".as_ref())));
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap().replace("\\\n", " ");
        let packages: Vec<&str> = text.lines().filter(|line| line.contains("==")).collect();
        assert!(!packages.is_empty(), "{}", file.display());
        for package in packages {
            assert!(package.contains("--hash=sha256:"), "{}: {package}", file.display());
        }
    }
    let lock = std::fs::read_to_string(root().join("scripts/locks/package-lock.json")).unwrap();
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    assert!(packages.len() > 100, "{} packages", packages.len());
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        assert!(package["integrity"].is_string(), "{name}");
    }
}

/// A state that one version of llama.cpp wrote cannot be read by another.
#[test]
fn cached_prompts_have_the_version_of_their_format() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let lock = read("Cargo.lock");
    let engine = read("crates/engine-program/src/llama.rs");
    let (_, entry) = lock.split_once("name = \"llama-cpp-2\"\nversion = \"").unwrap();
    let (version, _) = entry.split_once('"').unwrap();
    assert!(engine.contains(&format!("LLAMA_CPP: &str = \"llama-cpp-2 {version}\"")), "{version}");
}
