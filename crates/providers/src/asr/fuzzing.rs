//! Fuzz target: the answers of a FunASR recogniser.

use hearken_ports::asr::MAX_TRANSCRIPT_CHARS;

use super::funasr::{ResultKind, Segments};
use crate::settings::FunAsrMode;

/// Messages of a recogniser, one per line: each is parsed or rejected, and the transcript is always
/// bounded and trimmed.
///
/// # Panics
/// Panics if one of these properties is broken.
pub fn funasr_answers(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for mode in [FunAsrMode::Offline, FunAsrMode::TwoPass] {
        let mut heard = Segments::new(mode);
        for message in text.lines() {
            let before = heard.transcript();
            let kind = heard.take(message);
            let after = heard.transcript();
            if let Some(partial) = heard.partial() {
                assert_eq!(partial, partial.trim());
                assert!(partial.chars().count() <= MAX_TRANSCRIPT_CHARS);
            }
            assert_eq!(after.text, after.text.trim());
            assert!(after.text.chars().count() <= MAX_TRANSCRIPT_CHARS);
            match kind {
                None => assert_eq!(before, after),
                // Words that a segment is to replace count until it arrives.
                Some(ResultKind::Nothing) if mode == FunAsrMode::Offline => {
                    assert_eq!(before, after);
                }
                Some(_) => {}
            }
        }
    }
}
