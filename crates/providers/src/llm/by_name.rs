//! Chooses the model that a prompt asks for by name, at the base URL of the settings. Not for the models themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, once};
use hearken_outbound::SettingError;
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, ProviderErrorKind, ServiceHealth};

use super::model_chain::{ChainOptions, chain};
use crate::settings::LlmSettings;

/// Maximum number of models that are remembered besides the configured one. Beyond that, all are
/// rebuilt on request.
const MOST: usize = 32;

/// Builds the language models of the settings for a listening user, counted only in metrics.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn llm(settings: &LlmSettings) -> Result<Arc<dyn Llm>, SettingError> {
    llm_for(settings, &ChainOptions::unshared())
}

/// Builds the language models of the settings, and others that prompts ask for by name.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn llm_for(
    settings: &LlmSettings,
    options: &ChainOptions,
) -> Result<Arc<dyn Llm>, SettingError> {
    Ok(Arc::new(ByName::new(settings, options)?))
}

/// The configured model, and others by name with the same settings.
pub(super) struct ByName {
    configured: Arc<dyn Llm>,
    settings: LlmSettings,
    options: ChainOptions,
    others: Mutex<BTreeMap<String, Arc<dyn Llm>>>,
}

impl ByName {
    /// Builds the configured model; others are built on request.
    ///
    /// # Errors
    /// A setting cannot be used.
    pub(super) fn new(
        settings: &LlmSettings,
        options: &ChainOptions,
    ) -> Result<Self, SettingError> {
        let configured = chain(settings, options)?;
        let settings = settings.clone();
        let options = options.clone();
        Ok(Self { configured, settings, options, others: Mutex::default() })
    }

    fn model(&self, name: &str) -> Result<Arc<dyn Llm>, ProviderError> {
        if name.is_empty() || name == self.settings.model {
            return Ok(Arc::clone(&self.configured));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = others.get(name) {
            return Ok(Arc::clone(model));
        }
        let settings = LlmSettings { model: name.to_owned(), ..self.settings.clone() };
        let model = chain(&settings, &self.options).map_err(|error| {
            ProviderError::because("llm", ProviderErrorKind::BadRequest, error.to_string())
        })?;
        if others.len() >= MOST {
            others.clear();
        }
        others.insert(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }
}

impl Llm for ByName {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        match self.model(&prompt.model) {
            Ok(model) => model.reply(prompt),
            Err(error) => once(async { Err(error) }).boxed(),
        }
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        match self.model(&opening.model) {
            Ok(model) => model.prefetch(opening),
            Err(_) => Box::pin(std::future::ready(())),
        }
    }

    fn health(&self) -> ServiceHealth {
        self.configured.health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        self.configured.probe()
    }

    fn price_per_million(&self) -> f64 {
        self.configured.price_per_million()
    }
}
