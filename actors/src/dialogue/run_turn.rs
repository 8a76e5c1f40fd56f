//! Runs one turn: asks the model, cuts its answer into sentences as it comes, and hands them on;
//! calls the tools that it asks for, and asks again with their results. Knows nothing of sound or
//! sockets; borrows nothing that lives longer than the turn.

use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::reply::Reply;
use super::sentence::SentenceSplitter;
use super::turn::{ToolRound, Turn, TurnEnd, TurnError, TurnRecord, TurnSink};
use crate::ports::{ChatMessage, Llm, LlmDelta, Prompt, ToolRequest};
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
    let mut reply = Reply::new(turn, out);
    let mut rounds = Vec::new();
    let end = match answer(&mut reply, prompt, means, &mut rounds).await {
        Ok(()) if !reply.has_words() && turn.is_live() => Err(TurnError::NoWords),
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
    let mut reply = Reply::new(turn, out);
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

/// Round after round, until the model calls nothing more. After the last round that it may have,
/// it is asked without tools, so that it answers with what it knows.
async fn answer(
    reply: &mut Reply<'_>,
    mut prompt: Prompt,
    means: &TurnMeans<'_>,
    rounds: &mut Vec<ToolRound>,
) -> Result<(), TurnError> {
    let settings = means.tools.settings();
    let mut until = None;
    loop {
        let late = until.is_some_and(|until| Instant::now() >= until);
        let may_call = rounds.len() < settings.max_rounds && !late;
        let offer = if may_call { means.tools.offer() } else { Default::default() };
        prompt.tools = offer.tools().clone();
        let said = converse(reply, prompt.clone(), means.llm).await?;
        if said.calls.is_empty() || !may_call || reply.unheard || !reply.turn.is_live() {
            if !said.calls.is_empty() && !may_call {
                tracing::warn!(turn = %reply.turn.id, rounds = rounds.len(), "the model does not stop calling tools");
            }
            return Ok(());
        }
        let until = *until.get_or_insert_with(|| Instant::now() + settings.turn_total);
        let mut calls = said.calls;
        number_anew(&mut calls, &prompt, rounds.len());
        let after = reply.said.len();
        let results = call(reply, means, &offer, &calls, until).await;
        let told = calls.iter().zip(&results).map(|(c, r)| ChatMessage::result(&c.id, r));
        prompt.messages.push(ChatMessage::calling(said.text, calls.clone()));
        prompt.messages.extend(told);
        rounds.push(ToolRound { after, calls, results });
        if reply.unheard || !reply.turn.is_live() {
            return Ok(());
        }
    }
}

/// Some bases leave the ids of calls out, or use one twice.
fn number_anew(calls: &mut [ToolRequest], prompt: &Prompt, round: usize) {
    let before: Vec<&str> =
        prompt.messages.iter().flat_map(|m| &m.calls).map(|c| c.id.as_str()).collect();
    for n in 0..calls.len() {
        let (earlier, rest) = calls.split_at_mut(n);
        let id = &mut rest[0].id;
        if id.is_empty() || before.contains(&id.as_str()) || earlier.iter().any(|c| c.id == *id) {
            *id = format!("call_{}_{round}_{n}", prompt.messages.len());
        }
    }
}

/// Runs one round of calls, and bridges the time with phrases.
async fn call(
    reply: &mut Reply<'_>,
    means: &TurnMeans<'_>,
    offer: &Offer,
    calls: &[ToolRequest],
    until: Instant,
) -> Vec<String> {
    let turn = reply.turn;
    let begun = Instant::now();
    let mut running = means.tools.begin(offer, calls, until);
    loop {
        let due = reply.filler_due(begun, means.tools.settings());
        tokio::select! {
            biased;
            () = turn.cancelled() => break,
            more = running.next() => if !more { break },
            () = tokio::time::sleep_until(due) => {
                let phrase = if reply.bridged { means.filler_again } else { means.filler };
                if !reply.bridge(phrase).await {
                    break;
                }
            }
        }
    }
    running.end()
}

/// What the model wrote in one go.
struct Written {
    text: String,
    calls: Vec<ToolRequest>,
}

async fn converse(
    reply: &mut Reply<'_>,
    prompt: Prompt,
    llm: &dyn Llm,
) -> Result<Written, TurnError> {
    let mut deltas = llm.reply(prompt);
    let mut splitter = SentenceSplitter::default();
    let mut written = Written { text: String::new(), calls: Vec::new() };
    loop {
        let delta = tokio::select! {
            biased;
            () = reply.turn.cancelled() => return Ok(written),
            delta = deltas.next() => delta,
        };
        let sentences = match delta {
            Some(Ok(LlmDelta::Text(text))) => {
                reply.face.look(&text);
                written.text.push_str(&text);
                splitter.push(&text)
            }
            Some(Ok(LlmDelta::Calling)) => splitter.finish().into_iter().collect(),
            Some(Ok(LlmDelta::Call(call))) => {
                written.calls.push(call);
                splitter.finish().into_iter().collect()
            }
            Some(Ok(LlmDelta::Finished { .. })) | None => break,
            Some(Err(error)) => {
                reply.hand_on(splitter.finish()).await;
                return Err(TurnError::Llm(error));
            }
        };
        if !reply.hand_on(sentences).await {
            return Ok(written);
        }
    }
    reply.hand_on(splitter.finish()).await;
    Ok(written)
}
