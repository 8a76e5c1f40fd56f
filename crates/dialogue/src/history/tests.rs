//! What prompts contain and a dialogue remembers.

use std::time::Duration;

use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::role::RoleSettings;
use hearken_ports::{PersonId, ProviderError, ProviderErrorKind, ToolRequest};
use proptest::prelude::*;

use super::*;
use crate::memory::cut;
use crate::people::{SENTENCES, SpeakerSettings, Voice};
use crate::testkit::people::people;
use crate::turn::{Said, ToolRound, TurnEnd, TurnError};

const ALL: PlayedBack = PlayedBack::ALL;

fn dialogue() -> Dialogue {
    remembering(4)
}

fn remembering(max_messages: usize) -> Dialogue {
    talked_to("be kind", max_messages, ConversationStyle::default())
}

fn talked_to(system_prompt: &str, max_messages: usize, style: ConversationStyle) -> Dialogue {
    let settings = DialogueSettings {
        system_prompt: system_prompt.into(),
        emotion_prompt: String::new(),
        max_messages,
        answer_seconds: 30,
        max_tokens: 50,
        temperature: 0.5,
        language: Language::Chinese,
    };
    Dialogue::new(settings, Arc::new(move || style.clone()), Arc::new(|| "noon".into()))
}

/// Commits a turn that is over and was played back completely.
fn commit(dialogue: &mut Dialogue, record: &TurnRecord) {
    dialogue.commit(record, ALL, false);
}

fn record(user: &str, said: &[&str]) -> TurnRecord {
    let said = said.iter().map(|s| Said { text: (*s).into(), remembered: true }).collect();
    TurnRecord { user: Some(user.into()), said, rounds: Vec::new(), end: TurnEnd::Completed }
}

fn round(after: usize, ids: &[&str]) -> ToolRound {
    let call = |id: &&str| {
        let id = (*id).into();
        let name = "f".into();
        ToolRequest { id, name, arguments: "{}".into(), ..ToolRequest::default() }
    };
    let results = ids.iter().map(|id| format!("result {id}")).collect();
    ToolRound { after, calls: ids.iter().map(call).collect(), results }
}

fn contents(dialogue: &Dialogue) -> Vec<&str> {
    dialogue.messages().iter().map(|m| m.content.as_str()).collect()
}

fn asks_for_the_lamp(user: &str, said: &[&str]) -> TurnRecord {
    let call = ToolRequest {
        id: "1".into(),
        name: "lamp".into(),
        arguments: "{}".into(),
        ..ToolRequest::default()
    };
    let round = ToolRound { after: said.len(), calls: vec![call], results: vec!["on".into()] };
    TurnRecord { rounds: vec![round], end: TurnEnd::Interrupted, ..record(user, said) }
}

fn texts(messages: &[ChatMessage]) -> Vec<&str> {
    messages.iter().map(|m| m.content.as_str()).collect()
}

#[test]
fn calls_are_not_repeated_for_a_question_that_a_noise_interrupted() {
    let mut d = dialogue();
    assert!(!d.commit(&asks_for_the_lamp("light?", &[]), PlayedBack::default(), true));
    // Nothing was said: the question is answered, with the results of its calls.
    let words = d.take_unanswered().unwrap();
    let prompt = d.prompt(&words, None);
    assert_eq!(texts(&prompt.messages[1..]), ["light?", "", "on"]);
    commit(&mut d, &record(&words, &["It is on."]));
    assert_eq!(texts(d.messages()), ["light?", "", "on", "It is on."]);

    // More was said: both are answered.
    assert!(!d.commit(&asks_for_the_lamp("light?", &[]), PlayedBack::default(), true));
    let prompt = d.prompt("and the heating?", None);
    assert_eq!(texts(&prompt.messages[5..]), ["light? and the heating?", "", "on"]);

    // The question is never answered: its calls are remembered all the same, except cancelled
    // ones.
    let mut cancelled = asks_for_the_lamp("light?", &[]);
    cancelled.rounds[0].results = vec![crate::tools::outcome::CUT_SHORT.into()];
    let mut other = dialogue();
    assert!(!other.commit(&cancelled, PlayedBack::default(), true));
    let words = other.take_unanswered().unwrap();
    assert_eq!(texts(&other.prompt(&words, None).messages[1..]), ["light?"]);
    d.forget_unanswered(&[]);
    assert_eq!(texts(d.messages()), ["light?", "", "on"]);
    assert_eq!(d.prompt("hello", None).messages.len(), d.messages().len() + 2);

    // More was said, and cut before an answer: the calls are remembered with all of it.
    let mut other = dialogue();
    assert!(!other.commit(&asks_for_the_lamp("light?", &[]), PlayedBack::default(), true));
    let more = TurnRecord { end: TurnEnd::Interrupted, ..record("and the heating?", &[]) };
    assert!(other.commit(&more, PlayedBack::default(), false));
    assert_eq!(texts(other.messages()), ["light? and the heating?", "", "on"]);
}

#[test]
fn a_role_without_memory_receives_the_whole_question() {
    let settings = RoleSettings { memory: false, ..RoleSettings::default() };
    let role =
        AssignedRole { role_id: "r".into(), name: "r".into(), settings, ..AssignedRole::default() };
    let style = ConversationStyle { role: Some(Arc::new(role)), ..ConversationStyle::default() };
    let mut d = talked_to("be kind", 4, style);
    commit(&mut d, &record("before", &["Yes."]));
    d.keep_words("What is");
    let prompt = d.prompt("the time?", None);
    assert_eq!(texts(&prompt.messages[1..]), ["What is the time?"]);
    assert_eq!(prompt.earlier.words, ["before"]);
}

#[test]
fn unheard_text_is_not_remembered() {
    let mut d = dialogue();
    let heard = PlayedBack {
        whole: 1,
        partial: Duration::from_millis(500),
        partial_of: Some(Duration::from_secs(1)),
        broken: vec![(0, Duration::ZERO)],
    };
    d.commit(&record("so", &["Zero.", "Two three four five."]), heard.clone(), false);
    assert_eq!(contents(&d), ["so", "Two three"]);
    let mut d = dialogue();
    let heard = PlayedBack { broken: Vec::new(), ..heard };
    d.commit(&record("hi", &["One.", "Two three four five.", "Six."]), heard, false);
    assert_eq!(contents(&d), ["hi", "One. Two three"]);
    let mut d = dialogue();
    commit(&mut d, &record("你好", &["你好呀！", "今天很好。"]));
    assert_eq!(contents(&d), ["你好", "你好呀！今天很好。"]);
}

#[test]
fn a_continued_turn_joins_the_next_and_a_cut_one_is_forgotten() {
    let mut d = dialogue();
    d.commit(&record("Tell me", &["Sure."]), PlayedBack::default(), true);
    d.commit(&record("all", &[]), PlayedBack::default(), true);
    assert_eq!(d.prompt("about cats.", None).messages[1].content, "Tell me all about cats.");
    d.commit(&record("about cats.", &["Sure."]), PlayedBack::default(), false);
    let prompt = d.prompt("Hello.", None);
    assert_eq!(prompt.messages[1].content, "Hello.");
    // Rules know them all the same, as they know those that were never answered.
    assert_eq!(prompt.earlier.words, ["Tell me all about cats."]);
    d.keep_words("Hello.");
    d.forget_unanswered(&[]);
    assert_eq!(d.prompt("Hi.", None).earlier.words, ["Tell me all about cats.", "Hello."]);
}

#[tokio::test]
async fn an_utterance_has_one_mark_and_loses_those_of_deleted_people() {
    let people = people(SpeakerSettings::default()).0;
    let voices: Vec<Voice> = vec![vec![1.0, 0.0].into(); SENTENCES];
    people.enrol("Anna", &voices).await.unwrap();
    let anna = people.all().remove(0);
    let tracker = Arc::new(SpeakerTracker::new(people.clone()));
    let mut d = remembering(10).with_speakers(Some(tracker));
    for (words, heard, is_continued) in [
        ("Tell me", PlayedBack::default(), true),
        ("all", PlayedBack::default(), true),
        ("about cats.", ALL, false),
    ] {
        let user = d.attributed(Some(&anna), words);
        d.commit(&record(&user, &["Sure."]), heard, is_continued);
    }
    assert_eq!(contents(&d), ["[Anna] Tell me all about cats.", "Sure."]);
    let user = d.attributed(Some(&anna), "Wait");
    d.commit(&record(&user, &[]), PlayedBack::default(), true);
    people.delete(&anna.id).await.unwrap();
    let prompt = d.prompt("a moment.", None);
    assert_eq!(prompt.messages[1].content, "Tell me all about cats.");
    assert_eq!(prompt.messages[3].content, "Wait a moment.");
    assert_eq!(d.take_unanswered().as_deref(), Some("Wait"));
    for (marked, left) in [
        ("Tell me [Anna] about cats.", "Tell me about cats."),
        ("[Anna] [Ben] [one] [Anna]two [[Anna] three [", "[Ben] [one] [Anna]two [three ["),
    ] {
        assert_eq!(without_deleted(&people, marked), left);
    }
}

fn failed(kind: ProviderErrorKind, mut record: TurnRecord) -> TurnRecord {
    record.end = TurnEnd::Failed(TurnError::Llm(ProviderError::new("m", kind)));
    record
}

#[test]
fn only_the_heard_part_of_a_failed_turn_is_remembered() {
    let mut d = remembering(10);
    commit(&mut d, &record("1", &["ok."]));
    let broke_off = failed(ProviderErrorKind::Unavailable, record("2", &["Well."]));
    commit(&mut d, &broke_off);
    assert_eq!(contents(&d), ["1", "ok.", "2", "Well."]);
    d.commit(&broke_off, PlayedBack::default(), false);
    let continued = failed(ProviderErrorKind::BadRequest, record("3", &[]));
    d.commit(&continued, PlayedBack::default(), true);
    assert_eq!(contents(&d), ["1", "ok.", "2", "Well."]);
    assert_eq!(d.prompt("hi", None).messages.last().unwrap().content, "hi");
}

#[test]
fn two_refusals_in_a_row_clear_the_memory() {
    let mut d = remembering(10);
    let refused = failed(ProviderErrorKind::BadRequest, record("no", &["Well."]));
    for _ in 0..3 {
        commit(&mut d, &record("1", &["ok."]));
        commit(&mut d, &refused);
    }
    assert_eq!(contents(&d), ["1", "ok.", "1", "ok.", "1", "ok."]);
    commit(&mut d, &refused);
    assert_eq!(contents(&d), [""; 0]);
}

#[test]
fn the_prompt_asks_for_an_answer_in_the_persons_language() {
    let mut d = dialogue();
    assert_eq!(d.prompt("", None).messages[0].content, "be kind\n请用中文回答。");
    d.note_language("What is this?");
    let prompt = d.prompt("12 + 30", None);
    assert_eq!(prompt.messages[0].content, "be kind");
    assert_eq!(prompt.language, TurnLanguage { fixed: None, spoken: Some(Language::English) });
}

#[test]
fn an_ok_has_the_language_of_the_conversation() {
    let mut d = dialogue();
    assert_eq!(d.language_of("Hello."), Language::English, "at its beginning");
    for (words, language) in [
        ("12", Language::Chinese),
        ("Hello.", Language::English),
        ("12", Language::English),
        ("你好", Language::Chinese),
        ("OK.", Language::Chinese),
        ("Yes, hello.", Language::Chinese),
        ("What is this?", Language::English),
        ("OK.", Language::English),
    ] {
        assert_eq!(d.language_of(words), language, "{words}");
        d.note_language(words);
        assert_eq!(d.language(), language, "{words}");
        let prompt = d.prompt(words, None);
        let asks_for_chinese = prompt.messages[0].content.contains(IN_CHINESE);
        assert_eq!(asks_for_chinese, language == Language::Chinese, "{words}");
    }
}

#[test]
fn a_recognised_person_gets_their_own_role_and_others_get_the_devices() {
    let role = |name: &str| {
        let settings = RoleSettings {
            system_prompt: format!("Be {name}."),
            voice: name.into(),
            language: Some(ReplyLanguage::De),
            memory: name != "forgetful",
            ..RoleSettings::default()
        };
        AssignedRole { role_id: name.into(), settings, ..AssignedRole::default() }
    };
    let style = ConversationStyle {
        system_prompt: "The device's own.".into(),
        role: Some(Arc::new(role("the device's"))),
        ..ConversationStyle::default()
    };
    let mut d = talked_to("be kind", 4, style)
        .with_roles(Arc::new(move |id| (id == "forgetful").then(|| Arc::new(role(id)))));
    commit(&mut d, &record("1", &["ok."]));
    let person = |role_id: &str| {
        let id = PersonId("p".into());
        let name = "Ann".into();
        let role_id = role_id.into();
        let none = Vec::new();
        Arc::new(Person { id, name, role_id, voices: none, facts: vec![], exchanges: vec![] })
    };
    for (person, begins, voice, messages) in [
        (None, "The device's own.", "the device's", 4),
        (Some(person("gone")), "The device's own.", "the device's", 4),
        (Some(person("forgetful")), "Be forgetful.", "forgetful", 2),
    ] {
        let prompt = d.prompt("2", person.as_ref());
        let system = &prompt.messages[0].content;
        assert!(system.starts_with(begins) && system.contains("German"), "{system}");
        assert!(!system.contains(IN_CHINESE), "{system}");
        let spoken = Some(Language::Chinese);
        assert_eq!(prompt.language, TurnLanguage { fixed: Some(ReplyLanguage::De), spoken });
        let role = d.role(person.as_ref()).unwrap();
        assert_eq!((role.voice.as_str(), prompt.messages.len()), (voice, messages));
        let is_gone = person.is_some_and(|person| person.role_id == "gone");
        assert_eq!(role.is_missing, is_gone, "its tools are withheld, and no limit is lost");
    }
}

#[test]
fn instructions_of_the_style_replace_those_of_the_deployment() {
    let own = ConversationStyle {
        system_prompt: "Cook at {current_time}.".into(),
        ..ConversationStyle::default()
    };
    let told = |own| {
        let mut d = talked_to("It is {current_time}.", 4, own);
        d.note_language("What is this?");
        d.opening().messages[0].content.clone()
    };
    assert_eq!(
        (told(ConversationStyle::default()), told(own)),
        ("It is noon.".into(), "Cook at noon.".into())
    );
}

#[tokio::test(start_paused = true)]
async fn the_prompt_tells_the_time_since_the_last_answer() {
    let mut d = remembering(10);
    assert_eq!(d.prompt("hi", None).since_last, None);
    commit(&mut d, &record("hi", &["Hello."]));
    let passed = Duration::from_secs(90);
    tokio::time::advance(passed).await;
    assert_eq!(d.prompt("again", None).since_last, Some(passed));
}

#[test]
fn fixed_phrases_are_not_remembered() {
    let mut d = dialogue();
    let mut apology = record("hi", &["Sorry."]);
    apology.said[0].remembered = false;
    commit(&mut d, &apology);
    assert_eq!(contents(&d), [""; 0]);
}

#[test]
fn old_messages_are_forgotten_in_whole_turns() {
    let mut d = dialogue();
    for n in ["1", "2", "3"] {
        commit(&mut d, &record(n, &["ok."]));
    }
    assert_eq!(contents(&d), ["2", "ok.", "3", "ok."]);
}

#[test]
fn calls_are_remembered_with_their_results_between_the_heard_sentences() {
    let mut d = remembering(10);
    let mut turn = record("hi", &["One.", "Two.", "Three."]);
    turn.rounds = vec![round(1, &["a", "b"])];
    d.commit(&turn, PlayedBack { whole: 2, ..PlayedBack::default() }, false);
    assert_eq!(contents(&d), ["hi", "One.", "result a", "result b", "Two."]);
    assert_eq!(d.messages()[1].calls, turn.rounds[0].calls);
    assert_eq!(d.messages()[3].answers, "b");
}

/// Returns a round of calls with these results.
fn round_with(results: &[&str]) -> ToolRound {
    let ids = ["a", "b", "c", "d"];
    let results_of = results.iter().map(|result| (*result).to_owned()).collect();
    ToolRound { results: results_of, ..round(0, &ids[..results.len()]) }
}

#[test]
fn calls_of_a_failed_turn_are_remembered_without_their_results() {
    use crate::memory::{CALL_FAILED, RESULT_LOST};
    use crate::tools::held_call::NOT_AGREED;
    use crate::tools::outcome::CUT_SHORT;

    let results = ["poison", "error: poison", NOT_AGREED, CUT_SHORT];
    let told = [RESULT_LOST, CALL_FAILED, NOT_AGREED, CUT_SHORT];
    for (heard, last) in [(ALL, &["One."][..]), (PlayedBack::default(), &[])] {
        for continued in [false, true] {
            let mut d = remembering(20);
            let mut turn = failed(ProviderErrorKind::Unavailable, record("hi", &["One."]));
            turn.rounds = vec![round_with(&results)];
            d.commit(&turn, heard.clone(), continued);
            let expected = [&["hi", ""], &told[..], last].concat();
            assert_eq!(contents(&d), expected, "{continued}");
            assert_eq!(d.messages()[1].calls.len(), results.len());
            assert_eq!(d.prompt("again", None).messages.last().unwrap().content, "again");
        }
    }
    // Calls of a turn that was continued by the failed one, too.
    let mut d = remembering(20);
    d.commit(&asks_for_the_lamp("light?", &[]), PlayedBack::default(), true);
    let more = failed(ProviderErrorKind::Unavailable, record("now", &[]));
    d.commit(&more, PlayedBack::default(), false);
    assert_eq!(contents(&d), ["light? now", "", RESULT_LOST]);
    // Unintelligible words are no failure of the model: the results are kept.
    let mut d = remembering(20);
    d.commit(&asks_for_the_lamp("light?", &[]), PlayedBack::default(), true);
    let mut noise = record("", &[]);
    (noise.user, noise.end) = (None, TurnEnd::Failed(TurnError::Recognition));
    commit(&mut d, &noise);
    assert_eq!(contents(&d), ["light?", "", "on"]);
}

#[test]
fn only_the_names_of_the_calls_of_a_refused_turn_are_remembered() {
    use crate::tools::held_call::HELD;

    let note = "I have called f, and could not answer.";
    let mut d = remembering(20);
    commit(&mut d, &record("1", &["ok."]));
    let mut turn = failed(ProviderErrorKind::BadRequest, record("hi", &["One."]));
    turn.rounds = vec![round_with(&["poison", "error: no"])];
    commit(&mut d, &turn);
    assert_eq!(contents(&d), ["1", "ok.", "hi", note]);
    assert_eq!(d.messages()[2].read_from, ["f"]);
    assert!(d.messages().iter().all(|message| message.calls.is_empty()));
    // The second refusal in a row clears what was before it, but not what it has done itself.
    commit(&mut d, &turn);
    assert_eq!(contents(&d), ["hi", note]);
    // Words that belong to it, and calls that a noise interrupted, are noted with it.
    let mut d = remembering(20);
    d.commit(&asks_for_the_lamp("light?", &[]), PlayedBack::default(), true);
    let more = failed(ProviderErrorKind::TooLarge, record("now", &[]));
    d.commit(&more, PlayedBack::default(), true);
    assert_eq!(contents(&d), ["light? now", "I have called lamp, and could not answer."]);
    // Without a call that was made, it is forgotten.
    for result in ["error: no", HELD] {
        let mut d = remembering(20);
        turn.rounds = vec![round_with(&[result])];
        commit(&mut d, &turn);
        assert_eq!(contents(&d), [""; 0], "{result}");
    }
}

#[test]
fn the_first_rounds_of_a_very_long_turn_are_forgotten() {
    let mut d = dialogue();
    let mut turn = record("hi", &["Done."]);
    turn.rounds = vec![round(0, &["a"]), round(0, &["b", "c"]), round(0, &["d"])];
    commit(&mut d, &turn);
    assert_eq!(contents(&d), ["hi", "", "result d", "Done."]);
    assert_eq!(d.messages()[0].read_from, ["f"], "the answer may contain their results");
    commit(&mut d, &record("2", &["ok."]));
    assert_eq!(contents(&d), ["2", "ok."]);
    assert_eq!(d.messages()[0].read_from, ["f"], "its prompt contained a result");
}

proptest! {
    #[test]
    fn calls_and_results_are_never_separated(
        turns in proptest::collection::vec(
            (proptest::collection::vec(1_usize..4, 0..6), 0_usize..3, 0_usize..4), 1..8),
        max in 2_usize..12,
    ) {
        let mut d = remembering(max);
        for (sizes, sentences, whole) in turns {
            let mut turn = record("hi", &["One.", "Two."][..sentences.min(2)]);
            turn.rounds = sizes.iter().map(|n| round(sentences.min(1), &["a", "b", "c"][..*n])).collect();
            d.commit(&turn, PlayedBack { whole, ..PlayedBack::default() }, false);
            let mut messages = d.messages().iter().peekable();
            prop_assert!(messages.peek().is_none_or(|m| m.role == Role::User));
            while let Some(message) = messages.next() {
                prop_assert_ne!(message.role, Role::Tool, "a result without its call");
                for call in &message.calls {
                    prop_assert_eq!(&messages.next().expect("a call without its result").answers, &call.id);
                }
            }
            prop_assert!(d.messages().len() <= max);
        }
    }
}

#[test]
fn a_heard_part_without_known_length_is_estimated() {
    let second = Duration::from_secs(1);
    assert_eq!(cut("一二三四五六七八九", second, None), "一二三四");
    assert_eq!(cut("unbreakable", second, None), "unbreakable");
}

#[test]
fn unanswered_words_are_dropped_from_their_start() {
    let mut dialogue = dialogue();
    for n in 0..5_000 {
        dialogue.keep_words(&format!("第{n}次，你在吗"));
    }
    let waiting = dialogue.prompt("喂", None).messages.pop().unwrap().content;
    assert!((16_000..=(16 << 10)).contains(&waiting.len()), "{}", waiting.len());
    assert!(waiting.ends_with("第4999次，你在吗喂"), "{waiting}");
    let long = "x".repeat(20_000);
    assert_eq!(dialogue.prompt(&long, None).messages.pop().unwrap().content, long);
}
