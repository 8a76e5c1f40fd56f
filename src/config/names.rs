//! Names of keys: which are written below `[expert]`, and which have been renamed. Not for their
//! meaning, which is in [`schema`](super::schema).
//!
//! Inside the program a key is named by its place in [`Config`](super::Config), its path. In files,
//! variables and documents the expert keys have `expert.` before it: `lanes.uplink` is written
//! `expert.lanes.uplink`.

/// Section of the keys that few owners need.
pub const EXPERT: &str = "expert";

/// Paths of keys, and of whole sections, that are written below `[expert]`: their right values
/// follow from measurements of the program, not from a household.
pub const EXPERT_PATHS: [&str; 26] = [
    "admission.busy_percent",
    "admission.late_ms",
    "admission.late_percent",
    "asr.pool",
    "device.greeting_grace_ms",
    "embedded.asr_page",
    "embedded.tts_page",
    "gateway.client_tool_result_queue_size",
    "hearing.barge_in_echo_ms",
    "journal.words",
    "lanes",
    "speaking.ahead_packets",
    "speaking.lead_packets",
    "speaking.start_guard_ms",
    "speaking.stop_margin_ms",
    "speaking.strained_complexity",
    "speculation.after_ms",
    "speculation.max_price_per_million",
    "speculation.max_speech_ms",
    "speculation.tries",
    "tools.filler_again_ms",
    "tts.pool",
    "turn_detection.likely_en",
    "turn_detection.likely_zh",
    "turn_detection.unlikely_en",
    "turn_detection.unlikely_zh",
];

/// Renamed keys: old and new path.
const RENAMED: [(&str, &str); 2] =
    [("llm.read_ahead", "llm.prefetch"), ("speaking.cushion_ms", "speaking.prebuffer_ms")];

/// Languages of `[phrases]`, whose keys had the language at their end.
const LANGUAGES: [&str; 2] = ["en", "zh"];

/// Reports whether the key of this path is written below `[expert]`.
pub fn is_expert(path: &str) -> bool {
    EXPERT_PATHS.iter().any(|expert| {
        path.strip_prefix(expert).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Returns the name by which the key of this path is written.
pub fn written(path: &str) -> String {
    if is_expert(path) { format!("{EXPERT}.{path}") } else { path.to_owned() }
}

/// Path of a key, found by the name that a person wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Path of the key; the name itself if there is no such key.
    pub path: String,
    /// True if the name is an old one.
    pub is_old: bool,
}

impl Resolved {
    /// Returns the warning about an old name.
    pub fn warning(&self, name: &str) -> Option<String> {
        let new = written(&self.path);
        self.is_old.then(|| format!("`{name}` is now `{new}`: the old name still works"))
    }
}

/// Finds the key by a current or an old name.
pub fn resolve(name: &str) -> Resolved {
    if let Some(path) = name.strip_prefix("expert.") {
        let path = if is_expert(path) { path } else { name };
        return Resolved { path: path.to_owned(), is_old: false };
    }
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        return Resolved { path: (*new).to_owned(), is_old: true };
    }
    if let Some(path) = phrase(name) {
        return Resolved { path, is_old: true };
    }
    Resolved { path: name.to_owned(), is_old: is_expert(name) }
}

/// Returns the path of a phrase by its old name: `phrases.greeting_zh` is `phrases.zh.greeting`.
fn phrase(name: &str) -> Option<String> {
    let (phrase, language) = name.strip_prefix("phrases.")?.rsplit_once('_')?;
    (!phrase.contains('.') && LANGUAGES.contains(&language))
        .then(|| format!("phrases.{language}.{phrase}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_names_lead_to_one_path() {
        for (name, path, is_old) in [
            ("server.port", "server.port", false),
            ("expert.lanes.uplink", "lanes.uplink", false),
            ("lanes.uplink", "lanes.uplink", true),
            ("expert.asr.pool.max_idle", "asr.pool.max_idle", false),
            ("asr.pool.max_idle", "asr.pool.max_idle", true),
            ("asr.pooled", "asr.pooled", false),
            ("expert.server.port", "expert.server.port", false),
            ("llm.read_ahead", "llm.prefetch", true),
            ("phrases.ask_tool_zh", "phrases.zh.ask_tool", true),
            ("phrases.zh.ask_tool", "phrases.zh.ask_tool", false),
            ("turn_detection.likely_zh", "turn_detection.likely_zh", true),
        ] {
            assert_eq!(resolve(name), Resolved { path: path.into(), is_old }, "{name}");
            assert_eq!(resolve(&written(path)).path, path);
        }
        let old = resolve("turn_detection.likely_zh").warning("turn_detection.likely_zh").unwrap();
        assert!(old.contains("`expert.turn_detection.likely_zh`"), "{old}");
        assert_eq!(resolve("server.port").warning("server.port"), None);
    }
}
