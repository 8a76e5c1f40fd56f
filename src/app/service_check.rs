//! Contacts each configured service once and measures it, for `hearken config check --services`.
//! Not for a running server, which probes its own services.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use hearken_ports::{ServiceHealth, ServiceState, Tts as _};
use hearken_providers::{
    AsrSettings, CallLog, ChainOptions, CostTracker, DEVICE_FRONTEND, LlmSettings, TtsSettings,
};
use hearken_store::SqlStore;
use tokio::net::TcpStream;
use url::Url;

use crate::config::Config;
use crate::engines;

/// Longest time for one service.
const DEADLINE: Duration = Duration::from_secs(10);

/// Result of contacting one service.
#[derive(Debug)]
pub struct ServiceCheck {
    /// Key of its address.
    pub key: String,
    /// Its address, without secrets.
    pub address: String,
    /// Time that it took.
    pub took: Duration,
    /// What was found.
    pub outcome: Outcome,
}

/// What contacting a service found.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered.
    Works,
    /// It does not run yet: the server starts it.
    StartedByServer,
    /// It does not work, for this reason.
    Fails(String),
}

/// A service to contact.
struct Service<'a> {
    key: String,
    address: String,
    /// True if the server starts an engine for it.
    is_embedded: bool,
    contact: BoxFuture<'a, Result<(), String>>,
}

/// Contacts every service whose address is configured, all at once.
///
/// # Errors
/// A setting of a service cannot be used.
pub async fn check_services(config: &Config, data_dir: &Path) -> anyhow::Result<Vec<ServiceCheck>> {
    let mut services = speech(config)?;
    services.extend(models(config)?);
    services.extend(others(config, data_dir)?);
    Ok(futures_util::future::join_all(services.into_iter().map(contact)).await)
}

async fn contact(service: Service<'_>) -> ServiceCheck {
    let began = Instant::now();
    let late = || Err(format!("no answer within {} s", DEADLINE.as_secs()));
    let found = tokio::time::timeout(DEADLINE, service.contact).await.unwrap_or_else(|_| late());
    let outcome = match (found, service.is_embedded) {
        (Ok(()), _) => Outcome::Works,
        (Err(_), true) => Outcome::StartedByServer,
        (Err(reason), false) => Outcome::Fails(reason),
    };
    let Service { key, address, .. } = service;
    ServiceCheck { key, address, took: began.elapsed(), outcome }
}

/// Returns the reason why a probed service does not work.
fn failure(health: ServiceHealth) -> Result<(), String> {
    match (health.state, health.failure) {
        (ServiceState::Ready, _) => Ok(()),
        (_, Some(failure)) => Err(failure.to_string()),
        (state, None) => Err(format!("{state:?}").to_lowercase()),
    }
}

/// Recognisers and synthesisers, each by itself.
fn speech(config: &Config) -> anyhow::Result<Vec<Service<'static>>> {
    let mut services = Vec::new();
    for (number, url) in std::iter::once(&config.asr.url).chain(&config.asr.more_urls).enumerate() {
        let settings =
            AsrSettings { url: url.clone(), more_urls: Vec::new(), ..config.asr.clone() };
        let asr = hearken_providers::asr(&settings)?;
        services.push(Service {
            key: if number == 0 { "asr.url".to_owned() } else { "asr.more_urls".to_owned() },
            address: url.clone(),
            is_embedded: engines::is_embedded(config, url),
            contact: Box::pin(async move {
                asr.probe().await;
                failure(asr.health())
            }),
        });
    }
    for (number, url) in std::iter::once(&config.tts.url).chain(&config.tts.more_urls).enumerate() {
        let settings =
            TtsSettings { url: url.clone(), more_urls: Vec::new(), ..config.tts.clone() };
        let tts = hearken_providers::tts(&settings, &CallLog::new(false))?;
        services.push(Service {
            key: if number == 0 { "tts.url".to_owned() } else { "tts.more_urls".to_owned() },
            address: url.clone(),
            is_embedded: engines::is_embedded(config, url),
            contact: Box::pin(async move {
                tts.probe().await;
                failure(tts.health())
            }),
        });
    }
    Ok(services)
}

/// The language model and its fallbacks, each by itself.
fn models(config: &Config) -> anyhow::Result<Vec<Service<'static>>> {
    let first = LlmSettings { fallback: Vec::new(), ..config.llm.clone() };
    let fallbacks = config.llm.fallback.iter().map(|model| model.settings(&first));
    let mut services = Vec::new();
    for (number, settings) in std::iter::once(first.clone()).chain(fallbacks).enumerate() {
        let options = ChainOptions::spoken(DEVICE_FRONTEND, &CostTracker::default());
        let llm = hearken_providers::llm_for(&settings, &options)?;
        services.push(Service {
            key: if number == 0 { "llm.base_url".to_owned() } else { "llm.fallback".to_owned() },
            address: settings.base_url.clone(),
            is_embedded: engines::is_embedded(config, &settings.base_url),
            contact: Box::pin(async move {
                llm.probe().await;
                failure(llm.health())
            }),
        });
    }
    Ok(services)
}

/// The store, and services of which only the address is tried.
fn others<'a>(config: &'a Config, data_dir: &'a Path) -> anyhow::Result<Vec<Service<'a>>> {
    let store = SqlStore::patient(config.store.url.expose(), data_dir)?;
    let mut services = vec![Service {
        key: "store.url".to_owned(),
        address: if config.store.url.is_empty() {
            data_dir.display().to_string()
        } else {
            "***".to_owned()
        },
        is_embedded: false,
        contact: Box::pin(async move {
            let found = store.version().await.map(drop).map_err(|error| error.to_string());
            store.shut().await;
            found
        }),
    }];
    let servers = config.tools.servers.iter().filter(|server| server.enabled);
    let servers =
        servers.map(|server| (format!("tools.servers, {}", server.name), server.url.as_str()));
    let single = [
        ("redis.url", config.redis.url.expose()),
        ("state.url", config.state.url.as_str()),
        ("vision.base_url", config.vision.base_url.as_str()),
        ("traces.otlp_url", config.traces.otlp_url.as_str()),
    ];
    let single = single.map(|(key, url)| (key.to_owned(), url));
    for (key, url) in single.into_iter().chain(servers).filter(|(_, url)| !url.is_empty()) {
        let shown = Url::parse(url)
            .map_or_else(|_| "***".to_owned(), |url| hearken_base::redaction::shown(&url));
        let contact = Box::pin(connect(url));
        services.push(Service { key, address: shown, is_embedded: false, contact });
    }
    Ok(services)
}

/// Opens a connection to the host of a URL.
async fn connect(url: &str) -> Result<(), String> {
    let url = Url::parse(url).map_err(|error| error.to_string())?;
    let host = url.host_str().ok_or("the address has no host")?;
    let known = match url.scheme() {
        "redis" => Some(6379),
        _ => url.port_or_known_default(),
    };
    let port = url.port().or(known).ok_or("the address has no port")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    TcpStream::connect((host, port)).await.map(drop).map_err(|error| error.to_string())
}
