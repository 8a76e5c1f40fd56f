//! The folder of the models if the configuration sets none. Not for its contents.

use std::path::PathBuf;

/// Variable that names the folder.
const MODELS: &str = "HEARKEN_MODELS";
/// Folder of caches, by the XDG base directory specification.
const CACHE_HOME: &str = "XDG_CACHE_HOME";

/// Returns the folder that `HEARKEN_MODELS` names, else `hearken/models` in the user's cache folder,
/// else below the working directory. `variable` returns the value of an environment variable that is
/// set and not empty.
pub fn default_root(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    if let Some(folder) = variable(MODELS) {
        return folder.into();
    }
    let cache = variable(CACHE_HOME).map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")));
    cache.unwrap_or_else(|| ".cache".into()).join("hearken").join("models")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_folder_is_searched_in_order() {
        let root = |set: &[(&str, &str)]| {
            let value = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned())
            };
            default_root(value)
        };
        let [models, cache, home] = [(MODELS, "/m"), (CACHE_HOME, "/c"), ("HOME", "/h")];
        assert_eq!(root(&[models, cache, home]), PathBuf::from("/m"));
        assert_eq!(root(&[cache, home]), PathBuf::from("/c/hearken/models"));
        assert_eq!(root(&[home]), PathBuf::from("/h/.cache/hearken/models"));
        assert_eq!(root(&[]), PathBuf::from(".cache/hearken/models"));
    }
}
