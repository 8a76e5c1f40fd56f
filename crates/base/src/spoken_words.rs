//! Cleans the text of a recogniser: removes everything that was not spoken. `captions` removes
//! names of sounds, `credits` sentences of subtitles, and `repeats` the endless repeats of a
//! decoder. Not for the script that the text is written in.

// One place repairs the transcripts of every recogniser. Decision 0081.
mod captions;
mod credits;
mod repeats;

use captions::{is_caption, without_sounds};
use credits::without_credits;
use repeats::collapse_repeats;

use crate::language::bare;

/// Maximum length of a tag or annotation, in characters; longer text is speech.
const LONGEST_MARK_CHARS: usize = 60;

/// Tags in angle brackets without bars, by which recognisers mark non-words.
const TAGS: [&str; 20] = [
    "unk",
    "s",
    "sil",
    "silence",
    "noise",
    "spoken_noise",
    "nonspeech",
    "blank",
    "blk",
    "eps",
    "pad",
    "sos",
    "eos",
    "sos/eos",
    "non",
    "music",
    "laugh",
    "laughter",
    "breath",
    "cough",
];

/// Signs that SenseVoice writes for emotions and sounds, and that subtitles use for music.
const SIGNS: [char; 19] = [
    '🎼', '👏', '😀', '😭', '🤧', '😊', '😔', '😡', '😰', '🤢', '😮', '❓', '♪', '♫', '♬', '♩',
    '🎵', '🎶', '🎤',
];

/// Returns what a person said: without tags of the model, annotations of sounds, credits and
/// endless repeats. Empty if nothing was said.
pub fn spoken_words(text: &str) -> String {
    let mut words = without_tags(text);
    // The text around a removed tag may form another one.
    loop {
        let fewer = without_tags(&words);
        if fewer == words {
            break;
        }
        words = fewer;
    }
    if is_caption(&words) {
        return String::new();
    }
    words.retain(|c| !SIGNS.contains(&c));
    let said = collapse_repeats(&without_credits(&without_sounds(&words)));
    if bare(&said).is_empty() { String::new() } else { said }
}

/// Removes `<|zh|>`, `< | HAPPY | >`, `<unk>`, and text from `<|nospeech|>` to the next language
/// tag.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_speech = true;
    while let Some(open) = rest.find('<') {
        if is_speech {
            out.push_str(&rest[..open]);
        }
        rest = &rest[open..];
        let Some((name, length)) = tag(rest) else {
            if is_speech {
                out.push('<');
            }
            rest = &rest[1..];
            continue;
        };
        rest = &rest[length..];
        match name.as_str() {
            "nospeech" => is_speech = false,
            name if (2..=3).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_lowercase()) =>
            {
                is_speech = true
            }
            _ => {}
        }
        let between_words = out.ends_with(|c: char| c.is_ascii_alphanumeric())
            && rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        if between_words {
            out.push(' ');
        }
    }
    if is_speech {
        out.push_str(rest);
    }
    out
}

/// Returns the name and the length in bytes of the tag at the start of the text; `None` if there is
/// none.
fn tag(text: &str) -> Option<(String, usize)> {
    let (end, _) = text.char_indices().take(LONGEST_MARK_CHARS).find(|(_, c)| *c == '>')?;
    let inner = text[1..end].trim();
    let length = end + 1;
    if let Some(name) = inner.strip_prefix('|').and_then(|inner| inner.strip_suffix('|')) {
        let name: String = name.chars().filter(|c| !c.is_whitespace()).collect();
        let is_name =
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c));
        return is_name.then_some((name, length));
    }
    let name = inner.trim_matches('/').to_ascii_lowercase();
    TAGS.contains(&name.as_str()).then_some((name, length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unspoken_text_is_removed() {
        for (heard, said) in [
            ("<|zh|><|NEUTRAL|><|Speech|><|withitn|>今天天气怎么样？", "今天天气怎么样？"),
            ("< | zh | > < | EMO _ UNKNOWN | > < | Speech | > 开灯", "开灯"),
            (
                "<|en|><|HAPPY|><|Speech|><|woitn|>turn on<|en|><|HAPPY|>the light",
                "turn on the light",
            ),
            ("<|nospeech|><|EMO_UNKNOWN|><|Event_UNK|><|woitn|>The.", ""),
            ("<|nospeech|><|Event_UNK|>the <|zh|><|Speech|>开灯", "开灯"),
            (
                "<|startoftranscript|><|en|><|transcribe|><|0.00|> Hello.<|2.50|><|endoftext|>",
                "Hello.",
            ),
            ("<|<|zh|>zh|>开灯", "开灯"),
            ("<unk>开<UNK>灯</s>", "开灯"),
            ("🎼你好😊", "你好"),
            ("[BLANK_AUDIO]", ""),
            ("[ Silence ]", ""),
            ("(upbeat music)", ""),
            ("（音乐）", ""),
            ("【掌声】 好的", "好的"),
            ("*sighs*", ""),
            ("*sighs* turn it off", "turn it off"),
            ("[Música]", ""),
            ("[speaking in foreign language]", ""),
            ("[00:00:00.000 --> 00:00:02.000] Hello.", "Hello."),
            ("[_BEG_] Hello.[_TT_100]", "Hello."),
            ("♪ ♪", ""),
            ("(laughs) (coughs)", ""),
            ("(upbeat music) Hello.", "Hello."),
            ("Thanks for watching!", ""),
            ("Thank you for watching.", ""),
            ("字幕由 Amara.org 社区提供", ""),
            ("开灯。字幕由Amara.org社区提供", "开灯。"),
            ("Subtitles by the Amara.org community", ""),
            ("Untertitel der Amara.org-Community", ""),
            ("中文字幕志愿者 李宗盛", ""),
            ("请不吝点赞 订阅 转发 打赏支持明镜与点点栏目", ""),
            ("[Musik] Mach das Licht an", "Mach das Licht an"),
            ("[音楽] 電気をつけて", "電気をつけて"),
            ("开灯（笑い）", "开灯"),
            ("［拍手］开灯", "开灯"),
            ("开灯，字幕由Amara.org社区提供", "开灯"),
            ("开灯 字幕由 Amara.org 社区提供", "开灯"),
            ("Turn on the light. Thanks for watching.", "Turn on the light."),
            ("Turn on the light, thanks for watching!", "Turn on the light"),
            (" . ", ""),
            ("", ""),
        ] {
            assert_eq!(spoken_words(heard), said, "{heard}");
        }
    }

    #[test]
    fn subtitles_are_removed_in_many_languages() {
        for heard in [
            "［音楽］",
            "「音楽」",
            "〈音乐〉",
            "《音乐》",
            "{music}",
            "<music>",
            "<NON/>",
            "-music-",
            "_music_",
            "~music~",
            "# Music #",
            "♪音楽♪",
            "(Music",
            "[MUSIC",
            "Music]",
            "♪ Musique ♪",
            "【♪】",
            "謝謝觀看",
            "謝謝大家觀看",
            "感謝收看",
            "感谢您的收看",
            "请点赞订阅",
            "字幕製作：貝爾",
            "词曲 李宗盛",
            "作词 作曲 李宗盛",
            "作曲 李宗盛",
            "編曲 李宗盛",
            "中文字幕——YK",
            "本字幕由某某提供",
            "由 Amara.org 社群提供的字幕",
            "MING PAO CANADA // MING PAO TORONTO",
            "MBC 뉴스 이덕영입니다.",
            "한글자막 by 한효정",
            "구독과 좋아요 부탁드립니다",
            "チャンネル登録をお願いいたします",
            "最後までご視聴ありがとうございました",
            "Thanks for watching, and I'll see you next time.",
            "Thank you very much for watching.",
            "Thank you for watching this video.",
            "Thanks for watching and don't forget to subscribe!",
            "Please like and subscribe!",
            "Please like, comment and subscribe.",
            "Don't forget to like! And subscribe!",
            "Subscribe to my channel.",
            "I'll see you in the next video.",
            "Transcript by Rev.com Page 1",
            "Copyright WDR 2021",
            "SWR 2021",
            "Untertitel von Stephanie Geiges",
            "Untertitel im Auftrag des ZDF für funk, 2017",
            "Vielen Dank fürs Zuschauen!",
            "Sous-titrage Société Radio-Canada",
            "Sous-titrage ST' 501",
            "❤️ par SousTitreur.com",
            "Merci d'avoir regardé cette vidéo!",
            "Gracias por ver el vídeo.",
            "¡Suscríbete al canal!",
            "Subtítulos por la comunidad de Amara.org",
            "Obrigado por assistir!",
            "Sottotitoli e revisione a cura di QTSS",
            "Субтитры создавал DimaTorzok",
            "Редактор субтитров А.Семкин Корректор А.Егорова",
            "Спасибо за просмотр!",
            "Продолжение следует...",
            "İzlediğiniz için teşekkür ederim.",
            "Altyazı M.K.",
            "Dziękuję za uwagę.",
            "ترجمة نانسي قنقر",
            "اشتركوا في القناة",
        ] {
            assert_eq!(spoken_words(heard), "", "{heard}");
        }
    }

    #[test]
    fn spoken_text_stays() {
        for said in [
            "Thank you.",
            "谢谢你。",
            "打开(客厅)的灯",
            "好好好，开灯",
            "3 < 5 对吗",
            "a < b and b > c",
            "x <| y",
            "play some music",
            "播放音乐。",
            "2*3*4等于多少",
            "what is 2 * 3 * 4",
            "Subtitles, please.",
            "中文字幕怎么打开",
            "3.5 plus 2.5.",
            "It costs 5 dollars (about 4 euros).",
            "[unclosed",
            "music",
            "音乐",
            "关掉音乐",
            "打开「音乐」",
            "《开灯》是谁唱的",
            "「开灯」",
            "{x} 是什么",
            "订阅",
            "Thanks for watching my dog.",
            "谢谢观看我的表演",
            "作曲是什么意思",
            "作词的人是谁",
            "作曲 是谁",
            "字幕 打开",
            "Untertitel von Netflix ausschalten",
            "Turn on subtitles by Netflix.",
            "I said thanks for watching",
            "密码是一一一一一一",
            "一二三四一二三四",
            "电话是 8 8 8 8 8 8 8 8",
            "1 1 1 1 1 1",
            "one two one two one two one two",
            "10 10 10 10 10 10",
            "Subscribe.",
            "SWR 3",
            "Sous-titrage activé",
            "开灯，谢谢",
            "MBC 뉴스 틀어줘",
        ] {
            assert_eq!(spoken_words(said), said);
        }
    }

    /// Tags, annotations, credits, brackets without their other half, and words.
    fn scraps() -> impl Strategy<Value = String> {
        let all = [
            "<|zh|>",
            "<|nospeech|>",
            "<|",
            "|>",
            "<",
            ">",
            "< | en | >",
            "<unk>",
            "[",
            "]",
            "(music)",
            "(",
            ")",
            "*",
            "*sighs*",
            "【",
            "】",
            "♪",
            "😊",
            "谢谢观看",
            "。",
            ". ",
            "开灯",
            "hello",
            " ",
            "\n",
            "字幕由",
            "提供",
        ];
        prop::collection::vec(prop::sample::select(all.to_vec()), 0..24)
            .prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn cleaning_never_lengthens_a_text(text in prop_oneof![any::<String>(), scraps()]) {
            let said = spoken_words(&text);
            prop_assert!(said.len() <= text.len(), "{said:?}");
            prop_assert!(!said.contains("<|zh|>") && !said.contains('♪'), "{said:?}");
        }

        #[test]
        fn a_tag_more_or_less_changes_no_word(words in "[a-z]{1,8}( [a-z]{1,8}){0,4}", at in 0_usize..5) {
            let mut parts: Vec<&str> = words.split(' ').collect();
            parts.insert(at.min(parts.len()), "<|NEUTRAL|>");
            prop_assert_eq!(bare(&spoken_words(&parts.join(" "))), bare(&spoken_words(&words)));
        }
    }
}
