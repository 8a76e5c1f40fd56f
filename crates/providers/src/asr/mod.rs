//! Speech recognisers behind the `Asr` port, one protocol per file. Not for choosing between them:
//! that is [`super::asr()`].

pub mod funasr;
pub mod listenai;
pub mod openai;

use hearken_actors::ports::UtteranceSpec;

/// Samples per millisecond of the port's audio: 16 kHz.
const SAMPLES_PER_MS: u64 = 16;

/// Returns the primary part of the language tag in lower case, from the utterance or else from the
/// settings; none if both are empty.
fn language(spec: &UtteranceSpec, fallback: &str) -> Option<String> {
    let tag = spec.language.as_deref().unwrap_or(fallback);
    let primary = tag.split(['-', '_']).next().unwrap_or_default().to_ascii_lowercase();
    (!primary.is_empty() && primary != "auto").then_some(primary)
}

/// Converts the longest utterance from milliseconds to samples.
pub(super) fn max_samples(max_utterance_ms: u64) -> usize {
    usize::try_from(max_utterance_ms.saturating_mul(SAMPLES_PER_MS)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_utterances_language_goes_before_the_settings() {
        let spec = |tag: Option<&str>| UtteranceSpec { language: tag.map(str::to_owned) };
        assert_eq!(language(&spec(Some("zh-CN")), "en"), Some("zh".into()));
        assert_eq!(language(&spec(None), "EN_us"), Some("en".into()));
        assert_eq!(language(&spec(None), "auto"), None);
        assert_eq!(language(&spec(Some("")), "en"), None);
    }
}
