//! The configuration file of the repository, and the errors shown to users.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use hearken::config::{self, Config, Loaded};
use serde_json::json;

fn repository(path: &str) -> PathBuf {
    hearken_test_support::repository().join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap()
}

fn load(path: &str) -> Loaded {
    config::load_with_origins(Some(&repository(path)), &BTreeMap::new()).unwrap()
}

#[test]
fn the_shipped_file_sets_nothing_so_that_copies_receive_later_defaults() {
    let loaded = load("config.toml");
    assert_eq!(loaded.config, Config::default());
    assert!(loaded.origins.is_empty(), "{:?}", loaded.origins);
    assert!(read("config.toml").lines().count() <= 70);
}

#[test]
fn uncommenting_every_key_of_the_shipped_file_changes_nothing() {
    let key = |line: &str| match line.strip_prefix('#') {
        Some(key) if !key.starts_with(' ') => format!("{key}\n"),
        _ => format!("{line}\n"),
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), read("config.toml").lines().map(key).collect::<String>()).unwrap();
    let loaded = config::load_with_origins(Some(file.path()), &BTreeMap::new()).unwrap();
    let mut config = loaded.config;
    // The file has only the beginning of it.
    config.dialogue.system_prompt = Config::default().dialogue.system_prompt;
    assert_eq!(config, Config::default());
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!((20..=40).contains(&loaded.origins.len()), "{}", loaded.origins.len());
}

#[test]
fn the_reference_is_what_the_program_explains() {
    let generated = config::reference::markdown();
    assert!(
        read("docs/configuration.md").trim_end() == generated.trim_end(),
        "write it again: hearken config explain > docs/configuration.md"
    );
}

#[test]
fn files_of_earlier_versions_work_with_warnings() {
    let all = load("fixtures/config/all-keys.toml");
    assert_eq!(all.config, Config::default());
    let added = |name: &str| {
        matches!(
            name,
            "speculation.enabled"
                | "dialogue.answer_seconds"
                | "server.max_recordings_mib"
                | "server.trusted_proxies"
        ) || name.starts_with("instant.")
            || name.starts_with("vision.price_per_million_")
    };
    let keys = config::schema::reference().keys.iter();
    let present = keys.filter(|(name, key)| !key.is_in_list() && !added(name)).count();
    assert_eq!(all.origins.len(), present, "all keys but those added after this file");
    let first = load("fixtures/config/0.1.0.toml");
    assert_eq!((first.config.server.port, first.config.lanes.uplink), (9400, 64));
    for Loaded { warnings, origins, .. } in [all, first] {
        let warned: BTreeSet<&str> = warnings.iter().filter_map(|w| w.split('`').nth(1)).collect();
        for old in
            ["lanes.uplink", "phrases.greeting_zh", "asr.pool.max_idle", "speaking.cushion_ms"]
        {
            assert!(warned.contains(old), "{old}: {warned:?}");
        }
        assert!(
            origins.contains_key("phrases.en.greeting")
                && origins.contains_key("speaking.prebuffer_ms")
        );
    }
}

#[test]
fn variables_of_earlier_versions_work_with_warnings() {
    let vars: BTreeMap<String, String> = [
        ("HEARKEN__LANES__UPLINK", "9"),
        ("HEARKEN__PHRASES__GREETING_EN", "Hello"),
        ("HEARKEN__SPEAKING__CUSHION_MS", "500"),
        ("HEARKEN__LLM__READ_AHEAD", "true"),
        ("CLIENT_TOOL_RESULT_QUEUE_SIZE", "7"),
        ("HEARKEN__EXPERT__LANES__PLAYBACK", "3"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let Loaded { config, warnings, .. } = config::load_with_origins(None, &vars).unwrap();
    assert_eq!((config.lanes.uplink, config.lanes.playback), (9, 3));
    assert_eq!(config.phrases.greeting.en, "Hello");
    assert_eq!(config.speaking.prebuffer.as_millis(), 500);
    assert!(config.llm.prefetch);
    assert_eq!(config.gateway.client_tool_result_queue_size, 7);
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    let new = "HEARKEN__LLM__READ_AHEAD: `llm.read_ahead` is now `llm.prefetch`: the old name still works";
    assert!(warnings.iter().any(|warning| warning == new), "{warnings:?}");
}

#[test]
fn a_setting_that_an_earlier_version_stored_still_applies() {
    // None of the keys that change at run time is an expert key or renamed: their stored names hold.
    for key in hearken::admin::CHANGEABLE {
        assert_eq!(config::names::written(key), *key);
    }
    let stored = vec![
        ("llm.temperature".to_owned(), json!(0.3)),
        ("tools.policy".to_owned(), json!({"a/b": "ask"})),
        ("password".to_owned(), json!("hash")),
    ];
    let found = hearken::admin::stored_settings(&Config::default(), stored).unwrap();
    assert_eq!((found.config.llm.temperature, found.paths.len()), (0.3, 2));
}

#[test]
fn numbers_that_are_not_finite_are_refused() {
    for value in ["nan", "inf", "-inf"] {
        let text = format!("gateway.temperature = {value}");
        let refused = config::load_text(Some(("f.toml".as_ref(), &text)), &BTreeMap::new());
        let expected = "f.toml, line 1: `gateway.temperature` is not finite: use 0 to 1";
        assert_eq!(refused.unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_examples_are_short_and_valid() {
    for name in ["home", "home-with-keys", "company"] {
        let path = format!("examples/config/{name}.toml");
        let text = read(&path);
        assert!(text.lines().count() < 30, "{name}");
        // The secret is in a file of that machine.
        let text = text.replace("bearer_file = \"/etc/hearken/home-assistant-token\"\n", "");
        let loaded = config::load_text(Some((path.as_ref(), &text)), &BTreeMap::new());
        loaded.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
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
fn numbers_are_shown_as_written() {
    let shown = config::masked(&Config::default()).unwrap();
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
fn the_error_of_an_invalid_tool_policy_names_the_valid_values() {
    for (text, told) in [
        ("[tools.policy]\n\"a/b\" = \"asks\"", "expected one of `allow`, `ask`, `never`"),
        ("[tools.policy]\nweather = \"ask\"", "wrong at `weather`: use SOURCE/TOOL"),
        ("[tools]\nchanged_definitions = \"warn\"", "expected one of `allow`, `ask`, `never`"),
        ("[phrases.en]\nask_tool = \"\"", "`phrases.en.ask_tool` is empty: write the question"),
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

#[test]
fn values_are_shown_with_their_origin_and_secrets_masked() {
    let env =
        [("LLM_API_KEY", "sk-secret"), ("CLOUD_PORT", "8123"), ("HEARKEN__LANES__UPLINK", "9")];
    let (code, out, err) = hearken(&["config", "show"], &env);
    assert_eq!(code, Some(0), "{err}");
    for line in [
        "port = 8123  # CLOUD_PORT",
        "api_key = \"***\"  # LLM_API_KEY",
        "[expert.lanes]",
        "uplink = 9  # HEARKEN__LANES__UPLINK",
        "host = \"0.0.0.0\"  # default",
    ] {
        assert!(out.lines().any(|shown| shown == line), "{line}: {out}");
    }
    assert!(err.contains("`lanes.uplink` is now `expert.lanes.uplink`"), "{err}");
    let again = config::load_text(Some(("shown.toml".as_ref(), &out)), &BTreeMap::new());
    assert_eq!(again.unwrap().server.port, 8123, "what is shown is a file");
    let (_, out, _) = hearken(&["config", "show", "--changed", "--json"], &env);
    let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown.as_array().unwrap().len(), 3, "{out}");
    let (_, out, _) = hearken(&["config", "show", "server.port"], &env);
    assert_eq!(out, "[server]\nport = 8123  # CLOUD_PORT\n");
    let (code, _, err) = hearken(&["config", "show", "server.prot"], &[]);
    assert_eq!(
        (code, err.as_str()),
        (Some(2), "hearken: there is no key `server.prot`; did you mean `server.port`?\n")
    );
}

#[test]
fn keys_are_explained() {
    let (code, out, _) = hearken(&["config", "explain", "llm.timeout_ms"], &[]);
    assert_eq!(code, Some(0));
    for part in ["llm.timeout_ms\n", "milliseconds", "120000", "LLM_TIMEOUT (in seconds)"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, _, err) = hearken(&["config", "explain", "lanes.uplnk"], &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("did you mean `expert.lanes.uplink`?"), "{err}");
}

#[test]
fn services_are_contacted_on_request() {
    let (code, out, err) = hearken(&["config", "check"], &[]);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "the configuration is valid: the environment and the defaults\n"),
        "{err}"
    );
    let env =
        [("ASR_URL", "ws://127.0.0.1:9"), ("HEARKEN__VISION__BASE_URL", "http://127.0.0.1:9/v1")];
    let (code, out, err) = hearken(&["config", "check", "--services"], &env);
    assert_eq!(code, Some(1), "{err}");
    let line = |key: &str| {
        out.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("{key}: {out}"))
    };
    assert!(line("asr.url").contains("FAILS"), "{out}");
    assert!(line("vision.base_url").contains("FAILS"), "{out}");
    assert!(line("tts.url").contains("starts with the server"), "{out}");
    assert!(line("store.url").contains("works"), "{out}");
}
