//! Interprets paired marks: decides whether an asterisk, underscore or tilde is emphasis or literal
//! text. Finds the ends of bare addresses and formulas. Not for text in brackets.

use super::Found;

/// Maximum look-ahead for emphasis within a word, in characters.
const REACH: usize = 64;
const FORMULA_MAX: usize = 128;
/// Maximum length of one run. A longer run is split into several.
pub(super) const RUN_MAX: usize = 64;

/// LaTeX commands that models write outside formulas, each followed by braces.
const COMMANDS: [&str; 12] = [
    "boxed",
    "textbf",
    "textit",
    "texttt",
    "emph",
    "underline",
    "text",
    "frac",
    "dfrac",
    "sqrt",
    "begin",
    "end",
];

const ADDRESSES: [&[u8]; 5] = [b"http://", b"https://", b"www.", b"ftp://", b"mailto:"];

/// Run of one mark with its context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) mark: char,
    pub(super) len: usize,
    pub(super) before: Option<char>,
    pub(super) after: Option<char>,
    /// Text after the run.
    pub(super) rest: &'a str,
    /// Number of open runs of the same strength.
    pub(super) open: u8,
    /// Set if the last spoken character is a digit.
    pub(super) behind_digit: bool,
    /// Set if the text ends after `rest`.
    pub(super) end: bool,
}

/// Effect of a run of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkEffect {
    /// Literal text.
    Stay,
    Open,
    Close,
    /// Unpaired mark.
    Stray,
}

/// Returns the length in bytes of the run of `mark` at the start, and the character after it. Waits
/// for that character.
pub(super) fn run(rest: &str, mark: char, end: bool) -> Found<(usize, Option<char>)> {
    let len = rest.chars().take(RUN_MAX).take_while(|c| *c == mark).count() * mark.len_utf8();
    match rest[len..].chars().next() {
        None if !end => Found::Wait,
        after => Found::Yes((len, after)),
    }
}

impl Run<'_> {
    /// Returns the effect of this run, if it is certain.
    pub(super) fn effect(self) -> Found<MarkEffect> {
        let within = (wordy(self.before) || self.before == Some(')'))
            && (wordy(self.after) || self.after == Some('('));
        match self.mark {
            '~' if self.len < 2 => Found::Yes(MarkEffect::Stay),
            // Keycap emoji, `*️⃣`.
            _ if matches!(self.after, Some('\u{fe0f}' | '\u{20e3}')) => {
                Found::Yes(MarkEffect::Stay)
            }
            '~' => Found::Yes(self.pair()),
            '*' if self.len == 1 && self.is_sign() => Found::Yes(MarkEffect::Stay),
            '*' if self.len == 2 && self.is_power() => Found::Yes(MarkEffect::Stay),
            '_' if name_part(self.before) && name_part(self.after) => Found::Yes(MarkEffect::Stay),
            _ if self.len == 1 && within && self.open == 0 => {
                closes_ahead(self.rest, self.mark, self.end)
                    .map(|closes| if closes { MarkEffect::Open } else { MarkEffect::Stay })
            }
            _ => Found::Yes(self.pair()),
        }
    }

    /// Reports whether a single asterisk is a multiplication sign or a wildcard.
    fn is_sign(self) -> bool {
        let apart = blank(self.before) && blank(self.after);
        if apart || digit(self.before) && digit(self.after) {
            return true;
        }
        let factors = joins_factors(self.before, self.after)
            || digit(self.before) && blank(self.after)
            || blank(self.before) && digit(self.after) && self.behind_digit;
        let anything = !wordy(self.before) && self.after == Some('.');
        self.open == 0 && (factors || anything)
    }

    /// Reports whether two asterisks are a power operator.
    fn is_power(self) -> bool {
        let close = digit(self.before) && digit(self.after) && self.open == 0;
        close || self.behind_digit && blank(self.before) && blank(self.after)
    }

    fn pair(self) -> MarkEffect {
        let ends = self.before.is_some_and(|c| !c.is_whitespace());
        let begins = self.after.is_some_and(|c| !c.is_whitespace());
        match (begins, ends) {
            (_, true) if self.open > 0 => MarkEffect::Close,
            (true, _) => MarkEffect::Open,
            _ => MarkEffect::Stray,
        }
    }
}

fn blank(c: Option<char>) -> bool {
    c.is_some_and(char::is_whitespace) && c != Some('\n')
}

fn digit(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_digit())
}

fn wordy(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

/// Reports whether `c` can be part of an identifier in code.
fn name_part(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reports whether a mark between these characters multiplies, or is part of a name.
fn joins_factors(before: Option<char>, after: Option<char>) -> bool {
    (name_part(before) || matches!(before, Some(')' | '%')))
        && (name_part(after) || after == Some('('))
}

/// Reports whether a single closing mark is near, on the same line.
fn closes_ahead(rest: &str, mark: char, end: bool) -> Found<bool> {
    let mut before = mark;
    let mut chars = rest.chars().enumerate().peekable();
    while let Some((count, c)) = chars.next() {
        if c == '\n' || count >= REACH {
            return Found::Yes(false);
        }
        if c == mark && before != mark && !before.is_whitespace() {
            match chars.peek() {
                None if !end => return Found::Wait,
                Some((_, next)) if *next == mark || joins_factors(Some(before), Some(*next)) => {}
                _ => return Found::Yes(true),
            }
        }
        before = c;
    }
    if end { Found::Yes(false) } else { Found::Wait }
}

/// Reports whether an address starts here.
pub(super) fn address(rest: &str, end: bool) -> Found<()> {
    let rest = rest.as_bytes();
    let mut found = Found::No;
    for beginning in ADDRESSES {
        let len = rest.len().min(beginning.len());
        if rest[..len].eq_ignore_ascii_case(&beginning[..len]) {
            if len == beginning.len() {
                return Found::Yes(());
            }
            found = Found::ran_out(end);
        }
    }
    found
}

/// Parses a formula in dollar signs such as `$x^2$`, or in double ones, over several lines. Returns
/// its length in bytes. Amounts of money are not formulas: text that starts with a digit needs a
/// LaTeX sign and has no space.
pub(super) fn formula(rest: &str, end: bool) -> Found<usize> {
    let (run, after) = match run(rest, '$', end) {
        Found::Yes(run) => run,
        Found::No => return Found::No,
        Found::Wait => return Found::Wait,
    };
    let is_block = run == 2;
    if run > 2 || after.is_none_or(|c| c.is_whitespace() && !is_block) {
        return Found::No;
    }
    let may_be_money = !is_block && after.is_some_and(|c| c.is_ascii_digit());
    let mut before = ' ';
    for (count, (at, c)) in rest.char_indices().enumerate().skip(run) {
        let close = &rest[at..];
        match c {
            '\n' if !is_block => return Found::No,
            _ if count > FORMULA_MAX => return Found::No,
            c if may_be_money && !c.is_ascii_graphic() => return Found::No,
            '$' if may_be_money && !rest[run..at].contains(['\\', '^']) => return Found::No,
            '$' if is_block || !before.is_whitespace() => {
                return match self::run(close, '$', end) {
                    Found::Yes((len, _)) if len < run => Found::No,
                    Found::Yes((_, Some(next))) if next.is_ascii_digit() => Found::No,
                    found => found.map(|_| at + run),
                };
            }
            _ => before = c,
        }
    }
    Found::ran_out(end)
}

/// Parses a command with its braces, `\boxed{42}`. Returns its length in bytes.
pub(super) fn command(rest: &str, end: bool) -> Found<usize> {
    let letters = rest[1..].find(|c: char| !c.is_ascii_alphabetic());
    let Some(letters) = letters else {
        let begun = COMMANDS.iter().any(|command| command.starts_with(&rest[1..]));
        return if begun { Found::ran_out(end) } else { Found::No };
    };
    let (name, behind) = rest[1..].split_at(letters);
    if !COMMANDS.contains(&name) || !behind.starts_with('{') {
        return Found::No;
    }
    let mut groups = if name.ends_with("frac") { 2 } else { 1 };
    let mut depth = 0_usize;
    for (count, (at, c)) in behind.char_indices().enumerate() {
        match c {
            '\n' => return Found::No,
            _ if count > FORMULA_MAX => return Found::No,
            '{' => depth += 1,
            _ if depth == 0 => return Found::No,
            '}' => {
                depth -= 1;
                groups -= usize::from(depth == 0);
                if groups == 0 {
                    return Found::Yes(1 + letters + at + 1);
                }
            }
            _ => {}
        }
    }
    Found::ran_out(end)
}

/// Parses a formula in `\(` and `\)`, or in `\[` and `\]`, over several lines. Returns its length in bytes.
pub(super) fn bracketed_formula(rest: &str, end: bool) -> Found<usize> {
    let close = if rest.starts_with(r"\(") { r"\)" } else { r"\]" };
    for (count, (at, c)) in rest.char_indices().enumerate() {
        if c == '\n' && close == r"\)" || count > FORMULA_MAX {
            return Found::No;
        }
        if at > 1 && rest[at..].starts_with(close) {
            return Found::Yes(at + close.len());
        }
    }
    Found::ran_out(end)
}

/// Reports whether an address continues after a mark of emphasis. Then the mark belongs to it.
pub(super) fn goes_on(after: Option<char>) -> bool {
    after.is_some_and(|c| {
        c.is_ascii_alphanumeric() || matches!(c, '/' | '=' | '&' | '%' | '#' | '?' | '-')
    })
}

/// Reports whether this character ends a bare address.
pub(super) fn ends_address(c: char) -> bool {
    !c.is_ascii_graphic() || matches!(c, '<' | '>' | '"' | '`' | '|' | '[' | ']' | '\\')
}
