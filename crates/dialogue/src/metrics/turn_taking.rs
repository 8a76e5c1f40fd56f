//! Counters of turn-taking: judgements of silences, speculative answers, interruptions. Not for the
//! decisions themselves.

use metrics::{Counter, Unit, counter, describe_counter};

/// Counters of turn-taking.
pub struct TurnTaking {
    pub judgements: Judgements,
    pub speculations: Speculations,
    pub interruptions: Interruptions,
}

/// Counters of silences for which the turn detector was due, by outcome.
pub struct Judgements {
    /// It judged in time.
    pub judged: Counter,
    /// It judged only after the silence was over.
    pub late: Counter,
    /// It was busy, or the server was strained.
    pub skipped: Counter,
}

/// Counters of speculative answers, by outcome.
pub struct Speculations {
    /// The person had finished: the speculation became the answer.
    pub used: Counter,
    /// The person went on, or the turn was cut.
    pub withdrawn: Counter,
}

/// Counters of voice that paused a reply, by outcome.
pub struct Interruptions {
    /// The reply was ended, and the words answered.
    pub answered: Counter,
    /// The reply was ended, and nothing was answered.
    pub stopped: Counter,
    /// The reply resumed after a backchannel.
    pub backchannel: Counter,
    /// The reply resumed: there were no words.
    pub nothing: Counter,
    /// The reply resumed before the words were recognised.
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
