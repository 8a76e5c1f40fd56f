//! The model: one probability for the last 8 s of speech. Not for queues and budgets.

use std::path::Path;

use anyhow::{Context as _, bail};
use hearken_inference::Graph;

use crate::log_mel::{BANDS, FRAMES, LogMel};

/// Smart Turn v3.2, loaded.
pub struct SmartTurn {
    graph: Graph,
    features: LogMel,
}

impl SmartTurn {
    /// Loads the model from an ONNX file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is another model; the message names it.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        Ok(Self { graph: Graph::load(file)?, features: LogMel::new() })
    }

    /// Returns the probability that the speaker of this speech (16 kHz, mono) has finished.
    ///
    /// # Errors
    /// Fails if the model is not Smart Turn.
    pub fn judge(&mut self, speech: &[i16]) -> anyhow::Result<f32> {
        let features = self.features.of(speech);
        let output = self.graph.run([1, BANDS, FRAMES], features)?;
        let probability = output.first().copied().context("the model returned no value")?;
        if !(0.0..=1.0).contains(&probability) {
            bail!("the model returned {probability}, which is not a probability");
        }
        Ok(probability)
    }
}
