//! A stub of Anthropic's Messages API, in the formats of its documentation. Requests are not
//! checked: tests inspect the recorded ones.

use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::openai::begin;
use super::sockets::{respond, respond_in_pieces};
use super::{Behaviour, Shared, Stub};

/// A stub of the Messages API.
pub struct AnthropicMessages;

impl AnthropicMessages {
    /// Replies `reply` to everything, four characters at a time. If tools with a city parameter are
    /// offered, it also calls each of them, until it receives a result. For `error TYPE`, it ends
    /// with that error after its first words.
    pub async fn start(behaviour: Behaviour, reply: &str) -> Stub {
        Stub::start("http", "", behaviour, reply.into(), messages).await
    }
}

fn event(value: &Value) -> Vec<u8> {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap()).into_bytes()
}

/// One block of an answer: its start, its deltas, its end.
fn block(index: usize, opening: &Value, deltas: Vec<Value>) -> Vec<Vec<u8>> {
    let start = json!({ "type": "content_block_start", "index": index, "content_block": opening });
    let middle = deltas
        .into_iter()
        .map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta }));
    let stop = json!({ "type": "content_block_stop", "index": index });
    std::iter::once(start).chain(middle).chain([stop]).map(|e| event(&e)).collect()
}

async fn messages(mut stream: TcpStream, shared: Shared) {
    let Some((behaviour, body)) = begin(&mut stream, &shared, "/v1/messages").await else {
        return;
    };
    let body: Value = serde_json::from_slice(&body).unwrap();
    if behaviour == Behaviour::Old && !body["temperature"].is_null() {
        let error = json!({ "type": "error", "error": {
            "type": "invalid_request_error", "message": "`temperature` is deprecated for this model.",
        } });
        return respond(&mut stream, 400, "", error.to_string().as_bytes()).await;
    }
    let pieces = answer(&shared, behaviour, &body);
    let kind = "text/event-stream; charset=utf-8";
    respond_in_pieces(&mut stream, behaviour, kind, &pieces).await.ok();
}

fn answer(shared: &Shared, behaviour: Behaviour, body: &Value) -> Vec<Vec<u8>> {
    let last = body["messages"].as_array().unwrap().last().unwrap();
    let blocks = last["content"].as_array().unwrap();
    let asked = blocks.last().unwrap()["text"].as_str().unwrap_or_default();
    let told = blocks.iter().any(|block| block["type"] == "tool_result");
    let usage = json!({ "input_tokens": 10, "cache_creation_input_tokens": 0,
                        "cache_read_input_tokens": 2, "output_tokens": 1 });
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [],
                          "model": "stub", "stop_reason": null, "usage": usage });
    let mut pieces = vec![
        event(&json!({ "type": "message_start", "message": message })),
        event(&json!({ "type": "ping" })),
    ];
    let words: Vec<char> = shared.words(asked.as_bytes()).chars().collect();
    let words = words.chunks(4).map(|few| few.iter().collect::<String>());
    let deltas: Vec<Value> =
        words.map(|text| json!({ "type": "text_delta", "text": text })).collect();
    let calls = if told { Vec::new() } else { calls(&body["tools"]) };
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let output = deltas.len() + calls.len();
    if behaviour != Behaviour::Empty {
        pieces.extend(block(0, &json!({ "type": "text", "text": "" }), deltas));
        pieces.extend(calls.into_iter().flatten());
    }
    if behaviour == Behaviour::Garbage {
        return vec![b"event: message_start\ndata: no JSON\n\n".to_vec()];
    }
    if behaviour == Behaviour::ResetMidStream {
        // The first pieces have no words yet: stop after some.
        return vec![pieces[..4].concat(), Vec::new()];
    }
    if let Some(kind) = asked.strip_prefix("error ") {
        let error = json!({ "type": kind, "message": "as you said" });
        pieces.truncate(4);
        pieces.push(event(&json!({ "type": "error", "error": error })));
        return pieces;
    }
    pieces.push(event(&json!({
        "type": "message_delta", "usage": { "output_tokens": output },
        "delta": { "stop_reason": reason, "stop_sequence": null },
    })));
    pieces.push(event(&json!({ "type": "message_stop" })));
    pieces
}

/// A call of each offered tool with a city parameter, with its arguments in pieces as the API sends them.
fn calls(tools: &Value) -> Vec<Vec<Vec<u8>>> {
    let tools = tools.as_array().cloned().unwrap_or_default();
    let takes_city = |tool: &&Value| tool["input_schema"]["properties"]["city"].is_object();
    let call = |(n, tool): (usize, &Value)| {
        let opening = json!({ "type": "tool_use", "id": format!("toolu_{n}"),
                              "name": tool["name"], "input": {} });
        let pieces = ["", "{\"city\":", " \"柏林\"}"];
        let deltas =
            pieces.map(|piece| json!({ "type": "input_json_delta", "partial_json": piece }));
        block(n + 1, &opening, deltas.to_vec())
    };
    tools.iter().filter(takes_city).enumerate().map(call).collect()
}
