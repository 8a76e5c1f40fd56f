//! Marks that models write into their answers: around their thinking, and around tool calls in
//! text. Not for handling the text between marks.

/// Longest mark, in bytes.
const LONGEST: usize = 256;

/// Meaning of a mark for the text after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Thinking begins.
    Think,
    /// Thinking ends, one level.
    Thought,
    /// All thinking ends: the answer follows.
    Answer,
    /// The current message ends.
    End,
    /// A tool call begins, which ends with this text. An empty text is never found: the call then
    /// runs to the end.
    Call(&'static str),
    /// No meaning: the mark is only removed.
    Silent,
}

/// Result of a search for a mark at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A mark of this length, in bytes.
    Yes(Mark, usize),
    /// No mark.
    No,
    /// Undecided: more text is needed.
    More,
}

/// Names of elements that contain thinking.
const THINKING: &str = "think thinking thought thoughts reasoning reflection";

/// Names of elements that contain tool calls, or results of them that the model made up.
const CALLING: [(&str, &str); 12] = [
    ("tool_call", "</tool_call>"),
    ("tool_calls", "</tool_calls>"),
    ("function_call", "</function_call>"),
    ("function_calls", "</function_calls>"),
    ("tool_use", "</tool_use>"),
    ("tool_code", "</tool_code>"),
    ("tool_response", "</tool_response>"),
    ("tool_responses", "</tool_responses>"),
    ("function_results", "</function_results>"),
    ("function", "</function>"),
    ("invoke", "</invoke>"),
    // The whole name, which goes before its last part.
    ("minimax:tool_call", "</minimax:tool_call>"),
];

/// Special tokens of particular models, as text. Full-width letters count as plain ones.
const TOKENS: &[(&str, Mark)] = &[
    // Magistral.
    ("[THINK]", Mark::Think),
    ("[/THINK]", Mark::Thought),
    // Kimi.
    ("◁think▷", Mark::Think),
    ("◁/think▷", Mark::Thought),
    ("<|tool_calls_section_begin|>", Mark::Call("<|tool_calls_section_end|>")),
    ("<|tool_call_begin|>", Mark::Call("<|tool_call_end|>")),
    // Command.
    ("<|START_THINKING|>", Mark::Think),
    ("<|END_THINKING|>", Mark::Thought),
    ("<|START_RESPONSE|>", Mark::Silent),
    ("<|END_RESPONSE|>", Mark::Silent),
    ("<|START_ACTION|>", Mark::Call("<|END_ACTION|>")),
    // OpenThinker, Sky-T1.
    ("<|begin_of_thought|>", Mark::Think),
    ("<|end_of_thought|>", Mark::Thought),
    ("<|begin_of_solution|>", Mark::Answer),
    ("<|end_of_solution|>", Mark::Silent),
    // GLM.
    ("<|begin_of_box|>", Mark::Silent),
    ("<|end_of_box|>", Mark::Silent),
    // Apertus, and others with the same names.
    ("<|inner_prefix|>", Mark::Think),
    ("<|inner_suffix|>", Mark::Thought),
    ("<|think|>", Mark::Think),
    ("<|/think|>", Mark::Thought),
    // Gemma.
    ("<unused94>", Mark::Think),
    ("<unused95>", Mark::Thought),
    ("<|channel>", Mark::Think),
    ("<channel|>", Mark::Thought),
    ("<start_function_call>", Mark::Call("<end_function_call>")),
    ("<end_of_turn>", Mark::Silent),
    ("<start_of_turn>", Mark::Silent),
    // gpt-oss, around its channels.
    ("<|end|>", Mark::End),
    ("<|return|>", Mark::Silent),
    ("<|message|>", Mark::Silent),
    ("<|call|>", Mark::Silent),
    // LFM.
    ("<|tool_call_start|>", Mark::Call("<|tool_call_end|>")),
    // Ends and beginnings of messages in templates of many models, which servers forget to stop at.
    ("<|im_end|>", Mark::Silent),
    ("<|im_start|>", Mark::Silent),
    ("<|im_sep|>", Mark::Silent),
    ("<|endoftext|>", Mark::Silent),
    ("<|end_of_text|>", Mark::Silent),
    ("<|begin_of_text|>", Mark::Silent),
    ("<|eot_id|>", Mark::Silent),
    ("<|end_of_turn|>", Mark::Silent),
    ("<|END_OF_TURN_TOKEN|>", Mark::Silent),
    ("<|EOT|>", Mark::Silent),
    ("<|eos|>", Mark::Silent),
    ("<eos>", Mark::Silent),
    ("</s>", Mark::Silent),
    ("[/INST]", Mark::Silent),
    // Phi, Granite.
    ("<|tool_call|>", Mark::Call("<|/tool_call|>")),
    ("<|/tool_call|>", Mark::Silent),
    ("<|tool_response|>", Mark::Call("<|/tool_response|>")),
    // Mistral.
    ("[TOOL_CALLS]", Mark::Call("")),
    // Llama.
    ("<|python_tag|>", Mark::Call("<|eom_id|>")),
    ("<|eom_id|>", Mark::Silent),
    // DeepSeek.
    ("<|end▁of▁sentence|>", Mark::Silent),
    ("<|begin▁of▁sentence|>", Mark::Silent),
    ("<|DSML|function_calls>", Mark::Call("</|DSML|function_calls>")),
    ("<|tool▁calls▁begin|>", Mark::Call("<|tool▁calls▁end|>")),
    ("<|tool▁call▁begin|>", Mark::Call("<|tool▁call▁end|>")),
    ("<|tool▁calls▁end|>", Mark::Silent),
];

/// Headers of gpt-oss: `<|channel|>analysis<|message|>`, `<|start|>assistant<|channel|>...`.
const CHANNEL: &str = "<|channel|>";
const START: &str = "<|start|>";

/// Converts a full-width letter to a plain one.
pub(super) fn narrow(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

/// Returns true if a mark may begin with this letter.
pub(super) fn may_begin(c: char) -> bool {
    matches!(narrow(c), '<' | '[' | '◁')
}

/// Returns the mark at the beginning of the text. `end`: there is no more text.
pub(super) fn mark(text: &str, end: bool) -> Found {
    let found = [token(text), header(text), element(text)].into_iter().fold(
        Found::No,
        |best, next| match (best, next) {
            (Found::Yes(..), _) => best,
            (_, Found::Yes(..)) => next,
            (Found::More, _) => best,
            _ => next,
        },
    );
    match found {
        Found::More if end || text.len() > LONGEST => Found::No,
        Found::Yes(_, len) if len > LONGEST => Found::No,
        found => found,
    }
}

/// Compares the beginning of the text with `pattern`: found with its length in bytes, undecided if
/// the text is too short, or no match.
pub(super) fn begins(text: &str, pattern: &str) -> Found {
    let mut letters = text.char_indices();
    for wanted in pattern.chars() {
        match letters.next() {
            None => return Found::More,
            Some((_, c)) if narrow(c) == wanted => {}
            Some(_) => return Found::No,
        }
    }
    let len = letters.next().map_or(text.len(), |(at, _)| at);
    Found::Yes(Mark::Silent, len)
}

fn token(text: &str) -> Found {
    let mut more = false;
    for (token, mark) in TOKENS {
        match begins(text, token) {
            Found::Yes(_, len) => return Found::Yes(*mark, len),
            Found::More => more = true,
            Found::No => {}
        }
    }
    if more { Found::More } else { Found::No }
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
        // To whom the message goes: `commentary to=functions.f`.
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
    let thinks = THINKING.split(' ').any(|known| known == bare);
    let known =
        |name: &str| CALLING.iter().find(|(known, _)| *known == name).map(|(_, close)| *close);
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
    calls: Option<&'static str>,
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
        Some(close) => Mark::Call(close),
    };
    Found::Yes(mark, len)
}

/// Returns whether the incomplete name of a tag may still become a known one.
fn likely(name: &str) -> Found {
    let bare = name.rsplit(':').next().unwrap_or_default();
    let known = THINKING.split(' ').chain(CALLING.iter().map(|(name, _)| *name));
    // A prefix before a colon may be anything.
    let short = !name.contains(':') && name.len() <= 12;
    if known.into_iter().any(|known| known.starts_with(bare)) || short {
        Found::More
    } else {
        Found::No
    }
}
