//! Words of a session that no turn has answered, because the person went on speaking: they are
//! answered together with the next ones, or stopped by them. Not for how memory joins them: that is
//! `hearken_dialogue::memory`.

use actix::Context;
use hearken_dialogue::memory::join;
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::{Turn, TurnInput};
use hearken_proto::ids::TurnId;

use super::{SessionActor, words_of};
use crate::interruption::Meaning;
use crate::messages::{RecognitionFailure, StartTurn, Transcribed};

/// Maximum number of utterances whose words wait until the running turn is committed to memory.
const MAX_KEPT: usize = 8;

impl SessionActor {
    /// Skips a turn that must not start. If the person went on speaking after its words, they are
    /// stored, and the next turn answers them.
    pub(super) fn skip(&mut self, StartTurn { turn, input }: StartTurn) {
        match input {
            TurnInput::Words(words) | TurnInput::Resumed(words) if !turn.is_continued() => {
                self.dialogue.note_words(words);
            }
            TurnInput::Words(words) => self.keep_recognised(turn, words),
            TurnInput::Resumed(words) => {
                self.asked_by = turn.speaker();
                self.keep(turn.id, words);
            }
            _ => {}
        }
    }

    /// Stores the recognised words of a turn after which the person went on speaking.
    pub(super) fn keep_words(
        &mut self,
        turn: Turn,
        outcome: Result<Option<String>, RecognitionFailure>,
    ) {
        match outcome {
            Ok(Some(text)) => self.keep_recognised(turn, text),
            Ok(None) | Err(RecognitionFailure::Busy) => {}
            Err(RecognitionFailure::Failed(error)) => {
                tracing::warn!(turn = %turn.id, trace = turn.trace().log_id(), %error, "recognition failed");
            }
        }
    }

    /// Stores words whose transcript the device has not received yet, and sends it.
    fn keep_recognised(&mut self, turn: Turn, text: String) {
        if self.keep(turn.id, text.clone()) {
            self.asked_by = turn.speaker();
            self.outputs.transcribed.do_send(Transcribed { turn, text });
        }
    }

    /// Stores words for the turn that answers them together with its own, unless their turn was cut
    /// meanwhile. In memory they follow the running turn. Returns false if they are not stored.
    fn keep(&mut self, turn: TurnId, words: String) -> bool {
        if turn <= self.over {
            return false;
        }
        if self.running.is_none() {
            if self.stops(&words) {
                self.stop_unanswered();
            } else {
                self.dialogue.keep_words(&words);
            }
            return true;
        }
        if self.kept.len() == MAX_KEPT {
            self.kept.remove(0);
        }
        self.kept.push((turn, words));
        true
    }

    /// Moves the words that were stored while a turn was running into memory, after that turn.
    pub(super) fn settle_kept(&mut self) {
        for (turn, words) in std::mem::take(&mut self.kept) {
            self.keep(turn, words);
        }
    }

    /// Reports whether an input may stop what is being done for the words before it. Whether it
    /// does is known once the running turn is committed to memory.
    pub(super) fn may_stop(&self, input: &TurnInput) -> bool {
        let TurnInput::Words(words) = input else { return false };
        self.is_stop(words) && self.awaits_answer()
    }

    /// Reports whether earlier words wait for an answer that no turn has begun.
    pub(super) fn awaits_answer(&self) -> bool {
        self.dialogue.unanswered().is_some()
            || self.kept.iter().any(|(turn, _)| *turn > self.over)
            || self.running.as_ref().is_some_and(|running| running.turn.is_continued())
    }

    fn is_stop(&self, words: &str) -> bool {
        self.rules.interruption.meaning(words, false) == Meaning::Stop
    }

    /// Reports whether words stop what is being done for the unanswered words before them. They
    /// belong to a sentence that they complete ("tell me when to", "stop"), and a person in danger is
    /// answered whatever is said next.
    pub(super) fn stops(&self, words: &str) -> bool {
        let Some(before) = self.dialogue.unanswered().filter(|_| self.is_stop(words)) else {
            return false;
        };
        !self.rules.unfinished.end(before)
            && !self.llm.is_urgent(&self.dialogue.prompt(words, None))
    }

    /// Ends a turn whose words stop what is being done for those before them. Like stop words over a
    /// reply, they are shown and not answered.
    pub(super) fn stop(&mut self, StartTurn { turn, input }: StartTurn, ctx: &mut Context<Self>) {
        self.stop_unanswered();
        if let TurnInput::Words(text) = input {
            self.outputs.transcribed.do_send(Transcribed { turn: turn.clone(), text });
        }
        self.nothing_heard(&turn, ctx);
    }

    fn stop_unanswered(&mut self) {
        tracing::debug!("stopped before the answer");
        actor_metrics().turn_taking.interruptions.stopped.increment(1);
        self.forget_unanswered();
    }

    /// Forgets the words that were not answered, and cancels the calls that still run for them,
    /// except those that must finish.
    pub(super) fn forget_unanswered(&mut self) {
        // Without such words, calls that still run are those of an answered question.
        let are_for_words = self.dialogue.unanswered().is_some();
        let stopped = if are_for_words { self.toolbox.stop_calls() } else { Vec::new() };
        self.dialogue.forget_unanswered(&stopped);
    }

    /// Records the words of turns that end with the connection: rules about people in danger know
    /// them in the device's next one.
    pub(super) fn note_cut_words(&mut self) {
        self.dialogue.forget_unanswered(&[]);
        let running = self.running.take().and_then(|running| running.words);
        let kept = std::mem::take(&mut self.kept).into_iter().map(|(_, words)| words);
        let next = self.next.take().and_then(|next| words_of(&next.input));
        for words in running.into_iter().chain(kept).chain(next) {
            self.dialogue.note_words(words);
        }
    }

    /// Takes the recognised words that were never answered, unless a running or waiting turn is
    /// about to answer them.
    pub(super) fn unanswered(&mut self) -> Option<String> {
        if self.next.is_some() {
            return None;
        }
        if self.running.is_none() {
            return self.dialogue.take_unanswered();
        }
        let kept = std::mem::take(&mut self.kept).into_iter().filter(|(turn, _)| *turn > self.over);
        kept.map(|(_, words)| words).reduce(|mut all, words| {
            join(&mut all, &words);
            all
        })
    }
}
