//! Sentences with the topic that they must have, and sentences that must have none. Their files are beside this one: those of
//! danger have a topic on a line, and its sentences below it. Not for replies.

use hearken_safety::{Region, Safety, Topic};
use proptest::prelude::*;

/// All files of sentences.
pub(crate) const DANGEROUS: [&str; 2] =
    [include_str!("dangerous_en.txt"), include_str!("dangerous_zh.txt")];
/// All files of sentences without danger.
pub(crate) const HARMLESS: [&str; 2] =
    [include_str!("harmless_en.txt"), include_str!("harmless_zh.txt")];

/// Returns each sentence of a file with its topic.
pub(crate) fn with_topics(file: &str) -> Vec<(String, &str)> {
    let names = Topic::ALL.map(|topic| snake_case(&format!("{topic:?}")));
    let mut topic = String::new();
    let mut found = Vec::new();
    for line in file.lines().filter(|line| !line.is_empty()) {
        if names.iter().any(|name| name == line) {
            line.clone_into(&mut topic);
        } else {
            found.push((topic.clone(), line));
        }
    }
    found
}

fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for (at, c) in name.char_indices() {
        if at > 0 && c.is_uppercase() {
            words.push('_');
        }
        words.extend(c.to_lowercase());
    }
    words
}

fn topic(safety: &Safety, text: &str) -> Option<String> {
    safety.judge(text).map(|safe| snake_case(&format!("{:?}", safe.topic)))
}

#[test]
fn a_danger_at_either_end_of_a_long_text_is_recognised() {
    let safety = Safety::new(Region::default());
    let han: String = ('\u{4e00}'..='\u{7000}').collect();
    for filling in [han, "all is well today. ".repeat(800)] {
        assert_eq!(topic(&safety, &filling), None);
        for (danger, expected) in
            [("My baby is not breathing!", "not_breathing"), ("厨房着火了！", "fire")]
        {
            for text in [format!("{danger} {filling}"), format!("{filling}。{danger}")] {
                assert_eq!(topic(&safety, &text).as_deref(), Some(expected), "{danger}");
            }
        }
    }
}

#[test]
fn a_person_in_danger_is_recognised() {
    let safety = Safety::new(Region::default());
    let mut faults = Vec::new();
    let mut count = 0;
    for (expected, sentence) in DANGEROUS.into_iter().flat_map(with_topics) {
        count += 1;
        let found = topic(&safety, sentence);
        if found.as_ref() != Some(&expected) {
            faults.push(format!("{expected} is {found:?}: {sentence}"));
        }
    }
    assert!(count >= 400, "only {count} sentences");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_only_sounds_dangerous_is_left_alone() {
    let safety = Safety::new(Region::default());
    let mut faults = Vec::new();
    let mut count = 0;
    for sentence in HARMLESS.into_iter().flat_map(str::lines) {
        count += 1;
        if let Some(found) = topic(&safety, sentence) {
            faults.push(format!("{found}: {sentence}"));
        }
    }
    assert!(count >= 800, "only {count} sentences");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_goes_on_with_a_danger_keeps_its_reply() {
    let safety = Safety::new(Region::default());
    let next = |text: &str, before: &[&str]| {
        safety.judge_next(text, before.iter().copied()).map(|safe| safe.topic)
    };
    for further in [
        "what now?",
        "and now what",
        "okay, what should I do next",
        "what do I do until the ambulance comes",
        "he is still not breathing",
        "she's not responding",
        "it is still bleeding",
        "he's getting worse",
        "help",
        "should I call an ambulance",
        "how long do I do that",
        "say that again",
        "nobody answers",
        "I called the ambulance",
        "I'm scared",
    ] {
        assert_eq!(next(further, &["my husband is choking"]), Some(Topic::Choking), "{further}");
        assert_eq!(next(further, &["what now", "my husband is choking"]), Some(Topic::Choking));
        assert_eq!(next(further, &["turn on the radio", "my husband is choking"]), None);
        assert_eq!(next(further, &[]), None);
        assert_eq!(next(further, &["how do I build a bomb"]), None, "what is declined");
    }
    for further in [
        "现在怎么办",
        "怎么办",
        "然后呢",
        "接下来做什么",
        "他还是没反应",
        "还在流血",
        "没用",
        "越来越严重了",
        "救命",
        "要不要叫救护车",
        "按多久",
        "再说一遍",
        "没人接",
        "我好害怕",
    ] {
        assert_eq!(next(further, &["厨房着火了"]), Some(Topic::Fire), "{further}");
        assert_eq!(next(further, &["放点音乐", "厨房着火了"]), None, "{further}");
    }
    for other in [
        "what should I cook tonight",
        "he is fine now",
        "thank you",
        "turn on the light",
        "how long is the Nile",
        "今天天气怎么样",
        "谢谢",
        "他好了",
        "还没吃饭",
    ] {
        assert_eq!(next(other, &["my husband is choking"]), None, "{other}");
    }
}

proptest! {
    #[test]
    fn any_text_is_judged(text in any::<String>()) {
        Safety::new(Region::default()).judge(&text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parts_of_sentences_are_judged(
        parts in prop::collection::vec((0..2_000_usize, 0..200_usize), 0..40), gap in "[ .!?'’,我]{0,2}",
    ) {
        let files = [DANGEROUS, HARMLESS].concat();
        let sentences: Vec<&str> = files.iter().flat_map(|file| file.lines()).collect();
        let mut text = String::new();
        for (which, from) in parts {
            let sentence = sentences[which % sentences.len()];
            text.extend(sentence.chars().skip(from % sentence.chars().count().max(1)));
            text.push_str(&gap);
        }
        let reply = Safety::new(Region::of("CN")).judge(&text).map(|safe| safe.reply);
        prop_assert!(reply.is_none_or(|reply| !reply.is_empty()));
    }
}
