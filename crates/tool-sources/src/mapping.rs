//! Conversion of rmcp's types to those of the port: results and errors. Pure.

use std::error::Error;

use hearken_ports::{ToolContent, ToolError, ToolOutput};
use hearken_proto::json::weighed;
use rmcp::ServiceError;
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ResourceContents};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::Value;

/// Maximum size of the text of one result, in bytes; the loop that passes it to a model truncates
/// it further.
pub(super) const MAX_TEXT_BYTES: usize = 256 << 10;
/// Maximum size of a picture, in bytes of base64.
pub(super) const MAX_IMAGE_BYTES: usize = 6 << 20;

/// Converts a server's result; the size of text and pictures is limited.
pub(super) fn output(result: CallToolResult) -> ToolOutput {
    let mut answer = OutputBuilder::default();
    let mut texts = Vec::new();
    for block in result.content {
        match block {
            ContentBlock::Image(image) => answer.picture(image.mime_type, image.data),
            other => {
                let text = words(other);
                texts.push(text.clone());
                answer.text(text);
            }
        }
    }
    // Servers with structured results repeat them as text, for clients without support for
    // structure.
    if let Some(structure) = result.structured_content.filter(|s| !s.is_null())
        && !texts.iter().any(|t| value_of(t).is_some_and(|v| v == structure))
        && !texts.iter().any(|t| says_the_same(t, &structure))
    {
        answer.text(structure.to_string());
    }
    ToolOutput { content: answer.content, failed: result.is_error.unwrap_or(false) }
}

/// Builder of an output, which limits the size of text and pictures.
pub(super) struct OutputBuilder {
    pub(super) content: Vec<ToolContent>,
    room: usize,
}

impl Default for OutputBuilder {
    fn default() -> Self {
        Self { content: Vec::new(), room: MAX_TEXT_BYTES }
    }
}

impl OutputBuilder {
    /// Adds a picture, or a text in its place if it is too large.
    pub(super) fn picture(&mut self, mime_type: String, base64: String) {
        if base64.len() > MAX_IMAGE_BYTES {
            return self
                .text(format!("[a picture that is too large: {} bytes in base64]", base64.len()));
        }
        self.content.push(ToolContent::Image { mime_type, base64 });
    }

    /// Adds text up to the size limit.
    pub(super) fn text(&mut self, mut text: String) {
        if text.len() > self.room {
            if self.room == 0 {
                return;
            }
            let whole = text.len();
            let mut end = self.room;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text += &format!("\n[cut here: {whole} bytes in all]");
            self.room = 0;
        } else {
            self.room -= text.len();
        }
        self.content.push(ToolContent::Text(text));
    }
}

/// Parses a text that is not longer or heavier than the limits: a longer one is truncated, and is
/// not a repetition.
fn value_of(text: &str) -> Option<Value> {
    (text.len() <= MAX_TEXT_BYTES).then(|| weighed(text).ok()).flatten()
}

/// Returns true if `structure` is `{"result": x}`, in which Python servers wrap a bare value, and
/// `text` is that value.
fn says_the_same(text: &str, structure: &Value) -> bool {
    let Some(fields) = structure.as_object().filter(|f| f.len() == 1) else { return false };
    match fields.get("result") {
        Some(Value::String(words)) => words == text,
        Some(value) => value_of(text).is_some_and(|t| t == *value),
        None => false,
    }
}

/// Renders any content except a picture as text.
fn words(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Audio(audio) => format!("[audio: {}]", audio.mime_type),
        ContentBlock::ResourceLink(link) => {
            let title = link.title.unwrap_or(link.name);
            let about = link.description.map(|d| format!(": {d}")).unwrap_or_default();
            format!("[{title}]({}){about}", link.uri)
        }
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => text,
            ResourceContents::BlobResourceContents { uri, mime_type, .. } => {
                format!("[{}: {uri}]", mime_type.as_deref().unwrap_or("a file"))
            }
            _ => "[content of an unknown kind]".into(),
        },
        _ => "[content of an unknown kind]".into(),
    }
}

/// Converts the error of a call.
pub(super) fn error(error: &ServiceError, tool: &str) -> ToolError {
    match error {
        ServiceError::McpError(e) if e.code == ErrorCode::METHOD_NOT_FOUND => {
            ToolError::Unknown(tool.to_owned())
        }
        ServiceError::McpError(e) if e.code == ErrorCode::INVALID_PARAMS => {
            ToolError::Arguments(short(&e.message))
        }
        ServiceError::McpError(e) => ToolError::Failed(short(&e.message)),
        ServiceError::Timeout { timeout } => ToolError::Timeout(*timeout),
        ServiceError::TransportClosed => ToolError::Unavailable("the connection was lost".into()),
        ServiceError::TransportSend(e) => {
            ToolError::Unavailable(transport_reason(e.error.as_ref()))
        }
        ServiceError::UnexpectedResponse => {
            ToolError::Failed("the server's answer cannot be read".into())
        }
        other => ToolError::Failed(short(&other.to_string())),
    }
}

/// Error of rmcp's HTTP transport.
type HttpError = StreamableHttpError<reqwest::Error>;

/// Finds the HTTP client's own error inside an error of rmcp.
fn client_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a reqwest::Error> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(error) = current.downcast_ref::<reqwest::Error>() {
            return Some(error);
        }
        if let Some(HttpError::Client(error)) = current.downcast_ref::<HttpError>() {
            return Some(error);
        }
        cause = current.source();
    }
    None
}

/// Returns true if the request never reached the server and may be repeated.
pub(super) fn not_sent(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    client_error(error.error.as_ref()).is_some_and(reqwest::Error::is_connect)
}

/// Returns true if the server responded, though not with a message of the protocol.
pub(super) fn answered(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(error) = current.downcast_ref::<HttpError>() {
            return matches!(
                error,
                HttpError::HttpStatus(_)
                    | HttpError::UnexpectedServerResponse(_)
                    | HttpError::UnexpectedContentType(_)
                    | HttpError::UnexpectedEndOfStream
                    | HttpError::Deserialize(_)
                    | HttpError::SessionExpired
            );
        }
        cause = current.source();
    }
    false
}

/// Renders a transport error without the server's address, which may contain a key.
pub(super) fn transport_reason(error: &(dyn Error + 'static)) -> String {
    let mut root = match client_error(error) {
        Some(error) if error.is_timeout() => return "it did not answer in time".into(),
        Some(error) => match error.source() {
            Some(source) => source,
            None => return "the request could not be made".into(),
        },
        None => error,
    };
    while let Some(source) = root.source() {
        root = source;
    }
    short(&root.to_string())
}

/// Returns the first line, truncated at a maximum length.
pub(super) fn short(text: &str) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default().trim();
    let mut out: String = line.chars().take(300).collect();
    if out.len() < line.len() {
        out.push('…');
    }
    out
}

/// Checks the size of a tool's result.
#[cfg(feature = "fuzzing")]
pub(crate) fn is_bounded(output: ToolOutput) {
    let mut texts = 0;
    for part in &output.content {
        match part {
            ToolContent::Text(text) => texts += text.len(),
            ToolContent::Image { base64, .. } => assert!(base64.len() <= MAX_IMAGE_BYTES),
        }
    }
    assert!(texts <= MAX_TEXT_BYTES + 64, "{texts} bytes of text");
    for most in [10, 100, 8_192] {
        let told = hearken_dialogue::tools::outcome::render(Ok(output.clone()), most);
        assert!(told.len() <= most + 64 && !told.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from_json(json: Value) -> ToolOutput {
        output(serde_json::from_value(json).unwrap())
    }

    fn texts(output: &ToolOutput) -> Vec<&str> {
        let text = |c: &'_ ToolContent| matches!(c, ToolContent::Text(_));
        assert!(output.content.iter().all(text));
        output
            .content
            .iter()
            .filter_map(|c| match c {
                ToolContent::Text(t) => Some(t.as_str()),
                ToolContent::Image { .. } => None,
            })
            .collect()
    }

    #[test]
    fn every_kind_of_content_is_converted() {
        let result = from_json(json!({"isError": true, "content": [
            {"type": "text", "text": "好"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "b"},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///c", "blob": "AAAA"}},
        ]}));
        let text = |t: &str| ToolContent::Text(t.into());
        let image = ToolContent::Image { mime_type: "image/png".into(), base64: "AAAA".into() };
        let told = [
            text("好"),
            image,
            text("[audio: audio/wav]"),
            text("[a](file:///a): b"),
            text("inside"),
            text("[a file: file:///c]"),
        ];
        assert_eq!(result, ToolOutput { content: told.into(), failed: true });
    }

    #[test]
    fn structured_content_is_not_repeated() {
        let both = from_json(json!({"structuredContent": {"a": 1},
            "content": [{"type": "text", "text": "{\n \"a\": 1 }"}]}));
        assert_eq!(texts(&both), ["{\n \"a\": 1 }"]);
        let wrapped = from_json(json!({"structuredContent": {"result": "hi"},
            "content": [{"type": "text", "text": "hi"}]}));
        assert_eq!(texts(&wrapped), ["hi"]);
        let alone = from_json(json!({"structuredContent": {"a": 1}, "content": []}));
        assert_eq!(texts(&alone), ["{\"a\":1}"]);
        let different = from_json(json!({"structuredContent": {"a": 1},
            "content": [{"type": "text", "text": "one"}]}));
        assert_eq!(texts(&different), ["one", "{\"a\":1}"]);
    }

    #[test]
    fn long_results_are_truncated_between_characters() {
        let long = "字".repeat(1 << 20);
        let cut = from_json(json!({"content": [{"type": "text", "text": long},
            {"type": "text", "text": "more"}]}));
        let texts = texts(&cut);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].len() < MAX_TEXT_BYTES + 64);
        assert!(texts[0].ends_with("[cut here: 3145728 bytes in all]"));
        let image = from_json(json!({"content": [{"type": "image", "mimeType": "image/png",
            "data": "A".repeat(MAX_IMAGE_BYTES + 1)}]}));
        assert!(matches!(&image.content[..], [ToolContent::Text(t)] if t.contains("too large")));
    }

    #[test]
    fn errors_have_one_line() {
        assert_eq!(short("\n a \nb"), "a");
        assert_eq!(short(&"x".repeat(500)).chars().count(), 301);
    }
}
