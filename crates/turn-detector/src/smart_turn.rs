//! The model: one probability for the last 8 s of speech. The only file that knows `rten`, which runs it on a thread
//! of its own. Not for queues and budgets.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use hearken_base::priority::lower_priority;
use rten::{Model, NodeId, RunOptions, ThreadPool};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;

use crate::log_mel::{BANDS, FRAMES, LogMel};

/// Smart Turn v3.2, loaded.
pub struct SmartTurn {
    model: Model,
    input: NodeId,
    output: NodeId,
    thread: Arc<ThreadPool>,
    features: LogMel,
}

impl SmartTurn {
    /// Loads the model from an ONNX file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is another model; the message names it.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let name = file.display();
        let model = Model::load_file(file);
        let model = model.with_context(|| format!("cannot load the turn detector {name}"))?;
        let ([input], [output]) = (model.input_ids(), model.output_ids()) else {
            bail!("{name} is no turn detector: it has not one input and one output");
        };
        let (input, output) = (*input, *output);
        let thread = ThreadPool::with_num_threads(1);
        thread.run(lower_priority);
        let thread = Arc::new(thread);
        Ok(Self { model, input, output, thread, features: LogMel::new() })
    }

    /// Returns the probability that the person who said this (16 kHz, mono) has finished.
    ///
    /// # Errors
    /// Fails if the model is another one than Smart Turn.
    pub fn judge(&mut self, speech: &[i16]) -> anyhow::Result<f32> {
        let features = self.features.of(speech);
        let features = NdTensor::from_data([1, BANDS, FRAMES], features);
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.thread)));
        let inputs = vec![(self.input, features.into())];
        let [output] = self.model.run_n(inputs, [self.output], Some(options))?;
        let output: NdTensor<f32, 2> = output.try_into()?;
        let probability = output.iter().next().copied().context("the model gives no value")?;
        if !(0.0..=1.0).contains(&probability) {
            bail!("the model gives {probability}, which is no probability");
        }
        Ok(probability)
    }
}
