//! Language models of the frontends, which follow the settings at run time, and the tracker of
//! their costs. Not for selecting a frontend's model.

use std::cell::RefCell;
use std::sync::Arc;

use hearken_base::reloadable::Reloadable;
use hearken_outbound::SettingError;
use hearken_ports::Llm;
use hearken_providers::{
    CallLimits, CallLog, ChainOptions, CostTracker, Findings, LlmSettings, ModelEnd, ModelsHealth,
};

use super::llm;
use crate::admin::{ReloadableLlm, SettingsUser};
use crate::config::Config;

/// Builder and collection of the models that follow the settings.
pub(super) struct Models {
    uses: RefCell<Vec<SettingsUser>>,
    costs: CostTracker,
    findings: Findings,
    call_limits: CallLimits,
    health: ModelsHealth,
    calls: CallLog,
}

impl Models {
    /// Creates it; all models log their calls here.
    pub(super) fn new(calls: CallLog) -> Self {
        Self {
            uses: RefCell::default(),
            costs: CostTracker::default(),
            findings: Findings::default(),
            call_limits: CallLimits::default(),
            health: ModelsHealth::default(),
            calls,
        }
    }

    /// Builds the model of a frontend with spoken answers.
    pub(super) fn spoken(
        &self,
        config: &Config,
        frontend: &'static str,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        self.live(config, ChainOptions::spoken(frontend, &self.costs), settings)
    }

    /// Builds the model of a frontend for programs, which can wait longer.
    pub(super) fn patient(
        &self,
        config: &Config,
        frontend: &'static str,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        self.live(config, ChainOptions::patient(frontend, &self.costs), settings)
    }

    fn live(
        &self,
        config: &Config,
        asker: ChainOptions,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        let asker = asker.sharing(&self.findings, &self.call_limits, &self.health);
        let build = move |config: &Config| hearken_providers::llm_for(&settings(config), &asker);
        let model = ReloadableLlm::new(build(config)?);
        self.uses.borrow_mut().push(model.follows(config.llm.clone(), build));
        Ok(self.calls.llm(model))
    }

    /// Returns the models in use whose vendor has announced their end of life, by the current settings.
    pub(super) fn ends(&self, config: &Config) -> Reloadable<Vec<ModelEnd>> {
        let found =
            |config: &Config| hearken_providers::model_ends(&config.asr, &llm(config), &config.tts);
        let ends = Reloadable::new(found(config));
        let current = ends.clone();
        self.uses.borrow_mut().push(Box::new(move |config| {
            let ends = found(config);
            let current = current.clone();
            Ok(Box::new(move || current.set(ends)))
        }));
        ends
    }

    /// Returns the log of calls.
    pub(super) fn calls(&self) -> &CallLog {
        &self.calls
    }

    /// Returns the tracker of their costs.
    pub(super) fn costs(&self) -> &CostTracker {
        &self.costs
    }

    /// Takes the functions that update the models when settings change.
    pub(super) fn take_uses(&self) -> Vec<SettingsUser> {
        self.uses.take()
    }
}

/// Returns model settings whose only timeout is that of the whole request.
pub(super) fn patient(config: &Config) -> LlmSettings {
    let total = config.llm.timeout_ms;
    LlmSettings { first_token_timeout_ms: total, idle_timeout_ms: total, ..llm(config) }
}
