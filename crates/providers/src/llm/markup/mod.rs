//! Filter for text that is not the answer, while it streams: thinking, and tool calls as text.
//! Thinking is never part of the answer. A text call of an offered tool becomes a real call, any
//! other is dropped. All other text stays unchanged.
//!
//! - The result does not depend on how the stream is split: text that may still become a mark is
//!   held back, at most 256 bytes.
//! - Thinking that never ends runs to the end of the answer. If the numbers of opening and closing
//!   marks differ, the answer is the text after the last closing mark.
//! - Some servers omit the opening mark: their answers start with thinking, which only the closing
//!   mark reveals. The first two such answers have been sent on by then. From the next answer on,
//!   all text is held back until that mark ([`Opening::Missing`]). Answers that may quote the mark
//!   from their prompt do not count.
//! - In a code span that closes on its line, and in a fenced block, marks are text. This makes an
//!   answer about `<think>` possible.
//! - An answer that starts with calls without marks is held back until that is decided, at most 8
//!   KiB of it; so is plain JSON on a new line after a few words.

mod bare_json;
mod beginning;
mod call;
mod code;
mod heads;
mod literal;
mod mark;
mod marks;
mod objects;
#[cfg(test)]
mod tests;
mod tokens;
mod written_calls;

use std::collections::VecDeque;
use std::sync::Arc;

use bare_json::Place;
use beginning::Beginning;
use code::{Code, Span};
use hearken_ports::{LlmDelta, OfferedTool, Prompt, ToolChoice, ToolRequest};
use mark::{Found, Mark, closes};
use marks::{mark, may_begin};

/// Maximum size of a tool call, and of text that is held back, in bytes. Longer ones are dropped.
const MOST_KEPT: usize = 64 << 10;
/// Maximum length of the words before calls as plain JSON, in bytes without blanks. After longer
/// texts, JSON is meant for the user.
const LONGEST_INTRODUCTION: usize = 100;
/// Maximum number of possible marks in the messages of a prompt that are compared with a mark, the
/// latest messages first.
const MAX_COMPARED: usize = 256;

/// Opening of a model's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// With the answer, or with a mark before thinking.
    Marked,
    /// With thinking, without a mark.
    Missing,
}

/// Filter of an answer's pieces, which removes text that is not the answer.
pub(super) struct AnswerFilter {
    tools: Arc<[OfferedTool]>,
    /// Undecided text.
    rest: String,
    mode: Mode,
    code: Code,
    /// Length of the blanks ahead, in bytes, before a text that is known to be no call.
    blanks: usize,
    /// Text that goes out with the next piece.
    out: String,
    spoken: bool,
    /// True until the first word of the answer.
    begins: bool,
    /// Length of the answer's text without blanks, in bytes, and its last letter.
    words: (usize, Option<char>),
    calling: bool,
    calls: usize,
    /// True if the answer was truncated at its maximum length.
    truncated: bool,
    /// True if the answer may have broken off.
    may_be_cut: bool,
    /// True if it broke off within a call.
    has_cut_call: bool,
    ready: VecDeque<LlmDelta>,
    /// Opening of this answer, once it is decided.
    began: Option<Opening>,
    /// True if the prompt contains a mark that ends thinking: the answer may quote it.
    may_quote: bool,
    /// Bytes that were moved, or skipped as blanks before calls without marks.
    #[cfg(test)]
    work: usize,
}

enum Mode {
    Text,
    /// Thinking, nested this deep. `since` is the text after the last inner end mark: it is the
    /// answer if no further end mark follows.
    Thinking {
        depth: u32,
        since: Option<String>,
    },
    /// Text so far of an answer that may start with thinking.
    Unsure(String),
    /// Tool call that ends with `close`. `dropped` is true if it is not a call, or is too long.
    Call {
        body: String,
        close: &'static str,
        dropped: bool,
    },
}

/// Outcome of one parsing step.
enum Step {
    Went,
    Waits,
}

impl AnswerFilter {
    /// Creates a filter for the answer to this prompt.
    pub(super) fn new(prompt: &Prompt, opening: Opening) -> Self {
        let may_call = prompt.tool_choice == ToolChoice::Auto;
        let tools = if may_call { Arc::clone(&prompt.tools) } else { Arc::default() };
        let mode = match opening {
            Opening::Marked => Mode::Text,
            Opening::Missing => Mode::Unsure(String::new()),
        };
        Self {
            tools,
            rest: String::new(),
            mode,
            code: Code::default(),
            blanks: 0,
            out: String::new(),
            spoken: false,
            begins: true,
            words: (0, None),
            calling: false,
            calls: 0,
            truncated: false,
            may_be_cut: false,
            has_cut_call: false,
            ready: VecDeque::new(),
            began: None,
            may_quote: opening == Opening::Marked && ends_thinking(prompt),
            #[cfg(test)]
            work: 0,
        }
    }

    /// Adds a piece of the answer, as its provider sent it.
    pub(super) fn push(&mut self, delta: LlmDelta) {
        match delta {
            LlmDelta::Text(text) => {
                self.rest.push_str(&text);
                self.read(false);
            }
            // The text before it is complete.
            LlmDelta::Calling => {
                self.read(true);
                self.call_begins();
            }
            LlmDelta::Call(mut request) => {
                self.hand_on();
                // `functions.f:0`: some models write the tool's namespace.
                if let Some(tool) = call::offered(&request.name, &self.tools) {
                    tool.name.clone_into(&mut request.name);
                }
                self.ready.push_back(LlmDelta::Call(request));
            }
            other => {
                self.hand_on();
                self.ready.push_back(other);
            }
        }
    }

    /// Records that the server sends thinking in separate fields: its text is the answer.
    pub(super) fn reasoning_is_separate(&mut self) {
        self.began = Some(Opening::Marked);
        if let Mode::Unsure(kept) = &mut self.mode {
            self.rest = std::mem::take(kept) + &self.rest;
            self.mode = Mode::Text;
            self.read(false);
        }
    }

    /// Marks the end of the answer. An unterminated call is made unless the answer was `truncated`:
    /// then its arguments are truncated, too.
    pub(super) fn end(&mut self, truncated: bool) {
        self.truncated = truncated;
        self.read(true);
    }

    /// Records that the answer may have broken off: an unterminated call is not made at its end.
    pub(super) fn may_be_cut(&mut self) {
        self.may_be_cut = true;
    }

    /// Reports whether the answer broke off within a call.
    pub(super) fn has_cut_call(&self) -> bool {
        self.has_cut_call
    }

    /// Returns the next piece that belongs to the answer.
    pub(super) fn pop(&mut self) -> Option<LlmDelta> {
        self.ready.pop_front()
    }

    /// Returns the opening of this answer, if it is decided and not only that of a quotation.
    pub(super) fn began(&self) -> Option<Opening> {
        self.began.filter(|opening| *opening == Opening::Marked || !self.may_quote)
    }

    /// Parses the text as far as it can be decided; all of it at its end.
    fn read(&mut self, end: bool) {
        loop {
            let rest = std::mem::take(&mut self.rest);
            let used = self.read_rest(&rest, end);
            self.rest = rest;
            // Once for all steps: a step may use a single byte of a long text.
            self.rest.drain(..used);
            #[cfg(test)]
            {
                self.work += self.rest.len();
            }
            if !end || !self.unhide() {
                break;
            }
        }
        self.hand_on();
    }

    /// Parses a text step by step. Returns the length of the part that is decided.
    fn read_rest(&mut self, rest: &str, end: bool) -> usize {
        let mut at = 0;
        loop {
            let left = &rest[at..];
            let (used, step) = match &self.mode {
                Mode::Text => self.text(left, end),
                Mode::Call { .. } => self.call(left, end),
                Mode::Thinking { .. } | Mode::Unsure(_) => self.hidden(left, end),
            };
            at += used;
            self.blanks = self.blanks.saturating_sub(used);
            if matches!(step, Step::Waits) || at == rest.len() {
                return at;
            }
        }
    }

    /// Restores held-back text that turns out to be the answer at the end. Returns true if there
    /// was some.
    fn unhide(&mut self) -> bool {
        let kept = match &mut self.mode {
            Mode::Thinking { since, .. } => since.take().unwrap_or_default(),
            Mode::Unsure(kept) => {
                self.began = self.began.or(Some(Opening::Marked));
                std::mem::take(kept)
            }
            Mode::Text | Mode::Call { .. } => String::new(),
        };
        if kept.trim().is_empty() {
            return false;
        }
        self.mode = Mode::Text;
        self.rest = kept;
        true
    }

    fn hand_on(&mut self) {
        if !self.out.is_empty() {
            self.ready.push_back(LlmDelta::Text(std::mem::take(&mut self.out)));
        }
    }

    fn say(&mut self, text: &str) {
        // Blanks between thinking and the answer.
        let hidden_before = self.began.is_some() && !self.spoken;
        let text = if hidden_before { text.trim_start() } else { text };
        self.spoken |= !text.is_empty();
        let letters = text.chars().filter(|c| !c.is_whitespace());
        for c in letters {
            self.begins = false;
            self.words = (self.words.0.saturating_add(c.len_utf8()), Some(c));
        }
        self.out.push_str(text);
    }

    /// Returns the place of the text if calls without marks may follow there.
    fn place(&self) -> Option<Place> {
        if self.tools.is_empty() || self.calls >= call::MAX_CALLS {
            return None;
        }
        if self.begins {
            return Some(if self.calls == 0 { Place::Start } else { Place::AfterCalls });
        }
        // A colon introduces JSON for the user.
        let (len, last) = self.words;
        let introduces = len <= LONGEST_INTRODUCTION && !matches!(last, Some(':' | '：'));
        (introduces && self.code.begins_line()).then_some(Place::AfterWords)
    }

    /// Reads the answer's text up to a possible mark, and one mark.
    fn text(&mut self, rest: &str, end: bool) -> (usize, Step) {
        if self.blanks == 0
            && let Some(place) = self.place()
        {
            match bare_json::beginning(rest, &self.tools, place, end) {
                Beginning::Unknown => return (0, Step::Waits),
                // Thinking may precede it.
                Beginning::Text => {
                    let behind = rest.trim_start();
                    self.begins &= behind.starts_with(may_begin);
                    self.blanks = rest.len() - behind.len();
                    #[cfg(test)]
                    {
                        self.work += self.blanks;
                    }
                }
                Beginning::Calls(calls, used) => {
                    self.make(calls);
                    return (used, Step::Went);
                }
            }
        }
        let special = |c: char| may_begin(c) || matches!(c, '`' | '~' | '\n');
        let at = rest.find(special).unwrap_or(rest.len());
        let (plain, special) = rest.split_at(at);
        self.code.pass(plain);
        self.say(plain);
        let Some(first) = special.chars().next() else { return (at, Step::Went) };
        let used = if matches!(first, '`' | '~') {
            match self.code.ticks(special, end) {
                Span::Waits => return (at, Step::Waits),
                Span::Call(len) => {
                    self.begins_call("```", false);
                    return (at + len, Step::Went);
                }
                Span::Text(len) => len,
            }
        } else if first == '\n' {
            self.code.line();
            1
        } else {
            match mark(special, end) {
                Found::More if !self.code.fenced() => return (at, Step::Waits),
                Found::Yes(found, len) if !self.code.fenced() => {
                    match self.code.holds(&special[len..], end) {
                        None => return (at, Step::Waits),
                        Some(true) => len,
                        Some(false) => {
                            self.marked(found, &special[..len]);
                            return (at + len, Step::Went);
                        }
                    }
                }
                _ => first.len_utf8(),
            }
        };
        if first != '\n' && !matches!(first, '`' | '~') {
            self.code.pass(&special[..used]);
        }
        self.say(&special[..used]);
        (at + used, Step::Went)
    }

    /// Handles a mark in the answer's text.
    fn marked(&mut self, mark: Mark, written: &str) {
        match mark {
            Mark::Think => {
                self.began = self.began.or(Some(Opening::Marked));
                self.mode = Mode::Thinking { depth: 1, since: None };
            }
            // All text before it was thinking, and has already been sent on.
            Mark::Thought if self.began.is_none() && self.calls == 0 => {
                self.began = Some(Opening::Missing);
            }
            Mark::Thought | Mark::Answer | Mark::End | Mark::Silent => {}
            Mark::Drop(close) => self.begins_call(close, true),
            Mark::Call(close) => {
                self.begins_call(close, false);
                // `<function=f>` contains the name of its tool.
                if let Mode::Call { body, .. } = &mut self.mode
                    && written.contains('=')
                {
                    body.push_str(written);
                }
            }
        }
    }

    fn begins_call(&mut self, close: &'static str, dropped: bool) {
        self.mode = Mode::Call { body: String::new(), close, dropped };
    }

    /// Reads thinking, or possible thinking, up to a possible mark, and one mark.
    fn hidden(&mut self, rest: &str, end: bool) -> (usize, Step) {
        let at = rest.find(|c| may_begin(c) || c == '`').unwrap_or(rest.len());
        let (plain, special) = rest.split_at(at);
        self.keep(plain);
        let Some(first) = special.chars().next() else { return (at, Step::Went) };
        // A mark between two backticks is quoted: it has no effect.
        let inner = special.strip_prefix('`').unwrap_or(special);
        if inner.is_empty() && !end {
            return (at, Step::Waits);
        }
        let (found, len) = match mark(inner, end) {
            Found::More => return (at, Step::Waits),
            Found::Yes(found, len) => (Some(found), len),
            Found::No => (None, 0),
        };
        let behind = inner[len..].chars().next();
        let used = if first == '`' {
            if found.is_some() && behind.is_none() && !end {
                return (at, Step::Waits);
            }
            if found.is_some() && behind == Some('`') { 1 + len } else { 1 }
        } else {
            if let Some(found) = found {
                self.turns(found, &special[..len]);
                return (at + len, Step::Went);
            }
            first.len_utf8()
        };
        self.keep(&special[..used]);
        (at + used, Step::Went)
    }

    /// Handles a mark in thinking, or in possible thinking.
    fn turns(&mut self, mark: Mark, written: &str) {
        match (&mut self.mode, mark) {
            (Mode::Unsure(_), Mark::Thought | Mark::Answer) => {
                self.began = Some(Opening::Missing);
                self.mode = Mode::Text;
            }
            // This answer has an opening mark: the text before it belongs to the answer.
            (Mode::Unsure(kept), Mark::Think | Mark::Call(_) | Mark::Drop(_)) => {
                let kept = std::mem::take(kept);
                self.mode = Mode::Text;
                self.began = Some(Opening::Marked);
                self.say(&kept);
                self.marked(mark, written);
            }
            (Mode::Thinking { depth, .. }, Mark::Think) => *depth = depth.saturating_add(1),
            (Mode::Thinking { depth, since }, Mark::Thought) if *depth > 1 => {
                *depth -= 1;
                *since = Some(String::new());
            }
            (Mode::Thinking { .. }, Mark::Thought | Mark::Answer | Mark::End) => {
                self.mode = Mode::Text;
            }
            (_, Mark::Call(_) | Mark::Drop(_)) => self.keep(written),
            _ => {}
        }
    }

    fn keep(&mut self, text: &str) {
        let kept = match &mut self.mode {
            Mode::Thinking { since: Some(kept), .. } | Mode::Unsure(kept) => kept,
            _ => return,
        };
        kept.push_str(text);
        if kept.len() > MOST_KEPT {
            self.mode = Mode::Thinking { depth: 1, since: None };
        }
    }

    /// Reads a tool call up to its end.
    fn call(&mut self, rest: &str, end: bool) -> (usize, Step) {
        let Mode::Call { body, close, dropped } = &mut self.mode else { return (0, Step::Waits) };
        let mut used = 0;
        let mut closed = false;
        for (at, _) in rest.char_indices() {
            used = at;
            match if close.is_empty() { Found::No } else { closes(&rest[at..], close) } {
                Found::Yes(_, len) => {
                    (used, closed) = (at + len, true);
                    break;
                }
                Found::More if !end => break,
                _ => {
                    let c = rest[at..].chars().next().unwrap_or_default();
                    *dropped |= body.len() >= MOST_KEPT;
                    if !*dropped {
                        body.push(c);
                    }
                    used = at + c.len_utf8();
                }
            }
        }
        let over = closed || (end && used == rest.len());
        if !over {
            return (used, Step::Waits);
        }
        // After some marks, a call has no closing one.
        let lacks_close = !closed && self.may_be_cut && !close.is_empty();
        self.has_cut_call |= lacks_close && !*dropped && !self.tools.is_empty();
        let is_cut = *dropped || lacks_close || (!closed && self.truncated);
        let body = if is_cut { String::new() } else { std::mem::take(body) };
        self.mode = Mode::Text;
        let calls = written_calls::calls(&body, closed, &self.tools);
        self.make(calls);
        (used, Step::Went)
    }

    /// Turns written calls, tools with their arguments, into real calls.
    fn make(&mut self, calls: Vec<(String, String)>) {
        for (name, arguments) in calls {
            self.hand_on();
            self.call_begins();
            self.calls += 1;
            let id = format!("call_{:016x}", fastrand::u64(..));
            self.ready.push_back(LlmDelta::Call(ToolRequest {
                id,
                name,
                arguments,
                ..ToolRequest::default()
            }));
        }
    }

    fn call_begins(&mut self) {
        if !self.calling {
            self.calling = true;
            self.ready.push_back(LlmDelta::Calling);
        }
    }
}

/// Returns true if a message of the prompt contains a mark that ends thinking.
fn ends_thinking(prompt: &Prompt) -> bool {
    let places = prompt.messages.iter().rev().flat_map(|message| {
        let text = message.content.as_str();
        text.match_indices(may_begin).map(move |(at, _)| &text[at..])
    });
    let ends = |place: &str| matches!(mark(place, true), Found::Yes(Mark::Thought, _));
    places.take(MAX_COMPARED).any(ends)
}

/// Returns a whole answer without text that is not the answer.
pub(crate) fn answer(text: &str) -> String {
    let mut screen = AnswerFilter::new(&Prompt::default(), Opening::Marked);
    screen.push(LlmDelta::Text(text.to_owned()));
    screen.end(false);
    let mut answer = String::new();
    while let Some(delta) = screen.pop() {
        if let LlmDelta::Text(text) = delta {
            answer.push_str(&text);
        }
    }
    // In a whole answer, thinking before a lone closing mark can be removed, too.
    match (screen.began(), text.rfind("</think>")) {
        (Some(Opening::Missing), Some(at)) => text[at + "</think>".len()..].trim_start().to_owned(),
        _ => answer,
    }
}
