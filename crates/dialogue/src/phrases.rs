//! Fixed phrases in Chinese and English. Not for the model's words.

use hearken_base::language::Language;
use serde::{Deserialize, Serialize};

/// A phrase in the two languages that we speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// Chinese text.
    pub zh: String,
    /// English text.
    pub en: String,
}

impl Phrase {
    /// Creates a phrase from its Chinese and English texts.
    pub fn new(zh: impl Into<String>, en: impl Into<String>) -> Self {
        Self { zh: zh.into(), en: en.into() }
    }

    /// Returns both texts, without empty ones.
    pub fn all(&self) -> Vec<String> {
        [&self.zh, &self.en].into_iter().filter(|p| !p.is_empty()).cloned().collect()
    }

    /// Returns the text in this language.
    pub fn in_language(&self, language: Language) -> &str {
        match language {
            Language::Chinese => &self.zh,
            Language::English => &self.en,
        }
    }
}

/// Declares the phrases, each with its two keys and their defaults.
macro_rules! phrases {
    ($($(#[$doc:meta])* $name:ident { $zh:ident: $zh_text:literal, $en:ident: $en_text:literal })+) => {
        /// Section `[phrases]`: all fixed phrases.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(from = "PhraseKeys", into = "PhraseKeys")]
        pub struct Phrases {
            $($(#[$doc])* pub $name: Phrase,)+
        }

        impl Default for Phrases {
            fn default() -> Self {
                PhraseKeys::default().into()
            }
        }

        impl Phrases {
            /// Returns every phrase in both languages that is complete, without empty ones, for
            /// synthesis in advance.
            pub fn all(&self) -> Vec<String> {
                let all = [$(&self.$name),+].into_iter().flat_map(Phrase::all);
                all.filter(|phrase| !phrase.contains('{')).collect()
            }
        }

        /// Keys of the phrases, one for each language.
        #[derive(Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        struct PhraseKeys {
            $($zh: String, $en: String,)+
        }

        impl Default for PhraseKeys {
            fn default() -> Self {
                Self { $($zh: $zh_text.into(), $en: $en_text.into(),)+ }
            }
        }

        impl From<PhraseKeys> for Phrases {
            fn from(keys: PhraseKeys) -> Self {
                Self { $($name: Phrase { zh: keys.$zh, en: keys.$en },)+ }
            }
        }

        impl From<Phrases> for PhraseKeys {
            fn from(phrases: Phrases) -> Self {
                Self { $($zh: phrases.$name.zh, $en: phrases.$name.en,)+ }
            }
        }
    };
}

phrases! {
    /// Answer to a wake word.
    greeting { greeting_zh: "我在。", greeting_en: "I'm here." }
    /// Apology if a provider failed.
    apology {
        apology_zh: "抱歉，我这边出了点问题，请再说一遍。",
        apology_en: "Sorry, something went wrong. Please try again."
    }
    /// Farewell before an idle connection is closed; empty to close silently.
    farewell { farewell_zh: "那我先休息了，再见。", farewell_en: "I'll rest now. Goodbye." }
    /// First phrase during a long tool call; empty for silence.
    filler { filler_zh: "稍等，我看一下。", filler_en: "One moment, please." }
    /// Further phrase during a long tool call; empty for silence.
    filler_again { filler_again_zh: "还在处理，请再等等。", filler_again_en: "Still working on it." }
    /// Confirmation if tools succeeded and the model says nothing more; empty for silence.
    done { done_zh: "好了。", done_en: "Done." }
    /// Answer if the server is overloaded; empty for silence.
    busy {
        busy_zh: "现在有点忙，请过一会儿再说。",
        busy_en: "I'm busy right now. Please try again in a moment."
    }
    /// Answer if a limit of the day is reached; empty for silence.
    limit {
        limit_zh: "今天的使用额度已经用完了，明天再聊吧。",
        limit_en: "That was all for today. Let's talk again tomorrow."
    }
    /// Question before a camera is used.
    ask_camera { ask_camera_zh: "可以用一下摄像头吗？", ask_camera_en: "May I use the camera?" }
    /// Question before another tool is used; `{act}` is what it would do, `{tool}` and `{source}` are its name and its
    /// source's.
    ask_tool { ask_tool_zh: "可以{act}吗？", ask_tool_en: "May I {act}?" }
}
