//! Chain of language models that a frontend uses, from the settings: the first model, its
//! fallbacks, their retry policy, and the cost tracker. Not for any model's API.

use std::sync::Arc;

use hearken_actors::ports::Llm;
use hearken_base::{
    SettingError, settings::check_key, settings::check_times, settings::parse, settings::shown,
};
use url::Url;

use super::anthropic::AnthropicLlm;
use super::cost_tracker::{CostTracker, Counted, Priced, Prices};
use super::extra;
use super::fields::{self, Findings};
use super::openai::OpenAiLlm;
use crate::fallback::{Fallback, Within};
use crate::metrics::MeasuredLlm;
use crate::retry::{RetryPolicy, Retrying};
use crate::settings::{LlmProvider, LlmSettings, ms};

/// Most fallbacks after the first model.
const MAX_FALLBACKS: usize = 8;

/// Options of one user of the language models.
#[derive(Debug, Clone)]
pub struct Asker {
    /// Name under which its requests are counted.
    pub face: &'static str,
    /// True if it waits for an overloaded model, as in [`RetryPolicy::patient`]. False if a user is
    /// listening.
    pub patient: bool,
    /// Cost tracker that counts its requests.
    pub costs: CostTracker,
    /// Known properties of the models.
    pub findings: Findings,
}

impl Asker {
    /// Options for spoken conversations and text clients.
    pub fn spoken(face: &'static str, costs: &CostTracker) -> Self {
        Self { face, patient: false, costs: costs.clone(), findings: Findings::default() }
    }

    /// Options for applications.
    pub fn patient(face: &'static str, costs: &CostTracker) -> Self {
        Self { face, patient: true, costs: costs.clone(), findings: Findings::default() }
    }

    /// Returns the options with shared knowledge of the models.
    #[must_use]
    pub fn knowing(self, findings: &Findings) -> Self {
        Self { findings: findings.clone(), ..self }
    }
}

/// Builds the language models of the settings for a listening user, counted in metrics only.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn llm(settings: &LlmSettings) -> Result<Arc<dyn Llm>, SettingError> {
    llm_for(settings, &Asker::spoken("device", &CostTracker::default()))
}

/// Builds the language models of the settings: `llm.base_url` and, if it fails before its first
/// words, the models of `llm.fallback` in order. Each has retries that suit `asker`.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn llm_for(settings: &LlmSettings, asker: &Asker) -> Result<Arc<dyn Llm>, SettingError> {
    let behind = settings.fallback.len();
    if behind > MAX_FALLBACKS {
        return Err(SettingError::value("llm.fallback", behind, "at most 8 tables"));
    }
    let mut models = vec![one(settings, asker, 0)?];
    for (place, fallback) in (1..).zip(&settings.fallback) {
        let model = one(&fallback.settings(settings), asker, place);
        models.push(model.map_err(|error| error.within("llm", "llm.fallback"))?);
    }
    let inner: Arc<dyn Llm> = match models.len() {
        1 => models.remove(0),
        _ => Arc::new(Fallback::new(models, ms(settings.timeout_ms))),
    };
    let inner: Arc<dyn Llm> = Arc::new(Within { inner, total: ms(settings.timeout_ms) });
    let (face, costs) = (asker.face, asker.costs.clone());
    Ok(Arc::new(Counted { inner, face, costs }))
}

/// Builds the model at this index of the list, with retries where this is safe.
fn one(settings: &LlmSettings, asker: &Asker, place: usize) -> Result<Arc<dyn Llm>, SettingError> {
    let url = check(settings)?;
    let inner: Arc<dyn Llm> = match settings.provider {
        LlmProvider::OpenAi => {
            let known = asker.findings.for_model(url.as_str(), &settings.model, fields::OPENAI);
            Arc::new(OpenAiLlm::new(&url, settings.clone(), known)?)
        }
        LlmProvider::Anthropic => {
            let known = asker.findings.for_model(url.as_str(), &settings.model, fields::ANTHROPIC);
            Arc::new(AnthropicLlm::new(&url, settings.clone(), known)?)
        }
    };
    let policy = if asker.patient {
        RetryPolicy::patient()
    } else {
        RetryPolicy::spoken(ms(settings.retry_within_ms))
    };
    let policy = policy.in_all(ms(settings.timeout_ms));
    let prices = Prices {
        input: settings.price_per_million_input,
        output: settings.price_per_million_output,
    };
    let (face, costs) = (asker.face, asker.costs.clone());
    let inner = Arc::new(MeasuredLlm::new(inner, place));
    let inner = Arc::new(Retrying::new(inner, policy));
    Ok(Arc::new(Priced { inner, prices, face, costs }))
}

fn check(settings: &LlmSettings) -> Result<Url, SettingError> {
    let allowed = match settings.provider {
        LlmProvider::OpenAi => "http(s)://.../v1 (an OpenAI-compatible base)",
        LlmProvider::Anthropic => {
            "https://api.anthropic.com, or another base of Anthropic's API, with \
             llm.provider anthropic"
        }
    };
    check_key("llm.api_key", &settings.api_key)?;
    check_times(&[
        ("llm.connect_timeout_ms", settings.connect_timeout_ms),
        ("llm.first_token_timeout_ms", settings.first_token_timeout_ms),
        ("llm.idle_timeout_ms", settings.idle_timeout_ms),
        ("llm.timeout_ms", settings.timeout_ms),
        ("llm.max_tokens", settings.max_tokens.into()),
    ])?;
    if !(0.0..=2.0).contains(&settings.temperature) {
        let value = settings.temperature;
        return Err(SettingError::value("llm.temperature", value, "0.0 to 2.0"));
    }
    for (key, price) in [
        ("llm.price_per_million_input", settings.price_per_million_input),
        ("llm.price_per_million_output", settings.price_per_million_output),
    ] {
        if !(0.0..=1e9).contains(&price) {
            return Err(SettingError::value(key, price, "0 to 1000000000"));
        }
    }
    extra::check("llm.extra", &settings.extra)?;
    let url = parse("llm.base_url", &settings.base_url, allowed)?;
    // The default of `llm.base_url` is the embedded model, which does not speak Anthropic's API.
    let embedded = settings.base_url == LlmSettings::default().base_url;
    let wrong = settings.provider == LlmProvider::Anthropic && embedded;
    if wrong || !matches!(url.scheme(), "http" | "https") {
        return Err(SettingError::value("llm.base_url", shown(&url), allowed));
    }
    Ok(url)
}
