//! Converts LaTeX formulas to plain signs: `\frac{1}{2}` to `1/2`. Not for the start and the end of
//! formulas.

use std::iter::Peekable;
use std::str::Chars;

/// Commands with an equivalent sign.
const SIGNS: [(&str, &str); 34] = [
    ("times", "×"),
    ("cdot", "×"),
    ("ast", "×"),
    ("div", "÷"),
    ("pm", "±"),
    ("mp", "∓"),
    ("leq", "≤"),
    ("le", "≤"),
    ("geq", "≥"),
    ("ge", "≥"),
    ("neq", "≠"),
    ("ne", "≠"),
    ("approx", "≈"),
    ("equiv", "≡"),
    ("infty", "∞"),
    ("degree", "°"),
    ("circ", "°"),
    ("to", "→"),
    ("rightarrow", "→"),
    ("sum", "∑"),
    ("prod", "∏"),
    ("int", "∫"),
    ("sqrt", "√"),
    ("ldots", "…"),
    ("cdots", "…"),
    ("dots", "…"),
    ("alpha", "α"),
    ("beta", "β"),
    ("gamma", "γ"),
    ("delta", "δ"),
    ("theta", "θ"),
    ("lambda", "λ"),
    ("mu", "μ"),
    ("pi", "π"),
];
/// Commands that only affect the appearance of their argument, or the space between signs.
const SILENT: [&str; 25] = [
    "text",
    "textbf",
    "textit",
    "texttt",
    "emph",
    "underline",
    "mathrm",
    "mathbf",
    "mathit",
    "mathsf",
    "mathbb",
    "mathcal",
    "operatorname",
    "left",
    "right",
    "big",
    "Big",
    "displaystyle",
    "boxed",
    "quad",
    "qquad",
    "limits",
    "overline",
    "vec",
    "hat",
];
/// Maximum nesting of fractions.
const MAX_DEPTH: usize = 8;

/// Returns a formula as plain text.
pub(super) fn plain(formula: &str) -> String {
    let mut text = String::new();
    read(&mut formula.chars().peekable(), MAX_DEPTH, &mut text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads up to the bracket that closes the current group, or to the end.
fn read(chars: &mut Peekable<Chars<'_>>, depth: usize, text: &mut String) {
    while let Some(c) = chars.next() {
        match c {
            '}' => return,
            '{' if depth > 0 => read(chars, depth - 1, text),
            '\\' => command(chars, depth, text),
            '^' => power(chars, depth, text),
            '{' | '_' | '&' | '$' => {}
            '~' => text.push(' '),
            c => text.push(c),
        }
    }
}

fn command(chars: &mut Peekable<Chars<'_>>, depth: usize, text: &mut String) {
    let mut name = String::new();
    while let Some(c) = chars.next_if(char::is_ascii_alphabetic) {
        name.push(c);
    }
    match name.as_str() {
        // `\,` and `\\` are spaces, `\%` is a sign.
        "" => text
            .extend(chars.next().map(|c| if matches!(c, '%' | '#' | '{' | '}') { c } else { ' ' })),
        "frac" | "dfrac" | "tfrac" => {
            let upper = argument(chars, depth);
            let lower = argument(chars, depth);
            text.push_str(&bracketed(&upper));
            text.push('/');
            text.push_str(&bracketed(&lower));
        }
        name if SILENT.contains(&name) => {}
        name => match SIGNS.iter().find(|(known, _)| *known == name) {
            Some((_, sign)) => text.push_str(sign),
            None => {
                text.push(' ');
                text.push_str(name);
                text.push(' ');
            }
        },
    }
}

fn power(chars: &mut Peekable<Chars<'_>>, depth: usize, text: &mut String) {
    match argument(chars, depth).as_str() {
        "2" => text.push('²'),
        "3" => text.push('³'),
        "°" => text.push('°'),
        other => {
            text.push('^');
            text.push_str(&bracketed(other));
        }
    }
}

/// Reads the next group, or the next sign.
fn argument(chars: &mut Peekable<Chars<'_>>, depth: usize) -> String {
    while chars.next_if(|c| c.is_whitespace()).is_some() {}
    let mut text = String::new();
    if chars.peek() == Some(&'}') {
        return text;
    }
    match chars.next() {
        Some('{') if depth > 0 => read(chars, depth - 1, &mut text),
        Some('\\') => command(chars, depth.saturating_sub(1), &mut text),
        Some('{' | '_' | '^' | '&' | '$') | None => {}
        Some(c) => text.push(c),
    }
    text.trim().to_owned()
}

/// Puts a sum in brackets.
fn bracketed(text: &str) -> String {
    let is_sum = text.chars().skip(1).any(|c| matches!(c, '+' | '-' | ' '));
    if is_sum { format!("({text})") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_become_plain_signs() {
        for (formula, text) in [
            (r"\frac{1}{2}", "1/2"),
            (r"x_i^2", "xi²"),
            (r"\frac{a+b}{c} \times d^{10}", "(a+b)/c × d^10"),
            (r"\sqrt{x} \leq 3\,\text{cm}", "√x ≤ 3 cm"),
            (r"90^\circ", "90°"),
            (r"\sin x", "sin x"),
            (r"\frac12", "1/2"),
            (r"50\%", "50%"),
            ("2+3=5", "2+3=5"),
        ] {
            assert_eq!(plain(formula), text, "{formula}");
        }
    }

    proptest! {
        #[test]
        fn any_formula_is_read(formula in r"([a-z0-9{}\\^_$ +]|\\frac|\\sqrt){0,60}") {
            let text = plain(&formula);
            prop_assert!(!text.contains(['\\', '{', '}', '_']) || formula.contains(r"\{") || formula.contains(r"\}"), "{}", text);
        }
    }
}
