//! Counters of turn-taking: judgements of silences, attempted answers, interruptions. Not for what decides about them.

use metrics::{Counter, Unit, counter, describe_counter};

/// Counters of turn-taking.
pub(crate) struct TurnTaking {
    pub(crate) judgements: Judgements,
    pub(crate) attempts: Attempts,
    pub(crate) interruptions: Interruptions,
}

/// Counters of silences at which the turn detector was to be asked, by outcome.
pub(crate) struct Judgements {
    /// It judged in time.
    pub(crate) judged: Counter,
    /// It judged when the silence was over.
    pub(crate) late: Counter,
    /// It was busy, or the server strained.
    pub(crate) skipped: Counter,
}

/// Counters of attempted answers, by outcome.
pub(crate) struct Attempts {
    /// The person had finished: it became the answer.
    pub(crate) used: Counter,
    /// The person went on, or the turn was cut.
    pub(crate) withdrawn: Counter,
}

/// Counters of voice that paused a reply, by what became of it.
pub(crate) struct Interruptions {
    /// The reply was ended, and the words answered.
    pub(crate) answered: Counter,
    /// The reply was ended, and nothing answered.
    pub(crate) stopped: Counter,
    /// The reply went on after a backchannel.
    pub(crate) backchannel: Counter,
    /// The reply went on: there were no words.
    pub(crate) nothing: Counter,
    /// The reply went on before it was known what was said.
    pub(crate) late: Counter,
}

impl TurnTaking {
    pub(crate) fn new() -> Self {
        const DETECTIONS: &str = "hearken_turn_detections_total";
        const SPECULATIONS: &str = "hearken_speculations_total";
        const INTERRUPTIONS: &str = "hearken_interruptions_total";
        let silences = "silences at which the turn detector was to be asked, by outcome";
        describe_counter!(DETECTIONS, Unit::Count, silences);
        let attempts = "answers attempted before the person had certainly finished, by outcome";
        describe_counter!(SPECULATIONS, Unit::Count, attempts);
        describe_counter!(INTERRUPTIONS, Unit::Count, "voice that paused a reply, by its outcome");
        let judged = |outcome| counter!(DETECTIONS, "outcome" => outcome);
        let attempted = |outcome| counter!(SPECULATIONS, "outcome" => outcome);
        let interrupted = |outcome| counter!(INTERRUPTIONS, "outcome" => outcome);
        Self {
            judgements: Judgements {
                judged: judged("judged"),
                late: judged("late"),
                skipped: judged("skipped"),
            },
            attempts: Attempts { used: attempted("used"), withdrawn: attempted("withdrawn") },
            interruptions: Interruptions {
                answered: interrupted("answered"),
                stopped: interrupted("stopped"),
                backchannel: interrupted("backchannel"),
                nothing: interrupted("nothing"),
                late: interrupted("late"),
            },
        }
    }
}
