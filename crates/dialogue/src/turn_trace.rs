//! Trace of a turn: the times of its stages, its events and its words. Not for the use of traces:
//! the [`TurnJournal`] holds those of the last turns.

mod journal;
mod kept;
pub(crate) mod traced_turn;
mod used;
pub(crate) mod vocabulary;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hearken_ports::role::Keep;
use tokio::time::Instant;
use tracing::field::{DisplayValue, display};
use uuid::Uuid;
use uuid::fmt::Simple;

use crate::role::AssignedRole;

pub use self::journal::{JournalSettings, TurnJournal};
pub use self::kept::TracedSound;
pub use self::traced_turn::{Span, TracedTurn};
pub use self::vocabulary::{ClientKind, Outcome, Stage, TraceEvent, TurnState};

/// Maximum number of spans, and of events, in a trace.
const MOST: usize = 64;

/// Trace of one turn, written by all stages that work on it. Clones write to the same trace; the
/// turn ends with the last of them. Writes nothing if the turn is not traced.
// The turn carries this through six actors; spans of `tracing` follow the thread, and are recorded
// only when they end. Decision 0069.
#[derive(Clone, Default)]
pub struct TurnTrace {
    writer: Option<Arc<Writer>>,
    /// Number of the speculation that this clone writes about; 0 for none.
    speculation: u32,
}

struct Writer {
    entry: Arc<Entry>,
    journal: TurnJournal,
}

/// Entry of a turn in the journal.
struct Entry {
    began: Instant,
    /// What is stored of it, if that differs from the configuration.
    keep: Option<Keep>,
    facts: Mutex<Facts>,
}

struct Facts {
    turn: TracedTurn,
    speculations: u32,
    /// True if the turn was refused before it started.
    is_discarded: bool,
    /// Role in which it is answered.
    role: Option<Arc<AssignedRole>>,
    /// Its audio, if stored, until the turn has ended.
    sound: TracedSound,
    /// Number of its last change among all changes of the journal.
    changed: u64,
}

impl Entry {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnTrace {
    /// Starts a span. It is dropped if there are too many.
    pub fn begin(&self, stage: Stage) {
        self.begin_with(stage, None);
    }

    /// Starts a span with a detail.
    pub fn begin_with(&self, stage: Stage, detail: Option<String>) {
        self.write(|turn, now| {
            push(turn, Span { stage, detail, start: now, end: None, speculation: self.speculation })
        });
    }

    /// Ends the last open span of this stage, if there is one.
    pub fn end(&self, stage: Stage) {
        self.end_ago(stage, Duration::ZERO);
    }

    /// Ends the last open span of this stage: it ended this long ago.
    pub fn end_ago(&self, stage: Stage, ago: Duration) {
        self.write(|turn, now| {
            let lasting = self.lasting(turn, stage);
            lasting.map(|span| span.end = Some(now.saturating_sub(ago).max(span.start))).is_some()
        });
    }

    /// Adds the span of a stage that started this long ago and ends now.
    pub fn spent(&self, stage: Stage, ago: Duration) {
        let speculation = self.speculation;
        self.write(|turn, now| {
            let start = now.saturating_sub(ago);
            push(turn, Span { stage, detail: None, start, end: Some(now), speculation })
        });
    }

    /// Records an event.
    pub fn event(&self, event: TraceEvent) {
        self.write(|turn, now| {
            let fits = turn.events.len() < MOST;
            if fits {
                turn.events.push((event, now));
            }
            fits
        });
    }

    /// Records the state of the turn, unless it has ended.
    pub fn set_state(&self, state: TurnState) {
        self.write(|turn, _| std::mem::replace(&mut turn.state, state) != state);
    }

    /// Records the first packet of its speech, or words of its text, once.
    pub fn first_packet(&self) {
        self.write(|turn, now| {
            let is_first = turn.events.iter().all(|(event, _)| *event != TraceEvent::FirstPacket);
            if is_first {
                turn.events.push((TraceEvent::FirstPacket, now));
                turn.state = TurnState::Speaking;
            }
            is_first
        });
    }

    /// Records the version of the device's firmware.
    pub fn on_firmware(&self, version: Arc<str>) {
        self.write(|turn, _| {
            turn.firmware = Some(version);
            true
        });
    }

    /// Records the person's words.
    pub fn heard(&self, words: &str) {
        let words = self.kept(words);
        self.write(|turn, _| {
            turn.heard = words;
            true
        });
    }

    /// Records the words to answer, and starts the span of the prompt.
    pub fn answers(&self, words: &str) {
        self.heard(words);
        self.begin(Stage::Prompt);
    }

    /// Records the text of the answer.
    pub fn said(&self, text: &str) {
        let text = self.kept(text);
        self.write(|turn, _| {
            turn.said = text;
            true
        });
    }

    /// Records the part of the answer that the person did not hear; empty if they heard all.
    pub fn cut_off(&self, text: &str) {
        let text = self.kept(text);
        self.write(|turn, _| {
            turn.cut_off = text;
            true
        });
    }

    /// Ends the turn, once: the consequences (metrics, history, usage, export) are in
    /// `TurnJournal::ended`, for speech, text and REST. Later writes are ignored.
    pub fn finish(&self, outcome: Outcome) {
        if let Some(writer) = &self.writer {
            writer.finish(outcome);
        }
    }

    /// Ends the turn as refused before it started: it does not count as a turn, but its usage
    /// counts. The journal holds only the last of these: a client that exceeds its rate would push
    /// out the turns of others.
    pub fn discard(&self) {
        if let Some(writer) = &self.writer {
            writer.entry.facts().is_discarded = true;
            writer.finish(Outcome::Refused);
            writer.journal.drop_discarded();
        }
    }

    /// Returns the id of the turn, if it is traced.
    pub fn id(&self) -> Option<Uuid> {
        self.writer.as_ref().map(|writer| writer.entry.facts().turn.id)
    }

    /// Returns the id of the turn's trace for the log.
    pub fn log_id(&self) -> Option<DisplayValue<Simple>> {
        self.id().map(|id| display(id.simple()))
    }

    /// Returns a span for the log whose lines name the turn's trace.
    pub fn log_span(&self) -> tracing::Span {
        match self.log_id() {
            Some(trace) => tracing::error_span!("turn", %trace),
            None => tracing::Span::none(),
        }
    }

    /// Returns the trace of the next speculative answer.
    pub fn speculate(&self) -> Self {
        let Some(writer) = &self.writer else { return Self::default() };
        let mut facts = writer.entry.facts();
        facts.speculations += 1;
        let speculation = facts.speculations;
        drop(facts);
        let speculated = Self { writer: self.writer.clone(), speculation };
        speculated.begin(Stage::Speculation);
        speculated
    }

    /// Records that this speculation became the answer.
    pub fn use_speculation(&self) {
        self.write(|turn, now| self.settle(turn, now, "used"));
    }

    /// Records that this speculation was dropped: only the span of its whole duration remains.
    pub fn withdraw(&self) {
        self.write(|turn, now| {
            turn.spans
                .retain(|s| s.speculation != self.speculation || s.stage == Stage::Speculation);
            self.settle(turn, now, "withdrawn");
            true
        });
    }

    /// Ends the span of this speculation. Returns false if it has ended.
    fn settle(&self, turn: &mut TracedTurn, now: Duration, detail: &str) -> bool {
        let Some(span) = self.lasting(turn, Stage::Speculation) else { return false };
        (span.end, span.detail) = (Some(now), Some(detail.to_owned()));
        true
    }

    /// Returns the last open span of this stage, in this speculation.
    fn lasting<'a>(&self, turn: &'a mut TracedTurn, stage: Stage) -> Option<&'a mut Span> {
        let fits = |s: &&mut Span| {
            s.stage == stage && s.end.is_none() && s.speculation == self.speculation
        };
        turn.spans.iter_mut().rev().find(fits)
    }

    fn write(&self, change: impl FnOnce(&mut TracedTurn, Duration) -> bool) {
        if let Some(writer) = &self.writer {
            writer.write(change);
        }
    }
}

/// Adds a span. Returns false if there are too many.
fn push(turn: &mut TracedTurn, span: Span) -> bool {
    let fits = turn.spans.len() < MOST;
    if fits {
        turn.spans.push(span);
    }
    fits
}

impl Writer {
    /// Changes the turn unless it has ended, and notifies watchers. `change` returns false if it
    /// changed nothing.
    fn write(&self, change: impl FnOnce(&mut TracedTurn, Duration) -> bool) {
        let mut facts = self.entry.facts();
        let lasts = facts.turn.state != TurnState::Ended;
        if lasts && change(&mut facts.turn, self.entry.began.elapsed()) {
            facts.changed = self.journal.changed();
        }
    }

    fn finish(&self, outcome: Outcome) {
        let mut ended = None;
        self.write(|turn, now| {
            turn.spans.iter_mut().for_each(|span| span.end = Some(span.end.unwrap_or(now)));
            turn.spans.sort_by_key(|span| span.start);
            let cut = turn.events.iter().any(|(event, _)| *event == TraceEvent::Cut);
            let outcome = match outcome {
                // The model had finished before the cut.
                Outcome::Answered if cut => Outcome::Interrupted,
                outcome => outcome,
            };
            (turn.state, turn.outcome) = (TurnState::Ended, Some(outcome));
            ended = Some(turn.clone());
            true
        });
        if let Some(turn) = ended {
            let mut facts = self.entry.facts();
            let sound = std::mem::take(&mut facts.sound);
            let role = facts.role.take();
            let is_discarded = facts.is_discarded;
            drop(facts);
            if is_discarded {
                self.journal.count_refused(&turn, role.as_deref());
            } else {
                self.journal.ended(turn, sound, self.keep(), role.as_deref());
            }
        }
    }
}

impl Drop for Writer {
    /// Ends a turn that was dropped without an outcome: its client has left, or there was nothing
    /// to answer. Done here because any of several tasks may be the last that holds it. Decision
    /// 0069.
    fn drop(&mut self) {
        let answers = |span: &Span| span.stage == Stage::Prompt;
        let began = self.entry.facts().turn.spans.iter().any(answers);
        self.finish(if began { Outcome::Interrupted } else { Outcome::Silent });
    }
}

impl fmt::Debug for TurnTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TurnTrace").field("id", &self.id()).finish_non_exhaustive()
    }
}
