//! The configuration file of the repository, and the errors that a person sees.

use std::collections::BTreeMap;
use std::process::Command;

use hearken::config::{self, Config};

fn shipped() -> std::path::PathBuf {
    hearken_test_support::repository().join("config.toml")
}

/// The shipped file with every key as if a person had removed its `#`. A comment has a space there.
fn uncommented() -> String {
    let text = std::fs::read_to_string(shipped()).unwrap();
    let key = |line: &str| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => format!("{key}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(key).collect()
}

/// Every key, with dots; one whose value is an empty table, such as `llm.extra`, among them.
fn keys(table: &toml::Table) -> Vec<String> {
    let below = |(name, value): (&String, &toml::Value)| match value.as_table() {
        Some(inner) if !inner.is_empty() => {
            keys(inner).iter().map(|key| format!("{name}.{key}")).collect()
        }
        _ => vec![name.clone()],
    };
    table.iter().flat_map(below).collect()
}

#[test]
fn the_shipped_file_sets_nothing_so_that_copies_receive_later_defaults() {
    let config = config::load(Some(&shipped()), &BTreeMap::new()).unwrap();
    assert_eq!(config, Config::default());
    let text = std::fs::read_to_string(shipped()).unwrap();
    let written: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!(config::reader::keys(&written), [""; 0]);
}

#[test]
fn uncommenting_every_key_of_the_shipped_file_changes_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), uncommented()).unwrap();
    let config = config::load(Some(file.path()), &BTreeMap::new()).unwrap();
    assert_eq!(config, Config::default());
    let written: toml::Table = toml::from_str(&uncommented()).unwrap();
    assert_eq!(keys(&written), keys(&toml::Table::try_from(Config::default()).unwrap()));
}

#[test]
fn every_key_of_the_shipped_file_is_explained_by_the_line_above_it() {
    let text = std::fs::read_to_string(shipped()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_key = |line: &str| {
        let name = line.strip_prefix('#').and_then(|rest| rest.split_once(" = "));
        name.is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let mut explained = 0;
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| is_key(line)) {
        explained += 1;
        assert!(lines[number - 1].starts_with("# "), "line {}: {line}", number + 1);
    }
    assert_eq!(explained, keys(&toml::Table::try_from(Config::default()).unwrap()).len());
}

fn hearken(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hearken"))
        .args(args)
        .envs(env.iter().copied())
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn numbers_are_shown_as_they_were_written() {
    let shown = config::masked(&Config::default());
    assert!(shown.contains("temperature = 0.7\n"), "{shown}");
    assert_eq!(serde_json::json!(Config::default())["llm"]["temperature"].to_string(), "0.7");
    let speed = toml::from_str::<Config>("tts.speed = 1.1").unwrap();
    assert_eq!(serde_json::json!(speed)["tts"]["speed"].to_string(), "1.1");
}

#[test]
fn the_whole_configuration_is_shown_with_its_secrets_masked() {
    let env = [("LLM_API_KEY", "sk-secret"), ("CLOUD_PORT", "8123")];
    let (code, out, err) = hearken(&["serve", "--check-config"], &env);
    assert_eq!(code, Some(0), "{err}");
    let shown: toml::Table = toml::from_str(&out).unwrap();
    assert_eq!(shown["server"]["port"].as_integer(), Some(8123));
    assert_eq!(shown["llm"]["api_key"].as_str(), Some("***"));
    assert!(!out.contains("sk-secret"));
}

#[test]
fn a_store_s_address_is_shown_without_its_password() {
    for (url, shown) in [
        ("postgres://u:hidden@h/d", "postgres://u:***@h/d"),
        ("postgresql://u@h/d?password=hidden", "postgresql://u@h/d?password=***"),
        ("sqlite:///x/y.db", "sqlite:///x/y.db"),
        ("u:hidden@h", "***"),
        ("postgres:u:hidden@h", "***"),
    ] {
        let (_, out, _) = hearken(&["serve", "--check-config"], &[("DATABASE_URL", url)]);
        let told: toml::Table = toml::from_str(&out).unwrap();
        assert_eq!(told["store"]["url"].as_str(), Some(shown));
        assert!(!out.contains("hidden"), "{out}");
    }
}

#[test]
fn a_wrong_policy_of_a_tool_is_told_with_what_to_write() {
    for (text, told) in [
        ("[tools.policy]\n\"a/b\" = \"asks\"", "expected one of `allow`, `ask`, `never`"),
        ("[tools.policy]\nweather = \"ask\"", "wrong at `weather`: use SOURCE/TOOL"),
        ("[tools]\nchanged_definitions = \"warn\"", "expected one of `allow`, `ask`, `never`"),
        ("[phrases]\nask_tool_en = \"\"", "`phrases.ask_tool` is empty: set both languages"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let error = config::load(Some(file.path()), &BTreeMap::new()).unwrap_err();
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
        let error = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn a_wrong_setting_ends_the_command_with_one_clear_line() {
    let (code, out, err) = hearken(&["serve"], &[("HEARKEN__SERVER__PRT", "1")]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert_eq!(
        err,
        "hearken: environment variable HEARKEN__SERVER__PRT: there is no key `server.prt`; did \
         you mean HEARKEN__SERVER__PORT?\n"
    );
    let (code, _, err) = hearken(&["serve", "--config", "nowhere.toml"], &[]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("hearken: cannot read nowhere.toml"), "{err}");
}
