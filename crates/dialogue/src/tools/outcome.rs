//! Text for the model about the outcome of a call. Not for executing the call.

use hearken_ports::{ToolContent, ToolError, ToolOutput};

pub(super) type Outcome = Result<ToolOutput, ToolError>;

/// Text for the model if the person cut the call short. Its request may have been sent before that.
pub const CUT_SHORT: &str =
    "error: the person interrupted; the call was cancelled, and may have had its effect";

/// Text for the model if the person interrupted before the call was started.
pub const NOT_STARTED: &str = "error: the person interrupted; the call was not made";

/// Text for the model if the call was not started, because another one of its round ended the turn.
pub const NOT_REACHED: &str = "error: not called, because another call did not end in time";

/// Text for the model if the call continues though the person interrupted.
pub const GOES_ON: &str = "the person interrupted; the call goes on without its result";

/// Renders the result of a call as text of about `max_bytes` at most.
pub fn render(outcome: Result<ToolOutput, ToolError>, max_bytes: usize) -> String {
    let output = match outcome {
        Ok(output) => output,
        Err(error) => return cut(format!("error: {error}"), max_bytes),
    };
    let parts: Vec<String> = output.content.into_iter().map(part).collect();
    let text = match (parts.join("\n"), output.failed) {
        (text, true) => format!("error: {text}"),
        (text, false) if text.trim().is_empty() => "done".into(),
        (text, false) => text,
    };
    cut(text, max_bytes)
}

fn part(content: ToolContent) -> String {
    match content {
        ToolContent::Text(text) => text,
        ToolContent::Image { mime_type, base64 } => {
            format!("[{}, which you cannot see]", picture(&mime_type, base64.len()))
        }
    }
}

/// Renders a picture of this base64 size that a vision model has described.
pub(super) fn described(mime_type: &str, base64_bytes: usize, words: &str) -> String {
    format!("[{}, described by a model that sees: {words}]", picture(mime_type, base64_bytes))
}

/// Renders a picture of this base64 size that was not described, with the reason.
pub(super) fn not_described(mime_type: &str, base64_bytes: usize, why: &str) -> String {
    format!("[{}, which you cannot see: {why}]", picture(mime_type, base64_bytes))
}

fn picture(mime_type: &str, base64_bytes: usize) -> String {
    format!("a picture, {mime_type}, {} kB", base64_bytes * 3 / 4_000)
}

/// Cuts a text between characters and appends a note about the missing part.
fn cut(mut text: String, max_bytes: usize) -> String {
    if text.len() > max_bytes {
        let all = text.len();
        let end = (0..=max_bytes).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&format!("\n[cut here: {all} bytes in all]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_text_of_bounded_length() {
        assert_eq!(render(Ok(ToolOutput::text("22 °C")), 100), "22 °C");
        assert_eq!(render(Ok(ToolOutput::default()), 100), "done");
        let failed = ToolOutput { failed: true, ..ToolOutput::text("no such city") };
        assert_eq!(render(Ok(failed), 100), "error: no such city");
        let long = render(Ok(ToolOutput::text("好".repeat(2_000_000))), 100);
        assert_eq!(long, format!("{}\n[cut here: 6000000 bytes in all]", "好".repeat(33)));
        let image =
            ToolContent::Image { mime_type: "image/jpeg".into(), base64: "A".repeat(8_000) };
        let output = ToolOutput { content: vec![image], failed: false };
        assert_eq!(render(Ok(output), 100), "[a picture, image/jpeg, 6 kB, which you cannot see]");
        let error = render(Err(ToolError::Unknown("x".into())), 100);
        assert_eq!(error, "error: there is no tool `x`");
    }
}
