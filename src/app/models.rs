//! The language models of the server's faces, which follow the settings, and the ledger of what
//! they cost. Not for which model a face asks.

use std::cell::RefCell;
use std::sync::Arc;

use hearken_actors::ports::Llm;
use hearken_base::SettingError;
use hearken_providers::{Asker, CostTracker, Findings, LlmSettings};

use crate::admin::{LiveLlm, Use};
use crate::config::Config;

/// Models that follow the settings, as they are made.
#[derive(Default)]
pub(super) struct Models {
    uses: RefCell<Vec<Use>>,
    costs: CostTracker,
    findings: Findings,
}

impl Models {
    /// The model of a face before which somebody listens.
    pub(super) fn spoken(
        &self,
        config: &Config,
        face: &'static str,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        self.live(config, Asker::spoken(face, &self.costs).knowing(&self.findings), settings)
    }

    /// The model of a face behind which programs wait.
    pub(super) fn patient(
        &self,
        config: &Config,
        face: &'static str,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        self.live(config, Asker::patient(face, &self.costs).knowing(&self.findings), settings)
    }

    fn live(
        &self,
        config: &Config,
        asker: Asker,
        settings: fn(&Config) -> LlmSettings,
    ) -> Result<Arc<dyn Llm>, SettingError> {
        let build = move |config: &Config| hearken_providers::llm_for(&settings(config), &asker);
        let model = LiveLlm::new(build(config)?);
        self.uses.borrow_mut().push(model.follows(config.llm.clone(), build));
        Ok(model)
    }

    /// What they cost.
    pub(super) fn costs(&self) -> &CostTracker {
        &self.costs
    }

    /// How they follow.
    pub(super) fn take_uses(&self) -> Vec<Use> {
        self.uses.take()
    }
}
