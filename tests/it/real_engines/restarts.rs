//! The embedded model before and after a restart: its prompt cache of tools is in files. Not for dialogues.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::server::{LOADING, LOOK_EVERY, engines, free_ports, health_of};

/// A running `hearken-engines llm`.
struct Model {
    child: Child,
    port: u16,
}

/// An answer, the number of cached tokens of its prompt, and its duration.
#[derive(Debug)]
struct Answer {
    content: Value,
    calls: Vec<Value>,
    cached_tokens: u64,
    took: Duration,
}

impl Model {
    async fn start(engines: &Path, prompts: &Path) -> Self {
        let [port] = free_ports();
        let child = Command::new(engines)
            .args(["llm", "--listen", &format!("127.0.0.1:{port}"), "--prompt-cache"])
            .arg(prompts)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let start = Instant::now();
        while health_of(port).await["status"] != "ok" {
            assert!(start.elapsed() < LOADING, "the model is not ready");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Self { child, port }
    }

    async fn ask(&self, request: &Value) -> Answer {
        let url = format!("http://127.0.0.1:{}/v1/chat/completions", self.port);
        let begun = Instant::now();
        let answer = reqwest::Client::new().post(url).json(request).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        let tokens = |field: &Value| field.as_u64().unwrap_or_else(|| panic!("{answer}"));
        let message = &answer["choices"][0]["message"];
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        Answer {
            content: message["content"].clone(),
            calls: calls.iter().map(|call| call["function"].clone()).collect(),
            cached_tokens: tokens(&answer["usage"]["prompt_tokens_details"]["cached_tokens"]),
            took: begun.elapsed(),
        }
    }

    /// `kill -9`.
    async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Tools of a household, about 1,000 tokens.
fn tools() -> Vec<Value> {
    let tool = |n: usize| {
        let room = ["kitchen", "bathroom", "bedroom", "hall", "cellar", "garden"][n % 6];
        json!({"type": "function", "function": {
            "name": format!("set_lamp_{n}"),
            "description": format!("Turn lamp number {n} in the {room} on or off, and set how bright it is."),
            "parameters": {"type": "object", "required": ["on"], "properties": {
                "on": {"type": "boolean", "description": "Whether it shines"},
                "brightness": {"type": "integer", "minimum": 0, "maximum": 100},
            }},
        }})
    };
    (1..=8).map(tool).collect()
}

/// A question, or a prefetch of the tools only.
fn request(question: Option<&str>) -> Value {
    let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
    let mut request = json!({"model": "m", "temperature": 0, "tools": tools()});
    match question {
        Some(question) => messages.push(json!({"role": "user", "content": question})),
        None => (request["service_tier"], request["max_tokens"]) = ("flex".into(), 1.into()),
    }
    request["messages"] = messages.into();
    request
}

/// The state files in this folder of prompts.
fn state(folder: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|end| end == "state")).collect()
}

#[tokio::test]
async fn the_prompt_cache_of_tools_survives_a_restart() {
    let Some(engines) = engines() else { return };
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("prompts");
    let question = request(Some("Turn lamp number 3 on."));

    let model = Model::start(&engines, &prompts).await;
    let ahead = model.ask(&request(None)).await;
    let warm = model.ask(&question).await;
    model.kill().await;
    assert!(ahead.cached_tokens < 10 && warm.cached_tokens > 500, "{ahead:?} {warm:?}");
    let kept = state(&prompts);
    assert_eq!(kept.len(), 1, "only the tools are stored, no question: {kept:?}");

    let model = Model::start(&engines, &prompts).await;
    let first = model.ask(&question).await;
    model.kill().await;
    eprintln!(
        "{} tokens of tools: read in {:.1?}; a question then {:.1?}, the first after a restart {:.1?}",
        warm.cached_tokens, ahead.took, warm.took, first.took
    );
    assert_eq!(first.cached_tokens, warm.cached_tokens, "the state came from the file");
    let said = |answer: &Answer| (answer.content.clone(), answer.calls.clone());
    assert_eq!(said(&first), said(&warm), "and the answer is the same");
    assert_eq!(first.calls.len(), 1, "{first:?}");

    let mut bytes = std::fs::read(&kept[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&kept[0], bytes).unwrap();
    let model = Model::start(&engines, &prompts).await;
    let anew = model.ask(&question).await;
    model.kill().await;
    assert!(anew.cached_tokens < 10, "a changed file is not used: {anew:?}");
    assert_eq!(said(&anew), said(&warm));
    assert_eq!(state(&prompts), [""; 0].map(std::path::PathBuf::from), "and it is deleted");
}
