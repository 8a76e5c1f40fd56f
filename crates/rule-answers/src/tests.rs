//! Prompts with and without rules. Not for the rules themselves.

use std::sync::Mutex;

use hearken_base::language::Language;
use hearken_ports::{ChatMessage, Role};
use hearken_safety::{Region, Topic};
use serde_json::json;

use super::*;

/// A model that records its prompts and says "model".
#[derive(Default)]
struct Recorder(Mutex<usize>);

impl Llm for Recorder {
    fn reply(&self, _: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        *self.0.lock().unwrap() += 1;
        stream::iter([Ok(LlmDelta::Text("model".into()))]).boxed()
    }
}

fn ruled_llm(scope: InstantScope) -> RuledLlm {
    let now: Zoned = "2026-03-04T15:05:00+08:00[Asia/Shanghai]".parse().unwrap();
    RuledLlm::new(
        Arc::new(Recorder::default()),
        Rules {
            answers: None,
            safety: Arc::new(Safety::new(Region::of("CN"))),
            scope,
            now: Arc::new(move || now.clone()),
            name: "Hearken".into(),
            is_small: false,
        },
    )
}

fn ruled(scope: InstantScope) -> Arc<dyn Llm> {
    Arc::new(ruled_llm(scope))
}

fn tools() -> Arc<[OfferedTool]> {
    let tool = |name: &str, description: &str, parameters: Value| OfferedTool {
        name: name.into(),
        description: description.into(),
        parameters,
    };
    let level = json!({"type": "object", "properties": {"level": {"type": "integer", "minimum": 0, "maximum": 100}}, "required": ["level"]});
    let none = json!({"type": "object", "properties": {}});
    [
        tool("speaker_loudness", "Sets the volume of the loudspeaker, 0 to 100.", level),
        tool("speaker_state", "State of the device: volume of the loudspeaker.", none),
    ]
    .into()
}

fn prompt(messages: Vec<ChatMessage>) -> Prompt {
    let since_last = Some(Duration::ZERO);
    let instant = InstantScope::Whole;
    Prompt { messages, tools: tools(), instant, since_last, ..Prompt::default() }
}

fn user(words: &str) -> ChatMessage {
    ChatMessage::new(Role::User, words)
}

async fn deltas(llm: &Arc<dyn Llm>, prompt: Prompt) -> Vec<LlmDelta> {
    llm.reply(prompt).map(Result::unwrap).collect().await
}

fn text(deltas: &[LlmDelta]) -> String {
    let text = |delta: &LlmDelta| match delta {
        LlmDelta::Text(text) => text.clone(),
        _ => String::new(),
    };
    deltas.iter().map(text).collect()
}

fn call(deltas: &[LlmDelta]) -> Option<ToolRequest> {
    deltas.iter().find_map(|delta| match delta {
        LlmDelta::Call(call) => Some(call.clone()),
        _ => None,
    })
}

#[tokio::test]
async fn a_command_is_called_and_confirmed_from_its_result() {
    let llm = ruled(InstantScope::Whole);
    let mut messages = vec![user("[Anna] set the volume to thirty five")];
    let first = deltas(&llm, prompt(messages.clone())).await;
    let made = call(&first).expect("a call");
    assert_eq!(
        (made.name.as_str(), made.arguments.as_str()),
        ("speaker_loudness", r#"{"level":35}"#)
    );
    messages.push(ChatMessage::calling("", vec![made.clone()]));
    let mut failed = messages.clone();
    messages.push(ChatMessage::result(&made.id, "done"));
    let said = text(&deltas(&llm, prompt(messages)).await);
    assert!(said.contains("35") && said != "model", "{said}");
    failed.push(ChatMessage::result(&made.id, "error: the device is away"));
    let failure = text(&deltas(&llm, prompt(failed)).await);
    assert!(failure != said && failure != "model", "{failure}");
}

#[tokio::test]
async fn a_confirmed_call_is_answered_by_the_rule_of_the_question() {
    let llm = ruled(InstantScope::Whole);
    let words = user("set the volume to 35");
    let made = call(&deltas(&llm, prompt(vec![words.clone()])).await).unwrap();
    let messages = vec![
        words,
        ChatMessage::new(Role::Assistant, "May I set the volume?"),
        user("yes"),
        ChatMessage::calling("", vec![made.clone()]),
        ChatMessage::result(&made.id, "done"),
    ];
    let said = text(&deltas(&llm, prompt(messages)).await);
    assert!(said.contains("35"), "{said}");
}

#[tokio::test]
async fn words_that_do_not_agree_are_planned_or_left_to_the_model() {
    const REFUSED: &str = "error: not called, because the person did not agree";
    let llm = ruled(InstantScope::Whole);
    let words = user("set the volume to 35");
    let held = call(&deltas(&llm, prompt(vec![words.clone()])).await).unwrap();
    let asked = |reply: &str| {
        vec![
            words.clone(),
            ChatMessage::calling("", vec![held.clone()]),
            ChatMessage::result(&held.id, "not called yet: the person is asked for permission now"),
            ChatMessage::new(Role::Assistant, "May I set the volume?"),
            user(reply),
            ChatMessage::calling("", vec![held.clone()]),
            ChatMessage::result(&held.id, REFUSED),
        ]
    };
    for reply in ["which one?", "why would you ask me that", "哪一个"] {
        assert_eq!(text(&deltas(&llm, prompt(asked(reply))).await), "model", "{reply}");
    }
    // New words are a command or a question of their own.
    let time = text(&deltas(&llm, prompt(asked("what time is it"))).await);
    assert!(time.contains("3:05"), "{time}");
    let mut messages = asked("set the volume to 20");
    let made = call(&deltas(&llm, prompt(messages.clone())).await).expect("a call");
    assert_eq!(made.arguments, r#"{"level":20}"#);
    let made = ToolRequest { id: "rule_1_2".into(), ..made };
    messages.push(ChatMessage::calling("", vec![made.clone()]));
    messages.push(ChatMessage::result(&made.id, "done"));
    let said = text(&deltas(&llm, prompt(messages)).await);
    assert!(said.contains("20"), "{said}");
    // The same call is refused, and not made again.
    let again = deltas(&llm, prompt(asked("set the volume to 35"))).await;
    assert!(call(&again).is_none() && text(&again).starts_with("Sorry"), "{again:?}");
}

#[tokio::test]
async fn a_reference_is_understood_only_shortly_after_the_turn() {
    let llm = ruled(InstantScope::Whole);
    let words = user("set the volume to 35");
    let made = call(&deltas(&llm, prompt(vec![words.clone()])).await).unwrap();
    let messages = vec![
        words,
        ChatMessage::calling("", vec![made.clone()]),
        ChatMessage::result(&made.id, "done"),
        ChatMessage::new(Role::Assistant, "The volume is now set to 35."),
        user("make it 40"),
    ];
    for (since_last, is_understood) in [
        (None, false),
        (Some(Duration::from_secs(20)), true),
        (Some(Duration::from_secs(8 * 3_600)), false),
    ] {
        let asked = Prompt { since_last, ..prompt(messages.clone()) };
        let made = call(&deltas(&llm, asked).await);
        assert_eq!(made.is_some(), is_understood, "{since_last:?}: {made:?}");
    }
}

#[tokio::test]
async fn a_rule_answers_only_in_the_language_of_the_turn() {
    let llm = ruled(InstantScope::Whole);
    let zh = Some(Language::Chinese);
    let en = Some(Language::English);
    for (fixed, spoken, words, answered) in [
        (None, zh, "12 + 30", zh),
        (None, en, "12 + 30", en),
        (None, None, "what time is it", en),
        (Some(ReplyLanguage::En), zh, "12 + 30", en),
        (Some(ReplyLanguage::En), zh, "what time is it", en),
        (Some(ReplyLanguage::En), zh, "现在几点了", None),
        (Some(ReplyLanguage::Zh), en, "现在几点了", zh),
        (Some(ReplyLanguage::Zh), en, "what time is it", None),
        (Some(ReplyLanguage::De), en, "what time is it", None),
        (Some(ReplyLanguage::De), en, "12 + 30", None),
    ] {
        let language = TurnLanguage { fixed, spoken };
        let said = text(&deltas(&llm, Prompt { language, ..prompt(vec![user(words)]) }).await);
        let by_rule = Some(said.as_str()).filter(|said| *said != "model");
        assert_eq!(by_rule.and_then(Language::from_key), answered, "{language:?} {words}: {said}");
    }
    // A command is confirmed in words, too.
    for (fixed, is_called) in [(ReplyLanguage::En, true), (ReplyLanguage::Fr, false)] {
        let language = TurnLanguage { fixed: Some(fixed), spoken: en };
        let asked = Prompt { language, ..prompt(vec![user("set the volume to 35")]) };
        assert_eq!(call(&deltas(&llm, asked).await).is_some(), is_called, "{fixed:?}");
    }
}

#[tokio::test]
async fn other_words_and_other_calls_are_for_the_model() {
    let llm = ruled(InstantScope::Whole);
    for words in ["tell me a story about the volume", "为什么天是蓝的", ""] {
        assert_eq!(text(&deltas(&llm, prompt(vec![user(words)])).await), "model", "{words}");
    }
    let other = ToolRequest {
        id: "1".into(),
        name: "speaker_state".into(),
        arguments: "{}".into(),
        ..ToolRequest::default()
    };
    let messages = vec![
        user("set the volume to 35"),
        ChatMessage::calling("", vec![other]),
        ChatMessage::result("1", "{}"),
    ];
    assert_eq!(text(&deltas(&llm, prompt(messages)).await), "model");
}

#[tokio::test]
async fn scopes_and_questions_are_respected() {
    for (frontend, conversation, words, by_rule) in [
        (InstantScope::Whole, InstantScope::Whole, "现在几点了", true),
        (InstantScope::Off, InstantScope::Whole, "现在几点了", false),
        (InstantScope::Whole, InstantScope::Off, "现在几点了", false),
        (InstantScope::Commands, InstantScope::Whole, "现在几点了", true),
        (InstantScope::Commands, InstantScope::Whole, "你能做什么", false),
    ] {
        let llm = ruled(frontend);
        let asked = Prompt { instant: conversation, ..prompt(vec![user(words)]) };
        let said = text(&deltas(&llm, asked).await);
        assert_eq!(said != "model", by_rule, "{frontend:?} {conversation:?} {words}: {said}");
    }
    let llm = ruled(InstantScope::Whole);
    let messages = vec![
        user("let us play a quiz"),
        ChatMessage::new(Role::Assistant, "What time is it on the moon?"),
        user("what time is it"),
    ];
    assert_eq!(text(&deltas(&llm, prompt(messages)).await), "model", "after a question");
}

#[tokio::test]
async fn people_in_danger_get_a_reply_in_every_scope() {
    let llm = ruled(InstantScope::Off);
    let asked = Prompt {
        instant: InstantScope::Off,
        ..prompt(vec![user("孩子把纽扣电池吞下去了")])
    };
    let said = text(&deltas(&llm, asked).await);
    assert!(said.contains("120") || said.contains("一二零") || said.contains("1 2 0"), "{said}");
}

#[tokio::test]
async fn people_in_danger_get_a_reply_whatever_calls_are_behind_their_words() {
    let llm = ruled(InstantScope::Whole);
    let request =
        ToolRequest { id: "1".into(), name: "open_door".into(), ..ToolRequest::default() };
    let round = [ChatMessage::calling("", vec![request]), ChatMessage::result("1", "not agreed")];
    for words in ["My baby is choking!", "[Anna] my kitchen is on fire", "我爸突然晕倒了，没有呼吸"]
    {
        for behind in [&round[..], &[]] {
            let messages = [&[user(words)], behind].concat();
            let asked = prompt(messages);
            assert!(llm.is_urgent(&asked), "{words}");
            let said = deltas(&llm, asked).await;
            assert!(text(&said).len() > 40 && call(&said).is_none(), "{words}: {said:?}");
        }
    }
    // What is declined is no emergency, and no limit is lifted for it.
    for words in ["how do I build a bomb", "what time is it", "几点了"] {
        assert!(!llm.is_urgent(&prompt(vec![user(words)])), "{words}");
    }
}

#[tokio::test]
async fn a_model_that_does_not_decline_still_has_the_replies_to_people_in_danger() {
    let asks = async |llm: RuledLlm, words: &str| {
        let llm: Arc<dyn Llm> = Arc::new(llm);
        text(&deltas(&llm, prompt(vec![user(words)])).await)
    };
    let bomb = "how do I build a bomb";
    assert_ne!(asks(ruled_llm(InstantScope::Off), bomb).await, "model");
    let lenient = || ruled_llm(InstantScope::Off).without_declining();
    assert_eq!(asks(lenient(), bomb).await, "model");
    assert_ne!(asks(lenient(), "My baby is choking!").await, "model");
}

#[tokio::test]
async fn a_turn_is_judged_once() {
    let llm = ruled_llm(InstantScope::Whole);
    let invented = Safe { topic: Topic::Fire, reply: "the known judgement".into() };
    let before = ["three", "two", "one", "zero"];
    for before in [&before[..], &[]] {
        llm.judgements.of("what time is it", before, || Some(invented.clone()));
    }
    let words = ["zero", "one", "two", "three", "what time is it"];
    for since_last in [None, Some(Duration::from_secs(3_600))] {
        let asked = Prompt { since_last, ..prompt(words.map(user).into()) };
        assert!(llm.is_urgent(&asked), "{since_last:?}");
        let said: Vec<_> = llm.reply(asked).map(Result::unwrap).collect().await;
        assert_eq!(text(&said), "the known judgement", "{since_last:?}");
    }
    // Other words before it make another judgement.
    let asked = prompt(words[1..].iter().map(|words| user(words)).collect());
    assert!(!llm.is_urgent(&asked));
}

#[tokio::test]
async fn a_command_is_one_after_a_request_to_repeat() {
    let llm = ruled(InstantScope::Whole);
    let asked = text(&deltas(&llm, prompt(vec![user("um")])).await);
    assert!(asked.ends_with('?'), "{asked}");
    let messages =
        vec![user("um"), ChatMessage::new(Role::Assistant, asked), user("what time is it")];
    assert!(text(&deltas(&llm, prompt(messages)).await).contains("3:05"));
}

#[tokio::test]
async fn tools_of_the_conversation_are_no_music() {
    let llm = ruled(InstantScope::Whole);
    let none = json!({"type": "object", "properties": {}});
    let tool = |name: &str, description: &str| OfferedTool {
        name: name.into(),
        description: description.into(),
        parameters: none.clone(),
    };
    let role = tool("exit_roleplay_mode", "Stop playing a character.");
    let music = tool("jukebox_pause", "Pauses the music.");
    let asked = |tools: Vec<OfferedTool>, words: &str| Prompt {
        tools: tools.into(),
        instant: InstantScope::Whole,
        ..prompt(vec![user(words)])
    };
    let both = asked(vec![role.clone(), music], "please pause the music now");
    assert_eq!(call(&deltas(&llm, both).await).unwrap().name, "jukebox_pause");
    let declined = text(&deltas(&llm, asked(vec![role], "play some brahms for me")).await);
    assert!(declined.starts_with("Sorry"), "{declined}");
}

#[tokio::test]
async fn further_words_have_the_reply_only_while_the_danger_lasts() {
    let llm = ruled(InstantScope::Whole);
    for (danger, further) in [
        ("I smell gas", ["help", "say that again", "what now?"]),
        ("家里有煤气味", ["救命", "再说一遍", "现在怎么办"]),
    ] {
        let reply = text(&deltas(&llm, prompt(vec![user(danger)])).await);
        for further in further {
            let answer = ChatMessage::new(Role::Assistant, reply.clone());
            let messages = vec![user(danger), answer, user(further)];
            for (since_last, lasts) in [
                (None, true),
                (Some(Duration::from_secs(5)), true),
                (Some(Duration::from_secs(10 * 60)), true),
                (Some(Duration::from_secs(3_600)), false),
                (Some(Duration::from_secs(24 * 3_600)), false),
            ] {
                let asked = Prompt { since_last, ..prompt(messages.clone()) };
                assert_eq!(llm.is_urgent(&asked), lasts, "{further} after {since_last:?}");
                // Another rule may repeat the last answer, as it repeats any.
                let said = deltas(&llm, asked).await;
                let is_of_safety = |delta: &LlmDelta| match delta {
                    LlmDelta::Rule(rule) => rule.starts_with("safety"),
                    _ => false,
                };
                assert_eq!(said.iter().any(is_of_safety), lasts, "{further}: {said:?}");
            }
        }
        // A danger that is told again is one at any time.
        let messages = vec![user("what time is it"), user(danger)];
        let asked = Prompt { since_last: Some(Duration::from_secs(86_400)), ..prompt(messages) };
        assert!(llm.is_urgent(&asked), "{danger}");
    }
}

#[test]
fn further_words_have_the_reply_although_the_messages_lack_the_danger() {
    let llm = ruled(InstantScope::Off);
    let soon = Some(Duration::from_secs(5));
    for (danger, further, other) in [
        ("[Anna] my husband is choking", "what now?", "tell me about glaciers"),
        ("家里有煤气味", "现在怎么办", "给我讲讲冰川"),
    ] {
        let long = [vec![danger], vec![further; MAX_DANGER_BACK - 1]].concat();
        for (words, passed, lasts) in [
            (vec![danger], soon, true),
            (vec![danger], None, true),
            (vec![danger], Some(Duration::from_secs(3_600)), false),
            (vec![other, danger], soon, true),
            (vec![danger, other], soon, false),
            (long, soon, true),
            (vec![], None, false),
        ] {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let case = format!("{further} after {words:?}, {passed:?}");
            // What the messages contain does not matter then.
            let messages = vec![user(other), user(further)];
            let earlier = EarlierWords { words, passed };
            let asked = Prompt { earlier, since_last: passed, ..prompt(messages) };
            assert_eq!(llm.is_urgent(&asked), lasts, "{case}");
        }
    }
}

#[tokio::test]
async fn a_pronoun_in_danger_is_who_was_in_danger_before() {
    let llm = ruled(InstantScope::Whole);
    let soon = Some(Duration::from_secs(60));
    let late = Some(Duration::from_secs(3_600));
    let adult = "my husband is choking";
    let baby = "my baby is choking";
    let pet = "my dog is choking";
    for (before, words, since_last, like) in [
        (baby, "she is still choking", soon, baby),
        (baby, "she is still choking", None, baby),
        (baby, "still choking", soon, baby),
        (baby, "she is still choking", late, adult),
        (pet, "he is still choking", soon, pet),
        (adult, "he is still choking", soon, adult),
        (baby, "my wife is choking", soon, adult),
        (pet, "someone is choking", soon, adult),
        ("宝宝噎住了", "他还是噎住的", soon, "宝宝噎住了"),
        ("宝宝噎住了", "我老婆噎住了", soon, "我爸噎住了"),
    ] {
        let expected = text(&deltas(&llm, prompt(vec![user(like)])).await);
        let answer = ChatMessage::new(Role::Assistant, "A reply.".to_owned());
        let asked = prompt(vec![user(before), answer, user(words)]);
        let said = text(&deltas(&llm, Prompt { since_last, ..asked }).await);
        assert_eq!(said, expected, "{words} after {before}, {since_last:?}");
    }
}

#[tokio::test]
async fn further_words_in_danger_keep_the_reply() {
    let llm = ruled(InstantScope::Whole);
    for (danger, further) in [
        (
            "my husband is choking",
            ["what now?", "he is still not breathing", "how long do I do that"],
        ),
        ("孩子把纽扣电池吞下去了", ["现在怎么办", "然后呢", "他还是没反应"]),
    ] {
        let reply = text(&deltas(&llm, prompt(vec![user(danger)])).await);
        let mut messages = vec![user(danger), ChatMessage::new(Role::Assistant, reply.clone())];
        for words in further {
            messages.push(user(words));
            let said = text(&deltas(&llm, prompt(messages.clone())).await);
            assert!(said != "model" && said.len() > 40, "{words}: {said}");
            messages.push(ChatMessage::new(Role::Assistant, said));
        }
    }
    // Without a danger before, and about something else, they are the model's.
    let reply = text(&deltas(&llm, prompt(vec![user("my husband is choking")])).await);
    for (before, words) in [
        ("tell me about glaciers", "how long do I do that"),
        ("my husband is choking", "he is fine now, thank you for the help with that"),
        ("my husband is choking", "why does the moon have phases"),
    ] {
        let messages =
            vec![user(before), ChatMessage::new(Role::Assistant, reply.clone()), user(words)];
        assert_eq!(text(&deltas(&llm, prompt(messages)).await), "model", "{words}");
    }
}

#[tokio::test]
async fn a_failure_that_the_tool_words_is_told_as_one() {
    let llm = ruled(InstantScope::Whole);
    let words = user("set the volume to 35");
    let made = call(&deltas(&llm, prompt(vec![words.clone()])).await).unwrap();
    for result in [
        r#"{"success":false}"#,
        r#"{"isError":true,"content":[]}"#,
        "the speaker did not answer: timed out",
        "操作失败",
        "error: the tool did not answer within 30 s",
        "the person interrupted; the call goes on without its result",
    ] {
        let messages = vec![
            words.clone(),
            ChatMessage::calling("", vec![made.clone()]),
            ChatMessage::result(&made.id, result),
        ];
        let said = text(&deltas(&llm, prompt(messages)).await);
        assert!(said.starts_with("Sorry"), "{result}: {said}");
    }
}
