//! The turn detector for the pipeline: Smart Turn on a separate thread. Not for the model, nor for
//! the thread.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use hearken_inference::{Compute, Settings};
use hearken_ports::TurnDetector;

use crate::smart_turn::SmartTurn;

/// Turn detector on a thread of low priority, which ends when this is dropped.
pub struct Worker(hearken_inference::Worker<Vec<i16>, f32>);

impl Worker {
    /// Starts the thread, which loads Smart Turn from this file and may use this share of one core,
    /// in percent. Until then, and if loading fails, which is logged, nothing is judged.
    ///
    /// # Errors
    /// Fails if the system refuses a thread.
    pub fn start(file: PathBuf, cpu_percent: u32) -> anyhow::Result<Self> {
        let settings = Settings {
            name: "turn detector",
            without: "silence alone decides",
            metric: "hearken_turn_detector_seconds",
            waiting: 1,
            // Later, the silence is over.
            deadline: Duration::from_millis(200),
            cpu_percent,
        };
        Ok(Self(hearken_inference::Worker::start(settings, file, load)?))
    }
}

fn load(file: &Path) -> anyhow::Result<Compute<Vec<i16>, f32>> {
    let mut model = SmartTurn::load(file)?;
    Ok(Box::new(move |speech| model.judge(&speech)))
}

#[async_trait]
impl TurnDetector for Worker {
    async fn judge(&self, speech: Vec<i16>) -> Option<f32> {
        self.0.ask(speech).await
    }
}
