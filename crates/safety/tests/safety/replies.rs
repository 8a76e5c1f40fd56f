//! What replies must be: short, without marks, with a number of the region. Not for which topic a text has.

use hearken_base::language::{Language, is_han};
use hearken_safety::{Region, Safety, Topic};

const MOST_CHARS: usize = 320;
const MOST_SECONDS: f64 = 20.0;
const LANGUAGES: [Language; 2] = [Language::Chinese, Language::English];

/// Every region, the unknown one included.
fn regions() -> Vec<(&'static str, Region)> {
    let known = Region::codes().map(|code| (code, Region::of(code)));
    known.chain([("unknown", Region::default())]).collect()
}

/// Estimates how long a voice speaks.
fn seconds(text: &str) -> f64 {
    let count = |wanted: fn(&char) -> bool| text.chars().filter(wanted).count() as f64;
    let words = text.split(|c: char| !c.is_ascii_alphabetic() && c != '\'');
    let words = words.filter(|word| !word.is_empty()).count() as f64;
    count(|c| is_han(*c)) / 4.5 + words / 2.6 + count(char::is_ascii_digit) / 4.0
}

#[test]
fn every_reply_is_short_and_names_a_number_of_the_region() {
    let mut faults = Vec::new();
    for (code, region) in regions() {
        for language in LANGUAGES {
            let numbers = region.numbers(language);
            for safe in Safety::new(region.clone()).replies(language) {
                let mut wrong = |what: &str| {
                    faults.push(format!("{code} {:?}: {what}: {}", safe.topic, safe.reply));
                };
                let chars = safe.reply.chars().count();
                if chars > MOST_CHARS {
                    wrong(&format!("{chars} characters"));
                }
                let long = seconds(&safe.reply);
                if long > MOST_SECONDS {
                    wrong(&format!("{long:.1} seconds"));
                }
                if safe
                    .reply
                    .contains(['*', '_', '#', '`', '[', ']', '{', '}', '<', '>', '\n', '|', '~'])
                {
                    wrong("a mark");
                }
                if !numbers.iter().any(|number| safe.reply.contains(number)) {
                    wrong("no number");
                }
                let is_chinese = safe.reply.chars().any(is_han);
                if is_chinese != (language == Language::Chinese) {
                    wrong("another language");
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_chinese_voice_is_told_to_dial() {
    // Behind a word for calling, the digits of a number are read one by one.
    for (code, region) in regions() {
        for safe in Safety::new(region).replies(Language::Chinese) {
            let reply = safe.reply.replace("拨打", "拨");
            for (at, _) in reply.match_indices(|c: char| c.is_ascii_digit()) {
                let before = reply[..at].trim_end_matches(|c: char| c.is_ascii_digit());
                assert!(before.ends_with('拨'), "{code}: {}", safe.reply);
            }
        }
    }
}

#[test]
fn the_reply_fits_who_is_in_danger_and_where() {
    let judged = |code: &str, text: &str| {
        let safe = Safety::new(Region::of(code)).judge(text);
        safe.map(|safe| (safe.topic, safe.reply)).unwrap_or_else(|| panic!("{text}: nothing"))
    };
    for (code, text, topic, words) in [
        ("US", "my husband is choking", Topic::Choking, "Call 9 1 1 now. If they cannot"),
        ("US", "my baby is choking", Topic::Choking, "Never press the belly"),
        ("GB", "my dog is choking on a ball", Topic::Choking, "vet"),
        ("US", "i'm choking, the dog is barking", Topic::Choking, "bend over a chair back"),
        ("CN", "我被噎住了，宝宝在哭", Topic::Choking, "顶在椅背上"),
        ("GB", "the dog bit my son and he is bleeding badly", Topic::Bleeding, "Call 9 9 9 now"),
        ("US", "my son swallowed a button battery", Topic::Swallowed, "honey"),
        ("US", "my son drank bleach", Topic::Poisoning, "1, 8 0 0, 2 2 2, 1 2 2 2"),
        ("CN", "我爸突然晕倒了", Topic::NotBreathing, "拨打120"),
        ("CN", "厨房着火了", Topic::Fire, "拨打119"),
        ("CN", "有人在撬我家的门", Topic::Violence, "拨打110"),
        ("CN", "我不想活了", Topic::SelfHarm, "拨打12356"),
        ("TW", "我爺爺突然說話不清楚", Topic::Stroke, "拨打119"),
        ("AU", "i want to die", Topic::SelfHarm, "1 3, 1 1, 1 4"),
        ("XX", "我胸口好疼", Topic::HeartAttack, "当地急救电话，很多国家拨打112"),
        ("XX", "my chest hurts so bad", Topic::HeartAttack, "(1 1 2 in many countries)"),
    ] {
        let (found, reply) = judged(code, text);
        assert_eq!(found, topic, "{text}");
        assert!(reply.contains(words), "{text}: {reply}");
    }
}

#[test]
fn texts_in_other_languages_and_without_words_are_left_alone() {
    let safety = Safety::new(Region::of("JP"));
    for text in ["", " ", "…", "火事だ助けて", "こんにちは", "안녕하세요", "¿qué hora es?", "12345"]
    {
        assert_eq!(safety.judge(text), None, "{text}");
    }
}

#[test]
fn a_name_in_another_language_does_not_change_the_language_of_the_reply() {
    let safety = Safety::new(Region::of("CN"));
    for (text, is_chinese) in [
        ("my son is not breathing. call 小明 now", false),
        ("my baby is choking. 小明 is not here", false),
        ("我被噎住了，快叫 Tom", true),
    ] {
        let reply = safety.judge(text).map(|safe| safe.reply).unwrap_or_default();
        assert!(!reply.is_empty(), "{text}: nothing");
        assert_eq!(reply.chars().any(is_han), is_chinese, "{text}: {reply}");
    }
}
