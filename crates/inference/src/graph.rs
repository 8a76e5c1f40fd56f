//! A model's graph: numbers in, numbers out. The only file that uses `rten`, which runs it on a
//! separate thread. Not for queues and budgets.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use hearken_base::priority::lower_priority;
use rten::{Model, NodeId, RunOptions, ThreadPool};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;

/// A loaded graph with one input and one output.
pub struct Graph {
    model: Model,
    input: NodeId,
    output: NodeId,
    thread: Arc<ThreadPool>,
}

impl Graph {
    /// Loads a graph from an ONNX file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is not a graph, or has more inputs or outputs; the message
    /// names it.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let name = file.display();
        let model = Model::load_file(file);
        let model = model.with_context(|| format!("cannot load the model {name}"))?;
        let ([input], [output]) = (model.input_ids(), model.output_ids()) else {
            bail!("{name} is another model: it does not have one input and one output");
        };
        let input = *input;
        let output = *output;
        let thread = ThreadPool::with_num_threads(1);
        thread.run(lower_priority);
        Ok(Self { model, input, output, thread: Arc::new(thread) })
    }

    /// Returns the graph's output, a single row, for these values of this shape.
    ///
    /// # Errors
    /// Fails if the values do not fill the shape, or the graph does not accept it.
    pub fn run(&self, shape: [usize; 3], values: Vec<f32>) -> anyhow::Result<Vec<f32>> {
        let values = NdTensor::try_from_data(shape, values)?;
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.thread)));
        let inputs = vec![(self.input, values.into())];
        let [output] = self.model.run_n(inputs, [self.output], Some(options))?;
        let output: NdTensor<f32, 2> = output.try_into()?;
        Ok(output.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_file_that_is_not_a_graph_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.onnx");
        std::fs::write(&file, b"no model").unwrap();
        for (file, why) in [(file.as_path(), "model.onnx"), ("/no/such".as_ref(), "/no/such")] {
            let Err(error) = Graph::load(file) else { panic!("{file:?} was loaded") };
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
    }
}
