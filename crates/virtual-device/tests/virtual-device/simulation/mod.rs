//! Hours of conversation in virtual time: people, boards of every firmware, a network and faulty
//! vendors around the real actors of one connection. Used by its tests and by `scripts/simulate`.
//! Not for sockets nor real engines.
//!
//! Reading order: [`plan`] (a household, and the limits of its network), [`vendors`] (the faults of
//! the vendors), [`person`] (actions of people), [`judge`] (invariants), [`home`] (the passing of
//! time), [`wire`], [`microphone`].
//!
//! A seed determines a household and all its events, so that they can be replayed.

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

/// Outcome of one household.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) counts: Counts,
    /// Number of injected failures of vendors.
    pub(crate) failures: HashMap<&'static str, u32>,
    pub(crate) faults: Vec<String>,
    /// All events, if requested.
    pub(crate) timeline: Vec<String>,
    /// Its duration in virtual time.
    pub(crate) length: Duration,
}

/// Simulates this household for its time, on this thread.
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
