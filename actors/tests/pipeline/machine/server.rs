//! Server of a device: its settings and its ports. Not for connections.

use std::sync::Arc;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_dialogue::admission::AdmissionSettings;
use hearken_dialogue::testkit::Plan;

use super::outside::{Outside, ServerTools, TOOL_LIMIT};
use crate::ms;

/// Maximum number of concurrent turns.
pub(super) const PLACES: usize = 2;

/// Turn-taking of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnTaking {
    /// No speculative answers, and voice ends a reply: as in the table.
    Plain,
    /// The default: speculative answers in pauses, and voice pauses a reply until the words are known.
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
    settings.tools.device_timeout = TOOL_LIMIT;
    settings.admission = AdmissionSettings { max_turns: PLACES, ..AdmissionSettings::default() };
    settings
}

/// Starts a server, and opens the first connection to it.
pub(super) fn starts(
    turn_taking: TurnTaking,
    tools: &Arc<ServerTools>,
    outside: &Arc<Outside>,
) -> TestPipeline {
    let pipeline = TestPipeline::connect_with(settings(turn_taking), vec![tools.clone()]);
    let plan: Arc<dyn Plan> = outside.clone();
    *pipeline.script.plan.lock().expect("nothing panics while it holds the lock") = Some(plan);
    pipeline
}
