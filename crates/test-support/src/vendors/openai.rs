//! Stubs of the OpenAI-compatible vendors: chat, transcriptions, speech. Not for WebSockets.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::sockets::{gone, read_request, respond, respond_in_pieces, respond_status};
use super::{Behaviour, SLOW, Says, Shared, Stub};

/// Complete output of a model with [`Behaviour::Thinking`].
const THOUGHTS: &str = "<think>\nThey ask for something. What would I say?\n</think>\n\n";

/// A stub of the chat API.
pub struct OpenAiChat;

impl OpenAiChat {
    /// Replies `reply` to everything, four characters at a time. If tools with a city parameter are
    /// offered, it also calls each of them, until it receives a result. For `call NAME ARGUMENTS`,
    /// one per line, it makes these calls.
    pub async fn start(behaviour: Behaviour, reply: &str) -> Stub {
        Stub::start("http", "/v1", behaviour, reply.into(), chat).await
    }

    /// Replies `reply` of the last message. If that is `call NAME ARGUMENTS`, and the message is
    /// not a tool's, it makes that call.
    pub async fn answering(reply: fn(&[u8]) -> String) -> Stub {
        Stub::start("http", "/v1", Behaviour::Normal, Says::Answer(reply), chat).await
    }
}

/// A stub of the transcription API.
pub struct OpenAiTranscriptions;

impl OpenAiTranscriptions {
    /// Returns `transcript` for everything.
    pub async fn start(behaviour: Behaviour, transcript: &str) -> Stub {
        Stub::start("http", "/v1", behaviour, transcript.into(), transcribe).await
    }
}

/// A stub of the speech API.
pub struct OpenAiSpeech;

impl OpenAiSpeech {
    /// Answers every sentence with the same sound, split within samples.
    pub async fn start(behaviour: Behaviour) -> Stub {
        Stub::start("http", "/v1", behaviour, "".into(), synthesise).await
    }
}

/// Reads the request, and answers it if the behaviour is the same for every vendor. A probe is not counted.
pub(super) async fn begin(
    stream: &mut TcpStream,
    shared: &Shared,
    path: &str,
) -> Option<(Behaviour, Vec<u8>)> {
    let request = read_request(stream).await?;
    let behaviour = shared.behaviour();
    let right = request.head.starts_with(&format!("POST {path} "));
    let is_probe = request.head.starts_with("GET ");
    shared.note(|seen| {
        if is_probe {
            return;
        }
        seen.requests += 1;
        seen.texts.push(request.head.clone());
        if let Some(file) = request.body.windows(4).position(|four| four == b"RIFF") {
            seen.audio_messages += 1;
            seen.audio_bytes += request.body.len() - file;
        } else {
            seen.texts.push(String::from_utf8_lossy(&request.body).into_owned());
        }
    });
    match behaviour {
        Behaviour::HttpStatus(401, wait) if is_probe => respond_status(stream, 401, wait).await,
        _ if !right => respond(stream, 404, "", b"no such path").await,
        Behaviour::HttpStatus(status, wait) => respond_status(stream, status, wait).await,
        Behaviour::Silent => while !gone(stream, Duration::from_secs(3_600)).await {},
        _ => return Some((behaviour, request.body)),
    }
    None
}

async fn chat(mut stream: TcpStream, shared: Shared) {
    let Some((behaviour, body)) = begin(&mut stream, &shared, "/v1/chat/completions").await else {
        return;
    };
    let event = |value: serde_json::Value| format!("data: {value}\n\n").into_bytes();
    let chunk = |delta: serde_json::Value, reason: Option<&str>| {
        event(json!({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }],
        }))
    };
    let mut pieces = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    if let Some(error) = refusal(behaviour, &body) {
        return respond(&mut stream, 400, "", error.to_string().as_bytes()).await;
    }
    let last = messages(&body).last().unwrap();
    let asked = last["content"].as_str().unwrap();
    let mut words = words(behaviour, &shared, asked);
    let calls = match (asked.trim(), &*words) {
        _ if behaviour == Behaviour::Thinking => Vec::new(),
        _ if behaviour == Behaviour::Insistent => wanted_calls(&std::mem::take(&mut words)),
        _ if last["role"] == "tool" && behaviour != Behaviour::Obedient => Vec::new(),
        (asked, _) if asked.starts_with("call ") => wanted_calls(asked),
        (_, reply) if reply.starts_with("call ") => {
            let wanted = wanted_calls(reply);
            words.clear();
            wanted
        }
        _ if last["role"] == "tool" => Vec::new(),
        _ => calls(&body["tools"]),
    };
    let reason = if calls.is_empty() { "stop" } else { "tool_calls" };
    let words: Vec<char> = words.chars().collect();
    if behaviour != Behaviour::Empty {
        for few in words.chunks(4) {
            pieces.push(chunk(json!({ "content": few.iter().collect::<String>() }), None));
        }
        pieces.extend(calls.into_iter().map(|call| chunk(json!({ "tool_calls": [call] }), None)));
    }
    match behaviour {
        Behaviour::Garbage => pieces = vec![b"data: no JSON\n\n".to_vec()],
        // The first piece has no words yet: stop after some.
        Behaviour::ResetMidStream => pieces = vec![pieces[..2].concat(), Vec::new()],
        _ => {
            let read = 10 * messages(&body).len();
            let written = pieces.len() - 1;
            let reason = Some(reason).filter(|_| behaviour != Behaviour::Unended);
            pieces.push(chunk(json!({}), reason));
            let asked = body["stream_options"]["include_usage"] == true;
            match behaviour {
                Behaviour::Lingering => return linger(&mut stream, &pieces).await,
                Behaviour::Untold => {}
                _ if asked => pieces.push(event(cost(read, written))),
                _ => {}
            }
            pieces.push(b"data: [DONE]\n\n".to_vec());
        }
    }
    respond_in_pieces(&mut stream, behaviour, "text/event-stream", &pieces).await.ok();
}

fn words(behaviour: Behaviour, shared: &Shared, asked: &str) -> String {
    match behaviour {
        Behaviour::Thinking => THOUGHTS.to_owned(),
        _ => shared.words(asked.as_bytes()),
    }
}

/// The error for unsupported fields; an old server gives no details.
fn refusal(behaviour: Behaviour, body: &serde_json::Value) -> Option<serde_json::Value> {
    let fields: &[&str] = match behaviour {
        Behaviour::Old => &["stream_options"],
        Behaviour::Newer => &["max_tokens", "temperature"],
        _ => &[],
    };
    let field = fields.iter().find(|field| body.get(**field).is_some())?;
    if behaviour == Behaviour::Old {
        return Some(json!({ "error": { "message": "the stub was told to", "code": null } }));
    }
    Some(json!({ "error": {
        "message": format!("Unsupported parameter: '{field}' is not supported with this model."),
        "type": "invalid_request_error", "param": field, "code": "unsupported_parameter",
    } }))
}

fn messages(body: &serde_json::Value) -> &[serde_json::Value] {
    body["messages"].as_array().unwrap()
}

/// The chunk with the usage of an answer.
fn cost(read: usize, written: usize) -> serde_json::Value {
    let usage = json!({ "prompt_tokens": read, "completion_tokens": written,
                        "total_tokens": read + written });
    json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub",
            "choices": [], "usage": usage })
}

/// Sends an incomplete answer, and waits for the client to disconnect.
async fn linger(stream: &mut TcpStream, pieces: &[Vec<u8>]) {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let whole = [head.as_slice(), &pieces.concat()].concat();
    if stream.write_all(&whole).await.is_ok() {
        while !gone(stream, Duration::from_secs(3_600)).await {}
    }
}

/// A call of each offered tool with a city parameter, in interleaved fragments, as OpenAI may send them.
fn calls(tools: &serde_json::Value) -> Vec<serde_json::Value> {
    let mut tools = tools.as_array().cloned().unwrap_or_default();
    tools.retain(|tool| tool["function"]["parameters"]["properties"]["city"].is_object());
    let begun = tools.iter().enumerate().map(|(n, tool)| {
        let function = json!({ "name": tool["function"]["name"], "arguments": "" });
        json!({ "index": n, "id": format!("call-{n}"), "type": "function", "function": function })
    });
    let fragments = ["{\"city\":", " \"柏林\"}"].into_iter().flat_map(|arguments| {
        let fragment = move |n| json!({ "index": n, "function": { "arguments": arguments } });
        (0..tools.len()).map(fragment)
    });
    begun.chain(fragments).collect()
}

/// The calls in these lines: `call NAME ARGUMENTS`.
fn wanted_calls(lines: &str) -> Vec<serde_json::Value> {
    lines.lines().enumerate().map(|(n, line)| wanted_call(n, line)).collect()
}

fn wanted_call(n: usize, line: &str) -> serde_json::Value {
    let wanted = line.strip_prefix("call ").unwrap();
    let (name, arguments) = wanted.split_once(' ').unwrap();
    let function = json!({ "name": name, "arguments": arguments });
    json!({ "index": n, "id": format!("call-{n}"), "type": "function", "function": function })
}

async fn transcribe(mut stream: TcpStream, shared: Shared) {
    let Some((behaviour, _)) = begin(&mut stream, &shared, "/v1/audio/transcriptions").await else {
        return;
    };
    let words = if behaviour == Behaviour::Empty { String::new() } else { shared.words(&[]) };
    let answer = json!({ "text": words }).to_string().into_bytes();
    match behaviour {
        Behaviour::Garbage => respond(&mut stream, 200, "", b"no JSON").await,
        _ => {
            let (first, second) = answer.split_at(answer.len() / 2);
            let pieces = [first.to_vec(), second.to_vec()];
            respond_in_pieces(&mut stream, behaviour, "application/json", &pieces).await.ok();
        }
    }
}

async fn synthesise(mut stream: TcpStream, shared: Shared) {
    let Some((behaviour, _)) = begin(&mut stream, &shared, "/v1/audio/speech").await else {
        return;
    };
    match behaviour {
        Behaviour::Garbage => {
            respond(&mut stream, 200, "content-type: text/html\r\n", b"<html></html>").await;
        }
        Behaviour::Empty => respond(&mut stream, 200, "content-type: audio/pcm\r\n", b"").await,
        _ => {
            let sound = shared.sound("");
            let pieces: Vec<Vec<u8>> = sound.chunks(2_401).map(<[u8]>::to_vec).collect();
            respond_in_pieces(&mut stream, behaviour, "audio/pcm", &pieces).await.ok();
        }
    }
    gone(&mut stream, SLOW).await;
}
