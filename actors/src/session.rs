//! SessionActor: one dialogue. Runs one turn at a time, in the order of their starts, and remembers
//! the part of each answer that was played. Not for audio or sockets.

mod kept;
mod speakers;
mod speculation;

use std::sync::Arc;
use std::time::Duration;

use actix::fut::{ActorFutureExt as _, WrapFuture as _};
use actix::{Actor, AsyncContext as _, Context, Handler, Recipient, SpawnHandle};
use hearken_audio::playout::PlayedBack as HeardPart;
use hearken_base::language::Language;
use hearken_dialogue::memory::unheard_text;
use hearken_dialogue::people::Speaker;
use hearken_dialogue::run_turn::{run_turn, say_phrase, say_text};
use hearken_dialogue::tools::{Offer, Toolbox};
use hearken_dialogue::turn::{TurnEnd, TurnError, TurnRecord};
use hearken_dialogue::turn_trace::{Stage, TurnState};
use hearken_dialogue::{Dialogue, Phrases, Turn, TurnDependencies, TurnInput, TurnSink};
use hearken_ports::{Llm, Person, Prompt, Transcript};
use hearken_proto::ids::TurnId;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::speculation::Speculation;
use crate::interruption::InterruptionSettings;
use crate::messages::{
    Interrupted, NothingRecognised, PlaybackEnded, RecognitionFailure, StartSpeaking, StartTurn,
    ToolsListed, Transcribed, UtteranceRecognised,
};
use crate::unfinished::UnfinishedWords;

/// Maximum wait for a turn that was cut to report its end; then it is abandoned.
const CUT_DEADLINE: Duration = Duration::from_secs(5);
/// Minimum interval between two prefetches: a device may report other tools with each message.
const PREFETCH_EVERY: Duration = Duration::from_secs(5);

/// Recipients of a session's messages.
pub struct SessionOutputs {
    /// Recipient of transcripts: the `DeviceActor`.
    pub transcribed: Recipient<Transcribed>,
    /// Recipient of turns that have nothing to answer: the `DeviceActor`.
    pub nothing_heard: Recipient<NothingRecognised>,
    /// Recipient of utterances that may end a reply: the `DeviceActor`.
    pub interrupted: Recipient<Interrupted>,
    /// Recipient of turns to speak: the `TtsActor`.
    pub speaking: Recipient<StartSpeaking>,
}

/// Settings of a session's turns.
pub struct SessionRules {
    /// Fixed phrases.
    pub phrases: Phrases,
    /// Maximum number of sentences that wait for the TtsActor.
    pub sentence_lane: usize,
    /// Maximum price of a million tokens for speculative answers.
    pub max_price_per_million: f64,
    /// Words that stop.
    pub interruption: InterruptionSettings,
    /// Words after which a sentence goes on.
    pub unfinished: Arc<UnfinishedWords>,
}

/// Dialogue with one device.
pub struct SessionActor {
    connection: CancellationToken,
    llm: Arc<dyn Llm>,
    toolbox: Arc<Toolbox>,
    outputs: SessionOutputs,
    rules: SessionRules,
    dialogue: Dialogue,
    running: Option<Running>,
    /// Turn that starts once the running one has been committed to memory.
    next: Option<StartTurn>,
    /// Words that are answered together with the next ones, once the running turn has been
    /// committed to memory.
    kept: Vec<(TurnId, String)>,
    /// Speaker of the last words that no turn has answered.
    asked_by: Speaker,
    /// Last turn whose words are no longer answered; neither are the words before it.
    over: TurnId,
    /// Prefetch of the start of the next prompt, while it runs.
    prefetch: Option<SpawnHandle>,
    /// Earliest time of the next prefetch, and whether it is scheduled.
    next_prefetch: Option<(Instant, bool)>,
    /// Tools that were offered when the device last reported its tools.
    listed: Option<Arc<Offer>>,
    /// Speculative answer to words after which the person may go on; only while no turn is running.
    speculation: Option<Speculation>,
}

/// Running turn; over when both its record and its playback have been reported.
struct Running {
    turn: Turn,
    /// Person who is answered, if their voice is known.
    person: Option<Arc<Person>>,
    /// Words of the transcript. A speculation may have answered the same words in another spelling.
    words: Option<String>,
    record: Option<TurnRecord>,
    heard: Option<HeardPart>,
}

impl SessionActor {
    /// Creates a session without turns.
    pub fn new(
        connection: CancellationToken,
        llm: Arc<dyn Llm>,
        toolbox: Arc<Toolbox>,
        outputs: SessionOutputs,
        rules: SessionRules,
        dialogue: Dialogue,
    ) -> Self {
        Self {
            connection,
            llm,
            toolbox,
            outputs,
            rules,
            dialogue,
            running: None,
            next: None,
            kept: Vec::new(),
            asked_by: Speaker::default(),
            over: TurnId(0),
            prefetch: None,
            next_prefetch: None,
            listed: None,
            speculation: None,
        }
    }

    /// Has the model prefetch the start of the next prompt, unless a turn is running.
    fn prefetch(&mut self, ctx: &mut Context<Self>) {
        if self.running.is_some() {
            return;
        }
        self.stop_prefetch(ctx);
        self.next_prefetch = Some((Instant::now() + PREFETCH_EVERY, false));
        let mut opening = self.dialogue.opening();
        opening.tools = Arc::clone(self.toolbox.offer().tools());
        self.prefetch = Some(ctx.spawn(self.llm.prefetch(opening).into_actor(self)));
    }

    fn stop_prefetch(&mut self, ctx: &mut Context<Self>) {
        if let Some(prefetch) = self.prefetch.take() {
            ctx.cancel_future(prefetch);
        }
    }

    fn begin(&mut self, mut start: StartTurn, ctx: &mut Context<Self>) {
        if !start.turn.is_live() {
            return self.skip(start);
        }
        // The next prompt depends on which part of the running reply was heard, so that turn has to
        // settle first.
        if let Some(running) = &self.running {
            let waited = running.turn.id;
            // At most one turn waits: `skip` stores the words of the older one if the person went
            // on after them.
            if let Some(waiting) = self.next.replace(start) {
                self.skip(waiting);
            }
            ctx.run_later(CUT_DEADLINE, move |act, ctx| act.give_up(waited, ctx));
            return;
        }
        if let TurnInput::Words(words) | TurnInput::Resumed(words) = &start.input
            && self.stops(words)
        {
            return self.stop(start, ctx);
        }
        // Only a program sends texts faster than they are judged. Spoken words are judged always:
        // nobody speaks that fast.
        if let TurnInput::Busy(words) = &mut start.input
            && !words.is_empty()
            && start.turn.try_request()
            && self.is_urgent(&start.turn, words)
        {
            start.input = TurnInput::Words(std::mem::take(words));
        }
        let speculation = self.fitting_speculation(&start, ctx);
        let is_too_fast = matches!(start.input, TurnInput::Busy(_)) && start.turn.is_too_fast();
        let StartTurn { turn, input } = start;
        if is_too_fast {
            turn.trace().discard();
        }
        turn.trace().end(Stage::Admission);
        turn.trace().set_state(TurnState::Thinking);
        if is_of_its_own(&input) {
            self.drop_held_call();
        }
        if let TurnInput::Words(words) = &input {
            // A speculation records no language: its words may be half a sentence, and it is
            // dropped then.
            self.dialogue.note_language(words);
        }
        if let TurnInput::Words(words) | TurnInput::Wake { word: words, .. } = &input {
            turn.trace().heard(words);
            // The transcript is sent before the reply is confirmed: the sound of a speculation may
            // already be there, and `stt` precedes `tts` `start`.
            let text = words.clone();
            self.outputs.transcribed.do_send(Transcribed { turn: turn.clone(), text });
        }
        let turn = speculation.as_ref().map_or(turn, |speculation| speculation.turn.clone());
        let person = self.person(&turn);
        let words = words_of(&input);
        // The running turn is set before the speculation is used, because the speculation's record,
        // if already there, is stored in it.
        self.running =
            Some(Running { turn: turn.clone(), person, words, record: None, heard: None });
        match speculation {
            Some(speculation) => self.use_speculation(speculation, ctx),
            None => {
                self.run(turn, input, ctx);
            }
        }
    }

    /// Returns true if a reply is being prepared or spoken, so that an utterance interrupts it.
    fn replies(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.turn.is_live())
    }

    /// Starts a turn whose utterance interrupts the reply, if the device ends the reply for it.
    /// Later utterances wait for that decision, because they may have to be answered together with
    /// this one.
    fn interrupt(&self, turn: Turn, input: TurnInput, ctx: &mut Context<Self>) {
        let interrupted = Interrupted { turn: turn.clone(), input: input.clone() };
        let asked = self.outputs.interrupted.send(interrupted).into_actor(self);
        ctx.wait(asked.map(|ends, act, ctx| {
            // An error means that the device is gone.
            if ends.unwrap_or(false) {
                act.begin_recognised(turn, input, ctx);
            }
        }));
    }

    /// Starts the turn of an utterance, unless turns come too fast.
    fn begin_recognised(&mut self, turn: Turn, mut input: TurnInput, ctx: &mut Context<Self>) {
        // Backchannels over a reply do not show who is speaking to the device.
        if matches!(input, TurnInput::Words(_)) {
            self.note_speaker(&turn, ctx);
        }
        // An utterance counts as a turn of its device once it has words. One that interrupted a
        // reply has that reply's permit, and was not counted for its address either.
        if let TurnInput::Words(words) | TurnInput::Resumed(words) = &input
            && turn.take_rate().is_err()
            && !self.is_urgent(&turn, words)
        {
            input = TurnInput::Busy(String::new());
        }
        self.begin(StartTurn { turn, input }, ctx);
    }

    /// Reports whether words are answered in spite of the limits, because a person may be in danger.
    fn is_urgent(&self, turn: &Turn, words: &str) -> bool {
        self.llm.is_urgent(&self.dialogue.prompt(words, None)) && turn.take_urgent()
    }

    /// Reports to the device that an utterance has nothing to answer.
    fn nothing_heard(&mut self, turn: &Turn, ctx: &mut Context<Self>) {
        self.withdraw_of(turn.id, ctx);
        let is_ignored = self.ignores(turn);
        self.outputs.nothing_heard.do_send(NothingRecognised { turn: turn.id, is_ignored });
    }

    /// Starts the work on a turn, and its speech.
    fn run(&mut self, turn: Turn, input: TurnInput, ctx: &mut Context<Self>) -> SpawnHandle {
        turn.trace().begin(Stage::Prompt);
        // Each turn has its own channel: nothing of an earlier turn can be in it, and its closing
        // is the end of the reply. Decision 0008.
        let (sink, events) = mpsc::channel(self.rules.sentence_lane);
        let language = match &input {
            TurnInput::Words(words) => self.dialogue.language_of(words),
            _ => self.dialogue.language(),
        };
        let person = self.person(&turn);
        let role = self.dialogue.role(person.as_ref());
        let voice = role.as_ref().map(|role| role.voice.as_str().into()).unwrap_or_default();
        let of_role = role.as_ref().and_then(|role| role.language?.of_phrases());
        let language = of_role.unwrap_or(language);
        turn.trace().answered_as(role);
        let speaking = StartSpeaking { turn: turn.clone(), events, language, voice };
        self.outputs.speaking.do_send(speaking);
        let prompt = match &input {
            TurnInput::Words(words) | TurnInput::Resumed(words) => {
                self.stop_prefetch(ctx);
                self.dialogue.prompt(words, person.as_ref())
            }
            _ => Default::default(),
        };
        let work = TurnRunner {
            person,
            phrases: self.rules.phrases.clone(),
            language,
            llm: Arc::clone(&self.llm),
            toolbox: Arc::clone(&self.toolbox),
        };
        let span = turn.trace().log_span();
        let work = async move {
            let record = work.run(&turn, input, prompt, &sink).await;
            (turn, record)
        };
        ctx.spawn(work.instrument(span).into_actor(self).map(|(turn, record), act, ctx| {
            act.recorded(&turn, record, ctx);
        }))
    }

    fn recorded(&mut self, turn: &Turn, record: TurnRecord, ctx: &mut Context<Self>) {
        if let Some(speculation) = self.speculation.as_mut().filter(|s| s.turn.id == turn.id) {
            speculation.record = Some(record);
            return;
        }
        match &record.end {
            TurnEnd::Failed(error) => {
                let cause = std::error::Error::source(error).map(ToString::to_string);
                tracing::warn!(turn = %turn.id, trace = turn.trace().log_id(), %error, cause, "turn failed");
            }
            end => {
                tracing::debug!(turn = %turn.id, trace = turn.trace().log_id(), ?end, sentences = record.said.len(), "the model has finished")
            }
        }
        if let Some(running) = self.running.as_mut().filter(|r| r.turn.id == turn.id) {
            running.record = Some(record);
            self.settle(ctx);
        }
    }

    /// Commits the running turn to memory when both its record and its playback are known, and
    /// starts the next turn.
    fn settle(&mut self, ctx: &mut Context<Self>) {
        let over = self.running.take_if(|r| r.record.is_some() && r.heard.is_some());
        let Some(Running { turn, person, words, record: Some(mut record), heard: Some(heard) }) =
            over
        else {
            return;
        };
        // The device was shown the transcript, so memory uses its spelling and not that of the
        // speculative transcript.
        record.user = record.user.map(|said| words.unwrap_or(said));
        // `record` ends the trace; nothing is written to it afterwards.
        turn.trace().cut_off(&unheard_text(&record.said, &heard));
        turn.record(&record);
        let is_complete = matches!(record.end, TurnEnd::Completed);
        // A later turn that was cut (`over`) also ends the words before it: they are not joined to
        // the next ones.
        let continued = turn.is_continued() && turn.id > self.over;
        // A question that was not heard completely counts as not asked: a "yes" may refer to
        // something else. An apology for unintelligible words has no `user`, and leaves the
        // question open.
        if record.user.is_some() {
            if is_complete && heard.has_all(record.said.len()) {
                self.toolbox.question_heard();
            } else {
                self.drop_held_call();
            }
        }
        if continued {
            self.asked_by = turn.speaker();
        }
        // The next turn starts afterwards, because its prompt is built from what is remembered
        // here.
        self.remember(record, heard, continued, person, ctx);
        self.go_on(ctx);
    }

    /// Starts the turn that has waited for the end of the running one, after the words that were
    /// stored meanwhile.
    fn go_on(&mut self, ctx: &mut Context<Self>) {
        // Stored words were said before those of the next turn, whose prompt has to contain them.
        self.settle_kept();
        if let Some(next) = self.next.take() {
            self.begin(next, ctx);
        }
    }

    /// Drops the call pending confirmation: the person has not heard the question, or has said
    /// something else since.
    fn drop_held_call(&self) {
        drop(self.toolbox.take_held());
    }

    fn give_up(&mut self, waited: TurnId, ctx: &mut Context<Self>) {
        // Nothing of this turn is remembered: without its reports, it is unknown what was heard of
        // it.
        if self.running.take_if(|r| r.turn.id == waited).is_some() {
            tracing::error!(turn = %waited, "turn did not end after it was cut");
            self.drop_held_call();
            self.go_on(ctx);
        }
    }
}

/// Dependencies of one turn's work.
struct TurnRunner {
    /// Person who speaks, if their voice is known.
    person: Option<Arc<Person>>,
    phrases: Phrases,
    language: Language,
    llm: Arc<dyn Llm>,
    toolbox: Arc<Toolbox>,
}

impl TurnRunner {
    async fn run(
        &self,
        turn: &Turn,
        input: TurnInput,
        prompt: Prompt,
        sink: &TurnSink,
    ) -> TurnRecord {
        let apology = self.phrases.apology.in_language(self.language);
        match input {
            TurnInput::Words(words) | TurnInput::Resumed(words) => {
                let means = TurnDependencies {
                    llm: &*self.llm,
                    tools: &self.toolbox,
                    person: self.person.as_ref(),
                    language: self.language,
                    apology,
                    limit: self.phrases.limit.in_language(self.language),
                    filler: self.phrases.filler.in_language(self.language),
                    filler_again: self.phrases.filler_again.in_language(self.language),
                    done: self.phrases.done.in_language(self.language),
                };
                run_turn(turn, words, prompt, &means, sink).await
            }
            TurnInput::Wake { grace, .. } => {
                let waited = tokio::time::sleep(grace);
                tokio::select! {
                    biased;
                    () = turn.cancelled() => {}
                    () = waited => {}
                }
                let greeting = self.phrases.greeting.in_language(self.language);
                say_phrase(turn, greeting, None, sink).await
            }
            TurnInput::Say(words) => say_text(turn, &words, sink).await,
            TurnInput::Farewell => {
                let farewell = self.phrases.farewell.in_language(self.language);
                say_phrase(turn, farewell, None, sink).await
            }
            TurnInput::Busy(_) => {
                let busy = self.phrases.busy.in_language(self.language);
                let said = say_phrase(turn, busy, None, sink).await;
                TurnRecord { end: TurnEnd::Refused, ..said }
            }
            TurnInput::Unrecognised => {
                say_phrase(turn, apology, Some(TurnError::Recognition), sink).await
            }
        }
    }
}

/// Returns true if an input is neither words of the person nor an answer to unintelligible words.
/// What is spoken then is not a question about a tool.
fn is_of_its_own(input: &TurnInput) -> bool {
    matches!(input, TurnInput::Wake { .. } | TurnInput::Say(_) | TurnInput::Farewell)
}

/// Returns true if a person has addressed the device by a wake word or a text, which are the
/// beginning of a conversation. Those of a voice come as `UtteranceRecognised`.
fn starts_conversation(input: &TurnInput) -> bool {
    matches!(input, TurnInput::Wake { .. } | TurnInput::Words(_) | TurnInput::Busy(_))
}

fn words_of(input: &TurnInput) -> Option<String> {
    match input {
        TurnInput::Words(words) | TurnInput::Resumed(words) => Some(words.clone()),
        _ => None,
    }
}

/// Returns the words of a transcript, or `None` if it has no letter and no digit, which is how
/// recognisers transcribe noise.
fn spoken_words(transcript: &Transcript) -> Option<String> {
    let text = transcript.text.trim();
    text.chars().any(char::is_alphanumeric).then(|| text.to_owned())
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        crate::lifetime::stop_with(&self.connection, ctx);
    }

    /// Cancels the connection, even after a panic: a connection without one of its actors must end.
    fn stopped(&mut self, _: &mut Self::Context) {
        self.note_cut_words();
        self.connection.cancel();
    }
}

impl Handler<UtteranceRecognised> for SessionActor {
    type Result = ();

    fn handle(
        &mut self,
        UtteranceRecognised { turn, outcome }: UtteranceRecognised,
        ctx: &mut Self::Context,
    ) {
        let outcome = outcome.map(|transcript| self.words(&turn, &transcript));
        if turn.is_continued() {
            // A cough does not show who speaks.
            if let Ok(Some(_)) = outcome {
                self.note_speaker(&turn, ctx);
            }
            // The person went on before this was understood: the next turn answers both.
            return self.keep_words(turn, outcome);
        }
        turn.trace().begin(Stage::Admission);
        let interrupts = self.replies();
        let input = match outcome {
            Ok(Some(words)) => TurnInput::Words(words),
            Ok(None) => {
                let Some(words) = self.unanswered() else {
                    return self.nothing_heard(&turn, ctx);
                };
                // The sound may be another person's, but these are the words of an earlier utterance.
                turn.note_speaker(self.asked_by.clone());
                TurnInput::Resumed(words)
            }
            // Without words, it may be noise, which is not answered.
            Err(RecognitionFailure::Busy) if turn.is_too_fast() => {
                turn.trace().discard();
                return self.nothing_heard(&turn, ctx);
            }
            Err(RecognitionFailure::Busy) => TurnInput::Busy(String::new()),
            Err(RecognitionFailure::Failed(error)) => {
                tracing::warn!(turn = %turn.id, trace = turn.trace().log_id(), %error, "recognition failed");
                if interrupts {
                    // An apology would end a reply that the user has not asked to end.
                    return self.nothing_heard(&turn, ctx);
                }
                TurnInput::Unrecognised
            }
        };
        if interrupts {
            return self.interrupt(turn, input, ctx);
        }
        if self.may_stop(&input) {
            return self.begin(StartTurn { turn, input }, ctx);
        }
        self.begin_recognised(turn, input, ctx);
    }
}

impl Handler<StartTurn> for SessionActor {
    type Result = ();

    fn handle(&mut self, start: StartTurn, ctx: &mut Self::Context) {
        if starts_conversation(&start.input)
            && let Some(speakers) = self.dialogue.speakers()
        {
            speakers.admit_anyone();
        }
        // Typed words: those of a voice come as `UtteranceRecognised`.
        if matches!(start.input, TurnInput::Words(_)) {
            self.note_speaker(&start.turn, ctx);
        }
        self.begin(start, ctx);
    }
}

impl Handler<PlaybackEnded> for SessionActor {
    type Result = ();

    fn handle(&mut self, ended: PlaybackEnded, ctx: &mut Self::Context) {
        // `settle` checks whether the words of this turn still count, so this comes before it.
        if !ended.continued {
            self.over = self.over.max(ended.turn);
        }
        self.withdraw_of(ended.turn, ctx);
        match &mut self.running {
            Some(running) if running.turn.id == ended.turn => {
                running.heard = Some(ended.heard);
                self.settle(ctx);
            }
            // `settle` discards the words when the running turn ends.
            Some(_) => {}
            None if ended.continued => {}
            None => self.forget_unanswered(),
        }
    }
}

impl Handler<ToolsListed> for SessionActor {
    type Result = ();

    fn handle(&mut self, _: ToolsListed, ctx: &mut Self::Context) {
        let offer = self.toolbox.offer();
        if self.listed.as_ref().is_some_and(|listed| Arc::ptr_eq(listed, &offer)) {
            return;
        }
        self.listed = Some(offer);
        // The model of the speculation was offered other tools.
        self.withdraw(ctx);
        let now = Instant::now();
        match self.next_prefetch {
            Some((_, true)) => {}
            Some((at, false)) if now < at => {
                self.next_prefetch = Some((at, true));
                ctx.run_later(at - now, |act, ctx| {
                    act.next_prefetch = None;
                    act.prefetch(ctx);
                });
            }
            _ => self.prefetch(ctx),
        }
    }
}
