//! Rules before the language models of devices, text clients and museum clients. Not for the rules themselves.

use std::sync::Arc;

use anyhow::Context as _;
use hearken_instant::Answers;
use hearken_ports::{InstantScope, Llm};
use hearken_rule_answers::{RuledLlm, Rules};
use hearken_safety::{Region, Safety};
use jiff::Zoned;

use crate::config::{Config, InstantMode};
use crate::engines;

/// Frontend whose model has rules before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frontend {
    /// Devices.
    Devices,
    /// Text clients: their document promises the configured model.
    TextClients,
    /// Museum clients: their document promises the configured model, so that only people in danger
    /// get another answer.
    Museum,
}

/// Compiles the rules that this configuration needs.
pub fn prepare(config: &Config) {
    match config.instant.mode {
        InstantMode::Off => Safety::prepare(),
        InstantMode::Auto | InstantMode::Always => Rules::prepare(),
    }
}

/// Puts the rules before a model.
///
/// # Errors
/// A file of sentences cannot be used.
pub(super) fn before(
    model: Arc<dyn Llm>,
    config: &Config,
    frontend: Frontend,
) -> anyhow::Result<Arc<dyn Llm>> {
    let zone = config.time_zone();
    let rules = Rules {
        answers: own_answers(config)?,
        safety: Arc::new(Safety::new(Region::of(&config.instant.country))),
        scope: scope(config, frontend),
        now: Arc::new(move || Zoned::now().with_time_zone(zone.clone())),
        name: config.instant.name.clone(),
        is_small: frontend != Frontend::Museum && engines::uses_small_llm(config),
    };
    let ruled = RuledLlm::new(model, rules);
    let ruled = if frontend == Frontend::Museum { ruled.without_declining() } else { ruled };
    Ok(Arc::new(ruled))
}

/// Returns the answers with the owner's sentences; `None` without a file of sentences.
pub(super) fn own_answers(config: &Config) -> anyhow::Result<Option<Arc<Answers>>> {
    if config.instant.templates.is_empty() {
        return Ok(None);
    }
    let mut answers = Answers::builtin();
    for file in &config.instant.templates {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("`instant.templates`: cannot read {}", file.display()))?;
        answers.add(file, &text).context("`instant.templates`")?;
    }
    Ok(Some(Arc::new(answers)))
}

/// Returns the sentences of rules whose audio is prepared: with the embedded synthesiser, which is
/// slower than others and costs nothing.
pub(super) fn fixed_sentences(config: &Config) -> impl Iterator<Item = String> {
    let are_spoken =
        config.instant.mode != InstantMode::Off && engines::is_embedded(config, &config.tts.url);
    hearken_instant::FIXED.into_iter().filter(move |_| are_spoken).map(str::to_owned)
}

/// Returns the widest scope of a frontend.
fn scope(config: &Config, frontend: Frontend) -> InstantScope {
    match (config.instant.mode, engines::uses_embedded_llm(config), frontend) {
        (InstantMode::Off, ..) | (_, _, Frontend::Museum) => InstantScope::Off,
        (InstantMode::Always, ..) | (InstantMode::Auto, true, _) => InstantScope::Whole,
        (InstantMode::Auto, false, Frontend::Devices) => InstantScope::Commands,
        (InstantMode::Auto, false, Frontend::TextClients) => InstantScope::Off,
    }
}
