//! Credits of subtitles, which models output for noise and music because they were trained on them.
//! Not for captions of sounds.

use crate::language::{bare, is_han};

/// Complete credits, as [`bare`] returns them.
const CREDITS: [&str; 53] = [
    "谢谢观看",
    "感谢观看",
    "感谢收看",
    "谢谢收看",
    "谢谢大家观看",
    "感谢大家观看",
    "感谢您的观看",
    "请订阅我的频道",
    "최종자막제공",
    "시청해주셔서감사합니다",
    "graciasporverelvideo",
    "suscribetealcanal",
    "продолжениеследует",
    "感谢您的收看",
    "谢谢您的收看",
    "谢谢您的观看",
    "谢谢大家收看",
    "感谢大家收看",
    "请点赞订阅",
    "点赞订阅",
    "记得点赞订阅",
    "欢迎订阅我的频道",
    "下期再见",
    "我们下期再见",
    "我们下期节目再见",
    "チャンネル登録をお願いします",
    "チャンネル登録をお願いいたします",
    "チャンネル登録よろしくお願いします",
    "チャンネル登録よろしくお願いいたします",
    "구독과좋아요부탁드립니다",
    "구독좋아요부탁드립니다",
    "vielendankfürszuschauen",
    "dankefürszuschauen",
    "mercidavoirregardécettevidéo",
    "mercidavoirregardélavidéo",
    "graciasporverelvídeo",
    "graciasporver",
    "suscríbetealcanal",
    "suscríbete",
    "obrigadoporassistir",
    "obrigadaporassistir",
    "inscrevasenocanal",
    "grazieperlavisione",
    "grazieperaverguardatoilvideo",
    "спасибозапросмотр",
    "подписывайтесьнаканал",
    "подписывайтесьнамойканал",
    "altyazımk",
    "dziękujęzauwagę",
    "dziękujęzaoglądanie",
    "bedanktvoorhetkijken",
    "ترجمةنانسيقنقر",
    "اشتركوافيالقناة",
];
/// Starts of credits, followed by a name.
const CREDITS_OF: [&str; 31] = [
    "字幕by",
    "字幕志愿者",
    "中文字幕志愿者",
    "请不吝点赞",
    "明镜与点点",
    "优优独播剧场",
    "subtitlesby",
    "subtitledby",
    "subtitlescreatedby",
    "captionsby",
    "captionedby",
    "transcribedby",
    "transcriptionby",
    "untertitelderamara",
    "untertitelungdes",
    "untertitelimauftrag",
    "sottotitolicreati",
    "субтитрысделал",
    "редакторсубтитров",
    "字幕志願者",
    "中文字幕志願者",
    "한글자막by",
    "자막by",
    "transcriptbyrevcom",
    "mingpaocanada",
    "soustitragesociété",
    "soustitragest501",
    "sottotitolierevisione",
    "субтитрысоздавал",
    "napisystworzone",
    "hãysubscribechokênh",
];
/// Parts that occur only in credits.
const CREDITS_WITH: [&str; 5] = [
    "amaraorg",
    "wwwmoojiorg",
    "soustitreurcom",
    "視聴ありがとうございま",
    "zlediğiniziçinteşekkür",
];
/// English phrases of appeals to viewers, each of which makes a text an appeal, and phrases that
/// may accompany them.
const APPEALS: [&str; 12] = [
    "thanksforwatching",
    "thankyouforwatching",
    "thankyousomuchforwatching",
    "thankyouverymuchforwatching",
    "subscribetomychannel",
    "subscribetothechannel",
    "subscribetoourchannel",
    "likeandsubscribe",
    "likecommentandsubscribe",
    "pleasesubscribe",
    "seeyouinthenextvideo",
    "seeyouinthenextone",
];
const BESIDE_APPEALS: [&str; 15] = [
    "please",
    "and",
    "dontforgetto",
    "ill",
    "subscribe",
    "like",
    "share",
    "comment",
    "seeyounexttime",
    "thisvideo",
    "thevideo",
    "myvideo",
    "everyone",
    "guys",
    "bye",
];
/// Broadcasters whose subtitles end with their name and a year, and those whose news start with it.
const BROADCASTERS: [&str; 7] = ["swr", "wdr", "zdf", "ndr", "mdr", "br", "funk"];
const NEWS: [&str; 4] = ["mbc뉴스", "kbs뉴스", "sbs뉴스", "ytn뉴스"];
/// Roles before a name: followed by a space, and followed by a colon or a dash.
const ROLES: [&str; 4] = ["词曲", "作词", "作曲", "编曲"];
const SUBTITLE_ROLES: [&str; 7] =
    ["字幕", "中文字幕", "字幕制作", "字幕提供", "字幕提供者", "字幕翻译", "字幕校对"];
/// Characters of questions, which occur in no name.
const ASKING: [char; 7] = ['是', '谁', '什', '么', '哪', '吗', '怎'];
/// Maximum length of a credit, in characters.
const LONGEST_CREDIT: usize = 100;

/// Removes credits: whole sentences, and credits after spoken words and a comma.
pub(super) fn without_credits(text: &str) -> String {
    // Some credits are two sentences: `Don't forget to like! And subscribe!`.
    let whole = bare(text);
    if CREDITS.contains(&whole.as_str()) || is_appeal(&whole) {
        return String::new();
    }
    let kept: String = sentences(text).into_iter().map(without_credit).collect();
    kept.trim().to_owned()
}

/// Returns the words of a sentence before a credit.
fn without_credit(sentence: &str) -> &str {
    if is_credit(sentence) {
        return "";
    }
    let has_source = tells_source(sentence);
    let tail = sentence.char_indices().rev().nth(LONGEST_CREDIT).map_or(0, |(at, _)| at);
    for (at, c) in sentence[tail..].char_indices() {
        let before = &sentence[..tail + at];
        let behind = &sentence[tail + at + c.len_utf8()..];
        let begins = match c {
            ',' | '，' | '、' | ';' | '；' => is_credit(behind) || tells_source(behind),
            // Without a comma, spoken words may look like a credit that names no source.
            c if has_source && c.is_whitespace() => tells_source(behind) && is_credit(behind),
            _ => false,
        };
        if begins && !bare(before).is_empty() {
            return before.trim_end();
        }
    }
    if has_source { "" } else { sentence }
}

/// Returns true if a sentence contains a part that occurs only in credits.
fn tells_source(sentence: &str) -> bool {
    let bare = bare(sentence);
    CREDITS_WITH.iter().any(|part| bare.contains(part))
}

/// Returns true if a sentence is a credit by its start or as a whole.
fn is_credit(sentence: &str) -> bool {
    let bare = bare(sentence);
    let bare = bare.as_str();
    let subtitles =
        ["字幕由", "本字幕由", "中文字幕由"].iter().any(|begin| bare.starts_with(begin));
    let provided = bare.ends_with("提供") || bare.ends_with("制作");
    let has_name = sentence.split_whitespace().next_back();
    let has_name = has_name.is_some_and(|word| word.starts_with(char::is_uppercase));
    CREDITS.contains(&bare)
        || CREDITS_OF.iter().any(|beginning| bare.starts_with(beginning))
        || subtitles && provided
        || bare.starts_with("untertitelvon") && has_name
        || NEWS.iter().any(|news| bare.starts_with(news)) && bare.ends_with("입니다")
        || is_appeal(bare)
        || is_copyright(bare)
        || is_role(sentence)
}

/// Returns true if this consists of the phrases of an appeal to viewers.
fn is_appeal(bare: &str) -> bool {
    if bare.len() > LONGEST_CREDIT {
        return false;
    }
    // For each byte: whether the text up to it consists of these phrases, without an appeal and
    // with one.
    let mut made_of = vec![(false, false); bare.len() + 1];
    made_of[0].0 = true;
    for at in 0..bare.len() {
        let (beside, appeals) = made_of[at];
        if !(beside || appeals) {
            continue;
        }
        for phrase in APPEALS.iter().filter(|phrase| bare[at..].starts_with(**phrase)) {
            made_of[at + phrase.len()].1 = true;
        }
        for phrase in BESIDE_APPEALS.iter().filter(|phrase| bare[at..].starts_with(**phrase)) {
            let to = &mut made_of[at + phrase.len()];
            *to = (to.0 || beside, to.1 || appeals);
        }
    }
    made_of[bare.len()].1
}

/// Returns true if this is the name of a broadcaster and a year.
fn is_copyright(bare: &str) -> bool {
    let name = bare.strip_prefix("copyright").unwrap_or(bare);
    let is_year = |year: &str| {
        year.len() == 4 && year.starts_with("20") && year.bytes().all(|byte| byte.is_ascii_digit())
    };
    BROADCASTERS.iter().filter_map(|broadcaster| name.strip_prefix(broadcaster)).any(is_year)
}

/// Returns true if this is one or more roles and a name: `作词 作曲 李宗盛`, `字幕制作：贝尔`.
fn is_role(sentence: &str) -> bool {
    let ends = |c: char| c.is_whitespace() || matches!(c, ':' | '：' | '-' | '–' | '—');
    let sentence = sentence.trim_end_matches(|c: char| !c.is_alphanumeric());
    let mut parts: Vec<&str> = sentence.split(ends).filter(|part| !part.is_empty()).collect();
    let Some(name) = parts.pop() else { return false };
    let is_parted = sentence.contains([':', '：', '—']);
    let is_role = |part: &&str| {
        let role = bare(part);
        ROLES.contains(&role.as_str()) || is_parted && SUBTITLE_ROLES.contains(&role.as_str())
    };
    let letters = name.chars().count();
    let is_name = name.chars().all(is_han) && (1..=4).contains(&letters)
        || name.starts_with(char::is_uppercase) && letters <= 20;
    !parts.is_empty() && parts.iter().all(is_role) && is_name && !name.contains(ASKING)
}

/// Splits a text into sentences, each with its final punctuation. A full stop within a word ends no
/// sentence.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut begin = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, c)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        let ends = matches!(c, '。' | '！' | '？' | '!' | '?' | '\n')
            || c == '.' && next.is_none_or(char::is_whitespace);
        if ends {
            let end = at + c.len_utf8();
            sentences.push(&text[begin..end]);
            begin = end;
        }
    }
    sentences.push(&text[begin..]);
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compared_words_are_bare() {
        let all = CREDITS.iter().chain(&CREDITS_OF).chain(&CREDITS_WITH).chain(&APPEALS);
        let all = all.chain(&BESIDE_APPEALS).chain(&NEWS).chain(&ROLES).chain(&SUBTITLE_ROLES);
        for text in all {
            assert_eq!(bare(text), *text);
        }
    }

    #[test]
    fn a_credit_after_words_is_cut_off() {
        for (heard, said) in [
            ("开灯，谢谢观看。", "开灯"),
            ("Stop, please like and subscribe!", "Stop"),
            ("开灯，关门。", "开灯，关门。"),
            ("字幕由某某提供", ""),
            ("作曲 李宗盛", ""),
            ("作曲 是谁", "作曲 是谁"),
            ("See you next time.", "See you next time."),
        ] {
            assert_eq!(without_credits(heard), said, "{heard}");
        }
    }
}
