//! The model: a vector for a few seconds of speech. Not for queues and budgets.

use std::path::Path;

use anyhow::bail;
use hearken_inference::Graph;

use crate::fbank::{BANDS, Fbank};

/// CAM++, loaded.
pub struct CamPlusPlus {
    graph: Graph,
    features: Fbank,
}

impl CamPlusPlus {
    /// Loads the model from an ONNX file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is another model; the message names it.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        Ok(Self { graph: Graph::load(file)?, features: Fbank::new() })
    }

    /// Returns the embedding of the voice in this speech (16 kHz, mono), a vector of length 1.
    ///
    /// # Errors
    /// Fails if the speech is shorter than 100 ms, or the model is not CAM++.
    pub fn embed(&mut self, speech: &[i16]) -> anyhow::Result<Vec<f32>> {
        let features = self.features.of(speech);
        let frames = features.len() / BANDS;
        if frames < 8 {
            bail!("{} samples are too short to identify a voice", speech.len());
        }
        let mut voice = self.graph.run([1, frames, BANDS], features)?;
        let length = voice.iter().map(|value| value * value).sum::<f32>().sqrt();
        if !(length.is_finite() && length > 0.0) {
            bail!("the model returned a vector of length {length}");
        }
        voice.iter_mut().for_each(|value| *value /= length);
        Ok(voice)
    }
}
