//! Normalisation of Chinese text: numbers, dates, times, percentages and units become spoken words,
//! because the Chinese voice supports only characters.

use hearken_base::language::is_han;

use super::numerals::{decimal, quantity, spelled, telephone};
use super::units::unit_at;

/// Measure words that require 两 instead of 二.
const MEASURES: &str = "个位只点天年岁次条张本杯块件家种间辆支首句口双对台小分周勺瓶碗盘袋盒包串束把片颗粒根匹群棵朵座栋盆锅壶罐桶箱捆卷册部架艘枚封滴套副批倍斤吨米升公千万亿";
/// Signs between the two ends of a range.
const RANGES: [char; 5] = ['-', '~', '～', '–', '—'];
/// Units that may appear between a number and such a sign.
const RANGED: &str = "元块角分年月日号时点秒度岁个人米斤升天周次位页章节楼层℃%％°CF";
/// Words before a number that is dialled.
const DIALLED: [&str; 14] = [
    "拨打",
    "拨",
    "打",
    "致电",
    "电话",
    "电话是",
    "电话为",
    "热线",
    "热线是",
    "热线为",
    "客服",
    "号码",
    "号码是",
    "号码为",
];
/// Words before a number that is dialled if it stands alone or is one of a service.
const CALLED: [&str; 17] = [
    "呼叫",
    "火警",
    "匪警",
    "报警",
    "急救",
    "消防",
    "救护",
    "交警",
    "联系",
    "求助",
    "求救",
    "打给",
    "打通",
    "转接",
    "拨打了",
    "拨了",
    "打了",
];
/// Words before a number that is dialled if it is one of a service.
const ASKED: [&str; 2] = ["叫", "找"];
/// Numbers for emergencies.
const EMERGENCIES: [&str; 4] = ["110", "119", "120", "122"];
/// Words behind the number of a service.
const SERVICES: [&str; 25] = [
    "投诉", "举报", "热线", "报警", "急救", "电话", "客服", "求助", "求救", "咨询", "服务", "专线",
    "平台", "火警", "匪警", "消防", "交警", "查询", "短信", "指挥", "救护", "救援", "接警", "官网",
    "网站",
];
/// Words before an amount that has no measure word.
const AMOUNTS: [&str; 40] = [
    "等于", "结果", "答案", "约", "近", "共", "达", "至", "到", "超", "过", "计", "得", "价", "数",
    "第", "比", "加", "减", "乘", "除以", "乘以", "是", "为", "了", "有", "量", "积", "口", "额",
    "入", "度", "长", "重", "高", "费", "=", "+", "×", "÷",
];
/// Characters behind an amount, beside those of [`MEASURES`].
const COUNTED: &str = "名下起圈多余几步票集期场亩倍乘加减除";
/// Most numbers of a row.
const MOST_IN_ROW: usize = 8;
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
        } else if let Some(unit) = unit_at(self.chars, self.at + len) {
            words.push_str(unit.1);
            len += unit.0;
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
        if whole.len() >= 3 && !is_measured && self.is_dialled(whole, MOST_IN_ROW) {
            return telephone(whole);
        }
        let counted = next.is_some_and(|c| MEASURES.contains(c)) && self.before() != Some('第');
        if whole == "2" && counted {
            return "两".to_owned();
        }
        quantity(whole)
    }

    /// Returns true if digits without a measure word are a number that is dialled. 110 and 120 are amounts, too: they need a word for
    /// calling before or a service behind them. At most `most` numbers before in the same row are looked at.
    fn is_dialled(&self, digits: &str, most: usize) -> bool {
        let len = digits.len();
        let next = self.peek(len);
        if next.is_some_and(|c| COUNTED.contains(c)) {
            return false;
        }
        let is_hotline = len == 5
            && (["12", "95"].iter().any(|first| digits.starts_with(first))
                || matches!(digits, "10010" | "10086"));
        let is_service = is_hotline || EMERGENCIES.contains(&digits);
        let is_freephone =
            len == 10 && ["400", "800"].iter().any(|first| digits.starts_with(first));
        let is_joined =
            |c: char| is_han(c) || c.is_alphanumeric() || "%％℃°=+×÷*/-~～–—".contains(c);
        let is_alone = !next.is_some_and(is_joined);
        let is_told = SERVICES.iter().any(|word| self.has(len, word)) || self.follows(&ASKED);
        let is_amount = digits.ends_with("00") || self.follows(&AMOUNTS);
        self.follows(&DIALLED)
            || is_freephone
            || self.follows(&CALLED) && (is_service || is_alone)
            || is_service && (is_told || self.is_behind_dialled("、或和与及/，", most))
            || is_hotline && is_alone && !is_amount
            || self.is_behind_dialled("转", most)
    }

    /// Returns true if one of these signs is directly before the position, and a number that is dialled before it: 拨打110、119.
    fn is_behind_dialled(&self, signs: &str, most: usize) -> bool {
        let Some(end) = self.at.checked_sub(1).filter(|end| signs.contains(self.chars[*end]))
        else {
            return false;
        };
        let digits = self.chars[..end].iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let scan = Scan { chars: self.chars, at: end - digits };
        most > 0 && digits >= 3 && scan.is_dialled(&scan.digits(0), most - 1)
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
        let before = before.trim_end_matches([' ', ':', '：', '“', '"', '「', '（', '(']);
        words.iter().any(|word| before.ends_with(word))
    }

    /// Reads a fraction: `3/4`.
    fn divided(&self) -> Option<(String, usize)> {
        let top = self.digits(0);
        let bottom = self.digits(top.len() + 1);
        let len = top.len() + 1 + bottom.len();
        let is_pair = top.len() == 3 && bottom.len() == 3 && self.is_dialled(&top, MOST_IN_ROW);
        let short = (1..=3).contains(&bottom.len()) && top.len() <= 3 && !is_pair;
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
mod tests;
