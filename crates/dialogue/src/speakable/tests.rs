//! Tests of the plain text of answers, and of its independence from chunks.

use proptest::prelude::*;

use super::symbols::{Treatment, treatment};
use super::*;

fn check(cases: &[(&str, &str)]) {
    for (written, plain) in cases {
        assert_eq!(Cleaner::whole(written), *plain, "{written}");
        let mut cleaner = Cleaner::default();
        let mut pieces: String =
            written.chars().map(|c| cleaner.push(c.encode_utf8(&mut [0; 4]))).collect();
        pieces.push_str(&cleaner.finish());
        assert_eq!(pieces, *plain, "{written}, character by character");
    }
}

#[test]
fn markdown_becomes_plain_words() {
    check(&[
        ("**Bold** and *soft* and __under__ `code`.", "Bold and soft and under code."),
        ("## 天气预报", "天气预报"),
        ("- 第一项", "第一项"),
        ("> quoted", "quoted"),
        ("1. Open the door.", "1, Open the door."),
        ("See [the docs](https://example.com/a_b).", "See the docs."),
        ("![a cat](cat.png) sleeps", "a cat sleeps"),
        ("| city | temp |", "city, temp"),
        ("|---|:--:|", ""),
        ("---", ""),
        ("~~old~~ new<br>line", "old new\nline"),
        ("snake_case and 3 * 4 stay", "snake_case and 3 * 4 stay"),
        ("https://example.com/a_b?x=1 stays", "https://example.com/a_b?x=1 stays"),
    ]);
}

#[test]
fn emoji_and_ornaments_are_removed_with_all_their_parts() {
    check(&[
        ("好的😊！", "好的！"),
        ("好的 😊 ！", "好的！"),
        ("family 👨‍👩‍👧‍👦 here", "family here"),
        ("flag 🇨🇳 and 👍🏽 done", "flag and done"),
        ("England 🏴󠁧󠁢󠁥󠁮󠁧󠁿!", "England!"),
        ("1️⃣ first", "1 first"),
        ("1️⃣2️⃣ and #️⃣ *️⃣", "1 2 and # *"),
        ("5😊3", "5 3"),
        ("❤️爱你☀️", "爱你"),
        ("★★ great ♪", "great"),
        ("☆◆◇●■□▲△▼▽※重点", "重点"),
        ("北京→上海", "北京 上海"),
        ("第①步，②关门", "第 1 步， 2 关门"),
        ("🎉🎉", ""),
        ("ℹ️ 提示：🅰型", "提示：型"),
        ("第一行🎉\n🎉\n第二行", "第一行\n第二行"),
    ]);
}

#[test]
fn digits_units_and_addresses_stay() {
    for text in [
        "It is 25°C, 25℃, $5, 50% & 3+4=7.",
        "今天是2025-02-21，10:30，气温1.5℃，风速20km/h，票价￥5。",
        "(1+2)*3，3*(4+5)，50%*2，x*(y)，长*(宽+高)",
        "3 * 4 = 12，5*3=15，2*x，a*b，2**10，2 ** 3，5 *3，长*宽",
        "1,000,000人，3~5天，好的~",
        "user_name和__x_y，~/notes.txt，*.rs",
        "访问https://example.com/~me/a_b_c*d?x=1&amp=2#top_。",
        "https://en.wikipedia.org/wiki/A_(b)_c，www.x_y.com/_a_/",
        "Vec<String>，a < b && c > d，x<y，AT&T，<文件名>",
        "$5和$10，a$b",
        "[笑] a[i][j] a[1]是 {x}",
        "C# #话题 C:\\dir ^_^",
        "-5°C",
        "#5",
        "2025. Good",
        ">= 5",
        "Use .env or !x",
    ] {
        let text = text.replace("__x_y", "x_y").replace(" ^_^", "");
        check(&[(&text, &text)]);
    }
}

#[test]
fn formulas_become_plain_signs() {
    check(&[
        ("答案是\\(\\frac{1}{2}\\)。", "答案是1/2。"),
        ("答案是$\\frac{1}{2}$。", "答案是1/2。"),
        ("$$x^2 + y^2$$ is \\[z^2\\]", "x² + y² is z²"),
        ("\\(open", "(open"),
        ("角度是$90^\\circ$。", "角度是90°。"),
        ("$$\n\\int_0^1 x dx\n$$\n完。", "∫0^1 x dx\n完。"),
        ("\\[\nz^2\n\\]", "z²"),
        ("答案是\\boxed{42}。", "答案是42。"),
        ("\\begin{equation}a=b\\end{equation}完。", "a=b完。"),
        ("\\textbf{重要}的事。", "重要的事。"),
        ("\\frac{1}{2}是一半", "1/2是一半"),
        ("It costs $5 or $10 today.", "It costs $5 or $10 today."),
        ("C:\\text\\end and \\frac{1}", "C:\\text\\end and \\frac{1}"),
    ]);
}

#[test]
fn emoticons_and_stage_directions_are_not_spoken() {
    check(&[
        ("今天好开心(≧▽≦)！", "今天好开心！"),
        ("好的(๑•̀ㅂ•́)و✧", "好的"),
        ("（微笑着）你好呀，很高兴见到你。", "你好呀，很高兴见到你。"),
        ("*laughs* Hello there, my friend.", "Hello there, my friend."),
        ("Sure! (sighs) It is late.", "Sure! It is late."),
        ("北京（中国的首都）今天晴。", "北京（中国的首都）今天晴。"),
        ("（注意）明天下雨。", "（注意）明天下雨。"),
        ("*Note* this: f(x) = (a+b).", "Note this: f(x) = (a+b)."),
        ("他（笑着）走了。", "他（笑着）走了。"),
        ("【微笑】你好呀。", "你好呀。"),
        ("【注意】明天下雨。", "【注意】明天下雨。"),
        ("[laughs] Hello there.", "Hello there."),
        ("<laugh>Hello<#0.5#> there.<pause 1s>", "Hello there."),
        ("好的 :) 谢谢", "好的 谢谢"),
        ("Fine :-D", "Fine"),
        ("Note: (a), b :x ; c", "Note: (a), b :x ; c"),
        ("好的ʕ•ᴥ•ʔ", "好的"),
        ("Hello *world* there, f(x) and a[1]是", "Hello world there, f(x) and a[1]是"),
    ]);
}

#[test]
fn emphasis_needs_no_spaces_in_chinese() {
    check(&[
        ("这是**重点**内容", "这是重点内容"),
        ("这是*重点*内容", "这是重点内容"),
        ("这是__重点__内容", "这是重点内容"),
        ("这是_重点_内容", "这是重点内容"),
        ("这是***重点***内容~~旧~~新", "这是重点内容旧新"),
        ("共**5**个，共*5*个", "共5个，共5个"),
        ("**注意：** *bold **x** y* end", "注意： bold x y end"),
        ("**他说：“好。”**然后", "他说：“好。”然后"),
        ("变量user_name是_重点_。", "变量user_name是重点。"),
        ("**5**3", "53"),
        ("**长*宽=5*(3)**", "长*宽=5*(3)"),
        ("即*(重点)*的", "即(重点)的"),
        ("未闭合**重点", "未闭合重点"),
        ("*unclosed", "unclosed"),
        ("`unclosed *code*", "unclosed *code*"),
    ]);
}

#[test]
fn lines_keep_their_order_and_lose_their_markers() {
    check(&[
        ("# A\n\n\n\nB\nC\n", "A\n\nB\nC"),
        ("##标题\n### 1. 小节 ###\n正文", "标题\n1、小节\n正文"),
        ("Title\n=====\n\n---\n\ntext", "Title\n\ntext"),
        ("- a\n  - b\n    * c\n+ d\n• e", "a\nb\nc\nd\ne"),
        ("1. 打开\n2) 关闭\n3.**保存**\n10. Go", "1、打开\n2、关闭\n3、保存\n10, Go"),
        ("- [ ] 买菜\n- [x] 做饭\n* [X] eat", "买菜\n做饭\neat"),
        ("> > 引用\n> - 一\n>\n> 二", "引用\n一\n\n二"),
        ("3.5 is a number\n1.5倍", "3.5 is a number\n1.5倍"),
        ("- - -\n* * *\n___\n-\n*", ""),
        ("---bold---", "---bold---"),
        ("a\\\nb  \r\nc", "a\nb\nc"),
    ]);
}

#[test]
fn tables_become_lines() {
    check(&[
        (
            "| 城市 | 温度 |\n|:---|---:|\n| 北京 | 25°C |\n| 上海 |  |\n",
            "城市, 温度\n北京, 25°C\n上海",
        ),
        ("a | b\n--- | ---\n`x|y` | c<br>d", "a, b\nx|y, c d"),
        ("| 好。 | a \\| b |", "好。 a | b"),
    ]);
}

#[test]
fn links_and_notes_are_reduced_to_their_words() {
    check(&[
        ("[百度](https://www.baidu.com \"t (x)\")。", "百度。"),
        ("[a](x(y)z)[b](<x y>)", "ab"),
        ("[![badge](a.png)](https://x.y)", "badge"),
        ("看[**这里**](u)和[那里][ref]。\n\n[ref]: https://x.y \"t\"", "看这里和那里。"),
        ("据说[^1]是的。\n\n[^1]: 来源", "据说是的。\n\n来源"),
        ("<https://a.b/c_d>，<me@x.org>", "https://a.b/c_d，me@x.org"),
        (
            "**https://a.b/c**，_https://a.b/c_ (https://a.b/c_)",
            "https://a.b/c，https://a.b/c (https://a.b/c_)",
        ),
        ("[open](https://a.b", "[open](https://a.b"),
        ("[注意]: 今天", "[注意]: 今天"),
        ("[a](some words here)", "[a](some words here)"),
        ("Wow![1] [x] y", "Wow! [x] y"),
        ("北京今天晴[1][2]。", "北京今天晴。"),
        ("It is sunny[1]. So it is [2, 3-5]!", "It is sunny. So it is!"),
        ("北京今天晴【1】【2】。", "北京今天晴。"),
        ("北京【4:0†source】今天晴[citation:1]。", "北京今天晴。"),
        ("北京今天晴^[1]^。2^10", "北京今天晴。2^10"),
        ("【1】打开盖子【2】按下", "【1】打开盖子【2】按下"),
        ("[source](https://a.b) and [ref 2](https://a.b)", "source and ref 2"),
        ("[1] is first, [0] and [1](https://a.b) stay", "[1] is first, [0] and 1 stay"),
    ]);
}

#[test]
fn html_is_removed_and_entities_are_decoded() {
    check(&[
        ("<b>a</b> &amp; b&nbsp;c &lt;d&gt; &#39;e&#x27; &copy", "a & b c <d> 'e' &copy"),
        ("<p>一</p><p style=\"x\">二</p><!-- no -->", "一\n二"),
        ("<think>\nhm\n</think>\n好", "hm\n好"),
        ("<a href='x'>link</a> <img src=x/>!", "link !"),
        ("a<b and c>d", "a<b and c>d"),
        ("你好<break time=\"500ms\"/>世界<prosody rate=\"slow\">。</prosody>", "你好世界。"),
        (
            "<say-as interpret-as=\"date\">1 May</say-as><mstts:express-as style=\"sad\">x</mstts:express-as>",
            "1 Mayx",
        ),
        ("<table><tr><th>x</th><td a='b'>y<br/>z</td></tr><TR><td>w", "x, y z\nw"),
        ("\\*literal\\* \\# 1\\. \\\\", "*literal* # 1. \\"),
    ]);
}

#[test]
fn code_loses_only_its_marks() {
    check(&[
        ("```rust\nlet a_b = *c;\n```\n**Done.**", "let a_b = *c;\nDone."),
        ("~~~\n# **x**\n\n`y`\n~~~~\n**z**", "# **x**\n\n`y`\nz"),
        ("> ```\n> a*b*c\n> ```\n> d", "a*b*c\nd"),
        ("用`a*b*c`和``x`y``", "用a*b*c和x`y"),
        ("代码：```py\nx_1\n```", "代码：\nx_1"),
        ("```你好```世界", "你好世界"),
        ("```\n*x*", "*x*"),
        ("~~~好开心~~~", "好开心"),
    ]);
}

#[test]
fn words_are_not_held_back() {
    for (chunk, out) in [
        ("今天天气很好。", "今天天气很好。"),
        ("**注意", "注意"),
        ("- 第一项", "第一项"),
        ("Hello, there.", "Hello, there."),
        ("价格**5", "价格5"),
        ("价格*5", "价格"),
        ("See w", "See"),
    ] {
        assert_eq!(Cleaner::default().push(chunk), out, "{chunk}");
    }
}

/// Generates answers from pieces, among them marks and halves of marks.
fn answer() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-z]{1,6}|[0-9]{1,4}|你好|重点|，|。|！| |\n|\n\n|, |\\. |! ",
        6 => "[*_~`#|>!<&\\\\$:=\\[\\]()+.-]{1,4}",
        3 => prop::sample::select(vec![
            "😊", "👨‍👩‍👧‍👦", "🇨🇳", "👍🏽", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "★", "→", "①", "\u{200d}", "\u{fe0f}",
        ]).prop_map(String::from),
        4 => prop::sample::select(vec![
            "**x**", "*y*", "_z_", "[a](b)", "![c](d \"e\")", "[f][g]", "[^1]", "[^1]: ", "[r]: https://a.b",
            "<b>", "</b>", "<br>", "<!-- x -->", "<https://a.b>", "&amp;", "&#x1F600;", "\\*", "$x^2$", "$5",
            "```rust\n", "```", "\n```\n", "~~~\n", "`c`", "\n- ", "\n- [ ] ", "\n1. ", "\n> ", "\n# ", "\n---\n",
            "\n| a | b |\n|---|---|\n", "https://a.b/c_d*e", "www.", "5*3", "3 * 4", "snake_case", "25°C",
        ]).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn chunks_have_no_effect(text in answer(), cuts in prop::collection::vec(1usize..9, 1..40)) {
        let mut cleaner = Cleaner::default();
        let mut pieces = String::new();
        let mut rest = text.as_str();
        for len in cuts.iter().cycle() {
            let at = rest.char_indices().nth(*len).map_or(rest.len(), |(at, _)| at);
            pieces.push_str(&cleaner.push(&rest[..at]));
            rest = &rest[at..];
            if rest.is_empty() {
                break;
            }
        }
        pieces.push_str(&cleaner.finish());
        prop_assert_eq!(pieces, Cleaner::whole(&text));
    }

    #[test]
    fn output_has_no_ornament_and_no_stray_space(text in prop_oneof![answer(), any::<String>()]) {
        let plain = Cleaner::whole(&text);
        prop_assert!(plain.chars().all(|c| c == '\n' || treatment(c) == Treatment::Said), "{}", plain);
        prop_assert_eq!(plain.trim(), &plain);
        prop_assert!(!plain.contains("  ") && !plain.contains("\n\n\n"));
        prop_assert!(!plain.contains(" \n") && !plain.contains("\n "));
    }

    #[test]
    fn plain_text_is_unchanged(
        text in "([a-z]{1,8}|你好|天气|[0-9]{4}|1\\.5|10:30|25°C|5%|km/h)([ ,.!?，。]?([a-z]{1,8}|好的|[0-9]{4}|￥5)){0,12}(\n?\n[A-Z]{1,9})?[.!?。]"
    ) {
        prop_assert_eq!(Cleaner::whole(&text), text);
    }

    #[test]
    fn marks_remove_no_word(
        parts in prop::collection::vec(("[a-z]{2,6}|你好", "[*_~`#|>! \n-]{1,3}"), 1..20)
    ) {
        let text: String = parts.iter().map(|(word, marks)| format!("{word}{marks}")).collect();
        let bare = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        let fenced = text.contains("```") || text.contains("~~~");
        prop_assert!(fenced || bare(&Cleaner::whole(&text)) == bare(&text), "{}", text);
    }

    #[test]
    fn conversion_is_idempotent(
        parts in prop::collection::vec(prop::sample::select(vec![
            "word", "你好", "，", "。", " ", "\n", "\n\n", "**重点**", "*soft* ", "\n- item", "\n1. one",
            "\n## head\n", "😊", "[a](b)", "\n| a | b |\n|---|---|\n", "https://a.b/c_d ", "3 * 4",
        ]), 0..20)
    ) {
        let once = Cleaner::whole(&parts.concat());
        prop_assert_eq!(Cleaner::whole(&once), once);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn held_back_text_is_bounded(
        opening in "[a-z*_`~#|<&$\\[(!>\\\\-]{0,6}|\\[a\\]\\(", filling in "[a-z]|[*_`~# |<&$\\[>!-]|你"
    ) {
        let mut cleaner = Cleaner::default();
        cleaner.push(&opening);
        for _ in 0..1_500 {
            cleaner.push(&filling);
            prop_assert!(cleaner.held.chars().count() <= 1_300);
        }
    }
}

#[test]
fn work_grows_with_the_length_of_a_chunk() {
    for piece in ["[a](b)", "<http://a>", "**a** ", "[", "`a", "![a](b)", "a\n", "[[a](b)](c)"] {
        let moved = |times: usize| {
            let mut cleaner = Cleaner::default();
            cleaner.push(&piece.repeat(times));
            cleaner.moved
        };
        let short = moved(2_000).max(4_096);
        let long = moved(20_000);
        assert!(long <= 12 * short, "{piece}: {short} bytes for a text, {long} for ten times it");
    }
}
