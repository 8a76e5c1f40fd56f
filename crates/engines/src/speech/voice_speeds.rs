//! Speed of each voice on this machine: measured once, stored in a small file, and averaged while
//! the service runs. The file contains only the first measurement: the load of one hour does not
//! predict that of the next start. `start_delay` uses the figure.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Weight of a new measurement in the moving average.
const WEIGHT: f64 = 0.2;

/// Measured costs of the voices: seconds of work per second of audio.
#[derive(Debug)]
pub struct VoiceSpeeds {
    path: Option<PathBuf>,
    costs: Mutex<BTreeMap<String, f64>>,
}

impl VoiceSpeeds {
    /// Reads the figures stored at `path`. A missing or broken file counts as empty. Without a path
    /// nothing is stored.
    pub fn open(path: Option<PathBuf>) -> Self {
        let costs = path.as_deref().map(read).unwrap_or_default();
        Self { path, costs: Mutex::new(costs) }
    }

    /// Returns the cost of `voice` in seconds of work per second of audio, once measured.
    pub fn cost(&self, voice: &str) -> Option<f64> {
        self.lock().get(voice).copied()
    }

    /// Adds a measurement: `work` produced `audio`. Ignores pieces under 0.3 s, which are not
    /// representative.
    pub fn measured(&self, voice: &str, work: Duration, audio: Duration) {
        if audio < Duration::from_millis(300) {
            return;
        }
        let cost = (work.as_secs_f64() / audio.as_secs_f64()).clamp(0.001, 100.0);
        let mut costs = self.lock();
        let average = costs.entry(voice.to_owned()).or_insert(cost);
        *average += WEIGHT * (cost - *average);
    }

    /// Removes the figure of `voice`.
    pub fn forget(&self, voice: &str) {
        self.lock().remove(voice);
    }

    /// Writes the figures to their file, replacing it in one step.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(&self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_string_pretty(&*self.lock()).map_err(io::Error::other)?;
        let fresh = path.with_extension("json.new");
        fs::write(&fresh, text)?;
        fs::rename(&fresh, path)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, f64>> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> BTreeMap<String, f64> {
    let Ok(text) = fs::read_to_string(path) else { return BTreeMap::new() };
    let mut costs: BTreeMap<String, f64> = serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!(path = %path.display(), %error, "cannot read the stored speeds of the voices; measuring again");
        BTreeMap::new()
    });
    costs.retain(|_, cost| cost.is_finite() && *cost > 0.0);
    costs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_a_restart_and_follow_the_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pace.json");
        let paces = VoiceSpeeds::open(Some(path.clone()));
        assert_eq!(paces.cost("zh"), None);
        paces.measured("zh", Duration::from_secs(1), Duration::from_secs(2));
        paces.measured("zh", Duration::from_secs(2), Duration::from_secs(2));
        paces.measured("en", Duration::from_secs(1), Duration::from_millis(10));
        paces.save().unwrap();
        let again = VoiceSpeeds::open(Some(path.clone()));
        assert!((again.cost("zh").unwrap() - 0.6).abs() < 1e-9);
        assert_eq!(again.cost("en"), None);
        fs::write(&path, r#"{"zh":-1,"en":0.1}"#).unwrap();
        assert_eq!(VoiceSpeeds::open(Some(path.clone())).cost("zh"), None);
        fs::write(&path, "not json").unwrap();
        assert_eq!(VoiceSpeeds::open(Some(path)).cost("en"), None);
    }
}
