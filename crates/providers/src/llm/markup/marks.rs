//! Marks that models write into their answers: around their thinking, and around tool calls in
//! text. Not for special tokens, and not for handling the text between marks.

use super::mark::{Found, Mark, THINKING, begins, narrow, thinks};
use super::tokens;

/// Maximum length of a mark, in bytes.
const LONGEST: usize = 256;

/// Names of elements that contain tool calls, or tool results that the model made up.
const CALLING: [(&str, Mark); 22] = [
    ("tool_call", Mark::Call("</tool_call>")),
    ("tool_calls", Mark::Call("</tool_calls>")),
    ("function_call", Mark::Call("</function_call>")),
    ("function_calls", Mark::Call("</function_calls>")),
    ("tool_use", Mark::Call("</tool_use>")),
    ("tool_code", Mark::Call("</tool_code>")),
    ("function", Mark::Call("</function>")),
    ("invoke", Mark::Call("</invoke>")),
    // Nemotron.
    ("toolcall", Mark::Call("</toolcall>")),
    ("longcat_tool_call", Mark::Call("</longcat_tool_call>")),
    // The whole name, which is tried before its last part.
    ("minimax:tool_call", Mark::Call("</minimax:tool_call>")),
    ("seed:tool_call", Mark::Call("</seed:tool_call>")),
    ("tool_response", Mark::Drop("</tool_response>")),
    ("tool_responses", Mark::Drop("</tool_responses>")),
    ("tool_result", Mark::Drop("</tool_result>")),
    ("tool_results", Mark::Drop("</tool_results>")),
    ("tool_output", Mark::Drop("</tool_output>")),
    ("tool_outputs", Mark::Drop("</tool_outputs>")),
    ("function_response", Mark::Drop("</function_response>")),
    ("function_responses", Mark::Drop("</function_responses>")),
    ("function_result", Mark::Drop("</function_result>")),
    ("function_results", Mark::Drop("</function_results>")),
];

/// Headers of gpt-oss: `<|channel|>analysis<|message|>`, `<|start|>assistant<|channel|>...`.
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";

/// Returns true if a mark may start with this letter.
pub(super) fn may_begin(c: char) -> bool {
    matches!(narrow(c), '<' | '[' | '◁')
}

/// Returns the mark at the beginning of the text. `end`: there is no more text.
pub(super) fn mark(text: &str, end: bool) -> Found {
    let found = [tokens::known(text), header(text), element(text)].into_iter().fold(
        Found::No,
        |best, next| match (best, next) {
            (Found::Yes(..), _) => best,
            (_, Found::Yes(..)) => next,
            (Found::More, _) => best,
            _ => next,
        },
    );
    match found {
        Found::More if !end && text.len() <= LONGEST => found,
        Found::Yes(_, len) if len <= LONGEST => found,
        _ => tokens::any(text, end),
    }
}

/// Reads a header of gpt-oss. Only text in the final channel is the answer.
fn header(text: &str) -> Found {
    let first = if let found @ (Found::Yes(..) | Found::More) = begins(text, CHANNEL) {
        found
    } else {
        begins(text, START)
    };
    let Found::Yes(_, len) = first else { return first };
    let starts = begins(text, CHANNEL) == Found::No;
    let rest = &text[len..];
    let plain = |c: char| c.is_ascii_alphanumeric() || " _.:=-".contains(c);
    let name_len = rest.len() - rest.trim_start_matches(plain).len();
    let (name, behind) = rest.split_at(name_len);
    let whole = len + name_len;
    let calls = name.contains(" to=");
    if starts && calls {
        return if behind.is_empty() {
            Found::More
        } else {
            Found::Yes(Mark::Call("<|call|>"), whole)
        };
    }
    if starts {
        // The text after it decides what starts here.
        return if behind.is_empty() { Found::More } else { Found::Yes(Mark::Silent, whole) };
    }
    let mark = match name.trim_start() {
        name if name.starts_with("final") => Mark::Answer,
        // Recipient of the message: `commentary to=functions.f`.
        _ if calls => Mark::Call("<|call|>"),
        _ => Mark::Think,
    };
    match begins(behind, "<|message|>") {
        Found::Yes(_, more) => Found::Yes(mark, whole + more),
        Found::More => Found::More,
        // `<|constrain|>json` may come between.
        Found::No => match begins(behind, "<|constrain|>") {
            Found::Yes(..) => Found::Yes(mark, whole),
            other => other,
        },
    }
}

/// Reads the tag of an element: `<think>`, `</Think >`, `<thinking depth="2">`, `<function=f>`.
fn element(text: &str) -> Found {
    let mut letters = text.char_indices().map(|(at, c)| (at, narrow(c))).peekable();
    if letters.next().is_none_or(|(_, c)| c != '<') {
        return Found::No;
    }
    while letters.next_if(|(_, c)| *c == ' ').is_some() {}
    let closes = letters.next_if(|(_, c)| *c == '/').is_some();
    while letters.next_if(|(_, c)| *c == ' ').is_some() {}
    let mut name = String::new();
    while let Some((_, c)) =
        letters.next_if(|(_, c)| c.is_ascii_alphanumeric() || "_:".contains(*c))
    {
        name.push(c.to_ascii_lowercase());
        if name.len() > 40 {
            return Found::No;
        }
    }
    let Some((_, behind)) = letters.peek().copied() else { return likely(&name) };
    // For example `seed:think`.
    let bare = name.rsplit(':').next().unwrap_or_default();
    let thinks = thinks(bare);
    let known =
        |name: &str| CALLING.iter().find(|(known, _)| *known == name).map(|(_, mark)| *mark);
    let calls = known(&name).or_else(|| known(bare));
    let named = bare == "function";
    if !(thinks || calls.is_some()) || !(behind.is_whitespace() || "/>=".contains(behind)) {
        return Found::No;
    }
    let mut attributes = String::new();
    for (at, c) in letters {
        match c {
            '>' => {
                let len = at + text[at..].chars().next().map_or(1, char::len_utf8);
                return told(&attributes, closes, thinks, named, calls, len);
            }
            '<' => return Found::No,
            c => attributes.push(c),
        }
    }
    Found::More
}

fn told(
    attributes: &str,
    closes: bool,
    thinks: bool,
    named: bool,
    calls: Option<Mark>,
    len: usize,
) -> Found {
    let attributes = attributes.trim();
    let empty = attributes.ends_with('/');
    let attributes = attributes.trim_end_matches('/').trim();
    // `<function=f>` and `<function name="f">` are calls. `<function>` may be anything.
    let well = if named && !closes {
        attributes.contains('=')
    } else {
        attributes.is_empty() || (attributes.contains('=') && !attributes.starts_with('='))
    };
    if !well {
        return Found::No;
    }
    let mark = match calls {
        _ if empty && !closes => Mark::Silent,
        None if thinks && closes => Mark::Thought,
        None => Mark::Think,
        Some(_) if closes && named => return Found::No,
        Some(_) if closes => Mark::Silent,
        Some(mark) => mark,
    };
    Found::Yes(mark, len)
}

/// Returns whether the incomplete name of a tag may still become a known one.
fn likely(name: &str) -> Found {
    let bare = name.rsplit(':').next().unwrap_or_default();
    let known = THINKING.into_iter().chain(CALLING.iter().map(|(name, _)| *name));
    // A prefix before a colon may be anything.
    let short = !name.contains(':') && name.len() <= 12;
    if known.into_iter().any(|known| known.starts_with(bare)) || short {
        Found::More
    } else {
        Found::No
    }
}
