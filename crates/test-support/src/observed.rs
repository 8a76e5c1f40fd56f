//! Log and metrics of the code in this process, for tests without a server. Both are global to the
//! process: concurrent rows need distinct names.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Log lines and metrics.
pub struct Observed {
    log: &'static Log,
    metrics: PrometheusHandle,
}

/// Log lines, as JSON.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Observes the log from now on; shared by all callers.
pub fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt().json().with_writer(move || writer.clone()).init();
        log
    })
}

/// Observes log and metrics from now on; shared by all callers. Cannot be used with a server in
/// this process, which has its own metrics.
pub fn observed() -> &'static Observed {
    static OBSERVED: OnceLock<Observed> = OnceLock::new();
    OBSERVED.get_or_init(|| Observed {
        log: log(),
        metrics: PrometheusBuilder::new().install_recorder().unwrap(),
    })
}

impl Log {
    /// Number of lines that contain all of these parts.
    pub fn count(&self, parts: &[&str]) -> usize {
        let log = self.0.lock().unwrap();
        let log = String::from_utf8_lossy(&log);
        log.lines().filter(|line| parts.iter().all(|part| line.contains(part))).count()
    }
}

impl Observed {
    /// Whether a log line contains all of these parts.
    pub fn tells(&self, parts: &[&str]) -> bool {
        self.log.count(parts) > 0
    }

    /// Sum of the metrics with this name whose labels contain all of these parts.
    pub fn counts(&self, name: &str, labels: &[&str]) -> f64 {
        let rendered = self.metrics.render();
        let figures = rendered.lines().filter_map(|line| {
            let (line, figure) = line.rsplit_once(' ')?;
            let rest = line.strip_prefix(name)?;
            let ours = rest.is_empty() || rest.starts_with('{');
            (ours && labels.iter().all(|label| rest.contains(label))).then_some(figure)
        });
        figures.map(|figure| figure.parse::<f64>().unwrap()).sum()
    }
}
