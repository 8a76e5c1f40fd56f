//! Language models of the frontends, which follow the settings at run time, and the tracker of
//! their costs. Not for the choice of a frontend's model.

use std::cell::RefCell;
use std::sync::Arc;

use hearken_outbound::SettingError;
use hearken_ports::Llm;
use hearken_providers::{CallLimits, CallLog, ChainOptions, CostTracker, Findings, LlmSettings};

use super::llm;
use crate::admin::{ReloadableLlm, SettingsUser};
use crate::config::Config;

/// Builder and collection of the models that follow the settings.
pub(super) struct Models {
    uses: RefCell<Vec<SettingsUser>>,
    costs: CostTracker,
    findings: Findings,
    call_limits: CallLimits,
    calls: CallLog,
}

impl Models {
    /// Creates it; the calls of all models are in this log.
    pub(super) fn new(calls: CallLog) -> Self {
        Self {
            uses: RefCell::default(),
            costs: CostTracker::default(),
            findings: Findings::default(),
            call_limits: CallLimits::default(),
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
        let asker = asker.sharing(&self.findings, &self.call_limits);
        let build = move |config: &Config| hearken_providers::llm_for(&settings(config), &asker);
        let model = ReloadableLlm::new(build(config)?);
        self.uses.borrow_mut().push(model.follows(config.llm.clone(), build));
        Ok(self.calls.llm(model))
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
