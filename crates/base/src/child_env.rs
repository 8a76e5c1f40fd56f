//! Environment of child processes: the variables that they inherit, and no others, because our own
//! environment contains API keys. Not for starting them.

use std::ffi::OsString;

/// Variables that every program inherits: paths, language and time. A name that ends with `_` is a
/// prefix.
const FOR_ALL: [&str; 6] = ["PATH", "HOME", "LANG", "LC_", "TZ", "TMPDIR"];

/// Returns true if every program inherits the variable.
pub fn is_inherited(name: &str) -> bool {
    is_one_of(name, &FOR_ALL)
}

/// Returns the variables of this process that a program inherits: those of every program and
/// `further` ones. A name that ends with `_` is a prefix.
pub fn inherited(further: &[&str]) -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| is_inherited(name) || is_one_of(name, further))
    })
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name == *known || known.ends_with('_') && name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_not_inherited() {
        for name in ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"] {
            assert!(is_inherited(name), "{name}");
        }
        for name in ["LLM_API_KEY", "HEARKEN__AUTH__SECRET", "DATABASE_URL", "PATHS", "LC", ""] {
            assert!(!is_inherited(name), "{name}");
        }
        let names: Vec<_> = inherited(&["CARGO_"]).map(|(name, _)| name).collect();
        assert!(names.contains(&"CARGO_MANIFEST_DIR".into()), "cargo sets it for tests: {names:?}");
        assert!(inherited(&[]).all(|(name, _)| name != "CARGO_MANIFEST_DIR"));
    }
}
