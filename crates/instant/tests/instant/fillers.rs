//! What commands among other words may have beside their act: nothing but fillers. Sentences that are no commands, commands with a
//! word too many, and polite ones. Not for commands that are taken back, see `not_done`, nor for the verbs of other acts, see `opposites`.

use hearken_instant::{Answers, Bindings, Referent};

use crate::support::{bind, house, say, say_as, shown};

const HOUSES: [&str; 11] =
    ["bare", "panel", "flat", "hub", "radio", "guan", "sky", "porch", "dial", "zhuo", "loft"];

/// Negations, statements, questions, complaints, and numbers of which a part is left.
const NO_COMMANDS_EN: [&str; 38] = [
    "you mustn't turn on the balcony light",
    "the balcony light mustn't be on",
    "no lights on in the garage",
    "please no lights on in the office",
    "with no lights on in the office",
    "without the balcony light on",
    "manage without the garage light on",
    "nobody turn the garage light on",
    "nobody switches the balcony light on",
    "none of the office lights on",
    "hardly any light on in the garage",
    "any lights on in the garage",
    "any blinds closed in the office",
    "the balcony light on yet",
    "the balcony light on all day",
    "the garage light gone off",
    "have the lights in the garage gone off",
    "how come the garage light on",
    "dad turns the garage light off",
    "grandma likes the balcony light on",
    "the humidity is sixty percent in the dining room",
    "humidity is sixty percent in the office",
    "sixty percent humidity in the office",
    "battery sixty percent in the office",
    "it is thirty degrees in the office already",
    "the heating is at thirty degrees in the office",
    "set a timer for one minute thirty",
    "timer one minute thirty",
    "wake me ten minutes before seven thirty",
    "alarm ten minutes before six thirty",
    "volume fifty is too loud",
    "volume fifty too loud",
    "the sound thirty is too quiet",
    "no alarm at six thirty",
    "there is no alarm at six thirty",
    "film mode boring",
    "the film mode started",
    "turn on two balcony light",
];
const NO_COMMANDS_ZH: [&str; 34] = [
    "不需要打开阳台的灯",
    "阳台的灯不需要打开",
    "用不着打开阳台的灯",
    "阳台的灯用不着关掉",
    "无需打开车库的灯",
    "车库的灯无需打开",
    "不可以打开车库的灯",
    "阳台的灯不可以关掉",
    "不得打开阳台的灯",
    "办公室都三十度了",
    "办公室已经二十八度了",
    "办公室的温度三十度了",
    "办公室暖气都三十度了",
    "餐厅湿度百分之六十",
    "餐厅的湿度有百分之六十",
    "湿度百分之六十在餐厅",
    "餐厅电量百分之六十",
    "计时一分半",
    "倒计时一分半",
    "阳台的灯是否打开",
    "阳台的灯打开么",
    "车库的灯关掉么",
    "音量调到三十么",
    "把音量调到三十是否合适",
    "打开阳台的灯有用么",
    "打开阳台的灯干嘛",
    "难道打开阳台的灯",
    "六点半没有闹钟",
    "六点半无闹钟",
    "阳台的灯老打开",
    "爸爸打开阳台的灯",
    "妹妹把阳台的灯打开",
    "观影模式真没意思",
    "打开两阳台的灯",
];

/// Commands, with spaces where a word may be put between their parts, and the house that carries them out.
const COMMANDS_EN: [(&str, &str); 7] = [
    ("flat", "turn on the balcony light"),
    ("flat", "set the volume to thirty"),
    ("flat", "close the blinds in the dining room"),
    ("flat", "start the film mode"),
    ("flat", "set the office heating to twenty degrees"),
    ("radio", "set a timer for ten minutes"),
    ("radio", "pause the music"),
];
const COMMANDS_ZH: [(&str, &str); 6] = [
    ("flat", "打开 阳台的 灯"),
    ("flat", "把 音量 调到 三十"),
    ("flat", "关上 餐厅的 窗帘"),
    ("flat", "把 办公室的 暖气 调到 二十一度"),
    ("radio", "计时 十分钟"),
    ("radio", "暂停 音乐"),
];
/// Negations, words of questions, and numbers.
const INSERTED_EN: [&str; 17] = [
    "not", "never", "don't", "no", "without", "nobody", "mustn't", "why", "what", "is", "are",
    "did", "whether", "any", "two", "seven", "twenty",
];
const INSERTED_ZH: [&str; 16] = [
    "不",
    "不要",
    "别",
    "没",
    "不需要",
    "用不着",
    "无需",
    "不可以",
    "没人",
    "么",
    "吗",
    "是否",
    "谁",
    "为什么",
    "两",
    "七",
];

/// Usual forms of a request, with words of politeness, hesitation and address.
const POLITE: [(&str, &str); 15] = [
    ("balcony", "could you please turn on the balcony light"),
    ("balcony", "um turn on the balcony light please"),
    ("balcony", "okay turn the balcony light on now thanks"),
    ("balcony", "hey Mira turn on the balcony light"),
    ("balcony", "would you turn the balcony light on for me"),
    ("balcony", "while you are at it turn the balcony light on please"),
    ("balcony", "when you get a chance turn on the balcony light thank you very much"),
    ("balcony", "well hey turn the balcony light on again please my dear"),
    ("garage", "麻烦帮我打开一下车库的灯"),
    ("garage", "请打开车库的灯吧"),
    ("garage", "嗯打开车库的灯谢谢"),
    ("garage", "那个打开车库的灯"),
    ("garage", "现在打开车库的灯"),
    ("garage", "所以麻烦你现在把车库的灯打开吧谢谢"),
    ("garage", "好的那就把车库的灯打开就行"),
];

fn calls(
    answers: &Answers,
    bindings: &Bindings,
    text: &str,
    last: Option<&Referent>,
    is_lenient: bool,
) -> String {
    say_as(answers, bindings, text, last, is_lenient)
        .map(|played| shown(&played.calls))
        .unwrap_or_default()
}

#[test]
fn what_is_no_command_is_not_done() {
    let answers = Answers::builtin();
    let houses = HOUSES.map(|name| (name, bind(&house(name))));
    let last = say(&answers, &houses[2].1, "turn on the balcony light", None).unwrap().referent;
    let mut faults = Vec::new();
    for text in NO_COMMANDS_EN.iter().chain(&NO_COMMANDS_ZH) {
        for (name, bindings) in &houses {
            for last in [None, last.as_ref()] {
                let made = calls(&answers, bindings, text, last, true);
                if !made.is_empty() {
                    faults.push(format!("{name}: {text}: {made}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

/// Returns what is done with a word put in each place of a command, that is not done for the whole sentence either.
fn done_with(
    answers: &Answers,
    bindings: &Bindings,
    command: &str,
    word: &str,
    gap: &str,
) -> Vec<String> {
    let parts: Vec<&str> = command.split(' ').collect();
    let texts = (0..=parts.len()).map(|at| {
        let mut parts = parts.clone();
        parts.insert(at, word);
        parts.join(gap)
    });
    let done = texts.filter_map(|text| {
        let made = calls(answers, bindings, &text, None, true);
        // With a number, the whole sentence may be another command: `thirty seven`.
        let is_other = !made.is_empty() && made != calls(answers, bindings, &text, None, false);
        is_other.then(|| format!("{text}: {made}"))
    });
    done.collect()
}

#[test]
fn a_command_with_a_negation_a_question_word_or_a_number_is_not_done() {
    let answers = Answers::builtin();
    let mut faults = Vec::new();
    for (name, command) in COMMANDS_EN {
        let bindings = bind(&house(name));
        for word in INSERTED_EN {
            faults.extend(done_with(&answers, &bindings, command, word, " "));
        }
    }
    for (name, command) in COMMANDS_ZH {
        let bindings = bind(&house(name));
        for word in INSERTED_ZH {
            faults.extend(done_with(&answers, &bindings, command, word, ""));
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_polite_command_is_done() {
    let answers = Answers::builtin();
    let flat = bind(&house("flat"));
    for (place, text) in POLITE {
        let wanted = format!(r#"lights_switch{{"place":"{place}","power":"on"}}"#);
        assert_eq!(calls(&answers, &flat, text, None, true), wanted, "{text}");
    }
}
