//! The server that a device connects to: its settings, and what is outside of it. Not for connections.

use std::sync::Arc;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::testkit::Plan;

use super::outside::{Outside, ServerTools};
use crate::ms;

/// Turns that may run at once.
pub(super) const PLACES: usize = 2;

/// How the server takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnTaking {
    /// It works on an answer when the person has finished, and voice ends a reply: as the table has it.
    Plain,
    /// As by default: it begins answers early in pauses, and voice pauses a reply until there are words.
    Eager,
}

fn settings(turn_taking: TurnTaking) -> PipelineSettings {
    let mut settings = PipelineSettings::default();
    if turn_taking == TurnTaking::Plain {
        settings.speculation.tries = 0;
        settings.interruption.pause = false;
    }
    settings.hearing.silence = ms(300);
    settings.speaking.complexity = 0;
    settings.speaking.sample_rate_hz = 16_000;
    settings.tools.max_rounds = 3;
    settings.tools.device_timeout = ms(3_000);
    settings.admission = AdmissionSettings { max_turns: PLACES, ..AdmissionSettings::default() };
    settings
}

/// A server that has just started, and the first connection to it.
pub(super) fn starts(
    turn_taking: TurnTaking,
    tools: &Arc<ServerTools>,
    outside: &Arc<Outside>,
) -> TestPipeline {
    let pipeline = TestPipeline::connect_with(settings(turn_taking), vec![tools.clone()]);
    let plan: Arc<dyn Plan> = outside.clone();
    *pipeline.script.plan.lock().expect("nobody panics here") = Some(plan);
    pipeline
}
