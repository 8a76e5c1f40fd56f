//! Detects whether an answer asks the player to roll dice, if no tool reports it. Dice, or a
//! purpose of rolling, must occur in the same clause. Pure functions. Not for rolling dice.

/// Characters that end a clause.
const ENDS: &[char] = &[
    '.', '!', '?', ';', ':', ',', '\n', '(', ')', '"', '。', '！', '？', '；', '：', '，', '、',
    '（', '）', '“', '”', '…', '—',
];

/// Words for dice and for purposes of rolling, besides `d20` and similar.
const ENGLISH_DICE: [&str; 30] = [
    "die",
    "dice",
    "initiative",
    "check",
    "save",
    "saving",
    "attack",
    "damage",
    "hit",
    "advantage",
    "disadvantage",
    "perception",
    "stealth",
    "insight",
    "athletics",
    "acrobatics",
    "arcana",
    "history",
    "investigation",
    "medicine",
    "nature",
    "persuasion",
    "deception",
    "intimidation",
    "survival",
    "strength",
    "dexterity",
    "constitution",
    "wisdom",
    "charisma",
];
const CHINESE_DICE: [&str; 6] = ["骰", "色子", "检定", "豁免", "先攻", "鉴定"];
/// Words that make a clause a request.
const CHINESE_ASKS: [&str; 11] =
    ["请", "需要", "轮到", "现在", "可以", "该你", "麻烦", "试着", "你来", "你要", "让我们"];
const CHINESE_REFUSALS: [&str; 6] = ["不要", "不用", "不必", "不需要", "无需", "别"];

/// Reports whether the answer asks its reader to roll dice.
pub(super) fn asks_to_roll(answer: &str) -> bool {
    let text = answer.to_lowercase();
    text.split(ENDS).any(|clause| asks_in_english(clause) || asks_in_chinese(clause))
}

/// Reports whether a word is a die such as `d20`, `2d6` or `d%`.
fn is_die(word: &str) -> bool {
    let Some((count, sides)) = word.split_once('d') else { return false };
    let sides = sides.split(['+', '-']).next().unwrap_or_default();
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    digits(count) && !sides.is_empty() && (digits(sides) || sides == "%")
}

fn is_english_dice(word: &&str) -> bool {
    ENGLISH_DICE.contains(word) || is_die(word)
}

fn asks_in_english(clause: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "'+-%".contains(c);
    let words: Vec<&str> = clause.split(|c| !letter(c)).filter(|word| !word.is_empty()).collect();
    let refuses = ["not", "no", "don't", "never", "needn't"];
    if words.iter().any(|word| refuses.contains(word)) {
        return false;
    }
    (0..words.len()).any(|n| is_asked_for(&words, n))
}

/// Reports whether the word at `n` is a roll that the reader must make.
fn is_asked_for(words: &[&str], n: usize) -> bool {
    let before = &words[..n];
    let next = words.get(n + 1).copied();
    let of_dice = next != Some("of") || words[n..].iter().any(is_english_dice);
    match words[n] {
        // "Make a Stealth roll", "I need an attack roll", "make a saving throw".
        "roll" | "check" | "throw" | "save" if is_made(before) => {
            let is_saving = words[n] != "throw" || before.last() == Some(&"saving");
            of_dice && is_saving
        }
        "roll" | "throw" if is_order(before) => {
            let of_game = matches!(next, Some("for" | "again")) || next.is_none();
            let is_bare = words[n] == "roll" && of_game;
            is_bare || words.iter().any(is_english_dice)
        }
        _ => false,
    }
}

/// Reports whether these words end in "make a ..." or "need an ...".
fn is_made(before: &[&str]) -> bool {
    let article = before.iter().rposition(|word| ["a", "an", "another", "your"].contains(word));
    let Some(article) = article.filter(|at| before.len() - at <= 4) else { return false };
    // "Give me a": one word may be between.
    let verb = article.checked_sub(1).filter(|&at| before[at] != "me");
    let Some(verb) = verb.or(article.checked_sub(2)) else { return false };
    match before[verb] {
        "make" | "give" => is_order(&before[..verb]),
        "need" => verb > 0 && ["i", "you", "we"].contains(&before[verb - 1]),
        _ => false,
    }
}

/// Reports whether a verb after these words is an order to the reader.
fn is_order(before: &[&str]) -> bool {
    let speaks_of_reader = || before.iter().any(|word| ["you", "your", "please"].contains(word));
    match before.last().copied() {
        None | Some("please" | "now" | "then" | "just" | "let's") => true,
        Some("and" | "to") => {
            speaks_of_reader() || before.iter().any(|word| ["need", "time"].contains(word))
        }
        Some("must" | "should" | "may" | "can") => speaks_of_reader(),
        Some("you") => {
            let asks = ["can", "could", "would", "will"];
            before.iter().rev().nth(1).is_some_and(|word| asks.contains(word))
        }
        _ => false,
    }
}

fn asks_in_chinese(clause: &str) -> bool {
    let clause = clause.trim();
    if CHINESE_REFUSALS.iter().any(|refusal| clause.contains(refusal)) {
        return false;
    }
    let asked = CHINESE_ASKS.iter().filter_map(|ask| clause.find(ask)).min();
    clause.char_indices().any(|(at, verb)| {
        let rest = &clause[at + verb.len_utf8()..];
        let begins = at == 0 || clause[..at].chars().all(|c| "再来先快进".contains(c));
        let is_asked = begins || clause.ends_with('吧') || asked.is_some_and(|ask| ask < at);
        // A roll that is already done is not a request.
        let is_done = rest.starts_with(['了', '出', '得', '到', '中', '过']);
        is_asked && !is_done && is_rolled(verb, rest)
    })
}

/// Reports whether the text after this verb is rolled.
fn is_rolled(verb: char, rest: &str) -> bool {
    let of_dice = CHINESE_DICE.iter().any(|dice| rest.contains(dice)) || has_die(rest);
    match verb {
        '投' | '掷' | '摇' | '扔' | '丢' => {
            let once = ["一次", "一下"].iter().find_map(|once| rest.strip_prefix(once));
            let is_bare = once.is_some_and(|rest| rest.is_empty() || rest.starts_with(['吧', ' ']));
            of_dice || is_bare || (verb == '掷' && rest.is_empty())
        }
        '行' | '做' | '过' | '作' => rest.contains("检定") || rest.contains("豁免"),
        _ => false,
    }
}

/// Reports whether the text contains a die among other characters.
fn has_die(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '%').any(is_die)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_roll_dice_is_detected() {
        for asks in [
            "Please roll a d20.",
            "The goblin leaps at you! Roll for initiative.",
            "Roll 2d6+3 for damage.",
            "You need to roll a Dexterity check.",
            "please roll",
            "Please make a roll.",
            "Make a Stealth roll, please.",
            "I need an attack roll from you.",
            "Make a Wisdom saving throw!",
            "Can you roll the dice?",
            "Pick up your dice and roll again.",
            "请投骰子。",
            "请掷一个 d20，再加上敏捷调整值。",
            "请投一次。",
            "请再掷一次骰子",
            "你需要进行一次察觉检定。",
            "进行一次检定！",
            "投个骰子吧。",
            "轮到你掷骰了。",
            "请做一个敏捷豁免。",
            "请投掷2d6。",
        ] {
            assert!(asks_to_roll(asks), "{asks}");
        }
    }

    #[test]
    fn similar_sentences_are_no_request() {
        for asks_not in [
            "Please surrender.",
            "Please vote.",
            "Please roll up your sleeves.",
            "Roll up your sleeves!",
            "Make a roll of bread.",
            "The baker can make a roll.",
            "The barrel begins to roll down the hill.",
            "Please roll the barrel aside.",
            "You roll a 17 and hit.",
            "The dice roll across the table.",
            "The goblin must roll a d20.",
            "There is no need to roll a d20.",
            "Please throw the torch.",
            "Check the door.",
            "请投票。",
            "请投降！",
            "请投靠国王。",
            "请投一次票。",
            "请投掷火把。",
            "你掷出了18点。",
            "请看你掷出的骰子。",
            "你进行了一次察觉检定。",
            "哥布林掷骰子攻击你。",
            "不需要投骰子。",
            "",
        ] {
            assert!(!asks_to_roll(asks_not), "{asks_not}");
        }
    }
}
