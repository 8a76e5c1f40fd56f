//! Turn detector for virtual time: the model runs in real time, and its verdict arrives after a
//! fixed virtual delay. Verdicts are cached, so that additional policies cost little. The model is
//! in `hearken-turn-detector`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hearken_ports::TurnDetector;
use hearken_turn_detector::SmartTurn;

/// Turn detector with a cache of its verdicts.
pub struct Remembering {
    /// Idle models; one is loaded per thread.
    models: Mutex<Vec<SmartTurn>>,
    known: Mutex<HashMap<u64, f32>>,
    takes: Duration,
}

impl Remembering {
    /// Loads one model per thread. A verdict takes `takes` of virtual time.
    ///
    /// # Errors
    /// Fails if the file is not a turn detection model.
    pub fn load(file: &Path, threads: usize, takes: Duration) -> anyhow::Result<Self> {
        let models: Result<_, _> = (0..threads).map(|_| SmartTurn::load(file)).collect();
        Ok(Self { models: Mutex::new(models?), known: Mutex::default(), takes })
    }

    fn probability(&self, speech: &[i16]) -> Option<f32> {
        let mut hasher = DefaultHasher::new();
        speech.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(known) = lock(&self.known).get(&key) {
            return Some(*known);
        }
        let mut model = lock(&self.models).pop()?;
        let judged = model.judge(speech);
        lock(&self.models).push(model);
        let probability = judged.ok()?;
        lock(&self.known).insert(key, probability);
        Some(probability)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl TurnDetector for Remembering {
    async fn judge(&self, speech: Vec<i16>) -> Option<f32> {
        let probability = self.probability(&speech);
        tokio::time::sleep(self.takes).await;
        probability
    }
}
