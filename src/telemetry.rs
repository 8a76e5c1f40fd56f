//! Logs to standard error, and the recorder of metrics. Not for what is logged or counted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use hearken_actors::meters::SECONDS;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;
use crate::config::LogFormat;

/// Starts logging for the whole process; a second start changes nothing.
///
/// # Errors
/// `log.level` cannot be read.
pub fn start(config: &LogConfig) -> anyhow::Result<()> {
    // async_openai logs what a model wrote where it cannot read it, rmcp what tools say: words of
    // people do not belong in logs, and our own errors tell the rest.
    let rules = format!("{},async_openai=off,rmcp=off", level(&config.level));
    let filter = EnvFilter::try_new(&rules).with_context(|| {
        format!("`log.level` is `{}`: use error, warn, info, debug or trace", config.level)
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match config.format {
        LogFormat::Text => logs.with_target(false).try_init(),
        LogFormat::Json => logs.json().try_init(),
    };
    if started.is_err() {
        tracing::debug!("logging runs already");
    }
    Ok(())
}

/// Other programs name some levels otherwise.
fn level(named: &str) -> &str {
    match named.to_ascii_lowercase().as_str() {
        "warning" => "warn",
        "critical" | "fatal" => "error",
        _ => named,
    }
}

/// Bounds of the distributions, in seconds: from a packet's lateness to a slow answer.
const BOUNDS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];

/// The process's metrics. What is counted before the first call of this is lost.
///
/// # Errors
/// Another recorder has been installed.
pub fn metrics() -> anyhow::Result<PrometheusHandle> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let mut builder = PrometheusBuilder::new();
    for name in SECONDS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), &BOUNDS)?;
    }
    let handle = builder.install_recorder().context("cannot install the recorder of metrics")?;
    *installed = Some(handle.clone());
    Ok(handle)
}

/// Sorts what was counted into its buckets, now and again, until dropped: between two scrapes it
/// would pile up.
pub async fn tidy(metrics: PrometheusHandle) {
    let mut ticks = tokio::time::interval(Duration::from_secs(5));
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
