//! Everything outside a device's pipeline that a life's events control: the recogniser, the model,
//! the synthesiser and the server's tools; and a record of their requests. Not for the device.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_dialogue::testkit::{AsrAct, LlmAct, Plan, TtsAct};
use hearken_ports::{
    Prompt, ProviderErrorKind as Kind, Role, Tool as Offered, ToolCall, ToolError, ToolOutput,
    ToolRequest, ToolSource,
};
use serde_json::json;

use super::events::{Handling, Hears, Model, Tool, Voice};
use super::trace::{Asked, Seen, Trace, numbers};
use crate::ms;

/// Texts that ports need while the process lives.
static QUESTIONS: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..100).map(|n| format!("question {n} please")).collect());
static ANSWERS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let sentences = |k| (0..3).map(move |n| format!("Answer {k} part {n}. ")).collect();
    (0..300).map(sentences).collect()
});

/// Returns the text of the `n`th question.
pub(crate) fn question(n: usize) -> &'static str {
    &QUESTIONS[n]
}

/// Returns the `n`th sentence of the answer to the `k`th prompt.
pub(crate) fn sentence(k: usize, n: usize) -> &'static str {
    &ANSWERS[k][n]
}

/// Reaction of the model to one prompt, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelAct {
    Writes {
        sentences: usize,
    },
    Calls,
    /// The model fails after this many sentences.
    Fails {
        sentences: usize,
    },
}

#[derive(Default)]
struct Known {
    handling: HashMap<usize, Handling>,
    /// Number of the question that is being spoken.
    spoken: usize,
    /// Reaction of the synthesiser to each prompt's answer.
    voices: Vec<Voice>,
}

/// Duration of a slow tool.
pub(super) const TOOL_TAKES: Duration = ms(2_000);
/// Time limit of all tools.
pub(super) const TOOL_LIMIT: Duration = ms(3_000);

/// Ports of one device's life.
pub(crate) struct Outside {
    known: Mutex<Known>,
    pub(crate) trace: Arc<Trace>,
}

impl Outside {
    pub(crate) fn new(trace: Arc<Trace>) -> Self {
        Self { known: Mutex::default(), trace }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nothing panics while it holds this")
    }

    /// Records how long the port that was just asked works.
    fn works_for(&self, time: Duration) {
        self.trace.note(Seen::Works(self.trace.now() + time));
    }

    /// Adds the next question with these reactions. Returns its number.
    pub(crate) fn asks(&self, handling: Handling) -> usize {
        let mut known = self.known();
        let number = known.handling.len();
        known.handling.insert(number, handling);
        number
    }

    /// Returns the number of questions so far.
    pub(crate) fn questions(&self) -> usize {
        self.known().handling.len()
    }

    /// Marks this question as being spoken from now on.
    pub(crate) fn speaks(&self, number: usize) {
        self.known().spoken = number;
    }

    /// Returns the reactions to this question.
    pub(crate) fn handling(&self, number: usize) -> Handling {
        self.known().handling.get(&number).copied().unwrap_or(Handling::ORDINARY)
    }
}

/// Maximum duration of a call, until the model is asked again.
const CALLS: Duration = ms(3_300);

/// Returns the duration of recognition after the end of the utterance.
pub(crate) fn recognises(hears: Hears) -> Duration {
    match hears {
        Hears::Words | Hears::Nothing | Hears::FullStop => ms(30),
        Hears::WordsLate => ms(1_500),
        Hears::Refuses | Hears::Resets => ms(0),
        Hears::Fails(kind) => failing(kind),
    }
}

/// Returns the duration of the model's answer.
fn thinks_for(act: &LlmAct) -> Duration {
    match act {
        LlmAct::Write(pieces, each) => *each * u32::try_from(pieces.len()).unwrap_or(u32::MAX),
        LlmAct::Call(..) | LlmAct::Requests(_) => CALLS,
        LlmAct::Fail(_, wait) => *wait,
        LlmAct::Break(..) => ms(0),
    }
}

/// Returns the duration of synthesis.
fn speaks_for(act: &TtsAct) -> Duration {
    match act {
        TtsAct::Audio { length, first, .. } => *first + *length / 100,
        TtsAct::Pieces(pieces) => pieces.iter().map(|(wait, _)| *wait).sum(),
        TtsAct::Fail(_, wait) | TtsAct::Recorded(_, wait) => *wait,
        TtsAct::Break(_) | TtsAct::Panic => ms(100),
    }
}

fn failing(kind: Kind) -> Duration {
    if kind == Kind::Timeout { ms(8_000) } else { ms(20) }
}

impl Plan for Outside {
    fn hears(&self) -> AsrAct {
        let number = self.known().spoken;
        let hears = self.handling(number).hears;
        self.trace.note(Seen::Opened(hears));
        let wait = recognises(hears);
        match hears {
            Hears::Words | Hears::WordsLate => AsrAct::Text(question(number), wait),
            Hears::Nothing => AsrAct::Text("", wait),
            Hears::FullStop => AsrAct::Text("。", wait),
            Hears::Refuses => AsrAct::Refuse,
            Hears::Resets => AsrAct::Reset,
            Hears::Fails(kind) => AsrAct::Fail(kind, wait),
        }
    }

    fn heard(&self, act: &AsrAct) {
        self.trace.note(Seen::Finished);
        if let AsrAct::Text(text, _) = act {
            for number in numbers(text, "question ") {
                self.trace.note(Seen::Heard(number));
            }
        }
    }

    fn thinks(&self, prompt: &Prompt) -> LlmAct {
        let last = prompt.messages.iter().rposition(|m| m.role == Role::User);
        let of_turn = &prompt.messages[last.unwrap_or_default()..];
        let round = of_turn.iter().filter(|m| !m.calls.is_empty()).count();
        let questions = last.map(|last| numbers(&prompt.messages[last].content, "question "));
        let questions = questions.unwrap_or_default();
        let handling = questions.last().map_or(Handling::ORDINARY, |n| self.handling(*n));
        let k = {
            let mut known = self.known();
            known.voices.push(handling.voice);
            known.voices.len() - 1
        };
        let (act, does) = act(handling.model, k, round);
        let messages = prompt.messages.clone();
        let tools = prompt.tools.iter().map(|t| t.name.clone()).collect();
        self.trace.note(Seen::Asked(Asked { k, questions, round, messages, tools, does }));
        self.works_for(thinks_for(&act));
        act
    }

    fn says(&self, line: &str) -> TtsAct {
        self.trace.note(Seen::Line(line.to_owned()));
        let first = numbers(line, "Answer ").first().copied();
        let first = first.filter(|_| line.contains("part 0"));
        let voice = first.map_or(Voice::Fine, |k| self.known().voices[k]);
        let act = match voice {
            Voice::Fine => TtsAct::Audio { length: ms(300), first: ms(20), each: ms(1) },
            Voice::Long => TtsAct::Audio { length: ms(2_000), first: ms(20), each: ms(1) },
            Voice::Late => TtsAct::Audio { length: ms(300), first: ms(3_000), each: ms(1) },
            Voice::Stalls => TtsAct::Pieces(vec![(ms(20), ms(400)), (ms(2_000), ms(200))]),
            Voice::Refuses => TtsAct::Fail(Kind::BadRequest, ms(20)),
            Voice::Breaks => TtsAct::Break(Kind::Unavailable),
        };
        self.works_for(speaks_for(&act));
        act
    }
}

fn act(model: Model, k: usize, round: usize) -> (LlmAct, ModelAct) {
    let writes = |sentences: usize, each| {
        let pieces = (0..sentences).map(|n| sentence(k, n)).collect();
        (LlmAct::Write(pieces, each), ModelAct::Writes { sentences })
    };
    let calls = |calls| (LlmAct::Requests(calls), ModelAct::Calls);
    match model {
        Model::CallsEndlessly => calls(vec![request(Tool::Quick, 0)]),
        Model::Calls(tool) | Model::CallsOnly(tool) if round == 0 => calls(vec![request(tool, 0)]),
        Model::CallsTwo if round == 0 => {
            calls(vec![request(Tool::Quick, 0), request(Tool::NoId, 1)])
        }
        Model::CallsOnly(_) => writes(0, ms(20)),
        Model::Short | Model::Calls(_) | Model::CallsTwo => writes(1, ms(20)),
        Model::Long => writes(3, ms(100)),
        Model::Slow => writes(1, ms(3_000)),
        Model::Fails(kind) => (LlmAct::Fail(kind, failing(kind)), ModelAct::Fails { sentences: 0 }),
        Model::Breaks => {
            (LlmAct::Break(sentence(k, 0), Kind::Unavailable), ModelAct::Fails { sentences: 1 })
        }
        Model::Nothing => (LlmAct::Write(Vec::new(), ms(0)), ModelAct::Fails { sentences: 0 }),
        Model::Emoji => (LlmAct::Write(vec!["😊"], ms(20)), ModelAct::Writes { sentences: 0 }),
    }
}

fn request(tool: Tool, n: usize) -> ToolRequest {
    let (name, arguments) = match tool {
        Tool::Quick | Tool::NoId => ("do_quick", "{}"),
        Tool::Slow => ("do_slow", "{}"),
        Tool::Finishes => ("do_finishes", "{}"),
        Tool::Fails => ("do_fails", "{}"),
        Tool::Never => ("do_never", "{}"),
        Tool::Device => ("self_volume", r#"{"volume": 5}"#),
        Tool::DeviceNever => ("self_mute", "{}"),
        Tool::DottedName => ("self.volume", r#"{"volume": 5}"#),
        Tool::NoName => ("", "{}"),
        Tool::NoObject => ("do_quick", "[1]"),
    };
    let id = if tool == Tool::NoId { String::new() } else { format!("id-{n}") };
    ToolRequest { id, name: name.into(), arguments: arguments.into(), ..ToolRequest::default() }
}

/// Tools of the server.
pub(crate) struct ServerTools(pub(crate) Arc<Trace>);

impl ToolSource for ServerTools {
    fn name(&self) -> &str {
        "server"
    }

    fn tools(&self) -> Arc<[Offered]> {
        let tool = |name: &str| Offered {
            name: name.into(),
            description: "Does it.".into(),
            parameters: json!({"type": "object", "properties": {}}),
            finishes: name == "do_finishes",
            destructive: false,
        };
        ["do_quick", "do_slow", "do_finishes", "do_fails", "do_never"].map(tool).into()
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let trace = Arc::clone(&self.0);
        Box::pin(async move {
            trace.note(Seen::Called(call.name.clone()));
            match call.name.as_str() {
                "do_slow" | "do_finishes" => tokio::time::sleep(TOOL_TAKES).await,
                "do_never" => std::future::pending().await,
                "do_fails" => return Err(ToolError::Failed("it is broken".into())),
                _ => {}
            }
            trace.note(Seen::Done(call.name));
            Ok(ToolOutput::text("done"))
        })
    }

    fn timeout(&self) -> Duration {
        TOOL_LIMIT
    }
}
