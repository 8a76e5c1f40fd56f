//! Runs one turn: asks the model, cuts its answer into sentences as it comes, and hands them on;
//! calls the tools that it asks for, and asks again with their results. Knows nothing of sound or
//! sockets; borrows nothing that lives longer than the turn.

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::legal;
use super::spoken_output::{FillerPhrases, SpokenOutput};
use super::turn::{ToolRound, Turn, TurnEnd, TurnError, TurnRecord, TurnSink};
use crate::ports::{ChatMessage, Llm, LlmDelta, Prompt, Role, ToolChoice, ToolRequest, Usage};
use crate::tools::names::nearest;
use crate::tools::{Offer, Toolbox};

/// What a turn works with.
pub struct TurnMeans<'a> {
    /// The language model.
    pub llm: &'a dyn Llm,
    /// What the model may call.
    pub tools: &'a Toolbox,
    /// Said where the model fails.
    pub apology: &'a str,
    /// Said while a tool takes its time.
    pub filler: &'a str,
    /// Said while it goes on taking its time.
    pub filler_again: &'a str,
    /// Said where tools did what was asked and the model says nothing more.
    pub done: &'a str,
}

/// Asks the model and hands its answer on, sentence by sentence, to `out`. Where the model fails,
/// the apology is handed on instead of what is missing. Ends early when the turn is cut or nobody
/// listens any more; calls of tools end with it, but for those that are to finish.
pub async fn run_turn(
    turn: &Turn,
    words: String,
    prompt: Prompt,
    means: &TurnMeans<'_>,
    out: &TurnSink,
) -> TurnRecord {
    let phrases = FillerPhrases { filler: means.filler, filler_again: means.filler_again };
    let mut reply = SpokenOutput::new(turn, phrases, out);
    let mut rounds = Vec::new();
    let end = match answer(&mut reply, prompt, means.llm, means.tools, &mut rounds).await {
        Ok(()) if !reply.has_words() && turn.is_live() => reply.end_without_words(means.done).await,
        other => other,
    };
    let end = match end {
        _ if !turn.is_live() => TurnEnd::Interrupted,
        Ok(()) => TurnEnd::Completed,
        Err(error) => {
            reply.say(means.apology.to_owned(), false).await;
            TurnEnd::Failed(error)
        }
    };
    TurnRecord { user: Some(words), said: reply.said, rounds, end }
}

/// Hands on one fixed phrase.
pub async fn say_phrase(
    turn: &Turn,
    phrase: &str,
    error: Option<TurnError>,
    out: &TurnSink,
) -> TurnRecord {
    let mut reply = SpokenOutput::new(turn, FillerPhrases::default(), out);
    if !phrase.is_empty() {
        reply.say(phrase.to_owned(), false).await;
    }
    let end = match error {
        _ if !turn.is_live() => TurnEnd::Interrupted,
        None => TurnEnd::Completed,
        Some(error) => TurnEnd::Failed(error),
    };
    TurnRecord { user: None, said: reply.said, rounds: Vec::new(), end }
}

/// Hands on a text of somebody else's as an answer is: made plain, and cut into sentences.
pub async fn say_text(turn: &Turn, text: &str, out: &TurnSink) -> TurnRecord {
    let mut reply = SpokenOutput::new(turn, FillerPhrases::default(), out);
    reply.read(text).await;
    let end = if turn.is_live() { TurnEnd::Completed } else { TurnEnd::Interrupted };
    TurnRecord { user: None, said: reply.said, rounds: Vec::new(), end }
}

/// Where a turn shows, in order: its words as the model writes them, its calls as they are made.
pub(crate) trait TurnOutput {
    /// The turn.
    fn turn(&self) -> &Turn;

    /// The turn was cut, or nobody listens any more.
    fn is_over(&self) -> bool;

    /// How many pieces were handed on so far, as [`ToolRound::after`] counts them.
    fn said(&self) -> usize;

    /// After the last round of calls that it may have, a turn whose model wants more ends with an
    /// error; else the model is asked once more and may not call, so that it answers with what it
    /// knows.
    fn must_end_by_itself(&self) -> bool {
        false
    }

    /// The model is asked this next.
    fn asks(&mut self, _prompt: &mut Prompt) {}

    /// The model has written all this in one go, and it cost this where the provider tells.
    fn finished(&mut self, _written: &str, _calls: &[ToolRequest], _usage: Option<Usage>) {}

    /// The model has written some more text, cut anywhere.
    async fn words(&mut self, text: &str);

    /// The text so far is complete: calls follow, or nothing more.
    async fn pause(&mut self);

    /// Makes the calls of one round for a person who asked this, each ended by `until`, and gives
    /// what the model is told of each.
    async fn calls(
        &mut self,
        tools: &Toolbox,
        offer: &Offer,
        calls: &[ToolRequest],
        asked: &str,
        until: Instant,
    ) -> Result<Vec<String>, TurnError>;
}

/// Round after round, until the model calls nothing more, or may not.
pub(crate) async fn answer(
    output: &mut impl TurnOutput,
    mut prompt: Prompt,
    llm: &dyn Llm,
    tools: &Toolbox,
    rounds: &mut Vec<ToolRound>,
) -> Result<(), TurnError> {
    let settings = tools.settings();
    legal::mend(&mut prompt.messages);
    let asked = prompt.messages.iter().rfind(|m| m.role == Role::User);
    let asked = asked.map(|m| m.content.clone()).unwrap_or_default();
    let mut until = None;
    loop {
        let late = until.is_some_and(|until| Instant::now() >= until);
        if rounds.len() >= settings.max_rounds && output.must_end_by_itself() {
            return Err(TurnError::TooManyRounds);
        }
        let may_call = rounds.len() < settings.max_rounds && !late;
        let offer = tools.offer();
        prompt.tools = offer.tools().clone();
        prompt.tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        output.asks(&mut prompt);
        let said = converse(output, prompt.clone(), llm).await?;
        if said.calls.is_empty() || !may_call || output.is_over() {
            if !said.calls.is_empty() && !may_call {
                tracing::warn!(turn = %output.turn().id, rounds = rounds.len(), "the model does not stop calling tools");
            }
            return Ok(());
        }
        let until = *until.get_or_insert_with(|| Instant::now() + settings.turn_total);
        let calls = as_meant(said.calls, &offer, &prompt);
        let after = output.said();
        let results = output.calls(tools, &offer, &calls, &asked, until).await?;
        let round = told_round(after, calls, results);
        tell_results(&mut prompt, said.text, &round);
        rounds.push(round);
        if output.is_over() {
            return Ok(());
        }
    }
}

/// The model has said this, called that, and is told what it brought.
fn tell_results(prompt: &mut Prompt, text: String, round: &ToolRound) {
    let ToolRound { calls, results, .. } = round;
    let told = calls.iter().zip(results).map(|(c, r)| ChatMessage::result(&c.id, r));
    prompt.messages.push(ChatMessage::calling(legal::text(text), calls.clone()));
    prompt.messages.extend(told);
}

/// The calls under the names of the tools that they mean, or names that stand for none, and ids of
/// their own. Their arguments are as the model wrote them.
fn as_meant(mut calls: Vec<ToolRequest>, offer: &Offer, prompt: &Prompt) -> Vec<ToolRequest> {
    for call in &mut calls {
        call.name =
            offer.resolve_name(&call.name).map_or_else(|| nearest(&call.name), str::to_owned);
    }
    legal::number(&mut calls, &prompt.messages);
    calls
}

/// A round as models may be told it again and again.
fn told_round(after: usize, mut calls: Vec<ToolRequest>, results: Vec<String>) -> ToolRound {
    for call in &mut calls {
        call.arguments = legal::arguments(std::mem::take(&mut call.arguments));
    }
    ToolRound { after, calls, results: results.into_iter().map(legal::result).collect() }
}

/// What the model wrote in one go.
struct Written {
    text: String,
    calls: Vec<ToolRequest>,
}

async fn converse(
    output: &mut impl TurnOutput,
    prompt: Prompt,
    llm: &dyn Llm,
) -> Result<Written, TurnError> {
    let mut deltas = llm.reply(prompt);
    let mut written = Written { text: String::new(), calls: Vec::new() };
    while !output.is_over() {
        let delta = tokio::select! {
            biased;
            () = output.turn().cancelled() => return Ok(written),
            delta = deltas.next() => delta,
        };
        match delta {
            Some(Ok(LlmDelta::Text(text))) => {
                written.text.push_str(&text);
                output.words(&text).await;
            }
            Some(Ok(LlmDelta::Calling)) => output.pause().await,
            Some(Ok(LlmDelta::Call(call))) => {
                written.calls.push(call);
                output.pause().await;
            }
            Some(Ok(LlmDelta::Finished { usage, .. })) => {
                output.finished(&written.text, &written.calls, usage);
                break;
            }
            None => break,
            Some(Err(error)) => {
                output.pause().await;
                return Err(TurnError::Llm(error));
            }
        }
    }
    output.pause().await;
    Ok(written)
}
