//! Calls that wait until the person has agreed: holds them back, words the question, and decides
//! by the person's next words. Not for deciding which calls need it: see [`super::policy`].
//!
//! The model takes no part: the server words the question, reads the answer before the model does,
//! and makes exactly the call that was held.

use hearken_base::language::{Language, is_han};
use hearken_ports::{ChatMessage, ToolError, ToolRequest};
use tokio::time::Instant;

use super::act::{act, spoken};
use super::held_call::{HELD, HeldCall, ONE_AT_A_TIME, TOO_LARGE};
use super::offer::{Offer, Offered};
use super::policy::{ToolPolicy, is_camera};
use super::toolbox::Toolbox;
use crate::phrases::Phrase;

/// Largest arguments of a held call, in bytes.
const MAX_ARGUMENTS_BYTES: usize = 16 << 10;
/// Longest answer that may be a yes, in characters.
const MAX_ANSWER_CHARS: usize = 80;

/// Words that may stand beside a yes, and are none.
const BESIDE: [&str; 15] = [
    "please",
    "thanks",
    "thank you",
    "then",
    "now",
    "的",
    "啊",
    "呀",
    "吧",
    "呢",
    "嗯",
    "哦",
    "请",
    "谢谢",
    "那",
];

/// How the person is asked, and which words agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentSettings {
    /// Question about a tool that takes pictures.
    pub camera: Phrase,
    /// Question about another tool. `{act}` is replaced by what it would do, `{tool}` and `{source}` by their names.
    pub tool: Phrase,
    /// Words and phrases of both languages that agree.
    pub words: Vec<String>,
}

impl Default for ConsentSettings {
    fn default() -> Self {
        let phrases = crate::Phrases::default();
        let words = [
            "yes",
            "yeah",
            "yep",
            "yup",
            "ok",
            "okay",
            "sure",
            "of course",
            "certainly",
            "absolutely",
            "go ahead",
            "do it",
            "you may",
            "yes you may",
            "allowed",
            "agreed",
            "fine",
            "that's fine",
            "all right",
            "alright",
            "好",
            "好的",
            "可以",
            "行",
            "是",
            "对",
            "同意",
            "没问题",
            "当然",
            "当然可以",
            "允许",
            "用吧",
            "拍吧",
            "去吧",
        ];
        let words = words.into_iter().map(str::to_owned).collect();
        Self { camera: phrases.ask_camera, tool: phrases.ask_tool, words }
    }
}

impl ConsentSettings {
    /// Returns the question about a call of this source, in the language in which the person spoke. Of
    /// what the model wrote, it has only what the call would act on, as a few plain words.
    fn question(&self, of: &HeldCall, source: &str) -> String {
        let language = Language::from_key(&of.asked).unwrap_or_default();
        if is_camera(&of.tool.name) {
            return self.camera.in_language(language).to_owned();
        }
        let names = [
            ("{act}", act(&of.tool, &of.request.arguments, language)),
            ("{tool}", spoken(&of.tool.name)),
            ("{source}", spoken(source)),
        ];
        let question = self.tool.in_language(language).to_owned();
        names.iter().fold(question, |question, (key, name)| question.replace(key, name))
    }

    /// Reports whether the words are a yes and nothing else. Anything beside it, such as a `not` or
    /// a condition, makes them none.
    pub(crate) fn is_yes(&self, said: &str) -> bool {
        if said.chars().count() > MAX_ANSWER_CHARS {
            return false;
        }
        let said = tokens(said);
        let yes: Vec<Vec<String>> = self.words.iter().map(|words| tokens(words)).collect();
        let beside: Vec<Vec<String>> = BESIDE.iter().map(|words| tokens(words)).collect();
        // For each number of tokens: whether they are made of these words, with a yes or without.
        let mut made_of = vec![(false, false); said.len() + 1];
        made_of[0].0 = true;
        for from in 0..said.len() {
            let (plain, agreed) = made_of[from];
            let fits = |words: &&Vec<String>| !words.is_empty() && said[from..].starts_with(words);
            for words in beside.iter().filter(fits) {
                let to = &mut made_of[from + words.len()];
                *to = (to.0 || plain, to.1 || agreed);
            }
            for words in yes.iter().filter(fits) {
                made_of[from + words.len()].1 |= plain || agreed;
            }
        }
        made_of[said.len()].1
    }
}

/// Cuts words into Latin words and single Han characters, in lower case, without punctuation.
fn tokens(words: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut open = false;
    for c in words.chars().filter(|c| !matches!(c, '\'' | '’' | '.')) {
        if is_han(c) {
            tokens.push(c.to_string());
            open = false;
        } else if c.is_alphanumeric() {
            if !open {
                tokens.push(String::new());
            }
            if let Some(word) = tokens.last_mut() {
                word.extend(c.to_lowercase());
            }
            open = true;
        } else {
            open = false;
        }
    }
    tokens
}

/// Calls of one round, divided by what may happen to them.
pub struct Screened {
    /// Calls that are made now.
    pub made: Vec<ToolRequest>,
    /// Result of each call, in their order; `None` for those that are made.
    results: Vec<Option<String>>,
    /// Call that is held, and the question about it.
    pub held: Option<(HeldCall, String)>,
}

impl Screened {
    /// Returns the results of all calls, in their order, given those of the calls that were made.
    pub fn results(&mut self, made: Vec<String>) -> Vec<String> {
        let mut made = made.into_iter();
        let results = std::mem::take(&mut self.results).into_iter();
        results.map(|result| result.or_else(|| made.next()).unwrap_or_default()).collect()
    }
}

impl Toolbox {
    /// Decides what happens to the calls of one round after the messages `before`. `asked` holds the
    /// person's words.
    pub fn screen(
        &self,
        offer: &Offer,
        calls: &[ToolRequest],
        before: &[ChatMessage],
        asked: &str,
    ) -> Screened {
        let mut all = Screened { made: Vec::new(), results: Vec::new(), held: None };
        for call in calls {
            let offered = offer.find(&call.name);
            let policy = offered.map_or(ToolPolicy::Allow, |o| self.policy(offer, o, call, before));
            let result = match (policy, offered) {
                (ToolPolicy::Ask, Some(offered)) if self.is_right(offer, call) => {
                    Some(self.hold_back(&mut all.held, call, offered, asked))
                }
                (ToolPolicy::Never, _) => {
                    Some(format!("error: {}", ToolError::Unknown(call.name.clone())))
                }
                _ => {
                    all.made.push(call.clone());
                    None
                }
            };
            all.results.push(result);
        }
        all
    }

    /// Holds a call, unless another one is held or it is too large. Returns its result for now.
    fn hold_back(
        &self,
        held: &mut Option<(HeldCall, String)>,
        call: &ToolRequest,
        Offered { source, tool, .. }: &Offered,
        asked: &str,
    ) -> String {
        if held.is_some() {
            return ONE_AT_A_TIME.into();
        }
        if call.arguments.len() > MAX_ARGUMENTS_BYTES {
            return TOO_LARGE.into();
        }
        let shown = self.slot(source).map(|slot| slot.source.provenance(&tool.name).source);
        let shown = shown.unwrap_or_else(|| source.clone());
        let call = HeldCall {
            request: call.clone(),
            asked: asked.to_owned(),
            source: source.clone(),
            tool: tool.clone(),
            since: Instant::now(),
            waiting: None,
        };
        let question = self.settings.consent.question(&call, &shown);
        tracing::info!(tool = call.tool.name, source = shown, "asking the person before a call");
        *held = Some((call, question));
        HELD.into()
    }

    /// Holds a call until the person's next words. There is one in a conversation.
    pub fn hold(&self, call: HeldCall) {
        *self.held() = Some(call);
    }

    /// Begins the time to agree, once the person has heard the question to its end: it may have been spoken for longer than
    /// that.
    pub fn question_heard(&self) {
        if let Some(call) = &mut *self.held() {
            call.restart();
        }
    }

    /// Reports whether a call is held.
    pub fn holds_call(&self) -> bool {
        self.held().is_some()
    }

    /// Removes and returns the held call.
    pub fn take_held(&self) -> Option<HeldCall> {
        self.held().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_yes_is_one_in_both_languages() {
        let settings = ConsentSettings::default();
        for yes in [
            "yes",
            "Yes.",
            "YES, please!",
            "Okay.",
            "O.K.",
            "ok",
            "Sure, go ahead.",
            "That's fine",
            "of course",
            "all right then",
            "好",
            "好的。",
            "好啊",
            "可以",
            "可以的，谢谢！",
            "行吧",
            "嗯，好",
            "没问题",
            "同意",
            "OK 可以",
            "好好好",
            "当然可以",
            "对",
        ] {
            assert!(settings.is_yes(yes), "{yes}");
        }
    }

    #[test]
    fn anything_else_is_none() {
        let settings = ConsentSettings::default();
        for no in [
            "",
            "no",
            "No, thanks.",
            "not ok",
            "yes but not now",
            "yes or no",
            "okay no",
            "don't",
            "yesterday",
            "please",
            "maybe",
            "what time is it?",
            "is that ok with you",
            "不",
            "不行",
            "不可以",
            "好不好",
            "行不行",
            "可以吗",
            "不好",
            "好像不行",
            "别拍",
            "嗯",
            "算了",
            "好，但是先别拍",
            "你好",
            "不是",
            "对不起",
            "……",
            "👍",
        ] {
            assert!(!settings.is_yes(no), "{no}");
        }
        assert!(!settings.is_yes(&"yes ".repeat(100)));
    }

    #[test]
    fn nobody_agrees_where_no_words_are_configured() {
        let settings =
            ConsentSettings { words: vec![String::new(), " ".into()], ..Default::default() };
        assert!(!settings.is_yes("yes") && !settings.is_yes(""));
    }

    #[test]
    fn names_are_spoken_as_short_plain_words() {
        assert_eq!(spoken("files.delete_all"), "files delete all");
        assert_eq!(spoken("删除 文件!"), "删除 文件");
        assert_eq!(spoken(&"字".repeat(99)).chars().count(), 40);
    }
}
