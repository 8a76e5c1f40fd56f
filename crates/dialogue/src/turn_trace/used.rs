//! Usage of a turn, the check of its limits, and its pending confirmations. Not for the daily sums.

use std::sync::Arc;
use std::time::Duration;

use hearken_audio::pcm;
use hearken_audio::voice_detector::SAMPLE_RATE_HZ;
use hearken_base::ms::in_ms;
use hearken_ports::usage::{LimitReached, Used};
use hearken_ports::{Llm, Prompt};

use super::{ClientKind, Entry, TracedTurn, TurnTrace};
use crate::role::AssignedRole;
use crate::tools::waiting::{ListedCall, WaitingCall};
use crate::usage::{ModelUsage, UsageAccount};

impl TracedTurn {
    /// Returns the id of its device; empty for other clients.
    pub fn device(&self) -> &str {
        if self.kind == ClientKind::Voice { &self.client } else { "" }
    }
}

impl Entry {
    pub(super) fn hear(&self, samples: &[i16]) {
        let heard_ms = in_ms(pcm::duration(samples.len(), SAMPLE_RATE_HZ));
        self.facts().turn.used.add(&Used { heard_ms, ..Used::default() });
    }

    pub(super) fn say(&self, lasts: Duration) {
        self.facts().turn.used.add(&Used { said_ms: in_ms(lasts), ..Used::default() });
    }
}

impl TurnTrace {
    /// Records the role in which the turn is answered.
    pub fn answered_as(&self, role: Option<Arc<AssignedRole>>) {
        if let Some(writer) = &self.writer {
            writer.entry.facts().role = role;
        }
    }

    /// Assigns the turn to this client: a text client may answer in another session than the one
    /// that it connected with.
    pub fn of_client(&self, client: &str) {
        if let Some(writer) = &self.writer {
            client.clone_into(&mut writer.entry.facts().turn.client);
        }
    }

    /// Counts a response of this model to this prompt.
    pub fn meters_model(&self, prompt: &Prompt, llm: &dyn Llm) -> ModelUsage {
        let trace = self.clone();
        ModelUsage::new(prompt, llm, move |usage| trace.count(&(*usage).into()))
    }

    /// Returns the account of the client for what is used beside the model, also after the turn;
    /// `None` if nothing is counted.
    pub fn account(&self) -> Option<UsageAccount> {
        let writer = self.writer.as_ref()?;
        let meter = writer.journal.meter()?.clone();
        let facts = writer.entry.facts();
        let turn = &facts.turn;
        let role = facts.role.clone();
        Some(UsageAccount::new(meter, turn.kind.name(), turn.device(), role, turn.began))
    }

    /// Counts a text for the synthesiser.
    pub fn synthesises(&self, text: &str) {
        let said_chars = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        self.count(&Used { said_chars, ..Used::default() });
    }

    /// Checks that no daily limit is reached.
    ///
    /// # Errors
    /// Returns the reached limit: the turn may use nothing more.
    pub fn within_limits(&self) -> Result<(), LimitReached> {
        let Some(writer) = &self.writer else { return Ok(()) };
        let Some(meter) = writer.journal.meter() else { return Ok(()) };
        let facts = writer.entry.facts();
        let device = facts.turn.device().to_owned();
        let role = facts.role.clone();
        drop(facts);
        let Some(reached) = meter.reached(&device, role.as_deref()) else { return Ok(()) };
        writer.entry.facts().turn.used.refused = 1;
        Err(reached)
    }

    /// Adds a call of this turn to the pending confirmations: its tool, source, arguments, and the
    /// question.
    pub fn waits(
        &self,
        tool: String,
        source: String,
        arguments: String,
        question: String,
    ) -> Option<ListedCall> {
        let writer = self.writer.as_ref()?;
        let facts = writer.entry.facts();
        let kind = facts.turn.kind.name();
        let client = facts.turn.client.clone();
        drop(facts);
        let call = WaitingCall { kind, client, tool, source, arguments, question };
        Some(writer.journal.waiting().add(call))
    }

    fn count(&self, used: &Used) {
        if let Some(writer) = &self.writer {
            writer.entry.facts().turn.used.add(used);
        }
    }
}
