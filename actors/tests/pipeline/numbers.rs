//! Numbers on their way from a model to tools and back: they arrive as they were written, even if a
//! float could not represent them. Not for tools outside the pipeline.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_base::testkit::numbers;
use hearken_dialogue::testkit::LlmAct;
use hearken_ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use serde_json::{Value, json};

use crate::{freeze, speak, start};

/// Returns the arguments of its calls, and stores them.
#[derive(Default)]
struct Echo(Arc<Mutex<Vec<String>>>);

impl ToolSource for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn tools(&self) -> Arc<[Tool]> {
        let number = json!({"type": "number"});
        let parameters = json!({"type": "object", "properties": {
            "numbers": {"type": "array", "items": number},
            "whole": {"type": "integer", "minimum": 0},
        }});
        let name = "echo".to_owned();
        let description = "Says it back.".to_owned();
        [Tool { name, description, parameters, finishes: false, destructive: false }].into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let text = Value::Object(call.arguments).to_string();
        self.0.lock().unwrap().push(text.clone());
        Box::pin(std::future::ready(Ok(ToolOutput::text(text))))
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

#[actix::test]
async fn numbers_reach_a_tool_and_the_model_as_they_were_written() {
    freeze();
    let source = Arc::new(Echo::default());
    // Enough for all of them in one result.
    let mut settings = PipelineSettings::default();
    settings.tools.max_result_bytes = 64 << 10;
    let mut pipeline = TestPipeline::connect_with(settings, vec![source.clone()]);
    pipeline.greet(1).await;
    start(&pipeline, "auto");
    let written = numbers::written();
    let arguments = format!(r#"{{"numbers":{}}}"#, numbers::array(&written));
    let arguments: &'static str = Box::leak(arguments.into_boxed_str());
    pipeline.script.thinks(LlmAct::Call("", vec![("echo", arguments)]));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    let expected = format!(r#"{{"numbers":{}}}"#, numbers::array_kept(&written));
    assert_eq!(*source.0.lock().unwrap(), std::slice::from_ref(&expected));
    assert!(pipeline.script.last_prompt().contains(&format!("Tool: {expected}")));
    pipeline.hang_up().await;
}

/// The schema is checked against the written number, not its float.
#[actix::test]
async fn large_whole_numbers_are_integers_to_a_schema() {
    freeze();
    let source = Arc::new(Echo::default());
    let mut pipeline =
        TestPipeline::connect_with(PipelineSettings::default(), vec![source.clone()]);
    pipeline.greet(1).await;
    start(&pipeline, "auto");
    let large = r#"{"whole": 340282366920938463463374607431768211457}"#;
    let calls = [
        large,
        r#"{"whole": 18446744073709551616}"#,
        r#"{"whole": -18446744073709551616}"#,
        r#"{"whole": 18446744073709551616.5}"#,
    ];
    let calls = calls.map(|arguments| ("echo", arguments)).to_vec();
    pipeline.script.thinks(LlmAct::Call("", calls));
    speak(&pipeline).await;
    pipeline.until("tts/stop").await;
    let heard = [
        r#"{"whole":340282366920938463463374607431768211457}"#,
        r#"{"whole":18446744073709551616}"#,
    ];
    assert_eq!(*source.0.lock().unwrap(), heard);
    pipeline.hang_up().await;
}
