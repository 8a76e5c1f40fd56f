//! Runs one turn: asks the model, splits its answer into sentences as it streams, and sends them
//! on. Calls the tools that the model asks for, and asks again with their results. Not for audio or
//! sockets. Borrows nothing that outlives the turn.

use std::sync::Arc;

use futures_util::StreamExt as _;
use hearken_base::language::Language;
use hearken_ports::{
    ChatMessage, Llm, LlmDelta, Person, Prompt, ProviderError, ProviderErrorKind, Role, ToolChoice,
    ToolRequest,
};
use tokio::time::Instant;

use super::message_repair;
use super::spoken_output::{FillerPhrases, SpokenOutput};
use super::turn::{ToolRound, Turn, TurnEnd, TurnError, TurnRecord, TurnSink};
use super::turn_output::{CallResults, TurnOutput};
use crate::tools::names::nearest;
use crate::tools::{HeldCall, Offer, Toolbox, held_call};
use crate::turn_trace::Stage;

/// Maximum size of a model's output in one turn, text and calls, in bytes. A model within its token
/// limit stays far below.
const MAX_WRITTEN_BYTES: usize = 256 << 10;

/// Dependencies of one turn.
pub struct TurnDependencies<'a> {
    /// The language model.
    pub llm: &'a dyn Llm,
    /// Tools that the model may call.
    pub tools: &'a Toolbox,
    /// The speaker, if their voice is enrolled: the prompt names them before their words.
    pub person: Option<&'a Arc<Person>>,
    /// Language of the phrases, and of questions about calls.
    pub language: Language,
    /// Phrase for a failure of the model.
    pub apology: &'a str,
    /// Phrase for a reached daily limit.
    pub limit: &'a str,
    /// Phrase for a tool call that takes long.
    pub filler: &'a str,
    /// Phrase for a tool call that still takes long.
    pub filler_again: &'a str,
    /// Phrase for tools that succeeded when the model says nothing more.
    pub done: &'a str,
}

/// Asks the model and sends its answer to `out`, sentence by sentence. If the model fails, sends
/// the apology instead of the rest. Ends early if the turn is cut or the receiver is gone. Tool
/// calls end with the turn, except those that must finish.
pub async fn run_turn(
    turn: &Turn,
    words: String,
    prompt: Prompt,
    means: &TurnDependencies<'_>,
    out: &TurnSink,
) -> TurnRecord {
    let phrases = FillerPhrases { filler: means.filler, filler_again: means.filler_again };
    let mut reply = SpokenOutput::new(turn, phrases, out).of(means.person, means.language);
    let mut rounds = Vec::new();
    let end = match answer(&mut reply, prompt, means.llm, means.tools, &mut rounds).await {
        Ok(()) if !reply.has_words() && turn.is_live() => reply.end_without_words(means.done).await,
        other => other,
    };
    let end = match end {
        // A cut takes precedence: an error after it is no failure, and memory retains the calls of
        // a cut turn but not those of a failed one.
        _ if !turn.is_live() => TurnEnd::Interrupted,
        Ok(()) => TurnEnd::Completed,
        Err(TurnError::LimitReached(_)) => {
            reply.apologise(means.limit).await;
            // There is no `user`: words that no model has read are neither remembered nor joined to
            // the next ones.
            return TurnRecord { user: None, said: reply.said, rounds, end: TurnEnd::Refused };
        }
        Err(error) => {
            reply.apologise(means.apology).await;
            TurnEnd::Failed(error)
        }
    };
    TurnRecord { user: Some(words), said: reply.said, rounds, end }
}

/// Sends one fixed phrase to `out`.
pub async fn say_phrase(
    turn: &Turn,
    phrase: &str,
    error: Option<TurnError>,
    out: &TurnSink,
) -> TurnRecord {
    let mut reply = SpokenOutput::new(turn, FillerPhrases::default(), out);
    if error.is_some() {
        reply.apologise(phrase).await;
    } else if !phrase.is_empty() {
        reply.say(phrase.to_owned(), false).await;
    }
    let end = match error {
        _ if !turn.is_live() => TurnEnd::Interrupted,
        None => TurnEnd::Completed,
        Some(error) => TurnEnd::Failed(error),
    };
    TurnRecord { user: None, said: reply.said, rounds: Vec::new(), end }
}

/// Sends a text that the model did not write. Like an answer, it is converted to plain text and
/// split into sentences.
pub async fn say_text(turn: &Turn, text: &str, out: &TurnSink) -> TurnRecord {
    let mut reply = SpokenOutput::new(turn, FillerPhrases::default(), out);
    reply.read(text).await;
    let end = if turn.is_live() { TurnEnd::Completed } else { TurnEnd::Interrupted };
    TurnRecord { user: None, said: reply.said, rounds: Vec::new(), end }
}

/// Asks the model in rounds until it makes no more calls, or may make no more. A call that needs
/// the person's consent ends the turn with a question; if these words answer such a question, the
/// call is made before the model is asked.
pub async fn answer(
    output: &mut impl TurnOutput,
    mut prompt: Prompt,
    llm: &dyn Llm,
    tools: &Toolbox,
    rounds: &mut Vec<ToolRound>,
) -> Result<(), TurnError> {
    if llm.is_urgent(&prompt) {
        return answer_urgently(output, prompt, llm, tools, rounds).await;
    }
    // Every frontend asks the model here, so one check covers all. There is none between rounds: it
    // would break off an answer to save a few hundred tokens. Decision 0074.
    check_limits(output, tools)?;
    let settings = tools.settings();
    message_repair::repair(&mut prompt.messages);
    let asked = prompt.messages.iter().rfind(|m| m.role == Role::User);
    let asked = asked.map(|m| m.content.as_str()).unwrap_or_default();
    let asked = output.own_words(asked).to_owned();
    // The time limit for tools starts with the first call: a model that is slow to decide uses up
    // none of it.
    let mut until = None;
    if let Some(late) = late_results(output, &mut prompt, tools, &asked).await {
        until = Some(Instant::now() + settings.turn_total);
        late.add_to(rounds)?;
    }
    let mut room = MAX_WRITTEN_BYTES;
    // The server reads the answer to its question before the model does: a misled model cannot fake
    // consent. Decision 0049.
    let held = tools.take_held();
    if held.is_none() {
        held_call::withdraw(&mut prompt.messages);
    }
    if let Some(held) = held {
        let by = *until.get_or_insert_with(|| Instant::now() + settings.turn_total);
        let decided = decide_held(output, &prompt, tools, &held, &asked, by).await;
        tell_results(&mut prompt, String::new(), &decided.round);
        decided.add_to(rounds)?;
    }
    while !output.is_over() {
        let late = until.is_some_and(|until| Instant::now() >= until);
        if rounds.len() >= settings.max_rounds && output.must_end_by_itself() {
            return Err(TurnError::TooManyRounds);
        }
        let may_call = rounds.len() < settings.max_rounds && !late;
        let offer = tools.offer();
        prompt.tools = offer.tools().clone();
        prompt.tool_choice = if may_call { ToolChoice::Auto } else { ToolChoice::None };
        output.asks(&mut prompt);
        let said = converse(output, prompt.clone(), llm, &mut room).await?;
        if said.calls.is_empty() || !may_call || output.is_over() {
            if !said.calls.is_empty() && !may_call {
                tracing::warn!(turn = %output.turn().id, rounds = rounds.len(), "the model did not stop calling tools");
            }
            return Ok(());
        }
        // The person may still go on speaking, and mean something else. Decision 0062.
        output.turn().confirmed().await;
        if output.is_over() {
            return Ok(());
        }
        let until = *until.get_or_insert_with(|| Instant::now() + settings.turn_total);
        let calls = as_meant(said.calls, &offer, &prompt);
        let after = output.said();
        let language = output.language().unwrap_or_else(|| prompt.language.of_phrases(&asked));
        let mut screened = tools.screen(&offer, &calls, &prompt.messages, &asked, language);
        let CallResults { texts, failure } = match &screened.made[..] {
            [] => CallResults::from(Vec::new()),
            made => traced_calls(output, tools, &offer, made, &asked, until).await,
        };
        // A held call has a result as well: model APIs refuse a later prompt with a call that has
        // none.
        let round = told_round(after, calls, screened.results(texts));
        tell_results(&mut prompt, said.text, &round);
        EndedRound { round, failure }.add_to(rounds)?;
        if let Some((held, question)) = screened.held {
            ask_person(output, tools, held, &question).await;
            return Ok(());
        }
    }
    Ok(())
}

/// Sends the fixed reply to a person who may be in danger. It costs nothing, so that no daily limit
/// applies, and waits for no call. A held call is not made.
async fn answer_urgently(
    output: &mut impl TurnOutput,
    mut prompt: Prompt,
    llm: &dyn Llm,
    tools: &Toolbox,
    rounds: &mut Vec<ToolRound>,
) -> Result<(), TurnError> {
    if let Some(held) = tools.take_held() {
        let mut calls = vec![held.request.clone()];
        message_repair::number(&mut calls, &prompt.messages);
        rounds.push(told_round(output.said(), calls, vec![held_call::NOT_AGREED.to_owned()]));
    }
    prompt.tool_choice = ToolChoice::None;
    output.asks(&mut prompt);
    let mut room = MAX_WRITTEN_BYTES;
    converse(output, prompt, llm, &mut room).await.map(drop)
}

/// Fails if a daily limit is reached. A pending question about a call is withdrawn then.
fn check_limits(output: &impl TurnOutput, tools: &Toolbox) -> Result<(), TurnError> {
    output.turn().trace().within_limits().map_err(|reached| {
        drop(tools.take_held());
        TurnError::LimitReached(reached)
    })
}

/// Asks the person about a call, and holds it until their next words. Holds nothing if the turn
/// ends before the question is sent.
async fn ask_person(output: &mut impl TurnOutput, tools: &Toolbox, held: HeldCall, question: &str) {
    output.words(question).await;
    output.pause().await;
    if !output.is_over() {
        let trace = output.turn().trace().clone();
        tools.hold(held.asked_of(output.person()).told(&trace, question));
    }
}

/// Waits for the results of calls that were made for the same words and continue after a noise cut
/// their turn. Writes the results into the prompt, and returns them as the first round of the turn.
async fn late_results(
    output: &mut impl TurnOutput,
    prompt: &mut Prompt,
    tools: &Toolbox,
    asked: &str,
) -> Option<EndedRound> {
    let words = prompt.messages.iter().rposition(|m| m.role == Role::User).unwrap_or_default();
    let made = prompt.messages[words..].iter().flat_map(|m| m.calls.iter().cloned()).collect();
    let calls = tools.going_on(made, asked);
    if calls.is_empty() {
        return None;
    }
    let until = Instant::now() + tools.settings().turn_total;
    let CallResults { texts, failure } =
        traced_calls(output, tools, &tools.offer(), &calls, asked, until).await;
    let round = told_round(0, calls, texts);
    for (call, result) in round.calls.iter().zip(&round.results) {
        let answers = |message: &&mut ChatMessage| message.answers == call.id;
        if let Some(message) = prompt.messages[words..].iter_mut().find(answers) {
            message.content.clone_from(result);
        }
    }
    Some(EndedRound { round, failure })
}

/// Makes the held call if the person's words agree, and returns it as the first round of the turn.
/// If they do not agree, the result of the call says so.
async fn decide_held(
    output: &mut impl TurnOutput,
    prompt: &Prompt,
    tools: &Toolbox,
    held: &HeldCall,
    said: &str,
    until: Instant,
) -> EndedRound {
    let offer = tools.offer();
    let mut calls = vec![held.request.clone()];
    message_repair::number(&mut calls, &prompt.messages);
    let after = output.said();
    let consent = &tools.settings().consent;
    // Only who was asked can agree.
    let is_another = held.by().is_some_and(|by| output.is_another(by));
    let agrees = !is_another && consent.agrees(said, held);
    let CallResults { texts, failure } = match held.permitted(agrees, &offer) {
        Ok(()) => {
            // One consent covers one call. It continues even if its turn is cut, and the same words
            // get its result after a noise.
            tools.agreed_with(&calls, said);
            traced_calls(output, tools, &offer, &calls, &held.asked, until).await
        }
        Err(refused) => CallResults::from(vec![refused]),
    };
    EndedRound { round: told_round(after, calls, texts), failure }
}

/// Round of calls, and the failure of one of them that ends the turn.
struct EndedRound {
    round: ToolRound,
    failure: Option<TurnError>,
}

impl EndedRound {
    /// Adds the round to those of the turn, also if the turn ends with it: the next turn must know
    /// what the other calls have done.
    fn add_to(self, rounds: &mut Vec<ToolRound>) -> Result<(), TurnError> {
        rounds.push(self.round);
        self.failure.map_or(Ok(()), Err)
    }
}

/// Makes the calls of one round, as a span of the turn.
async fn traced_calls(
    output: &mut impl TurnOutput,
    tools: &Toolbox,
    offer: &Offer,
    calls: &[ToolRequest],
    asked: &str,
    until: Instant,
) -> CallResults {
    let trace = output.turn().trace().clone();
    let names: Vec<_> = calls.iter().map(|call| call.name.as_str()).collect();
    trace.begin_with(Stage::Tool, Some(names.join(", ")));
    tools.account_to(trace.account());
    let results = output.calls(tools, offer, calls, asked, until).await;
    trace.end(Stage::Tool);
    output.turn().note_calls();
    results
}

/// Appends the model's text, its calls and their results to the prompt.
fn tell_results(prompt: &mut Prompt, text: String, round: &ToolRound) {
    let ToolRound { calls, results, .. } = round;
    let told = calls.iter().zip(results).map(|(c, r)| ChatMessage::result(&c.id, r));
    prompt.messages.push(ChatMessage::calling(message_repair::text(text), calls.clone()));
    prompt.messages.extend(told);
}

/// Replaces the names in calls by the names of the tools that they mean, or by valid names that no
/// tool has. Gives the calls unique ids, and the connections of their tools. Leaves the arguments
/// unchanged.
fn as_meant(mut calls: Vec<ToolRequest>, offer: &Offer, prompt: &Prompt) -> Vec<ToolRequest> {
    for call in &mut calls {
        call.name =
            offer.resolve_name(&call.name).map_or_else(|| nearest(&call.name), str::to_owned);
        call.connection = offer.connection(&call.name);
    }
    message_repair::number(&mut calls, &prompt.messages);
    calls
}

/// Returns a round in a form that is valid in later prompts.
fn told_round(after: usize, mut calls: Vec<ToolRequest>, results: Vec<String>) -> ToolRound {
    for call in &mut calls {
        call.arguments = message_repair::arguments(std::mem::take(&mut call.arguments));
    }
    ToolRound { after, calls, results: results.into_iter().map(message_repair::result).collect() }
}

/// Text and calls of one response of the model.
struct Written {
    text: String,
    calls: Vec<ToolRequest>,
}

impl Written {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }
}

/// Reads one response of the model, of at most `room` bytes, and ignores the rest.
async fn converse(
    output: &mut impl TurnOutput,
    prompt: Prompt,
    llm: &dyn Llm,
    room: &mut usize,
) -> Result<Written, TurnError> {
    let trace = output.turn().trace().clone();
    trace.end(Stage::Prompt);
    trace.begin(Stage::ModelFirstWord);
    let mut usage = trace.meters_model(&prompt, llm);
    let mut deltas = llm.reply(prompt);
    let mut written = Written { text: String::new(), calls: Vec::new() };
    let mut is_calling = false;
    while !output.is_over() {
        let delta = tokio::select! {
            biased;
            () = output.turn().cancelled() => return Ok(written),
            delta = deltas.next() => delta,
        };
        let bytes = delta.as_ref().map_or(0, |delta| usage.read(delta));
        if bytes > 0 && written.is_empty() {
            trace.end(Stage::ModelFirstWord);
            trace.begin(Stage::Model);
        }
        let Some(left) = room.checked_sub(bytes) else {
            tracing::warn!(turn = %output.turn().id, max_bytes = MAX_WRITTEN_BYTES, "stopped reading the model's answer, because it is too long");
            break;
        };
        *room = left;
        match delta {
            Some(Ok(LlmDelta::Text(text))) => {
                written.text.push_str(&text);
                output.words(&text).await;
            }
            Some(Ok(LlmDelta::Rule(rule))) => {
                trace.end(Stage::ModelFirstWord);
                trace.begin_with(Stage::Rule, Some(rule));
                trace.end(Stage::Rule);
            }
            Some(Ok(LlmDelta::Calling)) => {
                is_calling = true;
                output.pause().await;
            }
            Some(Ok(LlmDelta::Call(call))) => {
                written.calls.push(call);
                output.pause().await;
            }
            // The truncated call was dropped: anything that the model said about it is untrue.
            Some(Ok(LlmDelta::Finished { truncated: true, .. }))
                if is_calling && written.calls.is_empty() =>
            {
                trace.end(Stage::Model);
                let why = "the answer was truncated within a tool call";
                let error = ProviderError::because("model", ProviderErrorKind::Protocol, why);
                return Err(TurnError::Llm(error));
            }
            Some(Ok(LlmDelta::Finished { usage, .. })) => {
                output.finished(&written.text, &written.calls, usage);
                break;
            }
            None => break,
            Some(Err(error)) => {
                trace.end(Stage::Model);
                // Text before the failure is spoken, so that the apology does not follow half a
                // sentence.
                output.pause().await;
                return Err(TurnError::Llm(error));
            }
        }
    }
    trace.end(Stage::Model);
    output.pause().await;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::answering::toolbox_of_client;

    #[test]
    fn a_call_has_the_connection_of_the_tool_that_it_means() {
        let toolbox = toolbox_of_client("open.door", 7);
        let offer = toolbox.offer();
        for (name, meant, connection) in
            [("open_door", "open_door", 7), ("open.door", "open_door", 7), ("close", "close", 0)]
        {
            let call = ToolRequest { name: name.into(), connection: 9, ..ToolRequest::default() };
            let calls = as_meant(vec![call], &offer, &Prompt::default());
            assert_eq!((calls[0].name.as_str(), calls[0].connection), (meant, connection));
        }
    }
}
