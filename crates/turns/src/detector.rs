//! The turn detector in virtual time: it judges at once by the clock of this machine, and answers after the time that
//! it takes by the virtual one. What it has judged once it remembers, so that more policies cost little. Not for
//! the model.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hearken_ports::TurnDetector;
use hearken_turn_detector::SmartTurn;

/// Turn detector that remembers.
pub struct Remembering {
    /// Idle models, one for each thread that asks.
    models: Mutex<Vec<SmartTurn>>,
    known: Mutex<HashMap<u64, f32>>,
    takes: Duration,
}

impl Remembering {
    /// Loads the model once for each of so many threads. A judgement takes this much virtual time.
    ///
    /// # Errors
    /// Fails if the file is no such model.
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
