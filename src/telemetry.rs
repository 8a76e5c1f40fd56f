//! Logging to standard error, and the metrics recorder. Not for what is logged or counted.

mod open_metrics;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use hearken_base::log::{ZoneTime, filter};
use hearken_dialogue::metrics::stages::TURN_SECONDS;
use hearken_dialogue::metrics::{COUNTS, SECONDS, SECONDS_BOUNDS};
use hearken_ports::PROVIDER_SECONDS;
use jiff::tz::TimeZone;
use metrics::gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

pub use self::open_metrics::open_metrics;

/// Function that replaces the filter of the running log.
type Reload = Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send + Sync>;

/// Reload function of the running log.
static RELOAD: OnceLock<Reload> = OnceLock::new();

/// Starts logging for the whole process, with times in this zone. Further calls have no effect.
///
/// # Errors
/// `log.level` cannot be parsed.
pub fn start(config: &LogConfig, zone: TimeZone) -> anyhow::Result<()> {
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter(&config.level)?)
        .with_timer(ZoneTime(zone))
        .with_writer(std::io::stderr);
    let (started, reload): (_, Reload) = match config.format {
        LogFormat::Text => {
            let logs = logs.with_target(false).with_filter_reloading();
            let handle = logs.reload_handle();
            (logs.try_init(), Box::new(move |filter| handle.reload(filter)))
        }
        LogFormat::Json => {
            let logs = logs.json().with_filter_reloading();
            let handle = logs.reload_handle();
            (logs.try_init(), Box::new(move |filter| handle.reload(filter)))
        }
    };
    if started.is_err() || RELOAD.set(reload).is_err() {
        tracing::debug!("logging has already started");
    }
    Ok(())
}

/// Parses a log level. Returns a function that applies it to the running log, if there is one.
///
/// # Errors
/// The level cannot be parsed.
pub fn changed(level: &str) -> anyhow::Result<impl FnOnce() + Send + use<>> {
    let filter = filter(level)?;
    Ok(move || {
        if let Some(Err(error)) = RELOAD.get().map(|reload| reload(filter)) {
            tracing::warn!(%error, "cannot change the log level");
        }
    })
}

/// Bucket bounds of histograms of counts, such as the length of a queue.
const PLACES: [f64; 8] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

/// Returns the process's metrics; the first call installs the recorder. Values counted before are lost.
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
    for name in SECONDS.into_iter().chain(TURN_SECONDS).chain([PROVIDER_SECONDS]) {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), &SECONDS_BOUNDS)?;
    }
    for name in COUNTS {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.into()), &PLACES)?;
    }
    let handle = builder.install_recorder().context("cannot install the recorder of metrics")?;
    gauge!("hearken_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Collector::default().describe();
    *installed = Some(handle.clone());
    Ok(handle)
}

/// Runs the upkeep of the metrics periodically, until dropped: otherwise, unsorted values would
/// accumulate between two scrapes. Also measures memory, CPU and open files of the process.
pub async fn maintain(metrics: PrometheusHandle) {
    let mut ticks = tokio::time::interval(Duration::from_secs(5));
    let process = Collector::default();
    loop {
        ticks.tick().await;
        process.collect();
        metrics.run_upkeep();
    }
}
