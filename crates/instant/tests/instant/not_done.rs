//! Commands that are taken back, or only spoken of: no call is made for them, whoever understands commands among other words.
//! Families of sentences, each around the same commands. Not for what is said instead.

use hearken_instant::{Answers, Bindings, Referent};

use crate::support::{bind, house, say, say_as, shown};

const HOUSES: [&str; 11] =
    ["bare", "panel", "flat", "hub", "radio", "guan", "sky", "porch", "dial", "zhuo", "loft"];

/// Commands that a house carries out.
const COMMANDS_EN: [&str; 9] = [
    "turn on the balcony light",
    "switch off the garage lights",
    "set the volume to thirty five",
    "set the heating in the office to twenty one degrees",
    "close the blinds in the dining room",
    "start the film scene",
    "pause the music",
    "set a timer for ten minutes",
    "wake me at seven",
];
const COMMANDS_ZH: [&str; 8] = [
    "打开阳台的灯",
    "关掉车库的灯",
    "把音量调到三十五",
    "把办公室的暖气调到二十一度",
    "关上餐厅的窗帘",
    "打开风扇",
    "暂停音乐",
    "计时十分钟",
];

/// Sentences around `@`, the command, that take it back.
const TAKEN_BACK_EN: [&str; 34] = [
    "@ no wait don't",
    "@, no wait, don't",
    "@ no wait",
    "@ wait no",
    "@, actually no",
    "@ actually don't",
    "@, never mind",
    "@ nevermind",
    "@ never mind that",
    "@ forget it",
    "@, forget it, thanks",
    "@ scratch that",
    "@ cancel that",
    "@, on second thought, no",
    "@ on second thoughts leave it",
    "@, stop",
    "@ no stop",
    "@ hold on",
    "@, wait",
    "@ not now",
    "@ or rather not",
    "@ maybe not",
    "@ no thanks",
    "@ I changed my mind",
    "@ sorry no",
    "@ oh no don't do that",
    "@ just kidding",
    "@ don't bother",
    "@ I take that back",
    "@, never mind, it is bright enough",
    "please @, um, no, never mind",
    "could you @ ... ah, forget it",
    "well @ then, no, don't",
    "it is dark so @ no wait never mind",
];
const TAKEN_BACK_ZH: [&str; 30] = [
    "@，算了",
    "@算了",
    "@，算了不用了",
    "@，还是算了吧",
    "@，不用了",
    "@不用了谢谢",
    "@，不对",
    "@不对不对",
    "@，说错了",
    "@，等等",
    "@，等一下，先别",
    "@，别",
    "@先别",
    "@还是别了",
    "@，不要了",
    "@，当我没说",
    "@，我改主意了",
    "@，停",
    "@，没事了",
    "@，哦不，算了",
    "@吧，呃，算了",
    "麻烦@，啊，不用了",
    "帮我@，还是不要了",
    "@，慢着",
    "@，取消",
    "@，我开玩笑的",
    "@，搞错了",
    "@，算了，太晚了",
    "@，不了",
    "@，先不用了",
];

/// Sentences that only speak of the command: negations, reports, questions, conditions, other people and other times.
const SPOKEN_OF_EN: [&str; 62] = [
    "I don't want to @",
    "I do not want you to @",
    "please don't @",
    "never @",
    "you must not @",
    "I would rather not @",
    "I am not going to @",
    "there is no need to @",
    "nobody has to @",
    "you don't have to @",
    "my wife said @",
    "my brother asked me to @",
    "the sign says @",
    "he always says @",
    "she told me to @",
    "they want us to @",
    "he wants to @",
    "my neighbour likes to @",
    "my son loves to @",
    "did you @",
    "did anybody @",
    "should I @",
    "why would anybody @",
    "who would @",
    "how do I @",
    "what happens if I @",
    "if I @ it gets cosy",
    "unless I @ nothing happens",
    "until I @ it stays as it is",
    "when I @ the cat wakes up",
    "I was about to @",
    "I nearly managed to @",
    "I almost had to @",
    "I used to @",
    "yesterday I had to @",
    "last week I tried to @",
    "imagine I @",
    "suppose we @",
    "I wonder whether to @",
    "it was silly to @",
    "in the film they @",
    "the book tells you to @",
    "how do you say @ in French",
    "translate @ into German",
    "my password is @",
    "the song is called @",
    "I dreamed that I could @",
    "I forgot to @",
    "I hate to @",
    "I refuse to @",
    "it takes ages to @",
    "it is forbidden to @",
    "I can't @",
    "I couldn't @",
    "nobody could @",
    "let us not @",
    "instead of trying to @ go to bed",
    "before you @ ask me",
    "after you @ tell me",
    "tomorrow I will @",
    "I promise I won't @",
    "the children want to @",
];
const SPOKEN_OF_ZH: [&str; 40] = [
    "不要@",
    "别@",
    "千万别@",
    "先别@",
    "我不想@",
    "我不要你@",
    "不用@",
    "没必要@",
    "不许@",
    "我没说要@",
    "我不是让你@",
    "谁让你@的",
    "谁会@",
    "为什么要@",
    "要不要@",
    "是不是应该@",
    "我在想要不要@",
    "我还没决定要不要@",
    "怎么@",
    "如果我@会怎么样",
    "要是@就好了",
    "假如@",
    "除非@",
    "我差点@",
    "我本来想@",
    "昨天我@了",
    "刚才有人@了",
    "他说@",
    "他叫我@",
    "邻居又@了",
    "老板让他@",
    "电影里的人@了",
    "@这句话怎么翻译",
    "@用英语怎么说",
    "明天再@",
    "等他回来再@",
    "我讨厌@",
    "我忘了@",
    "我不会@",
    "我梦见我@了",
];

/// Returns the calls of a text in one of these houses, with and without something that was spoken of before.
fn calls(answers: &Answers, houses: &[&(&str, Bindings)], last: &Referent, text: &str) -> String {
    for (name, bindings) in houses {
        for last in [None, Some(last)] {
            let played = say_as(answers, bindings, text, last, true);
            if let Some(played) = played.filter(|played| !played.calls.is_empty()) {
                return format!("{name}: {text}: {}", shown(&played.calls));
            }
        }
    }
    String::new()
}

#[test]
fn a_command_that_is_taken_back_or_spoken_of_is_not_done() {
    let answers = Answers::builtin();
    let houses = HOUSES.map(|name| (name, bind(&house(name))));
    let flat = &houses[2].1;
    let last = say(&answers, flat, "turn on the balcony light", None).unwrap().referent.unwrap();
    let families: [(&[&str], &[&str]); 4] = [
        (&COMMANDS_EN, &TAKEN_BACK_EN),
        (&COMMANDS_ZH, &TAKEN_BACK_ZH),
        (&COMMANDS_EN, &SPOKEN_OF_EN),
        (&COMMANDS_ZH, &SPOKEN_OF_ZH),
    ];
    let mut faults = Vec::new();
    for (commands, frames) in families {
        for command in commands {
            let does = |(_, house): &&(&str, Bindings)| {
                say(&answers, house, command, None).is_some_and(|played| !played.calls.is_empty())
            };
            let able: Vec<_> = houses.iter().filter(does).collect();
            assert!(!able.is_empty(), "no house carries out: {command}");
            for frame in frames {
                let fault = calls(&answers, &able, &last, &frame.replace('@', command));
                faults.extend(Some(fault).filter(|fault| !fault.is_empty()));
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_person_hears_that_a_command_was_taken_back() {
    let answers = Answers::builtin();
    let flat = bind(&house("flat"));
    for (text, words) in [
        ("turn on the balcony light, no wait, don't", "I won't"),
        ("set the volume to thirty five never mind", "I won't"),
        ("打开阳台的灯，算了不用了", "那就不做了"),
    ] {
        let played = say(&answers, &flat, text, None).unwrap();
        assert!(played.calls.is_empty() && played.answer.contains(words), "{}", played.answer);
    }
}

#[test]
fn a_correction_and_a_word_of_regret_are_no_retraction() {
    let answers = Answers::builtin();
    let flat = bind(&house("flat"));
    for (text, calls) in [
        (
            "never mind, turn on the balcony light",
            r#"lights_switch{"place":"balcony","power":"on"}"#,
        ),
        ("算了，打开阳台的灯", r#"lights_switch{"place":"balcony","power":"on"}"#),
    ] {
        let played = say_as(&answers, &flat, text, None, true).unwrap();
        assert_eq!(shown(&played.calls), calls, "{text}");
    }
}

#[test]
fn stop_ends_what_runs_or_the_speech_and_claims_nothing() {
    let answers = Answers::builtin();
    let robot = |name: &str, description: &str| crate::support::Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: serde_json::json!({"type": "object", "properties": {}}),
    };
    for text in ["stop", "停", "stop now", "停下"] {
        // Nothing runs.
        let bare = say(&answers, &bind(&house("bare")), text, None).unwrap();
        assert!(bare.calls.is_empty() && bare.answer.chars().count() < 8, "{}", bare.answer);
        let player = say(&answers, &bind(&house("porch")), text, None).unwrap();
        assert_eq!(shown(&player.calls), "jukebox_stop{}", "{text}");
        // What moves is the model's: `okay` would claim that it was stopped.
        for name in ["robot_stop", "self.chassis.halt", "walk_forward"] {
            let moving = bind(&[robot(name, "Moves the robot or stops it")]);
            assert!(say(&answers, &moving, text, None).is_none(), "{text}: {name}");
        }
    }
    for text in ["stop talking", "be quiet", "别说了", "闭嘴", "never mind", "算了"] {
        for name in ["bare", "porch"] {
            let played = say(&answers, &bind(&house(name)), text, None).unwrap();
            assert!(played.calls.is_empty(), "{text}: {}", shown(&played.calls));
        }
    }
}
