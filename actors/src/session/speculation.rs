//! Speculative answers: started in a pause, before it is certain that the person has finished. Until then
//! the reply is held back, no tool is called, and nothing is remembered. Not for when speculations
//! are allowed: that is `crate::speculation` and, for the load, the AsrActor.

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
use crate::messages::{SpeculativeTranscript, StartTurn};

/// Answer that was started in a pause.
pub(super) struct Speculation {
    pub(super) turn: Turn,
    words: String,
    /// Person who is answered.
    person: Option<PersonId>,
    /// Tools that the model was offered.
    offer: Arc<Offer>,
    /// Its record, once the model has finished.
    pub(super) record: Option<TurnRecord>,
    work: SpawnHandle,
}

impl SessionActor {
    /// Starts to answer these words, unless that could not be undone, or the model's input would
    /// differ once they are certain: a call is pending confirmation, or a voice is being learned.
    fn speculate(&mut self, of: &Turn, words: String, ctx: &mut Context<Self>) {
        let busy = self.running.is_some() || self.next.is_some() || self.toolbox.holds_call();
        let dear = self.llm.price_per_million() > self.rules.max_price_per_million;
        let learns = self.dialogue.speakers().is_some_and(|speakers| speakers.learns());
        // The model is asked: from here on, the utterance counts as a turn of its device.
        let stops = self.stops(&words);
        if busy || dear || learns || stops || !of.is_live() || of.take_rate().is_err() {
            return self.return_permit(of);
        }
        tracing::debug!(turn = %of.id, trace = of.trace().log_id(), "started a speculative answer");
        // The work starts in the silence: after it, the latencies of model and synthesiser would
        // add to the silence. Decision 0062.
        let turn = of.speculate();
        let person = self.person(of).map(|person| person.id.clone());
        let offer = self.toolbox.offer();
        let work = self.run(turn.clone(), TurnInput::Words(words.clone()), ctx);
        self.speculation = Some(Speculation { turn, words, person, offer, record: None, work });
    }

    /// Returns the permit of a speculation that is not started. An utterance that interrupts a
    /// reply retains it, because it is the reply's permit.
    fn return_permit(&self, of: &Turn) {
        if !self.replies() {
            of.release_permit();
        }
    }

    /// Drops the speculation without a trace.
    pub(super) fn withdraw(&mut self, ctx: &mut Context<Self>) {
        let Some(speculation) = self.speculation.take() else { return };
        tracing::debug!(turn = %speculation.turn.id, trace = speculation.turn.trace().log_id(), "withdrew the speculation");
        speculation.turn.withdraw();
        ctx.cancel_future(speculation.work);
        actor_metrics().turn_taking.speculations.withdrawn.increment(1);
    }

    /// Drops the speculation if it belongs to this turn, which is over.
    pub(super) fn withdraw_of(&mut self, turn: TurnId, ctx: &mut Context<Self>) {
        if self.speculation.as_ref().is_some_and(|speculation| speculation.turn.id == turn) {
            self.withdraw(ctx);
        }
    }

    /// Takes the speculation if it answers the turn that starts, and drops it otherwise.
    pub(super) fn fitting_speculation(
        &mut self,
        start: &StartTurn,
        ctx: &mut Context<Self>,
    ) -> Option<Speculation> {
        // The speaker may be known later than the words.
        let person = self.person(&start.turn).map(|person| person.id.clone());
        let toolbox = &self.toolbox;
        let fits = |speculation: &mut Speculation| {
            let TurnInput::Words(words) = &start.input else { return false };
            let same = are_same_words(words, &speculation.words)
                && person == speculation.person
                && Arc::ptr_eq(&speculation.offer, &toolbox.offer());
            same && speculation.turn.id == start.turn.id && speculation.turn.is_live()
        };
        let speculation = self.speculation.take_if(fits);
        self.withdraw(ctx);
        speculation
    }

    /// Makes a speculation the answer of the running turn.
    pub(super) fn use_speculation(
        &mut self,
        Speculation { turn, record, .. }: Speculation,
        ctx: &mut Context<Self>,
    ) {
        actor_metrics().turn_taking.speculations.used.increment(1);
        tracing::debug!(turn = %turn.id, trace = turn.trace().log_id(), "the speculation is the answer");
        if let Some(record) = record {
            self.recorded(&turn, record, ctx);
        }
        turn.confirm();
    }
}

impl Handler<SpeculativeTranscript> for SessionActor {
    type Result = ();

    fn handle(
        &mut self,
        SpeculativeTranscript { turn, transcript }: SpeculativeTranscript,
        ctx: &mut Self::Context,
    ) {
        self.withdraw(ctx);
        match transcript.as_ref().and_then(|transcript| self.words(&turn, transcript)) {
            Some(words) => self.speculate(&turn, words, ctx),
            None => self.return_permit(&turn),
        }
    }
}
