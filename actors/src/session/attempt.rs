//! Attempts of an answer in a pause, before it is certain that the person has finished. The reply is held, no tool is
//! called, and nothing is remembered until then. Not for when attempts are allowed: that is `crate::speculation` and,
//! for the load, the AsrActor.

use std::sync::Arc;

use actix::{AsyncContext as _, Context, Handler, SpawnHandle};
use hearken_base::language::are_same_words;
use hearken_dialogue::metrics::actor_metrics;
use hearken_dialogue::tools::Offer;
use hearken_dialogue::turn::TurnRecord;
use hearken_dialogue::{Turn, TurnInput};
use hearken_ports::PersonId;
use hearken_proto::ids::TurnId;

use super::SessionActor;
use crate::messages::{Hypothesis, StartTurn};

/// Attempt of an answer.
pub(super) struct Attempt {
    pub(super) turn: Turn,
    words: String,
    /// Person who was answered.
    person: Option<PersonId>,
    /// Tools that the model was offered.
    offer: Arc<Offer>,
    /// Record of it, once the model has finished.
    pub(super) record: Option<TurnRecord>,
    work: SpawnHandle,
}

impl SessionActor {
    /// Attempts an answer to these words, unless that could not be undone, or the model would be told something else when
    /// they are certain: a call waits for the person's yes, or a voice is being learned.
    fn attempt(&mut self, of: &Turn, words: String, ctx: &mut Context<Self>) {
        let busy = self.running.is_some() || self.next.is_some() || self.toolbox.holds_call();
        let dear = self.llm.price_per_million() > self.rules.max_price_per_million;
        let learns = self.dialogue.speakers().is_some_and(|speakers| speakers.learns());
        if busy || dear || learns || !of.is_live() {
            return self.return_permit(of);
        }
        tracing::debug!(turn = %of.id, trace = of.trace().log_id(), "attempts an answer");
        let turn = of.attempt();
        let person = self.person(of).map(|person| person.id.clone());
        let offer = self.toolbox.offer();
        let work = self.run(turn.clone(), TurnInput::Words(words.clone()), ctx);
        self.attempt = Some(Attempt { turn, words, person, offer, record: None, work });
    }

    /// Returns the permit for an attempt that is not made. An utterance that interrupts a reply keeps it: it is the
    /// reply's.
    fn return_permit(&self, of: &Turn) {
        if !self.replies() {
            of.release_permit();
        }
    }

    /// Drops the attempt, as if it had not been made.
    pub(super) fn withdraw(&mut self, ctx: &mut Context<Self>) {
        let Some(attempt) = self.attempt.take() else { return };
        tracing::debug!(turn = %attempt.turn.id, trace = attempt.turn.trace().log_id(), "withdrew the attempt");
        attempt.turn.withdraw();
        ctx.cancel_future(attempt.work);
        actor_metrics().turn_taking.attempts.withdrawn.increment(1);
    }

    /// Drops the attempt if it is one of this turn, which is over.
    pub(super) fn withdraw_of(&mut self, turn: TurnId, ctx: &mut Context<Self>) {
        if self.attempt.as_ref().is_some_and(|attempt| attempt.turn.id == turn) {
            self.withdraw(ctx);
        }
    }

    /// Takes the attempt if it answers a turn that begins, and drops it if it does not.
    pub(super) fn fitting_attempt(
        &mut self,
        start: &StartTurn,
        ctx: &mut Context<Self>,
    ) -> Option<Attempt> {
        // Who speaks may be known later than the words.
        let person = self.person(&start.turn).map(|person| person.id.clone());
        let toolbox = &self.toolbox;
        let fits = |attempt: &mut Attempt| {
            let TurnInput::Words(words) = &start.input else { return false };
            let same = are_same_words(words, &attempt.words)
                && person == attempt.person
                && Arc::ptr_eq(&attempt.offer, &toolbox.offer());
            same && attempt.turn.id == start.turn.id && attempt.turn.is_live()
        };
        let attempt = self.attempt.take_if(fits);
        self.withdraw(ctx);
        attempt
    }

    /// Makes an attempt the answer of the turn that runs now.
    pub(super) fn use_attempt(
        &mut self,
        Attempt { turn, record, .. }: Attempt,
        ctx: &mut Context<Self>,
    ) {
        actor_metrics().turn_taking.attempts.used.increment(1);
        tracing::debug!(turn = %turn.id, trace = turn.trace().log_id(), "the attempt is the answer");
        if let Some(record) = record {
            self.recorded(&turn, record, ctx);
        }
        turn.confirm();
    }
}

impl Handler<Hypothesis> for SessionActor {
    type Result = ();

    fn handle(&mut self, Hypothesis { turn, transcript }: Hypothesis, ctx: &mut Self::Context) {
        self.withdraw(ctx);
        match transcript.as_ref().and_then(|transcript| self.words(&turn, transcript)) {
            Some(words) => self.attempt(&turn, words, ctx),
            None => self.return_permit(&turn),
        }
    }
}
