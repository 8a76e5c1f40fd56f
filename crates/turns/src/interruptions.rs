//! Interruptions: the effect of sounds over a reply. Simulates conversations with recorded speech,
//! and judges them by what the server sent and the device played. A single conversation is in
//! [`acted`](crate::acted).

mod judge;
mod plan;
mod score;
pub(crate) mod sounds;
mod table;

use std::sync::Mutex;
use std::time::Instant;

use hearken_actors::settings::PipelineSettings;
use hearken_base::language::Language;

pub use self::judge::{Judgement, judge};

pub(crate) use self::plan::PERSON;
pub use self::plan::{Kind, Voices, read, scene};
pub use self::score::{Found, Versions};
pub use self::table::{json, table, versions_table};
use crate::acted::timeline::Capture;
use crate::acted::{self, Scene};
use crate::policy::Policy;
use crate::run::{Conditions, in_parallel, progress};
use crate::score::Groups;

/// Result of one policy.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// By language and kind of sound.
    pub found: Groups<Groups<Found>>,
    /// By firmware version.
    pub versions: Groups<Versions>,
}

/// Plays the same conversations with each policy; returns the results in the order of the policies.
pub fn measure(
    policies: &[Policy],
    voices: &Groups<Voices>,
    conversations: usize,
    seed: u64,
    conditions: &Conditions,
) -> Vec<Outcome> {
    let outcomes = Mutex::new(vec![Outcome::default(); policies.len()]);
    let all = policies.len() * conversations;
    let shown = Mutex::new(Instant::now());
    in_parallel(conditions.jobs, all, |place| {
        let policy = place / conversations;
        let number = place % conversations;
        let drawn = Drawn::new(voices, number, seed, conditions);
        let settings = drawn.settings(&policies[policy]);
        let seen = acted::play(&drawn.scene, settings, conditions.detector.clone());
        let judgement = judge(&drawn.scene, &seen);
        let mut outcomes = outcomes.lock().expect("no panic while locked");
        let outcome = &mut outcomes[policy];
        let found = outcome.found.entry(drawn.language.to_owned()).or_default();
        found.entry(drawn.kind.name().to_owned()).or_default().add(number, drawn.kind, &judgement);
        let version = drawn.scene.profile.name.to_owned();
        outcome.versions.entry(version).or_default().add(&judgement);
        drop(outcomes);
        progress(&shown, place, all);
    });
    let mut outcomes = outcomes.into_inner().expect("no panic while locked");
    let found = outcomes.iter_mut().flat_map(|outcome| outcome.found.values_mut());
    found.flat_map(|kinds| kinds.values_mut()).for_each(Found::sort);
    outcomes
}

/// Plays only the conversation with this number, and returns its timeline and judgement as text.
pub fn explain(
    policy: &Policy,
    voices: &Groups<Voices>,
    number: usize,
    seed: u64,
    conditions: &Conditions,
) -> String {
    let drawn = Drawn::new(voices, number, seed, conditions);
    let capture = Capture::default();
    let settings = drawn.settings(policy);
    let play = || acted::play(&drawn.scene, settings, conditions.detector.clone());
    let seen = capture.during(play);
    let timeline = capture.timeline(&drawn.scene, &seen, None).text();
    let heard = drawn.kind.name();
    format!("Sound over the reply: {heard}\n{timeline}{:#?}\n", judge(&drawn.scene, &seen))
}

/// Conversation of a run.
struct Drawn<'a> {
    language: &'a str,
    kind: Kind,
    scene: Scene,
}

impl<'a> Drawn<'a> {
    /// Draws the conversation with this number; languages and kinds alternate.
    fn new(voices: &'a Groups<Voices>, number: usize, seed: u64, conditions: &Conditions) -> Self {
        let kind = Kind::ALL[number / voices.len() % Kind::ALL.len()];
        let (language, voices) = voices.iter().nth(number % voices.len()).expect("at least one");
        let scene = scene(voices, kind, seed.wrapping_add(number as u64), conditions);
        Self { language, kind, scene }
    }

    fn settings(&self, policy: &Policy) -> PipelineSettings {
        let mut settings = policy.settings.clone();
        settings.dialogue.language = spoken(self.language);
        settings
    }
}

/// Returns the language in which the server's conversation starts.
pub(crate) fn spoken(language: &str) -> Language {
    if language.starts_with("zh") { Language::Chinese } else { Language::English }
}

#[cfg(test)]
pub(crate) mod tests;
