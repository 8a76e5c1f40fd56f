//! The same danger told of another person, with a call for help, with a time, or in another order of words: the topic stays. Not
//! for harmless words beside it.

use hearken_safety::{Region, Safety, Topic};

use crate::sentences::{DANGEROUS, with_topics};

/// Grown people who replace each other behind "my".
const GROWN: [&str; 17] = [
    "husband",
    "boyfriend",
    "wife",
    "girlfriend",
    "partner",
    "dad",
    "mom",
    "father",
    "mother",
    "brother",
    "sister",
    "roommate",
    "grandma",
    "grandpa",
    "neighbor",
    "uncle",
    "friend",
];
/// Children who replace each other behind "my".
const YOUNG: [&str; 6] = ["son", "daughter", "child", "kid", "toddler", "grandson"];
/// The same in Chinese, at the begin of a sentence.
const CHINESE_GROWN: [&str; 17] = [
    "我妈",
    "我爸",
    "妈妈",
    "爸爸",
    "老公",
    "老婆",
    "我丈夫",
    "奶奶",
    "爷爷",
    "外婆",
    "室友",
    "我哥",
    "我妹",
    "男朋友",
    "女朋友",
    "我同事",
    "邻居",
];
const CHINESE_YOUNG: [&str; 5] = ["孩子", "儿子", "女儿", "我家孩子", "孙子"];
/// Verbs whose object may stand before or behind 了.
const TAKEN: [char; 4] = ['喝', '吃', '吞', '咽'];
/// Words that do not stand between such a verb and a 了 at the end.
const NO_OBJECT: [char; 13] =
    ['了', '喝', '吃', '吞', '咽', '，', '。', ' ', '怎', '什', '吗', '现', '想'];
/// Texts that have another topic of danger, or none, for a reason.
const EXCEPTIONS: [&str; 9] = [
    // A numb arm beside a tight chest may be both; a stroke comes first.
    "my left arm is numb and my chest feels tight, help",
    // Nobody says so: what is now was not an hour ago.
    "i think this is a stroke about ten minutes ago",
    "i think this is a stroke an hour ago",
    "i think this is a stroke when I came in",
    // Sudden blindness may be a stroke, too.
    "刚才老公喝了假酒看不见",
    // A fit is what needs help first.
    "我家狗吃老鼠药口吐白沫了",
    // Two doses a day are ordinary.
    "我吃两次降压药了",
    // Nobody says so.
    "外婆把降糖药吃双倍了",
    "我儿子刚刚吞个一块钱硬币了",
];

/// Reports whether a text told in another way may have this topic instead.
fn is_like(topic: Topic, found: Topic) -> bool {
    let both =
        |one: Topic, other: Topic| [topic, found] == [one, other] || [topic, found] == [other, one];
    // A parent beats a child, a husband a grown person; a baby has a fit.
    topic == found
        || both(Topic::ChildAbuse, Topic::Violence)
        || both(Topic::Infant, Topic::Seizure)
}

fn bare(report: &str) -> &str {
    report.trim_end_matches(['.', '!', '?', '。', '！', '？', ' '])
}

/// Asserts that each text that `tell` makes of a report has its topic, and that there are at least `least`.
fn all_keep_their_topic(file: usize, least: usize, tell: impl Fn(Topic, &str) -> Vec<String>) {
    let safety = Safety::new(Region::default());
    let danger = |text: &str| -> Option<Topic> {
        safety.judge(text).map(|safe| safe.topic).filter(|topic| !topic.is_declined())
    };
    let mut count = 0;
    let mut faults = Vec::new();
    for (_, report) in with_topics(DANGEROUS[file]) {
        let Some(expected) = danger(report) else { continue };
        for text in tell(expected, bare(report)) {
            count += 1;
            let found = danger(&text);
            let is_kept = found.is_some_and(|found| is_like(expected, found));
            if !is_kept && !EXCEPTIONS.contains(&text.as_str()) {
                faults.push(format!("{expected:?} is {found:?}: {text}"));
            }
        }
    }
    assert!(count >= least, "only {count} texts");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_danger_is_one_whoever_of_the_family_is_in_it_or_makes_it() {
    all_keep_their_topic(0, 1_000, |_, report| {
        let Some((my, rest)) = report.split_once(' ') else { return Vec::new() };
        let (who, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let of = |group: &[&str]| -> Vec<String> {
            let is_one = ["my", "our"].contains(&my) && group.contains(&who);
            let others = group.iter().filter(|_| is_one);
            others.map(|other| format!("{my} {other} {rest}")).collect()
        };
        [of(&GROWN), of(&YOUNG)].concat()
    });
    all_keep_their_topic(1, 1_000, |topic, report| {
        let of = |group: &[&str]| -> Vec<String> {
            let Some(rest) = group.iter().find_map(|who| report.strip_prefix(*who)) else {
                return Vec::new();
            };
            group.iter().map(|who| format!("{who}{rest}")).collect()
        };
        let mut texts = of(&CHINESE_GROWN);
        // Small children beat nobody who needs help against them.
        if topic != Topic::Violence {
            texts.extend(of(&CHINESE_YOUNG));
        }
        texts
    });
}

#[test]
fn a_call_for_help_hides_no_danger() {
    all_keep_their_topic(0, 1_500, |_, report| {
        vec![
            format!("{report}, help"),
            format!("Help, {report}"),
            format!("Help! {report}."),
            format!("{report}, what do I do?"),
            format!("{report}. Please help."),
        ]
    });
    all_keep_their_topic(1, 1_500, |_, report| {
        vec![
            format!("救命，{report}"),
            format!("{report}，救命"),
            format!("{report}怎么办"),
            format!("{report}，怎么办"),
        ]
    });
}

#[test]
fn a_time_hides_no_danger() {
    let is_wish = |topic: Topic| [Topic::SelfHarm, Topic::SelfHarmOther].contains(&topic);
    all_keep_their_topic(0, 1_000, |topic, report| {
        // "I want to die an hour ago" is no sentence.
        if is_wish(topic) {
            return Vec::new();
        }
        let times = ["about ten minutes ago", "an hour ago", "when I came in"];
        times.into_iter().map(|time| format!("{report} {time}")).collect()
    });
    all_keep_their_topic(1, 800, |_, report| {
        vec![format!("刚才{report}"), format!("刚刚，{report}")]
    });
}

#[test]
fn what_was_taken_may_stand_before_the_particle() {
    all_keep_their_topic(1, 25, |_, report| {
        let Some((before, object)) = report.split_once('了') else { return Vec::new() };
        let is_plain = before.ends_with(TAKEN)
            && (1..=8).contains(&object.chars().count())
            && !object.contains(NO_OBJECT);
        if is_plain { vec![format!("{before}{object}了")] } else { Vec::new() }
    });
}

#[test]
fn a_joke_about_being_killed_names_a_trifle() {
    let safety = Safety::new(Region::default());
    let topic = |text: &str| safety.judge(text).map(|safe| safe.topic);
    for who in GROWN {
        for (threat, trifle) in [
            ("is going to kill me", "if I'm late"),
            ("will kill me", "because I forgot the milk"),
            ("is going to kill me", "when she sees this mess"),
        ] {
            let plain = format!("my {who} {threat}");
            assert_eq!(topic(&format!("{plain} {trifle}")), None, "{plain} {trifle}");
            for text in [
                plain.clone(),
                format!("{plain}, he has a knife"),
                format!("call the police, {plain} {trifle}"),
                format!("my {who} is trying to kill me"),
                format!("my {who} said he would kill me"),
                format!("my {who} will kill me if I leave him"),
            ] {
                let found = topic(&text);
                let is_told = found.is_some_and(|found| is_like(Topic::Violence, found));
                assert!(is_told, "{found:?}: {text}");
            }
        }
    }
    for who in ["老公", "老婆", "我爸", "我妈", "我丈夫", "男朋友"] {
        let joke = format!("考试没考好，{who}要打死我");
        assert_eq!(topic(&joke), None, "{joke}");
        for text in [
            format!("{who}要杀了我"),
            format!("{who}要打死我"),
            format!("{who}说要杀了我"),
            format!("救命，{joke}"),
            format!("{who}拿着刀要杀了我"),
        ] {
            let found = topic(&text);
            let is_told = found.is_some_and(|found| is_like(Topic::Violence, found));
            assert!(is_told, "{found:?}: {text}");
        }
    }
}
