//! Resource usage of a process, from Linux's `/proc` (man 5 proc): at one moment, and over a run.
//! Not for the work of the process.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::time::Instant;

/// Minimum length of a run, in seconds, for which memory growth is calculated; in shorter ones
/// memory grows for other reasons.
const LONG_ENOUGH_S: f64 = 300.0;

/// Resource usage of a process until now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// CPU time of all its threads.
    pub cpu: Duration,
    /// Resident memory, KiB.
    pub resident_kib: f64,
}

impl Usage {
    /// Reads the usage of the process with this id.
    ///
    /// # Errors
    /// Fails if there is no such process, or the system has no `/proc`.
    pub fn of_process(pid: u32) -> anyhow::Result<Self> {
        const TICKS_PER_SECOND: f64 = 100.0;
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{name}")).with_context(|| {
                format!("there is no process {pid}: use --pid with the id of the server's process")
            })
        };
        let stat = read("stat")?;
        // The name, in brackets, may contain spaces; user and system time are the 14th and 15th
        // field.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
        let status = read("status")?;
        let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
        let cpu = Duration::from_secs_f64(ticks / TICKS_PER_SECOND);
        Ok(Self { cpu, resident_kib: kib.unwrap_or(0.0) })
    }
}

/// Samples of a process's usage over a run.
#[derive(Debug)]
pub struct UsageSamples {
    pid: u32,
    begun: Instant,
    before: Usage,
    samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    usage: Usage,
    turns: usize,
}

/// Resource usage over the part of a run in which all devices were connected.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct UsageReport {
    /// Number of cores in use, on average.
    pub cores: f64,
    /// CPU time per finished turn, in ms; `None` without turns.
    pub cpu_ms_per_turn: Option<f64>,
    /// Resident memory at the end, MiB.
    pub resident_mib: f64,
    /// Additional memory since before the first device connected, per device, in KiB.
    pub kib_per_device: f64,
    /// Growth of memory per device and hour, in KiB; `None` if the run was too short.
    pub kib_per_device_hour: Option<f64>,
}

impl UsageSamples {
    /// Takes the first sample, before the devices connect.
    ///
    /// # Errors
    /// Fails if there is no process with this id.
    pub fn begin(pid: u32) -> anyhow::Result<Self> {
        Ok(Self {
            pid,
            begun: Instant::now(),
            before: Usage::of_process(pid)?,
            samples: Vec::new(),
        })
    }

    /// Takes a sample after this number of finished turns. Does nothing if the process has ended.
    pub fn sample(&mut self, turns: usize) {
        if let Ok(usage) = Usage::of_process(self.pid) {
            self.samples.push(Sample { at: self.begun.elapsed(), usage, turns });
        }
    }

    /// Returns the usage from `ramp` on, when all of these devices had connected.
    pub fn used(&self, ramp: Duration, devices: usize) -> Option<UsageReport> {
        let steady = self.samples.iter().position(|sample| sample.at >= ramp)?;
        let samples = &self.samples[steady..];
        let first = samples.first()?;
        let last = samples.last()?;
        let time = (last.at - first.at).as_secs_f64();
        let cpu = last.usage.cpu.saturating_sub(first.usage.cpu).as_secs_f64();
        let turns = count(last.turns - first.turns);
        let devices = count(devices.max(1));
        Some(UsageReport {
            cores: if time > 0.0 { cpu / time } else { 0.0 },
            cpu_ms_per_turn: (turns > 0.0).then(|| cpu * 1_000.0 / turns),
            resident_mib: last.usage.resident_kib / 1_024.0,
            kib_per_device: (last.usage.resident_kib - self.before.resident_kib) / devices,
            kib_per_device_hour: (time >= LONG_ENOUGH_S)
                .then(|| slope(samples) * 3_600.0 / devices),
        })
    }
}

fn count(number: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let number = number as f64;
    number
}

/// Returns the growth in KiB per second, by a least-squares line through all samples.
fn slope(samples: &[Sample]) -> f64 {
    let n = count(samples.len().max(1));
    let mean =
        |of_process: &dyn Fn(&Sample) -> f64| samples.iter().map(of_process).sum::<f64>() / n;
    let time = mean(&|l| l.at.as_secs_f64());
    let memory = mean(&|l| l.usage.resident_kib);
    let mut both = 0.0;
    let mut square = 0.0;
    for sample in samples {
        let at = sample.at.as_secs_f64() - time;
        both += at * (sample.usage.resident_kib - memory);
        square += at * at;
    }
    if square > 0.0 { both / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_usage_and_a_missing_one_is_an_error() {
        let own = Usage::of_process(std::process::id()).unwrap();
        assert!(own.resident_kib > 500.0, "{own:?}");
        let told = Usage::of_process(u32::MAX).unwrap_err().to_string();
        assert!(told.contains("--pid"), "{told}");
    }

    #[test]
    fn samples_give_the_cost_per_turn_and_the_growth_per_device() {
        let sample = |s: u64, cpu_ms, kib, turns| Sample {
            at: Duration::from_secs(s),
            usage: Usage { cpu: Duration::from_millis(cpu_ms), resident_kib: kib },
            turns,
        };
        let before = Usage { cpu: Duration::ZERO, resident_kib: 10_000.0 };
        let samples = vec![
            sample(0, 0, 10_000.0, 0),
            sample(10, 5_000, 20_000.0, 50),
            sample(200, 7_000, 20_190.0, 100),
            sample(400, 9_000, 20_390.0, 150),
        ];
        let course = UsageSamples { pid: 0, begun: Instant::now(), before, samples };
        let used = course.used(Duration::from_secs(10), 100).unwrap();
        assert!((used.cores - 4.0 / 390.0).abs() < 1e-9, "{used:?}");
        assert!((used.cpu_ms_per_turn.unwrap() - 40.0).abs() < 1e-9, "{used:?}");
        assert!((used.kib_per_device - 103.9).abs() < 1e-9, "{used:?}");
        assert!((used.kib_per_device_hour.unwrap() - 36.0).abs() < 1e-6, "{used:?}");
        let short = course.used(Duration::from_secs(200), 100).unwrap();
        assert_eq!(short.kib_per_device_hour, None, "{short:?}");
        assert!(course.used(Duration::from_secs(401), 100).is_none());
    }
}
