//! Calls pending the person's consent: holds them back, words the question, and decides by the
//! person's next words. Not for deciding which calls need consent: see [`super::policy`].
//!
//! The model takes no part: the server words the question, reads the answer before the model does,
//! and makes exactly the call that was held.

mod answer;

use hearken_base::language::Language;
use hearken_ports::{ChatMessage, Provenance, ToolError, ToolRequest, source_names};
use tokio::time::Instant;

use super::act::{act, is_plain_picture, spoken, with_tool};
use super::calls::taken_away;
use super::held_call::{ConversationVersion, HELD, HeldCall, ONE_AT_A_TIME, TOO_LARGE};
use super::offer::{Offer, Offered};
use super::policy::ToolPolicy;
use super::risk::is_camera;
use super::toolbox::Toolbox;
use crate::phrases::Phrase;

/// Maximum size of a held call's arguments, in bytes.
const MAX_ARGUMENTS_BYTES: usize = 16 << 10;

/// Words and phrases that agree, by default.
const AGREEING: [&str; 87] = [
    "yes",
    "yeah",
    "yep",
    "yup",
    "ok",
    "okay",
    "sure",
    "sure thing",
    "of course",
    "certainly",
    "absolutely",
    "definitely",
    "go ahead",
    "go on",
    "go for it",
    "do it",
    "do that",
    "please do",
    "you may",
    "yes you may",
    "you can",
    "allowed",
    "agreed",
    "I agree",
    "confirm",
    "confirmed",
    "I confirm",
    "correct",
    "that's right",
    "that is right",
    "fine",
    "that's fine",
    "that is fine",
    "sounds good",
    "very well",
    "by all means",
    "all right",
    "alright",
    "好",
    "好的",
    "好嘞",
    "好滴",
    "可以",
    "行",
    "是",
    "对",
    "同意",
    "我同意",
    "没问题",
    "没错",
    "确定",
    "我确定",
    "确认",
    "我确认",
    "当然",
    "当然了",
    "当然可以",
    "允许",
    "需要",
    "用吧",
    "拍吧",
    "去吧",
    "来吧",
    "做吧",
    "ja",
    "jawohl",
    "klar",
    "mach das",
    "sí",
    "claro",
    "vale",
    "oui",
    "d'accord",
    "bien sûr",
    "はい",
    "いいよ",
    "いいですよ",
    "どうぞ",
    "네",
    "예",
    "응",
    "좋아요",
    "да",
    "конечно",
    "sim",
    "sì",
    "certo",
];

/// Questions for consent, and the words that agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsentSettings {
    /// Question about the camera of the device itself.
    pub camera: Phrase,
    /// Question about another tool. `{act}` is replaced by the effect of the call, `{tool}` and
    /// `{source}` by their names.
    pub tool: Phrase,
    /// Words and phrases of any language that agree.
    pub words: Vec<String>,
}

impl Default for ConsentSettings {
    fn default() -> Self {
        let phrases = crate::Phrases::default();
        let words = AGREEING.map(str::to_owned).to_vec();
        Self { camera: phrases.ask_camera, tool: phrases.ask_tool, words }
    }
}

impl ConsentSettings {
    /// Returns the question about a call of this source, which is the device itself if `is_device`
    /// is true. Of the model's output it contains only the arguments of the call, as a few plain
    /// words.
    fn question(
        &self,
        of: &HeldCall,
        from: &Provenance,
        is_device: bool,
        language: Language,
    ) -> String {
        let is_camera = is_camera(&of.tool.name);
        // `delete_photo` and a picture that is sent are named in full.
        if is_camera && is_device && is_plain_picture(&of.tool, &of.request.arguments) {
            return self.camera.in_language(language).to_owned();
        }
        let question = self.tool.in_language(language).to_owned();
        let mut act = act(&of.tool, &of.request.arguments, language);
        // The person must hear which camera is meant: there may be one in each room.
        if is_camera && !(question.contains("{tool}") && question.contains("{source}")) {
            act = with_tool(&act, &of.tool.name, from, language);
        }
        let names =
            [("{act}", act), ("{tool}", spoken(&of.tool.name)), ("{source}", spoken(&from.source))];
        names.iter().fold(question, |question, (key, name)| question.replace(key, name))
    }

    /// Reports whether the words agree to this call, and say nothing else.
    pub(crate) fn agrees(&self, said: &str, to: &HeldCall) -> bool {
        let acts = [Language::English, Language::Chinese]
            .map(|language| act(&to.tool, &to.request.arguments, language));
        self.is_yes(said, &acts)
    }

    fn is_yes(&self, said: &str, acts: &[String]) -> bool {
        answer::agrees(said, &self.words, acts)
    }
}

/// Calls of one round, grouped by decision.
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
    /// Decides about the calls of one round after the messages `before`. `asked` holds the person's
    /// words. A question about a call is in this language.
    pub fn screen(
        &self,
        offer: &Offer,
        calls: &[ToolRequest],
        before: &[ChatMessage],
        asked: &str,
        language: Language,
    ) -> Screened {
        let mut all = Screened { made: Vec::new(), results: Vec::new(), held: None };
        for call in calls {
            let offered = offer.find(&call.name);
            let decided = offered.map(|o| (o, self.policy(offer, o, call, before)));
            let result = match decided {
                Some((offered, Some(ToolPolicy::Ask))) if self.is_right(offer, call) => {
                    Some(self.hold_back(&mut all.held, call, asked, offered, language))
                }
                Some((_, Some(ToolPolicy::Never))) => {
                    Some(format!("error: {}", ToolError::Unknown(call.name.clone())))
                }
                Some((_, None)) => Some(format!("error: {}", taken_away())),
                _ => {
                    all.made.push(call.clone());
                    None
                }
            };
            all.results.push(result);
        }
        all
    }

    /// Holds a call, unless another one is held or it is too large. Returns its provisional result.
    fn hold_back(
        &self,
        held: &mut Option<(HeldCall, String)>,
        call: &ToolRequest,
        asked: &str,
        offered: &Offered,
        language: Language,
    ) -> String {
        if held.is_some() {
            return ONE_AT_A_TIME.into();
        }
        if call.arguments.len() > MAX_ARGUMENTS_BYTES {
            return TOO_LARGE.into();
        }
        let Offered { source, connection, tool, .. } = offered;
        let from = self.provenance(offered);
        let slot = self.slot_of(offered);
        let is_device = slot.is_some_and(|slot| slot.source.kind() == source_names::DEVICE);
        let call = HeldCall {
            request: call.clone(),
            asked: asked.to_owned(),
            source: source.clone(),
            connection: *connection,
            tool: tool.clone(),
            by: None,
            since: Instant::now(),
            asked_in: None,
            waiting: None,
        };
        let question = self.settings.consent.question(&call, &from, is_device, language);
        tracing::info!(
            tool = call.tool.name,
            source = from.source,
            "asking the person before a call"
        );
        *held = Some((call, question));
        HELD.into()
    }

    /// Holds a call until the person's next words. A conversation holds at most one.
    pub fn hold(&self, call: HeldCall) {
        *self.held() = Some(call);
    }

    /// Starts the time limit for consent once the person has heard the whole question: speaking it
    /// may take longer than the limit.
    pub fn question_heard(&self) {
        if let Some(call) = &mut *self.held() {
            call.restart();
        }
    }

    /// Notes the version of the conversation after the turn that asked, for
    /// [`Toolbox::drop_outdated`].
    pub fn note_version(&self, version: ConversationVersion) {
        if let Some(call) = &mut *self.held() {
            call.asked_in = Some(version);
        }
    }

    /// Drops the held call if the conversation has another version than after the question: the
    /// person's next words reached another connection or instance.
    pub fn drop_outdated(&self, version: ConversationVersion) {
        if self.held().take_if(|call| call.asked_in != Some(version)).is_some() {
            tracing::info!("dropped a pending call: its conversation went on elsewhere");
        }
    }

    /// Reports whether a call is held.
    pub fn holds_call(&self) -> bool {
        self.held().is_some()
    }

    /// Reports whether a call is held to which the person can still agree.
    pub fn awaits_consent(&self) -> bool {
        self.held().as_ref().is_some_and(|held| !held.is_expired())
    }

    /// Removes and returns the held call.
    pub fn take_held(&self) -> Option<HeldCall> {
        self.held().take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;
    use hearken_ports::{Tool, ToolCall, ToolOutput, ToolSource};
    use serde_json::json;

    use super::super::{ToolPolicies, ToolSettings};
    use super::*;

    #[test]
    fn a_clear_confirmation_is_accepted_in_both_languages() {
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
            "确定",
            "确认。",
            "没错",
            "好的，好的",
            "当然了",
            "我同意",
            "好嘞",
            "沒問題",
            "當然",
            "對",
            "確定",
            "Yes, please do.",
            "Please do.",
            "Go on.",
            "Confirm.",
            "Correct.",
            "小智，好的",
            "好的，小智",
            "Yes, Alexa.",
            "Alexa, yes.",
            "Yes, please. Thank you!",
            "Ja",
            "Ja, bitte.",
            "Sí, por favor.",
            "Oui, s'il te plaît.",
            "D'accord",
            "はい、お願いします",
            "네",
            "Да, пожалуйста.",
            "行吧行吧",
            "那好吧",
            "嗯是的",
            "是，可以",
            "麻烦你了，好的",
            "Yes I do.",
            "Of course you can.",
            "Yes, right now.",
            "いいよ",
            "いいですよ",
        ] {
            assert!(settings.is_yes(yes, &[]), "{yes}");
        }
    }

    #[test]
    fn anything_else_is_no_confirmation() {
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
            "OK?",
            "Sure?",
            "yes?",
            "好的？",
            "对？",
            "可以？",
            "行？",
            "是？",
            "可以吗？",
            "¿Sí?",
            "نعم؟",
            "对吧",
            "是吧",
            "可以吧",
            "没问题吧",
            "好是好",
            "那是",
            "可以是可以",
            "要是",
            "行行好",
            "好了",
            "行了",
            "可以了",
            "okay google",
            "OK Google",
            "小智",
            "Alexa",
            "Yes, open it.",
            "打开吧",
            "打开",
            "yes... no",
            "fine, but no",
            "OK stop",
            "of course not",
            "good",
            "好屁",
            "同意个屁",
            "sim card",
            "会，好的，等等",
        ] {
            assert!(!settings.is_yes(no, &[]), "{no}");
        }
        assert!(!settings.is_yes(&"yes ".repeat(100), &[]));
    }

    #[test]
    fn words_that_may_also_decline_are_no_confirmation() {
        let settings = ConsentSettings::default();
        let both = ["いいです", "いいです。", "It's fine.", "It is fine, thanks", "That's okay."];
        for words in both.into_iter().chain(["That is okay"]) {
            assert!(!settings.is_yes(words, &[]), "{words}");
        }
    }

    #[test]
    fn no_answer_agrees_without_configured_words() {
        let settings =
            ConsentSettings { words: vec![String::new(), " ".into()], ..Default::default() };
        assert!(!settings.is_yes("yes", &[]) && !settings.is_yes("", &[]));
    }

    #[test]
    fn naming_the_act_agrees_to_it_and_to_no_other() {
        let settings = ConsentSettings::default();
        let open = ["open the lock".to_owned(), "打开门锁".to_owned()];
        for yes in [
            "Yes, open it.",
            "Open it.",
            "Please open the lock.",
            "打开吧",
            "打开",
            "好的，开吧",
            "好啊，請開",
            "确定打开",
            "打开门锁",
            "Yes, please, open the lock now.",
        ] {
            assert!(settings.is_yes(yes, &open), "{yes}");
        }
        for no in [
            "Yes, close it.",
            "Open the window.",
            "Open it later.",
            "Don't open it.",
            "打开空调",
            "别打开",
            "打开了吗",
            "Open it?",
            "it",
            "the lock",
            "关上吧",
        ] {
            assert!(!settings.is_yes(no, &open), "{no}");
        }
        let off = ["turn off the lamp".to_owned(), "关闭灯".to_owned()];
        assert!(
            settings.is_yes("Turn it off.", &off)
                && settings.is_yes("Yes, turn off the lamp", &off)
        );
        assert!(!settings.is_yes("Turn it on.", &off) && !settings.is_yes("turn it", &off));
        let cancel = ["cancel the order".to_owned(), "取消order".to_owned()];
        for no in ["Cancel.", "Cancel it.", "取消", "OK cancel"] {
            assert!(!settings.is_yes(no, &cancel), "{no}");
        }
        let silent = ConsentSettings { words: Vec::new(), ..Default::default() };
        assert!(!silent.is_yes("Open it.", &open));
    }

    /// Returns the question about a call of the only tool of a source of this kind.
    fn asked(
        kind: &'static str,
        group: Option<&str>,
        tool: &'static str,
        arguments: &str,
        language: Language,
    ) -> String {
        let source = Named { kind, group: group.map(str::to_owned), tool };
        let policies = [("*".to_owned(), ToolPolicy::Ask)].into();
        let policies = ToolPolicies { patterns: policies, ..ToolPolicies::default() };
        let settings = ToolSettings { policies: policies.into(), ..ToolSettings::default() };
        let toolbox = Toolbox::new(vec![Arc::new(source)], Arc::new(Vec::new), settings);
        let offer = toolbox.offer();
        let call = ToolRequest {
            id: "1".into(),
            name: offer.tools()[0].name.clone(),
            arguments: arguments.into(),
            ..ToolRequest::default()
        };
        toolbox.screen(&offer, &[call], &[], "go", language).held.unwrap().1
    }

    /// Source `home` of one tool.
    struct Named {
        kind: &'static str,
        group: Option<String>,
        tool: &'static str,
    }

    impl ToolSource for Named {
        fn name(&self) -> &str {
            "home"
        }

        fn kind(&self) -> &'static str {
            self.kind
        }

        fn provenance(&self, tool: &str) -> Provenance {
            Provenance { group: self.group.clone(), ..Provenance::untrusted("home", tool) }
        }

        fn tools(&self) -> Arc<[Tool]> {
            [Tool {
                name: self.tool.into(),
                description: String::new(),
                parameters: json!({"type": "object"}),
                finishes: false,
                destructive: false,
            }]
            .into()
        }

        fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            Box::pin(async { Err(ToolError::Unknown(call.name)) })
        }
    }

    #[test]
    fn only_the_devices_own_camera_is_asked_for_without_a_name() {
        for (kind, tool, arguments, question) in [
            ("device", "self.camera.take_photo", "{}", "May I use the camera?"),
            ("device", "takePhoto", r#"{"question": "who"}"#, "May I use the camera?"),
            (
                "device",
                "self.garden_camera.take_photo",
                "{}",
                "May I take a photo, garden camera, with the tool self garden camera take photo of \
                 home?",
            ),
            (
                "mcp",
                "take_photo",
                r#"{"question": "who"}"#,
                "May I take a photo, question who, with the tool take photo of home?",
            ),
            (
                "mcp",
                "bedroom_camera.snapshot",
                "{}",
                "May I bedroom camera snapshot, with the tool bedroom camera snapshot of home?",
            ),
        ] {
            assert_eq!(asked(kind, None, tool, arguments, Language::English), question, "{tool}");
        }
        let of_client = |tool, language| asked("endpoint", Some("endpoint"), tool, "{}", language);
        assert_eq!(
            of_client("bedroom_camera_take_photo", Language::English),
            "May I take a photo, bedroom camera, with the tool bedroom camera take photo of the \
             tool client home?"
        );
        assert_eq!(
            of_client("take_photo", Language::Chinese),
            "可以用工具客户端home的take photo，拍照吗？"
        );
        // Tools other than cameras are named by their acts.
        assert_eq!(of_client("open_door", Language::English), "May I open the door?");
    }

    #[test]
    fn a_configured_question_that_names_tool_and_source_says_them_once() {
        let tool = Phrase::new("", "May {source} run {tool}?");
        let settings = ConsentSettings { tool, ..ConsentSettings::default() };
        let held = crate::testkit::answering::held_call();
        let camera = Tool { name: "hall_camera".into(), ..held.tool.clone() };
        let held = HeldCall { tool: camera, ..held };
        let from = Provenance::untrusted("home", "hall_camera");
        let question = settings.question(&held, &from, false, Language::English);
        assert_eq!(question, "May home run hall camera?");
    }

    #[test]
    fn names_are_spoken_as_short_plain_words() {
        assert_eq!(spoken("files.delete_all"), "files delete all");
        assert_eq!(spoken("删除 文件!"), "删除 文件");
        assert_eq!(spoken(&"字".repeat(99)).chars().count(), 40);
    }
}
