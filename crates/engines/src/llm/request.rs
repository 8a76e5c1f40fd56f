//! Parser of the body of `POST /v1/chat/completions`: OpenAI's JSON to a validated [`Generation`],
//! or an error that names the wrong field. Unknown fields are ignored.

use hearken_proto::json;
use serde_json::{Map, Value, json};

use super::generation::{Generation, Message, Role, Sampling, Tool, ToolCall, ToolChoice};

/// Limits, and defaults of missing fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum length of an answer, in tokens, if the request sets none: a minute of speech.
    pub default_max_tokens: u32,
    /// Maximum length of an answer that may be requested, in tokens; larger values are reduced to
    /// this.
    pub most_max_tokens: u32,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { default_max_tokens: 256, most_max_tokens: 2048 }
    }
}

/// Parsed request.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// Request to the model.
    pub generation: Generation,
    /// True if the answer is streamed.
    pub stream: bool,
    /// True if a streamed answer ends with its token counts.
    pub include_usage: bool,
}

/// Error in a body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// Description of the error.
    pub message: String,
    /// Path of the wrong field; `None` when the body is not a JSON object.
    pub param: Option<String>,
}

impl BadRequest {
    fn new(param: impl Into<String>, message: impl std::fmt::Display) -> Self {
        let param = param.into();
        Self { message: format!("{param}: {message}"), param: Some(param) }
    }
}

/// Maximum number of messages, tools and stop texts in one request.
const MOST_MESSAGES: usize = 2048;
const MOST_TOOLS: usize = 128;
const MOST_STOPS: usize = 16;
const LONGEST_TOOL_NAME: usize = 128;

/// Parses and validates a body.
pub fn parse(body: &[u8], limits: RequestLimits) -> Result<ChatRequest, BadRequest> {
    let fields = json::object(body)
        .map_err(|error| BadRequest { message: error.about("the body"), param: error.field() })?;
    let fields = Fields(&fields);
    if fields.integer("n", 1..=128)?.is_some_and(|n| n != 1) {
        return Err(BadRequest::new("n", "only one answer can be made"));
    }
    let tools = tools(&fields)?;
    let stream_options = fields.get("stream_options").and_then(Value::as_object);
    let generation = Generation {
        messages: messages(&fields)?,
        tool_choice: tool_choice(&fields, &tools)?,
        tools,
        sampling: sampling(&fields)?,
        max_tokens: max_tokens(&fields, limits)?,
        stop: stop(&fields)?,
        gives_way: fields.get("service_tier").and_then(Value::as_str) == Some("flex"),
    };
    Ok(ChatRequest {
        generation,
        stream: fields.boolean("stream")?.unwrap_or(false),
        include_usage: stream_options
            .and_then(|options| options.get("include_usage"))
            .and_then(Value::as_bool)
            .unwrap_or(false),
    })
}

/// Fields of one object; `null` counts as missing.
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn array(&self, key: &str, most: usize) -> Result<Option<&'a [Value]>, BadRequest> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let array = value.as_array().ok_or_else(|| BadRequest::new(key, "must be an array"))?;
        if array.len() > most {
            return Err(BadRequest::new(key, format!("at most {most} are allowed")));
        }
        Ok(Some(array))
    }

    fn boolean(&self, key: &str) -> Result<Option<bool>, BadRequest> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| BadRequest::new(key, "must be true or false"))
    }

    fn number(&self, key: &str, low: f64, high: f64) -> Result<Option<f32>, BadRequest> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64().filter(|number| (low..=high).contains(number)) {
            Some(number) => Ok(Some(number as f32)),
            None => Err(BadRequest::new(key, format!("must be a number from {low} to {high}"))),
        }
    }

    fn integer(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, BadRequest> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (low, high) = range.into_inner();
                Err(BadRequest::new(key, format!("must be a whole number from {low} to {high}")))
            }
        }
    }
}

fn max_tokens(fields: &Fields<'_>, limits: RequestLimits) -> Result<u32, BadRequest> {
    let range = || 1..=u64::from(u32::MAX);
    let asked = match fields.integer("max_completion_tokens", range())? {
        Some(asked) => Some(asked),
        None => fields.integer("max_tokens", range())?,
    };
    let most = limits.most_max_tokens;
    let asked =
        asked.map_or(limits.default_max_tokens, |asked| u32::try_from(asked).unwrap_or(most));
    Ok(asked.min(most))
}

fn sampling(fields: &Fields<'_>) -> Result<Sampling, BadRequest> {
    let usual = Sampling::default();
    let seed = match fields.get("seed") {
        None => None,
        Some(seed) => {
            Some(seed.as_i64().ok_or_else(|| BadRequest::new("seed", "must be a whole number"))?)
        }
    };
    Ok(Sampling {
        temperature: fields.number("temperature", 0.0, 2.0)?.unwrap_or(usual.temperature),
        top_p: fields.number("top_p", 0.0, 1.0)?.unwrap_or(usual.top_p).max(f32::EPSILON),
        frequency_penalty: fields.number("frequency_penalty", -2.0, 2.0)?.unwrap_or(0.0),
        presence_penalty: fields.number("presence_penalty", -2.0, 2.0)?.unwrap_or(0.0),
        // Both halves are used, so that two ordinary seeds never become equal.
        seed: seed.map(|seed| (seed as u32) ^ ((seed >> 32) as u32)),
    })
}

fn stop(fields: &Fields<'_>) -> Result<Vec<String>, BadRequest> {
    let texts = match fields.get("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => vec![text.clone()],
        Some(_) => {
            let array = fields.array("stop", MOST_STOPS)?.unwrap_or_default();
            let text = |value: &Value| value.as_str().map(str::to_owned);
            array
                .iter()
                .map(text)
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| BadRequest::new("stop", "must be a text or an array of texts"))?
        }
    };
    if texts.iter().any(String::is_empty) {
        return Err(BadRequest::new("stop", "must not be empty"));
    }
    Ok(texts)
}

fn messages(fields: &Fields<'_>) -> Result<Vec<Message>, BadRequest> {
    let array = fields
        .array("messages", MOST_MESSAGES)?
        .ok_or_else(|| BadRequest::new("messages", "is missing"))?;
    if array.is_empty() {
        return Err(BadRequest::new("messages", "must not be empty"));
    }
    array.iter().enumerate().map(|(index, value)| message(index, value)).collect()
}

fn message(index: usize, value: &Value) -> Result<Message, BadRequest> {
    let at = |field: &str| format!("messages[{index}].{field}");
    let object = value
        .as_object()
        .ok_or_else(|| BadRequest::new(format!("messages[{index}]"), "must be an object"))?;
    let role = match object.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => {
            let allowed = "must be system, developer, user, assistant or tool";
            return Err(BadRequest::new(at("role"), allowed));
        }
    };
    let tool_calls = match object.get("tool_calls") {
        Some(calls) if role == Role::Assistant && !calls.is_null() => {
            past_calls(&at("tool_calls"), calls)?
        }
        _ => Vec::new(),
    };
    let content = match object.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => text_parts(&at("content"), parts)?,
        None | Some(Value::Null) if role == Role::Assistant => String::new(),
        _ => return Err(BadRequest::new(at("content"), "must be a text or an array of texts")),
    };
    Ok(Message { role, content, tool_calls })
}

fn text_parts(path: &str, parts: &[Value]) -> Result<String, BadRequest> {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        let words = part.get("text").and_then(Value::as_str);
        match words.filter(|_| part.get("type").is_none_or(|kind| kind == "text")) {
            Some(words) => text.push_str(words),
            None => {
                return Err(BadRequest::new(format!("{path}[{index}]"), "only text is understood"));
            }
        }
    }
    Ok(text)
}

fn past_calls(path: &str, calls: &Value) -> Result<Vec<ToolCall>, BadRequest> {
    let calls = calls.as_array().ok_or_else(|| BadRequest::new(path, "must be an array"))?;
    let read = |(index, call): (usize, &Value)| {
        let at = |field: &str| format!("{path}[{index}].function.{field}");
        let function = call.get("function");
        let field = |key: &str| function.and_then(|f| f.get(key)).and_then(Value::as_str);
        let name = field("name").ok_or_else(|| BadRequest::new(at("name"), "must be a text"))?;
        let arguments = field("arguments").unwrap_or("{}");
        // Parsed and written again: text that is not JSON must not get into the prompt as JSON.
        let arguments: Value = match arguments.trim() {
            "" => json!({}),
            text => serde_json::from_str(text)
                .map_err(|_| BadRequest::new(at("arguments"), "must be JSON in a text"))?,
        };
        Ok(ToolCall { name: name.to_owned(), arguments: arguments.to_string() })
    };
    calls.iter().enumerate().map(read).collect()
}

fn tools(fields: &Fields<'_>) -> Result<Vec<Tool>, BadRequest> {
    let tools = fields.array("tools", MOST_TOOLS)?.unwrap_or_default();
    tools.iter().enumerate().map(|(index, value)| tool(index, value)).collect()
}

fn tool(index: usize, value: &Value) -> Result<Tool, BadRequest> {
    let at = |field: &str| format!("tools[{index}].{field}");
    if value.get("type").is_some_and(|kind| kind != "function") {
        return Err(BadRequest::new(at("type"), "must be function"));
    }
    let function = value
        .get("function")
        .and_then(Value::as_object)
        .ok_or_else(|| BadRequest::new(at("function"), "must be an object"))?;
    let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
    // Dots are allowed in addition to OpenAI's characters: a device's own tools have names like
    // `self.screen.set`.
    let sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > LONGEST_TOOL_NAME || !name.chars().all(sign) {
        let allowed = "must be 1 to 128 letters, digits, dots, underscores or hyphens";
        return Err(BadRequest::new(at("function.name"), allowed));
    }
    let parameters = match function.get("parameters") {
        None | Some(Value::Null) => json!({ "type": "object", "properties": {} }),
        Some(schema @ Value::Object(_)) => schema.clone(),
        Some(_) => {
            return Err(BadRequest::new(at("function.parameters"), "must be an object"));
        }
    };
    let description = function.get("description").and_then(Value::as_str).unwrap_or_default();
    Ok(Tool { name: name.to_owned(), description: description.to_owned(), parameters })
}

fn tool_choice(fields: &Fields<'_>, tools: &[Tool]) -> Result<ToolChoice, BadRequest> {
    let wrong = |message: &str| BadRequest::new("tool_choice", message);
    let choice = match fields.get("tool_choice") {
        None => return Ok(ToolChoice::Auto),
        Some(Value::String(word)) => match word.as_str() {
            "auto" => return Ok(ToolChoice::Auto),
            // Without tools there is no call to forbid.
            "none" if tools.is_empty() => return Ok(ToolChoice::Auto),
            "none" => return Ok(ToolChoice::None),
            "required" => ToolChoice::Required,
            _ => return Err(wrong("must be none, auto, required or an object naming a function")),
        },
        Some(object) => {
            let name = object.pointer("/function/name").and_then(Value::as_str);
            let name = name.ok_or_else(|| wrong("must name a function"))?;
            if !tools.iter().any(|tool| tool.name == name) {
                return Err(wrong("must name one of the tools"));
            }
            ToolChoice::Named(name.to_owned())
        }
    };
    if tools.is_empty() {
        return Err(wrong("needs tools"));
    }
    Ok(choice)
}

#[cfg(test)]
mod tests;
