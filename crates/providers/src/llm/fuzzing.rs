//! Fuzz targets: the streamed answers of language models, from the bytes of the body to the pieces
//! of the answer.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use hearken_base::fuzzing::pieces;
use hearken_ports::{LlmDelta, OfferedTool, Prompt, Usage};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::answering::{AnswerParser, pieces_of};
use super::base::{Base, Events};
use super::clock::Clock;
use super::fields::{self, ModelFindings};
use super::markup::Opening;
use super::{chat_json, messages_json};
use crate::settings::LlmSettings;

/// Maximum number of calls of an answer: those in fields, and those written as text, each as often
/// as an input has marks.
const MAX_CALLS: usize = 64;

/// Client that never connects; it only holds the known properties of a model.
static BASE: LazyLock<Arc<Base>> = LazyLock::new(|| {
    let known = Arc::new(ModelFindings::new(fields::OPENAI, "http://127.0.0.1/", "a model"));
    let url = "http://127.0.0.1/".parse().expect("an address");
    let base = Base::new("fuzzing", &url, "/", Default::default(), &LlmSettings::default(), known);
    Arc::new(base.unwrap_or_else(|error| panic!("{error}")))
});
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_current_thread().enable_time().build().expect("the runtime can be built")
});

/// An answer, with its text in one piece and without generated call ids.
#[derive(Debug, PartialEq, Default)]
struct Answer {
    text: String,
    /// Place in the text, id (if it is the model's), name and arguments.
    calls: Vec<(usize, String, String, String)>,
    announced: usize,
    finished: Option<(bool, Option<Usage>)>,
    error: Option<String>,
}

fn prompt() -> Prompt {
    let tool = |name: &str| OfferedTool {
        name: name.into(),
        description: "A tool.".into(),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
    };
    Prompt { tools: [tool("get_weather"), tool("f")].into(), ..Prompt::default() }
}

/// Reads an answer whose body arrives in these pieces. The model is known to open its answers this
/// way.
async fn read<R: AnswerParser>(
    pieces: &[&[u8]],
    provider: &'static str,
    opening: Opening,
) -> Answer {
    let body: Vec<_> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece)).collect();
    let events = Events::of(provider, stream::iter(body.into_iter().map(Ok::<_, ()>)));
    // An opening without a mark is expected after two such answers.
    for _ in 0..2 {
        BASE.known.began(Some(opening));
    }
    let clock = Clock::start(&LlmSettings::default());
    let mut deltas = pieces_of::<R>(Arc::clone(&BASE), events, &prompt(), clock);
    let mut answer = Answer::default();
    while let Some(delta) = deltas.next().await {
        assert!(answer.finished.is_none() && answer.error.is_none(), "nothing follows the end");
        match delta {
            Ok(LlmDelta::Text(text)) => answer.text.push_str(&text),
            Ok(LlmDelta::Calling) => answer.announced += 1,
            Ok(LlmDelta::Rule(rule)) => panic!("a provider has no rules: {rule}"),
            Ok(LlmDelta::Call(call)) => {
                assert_eq!(answer.announced, 1, "calls are announced exactly once");
                let ours = call.id.strip_prefix("call_").is_some_and(|id| id.len() == 16);
                let id = if ours { String::new() } else { call.id };
                answer.calls.push((answer.text.len(), id, call.name, call.arguments));
            }
            Ok(LlmDelta::Finished { truncated, usage }) => {
                answer.finished = Some((truncated, usage));
            }
            Err(error) => answer.error = Some(error.to_string()),
        }
    }
    assert!(answer.finished.is_some() != answer.error.is_some(), "an answer has one end");
    answer
}

/// Any body gives an answer or an error, and the same however it is split; the text of an answer is
/// no longer than the text of the body. If it fails, the split decides how much arrives before the
/// error.
fn stream<R: AnswerParser>(bytes: &[u8], provider: &'static str) {
    // Bytes that are no UTF-8 become replacement characters, which are longer.
    let longest = String::from_utf8_lossy(bytes).len();
    for opening in [Opening::Marked, Opening::Missing] {
        let whole = RUNTIME.block_on(read::<R>(&[bytes], provider, opening));
        let cut = RUNTIME.block_on(read::<R>(&pieces(bytes), provider, opening));
        for answer in [&whole, &cut] {
            assert!(answer.text.len() <= longest);
            let written = bytes
                .windows(2)
                .filter(|pair| {
                    pair.starts_with(b"<") || pair.starts_with(b"[") || pair.starts_with(b"`")
                })
                .count();
            assert!(answer.calls.len() <= MAX_CALLS + 16 * written);
        }
        if whole.error.is_none() && cut.error.is_none() {
            assert_eq!(whole, cut);
        }
    }
}

/// A streamed answer of OpenAI's API.
///
/// # Panics
/// Panics if a property of every answer is broken.
pub fn openai_stream(bytes: &[u8]) {
    stream::<chat_json::AnswerAssembler>(bytes, chat_json::PROVIDER);
}

/// A streamed answer of Anthropic's API.
///
/// # Panics
/// Panics if a property of every answer is broken.
pub fn anthropic_stream(bytes: &[u8]) {
    stream::<messages_json::AnswerAssembler>(bytes, messages_json::PROVIDER);
}
