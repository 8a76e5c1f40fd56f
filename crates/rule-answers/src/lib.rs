//! A language model with rules before it: people in danger get a fixed reply, and common commands
//! are answered without the model. Calls that a rule plans are tool calls of this model, so that
//! policies, consent, results and history apply as for any other. Not for the rules, which are in
//! `hearken-instant` and `hearken-safety`.

// A model like any other for the dialogue. Decision 0087.
mod checked;
mod checks;
mod claims;
mod complaints;
mod conversation;
mod identity;
mod judgements;
mod limited;
mod offer;
mod text;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use hearken_instant::{Answer, Answers, Bindings, Call, Context, Next, Plan, Referent, Scope};
use hearken_ports::reply_language::ReplyLanguage;
use hearken_ports::{
    EarlierWords, InstantScope, Llm, LlmDelta, OfferedTool, Prompt, ProviderError, Role,
    ServiceHealth, ToolChoice, ToolRequest, TurnLanguage, Usage,
};
use hearken_safety::{Safe, Safety};
use jiff::Zoned;
use metrics::counter;
use serde_json::Value;

use self::checked::checked;
use self::checks::Checks;
use self::conversation::{Round, Said, turns, without_name};
use self::judgements::Judgements;
use self::limited::limited;
use self::offer::{fitting, is_of_conversation};

/// Counter of turns that a rule answered, by rule.
const ANSWERED: &str = "hearken_rule_answers_total";
/// Maximum number of tool lists whose bindings are cached; devices of one kind share a list.
const MAX_BINDINGS: usize = 64;
/// Maximum length of a small model's answer without another limit, in seconds of speech.
const SMALL_SECONDS: u32 = 30;
/// Maximum number of turns that a reference ("turn it off") reaches back.
const MAX_BACK: usize = 3;
/// Maximum number of turns that further words in danger ("what now?") reach back.
const MAX_DANGER_BACK: usize = 16;

/// Clock of the household.
pub type Clock = Arc<dyn Fn() -> Zoned + Send + Sync>;

/// Rules of one frontend.
#[derive(Clone)]
pub struct Rules {
    /// Answers to common commands; `None` for those that all frontends share.
    pub answers: Option<Arc<Answers>>,
    /// Replies to people in danger.
    pub safety: Arc<Safety>,
    /// Widest scope of the frontend; a conversation may have a narrower one.
    pub scope: InstantScope,
    /// Clock of the household.
    pub now: Clock,
    /// Name of the assistant.
    pub name: String,
    /// True for a small model: it is offered only the tools of the subject, and its sentences are
    /// checked before they are spoken.
    pub is_small: bool,
}

/// A tool list, and what its tools can do.
type BoundList = (Arc<[OfferedTool]>, Arc<Bindings>);

/// Language model with rules before it.
pub struct RuledLlm {
    model: Arc<dyn Llm>,
    rules: Rules,
    /// Bindings of the last tool lists, the newest last.
    bindings: Mutex<Vec<BoundList>>,
    judgements: Judgements,
    /// True if requests for what must not be explained are declined.
    declines: bool,
}

/// What a rule does in place of the model's next output.
enum Step {
    Call(Vec<Call>),
    Say(String),
}

/// Rules that may answer a turn, and the language of its answer.
#[derive(Clone, Copy)]
struct Allowed {
    scope: InstantScope,
    language: TurnLanguage,
}

impl Allowed {
    /// Reports whether the answer of a plan, which is in the language of the words, has the language
    /// of the turn.
    fn has_language_of(self, plan: &Plan) -> bool {
        self.language.fixed.is_none_or(|fixed| fixed.of_phrases() == Some(plan.language()))
    }
}

impl Rules {
    /// Compiles what all frontends share, so that the first question is as quick as the next ones.
    pub fn prepare() {
        Safety::prepare();
        Answers::shared();
    }

    fn answers(&self) -> Arc<Answers> {
        self.answers.clone().unwrap_or_else(Answers::shared)
    }
}

impl RuledLlm {
    /// Creates a model that asks `model` if no rule applies.
    pub fn new(model: Arc<dyn Llm>, rules: Rules) -> Self {
        let judgements = Judgements::default();
        Self { model, rules, bindings: Mutex::default(), judgements, declines: true }
    }

    /// Leaves requests for what must not be explained to the model: a visitor of a museum asks how
    /// people made weapons.
    #[must_use]
    pub fn without_declining(self) -> Self {
        Self { declines: false, ..self }
    }

    /// Returns what the tools of a prompt can do.
    fn bindings(&self, tools: &Arc<[OfferedTool]>) -> Arc<Bindings> {
        if let Some(known) = self.known_bindings(tools) {
            return known;
        }
        // Without the lock: it takes milliseconds, and other conversations have their bindings.
        let others = tools.iter().filter(|tool| !is_of_conversation(tool));
        let offered = others.map(|tool| hearken_instant::OfferedTool {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        });
        let mut bindings = Bindings::of(&offered.collect::<Vec<_>>());
        if !self.rules.is_small {
            bindings.forget_schemas();
        }
        let bindings = Arc::new(bindings);
        let mut cached = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= MAX_BINDINGS {
            cached.remove(0);
        }
        cached.push((Arc::clone(tools), Arc::clone(&bindings)));
        bindings
    }

    /// Returns the bindings of a list that was offered before, and makes it the newest one.
    fn known_bindings(&self, tools: &Arc<[OfferedTool]>) -> Option<Arc<Bindings>> {
        let mut cached = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(known, _): &BoundList| Arc::ptr_eq(known, tools) || known == tools;
        let at = cached.iter().position(same)?;
        let found = cached.remove(at);
        cached.push(found.clone());
        Some(found.1)
    }

    /// Returns the fixed reply to the words of a turn, whatever calls are behind them: those of a held
    /// call, or of words that a noise interrupted. Words that only go on with a danger have it while the danger
    /// lasts; without a known time it does. So long, "she" is also the one who was in danger before.
    fn judge(&self, turn: &Said<'_>, earlier: &[Said<'_>], prompt: &Prompt) -> Option<Safe> {
        let EarlierWords { words, passed } = &prompt.earlier;
        let passed = if words.is_empty() { prompt.since_last } else { *passed };
        let lasts = passed.is_none_or(|passed| passed <= EarlierWords::DANGER_LASTS);
        let back = if lasts { MAX_DANGER_BACK } else { 0 };
        let before: Vec<&str> = if words.is_empty() {
            earlier.iter().rev().take(back).map(|said| said.words).collect()
        } else {
            words.iter().rev().take(back).map(|words| without_name(words)).collect()
        };
        let safety = &self.rules.safety;
        self.judgements.of(turn.words, &before, || {
            let next = || safety.judge_next(turn.words, before.iter().copied());
            safety.judge_after(turn.words, before.iter().copied()).or_else(next)
        })
    }

    /// Returns the rule that answers the last words of a prompt, and its next step.
    fn step(&self, prompt: &Prompt) -> Option<(String, Step)> {
        let turns = turns(&prompt.messages);
        let (last, earlier) = turns.split_last()?;
        let safe = self.judge(last, earlier, prompt);
        if let Some(safe) = safe.filter(|safe| self.declines || !safe.topic.is_declined()) {
            return Some((
                format!("safety.{:?}", safe.topic).to_lowercase(),
                Step::Say(safe.reply),
            ));
        }
        let scope = prompt.instant.min(self.rules.scope);
        if scope == InstantScope::Off {
            return None;
        }
        let allowed = Allowed { scope, language: prompt.language };
        let bindings = self.bindings(&prompt.tools);
        // A turn of unknown age is too old for a reference: it may be of any day.
        let age = prompt.since_last.unwrap_or(Duration::MAX);
        let (rule, step) = match self.plan(last, earlier, &bindings, allowed, age) {
            Some(plan) => (plan.rule().to_owned(), replay(plan, &last.rounds)?),
            // A confirmed call is in the turn of the confirmation; its rule is that of the question.
            None if !last.rounds.is_empty() && !last.begins_refused() => {
                let (asked, before) = earlier.split_last()?;
                let plan = self.plan(asked, before, &bindings, allowed, Duration::ZERO)?;
                (plan.rule().to_owned(), replay(plan, &last.rounds)?)
            }
            None => return None,
        };
        let may_call = prompt.tool_choice == ToolChoice::Auto;
        (may_call || matches!(step, Step::Say(_))).then_some((rule, step))
    }

    /// Asks the model.
    fn ask(&self, mut prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let turns = turns(&prompt.messages);
        let Some(last) = turns.last() else { return self.model.reply(prompt) };
        let question = last.words.to_owned();
        let is_checked = self.rules.is_small && prompt.instant == InstantScope::Whole;
        let limit = prompt.answer_seconds.unwrap_or(if is_checked { SMALL_SECONDS } else { 0 });
        let offered = (self.rules.is_small && last.rounds.is_empty())
            .then(|| fitting(&prompt.tools, last.words));
        // In a role, the sentences are those of the role.
        let checks = is_checked.then(|| {
            Checks::new(last.words, prompt.language, &self.rules.name, last.has_succeeded())
        });
        if let Some(tools) = offered {
            prompt.tools = tools;
        }
        let second = checks.as_ref().map(|checks| reminded(&prompt, &checks.reminder()));
        let mut answer = self.model.reply(prompt);
        if let (Some(checks), Some(second)) = (checks, second) {
            let model = Arc::clone(&self.model);
            answer = checked(answer, Box::new(move || model.reply(second)), checks);
        }
        if limit > 0 { limited(answer, limit, &question) } else { answer }
    }

    /// Returns the plan for the words of a turn; `age` is the time since the turn before.
    fn plan(
        &self,
        turn: &Said<'_>,
        earlier: &[Said<'_>],
        bindings: &Bindings,
        allowed: Allowed,
        age: Duration,
    ) -> Option<Plan> {
        let before = earlier.last();
        // Other scopes have no references.
        let mut referent = (allowed.scope == InstantScope::Whole)
            .then(|| self.referent(earlier, bindings, allowed, MAX_BACK))
            .flatten();
        referent.iter_mut().for_each(|referent| referent.age = age);
        let answer = before.map(|said| said.answer).filter(|answer| !answer.is_empty());
        // After a question of a rule, such as a request to repeat, the next command is one as before.
        // A question for consent is decided before the words are planned.
        let asks = answer.is_some_and(is_question)
            && !turn.begins_refused()
            && !before.is_some_and(|said| self.is_by_rule(said, bindings, allowed));
        let context = Context {
            last: referent.as_ref(),
            after_question: asks,
            last_answer: answer,
            ..self.context(bindings, allowed)
        };
        let plan = self.rules.answers().plan(turn.words, &context);
        plan.filter(|plan| allowed.has_language_of(plan))
    }

    /// Returns the context of a first utterance.
    fn context<'a>(&'a self, bindings: &'a Bindings, allowed: Allowed) -> Context<'a> {
        let TurnLanguage { fixed, spoken } = allowed.language;
        Context {
            scope: scope_of(allowed.scope),
            is_lenient: self.rules.is_small,
            name: &self.rules.name,
            language: fixed.and_then(ReplyLanguage::of_phrases).or(spoken),
            ..Context::new((self.rules.now)(), bindings)
        }
    }

    /// Reports whether the answer of a turn is that of a rule.
    fn is_by_rule(&self, turn: &Said<'_>, bindings: &Bindings, allowed: Allowed) -> bool {
        let plan = self.rules.answers().plan(turn.words, &self.context(bindings, allowed));
        let answer = plan.and_then(|plan| answered(plan, &turn.rounds));
        answer.is_some_and(|answer| answer.text == turn.answer)
    }

    /// Returns the target of the last instant answer, if the last turn had one.
    fn referent(
        &self,
        turns: &[Said<'_>],
        bindings: &Bindings,
        allowed: Allowed,
        back: usize,
    ) -> Option<Referent> {
        let (last, earlier) = turns.split_last().filter(|_| back > 0)?;
        let before = self.referent(earlier, bindings, allowed, back - 1);
        let context = Context { last: before.as_ref(), ..self.context(bindings, allowed) };
        let plan = self.rules.answers().plan(last.words, &context);
        match plan.and_then(|plan| answered(plan, &last.rounds)) {
            Some(answer) => answer.referent,
            // The model called what a rule could have called.
            None => last.rounds.iter().rev().find_map(|round| round.referent(bindings)),
        }
    }
}

/// Returns a prompt whose last words of the user end with a reminder. The rest is unchanged, so that
/// the model has read it before.
fn reminded(prompt: &Prompt, reminder: &str) -> Prompt {
    let mut prompt = prompt.clone();
    if let Some(last) = prompt.messages.iter_mut().rfind(|message| message.role == Role::User) {
        last.content.push_str(reminder);
    }
    prompt
}

/// Returns the scope in the terms of the rules.
fn scope_of(scope: InstantScope) -> Scope {
    match scope {
        InstantScope::Off => Scope::Off,
        InstantScope::Commands => Scope::Commands,
        InstantScope::Whole => Scope::Whole,
    }
}

/// Reports whether an answer ends with a question.
fn is_question(answer: &str) -> bool {
    answer.trim_end().ends_with(['?', '？'])
}

/// Plays the rounds of a turn, and returns what follows them; gives up if they are not those of the
/// plan. A refused call of the question before is not the plan's.
fn played(mut plan: Plan, rounds: &[Round<'_>]) -> Next {
    let rounds = match rounds {
        [first, others @ ..] if first.is_refused() && !first.made(&plan.calls()) => others,
        rounds => rounds,
    };
    for (number, round) in rounds.iter().enumerate() {
        if !round.made(&plan.calls()) {
            return Next::GiveUp;
        }
        match plan.next(&round.outcomes()) {
            Next::Calls(next) => plan = next,
            Next::Answer(_) if number + 1 < rounds.len() => return Next::GiveUp,
            end => return end,
        }
    }
    if plan.calls().is_empty() { plan.next(&[]) } else { Next::Calls(plan) }
}

/// Returns the next step of a plan after these rounds.
fn replay(plan: Plan, rounds: &[Round<'_>]) -> Option<Step> {
    match played(plan, rounds) {
        Next::Calls(plan) => Some(Step::Call(plan.calls())),
        Next::Answer(answer) => Some(Step::Say(answer.text)),
        Next::GiveUp => None,
    }
}

/// Returns the answer of a plan after these rounds, if they are its own and complete.
fn answered(plan: Plan, rounds: &[Round<'_>]) -> Option<Answer> {
    match played(plan, rounds) {
        Next::Answer(answer) => Some(answer),
        Next::Calls(_) | Next::GiveUp => None,
    }
}

impl Llm for RuledLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        let Some((rule, step)) = self.step(&prompt) else { return self.ask(prompt) };
        let mut deltas = vec![LlmDelta::Rule(rule.clone())];
        match step {
            Step::Say(text) => {
                counter!(ANSWERED, "rule" => rule).increment(1);
                deltas.push(LlmDelta::Text(text));
            }
            Step::Call(calls) => {
                deltas.push(LlmDelta::Calling);
                deltas.extend(calls.into_iter().zip(1..).map(|(call, number)| {
                    LlmDelta::Call(ToolRequest {
                        id: format!("rule_{number}"),
                        name: call.tool,
                        arguments: Value::Object(call.arguments).to_string(),
                        ..ToolRequest::default()
                    })
                }));
            }
        }
        // No model was asked: no tokens were used.
        deltas.push(LlmDelta::Finished { truncated: false, usage: Some(Usage::default()) });
        stream::iter(deltas.into_iter().map(Ok)).boxed()
    }

    fn is_urgent(&self, prompt: &Prompt) -> bool {
        let turns = turns(&prompt.messages);
        let safe = turns.split_last().and_then(|(last, earlier)| self.judge(last, earlier, prompt));
        safe.is_some_and(|safe| !safe.topic.is_declined())
    }

    fn prefetch(&self, mut opening: Prompt) -> BoxFuture<'static, ()> {
        if self.rules.is_small {
            // Few utterances have the subject of a tool: most prompts offer none.
            opening.tools = Arc::default();
        }
        self.model.prefetch(opening)
    }

    fn price_per_million(&self) -> f64 {
        self.model.price_per_million()
    }

    fn health(&self) -> ServiceHealth {
        self.model.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.model.probe()
    }
}

#[cfg(test)]
mod tests;
