//! The JSON of the OpenAI chat API: what is asked, and the pieces of an answer, which compatible
//! bases are loose with. Not for HTTP.

use std::collections::VecDeque;

use hearken_actors::ports::{
    ChatMessage, LlmDelta, OfferedTool, Prompt, Role, ToolChoice, ToolRequest, Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::offered::offered;

/// Calls of one answer that are read; what is beyond is ignored.
const MAX_CALLS: usize = 64;

/// The request's JSON.
pub(super) fn order(model: &str, max_tokens: u32, prompt: &Prompt) -> Value {
    let messages: Vec<Value> = prompt.messages.iter().map(message).collect();
    let mut order = json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "max_tokens": max_tokens,
        "temperature": prompt.temperature,
    });
    let (tools, choice) = offered(prompt);
    if !tools.is_empty() {
        order["tools"] = tools.iter().map(tool).collect();
        let choice = if choice == ToolChoice::None { "none" } else { "auto" };
        order["tool_choice"] = choice.into();
    }
    order
}

fn tool(tool: &OfferedTool) -> Value {
    let OfferedTool { name, description, parameters } = tool;
    json!({
        "type": "function",
        "function": { "name": name, "description": description, "parameters": parameters },
    })
}

fn message(message: &ChatMessage) -> Value {
    let content = &message.content;
    match message.role {
        Role::System => json!({ "role": "system", "content": content }),
        Role::User => json!({ "role": "user", "content": content }),
        Role::Assistant if message.calls.is_empty() => {
            json!({ "role": "assistant", "content": content })
        }
        Role::Assistant => {
            let calls: Vec<Value> = message.calls.iter().map(past_call).collect();
            let content = (!content.is_empty()).then_some(content);
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        Role::Tool => {
            json!({ "role": "tool", "tool_call_id": message.answers, "content": content })
        }
    }
}

/// Has an answer end with what it cost.
pub(super) fn with_usage(mut order: Value) -> Value {
    order["stream_options"] = json!({ "include_usage": true });
    order
}

/// Arguments that are no JSON object, which the model itself wrote, would be refused by some bases.
fn past_call(call: &ToolRequest) -> Value {
    let well_written = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
    let arguments = if well_written { call.arguments.as_str() } else { "{}" };
    let function = json!({ "name": call.name, "arguments": arguments });
    json!({ "id": call.id, "type": "function", "function": function })
}

/// The pieces of an answer so far.
#[derive(Default)]
pub(super) struct Pieces {
    calls: Vec<PartialCall>,
    /// What can be handed on.
    pub(super) ready: VecDeque<LlmDelta>,
    /// The answer is complete; true where it was cut at its longest length.
    pub(super) finish: Option<bool>,
    /// What it cost, as last told: some bases tell it over and over.
    pub(super) usage: Option<Usage>,
}

/// A call that is still being written.
struct PartialCall {
    index: Option<u64>,
    request: ToolRequest,
}

impl Pieces {
    /// Reads one chunk.
    ///
    /// # Errors
    /// The chunk is none of a chat.
    pub(super) fn read(&mut self, chunk: &Value) -> Result<(), serde_json::Error> {
        let chunk = Chunk::deserialize(chunk)?;
        self.usage = usage(&chunk.usage).or(self.usage);
        // The last chunk may have none, where usage is told.
        let Some(choice) = chunk.choices.into_iter().next() else { return Ok(()) };
        let delta = choice.delta.unwrap_or_default();
        let text = delta.content.unwrap_or_default();
        if !text.is_empty() {
            self.ready.push_back(LlmDelta::Text(text));
        }
        for fragment in delta.tool_calls.unwrap_or_default() {
            self.join(fragment);
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            let calls = self.calls.drain(..).map(|call| LlmDelta::Call(call.request));
            self.ready.extend(calls);
            self.finish = Some(reason == "length");
        }
        Ok(())
    }

    /// A fragment belongs to the call of its index, or else of its id, or else to the last one.
    fn join(&mut self, fragment: Fragment) {
        let id = fragment.id.filter(|id| !id.is_empty());
        let (index, known) = (fragment.index, &mut self.calls);
        let place = match (index, &id) {
            (Some(index), _) => known.iter().position(|call| call.index == Some(index)),
            (None, Some(id)) => known.iter().position(|call| call.request.id == *id),
            (None, None) => known.len().checked_sub(1),
        };
        let place = place.unwrap_or(known.len());
        if place == known.len() {
            if known.len() >= MAX_CALLS {
                return;
            }
            if known.is_empty() {
                self.ready.push_back(LlmDelta::Calling);
            }
            let request =
                ToolRequest { id: String::new(), name: String::new(), arguments: String::new() };
            known.push(PartialCall { index, request });
        }
        let request = &mut known[place].request;
        let function = fragment.function.unwrap_or_default();
        // Some bases repeat id and name in every fragment.
        if let Some(id) = id.filter(|_| request.id.is_empty()) {
            request.id = id;
        }
        if let Some(name) = function.name.filter(|_| request.name.is_empty()) {
            request.name = name;
        }
        match function.arguments {
            Value::String(more) => request.arguments.push_str(&more),
            Value::Object(whole) => request.arguments = Value::Object(whole).to_string(),
            _ => {}
        }
    }
}

/// What an answer cost; what is not told of it counts as nothing.
fn usage(told: &Value) -> Option<Usage> {
    let count = |key: &str| told.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (prompt_tokens, completion_tokens) = (count("prompt_tokens"), count("completion_tokens"));
    told.is_object().then_some(Usage { prompt_tokens, completion_tokens })
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Delta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct Delta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Fragment>>,
}

#[derive(Deserialize)]
struct Fragment {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<Function>,
}

#[derive(Default, Deserialize)]
struct Function {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(deltas: &[Value]) -> Vec<String> {
        let mut pieces = Pieces::default();
        for delta in deltas {
            pieces.read(&json!({ "choices": [{ "delta": delta }] })).unwrap();
        }
        pieces.read(&json!({ "choices": [{ "finish_reason": "tool_calls" }] })).unwrap();
        let calls = pieces.ready.into_iter().filter_map(|delta| match delta {
            LlmDelta::Call(call) => Some(format!("{} {} {}", call.id, call.name, call.arguments)),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn calls_are_joined_from_whatever_pieces_a_base_sends() {
        let fragment = |index: Value, id: Value, name: Value, arguments: Value| json!({ "index": index, "id": id, "function": { "name": name, "arguments": arguments } });
        let null = || Value::Null;
        // OpenAI: two calls by index, mixed.
        let deltas = [
            json!({ "tool_calls": [fragment(0.into(), "a".into(), "f".into(), "".into())] }),
            json!({ "tool_calls": [fragment(1.into(), "b".into(), "g".into(), "{}".into())] }),
            json!({ "tool_calls": [fragment(0.into(), null(), null(), "{\"x\":".into())] }),
            json!({ "tool_calls": [fragment(0.into(), "".into(), null(), "1}".into())] }),
        ];
        assert_eq!(read(&deltas), ["a f {\"x\":1}", "b g {}"]);
        // No index, whole calls at once, arguments as an object.
        let deltas = [json!({ "tool_calls": [
            fragment(null(), "a".into(), "f".into(), json!({ "x": 1 })),
            fragment(null(), "b".into(), "g".into(), null()),
        ] })];
        assert_eq!(read(&deltas), ["a f {\"x\":1}", "b g "]);
        // No index, id and name repeated.
        let deltas = [
            json!({ "tool_calls": [fragment(null(), "a".into(), "f".into(), "{".into())] }),
            json!({ "tool_calls": [fragment(null(), "a".into(), "f".into(), "}".into())] }),
        ];
        assert_eq!(read(&deltas), ["a f {}"]);
        // No ids at all.
        let deltas =
            [json!({ "tool_calls": [fragment(0.into(), null(), "f".into(), "{}".into())] })];
        assert_eq!(read(&deltas), [" f {}"]);
        assert_eq!(read(&[json!({ "content": "hi", "tool_calls": null })]), [""; 0]);
    }

    #[test]
    fn what_an_answer_cost_is_read_wherever_it_stands() {
        let read = |chunks: &[Value]| {
            let mut pieces = Pieces::default();
            chunks.iter().for_each(|chunk| pieces.read(chunk).unwrap());
            pieces.usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens))
        };
        let end =
            |usage: Value| json!({ "choices": [{ "finish_reason": "stop" }], "usage": usage });
        let cost = |written: u64| json!({ "prompt_tokens": 7, "completion_tokens": written });
        assert_eq!(read(&[end(cost(3))]), Some((7, 3)));
        assert_eq!(
            read(&[end(Value::Null), json!({ "choices": [], "usage": cost(3) })]),
            Some((7, 3))
        );
        assert_eq!(read(&[json!({ "choices": [], "usage": cost(1) }), end(cost(2))]), Some((7, 2)));
        assert_eq!(read(&[end(json!({ "prompt_tokens": "many" }))]), Some((0, 0)));
        assert_eq!(read(&[end(Value::Null)]), None);
    }

    #[test]
    fn badly_written_arguments_are_not_sent_back() {
        let call = |arguments: &str| {
            let arguments = arguments.to_owned();
            ToolRequest { id: "a".into(), name: "f".into(), arguments }
        };
        let sent = |arguments| past_call(&call(arguments))["function"]["arguments"].clone();
        assert_eq!(sent("{\"x\": 1}"), "{\"x\": 1}");
        assert_eq!(sent("{\"x\": "), "{}");
        assert_eq!(sent("7"), "{}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_fragments_are_survived(fragments in proptest::collection::vec(
            (proptest::option::of(0_u64..200), proptest::option::of("[ab]{0,1}"), ".{0,4}"), 0..100)) {
            let mut pieces = Pieces::default();
            for (index, id, arguments) in fragments {
                let fragment = json!({ "index": index, "id": id, "function": { "arguments": arguments } });
                pieces.read(&json!({ "choices": [{ "delta": { "tool_calls": [fragment] } }] })).unwrap();
            }
            prop_assert!(pieces.calls.len() <= MAX_CALLS);
        }
    }
}
