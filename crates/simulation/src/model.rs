//! A language model and a tool that obey the text of a message; slow, failing or silent by the
//! seed. Not for checking the results.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_ports::{
    Llm, LlmDelta, Prompt, Provenance, ProviderError, ProviderErrorKind, Role, Tool, ToolCall,
    ToolError, ToolOutput, ToolRequest, ToolSource, Usage,
};
use serde_json::json;
use tokio::time::sleep;

use crate::judge::{Judge, Message};
use crate::life::Life;

/// Timeout of a service, as of real providers.
pub(crate) const PROVIDER_TIMEOUT: Duration = Duration::from_secs(30);

/// A model behind one instance.
pub(crate) struct Model {
    pub(crate) judge: Judge,
    pub(crate) life: Life,
    pub(crate) instance: usize,
}

/// The next step of the model.
#[derive(Clone, Copy)]
enum Step {
    Delta,
    Call(usize),
    Fail,
    Hang,
    Finish,
}

impl Llm for Model {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let said: Vec<Message> = prompt
            .messages
            .iter()
            .filter(|message| message.role == Role::User)
            .filter_map(|message| Message::in_text(&message.content))
            .collect();
        let message = *said.last().expect("a prompt ends with a message");
        let results = prompt.messages.iter().rev().take_while(|m| m.role != Role::User);
        let results = results.filter(|message| message.role == Role::Tool).count();
        let running = self.judge.model_begins(self.instance, message, &said, results);
        let steps = steps(&self.judge, message, results, prompt.tools.len());
        let judge = self.judge.clone();
        let deltas = stream::unfold((0, running), move |(at, running)| {
            let step = steps.get(at).copied();
            let judge = judge.clone();
            async move {
                let step = step?;
                sleep(judge.pause(5, 1_500)).await;
                running.goes_on();
                let delta = match step {
                    Step::Delta => Ok(LlmDelta::Text(format!("{} ", message.answer()))),
                    Step::Call(nth) => Ok(LlmDelta::Call(ToolRequest {
                        id: format!("call-{nth}"),
                        name: "mark".into(),
                        arguments: json!({ "message": message.text(), "nth": nth }).to_string(),
                        ..ToolRequest::default()
                    })),
                    // Refusals would make a dialogue forget its memory.
                    Step::Fail => {
                        Err(ProviderError::new("scripted", ProviderErrorKind::Unavailable))
                    }
                    // No other limit ends these turns: real providers have a deadline.
                    Step::Hang if !message.is_of_application() => {
                        sleep(PROVIDER_TIMEOUT).await;
                        Err(ProviderError::new("scripted", ProviderErrorKind::Timeout))
                    }
                    Step::Hang => std::future::pending().await,
                    Step::Finish => Ok(LlmDelta::Finished {
                        truncated: false,
                        usage: Some(Usage { prompt_tokens: 1, completion_tokens: 1, cost_nano: 0 }),
                    }),
                };
                Some((delta, (at + 1, running)))
            }
        });
        self.life.within_stream(deltas.boxed())
    }
}

/// Depends on the message, on its calls so far, and on the seed.
fn steps(judge: &Judge, message: Message, results: usize, tools: usize) -> Vec<Step> {
    let (fails, hangs) = judge.model_fails();
    let wanted = message.calls();
    let mut steps = vec![Step::Delta; judge.throw(0, 2)];
    match judge.throw(0, 1_000) as u32 {
        thrown if thrown < fails => steps.push(Step::Fail),
        thrown if thrown < fails + hangs => steps.push(Step::Hang),
        _ if results < wanted && tools > 0 => steps.push(Step::Call(results)),
        _ => steps.extend([Step::Delta; 2]),
    }
    if !matches!(steps.last(), Some(Step::Fail | Step::Hang)) {
        steps.push(Step::Finish);
    }
    steps
}

/// A tool that counts its calls for each message.
pub(crate) struct Marks {
    pub(crate) judge: Judge,
    pub(crate) life: Life,
}

impl ToolSource for Marks {
    fn name(&self) -> &str {
        "marks"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let parameters = json!({"type": "object", "properties": {
            "message": {"type": "string"}, "nth": {"type": "integer"}}});
        let name = "mark".into();
        let description = "Marks a message.".into();
        [Tool { name, description, parameters, finishes: false, destructive: false }].into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let judge = self.judge.clone();
        let life = self.life.clone();
        Box::pin(async move {
            let work = async {
                sleep(judge.pause(1, 300)).await;
                let text = call.arguments["message"].as_str().unwrap_or_default();
                let message = Message::in_text(text).expect("the model names the message");
                judge.tool_called(message, call.arguments["nth"].as_u64().unwrap_or_default());
                sleep(judge.pause(1, 3_000)).await;
                match judge.throw(0, 100) {
                    0 => std::future::pending().await,
                    1..4 => Err(ToolError::Failed("scripted".into())),
                    _ => Ok(ToolOutput::text("marked")),
                }
            };
            life.within(work).await
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn provenance(&self, tool: &str) -> Provenance {
        Provenance::trusted("marks", tool)
    }
}
