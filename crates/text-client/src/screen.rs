//! Terminal output of a conversation: answers on standard output, everything else on standard
//! error; or the unchanged frames. Not for decisions.

use std::io::Write as _;

use hearken_base::output;
use serde_json::Value;

/// Terminal output.
pub(super) struct Screen {
    /// True to print frames only.
    json: bool,
    /// Part of the current answer that is already printed.
    streamed: String,
    /// True if standard output is within a line.
    mid_line: bool,
}

impl Screen {
    /// Creates the output, for people or, with `json`, for programs.
    pub(super) fn new(json: bool) -> Self {
        Self { json, streamed: String::new(), mid_line: false }
    }

    /// Prints a message, which is also passed as received.
    pub(super) fn show(&mut self, text: &str, message: &Value) -> anyhow::Result<()> {
        if self.json {
            return Ok(output::print(text)?);
        }
        match word(message, "type") {
            "llm_delta" => {
                let piece = word(message, "content");
                self.streamed.push_str(piece);
                self.mid_line = !self.streamed.ends_with('\n');
                write(piece)
            }
            "llm_response" => {
                let content = word(message, "content");
                let begun = std::mem::take(&mut self.streamed);
                write(&remainder(&begun, content))?;
                self.mid_line = false;
                if message["cancelled"] == true { self.note("cancelled") } else { Ok(()) }
            }
            kind => {
                let Some(line) = beside(kind, message) else { return Ok(()) };
                self.interrupt()?;
                if kind == "error" {
                    self.streamed.clear();
                }
                self.note(&line)
            }
        }
    }

    /// Prints a call of a tool of this terminal.
    pub(super) fn called(&mut self, call: &Value, result: &Value) -> anyhow::Result<()> {
        self.interrupt()?;
        let outcome = if result["success"] == true {
            result["result"].to_string()
        } else {
            format!("failed: {}", word(result, "error"))
        };
        self.note(&format!("[{}({}) here: {outcome}]", word(call, "tool_name"), call["arguments"]))
    }

    /// Prints a line for people on standard error.
    pub(super) fn note(&self, text: &str) -> anyhow::Result<()> {
        if self.json { Ok(()) } else { Ok(output::note(text)?) }
    }

    /// Prints the input prompt.
    pub(super) fn prompt(&self) -> anyhow::Result<()> {
        let mut stderr = std::io::stderr();
        write!(stderr, "> ")?;
        Ok(stderr.flush()?)
    }

    /// Ends the current line of an answer, which continues later on a new line.
    fn interrupt(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.mid_line) { write("\n") } else { Ok(()) }
    }
}

/// Returns a text field of a message; empty if it is missing.
pub(super) fn word<'a>(message: &'a Value, field: &str) -> &'a str {
    message[field].as_str().unwrap_or_default()
}

/// Renders an error message for people.
fn fault(message: &Value) -> String {
    let code = word(message, "code");
    let words = word(message, "message");
    match word(message, "details") {
        "" => format!("{code}: {words}"),
        details => format!("{code}: {words} ({details})"),
    }
}

/// Renders a message that is not an answer.
fn beside(kind: &str, message: &Value) -> Option<String> {
    match kind {
        "status" => {
            let id = message["data"]["session_id"].as_str()?;
            let ended = message["data"]["ended_session_id"].as_str();
            Some(ended.map_or_else(|| format!("session {id}"), |_| format!("new session {id}")))
        }
        "tool_call" => {
            let outcome = if message["success"] == true { "" } else { "failed: " };
            let name = word(message, "tool_name");
            let time = &message["duration_ms"];
            let arguments = &message["arguments"];
            let result = &message["result"];
            Some(format!("[{name}({arguments}) at the server: {outcome}{result}, {time} ms]"))
        }
        "tools_registered" => {
            let tools = message["tools"].as_array().into_iter().flatten();
            let tools = tools.map(|tool| match word(tool, "error") {
                "" => word(tool, "name").to_owned(),
                error => format!("{} ({error})", word(tool, "name")),
            });
            Some(format!("tools: {}", tools.collect::<Vec<_>>().join(", ")))
        }
        "error" => Some(fault(message)),
        _ => None,
    }
}

/// Returns the rest of the answer after the printed part `begun`, with its line end.
fn remainder(begun: &str, whole: &str) -> String {
    match whole.strip_prefix(begun) {
        Some(rest) => format!("{rest}\n"),
        // The streamed pieces differ from the answer: the answer takes precedence.
        None => format!("\n{whole}\n"),
    }
}

/// Writes to standard output and flushes it; a closed reader is not an error.
fn write(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_written_once() {
        assert_eq!(remainder("", "Good day."), "Good day.\n");
        assert_eq!(remainder("Good", "Good day."), " day.\n");
        assert_eq!(remainder("Good day.", "Good day."), "\n");
        assert_eq!(remainder("Gd", "Good day."), "\nGood day.\n");
    }

    #[test]
    fn other_messages_are_printed_in_one_line() {
        let told = |message: Value| beside(word(&message, "type"), &message);
        let tools = json!([
            { "name": "a", "status": "registered" },
            { "name": "b..", "status": "failed", "error": "bad name" },
        ]);
        for (message, line) in [
            (json!({ "type": "pong" }), None),
            (json!({ "type": "status", "status": "processing", "data": {} }), None),
            (json!({ "type": "status", "data": { "session_id": "x" } }), Some("session x")),
            (
                json!({ "type": "tools_registered", "tools": tools }),
                Some("tools: a, b.. (bad name)"),
            ),
            (
                json!({ "type": "error", "code": "E", "message": "m", "details": "d" }),
                Some("E: m (d)"),
            ),
            (json!({ "type": "error", "code": "E", "message": "m" }), Some("E: m")),
            (
                json!({
                    "type": "tool_call", "tool_name": "t", "arguments": { "a": 1 },
                    "result": {}, "success": false, "duration_ms": 1.5,
                }),
                Some("[t({\"a\":1}) at the server: failed: {}, 1.5 ms]"),
            ),
        ] {
            assert_eq!(told(message).as_deref(), line);
        }
    }
}
