//! Normalisation of Chinese text: numbers, dates, times, percentages and units become spoken words,
//! because the Chinese voice supports only characters.

use super::numerals::{decimal, quantity, spelled, telephone};

/// Unit signs after a number, with their words; longer signs before shorter ones.
pub(super) const UNITS: [(&str, &str); 22] = [
    ("km/h", "公里每小时"),
    ("m/s", "米每秒"),
    ("km²", "平方公里"),
    ("m²", "平方米"),
    ("kWh", "度"),
    ("°C", "摄氏度"),
    ("°F", "华氏度"),
    ("km", "公里"),
    ("cm", "厘米"),
    ("mm", "毫米"),
    ("kg", "公斤"),
    ("mg", "毫克"),
    ("ml", "毫升"),
    ("mL", "毫升"),
    ("GB", "G"),
    ("MB", "兆"),
    ("kW", "千瓦"),
    ("m", "米"),
    ("g", "克"),
    ("L", "升"),
    ("℃", "摄氏度"),
    ("°", "度"),
];

/// Measure words that require 两 instead of 二.
const MEASURES: &str = "个位只点天年岁次条张本杯块件家种间辆支首句口双对台小分周勺瓶碗盘袋盒包串束把片颗粒根匹群棵朵座栋盆锅壶罐桶箱捆卷册部架艘枚封滴套副批倍斤吨米升公千万亿";
/// Signs between the two ends of a range.
const RANGES: [char; 5] = ['-', '~', '～', '–', '—'];
/// Units that may appear between a number and such a sign.
const RANGED: &str = "元块角分年月日号时点秒度岁个人米斤升天周次位页章节楼层℃%％°CF";
/// Words before a number that is dialled.
const DIALLED: [&str; 12] = [
    "拨打",
    "拨",
    "打",
    "致电",
    "电话",
    "电话是",
    "电话为",
    "热线",
    "热线是",
    "客服",
    "号码",
    "号码是",
];
/// Words before a ratio, and after a score.
const RATIOS: [&str; 8] = ["比例", "比例是", "比例为", "比", "比分", "比分是", "比分为", "比值"];
/// Words before a hyphen that belongs to a name.
const NAMED: &str = "歼轰运直武强教弹风舟征星机船舰";

/// Rewrites `text` to characters, letters and punctuation only.
pub fn normalise(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len() * 2);
    let mut at = 0;
    while at < chars.len() {
        let scan = Scan { chars: &chars, at };
        let (words, taken) =
            scan.currency().or_else(|| scan.number()).unwrap_or_else(|| scan.sign());
        out.push_str(&words);
        at += taken;
    }
    out
}

/// Position in the text. Every method returns the words and the number of characters that they
/// replace.
#[derive(Clone, Copy)]
struct Scan<'a> {
    chars: &'a [char],
    at: usize,
}

/// Number as written, without thousands separators.
struct Figure {
    whole: String,
    fraction: Option<String>,
    len: usize,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn before(&self) -> Option<char> {
        self.at.checked_sub(1).and_then(|i| self.chars.get(i)).copied()
    }

    fn digits(&self, ahead: usize) -> String {
        let rest = self.chars.get(self.at + ahead..).unwrap_or_default();
        rest.iter().take_while(|c| c.is_ascii_digit()).collect()
    }

    /// Returns true if `sign` is at the offset `ahead`.
    fn has(&self, ahead: usize, sign: &str) -> bool {
        sign.chars().enumerate().all(|(i, c)| self.peek(ahead + i) == Some(c))
    }

    fn figure(&self, ahead: usize) -> Option<Figure> {
        let mut whole = self.digits(ahead);
        let mut len = whole.len();
        if whole.is_empty() {
            return None;
        }
        while whole.len() <= 16 && self.peek(ahead + len) == Some(',') {
            let group = self.digits(ahead + len + 1);
            if group.len() != 3 {
                break;
            }
            whole.push_str(&group);
            len += 4;
        }
        let fraction = match self.peek(ahead + len) {
            Some('.') => Some(self.digits(ahead + len + 1)).filter(|f| !f.is_empty()),
            _ => None,
        };
        len += fraction.as_ref().map_or(0, |f| f.len() + 1);
        Some(Figure { whole, fraction, len })
    }

    fn currency(&self) -> Option<(String, usize)> {
        let name = match self.peek(0)? {
            '¥' | '￥' => "元",
            '$' => "美元",
            '€' => "欧元",
            '£' => "英镑",
            _ => return None,
        };
        let figure = self.figure(1)?;
        let mut words = decimal(&figure.whole, figure.fraction.as_deref());
        let mut len = 1 + figure.len;
        if self.peek(len).is_some_and(|sign| RANGES.contains(&sign)) {
            // The currency sign may appear at both ends.
            let sign = usize::from(self.peek(len + 1) == self.peek(0));
            if let Some(to) = self.figure(len + 1 + sign) {
                words.push('到');
                words.push_str(&decimal(&to.whole, to.fraction.as_deref()));
                len += 1 + sign + to.len;
            }
        }
        Some((words + name, len))
    }

    fn number(&self) -> Option<(String, usize)> {
        let figure = self.figure(0)?;
        if figure.fraction.is_none()
            && let Some(found) = self
                .date()
                .or_else(|| self.ratio())
                .or_else(|| self.clock())
                .or_else(|| self.divided())
                .or_else(|| self.hyphenated())
        {
            return Some(found);
        }
        let mut words = self.said(&figure);
        let mut len = figure.len;
        if self.peek(len) == Some('%') {
            words.insert_str(0, "百分之");
            len += 1;
        } else if let Some((sign, unit)) = UNITS.iter().find(|(sign, _)| self.has(len, sign)) {
            words.push_str(unit);
            len += sign.chars().count();
        }
        let is_range = self.peek(len).is_some_and(|sign| RANGES.contains(&sign));
        if is_range && self.figure(len + 1).is_some() {
            words.push('到');
            len += 1;
        }
        Some((words, len))
    }

    fn said(&self, figure: &Figure) -> String {
        let Figure { whole, fraction, len } = figure;
        if let Some(fraction) = fraction {
            return decimal(whole, Some(fraction));
        }
        let next = self.peek(*len);
        if next == Some('年') && whole.len() == 4 {
            return spelled(whole);
        }
        if whole.len() == 11 && whole.starts_with('1') || whole.len() >= 7 && whole.starts_with('0')
        {
            return telephone(whole);
        }
        let code =
            self.follows(&["邮编", "邮编是", "邮政编码", "邮政编码是", "验证码", "验证码是"]);
        if code || whole.len() > 1 && whole.starts_with('0') {
            return spelled(whole);
        }
        let is_measured = next.is_some_and(|c| MEASURES.contains(c) || RANGED.contains(c));
        if whole.len() >= 3 && !is_measured && self.follows(&DIALLED) {
            return telephone(whole);
        }
        let counted = next.is_some_and(|c| MEASURES.contains(c)) && self.before() != Some('第');
        if whole == "2" && counted {
            return "两".to_owned();
        }
        quantity(whole)
    }

    /// Reads a date: `2024-05-01`, `2024/5/1`.
    fn date(&self) -> Option<(String, usize)> {
        let year = self.digits(0);
        let mark = self.peek(4).filter(|c| matches!(c, '-' | '/'))?;
        let month = self.digits(5);
        let second = 5 + month.len();
        let day = self.digits(second + 1);
        let whole = year.len() == 4 && self.peek(second) == Some(mark);
        let fits = |text: &str, most: u32| text.parse().is_ok_and(|n: u32| (1..=most).contains(&n));
        (whole && fits(&month, 12) && fits(&day, 31)).then(|| {
            let words = format!("{}年{}月{}日", spelled(&year), quantity(&month), quantity(&day));
            (words, second + 1 + day.len())
        })
    }

    /// Reads a ratio or a score, `1:10`, `3:0`: digits that are not a time, or that follow a word
    /// for a ratio.
    fn ratio(&self) -> Option<(String, usize)> {
        let mut parts = vec![self.digits(0)];
        let mut len = parts[0].len();
        while matches!(self.peek(len), Some(':' | '：')) {
            let part = self.digits(len + 1);
            if part.is_empty() {
                break;
            }
            len += 1 + part.len();
            parts.push(part);
        }
        let is_short = parts.len() > 1 && parts.iter().all(|part| part.len() <= 4);
        let is_time = parts[1..].iter().all(|part| part.len() == 2);
        (is_short && (!is_time || self.follows(&RATIOS))).then(|| {
            let words: Vec<String> = parts.iter().map(|part| quantity(part)).collect();
            (words.join("比"), len)
        })
    }

    /// Reads a time: `15:30`, with seconds `15:30:20`.
    fn clock(&self) -> Option<(String, usize)> {
        let hour = self.digits(0);
        let mut len = hour.len();
        let minute = self.two_digits(len)?;
        if hour.len() > 2 || hour.parse().is_ok_and(|h: u32| h > 24) {
            return None;
        }
        len += 3;
        let hour = if hour.trim_start_matches('0') == "2" { "两".into() } else { quantity(&hour) };
        let mut words = format!("{hour}点");
        if minute != "00" {
            words.push_str(&sixtieth(&minute));
            words.push('分');
        } else {
            words.push('整');
        }
        if let Some(second) = self.two_digits(len) {
            words.push_str(&sixtieth(&second));
            words.push('秒');
            len += 3;
        }
        let to = matches!(self.peek(len), Some('-' | '~' | '～' | '–' | '—'));
        if to && !self.digits(len + 1).is_empty() {
            words.push('到');
            len += 1;
        }
        Some((words, len))
    }

    fn two_digits(&self, ahead: usize) -> Option<String> {
        let digits = self.digits(ahead + 1);
        let sign = matches!(self.peek(ahead), Some(':' | '：'));
        (sign && digits.len() == 2 && digits.parse().is_ok_and(|n: u32| n < 60)).then_some(digits)
    }

    /// Reads figures joined by hyphens that are not a range: telephone numbers, ISBNs and other
    /// numbers that are spelled, scores, and differences.
    fn hyphenated(&self) -> Option<(String, usize)> {
        let mut groups = vec![self.digits(0)];
        let mut len = groups[0].len();
        while matches!(self.peek(len), Some('-' | '–')) {
            let group = self.digits(len + 1);
            if group.is_empty() {
                break;
            }
            len += 1 + group.len();
            groups.push(group);
        }
        // A fraction, a time or a unit of the last figure.
        let goes_on =
            matches!(self.peek(len), Some('.' | ':' | '：')) && !self.digits(len + 1).is_empty();
        if groups.len() < 2 || goes_on {
            return None;
        }
        let first = &groups[0];
        let last = &groups[groups.len() - 1];
        let zero = |group: &String| group.len() > 1 && group.starts_with('0');
        let parted = groups.len() > 2
            || groups.iter().any(zero)
            || last.len() >= 7 && first.len() <= 4
            || first.len() >= 7 && last.len() <= 4;
        if parted {
            let words: Vec<String> = groups.iter().map(|group| telephone(group)).collect();
            return Some((words.join("，"), len));
        }
        let are_years = first.len() == 4 && last.len() == 4;
        if are_years && ["年", "学年", "财年", "赛季"].iter().any(|word| self.has(len, word))
        {
            return Some((format!("{}到{}", spelled(first), spelled(last)), len));
        }
        let number = |group: &String| group.parse().unwrap_or(u64::MAX);
        if self.peek(len) == Some('=') {
            return Some((format!("{}减{}", quantity(first), quantity(last)), len));
        }
        let score = self.follows(&["比分", "比分是", "比分为"]) || number(first) > number(last);
        (score && first.len() <= 3)
            .then(|| (format!("{}比{}", quantity(first), quantity(last)), len))
    }

    /// Returns true if a number with its unit is directly before the position: `3月1日`.
    fn is_measured(&self) -> bool {
        let before = self.chars[..self.at].iter().rev().take(3);
        let unit = before.take_while(|c| RANGED.contains(**c)).count();
        unit > 0 && self.at.checked_sub(unit + 1).is_some_and(|at| self.chars[at].is_ascii_digit())
    }

    /// Returns true if one of these words is directly before the position.
    fn follows(&self, words: &[&str]) -> bool {
        let before: String = self.chars[self.at.saturating_sub(8)..self.at].iter().collect();
        let before = before.trim_end_matches([' ', ':', '：']);
        words.iter().any(|word| before.ends_with(word))
    }

    /// Reads a fraction: `3/4`.
    fn divided(&self) -> Option<(String, usize)> {
        let top = self.digits(0);
        let bottom = self.digits(top.len() + 1);
        let len = top.len() + 1 + bottom.len();
        let short = (1..=3).contains(&bottom.len()) && top.len() <= 3;
        (short && self.peek(top.len()) == Some('/') && self.peek(len) != Some('/'))
            .then(|| (format!("{}分之{}", quantity(&bottom), quantity(&top)), len))
    }

    /// Reads a sign that is spoken next to a number; returns anything else unchanged.
    fn sign(&self) -> (String, usize) {
        let c = self.chars[self.at];
        let number_next = self.peek(1).is_some_and(|c| c.is_ascii_digit());
        let number_before = self.before().is_some_and(|c| c.is_ascii_digit());
        let word = match c {
            c if RANGES.contains(&c) && number_next && self.is_measured() => "到",
            // `歼-20` is a name.
            '-' | '–'
                if number_next
                    && self
                        .before()
                        .is_some_and(|c| NAMED.contains(c) || c.is_ascii_alphabetic()) =>
            {
                ""
            }
            '-' | '−' if number_next && !number_before => "负",
            '-' | '−' if number_next => "减",
            '+' if number_next || number_before => "加",
            '×' | '*' if number_next && number_before => "乘以",
            '÷' if number_next => "除以",
            '=' if number_before || number_next => "等于",
            '%' => "百分号",
            '℃' => "摄氏度",
            '&' => "和",
            c => return (c.to_string(), 1),
        };
        (word.to_owned(), 1)
    }
}

/// Reads minutes or seconds. Those below ten are spoken with a zero.
fn sixtieth(digits: &str) -> String {
    match digits.strip_prefix('0') {
        Some("0") | None => quantity(digits),
        Some(rest) => format!("零{}", quantity(rest)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn figures_become_words() {
        for (written, said) in [
            ("音量50%", "音量百分之五十"),
            ("3.5米", "三点五米"),
            ("2024年5月1日", "二零二四年五月一日"),
            ("2024-05-01出发", "二零二四年五月一日出发"),
            ("现在15:30", "现在十五点三十分"),
            ("2:05", "两点零五分"),
            ("8:00", "八点整"),
            ("气温-5°C到20℃", "气温负五摄氏度到二十摄氏度"),
            ("跑了5km，体重60.5kg", "跑了五公里，体重六十点五公斤"),
            ("3-5天", "三到五天"),
            ("10-20人，3.5-5米", "十到二十人，三点五到五米"),
            ("打010-12345678吧", "打零幺零，幺二三四五六七八吧"),
            ("0755-1234567", "零七五五，幺二三四五六七"),
            ("400-820-8820", "四零零，八二零，八八二零"),
            ("138-0013-8000", "幺三八，零零幺三，八零零零"),
            ("86-13800138000", "八六，幺三八零零幺三八零零零"),
            ("62345678-801转", "六二三四五六七八，八零幺转"),
            ("ISBN 978-7-111-1", "ISBN 九七八，七，幺幺幺，幺"),
            ("2024-13-45", "二零二四，幺三，四五"),
            ("比分是2-3", "比分是二比三"),
            ("3-2获胜", "三比二获胜"),
            ("5-3=2", "五减三等于二"),
            ("8:30-9:30", "八点三十分到九点三十分"),
            ("邮编100080", "邮编一零零零八零"),
            ("2024-01-02", "二零二四年一月二日"),
            ("电话13800138000", "电话幺三八零零幺三八零零零"),
            ("¥12.5和$3", "十二点五元和三美元"),
            ("2个苹果，第2个", "两个苹果，第二个"),
            ("3+5=8", "三加五等于八"),
            ("1,234,567人", "一百二十三万四千五百六十七人"),
            ("3/4的人", "四分之三的人"),
            ("房间007", "房间零零七"),
            ("10/20/30", "10/20/30"),
            ("没有数字。", "没有数字。"),
            ("歼-20首飞成功", "歼二十首飞成功"),
            ("气温25℃-30℃", "气温二十五摄氏度到三十摄氏度"),
            ("室温20-25℃", "室温二十到二十五摄氏度"),
            ("湿度50%~60%", "湿度百分之五十到百分之六十"),
            ("涨了10%-20%", "涨了百分之十到百分之二十"),
            ("重3kg-5kg", "重三公斤到五公斤"),
            ("9点-11点营业", "九点到十一点营业"),
            ("3月1日-5日", "三月一日到五日"),
            ("100元-200元", "一百元到二百元"),
            ("票价¥50-100", "票价五十到一百元"),
            ("票价¥50-¥100", "票价五十到一百元"),
            ("请拨打110", "请拨打幺幺零"),
            ("客服电话10086", "客服电话幺零零八六"),
            ("110个人", "一百一十个人"),
            ("打100分", "打一百分"),
            ("中国队3:0获胜", "中国队三比零获胜"),
            ("比例1:10", "比例一比十"),
            ("按1:2:3配", "按一比二比三配"),
            ("8:00开会", "八点整开会"),
            ("15:30:20", "十五点三十分二十秒"),
            ("2024-2025学年", "二零二四到二零二五学年"),
            ("加2勺盐", "加两勺盐"),
            ("2瓶水", "两瓶水"),
            ("2号楼", "二号楼"),
            ("2月2日", "二月二日"),
            ("零下-5°C", "零下负五摄氏度"),
        ] {
            let words = normalise(written);
            if written == "10/20/30" {
                assert!(!words.chars().any(|c| c.is_ascii_digit()), "{words}");
            } else {
                assert_eq!(words, said, "{written}");
            }
        }
    }

    proptest! {
        #[test]
        fn the_ends_of_a_range_are_read_like_single_numbers(
            from in 1..2_000_u32, to in 1..2_000_u32, sign in prop::sample::select(RANGES.to_vec()),
            unit in prop::sample::select(vec!["%", "℃", "kg", "元", "点", "个", "°C", "km"]),
        ) {
            let one = format!("约{from}{unit}");
            let other = format!("约{to}{unit}");
            let range = normalise(&format!("约{from}{unit}{sign}{to}{unit}"));
            let ends = format!("{}到{}", normalise(&one), normalise(&other).trim_start_matches('约'));
            prop_assert_eq!(range, ends);
        }

        #[test]
        fn no_figure_is_left(text in "[0-9.,:/%年月个点+=¥你°Ckm~ -]{0,30}") {
            let said = normalise(&text);
            prop_assert!(!said.chars().any(|c| c.is_ascii_digit()), "{}", said);
        }

        #[test]
        fn no_text_causes_a_panic(text in any::<String>()) {
            normalise(&text);
        }
    }
}
