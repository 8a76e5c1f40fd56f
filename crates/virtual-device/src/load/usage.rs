//! What a process uses, from Linux's `/proc` (man 5 proc): at one moment, and over a run. Not for
//! what it does.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use tokio::time::Instant;

/// Memory that is looked at for less than this grows for other reasons than with time.
const LONG_ENOUGH_S: f64 = 300.0;

/// What a process has used until now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// CPU time, of all its threads.
    pub cpu: Duration,
    /// Resident memory, KiB.
    pub resident_kib: f64,
}

impl Usage {
    /// That of the process with this id.
    ///
    /// # Errors
    /// There is none, or the system has no `/proc`.
    pub fn of(pid: u32) -> anyhow::Result<Self> {
        const TICKS_PER_SECOND: f64 = 100.0;
        let read = |name: &str| {
            std::fs::read_to_string(format!("/proc/{pid}/{name}"))
                .with_context(|| format!("no process {pid}: give the server's --pid"))
        };
        let stat = read("stat")?;
        // The name, in brackets, may hold spaces; user and system time are the 14th and 15th field.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: f64 = fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum();
        let status = read("status")?;
        let resident = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
        let cpu = Duration::from_secs_f64(ticks / TICKS_PER_SECOND);
        Ok(Self { cpu, resident_kib: kib.unwrap_or(0.0) })
    }
}

/// What a process used over a run, looked at again and again.
#[derive(Debug)]
pub struct Course {
    pid: u32,
    begun: Instant,
    before: Usage,
    looks: Vec<Look>,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Duration,
    usage: Usage,
    turns: usize,
}

/// What a process used over a run, with everybody there.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Used {
    /// Parts of one core in use.
    pub cores: f64,
    /// CPU time for each turn that ended, ms; none without turns.
    pub cpu_ms_per_turn: Option<f64>,
    /// Resident memory at the end, MiB.
    pub resident_mib: f64,
    /// Memory taken since before the first device came, for each device, KiB.
    pub kib_per_device: f64,
    /// How fast memory grew, KiB for each device in an hour; none where the run was too short.
    pub kib_per_device_hour: Option<f64>,
}

impl Course {
    /// Looks at a process for the first time, before the devices come.
    ///
    /// # Errors
    /// There is none with this id.
    pub fn begin(pid: u32) -> anyhow::Result<Self> {
        Ok(Self { pid, begun: Instant::now(), before: Usage::of(pid)?, looks: Vec::new() })
    }

    /// Looks again, when so many turns have ended. A process that has gone is not looked at.
    pub fn look(&mut self, turns: usize) {
        if let Ok(usage) = Usage::of(self.pid) {
            self.looks.push(Look { at: self.begun.elapsed(), usage, turns });
        }
    }

    /// What was used from `ramp` on, when all of these devices had come.
    pub fn used(&self, ramp: Duration, devices: usize) -> Option<Used> {
        let steady = self.looks.iter().position(|look| look.at >= ramp)?;
        let looks = &self.looks[steady..];
        let (first, last) = (looks.first()?, looks.last()?);
        let time = (last.at - first.at).as_secs_f64();
        let cpu = last.usage.cpu.saturating_sub(first.usage.cpu).as_secs_f64();
        let turns = count(last.turns - first.turns);
        let devices = count(devices.max(1));
        Some(Used {
            cores: if time > 0.0 { cpu / time } else { 0.0 },
            cpu_ms_per_turn: (turns > 0.0).then(|| cpu * 1_000.0 / turns),
            resident_mib: last.usage.resident_kib / 1_024.0,
            kib_per_device: (last.usage.resident_kib - self.before.resident_kib) / devices,
            kib_per_device_hour: (time >= LONG_ENOUGH_S).then(|| slope(looks) * 3_600.0 / devices),
        })
    }
}

fn count(number: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let number = number as f64;
    number
}

/// KiB a second: the line with the least squares through all looks.
fn slope(looks: &[Look]) -> f64 {
    let n = count(looks.len().max(1));
    let mean = |of: &dyn Fn(&Look) -> f64| looks.iter().map(of).sum::<f64>() / n;
    let (time, memory) = (mean(&|l| l.at.as_secs_f64()), mean(&|l| l.usage.resident_kib));
    let (mut both, mut square) = (0.0, 0.0);
    for look in looks {
        let at = look.at.as_secs_f64() - time;
        both += at * (look.usage.resident_kib - memory);
        square += at * at;
    }
    if square > 0.0 { both / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_something_and_none_is_told() {
        let own = Usage::of(std::process::id()).unwrap();
        assert!(own.resident_kib > 500.0, "{own:?}");
        let told = Usage::of(u32::MAX).unwrap_err().to_string();
        assert!(told.contains("--pid"), "{told}");
    }

    #[test]
    fn a_course_tells_costs_a_turn_and_growth_a_device() {
        let look = |s: u64, cpu_ms, kib, turns| Look {
            at: Duration::from_secs(s),
            usage: Usage { cpu: Duration::from_millis(cpu_ms), resident_kib: kib },
            turns,
        };
        let before = Usage { cpu: Duration::ZERO, resident_kib: 10_000.0 };
        let looks = vec![
            look(0, 0, 10_000.0, 0),
            look(10, 5_000, 20_000.0, 50),
            look(200, 7_000, 20_190.0, 100),
            look(400, 9_000, 20_390.0, 150),
        ];
        let course = Course { pid: 0, begun: Instant::now(), before, looks };
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
