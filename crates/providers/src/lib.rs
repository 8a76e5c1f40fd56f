//! Clients of model services: one vendor API per file behind one port each, chosen by the scheme of
//! a URL. In front of them: load balancing, retries, caching, metrics. Knows nothing of sessions,
//! devices or actors.

pub mod asr;
mod balance;
mod call_log;
mod circuit_breaker;
pub mod fallback;
pub mod llm;
mod metrics;
mod pool;
pub mod retry;
mod service_health;
mod settings;
pub mod state;
pub mod tts;
mod vendor_models;
mod vision;
mod ws;

use std::sync::Arc;

use asr::funasr::FunAsr;
use asr::listenai::ListenAiAsr;
use asr::openai::OpenAiAsr;
use balance::{BalancedAsr, BalancedTts, Service};
use hearken_base::redaction::shown;
use hearken_outbound::SettingError;
use hearken_outbound::settings::{check_key, check_times, parse};
use hearken_ports::{Asr, Tts};
use retry::{RetryPolicy, Retrying};
use service_health::Probe;
use settings::ms;
use tts::CachedTts;
use tts::listenai::ListenAiTts;
use tts::openai::OpenAiTts;

pub use call_log::{CallContent, CallLog, CallOutcome, LoggedCall, MOST_CALLS, TurnService};
pub use llm::by_name::{llm, llm_for};
pub use llm::call_limit::CallLimits;
pub use llm::cost_tracker::{CostTracker, DEVICE_FRONTEND, LlmFigures};
pub use llm::fields::Findings;
pub use llm::model_chain::ChainOptions;
pub use service_health::ModelsHealth;
pub use settings::{
    AsrSettings, FallbackSettings, FunAsrMode, LlmProvider, LlmSettings, PoolSettings, TtsSettings,
};
pub use vendor_models::{ModelEnd, model_ends};
pub use vision::{Vision, VisionError, VisionSettings};

/// Maximum number of services besides the first: each has its own metrics.
const MAX_MORE_URLS: usize = 15;

/// Builds the recogniser of `asr.url` and `asr.more_urls`. HTTP calls are retried if this is
/// safe.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn asr(settings: &AsrSettings) -> Result<Arc<dyn Asr>, SettingError> {
    check_key("asr.api_key", &settings.api_key)?;
    check_pool(["asr.pool.max_connections", "asr.pool.ping_every_ms"], &settings.pool)?;
    check_times(&[
        ("asr.connect_timeout_ms", settings.connect_timeout_ms),
        ("asr.send_timeout_ms", settings.send_timeout_ms),
        ("asr.result_timeout_ms", settings.result_timeout_ms),
        ("asr.max_utterance_ms", settings.max_utterance_ms),
    ])?;
    for (key, words) in
        [("asr.keywords", &settings.keywords), ("asr.languages", &settings.languages)]
    {
        let fits = |word: &String| (1..=MAX_KEYWORD_CHARS).contains(&word.trim().chars().count());
        if words.len() > MAX_KEYWORDS || !words.iter().all(fits) {
            let allowed = "at most 100 texts of 1 to 100 characters";
            return Err(SettingError::value(key, words.join(", "), allowed));
        }
    }
    let urls = urls("asr", &settings.url, &settings.more_urls)?;
    let services = urls.into_iter().map(|(key, url)| asr_at(key, url, settings));
    Ok(Arc::new(BalancedAsr::new(services.collect::<Result<_, _>>()?, settings)))
}

/// Maximum number of keywords for a recogniser, and of characters in each.
const MAX_KEYWORDS: usize = 100;
const MAX_KEYWORD_CHARS: usize = 100;

/// Builds the recogniser at one URL.
fn asr_at(
    key: String,
    url: &str,
    settings: &AsrSettings,
) -> Result<Service<dyn Asr>, SettingError> {
    const ALLOWED: &str = "ws:// or wss:// (ListenAI), funasr+ws:// or funasr+wss:// (FunASR), or \
                           http(s)://.../v1 (an OpenAI-compatible base)";
    fn service<A: Asr + Probe + 'static>(asr: A) -> Service<dyn Asr> {
        let asr = Arc::new(asr);
        Service { port: asr.clone(), probe: asr }
    }
    let parsed = parse(key.clone(), url, ALLOWED)?;
    let alone = settings.more_urls.is_empty();
    let settings = AsrSettings { url: url.trim().to_owned(), ..settings.clone() };
    Ok(match parsed.scheme() {
        "ws" | "wss" => service(ListenAiAsr::new(settings)),
        "funasr+ws" | "funasr+wss" => {
            let plain = settings.url.get("funasr+".len()..).unwrap_or_default();
            service(FunAsr::new(plain.to_owned(), &settings))
        }
        "http" | "https" => {
            let policy = policy(settings.retry_within_ms).in_all(ms(settings.result_timeout_ms));
            let asr = OpenAiAsr::new(&parsed, settings).map_err(|e| e.within("asr.url", &key))?;
            let Service { port, probe } = service(asr);
            // If there are several services, another one is asked before a retry with the same one.
            let port = if alone { Arc::new(Retrying::new(port, policy)) } else { port };
            Service { port, probe }
        }
        _ => return Err(SettingError::value(key, shown(&parsed), ALLOWED)),
    })
}

/// Builds the synthesiser of `tts.url` and `tts.more_urls`, with retries before the first audio and
/// a cache. Its calls, but not those that the cache answers, are in the log.
///
/// # Errors
/// A setting cannot be used. Names its key, its value and the accepted values.
pub fn tts(settings: &TtsSettings, log: &CallLog) -> Result<Arc<CachedTts>, SettingError> {
    check_key("tts.api_key", &settings.api_key)?;
    check_pool(["tts.pool.max_connections", "tts.pool.ping_every_ms"], &settings.pool)?;
    check_times(&[
        ("tts.connect_timeout_ms", settings.connect_timeout_ms),
        ("tts.first_audio_timeout_ms", settings.first_audio_timeout_ms),
        ("tts.idle_timeout_ms", settings.idle_timeout_ms),
        ("tts.timeout_ms", settings.timeout_ms),
    ])?;
    if !(0.25..=4.0).contains(&settings.speed) {
        return Err(SettingError::value("tts.speed", settings.speed, "0.25 to 4.0"));
    }
    let rate = settings.http_sample_rate_hz;
    if !tts::SAMPLE_RATES_HZ.contains(&rate) {
        return Err(SettingError::value("tts.http_sample_rate_hz", rate, "8000 to 48000"));
    }
    let urls = urls("tts", &settings.url, &settings.more_urls)?;
    let services = urls.into_iter().map(|(key, url)| tts_at(key, url, settings));
    let first_audio = ms(settings.first_audio_timeout_ms);
    let inner = Arc::new(BalancedTts::new(services.collect::<Result<_, _>>()?, first_audio));
    let policy = policy(settings.retry_within_ms).in_all(first_audio);
    let patient = log.tts(Arc::new(Retrying::new(inner, policy)));
    Ok(Arc::new(CachedTts::new(patient, settings.cache_bytes)))
}

/// Builds the synthesiser at one URL.
fn tts_at(
    key: String,
    url: &str,
    settings: &TtsSettings,
) -> Result<Service<dyn Tts>, SettingError> {
    const ALLOWED: &str =
        "ws:// or wss:// (ListenAI), or http(s)://.../v1 (an OpenAI-compatible base)";
    fn service<T: Tts + Probe + 'static>(tts: T) -> Service<dyn Tts> {
        let tts = Arc::new(tts);
        Service { port: tts.clone(), probe: tts }
    }
    let parsed = parse(key.clone(), url, ALLOWED)?;
    let settings = TtsSettings { url: url.trim().to_owned(), ..settings.clone() };
    Ok(match parsed.scheme() {
        "ws" | "wss" => service(ListenAiTts::new(settings)),
        "http" | "https" => {
            let tts = OpenAiTts::new(&parsed, settings).map_err(|e| e.within("tts.url", &key))?;
            service(tts)
        }
        _ => return Err(SettingError::value(key, shown(&parsed), ALLOWED)),
    })
}

/// Returns the URLs of a section's services, each with its key.
fn urls<'a>(
    section: &str,
    first: &'a str,
    more: &'a [String],
) -> Result<Vec<(String, &'a str)>, SettingError> {
    if more.len() > MAX_MORE_URLS {
        let key = format!("{section}.more_urls");
        return Err(SettingError::value(key, more.len(), "at most 15 URLs"));
    }
    let more = more.iter().enumerate();
    let more = more.map(|(n, url)| (format!("{section}.more_urls[{n}]"), url.as_str()));
    Ok(std::iter::once((format!("{section}.url"), first)).chain(more).collect())
}

fn policy(retry_within_ms: u64) -> RetryPolicy {
    RetryPolicy::spoken(ms(retry_within_ms))
}

fn check_pool(keys: [&'static str; 2], pool: &PoolSettings) -> Result<(), SettingError> {
    if pool.max_connections == 0 || pool.max_connections > 10_000 {
        return Err(SettingError::value(keys[0], pool.max_connections, "1 to 10000"));
    }
    check_times(&[(keys[1], pool.ping_every_ms)])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::{StreamExt as _, TryStreamExt as _};
    use hearken_base::Secret;
    use hearken_ports::{
        Line, Prompt, ProviderError, ProviderErrorKind, Transcript, UtteranceSpec,
    };
    use hearken_test_support::scripted_server::{ScriptedServer, answer};
    use jiff::{Timestamp, ToSpan as _};

    use super::*;

    fn refused<T>(built: Result<T, SettingError>) -> String {
        built.err().map(|e| e.to_string()).unwrap_or_default()
    }

    fn asr_at(url: &str) -> String {
        refused(asr(&AsrSettings { url: url.into(), ..AsrSettings::default() }))
    }

    #[test]
    fn every_scheme_has_its_builder() {
        for url in ["ws://h:1", "wss://h/asr", "funasr+ws://h:1", "funasr+wss://h", "http://h/v1"] {
            assert_eq!(asr_at(url), "", "{url}");
        }
        assert_eq!(refused(tts(&TtsSettings::default(), &CallLog::new(false))), "");
        assert_eq!(refused(llm(&LlmSettings::default())), "");
    }

    #[test]
    fn anything_else_is_refused_with_its_key_and_remedy() {
        for url in ["", "127.0.0.1:9200", "ftp://h", "file:///tmp/x", "funasr://h"] {
            let told = asr_at(url);
            assert!(told.starts_with("`asr.url` is `") && told.contains("funasr+ws://"), "{told}");
        }
        let told = asr_at("ftp://me:hush@h/");
        assert!(!told.contains("hush"), "{told}");
        let funasr = TtsSettings { url: "funasr+ws://h".into(), ..TtsSettings::default() };
        assert!(
            refused(tts(&funasr, &CallLog::new(false))).starts_with("`tts.url` is `funasr+ws://h`")
        );
        let ws = LlmSettings { base_url: "ws://h".into(), ..LlmSettings::default() };
        assert!(refused(llm(&ws)).starts_with("`llm.base_url` is `ws://h"));
    }

    #[test]
    fn a_wrong_further_url_is_named_by_its_place() {
        let told = |more: &[&str]| {
            let more_urls: Vec<String> = more.iter().map(|url| (*url).to_owned()).collect();
            let asr_settings =
                AsrSettings { more_urls: more_urls.clone(), ..AsrSettings::default() };
            let tts_settings = TtsSettings { more_urls, ..TtsSettings::default() };
            (refused(asr(&asr_settings)), refused(tts(&tts_settings, &CallLog::new(false))))
        };
        assert_eq!(told(&["wss://h", "http://h/v1"]), (String::new(), String::new()));
        let (asr, tts) = told(&["ws://h", "ftp://me:hush@h"]);
        assert!(asr.starts_with("`asr.more_urls[1]` is `ftp://me:***@h"), "{asr}");
        assert!(tts.starts_with("`tts.more_urls[1]` is `ftp://me:***@h"), "{tts}");
        let (asr, tts) = told(&["funasr+ws://h"]);
        assert_eq!(asr, "");
        assert!(tts.starts_with("`tts.more_urls[0]` is `funasr+ws://h`"), "{tts}");
        let (asr, _) = told(&["ws://h"; 16]);
        assert_eq!(asr, "`asr.more_urls` is `16`: use at most 15 URLs");
    }

    #[test]
    fn numbers_and_keys_out_of_range_are_refused() {
        let key = Secret::new("two\nlines");
        let llm_settings = LlmSettings { api_key: key, ..LlmSettings::default() };
        assert!(refused(llm(&llm_settings)).starts_with("`llm.api_key` is `***`"));
        let fast = TtsSettings { speed: f64::NAN, ..TtsSettings::default() };
        assert!(refused(tts(&fast, &CallLog::new(false))).starts_with("`tts.speed` is `NaN`"));
        let never = AsrSettings { result_timeout_ms: 0, ..AsrSettings::default() };
        assert!(refused(asr(&never)).starts_with("`asr.result_timeout_ms` is `0`"));
    }
    /// Returns the wait that a refusal requests, as the client at this scheme and path reads it.
    async fn asked_wait(scheme: &str, path: &str, told: &str) -> Option<Duration> {
        let refusal = answer(429, &format!("retry-after: {told}\r\n"), b"{}");
        let server = ScriptedServer::start([refusal]).await;
        let url = server.url(scheme, path);
        let error = match path {
            "/asr" => recognise(url).await.err(),
            "/tts" => synthesise(url).await,
            "/openai" => reply(LlmProvider::OpenAi, url).await,
            _ => reply(LlmProvider::Anthropic, url).await,
        };
        let error = error.expect("a refusal is an error");
        assert_eq!(error.kind, ProviderErrorKind::RateLimited, "{scheme} {path}: {error}");
        error.retry_after
    }

    async fn recognise(url: String) -> Result<Transcript, ProviderError> {
        let settings = AsrSettings { url, retry_within_ms: 0, ..AsrSettings::default() };
        let mut utterance = asr(&settings).unwrap().open(UtteranceSpec::default()).await?;
        utterance.push(&[0; 320]).await?;
        utterance.finish().await
    }

    async fn synthesise(url: String) -> Option<ProviderError> {
        let settings = TtsSettings { url, retry_within_ms: 0, ..TtsSettings::default() };
        let line = Line::new("a");
        tts(&settings, &CallLog::new(false))
            .unwrap()
            .speak(line)
            .try_collect::<Vec<_>>()
            .await
            .err()
    }

    async fn reply(provider: LlmProvider, base_url: String) -> Option<ProviderError> {
        let settings =
            LlmSettings { provider, base_url, retry_within_ms: 0, ..LlmSettings::default() };
        llm(&settings).unwrap().reply(Prompt::default()).next().await?.err()
    }

    #[tokio::test]
    async fn every_client_reads_a_wait_in_fractions_and_as_a_date() {
        let clients = [
            ("http", "/openai"),
            ("http", "/anthropic"),
            ("http", "/asr"),
            ("ws", "/asr"),
            ("funasr+ws", "/asr"),
            ("http", "/tts"),
            ("ws", "/tts"),
        ];
        for (scheme, path) in clients {
            let wait = asked_wait(scheme, path, "0.75").await;
            assert_eq!(wait, Some(Duration::from_millis(750)), "{scheme} {path}");
            let hour = Duration::from_secs(3_600);
            let date = (Timestamp::now() + 1.hour()).strftime("%a, %d %b %Y %H:%M:%S GMT");
            let wait = asked_wait(scheme, path, &date.to_string()).await.unwrap_or_default();
            assert!(wait > hour / 2 && wait <= hour, "{scheme} {path}: {wait:?} until {date}");
        }
    }
}
