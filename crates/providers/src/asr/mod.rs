//! Speech recognisers behind the `Asr` port, one protocol per file. Not for choosing between them:
//! that is [`super::asr()`].

pub mod funasr;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod listenai;
pub mod openai;

use hearken_base::spoken_words::spoken_words;
use hearken_ports::{Transcript, UtteranceSpec};

/// Samples per millisecond of the port's audio: 16 kHz.
const SAMPLES_PER_MS: u64 = 16;

/// Returns the transcript of this text, truncated to the maximum length.
fn transcript(text: &str) -> Transcript {
    let text = text.trim();
    let kept = hearken_ports::within_transcript(text);
    if kept.len() < text.len() {
        tracing::warn!(
            bytes = text.len(),
            kept = kept.len(),
            "truncated a transcript that is too long: check the recogniser"
        );
    }
    Transcript { text: spoken_words(kept) }
}

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
    fn a_transcript_is_truncated_between_characters() {
        assert_eq!(transcript(" 你好 ").text, "你好");
        // All characters differ, because repeated text is collapsed.
        let words = |most| ('\u{4e00}'..).take(most).collect::<String>();
        assert_eq!(transcript(&words(4_000)).text, words(4_000));
        assert_eq!(transcript(&words(20_000)).text, words(4_000));
    }

    #[test]
    fn the_language_of_the_utterance_overrides_the_settings() {
        let spec = |tag: Option<&str>| UtteranceSpec { language: tag.map(str::to_owned) };
        assert_eq!(language(&spec(Some("zh-CN")), "en"), Some("zh".into()));
        assert_eq!(language(&spec(None), "EN_us"), Some("en".into()));
        assert_eq!(language(&spec(None), "auto"), None);
        assert_eq!(language(&spec(Some("")), "en"), None);
    }
}
