//! Logs: level and shape from the configuration, to standard error. Not for metrics.

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;
use crate::config::LogFormat;

/// Starts logging for the whole process; a second start changes nothing.
///
/// # Errors
/// `log.level` cannot be read.
pub fn start(config: &LogConfig) -> anyhow::Result<()> {
    // async_openai logs what a model wrote where it cannot read it: words of people do not belong
    // in logs, and our own error tells the rest.
    let rules = format!("{},async_openai=off", config.level);
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
