//! Language models of the frontends, which follow the settings at run time, and the tracker of
//! their costs. Not for the choice of a frontend's model.

use std::cell::RefCell;
use std::sync::Arc;

use hearken_actors::ports::Llm;
use hearken_base::SettingError;
use hearken_providers::{CallLimits, ChainOptions, CostTracker, Findings, LlmSettings};

use crate::admin::{ReloadableLlm, SettingsUser};
use crate::config::Config;

/// Builder and collection of the models that follow the settings.
#[derive(Default)]
pub(super) struct Models {
    uses: RefCell<Vec<SettingsUser>>,
    costs: CostTracker,
    findings: Findings,
    call_limits: CallLimits,
}

impl Models {
    /// Builds the model of a frontend with spoken answers.
    pub(super) fn spoken(
        &self,
        config: &Config,
        face: &'static str,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        self.live(config, ChainOptions::spoken(face, &self.costs), settings)
    }

    /// Builds the model of a frontend for programs, which can wait longer.
    pub(super) fn patient(
        &self,
        config: &Config,
        face: &'static str,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        self.live(config, ChainOptions::patient(face, &self.costs), settings)
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
        Ok(model)
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
