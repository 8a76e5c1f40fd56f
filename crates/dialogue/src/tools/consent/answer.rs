//! Grammar of an affirmative answer: which words agree to a call, and which may accompany them. Not
//! for the words that agree on their own: these are settings.

use hearken_base::language::{DEVICE_NAMES, bare, is_han};

/// Maximum length of an affirmative answer, in characters.
const MAX_ANSWER_CHARS: usize = 80;
/// Signs of a question, in any script.
const QUESTION_MARKS: [char; 15] =
    ['?', '？', '¿', '؟', '՞', '\u{37e}', '⸮', '‽', '⁇', '⁈', '⁉', '﹖', '︖', '፧', '❓'];

/// Neutral words that may accompany an affirmative one.
const BESIDE: [&str; 41] = [
    "please",
    "thanks",
    "thank you",
    "then",
    "now",
    "right now",
    "right away",
    "i do",
    "with me",
    "for me",
    "的",
    "啊",
    "呀",
    "呢",
    "嗯",
    "哦",
    "请",
    "谢谢",
    "那",
    "那就",
    "麻烦你",
    "麻烦你了",
    "麻烦了",
    "辛苦了",
    "bitte",
    "danke",
    "gerne",
    "por favor",
    "gracias",
    "s'il te plaît",
    "s'il vous plaît",
    "merci",
    "お願いします",
    "ありがとう",
    "감사합니다",
    "пожалуйста",
    "спасибо",
    "per favore",
    "grazie",
    "obrigado",
    "obrigada",
];
/// Words after which 吧 agrees: after `对` and `可以` it asks.
const SETTLED: [&str; 2] = ["好", "行"];
/// Words before 是 with which it agrees: `好是好` and `那是` start something else.
const BEFORE_BEING: [&str; 4] = ["是", "嗯", "哦", "啊"];
/// Words that turn a device's name into a wake word.
const CALLING: [&str; 2] = ["ok", "okay"];
/// Phrases made of affirmative words that mean something else.
const OTHERWISE: [&str; 1] = ["行行好"];

/// Verbs of acts, with their spoken forms in Chinese. Verbs that also cancel, such as `cancel`,
/// agree to nothing.
const VERBS: [(&str, &[&str]); 29] = [
    ("turn on", &["打开", "开启", "开"]),
    ("turn off", &["关闭", "关掉", "关上", "关"]),
    ("shut down", &["关闭", "关机", "关掉"]),
    ("take a photo", &["拍照", "拍"]),
    ("open", &["打开", "开启", "开"]),
    ("close", &["关上", "关闭", "关"]),
    ("unlock", &["解锁", "开锁", "打开", "开"]),
    ("lock", &["锁上", "上锁", "锁"]),
    ("start", &["启动", "开始"]),
    ("change", &["更改", "改"]),
    ("delete", &["删除", "删掉", "删"]),
    ("remove", &["移除", "删除", "删掉"]),
    ("erase", &["清除", "清空"]),
    ("clear", &["清除", "清空"]),
    ("move", &["移动"]),
    ("create", &["创建"]),
    ("add", &["添加", "加"]),
    ("write", &["写入", "写"]),
    ("send", &["发送", "发"]),
    ("reply to", &["回复"]),
    ("publish", &["发布", "发"]),
    ("buy", &["购买", "买"]),
    ("pay", &["支付", "付款", "付"]),
    ("restart", &["重启"]),
    ("reset", &["重置"]),
    ("install", &["安装", "装"]),
    ("run", &["运行"]),
    ("play", &["播放", "放"]),
    ("record", &["录制", "录"]),
];
/// Words that stand for the object, or precede it.
const OBJECTS: [&str; 6] = ["it", "that", "this", "them", "the", "a"];
/// Words that may follow a Chinese verb.
const BEHIND_VERBS: [&str; 6] = ["", "吧", "它", "它吧", "一下", "一下吧"];

/// Word of an answer: a Latin word, or a single Han character.
struct Token {
    word: String,
    /// Set if punctuation precedes it.
    opens: bool,
}

/// Reports whether the answer is affirmative and nothing else, made of `words` that agree, or of
/// the effect of the call: `acts`, in any language. Anything else, such as a `not`, a condition or
/// a doubt, makes it no confirmation.
pub(super) fn agrees(answer: &str, words: &[String], acts: &[String]) -> bool {
    if answer.chars().count() > MAX_ANSWER_CHARS || answer.contains(QUESTION_MARKS) {
        return false;
    }
    let said = tokens(answer);
    let lists = |all: &[&str]| all.iter().map(|words| list(words)).collect::<Vec<_>>();
    let yes: Vec<Vec<String>> =
        words.iter().map(|words| list(words)).filter(|words| !words.is_empty()).collect();
    if yes.is_empty() || lists(&OTHERWISE).iter().any(|other| fits(&said, other)) {
        return false;
    }
    let beside = lists(&BESIDE);
    let names = lists(&DEVICE_NAMES);
    // For each number of tokens: whether they consist of these words without an affirmative one,
    // and with one.
    let mut made_of = vec![(false, false); said.len() + 1];
    made_of[0].0 = true;
    for from in 0..said.len() {
        let (plain, agreed) = made_of[from];
        if !(plain || agreed) {
            continue;
        }
        let rest = &said[from..];
        let before = from.checked_sub(1).map(|at| said[at].word.as_str());
        let is_after = |words: &[&str]| before.is_some_and(|before| words.contains(&before));
        let named = names.iter().filter(|_| !is_after(&CALLING));
        let mut neutral: Vec<usize> =
            beside.iter().chain(named).filter(|words| fits(rest, words)).map(Vec::len).collect();
        if rest[0].word == "吧" && is_after(&SETTLED) {
            neutral.push(1);
        }
        for len in neutral {
            let to = &mut made_of[from + len];
            *to = (to.0 || plain, to.1 || agreed);
        }
        let is_affirmed = rest.get(1).is_some_and(|next| next.word == "的");
        let is_yes =
            rest[0].word != "是" || rest[0].opens || is_affirmed || is_after(&BEFORE_BEING);
        let agreeing = yes.iter().filter(|words| is_yes && fits(rest, words)).map(Vec::len);
        for len in agreeing.chain(act_lengths(rest, acts)) {
            made_of[from + len].1 = true;
        }
    }
    made_of[said.len()].1
}

/// Returns the numbers of leading tokens that name the effect of the call.
fn act_lengths(said: &[Token], acts: &[String]) -> Vec<usize> {
    let mut lengths = Vec::new();
    let acts: Vec<Vec<String>> = acts.iter().map(|act| list(act)).collect();
    let tells = |act: &Vec<String>, verb: &str| act.starts_with(&list(verb));
    let verbs = VERBS.iter().filter(|(verb, _)| acts.iter().any(|act| tells(act, verb)));
    for (verb, chinese) in verbs {
        for act in acts.iter().filter(|act| tells(act, verb)) {
            lengths.extend(act_length(said, &list(verb)));
            lengths.extend(act_length(said, act));
        }
        let whole = acts.iter().filter(|act| act.concat().starts_with(chinese[0]));
        let forms = chinese.iter().map(|form| list(form)).chain(whole.cloned());
        for form in forms {
            for behind in BEHIND_VERBS {
                let form: Vec<String> = form.iter().cloned().chain(list(behind)).collect();
                lengths.extend(fits(said, &form).then_some(form.len()));
            }
        }
    }
    lengths
}

/// Returns the number of tokens that name this act: `open it` and `open the door` name `open`, and
/// `turn it off` names `turn off`.
fn act_length(said: &[Token], act: &[String]) -> Option<usize> {
    let is_object = |word: &str| OBJECTS.contains(&word);
    let mut left = act.iter().filter(|word| !is_object(word)).peekable();
    let mut length = 0;
    for token in said {
        match left.peek() {
            Some(word) if **word == token.word => {
                left.next();
            }
            _ if length > 0 && is_object(&token.word) => {}
            _ => break,
        }
        length += 1;
    }
    left.peek().is_none().then_some(length).filter(|length| *length > 0)
}

/// Reports whether the answer starts with these words.
fn fits(said: &[Token], words: &[String]) -> bool {
    said.len() >= words.len() && said.iter().zip(words).all(|(token, word)| token.word == *word)
}

/// Returns the words of a phrase.
fn list(phrase: &str) -> Vec<String> {
    tokens(phrase).into_iter().map(|token| token.word).collect()
}

/// Splits text into Latin words and single Han characters, in lower case and simplified script,
/// without punctuation.
fn tokens(words: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut open = false;
    let mut opens = true;
    for c in words.chars().filter(|c| !matches!(c, '\'' | '’' | '.')) {
        if !c.is_alphanumeric() {
            open = false;
            opens |= !c.is_whitespace();
            continue;
        }
        let word = bare(c.encode_utf8(&mut [0; 4]));
        match tokens.last_mut().filter(|_| open && !is_han(c)) {
            Some(token) => token.word.push_str(&word),
            None => tokens.push(Token { word, opens }),
        }
        (open, opens) = (!is_han(c), false);
    }
    tokens
}
