//! What crates may depend on: one another, and crates of others. Not for licences.

use super::root;
use super::tidy::complain;

/// What the tests of several crates need, and no product.
const TEST_SUPPORT: &str = "crates/test-support";

/// The folders of all crates of the workspace.
fn crates() -> Vec<String> {
    let mut folders: Vec<String> = [".", "actors", "proto", "tests/fuzz"].map(str::to_owned).into();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        folders.push(format!("crates/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    folders
}

/// What the manifest in this folder depends on, without what only its tests need.
fn dependencies(folder: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    manifest["dependencies"].as_table().unwrap().keys().cloned().collect()
}

#[test]
fn crates_depend_one_way() {
    const CORE: [&str; 3] = ["proto", "actors", "base"];
    let allowed: [(&str, &[&str]); 19] = [
        ("proto", &[]),
        ("actors", &["proto"]),
        ("crates/base", &["proto", "actors"]),
        ("crates/providers", &CORE),
        ("crates/cluster", &CORE),
        ("crates/store", &CORE),
        ("crates/engines", &CORE),
        ("crates/engine-program", &["actors", "base", "engines"]),
        ("crates/virtual-device", &CORE),
        ("crates/tool-sources", &["proto", "actors", "base", "store"]),
        ("crates/mock-services", &["proto", "actors", "base", "engines", "virtual-device"]),
        ("crates/inference", &["base"]),
        ("crates/turn-detector", &["actors", "inference"]),
        ("crates/speaker-embedder", &["actors", "inference"]),
        (
            "crates/turns",
            &["proto", "actors", "turn-detector", "speaker-embedder", "virtual-device"],
        ),
        ("crates/state-server", &["proto"]),
        ("crates/simulation", &["proto", "actors", "base", "cluster", "store"]),
        (TEST_SUPPORT, &["proto", "actors", "engines", "tool-sources", "state-server"]),
        ("tests/fuzz", &["proto", "actors", "engines", "providers", "store", "tool-sources"]),
    ];
    let mut faults = Vec::new();
    for folder in crates() {
        if !allowed.iter().any(|(known, _)| *known == folder) && folder != "." {
            faults.push(format!("{folder} is not in this table"));
        }
        if dependencies(&folder).iter().any(|name| name == "hearken-test-support") {
            faults.push(format!("{folder}: {TEST_SUPPORT} is a dev-dependency only"));
        }
    }
    for (folder, below) in allowed {
        for name in dependencies(folder) {
            let ours = name.strip_prefix("hearken-");
            if ours.is_some_and(|ours| !below.contains(&ours)) {
                faults.push(format!("{folder} must not depend on {name}"));
            }
        }
    }
    complain(faults);
}

#[test]
fn some_crates_of_others_have_one_home() {
    let homes: [(&str, &[&str]); 9] = [
        ("actix-web-actors", &["actors"]),
        ("audiopus", &["actors"]),
        ("webrtc-vad", &["actors"]),
        ("llama-cpp-2", &["crates/engine-program"]),
        ("sherpa-onnx", &["crates/engine-program"]),
        ("redis", &["crates/cluster"]),
        ("rmcp", &["actors", "crates/tool-sources"]),
        ("sqlx", &["crates/store", TEST_SUPPORT]),
        ("rten", &["crates/inference"]),
    ];
    let mut faults = Vec::new();
    for folder in crates() {
        for name in dependencies(&folder) {
            let home = homes.iter().find(|(of, _)| *of == name);
            if let Some((_, home)) = home.filter(|(_, home)| !home.contains(&folder.as_str())) {
                faults.push(format!("{folder}: {name} belongs in {}", home.join(" and ")));
            }
        }
    }
    complain(faults);
}
