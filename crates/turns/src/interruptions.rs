//! Interruptions: what becomes of a reply when something is heard over it. Conversations are acted out with recorded
//! speech and judged by what the server sent and the device played. Not for one conversation.

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

/// What was found with one policy.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// By language, and what was heard.
    pub found: Groups<Groups<Found>>,
    /// By version of the firmware.
    pub versions: Groups<Versions>,
}

/// Has each policy take part in so many conversations, the same ones; returns what was found, in their order.
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
        let mut outcomes = outcomes.lock().expect("no thread panics with it");
        let outcome = &mut outcomes[policy];
        let found = outcome.found.entry(drawn.language.to_owned()).or_default();
        found.entry(drawn.kind.name().to_owned()).or_default().add(number, drawn.kind, &judgement);
        let version = drawn.scene.profile.name.to_owned();
        outcome.versions.entry(version).or_default().add(&judgement);
        drop(outcomes);
        progress(&shown, place, all);
    });
    let mut outcomes = outcomes.into_inner().expect("no thread panics with it");
    let found = outcomes.iter_mut().flat_map(|outcome| outcome.found.values_mut());
    found.flat_map(|kinds| kinds.values_mut()).for_each(Found::sort);
    outcomes
}

/// Acts out only the conversation of this number, and returns its timeline and its judgement as text.
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
    format!("Over the reply is heard: {heard}\n{timeline}{:#?}\n", judge(&drawn.scene, &seen))
}

/// A conversation of a run.
struct Drawn<'a> {
    language: &'a str,
    kind: Kind,
    scene: Scene,
}

impl<'a> Drawn<'a> {
    /// Draws the conversation of this number: languages and kinds take turns.
    fn new(voices: &'a Groups<Voices>, number: usize, seed: u64, conditions: &Conditions) -> Self {
        let kind = Kind::ALL[number / voices.len() % Kind::ALL.len()];
        let (language, voices) = voices.iter().nth(number % voices.len()).expect("one is there");
        let scene = scene(voices, kind, seed.wrapping_add(number as u64), conditions);
        Self { language, kind, scene }
    }

    fn settings(&self, policy: &Policy) -> PipelineSettings {
        let mut settings = policy.settings.clone();
        settings.dialogue.language = spoken(self.language);
        settings
    }
}

/// Returns the language that the server knows from what was said before.
pub(crate) fn spoken(language: &str) -> Language {
    if language.starts_with("zh") { Language::Chinese } else { Language::English }
}

#[cfg(test)]
pub(crate) mod tests;
