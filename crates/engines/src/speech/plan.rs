//! Splits a text into spoken units: voice, expected duration, and the pause after each. Pure.

use std::time::Duration;

use super::text::script::{self, Language};
use super::text::{clauses, normalise_zh};

/// Unit of text for one voice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Language, which selects the voice.
    pub language: Language,
    /// Words of the unit; in Chinese, with digits already converted to Chinese words.
    pub text: String,
    /// Silence after the unit; zero after the last.
    pub pause: Duration,
}

impl Unit {
    /// Returns the expected duration at normal speed, including the pause.
    pub fn expected(&self) -> Duration {
        let units = u32::try_from(clauses::weight(&self.text)).unwrap_or(u32::MAX);
        // About 4.5 Chinese characters, or 18 Latin letters, per second.
        (Duration::from_secs(1) * units / 18).max(Duration::from_millis(300)) + self.pause
    }
}

/// Splits a text into units. Empty if there is nothing to say.
pub fn units(text: &str) -> Vec<Unit> {
    let mut units = Vec::new();
    for run in script::split(text) {
        let said = match run.language {
            Language::Chinese => normalise_zh::normalise(&run.text),
            Language::English => run.text,
        };
        let pieces = clauses::split(&said).into_iter();
        units.extend(pieces.map(|text| Unit {
            language: run.language,
            pause: pause_behind(&text),
            text,
        }));
    }
    if let Some(last) = units.last_mut() {
        last.pause = Duration::ZERO;
    }
    units
}

fn pause_behind(text: &str) -> Duration {
    let ms = match text.trim_end_matches(['”', '"', '」', '）', ')', ' ']).chars().last() {
        Some('。' | '！' | '？' | '.' | '!' | '?' | '…' | '；' | ';') => 280,
        Some('，' | ',' | '：' | ':' | '—') => 140,
        Some('、') => 90,
        _ => 30,
    };
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixed_text_becomes_units_with_pauses() {
        let made = units("好的，我用Rust写了3个程序。It works!");
        let show: Vec<_> = made.iter().map(|u| (u.text.as_str(), u.pause.as_millis())).collect();
        assert_eq!(
            show,
            [("好的，我用", 30), ("Rust", 30), ("写了三个程序。", 280), ("It works!", 0)]
        );
        assert!(units("……!!").is_empty());
    }

    #[test]
    fn expected_durations_are_realistic() {
        let zh = units("今天天气很好，我们去公园吧。")[0].expected();
        assert!((2.0..4.0).contains(&zh.as_secs_f64()), "{zh:?}");
        let en = units("Hello, I am your voice assistant.")[0].expected();
        assert!((1.5..3.0).contains(&en.as_secs_f64()), "{en:?}");
    }
}
