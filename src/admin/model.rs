//! Language model that can be replaced while it is in use. Not for selecting one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use hearken_outbound::SettingError;
use hearken_ports::{Llm, LlmDelta, Prompt, ProviderError, ServiceHealth};
use hearken_providers::LlmSettings;

use super::settings::SettingsUser;
use crate::config::Config;

/// Language model that forwards requests to the current model. An answer in progress continues with
/// the model that was asked.
pub struct ReloadableLlm {
    model: ArcSwap<Arc<dyn Llm>>,
}

impl ReloadableLlm {
    /// Creates it with this model, which is used until it is replaced.
    pub fn new(model: Arc<dyn Llm>) -> Arc<Self> {
        Arc::new(Self { model: ArcSwap::from_pointee(model) })
    }

    /// Returns a settings handler that builds a new model if the settings of `[llm]` differ from
    /// those of the current one.
    pub fn follows(
        self: &Arc<Self>,
        built_from: LlmSettings,
        build: impl Fn(&Config) -> Result<Arc<dyn Llm>, SettingError> + Send + Sync + 'static,
    ) -> SettingsUser {
        let this = Arc::clone(self);
        let built_from = Arc::new(Mutex::new(built_from));
        Box::new(move |config| {
            let this = Arc::clone(&this);
            let built_from = Arc::clone(&built_from);
            if *locked(&built_from) == config.llm {
                return Ok(Box::new(|| {}));
            }
            let model = build(config)?;
            let settings = config.llm.clone();
            Ok(Box::new(move || {
                this.model.store(Arc::new(model));
                *locked(&built_from) = settings;
            }))
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Llm for ReloadableLlm {
    fn reply(&self, prompt: Prompt) -> BoxStream<'static, Result<LlmDelta, ProviderError>> {
        self.model.load().reply(prompt)
    }

    fn prefetch(&self, opening: Prompt) -> BoxFuture<'static, ()> {
        self.model.load().prefetch(opening)
    }

    fn health(&self) -> ServiceHealth {
        self.model.load().health()
    }

    fn probe(&self) -> BoxFuture<'_, ()> {
        let model = self.model.load_full();
        Box::pin(async move { model.probe().await })
    }

    fn price_per_million(&self) -> f64 {
        self.model.load().price_per_million()
    }
}
