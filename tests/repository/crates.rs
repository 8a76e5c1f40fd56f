//! Dependencies of crates: on each other, and on third-party crates. Not for licences.

use super::root;
use super::tidy::complain;

/// For tests of several crates; not part of any product.
const TEST_SUPPORT: &str = "crates/test-support";

/// Folders of all crates of the workspace.
fn crates() -> Vec<String> {
    let mut folders: Vec<String> = [".", "actors", "proto", "tests/fuzz"].map(str::to_owned).into();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        folders.push(format!("crates/{}", entry.unwrap().file_name().to_string_lossy()));
    }
    folders
}

/// Dependencies of the crate in this folder, without dev-dependencies.
fn dependencies(folder: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = toml::from_str(&text).unwrap();
    manifest["dependencies"].as_table().unwrap().keys().cloned().collect()
}

/// Allowed dependencies of each crate on other crates of this workspace.
// Dependencies point one way: a change in a crate rebuilds only the crates above it. Decision 0079.
const ALLOWED: [(&str, &[&str]); 32] = [
    ("proto", &[]),
    ("crates/audio", &["base", "proto"]),
    ("crates/base", &[]),
    ("crates/chat", &["audio", "base", "dialogue", "ports", "proto", "socket"]),
    ("crates/cluster", &["base", "ports", "proto"]),
    (
        "crates/dev",
        &[
            "audio",
            "base",
            "dialogue",
            "mock-services",
            "outbound",
            "proto",
            "state-server",
            "virtual-device",
        ],
    ),
    ("crates/dialogue", &["audio", "base", "ports", "proto"]),
    ("crates/engine-program", &["audio", "base", "engines", "outbound"]),
    ("crates/engines", &["audio", "base", "outbound", "proto"]),
    ("crates/inference", &["base"]),
    ("crates/instant", &["base"]),
    ("crates/mock-services", &["audio", "engines", "proto", "virtual-device"]),
    ("crates/museum", &["audio", "base", "cluster", "dialogue", "ports", "proto"]),
    ("crates/outbound", &["base", "ports"]),
    ("crates/ports", &["base", "proto"]),
    ("crates/providers", &["audio", "base", "outbound", "ports", "proto"]),
    (
        "crates/simulation",
        &[
            "actors",
            "audio",
            "base",
            "chat",
            "cluster",
            "dialogue",
            "ports",
            "proto",
            "socket",
            "store",
            "text-gateway",
        ],
    ),
    ("crates/rule-answers", &["base", "instant", "ports", "safety"]),
    ("crates/safety", &["base"]),
    ("crates/socket", &["base", "proto"]),
    ("crates/speaker-embedder", &["audio", "inference", "ports"]),
    ("crates/state-server", &["proto"]),
    ("crates/store", &["base", "ports", "proto"]),
    (TEST_SUPPORT, &["engines", "ports", "proto", "state-server", "tool-sources"]),
    ("crates/text-client", &["base", "outbound"]),
    ("crates/text-gateway", &["audio", "base", "dialogue", "ports", "proto", "socket"]),
    ("crates/tool-sources", &["base", "dialogue", "outbound", "ports", "proto", "socket"]),
    ("crates/turn-detector", &["inference", "ports"]),
    (
        "crates/turns",
        &[
            "actors",
            "audio",
            "base",
            "dialogue",
            "ports",
            "proto",
            "socket",
            "speaker-embedder",
            "turn-detector",
            "virtual-device",
        ],
    ),
    ("crates/virtual-device", &["audio", "outbound", "proto"]),
    ("actors", &["audio", "base", "dialogue", "ports", "proto", "socket"]),
    (
        "tests/fuzz",
        &[
            "actors",
            "audio",
            "base",
            "dialogue",
            "engines",
            "museum",
            "ports",
            "proto",
            "providers",
            "socket",
            "store",
            "tool-sources",
        ],
    ),
];

#[test]
fn crates_depend_one_way() {
    let mut faults = Vec::new();
    for folder in crates() {
        if !ALLOWED.iter().any(|(known, _)| *known == folder) && folder != "." {
            faults.push(format!("{folder} is not in this table"));
        }
        if dependencies(&folder).iter().any(|name| name == "hearken-test-support") {
            faults.push(format!("{folder}: {TEST_SUPPORT} is a dev-dependency only"));
        }
    }
    for (folder, below) in ALLOWED {
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
fn some_third_party_crates_are_confined_to_one_crate() {
    let homes: [(&str, &[&str]); 9] = [
        ("actix-web-actors", &["crates/socket"]),
        ("audiopus", &["crates/audio"]),
        ("webrtc-vad", &["crates/audio"]),
        ("llama-cpp-2", &["crates/engine-program"]),
        ("sherpa-onnx", &["crates/engine-program"]),
        ("redis", &["crates/cluster"]),
        ("rmcp", &["actors", "crates/dialogue", "crates/tool-sources"]),
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
