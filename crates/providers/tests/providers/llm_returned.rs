//! Fields that models require back with their calls: both rounds of a turn with a tool, at vendors
//! that enforce their rule. Streams of the first round are in `fixtures/fuzz`.

use std::path::Path;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt as _;
use hearken_ports::{
    ChatMessage, Llm, LlmDelta, OfferedTool, Prompt, ProviderError, ProviderErrorKind, Role,
    ToolRequest,
};
use hearken_providers::{LlmProvider, LlmSettings};
use hearken_test_support::vendors::{read_request, respond};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answers of a model once it has a result: the same in both APIs, which skip each other's events.
const SECOND: &str = concat!(
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Fine.\"},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Fine.\"}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
    "data: [DONE]\n\n",
);

/// Rule of a vendor: returns the error text for a request that violates it.
type Rule = fn(&Value) -> Option<String>;

/// Vendor that enforces a rule, and answers the first round with a stored stream.
struct Vendor {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Vendor {
    async fn start(stream: &str, rule: Rule) -> Self {
        let file = Path::new("../../fixtures/fuzz").join(stream);
        let first = std::fs::read(&file).unwrap_or_else(|error| panic!("{stream}: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(request) = read_request(&mut stream).await else { continue };
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                log.lock().unwrap().push(body.clone());
                if let Some(error) = rule(&body) {
                    let told = json!([{ "error": { "code": 400, "message": error } }]).to_string();
                    respond(&mut stream, 400, "", told.as_bytes()).await;
                    continue;
                }
                let has_result = body["messages"].to_string().contains("it is done");
                let events = if has_result { SECOND.as_bytes() } else { &first };
                respond(&mut stream, 200, "content-type: text/event-stream\r\n", events).await;
            }
        });
        Self { url, asked, task }
    }

    fn settings(&self, provider: LlmProvider) -> LlmSettings {
        let extra = match provider {
            LlmProvider::Anthropic => "thinking = { type = 'enabled', budget_tokens = 1024 }",
            LlmProvider::OpenAi => "",
        };
        LlmSettings {
            base_url: self.url.clone(),
            model: "m".into(),
            provider,
            extra: toml::from_str(extra).unwrap(),
            retry_within_ms: 0,
            ..LlmSettings::default()
        }
    }

    /// Returns the number of requests since the last call, and the last one.
    fn asked(&self) -> (usize, Value) {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        (asked.len(), asked.last().cloned().unwrap_or_default())
    }
}

impl Drop for Vendor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn prompt() -> Prompt {
    let tool = OfferedTool {
        name: "f".into(),
        description: "Does it.".into(),
        parameters: json!({ "type": "object", "properties": { "x": { "type": "integer" } } }),
    };
    let messages =
        vec![ChatMessage::new(Role::System, "Be brief."), ChatMessage::new(Role::User, "Do it.")];
    Prompt { messages, tools: [tool].into(), max_tokens: 2_000, ..Prompt::default() }
}

/// Asks, and returns the text and the calls of the answer.
async fn ask(llm: &dyn Llm, prompt: &Prompt) -> Result<(String, Vec<ToolRequest>), ProviderError> {
    let deltas: Vec<LlmDelta> = llm.reply(prompt.clone()).try_collect().await?;
    let mut text = String::new();
    let mut calls = Vec::new();
    for delta in deltas {
        match delta {
            LlmDelta::Text(words) => text += &words,
            LlmDelta::Call(call) => calls.push(call),
            _ => {}
        }
    }
    Ok((text, calls))
}

/// Asks a model, and returns it with the prompt after its calls.
async fn after_a_call(vendor: &Vendor) -> (Arc<dyn Llm>, Prompt) {
    let llm = hearken_providers::llm(&vendor.settings(LlmProvider::OpenAi)).unwrap();
    let mut prompt = prompt();
    let (_, calls) = ask(&*llm, &prompt).await.unwrap();
    add_round(&mut prompt, calls);
    (llm, prompt)
}

/// Adds a round of calls with their results.
fn add_round(prompt: &mut Prompt, calls: Vec<ToolRequest>) {
    let results = calls.iter().map(|call| ChatMessage::result(&call.id, "it is done"));
    let results: Vec<_> = results.collect();
    prompt.messages.push(ChatMessage::calling("", calls));
    prompt.messages.extend(results);
}

/// Returns the assistant's messages with calls.
fn with_calls(body: &Value) -> Vec<&Value> {
    let messages = body["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["tool_calls"].is_array()).collect()
}

fn gemini(body: &Value) -> Option<String> {
    let unsigned = with_calls(body).into_iter().find(|message| {
        let extra = &message["tool_calls"][0]["extra_content"];
        !extra["google"]["thought_signature"].is_string()
    })?;
    let name = unsigned["tool_calls"][0]["function"]["name"].as_str().unwrap();
    Some(format!(
        "Function call is missing a thought_signature in functionCall parts. This is required for \
         tools to work correctly. Additional data, function call `default_api:{name}`, position 2."
    ))
}

fn deepseek(body: &Value) -> Option<String> {
    let has =
        |message: &Value| message["reasoning_content"].as_str().is_some_and(|r| !r.is_empty());
    let told = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    (!with_calls(body).into_iter().all(has)).then(|| told.to_owned())
}

fn kimi(body: &Value) -> Option<String> {
    let told =
        "thinking is enabled but reasoning_content is missing in assistant tool call message";
    deepseek(body).map(|_| told.to_owned())
}

/// A gateway in front of Anthropic's models.
fn gateway(body: &Value) -> Option<String> {
    let details = json!([{ "type": "reasoning.text", "text": "They want f.",
        "format": "anthropic-claude-v1", "index": 0, "signature": "c2ln" }]);
    let has = |message: &Value| message["reasoning_details"] == details;
    (!with_calls(body).into_iter().all(has)).then(|| "`reasoning_details` are wrong".to_owned())
}

fn anthropic(body: &Value) -> Option<String> {
    if body["thinking"]["type"] != "enabled" {
        return None;
    }
    let thinking = json!([
        { "type": "thinking", "thinking": "They want f.", "signature": "EqQBCgIYAhIM" },
        { "type": "redacted_thinking", "data": "Em8K" },
    ]);
    let mut messages = body["messages"].as_array().unwrap().iter();
    let wrong = messages.find(|message| {
        let blocks = message["content"].as_array().unwrap();
        message["role"] == "assistant" && (blocks.len() < 3 || json!(blocks[..2]) != thinking)
    });
    wrong.map(|_| {
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
         `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a \
         thinking block."
            .to_owned()
    })
}

#[tokio::test]
async fn a_model_gets_back_what_it_requires_with_its_calls() {
    for (stream, rule, provider, id) in [
        ("openai_stream/gemini_call", gemini as Rule, LlmProvider::OpenAi, "function-call-15027"),
        ("openai_stream/deepseek_call", deepseek, LlmProvider::OpenAi, "call_00_a8Kd3Vn5pQ1xZ7"),
        ("openai_stream/kimi_call", kimi, LlmProvider::OpenAi, "functions.f:0"),
        ("openai_stream/gateway_call", gateway, LlmProvider::OpenAi, "toolu_01"),
        (
            "anthropic_stream/thinking_call",
            anthropic,
            LlmProvider::Anthropic,
            "toolu_01A09q90qw90lq917835lq9",
        ),
    ] {
        let vendor = Vendor::start(stream, rule).await;
        let llm = hearken_providers::llm(&vendor.settings(provider)).unwrap();
        let mut prompt = prompt();
        let (text, calls) = ask(&*llm, &prompt).await.unwrap();
        assert_eq!((&*text, calls.len(), vendor.asked().0), ("", 1, 1), "{stream}");
        let shown = format!("{calls:?}");
        assert!(!shown.contains("want f"), "reasoning is not shown: {shown}");
        let stored = serde_json::to_string(&calls).unwrap();
        assert!(!stored.contains("want f"), "reasoning is not stored: {stored}");
        add_round(&mut prompt, calls);
        let (text, _) = ask(&*llm, &prompt).await.unwrap();
        let (count, sent) = vendor.asked();
        assert_eq!((&*text, count), ("Fine.", 1), "{stream}: the second round succeeds at once");
        let id = format!("\"{id}\"");
        let ids = sent["messages"].to_string().matches(&id).count();
        assert_eq!(ids, 2, "{stream}: call and result have the id that the model wrote");
    }
}

#[tokio::test]
async fn a_call_that_another_model_made_is_sent_with_a_substitute() {
    for (stream, rule, provider) in [
        ("openai_stream/gemini_call", gemini as Rule, LlmProvider::OpenAi),
        ("openai_stream/deepseek_call", deepseek, LlmProvider::OpenAi),
        ("openai_stream/kimi_call", kimi, LlmProvider::OpenAi),
        ("anthropic_stream/thinking_call", anthropic, LlmProvider::Anthropic),
    ] {
        let vendor = Vendor::start(stream, rule).await;
        let other = Vendor::start(stream, rule).await;
        let others = hearken_providers::llm(&other.settings(provider)).unwrap();
        let (_, calls) = ask(&*others, &prompt()).await.unwrap();
        let llm = hearken_providers::llm(&vendor.settings(provider)).unwrap();
        let mut prompt = prompt();
        add_round(&mut prompt, calls);
        for requests in [if provider == LlmProvider::OpenAi { 2 } else { 1 }, 1] {
            let (text, _) = ask(&*llm, &prompt).await.unwrap();
            let (count, sent) = vendor.asked();
            assert_eq!((&*text, count), ("Fine.", requests), "{stream}: it is learnt once");
            assert!(sent["tools"].as_array().is_some_and(|tools| tools.len() == 1), "{stream}");
            let sent = sent.to_string();
            for foreign in ["want f", "EpwCCpkC=", "EqQBCgIYAhIM"] {
                assert!(!sent.contains(foreign), "{stream}: {foreign} is for its model only");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_that_remains_is_left_to_the_next_model() {
    fn always(body: &Value) -> Option<String> {
        (!with_calls(body).is_empty())
            .then(|| "thought_signature is not valid, function call `default_api:f`".to_owned())
    }
    let vendor = Vendor::start("openai_stream/gemini_call", always).await;
    let (llm, prompt) = after_a_call(&vendor).await;
    let error = ask(&*llm, &prompt).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::NotServed, "{error}");
    let (count, last) = vendor.asked();
    assert_eq!((count, last["tools"].as_array().map(Vec::len)), (3, Some(1)));
}

#[tokio::test]
async fn reasoning_that_a_model_refuses_is_left_out() {
    fn strict(body: &Value) -> Option<String> {
        let has = |message: &&Value| message["reasoning_content"].is_string();
        let told = "property 'reasoning_content' is unsupported";
        with_calls(body).iter().any(has).then(|| told.to_owned())
    }
    let vendor = Vendor::start("openai_stream/deepseek_call", strict).await;
    let (llm, prompt) = after_a_call(&vendor).await;
    vendor.asked();
    for requests in [2, 1] {
        assert_eq!(ask(&*llm, &prompt).await.unwrap().0, "Fine.");
        assert_eq!(vendor.asked().0, requests);
    }
}

#[tokio::test]
async fn ids_that_a_gateway_wrote_and_its_model_refuses_are_replaced() {
    fn mistral(body: &Value) -> Option<String> {
        let ids = with_calls(body).into_iter().map(|message| &message["tool_calls"][0]["id"]);
        let mut ids = ids.filter_map(Value::as_str);
        let id = ids.find(|id| id.len() != 9 || !id.bytes().all(|b| b.is_ascii_alphanumeric()))?;
        Some(format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."))
    }
    let vendor = Vendor::start("openai_stream/gemini_call", mistral).await;
    let (llm, prompt) = after_a_call(&vendor).await;
    vendor.asked();
    for requests in [2, 1] {
        assert_eq!(ask(&*llm, &prompt).await.unwrap().0, "Fine.");
        let (count, sent) = vendor.asked();
        let messages = &sent["messages"];
        assert_eq!(count, requests);
        assert_eq!(messages[2]["tool_calls"][0]["id"], messages[3]["tool_call_id"]);
    }
}
