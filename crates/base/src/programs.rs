//! Functions of our programs: finding another program, and reading an environment variable. Not for
//! what a child inherits.

use std::path::PathBuf;

/// Returns the path of a program: in the folder of the running one, else the first on `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|running| running.with_file_name(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

/// Returns an environment variable that is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}
