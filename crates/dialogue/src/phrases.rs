//! Fixed phrases in Chinese and English. Not for the model's words.

use hearken_base::language::Language;
use schemars::JsonSchema;
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

/// Declares the phrases, each with its text in each language.
macro_rules! phrases {
    ($($(#[$doc:meta])* $name:ident { zh: $zh:literal, en: $en:literal })+) => {
        /// Section `[phrases]`: all fixed phrases.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(from = "Texts", into = "Texts")]
        pub struct Phrases {
            $($(#[$doc])* pub $name: Phrase,)+
        }

        impl Default for Phrases {
            fn default() -> Self {
                Texts::default().into()
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

        /// Fixed phrases, one section for each language. An empty phrase is not spoken.
        #[derive(Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct Texts {
            zh: Chinese,
            en: English,
        }

        /// Fixed phrases in Chinese.
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct Chinese {
            $($(#[$doc])* $name: String,)+
        }

        impl Default for Chinese {
            fn default() -> Self {
                Self { $($name: $zh.into(),)+ }
            }
        }

        /// Fixed phrases in English, and for speakers of every other language.
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        struct English {
            $($(#[$doc])* $name: String,)+
        }

        impl Default for English {
            fn default() -> Self {
                Self { $($name: $en.into(),)+ }
            }
        }

        impl From<Texts> for Phrases {
            fn from(texts: Texts) -> Self {
                Self { $($name: Phrase { zh: texts.zh.$name, en: texts.en.$name },)+ }
            }
        }

        impl From<Phrases> for Texts {
            fn from(phrases: Phrases) -> Self {
                Self {
                    zh: Chinese { $($name: phrases.$name.zh,)+ },
                    en: English { $($name: phrases.$name.en,)+ },
                }
            }
        }
    };
}

phrases! {
    /// Answer to a wake word.
    greeting { zh: "我在。", en: "I'm here." }
    /// Apology if a provider failed.
    apology {
        zh: "抱歉，我这边出了点问题，请再说一遍。",
        en: "Sorry, something went wrong. Please try again."
    }
    /// Farewell before an idle connection is closed; empty to close silently.
    farewell { zh: "那我先休息了，再见。", en: "I'll rest now. Goodbye." }
    /// First phrase during a long tool call; empty for silence.
    filler { zh: "稍等，我看一下。", en: "One moment, please." }
    /// Further phrase during a long tool call; empty for silence.
    filler_again { zh: "还在处理，请再等等。", en: "Still working on it." }
    /// Confirmation if tools succeeded and the model says nothing more; empty for silence.
    done { zh: "好了。", en: "Done." }
    /// Answer if the server is overloaded; empty for silence.
    busy {
        zh: "现在有点忙，请过一会儿再说。",
        en: "I'm busy right now. Please try again in a moment."
    }
    /// Answer if a limit of the day is reached; empty for silence.
    limit {
        zh: "今天的使用额度已经用完了，明天再聊吧。",
        en: "That was all for today. Let's talk again tomorrow."
    }
    /// Question before a camera is used.
    ask_camera { zh: "可以用一下摄像头吗？", en: "May I use the camera?" }
    /// Question before another tool is used; `{act}` is what it would do, `{tool}` and `{source}` are its name and its
    /// source's.
    ask_tool { zh: "可以{act}吗？", en: "May I {act}?" }
}
