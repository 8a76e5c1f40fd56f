//! Models that were fetched on this machine, for tests of the code that runs them. Not for
//! fetching.

use std::path::PathBuf;

/// Returns the `model.onnx` of a model of the catalogue; `None` if `hearken models fetch` has not fetched it.
pub fn fetched(name: &str) -> Option<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let models = folder("HEARKEN_MODELS").or_else(|| Some(cache()?.join("hearken/models")));
    let file = models?.join(name).join("model.onnx");
    file.exists().then_some(file)
}
