//! Harmless words beside a report of danger, before or after it: the topic stays. Not for sentences by themselves.

use hearken_safety::{Region, Safety, Topic};

use crate::sentences::{DANGEROUS, with_topics};

/// What people also say who are in danger: what they watched, did, ate or heard.
const ENGLISH: [&str; 20] = [
    "he was watching tv",
    "I was watching a movie",
    "we were playing a game",
    "my phone is in the kitchen",
    "we just had dinner",
    "the train was late",
    "I just came from the gym",
    "we are all so tired",
    "he was doing his homework",
    "it is raining outside",
    "I was cutting meat",
    "the news was on",
    "I was reading a book",
    "we were listening to music",
    "my alarm clock was ringing",
    "I was about to order pizza",
    "my hands are shaking",
    "the smoke detector is beeping",
    "we came back from training",
    "the dog is barking",
];
const CHINESE: [&str; 20] = [
    "我在看电视",
    "我们在打游戏",
    "手机在充电",
    "我们刚吃完饭",
    "火车晚点了",
    "我刚从健身房回来",
    "我们都累了",
    "他在写作业",
    "外面在下雨",
    "我在切肉",
    "刚才在放新闻",
    "我在看书",
    "我们在听音乐",
    "我在打麻将",
    "闹钟响了",
    "我在等快递",
    "我手都在抖",
    "电脑开着",
    "我们刚上完课",
    "狗一直在叫",
];
/// A report has every fifth of the words beside it: together, the reports have all of them.
const STEP: usize = 5;

/// Returns a report with words before and behind it, in the same sentence and in another one.
fn with_beside(report: &str, beside: &str, marks: [&str; 2]) -> Vec<String> {
    let bare = report.trim_end_matches(['.', '!', '?', '。', '！', '？']);
    let texts =
        marks.map(|mark| [format!("{beside}{mark}{report}"), format!("{bare}{mark}{beside}")]);
    texts.concat()
}

#[test]
fn harmless_words_beside_a_danger_change_nothing() {
    let safety = Safety::new(Region::default());
    let danger = |text: &str| -> Option<Topic> {
        safety.judge(text).map(|safe| safe.topic).filter(|topic| !topic.is_declined())
    };
    let mut count = 0;
    let mut faults = Vec::new();
    for (file, beside, marks) in
        [(DANGEROUS[0], ENGLISH, [", ", ". "]), (DANGEROUS[1], CHINESE, ["，", "。"])]
    {
        for (number, (_, report)) in with_topics(file).into_iter().enumerate() {
            let Some(expected) = danger(report) else { continue };
            for beside in beside.iter().skip(number % STEP).step_by(STEP) {
                for text in with_beside(report, beside, marks) {
                    count += 1;
                    let found = danger(&text);
                    if found != Some(expected) {
                        faults.push(format!("{expected:?} is {found:?}: {text}"));
                    }
                }
            }
        }
    }
    assert!(count >= 15_000, "only {count} texts");
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
}
