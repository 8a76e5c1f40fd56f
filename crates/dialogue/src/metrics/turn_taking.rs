//! Counters of turn-taking: judgements of silences, speculative answers, interruptions. Not for what decides about them.

use metrics::{Counter, Unit, counter, describe_counter};

/// Counters of turn-taking.
pub struct TurnTaking {
    pub judgements: Judgements,
    pub speculations: Speculations,
    pub interruptions: Interruptions,
}

/// Counters of silences at which the turn detector was to be asked, by outcome.
pub struct Judgements {
    /// It judged in time.
    pub judged: Counter,
    /// It judged when the silence was over.
    pub late: Counter,
    /// It was busy, or the server strained.
    pub skipped: Counter,
}

/// Counters of speculative answers, by outcome.
pub struct Speculations {
    /// The person had finished: it became the answer.
    pub used: Counter,
    /// The person went on, or the turn was cut.
    pub withdrawn: Counter,
}

/// Counters of voice that paused a reply, by what became of it.
pub struct Interruptions {
    /// The reply was ended, and the words answered.
    pub answered: Counter,
    /// The reply was ended, and nothing answered.
    pub stopped: Counter,
    /// The reply went on after a backchannel.
    pub backchannel: Counter,
    /// The reply went on: there were no words.
    pub nothing: Counter,
    /// The reply went on before it was known what was said.
    pub late: Counter,
}

impl TurnTaking {
    pub fn new() -> Self {
        const DETECTIONS: &str = "hearken_turn_detections_total";
        const SPECULATIONS: &str = "hearken_speculations_total";
        const INTERRUPTIONS: &str = "hearken_interruptions_total";
        let silences = "silences at which the turn detector was to be asked, by outcome";
        describe_counter!(DETECTIONS, Unit::Count, silences);
        let speculations = "answers attempted before the person had certainly finished, by outcome";
        describe_counter!(SPECULATIONS, Unit::Count, speculations);
        describe_counter!(INTERRUPTIONS, Unit::Count, "voice that paused a reply, by its outcome");
        let judged = |outcome| counter!(DETECTIONS, "outcome" => outcome);
        let speculated = |outcome| counter!(SPECULATIONS, "outcome" => outcome);
        let interrupted = |outcome| counter!(INTERRUPTIONS, "outcome" => outcome);
        Self {
            judgements: Judgements {
                judged: judged("judged"),
                late: judged("late"),
                skipped: judged("skipped"),
            },
            speculations: Speculations {
                used: speculated("used"),
                withdrawn: speculated("withdrawn"),
            },
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
