//! Language that the person last spoke, shared by the actors of one connection. Not for detecting
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use hearken_base::language::Language;

/// Shared language. Clones share it.
#[derive(Debug, Clone)]
pub struct SpokenLanguage(Arc<AtomicU8>);

const CHINESE: u8 = 0;
const ENGLISH: u8 = 1;
/// Set in the code until the person's words determine the language.
const ASSUMED: u8 = 2;

impl SpokenLanguage {
    /// Starts with this language, which is only assumed.
    pub fn new(language: Language) -> Self {
        Self(Arc::new(AtomicU8::new(code(language) | ASSUMED)))
    }

    /// Returns the language.
    pub fn get(&self) -> Language {
        language(self.0.load(Ordering::Relaxed))
    }

    /// Returns the language that was recorded; `None` as long as it is only assumed.
    pub fn heard(&self) -> Option<Language> {
        let code = self.0.load(Ordering::Relaxed);
        (code & ASSUMED == 0).then(|| language(code))
    }

    /// Records the language.
    pub fn set(&self, language: Language) {
        self.0.store(code(language), Ordering::Relaxed);
    }
}

fn language(code: u8) -> Language {
    match code & !ASSUMED {
        CHINESE => Language::Chinese,
        _ => Language::English,
    }
}

fn code(language: Language) -> u8 {
    match language {
        Language::Chinese => CHINESE,
        Language::English => ENGLISH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_it() {
        let spoken = SpokenLanguage::new(Language::Chinese);
        let other = spoken.clone();
        assert_eq!((other.get(), other.heard()), (Language::Chinese, None));
        for language in [Language::English, Language::Chinese] {
            spoken.set(language);
            assert_eq!((other.get(), other.heard()), (language, Some(language)));
        }
    }
}
