//! What a person sees of a conversation: answers on standard output, everything else beside it; or
//! the frames as they are. Not for deciding anything.

use std::io::Write as _;

use serde_json::Value;

/// Where messages are shown.
pub(super) struct Screen {
    /// Frames only.
    json: bool,
    /// What of the answer under way stands there already.
    streamed: String,
    /// Standard output stands in the midst of a line.
    mid_line: bool,
}

impl Screen {
    /// For people, or for programs.
    pub(super) fn new(json: bool) -> Self {
        Self { json, streamed: String::new(), mid_line: false }
    }

    /// Shows a message, also given as it came.
    pub(super) fn show(&mut self, text: &str, message: &Value) -> anyhow::Result<()> {
        if self.json {
            return crate::commands::print(text);
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

    /// Shows a call of a tool of this terminal.
    pub(super) fn called(&mut self, call: &Value, result: &Value) -> anyhow::Result<()> {
        self.interrupt()?;
        let outcome = if result["success"] == true {
            result["result"].to_string()
        } else {
            format!("failed: {}", word(result, "error"))
        };
        self.note(&format!("[{}({}) here: {outcome}]", word(call, "tool_name"), call["arguments"]))
    }

    /// A line for people, beside the answers.
    pub(super) fn note(&self, text: &str) -> anyhow::Result<()> {
        if self.json { Ok(()) } else { crate::commands::note(text) }
    }

    /// Invites the person to type.
    pub(super) fn prompt(&self) -> anyhow::Result<()> {
        let mut stderr = std::io::stderr();
        write!(stderr, "> ")?;
        Ok(stderr.flush()?)
    }

    /// What comes next gets a line of its own; the answer goes on below.
    fn interrupt(&mut self) -> anyhow::Result<()> {
        if std::mem::take(&mut self.mid_line) { write("\n") } else { Ok(()) }
    }
}

/// A text field of a message; empty where there is none.
pub(super) fn word<'a>(message: &'a Value, field: &str) -> &'a str {
    message[field].as_str().unwrap_or_default()
}

/// An error message, for people.
fn fault(message: &Value) -> String {
    let (code, words) = (word(message, "code"), word(message, "message"));
    match word(message, "details") {
        "" => format!("{code}: {words}"),
        details => format!("{code}: {words} ({details})"),
    }
}

/// What is told of a message that is no answer.
fn beside(kind: &str, message: &Value) -> Option<String> {
    match kind {
        "status" => {
            let id = message["data"]["session_id"].as_str()?;
            let ended = message["data"]["ended_session_id"].as_str();
            Some(ended.map_or_else(|| format!("session {id}"), |_| format!("new session {id}")))
        }
        "tool_call" => {
            let outcome = if message["success"] == true { "" } else { "failed: " };
            let (name, time) = (word(message, "tool_name"), &message["duration_ms"]);
            let (arguments, result) = (&message["arguments"], &message["result"]);
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

/// What is to be written after `begun`, so that the whole answer stands there; with its line end.
fn remainder(begun: &str, whole: &str) -> String {
    match whole.strip_prefix(begun) {
        Some(rest) => format!("{rest}\n"),
        // The pieces were not those of the answer: it counts.
        None => format!("\n{whole}\n"),
    }
}

/// To standard output, at once; a reader that has gone away is no error.
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
    fn what_is_no_answer_is_told_in_a_line() {
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
