//! Detection of code in an answer's text: between backticks on one line, and between fences. Not
//! for the display of code.

/// Maximum look-ahead for the backticks that close a span, and for a fence's language, in bytes.
const AHEAD: usize = 256;

/// Languages of fenced blocks that contain tool calls.
const CALLING: [&str; 4] = ["tool_code", "tool_call", "tool_calls", "function_call"];

/// Position of the text relative to code.
#[derive(Debug)]
pub(super) struct Code {
    state: CodeState,
    /// True while the line consists of blanks so far.
    line_begins: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeState {
    Plain,
    /// In a span that opened with this number of backticks.
    Span(usize),
    /// In a block that opened with this number of these characters.
    Fence(char, usize),
}

/// Meaning of a run of backticks.
pub(super) enum Span {
    /// Undecided: more text is needed.
    Waits,
    /// Text of this length, in bytes.
    Text(usize),
    /// Opening of a block with a tool call, of this length in bytes.
    Call(usize),
}

impl Default for Code {
    fn default() -> Self {
        Self { state: CodeState::Plain, line_begins: true }
    }
}

impl Code {
    /// Advances over text without backticks and line feeds.
    pub(super) fn pass(&mut self, text: &str) {
        self.line_begins &= text.trim().is_empty();
    }

    /// Advances over a line feed, which ends any span.
    pub(super) fn line(&mut self) {
        self.line_begins = true;
        if let CodeState::Span(_) = self.state {
            self.state = CodeState::Plain;
        }
    }

    /// Returns true in a fenced block.
    pub(super) fn fenced(&self) -> bool {
        matches!(self.state, CodeState::Fence(..))
    }

    /// Returns true at the beginning of a line outside code.
    pub(super) fn begins_line(&self) -> bool {
        self.state == CodeState::Plain && self.line_begins
    }

    /// Reads a run of backticks or tildes.
    pub(super) fn ticks(&mut self, text: &str, end: bool) -> Span {
        let sign = text.chars().next().unwrap_or('`');
        let len = text.len() - text.trim_start_matches(sign).len();
        if len == text.len() && !end {
            return Span::Waits;
        }
        let fence = self.line_begins && len >= 3;
        match self.state {
            CodeState::Fence(open, least) if fence && sign == open && len >= least => {
                self.state = CodeState::Plain;
            }
            CodeState::Fence(..) => {}
            CodeState::Plain if fence => {
                let line = text[len..].find('\n').map(|at| &text[len..len + at]);
                if line.is_none() && !end && text.len() - len < AHEAD {
                    return Span::Waits;
                }
                let language = line.map(str::trim).unwrap_or_default();
                if CALLING.contains(&language) {
                    return Span::Call(len + line.map_or(0, str::len));
                }
                self.state = CodeState::Fence(sign, len);
            }
            CodeState::Plain if sign == '`' => self.state = CodeState::Span(len),
            CodeState::Span(open) if sign == '`' && len == open => self.state = CodeState::Plain,
            _ => {}
        }
        self.line_begins = false;
        Span::Text(len)
    }

    /// Returns true if a mark is in a code span that closes on this line. `behind` is the text
    /// after the mark. Returns none if more text is needed. On false, the open span was not code.
    pub(super) fn holds(&mut self, behind: &str, end: bool) -> Option<bool> {
        let CodeState::Span(open) = self.state else { return Some(false) };
        // Further text does not matter: a long line would be read again for each of its marks.
        let near = &behind[..behind.floor_char_boundary(2 * AHEAD)];
        let end = end && near.len() == behind.len();
        let behind = near;
        let line = behind.split('\n').next().unwrap_or_default();
        let mut at = 0;
        let mut sure = line.len() < behind.len() || end || line.len() > AHEAD;
        while let Some(next) = line[at..].find('`') {
            let from = at + next;
            let len = line[from..].len() - line[from..].trim_start_matches('`').len();
            // A run at the end of the text may continue.
            let whole = from + len < behind.len() || end;
            if from <= AHEAD && len == open && whole {
                return Some(true);
            }
            if !whole {
                sure = from > AHEAD;
            }
            at = from + len;
        }
        if sure {
            self.state = CodeState::Plain;
            return Some(false);
        }
        None
    }
}
