//! Chain of language models that a frontend uses, from the settings: the first model, its
//! fallbacks, their retry policy, and the cost tracker. Not for any model's API.

use std::sync::Arc;

use hearken_base::redaction::shown;
use hearken_outbound::SettingError;
use hearken_outbound::settings::{check_key, check_times, parse};
use hearken_ports::Llm;
use url::Url;

use super::anthropic::AnthropicLlm;
use super::call_limit::{CallLimits, LimitedLlm};
use super::cost_tracker::{CostTracker, CountingLlm, DEVICE_FRONTEND, PricedLlm, Prices};
use super::extra;
use super::fields::{self, Findings};
use super::openai::OpenAiLlm;
use crate::fallback::{DeadlineLlm, Fallback};
use crate::metrics::MeasuredLlm;
use crate::retry::{RetryPolicy, Retrying};
use crate::service_health::{ModelsHealth, Probe};
use crate::settings::{LlmProvider, LlmSettings, ms};

/// Maximum value of `max_calls`.
const MAX_CALLS: usize = 100_000;

/// Maximum number of fallbacks after the first model.
const MAX_FALLBACKS: usize = 8;

/// Options of one user of the language models.
#[derive(Debug, Clone)]
pub struct ChainOptions {
    /// Name under which its requests are counted.
    pub frontend: &'static str,
    /// True if it waits for an overloaded model, as in [`RetryPolicy::patient`]. False if a user is
    /// listening.
    pub patient: bool,
    /// Cost tracker that counts its requests.
    pub costs: CostTracker,
    /// Known properties of the models.
    pub findings: Findings,
    /// Limits on concurrent calls, which frontends share.
    pub call_limits: CallLimits,
    /// Health of the models, which frontends share.
    pub health: ModelsHealth,
}

impl ChainOptions {
    /// Options for spoken conversations and text clients.
    pub fn spoken(frontend: &'static str, costs: &CostTracker) -> Self {
        Self { frontend, patient: false, costs: costs.clone(), ..Self::unshared() }
    }

    /// Options for applications.
    pub fn patient(frontend: &'static str, costs: &CostTracker) -> Self {
        Self { frontend, patient: true, costs: costs.clone(), ..Self::unshared() }
    }

    pub(super) fn unshared() -> Self {
        Self {
            frontend: DEVICE_FRONTEND,
            patient: false,
            costs: CostTracker::default(),
            findings: Findings::default(),
            call_limits: CallLimits::default(),
            health: ModelsHealth::default(),
        }
    }

    /// Returns the options with shared knowledge of the models, shared limits on their calls, and
    /// their shared health.
    #[must_use]
    pub fn sharing(
        self,
        findings: &Findings,
        call_limits: &CallLimits,
        health: &ModelsHealth,
    ) -> Self {
        let health = health.clone();
        Self { findings: findings.clone(), call_limits: call_limits.clone(), health, ..self }
    }
}

/// Builds the language models of the settings: `llm.base_url` and, if it fails before its first
/// words, the models of `llm.fallback` in order. Each has retries that suit `asker`.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub(super) fn chain(
    settings: &LlmSettings,
    options: &ChainOptions,
) -> Result<Arc<dyn Llm>, SettingError> {
    let behind = settings.fallback.len();
    if behind > MAX_FALLBACKS {
        return Err(SettingError::value("llm.fallback", behind, "at most 8 tables"));
    }
    let mut models = vec![one(settings, options, 0)?];
    for (place, fallback) in (1..).zip(&settings.fallback) {
        let model = one(&fallback.settings(settings), options, place);
        models.push(model.map_err(|error| error.within("llm", "llm.fallback"))?);
    }
    let inner: Arc<dyn Llm> = match models.len() {
        1 => models.remove(0),
        _ => Arc::new(Fallback::new(models, ms(settings.timeout_ms))),
    };
    let inner: Arc<dyn Llm> = Arc::new(DeadlineLlm { inner, total: ms(settings.timeout_ms) });
    let frontend = options.frontend;
    let costs = options.costs.clone();
    Ok(Arc::new(CountingLlm { inner, frontend, costs }))
}

/// Builds the model at this index of the list, with retries if they are safe.
fn one(
    settings: &LlmSettings,
    options: &ChainOptions,
    place: usize,
) -> Result<Arc<dyn Llm>, SettingError> {
    let url = check(settings)?;
    let (inner, server): (Arc<dyn Llm>, Arc<dyn Probe>) = match settings.provider {
        LlmProvider::OpenAi => {
            let known = options.findings.for_model(url.as_str(), &settings.model, fields::OPENAI);
            let model = Arc::new(OpenAiLlm::new(&url, settings.clone(), known)?);
            (model.clone(), model)
        }
        LlmProvider::Anthropic => {
            let known =
                options.findings.for_model(url.as_str(), &settings.model, fields::ANTHROPIC);
            let model = Arc::new(AnthropicLlm::new(&url, settings.clone(), known)?);
            (model.clone(), model)
        }
    };
    let policy = if options.patient {
        RetryPolicy::patient()
    } else {
        RetryPolicy::spoken(ms(settings.retry_within_ms))
    };
    let policy = policy.in_all(ms(settings.timeout_ms));
    let prices = Prices {
        input: settings.price_per_million_input,
        output: settings.price_per_million_output,
    };
    let frontend = options.frontend;
    let costs = options.costs.clone();
    let limit = options.call_limits.of(url.as_str(), &settings.model, settings.max_calls);
    let patience = ms(settings.first_token_timeout_ms);
    let service = options.health.of(url.as_str(), &settings.model, place);
    let inner = Arc::new(MeasuredLlm { inner, server, service });
    // Our own limit is not a failure of the service.
    let inner = Arc::new(LimitedLlm { inner, limit, frontend, patience });
    let inner = Arc::new(Retrying::new(inner, policy));
    Ok(Arc::new(PricedLlm { inner, prices, frontend, costs }))
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
    if !(1..=MAX_CALLS).contains(&settings.max_calls) {
        return Err(SettingError::value("llm.max_calls", settings.max_calls, "1 to 100000"));
    }
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use futures_util::StreamExt as _;
    use hearken_ports::ProviderErrorKind::{self, Fault, Timeout};
    use hearken_ports::{LlmDelta, Prompt, ProviderError};
    use hearken_test_support::scripted_server::{ScriptedServer, answer, endless};
    use jiff::{Timestamp, ToSpan as _};

    use super::super::by_name::llm_for;
    use super::*;

    const EVENTS: &str = "content-type: text/event-stream\r\n";

    /// Answer of the model, "Hi.", up to its last words.
    const WORDS: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi.\"}}]}\n\n";

    fn hi() -> Vec<u8> {
        answer(200, EVENTS, &[WORDS, b"data: [DONE]\n\n"].concat())
    }

    /// Refusal with this status that requests a wait.
    fn refusal(status: u16, wait: &str) -> Vec<u8> {
        answer(status, &format!("retry-after: {wait}\r\n"), b"{}")
    }

    fn askers() -> [ChainOptions; 2] {
        let costs = CostTracker::default();
        [ChainOptions::spoken("a", &costs), ChainOptions::patient("a", &costs)]
    }

    /// Settings that limit only the whole request.
    fn settings(server: &ScriptedServer, total: Duration) -> LlmSettings {
        let timeout_ms = u64::try_from(total.as_millis()).unwrap();
        LlmSettings {
            base_url: server.url("http", "/v1"),
            first_token_timeout_ms: 600_000,
            idle_timeout_ms: 600_000,
            timeout_ms,
            ..LlmSettings::default()
        }
    }

    /// Outcome of one request.
    struct Outcome {
        text: String,
        failed: Option<ProviderErrorKind>,
        took: Duration,
    }

    async fn ask(settings: &LlmSettings, asker: &ChainOptions) -> Outcome {
        let start = Instant::now();
        let llm = llm_for(settings, asker).unwrap();
        let told: Vec<Result<LlmDelta, ProviderError>> =
            llm.reply(Prompt::default()).collect().await;
        let mut text = String::new();
        let mut failed = None;
        for delta in told {
            match delta {
                Ok(LlmDelta::Text(words)) => text += &words,
                Ok(_) => {}
                Err(error) => failed = Some(error.kind),
            }
        }
        Outcome { text, failed, took: start.elapsed() }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_fault_is_retried_for_every_frontend() {
        for asker in askers() {
            let server = ScriptedServer::start([answer(500, "", b"{}"), hi()]).await;
            let told = ask(&settings(&server, MINUTE), &asker).await;
            assert_eq!((&*told.text, told.failed, server.requests()), ("Hi.", None, 2));
        }
    }

    #[tokio::test]
    async fn an_invalid_call_of_the_model_is_retried_and_then_left_to_the_next_model() {
        let body = br#"{"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=f>{}"}}"#;
        let failed = || answer(400, "", body);
        for asker in askers() {
            let server = ScriptedServer::start([failed(), hi()]).await;
            let told = ask(&settings(&server, MINUTE), &asker).await;
            assert_eq!((&*told.text, told.failed, server.requests()), ("Hi.", None, 2));
        }
        let failing = ScriptedServer::start((0..9).map(|_| failed())).await;
        let next = ScriptedServer::start([hi()]).await;
        let url = next.url("http", "/v1");
        let fallback = toml::from_str(&format!("base_url = '{url}'\nmodel = 'm'")).unwrap();
        let settings = LlmSettings { fallback: vec![fallback], ..settings(&failing, MINUTE) };
        let told = ask(&settings, &askers()[0]).await;
        assert_eq!((&*told.text, told.failed, next.requests()), ("Hi.", None, 1));
    }

    #[tokio::test]
    async fn a_wait_that_a_model_requests_is_respected_in_every_form() {
        // A client that ignores the header waits for a quarter of a second.
        let least = Duration::from_secs(1);
        let date = (Timestamp::now() + 3.seconds()).strftime("%a, %d %b %Y %H:%M:%S GMT");
        let kept = async |status: u16, wait: String| {
            let server = ScriptedServer::start([refusal(status, &wait), hi()]).await;
            let told = ask(&settings(&server, MINUTE), &askers()[0]).await;
            assert_eq!((&*told.text, told.failed, server.requests()), ("Hi.", None, 2), "{wait}");
            assert!(told.took >= least, "{status} {wait}: {:?}", told.took);
        };
        let date = || date.to_string();
        tokio::join!(kept(429, "1.25".into()), kept(500, "1.25".into()), kept(503, date()));
    }

    #[tokio::test]
    async fn one_deadline_bounds_all_attempts_with_a_silent_model() {
        let total = Duration::from_secs(2);
        let [spoken, patient] = askers();
        let silent = async |asker: ChainOptions| {
            let server = ScriptedServer::start([]).await;
            let told = ask(&settings(&server, total), &asker).await;
            assert_eq!((told.failed, server.requests()), (Some(Timeout), 1));
            // Earliest end of a second attempt with its own deadline.
            assert!(told.took < 2 * total, "{:?}", told.took);
        };
        tokio::join!(silent(spoken), silent(patient));
    }

    #[tokio::test]
    async fn an_attempt_that_could_start_only_after_the_deadline_is_not_made() {
        for asker in askers() {
            let server = ScriptedServer::start([refusal(500, "4.5"), hi()]).await;
            let told = ask(&settings(&server, Duration::from_secs(4)), &asker).await;
            // The model's error is returned at once, and not a later timeout.
            assert_eq!((told.failed, server.requests()), (Some(Fault), 1));
        }
    }

    #[tokio::test]
    async fn one_deadline_bounds_the_answer_of_a_later_attempt() {
        let wait = Duration::from_millis(1_500);
        let total = Duration::from_secs(3);
        let stuck = endless(EVENTS, WORDS);
        let server = ScriptedServer::start([refusal(500, "1.5"), stuck]).await;
        let told = ask(&settings(&server, total), &askers()[0]).await;
        assert_eq!((&*told.text, told.failed, server.requests()), ("Hi.", Some(Timeout), 2));
        // Earliest end of a second attempt with its own deadline.
        assert!(told.took < wait + total, "{:?}", told.took);
    }
}
