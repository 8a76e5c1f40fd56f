//! What happened in a turn, and when: the stages of its work, and what was said. Not for what is done with it: the last
//! turns are kept by the [`TurnJournal`].

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

/// Most spans and events of a turn that are kept, each.
const MOST: usize = 64;

/// What is written about one turn, by all who work on it. Clones write about the same one; the turn ends with the last
/// of them. Writes nothing if nobody keeps it.
// The turn carries this through six actors; spans of `tracing` follow the thread, and are known only when they end.
// Decision 0069.
#[derive(Clone, Default)]
pub struct TurnTrace {
    writer: Option<Arc<Writer>>,
    /// Speculation of which this one is written.
    speculation: u32,
}

struct Writer {
    entry: Arc<Entry>,
    journal: TurnJournal,
}

/// What is known of a turn.
struct Entry {
    began: Instant,
    /// How much is kept of it, where that differs from the configuration.
    keep: Option<Keep>,
    facts: Mutex<Facts>,
}

struct Facts {
    turn: TracedTurn,
    speculations: u32,
    /// True if it was refused before it began.
    is_discarded: bool,
    /// Role in which it is answered.
    role: Option<Arc<AssignedRole>>,
    /// Its sound, where that is kept, until the turn has ended.
    sound: TracedSound,
    /// Number of the last change among all changes of the journal.
    changed: u64,
}

impl Entry {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TurnTrace {
    /// Begins a span. If too many are known, it is not kept.
    pub fn begin(&self, stage: Stage) {
        self.begin_with(stage, None);
    }

    /// Begins a span with a detail.
    pub fn begin_with(&self, stage: Stage, detail: Option<String>) {
        self.write(|turn, now| {
            push(turn, Span { stage, detail, start: now, end: None, speculation: self.speculation })
        });
    }

    /// Ends the last span of this stage that lasts, if there is one.
    pub fn end(&self, stage: Stage) {
        self.end_ago(stage, Duration::ZERO);
    }

    /// Ends the last span of this stage that lasts: it has ended this long ago.
    pub fn end_ago(&self, stage: Stage, ago: Duration) {
        self.write(|turn, now| {
            let lasting = self.lasting(turn, stage);
            lasting.map(|span| span.end = Some(now.saturating_sub(ago).max(span.start))).is_some()
        });
    }

    /// Adds the span of a stage that began this long ago and ends now.
    pub fn spent(&self, stage: Stage, ago: Duration) {
        let speculation = self.speculation;
        self.write(|turn, now| {
            let start = now.saturating_sub(ago);
            push(turn, Span { stage, detail: None, start, end: Some(now), speculation })
        });
    }

    /// Notes a event.
    pub fn event(&self, event: TraceEvent) {
        self.write(|turn, now| {
            let fits = turn.events.len() < MOST;
            if fits {
                turn.events.push((event, now));
            }
            fits
        });
    }

    /// Notes what the turn is doing, unless it has ended.
    pub fn set_state(&self, state: TurnState) {
        self.write(|turn, _| std::mem::replace(&mut turn.state, state) != state);
    }

    /// Notes the first packet of its speech, or words of its text, once.
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

    /// Notes the version of the device's firmware.
    pub fn on_firmware(&self, version: Arc<str>) {
        self.write(|turn, _| {
            turn.firmware = Some(version);
            true
        });
    }

    /// Notes what the person said.
    pub fn heard(&self, words: &str) {
        let words = self.kept(words);
        self.write(|turn, _| {
            turn.heard = words;
            true
        });
    }

    /// Notes what is answered, and that its prompt is made from now on.
    pub fn answers(&self, words: &str) {
        self.heard(words);
        self.begin(Stage::Prompt);
    }

    /// Notes what was answered in text.
    pub fn said(&self, text: &str) {
        let text = self.kept(text);
        self.write(|turn, _| {
            turn.said = text;
            true
        });
    }

    /// Notes the end of the answer that the person did not hear; empty if they heard all.
    pub fn cut_off(&self, text: &str) {
        let text = self.kept(text);
        self.write(|turn, _| {
            turn.cut_off = text;
            true
        });
    }

    /// Ends the turn, once: what follows from it (metrics, history, usage, export) is in `TurnJournal::ended`, for speech, text and
    /// REST alike. What comes later is not written.
    pub fn finish(&self, outcome: Outcome) {
        if let Some(writer) = &self.writer {
            writer.finish(outcome);
        }
    }

    /// Ends the turn as refused before it began: it is no turn, but what it used counts. Only the last of these stay in the
    /// journal: who asks faster than is allowed would push the turns of others out.
    pub fn discard(&self) {
        if let Some(writer) = &self.writer {
            writer.entry.facts().is_discarded = true;
            writer.finish(Outcome::Refused);
            writer.journal.drop_discarded();
        }
    }

    /// Returns the id of the turn, if it is kept.
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

    /// Returns what writes about the next speculation of an answer.
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

    /// Notes that this speculation is the answer.
    pub fn use_speculation(&self) {
        self.write(|turn, now| self.settle(turn, now, "used"));
    }

    /// Notes that this speculation was dropped: of its work, only the time remains.
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

    /// Returns the last span of this stage, in this speculation, that lasts.
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

/// Adds a span. Returns false if too many are known.
fn push(turn: &mut TracedTurn, span: Span) -> bool {
    let fits = turn.spans.len() < MOST;
    if fits {
        turn.spans.push(span);
    }
    fits
}

impl Writer {
    /// Changes the turn unless it has ended, and counts that for who watches. The change returns false if it was none.
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
                // The model had finished before.
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
    /// Ends a turn that was dropped without an outcome: its client has left, or there was nothing to answer. Here because each
    /// of several tasks may be the last that holds it. Decision 0069.
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
