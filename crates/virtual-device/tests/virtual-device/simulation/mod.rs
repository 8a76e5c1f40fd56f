//! Hours of conversation in virtual time: people, boards of every firmware, a network and bad
//! vendors around the real actors of one connection. Used by the tests beside it and by
//! `scripts/simulate`. Not for sockets nor real engines.
//!
//! Reading order: [`plan`] (a household, and how bad its network may be), [`vendors`] (how bad
//! theirs), [`person`] (what people do), [`judge`] (what must never be), [`home`] (how time
//! passes), [`wire`], [`microphone`].
//!
//! A household is drawn from a seed, alone decides what happens in it, and can be replayed.

pub(crate) mod home;
pub(crate) mod judge;
pub(crate) mod microphone;
pub(crate) mod person;
pub(crate) mod plan;
#[cfg(test)]
mod tests;
pub(crate) mod vendors;
pub(crate) mod wire;

use std::collections::HashMap;
use std::time::Duration;

use home::Home;
use judge::Counts;
use plan::Plan;

/// What came of one household.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) counts: Counts,
    /// Failures of vendors that were played.
    pub(crate) failures: HashMap<&'static str, u32>,
    pub(crate) faults: Vec<String>,
    /// All that happened, where asked for.
    pub(crate) timeline: Vec<String>,
    /// Virtual time that it took.
    pub(crate) length: Duration,
}

/// Lets people live in this household for its time, on this thread.
pub(crate) fn simulate(plan: Plan, timeline: bool) -> Outcome {
    let clock = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime starts")
    };
    let system = actix::System::with_tokio_rt(clock);
    system.block_on(async move {
        let mut home = Home::new(plan.clone(), timeline);
        person::live(&mut home).await;
        let length = home.now();
        let failures = vendors::lock(&home.world).failures.clone();
        let judge = home.into_judge();
        Outcome {
            plan,
            counts: judge.counts,
            failures,
            faults: judge.faults,
            timeline: judge.timeline.unwrap_or_default(),
            length,
        }
    })
}
