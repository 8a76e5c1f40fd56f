//! Messages of every protocol, as peers send them and as files of `fixtures/wire`, byte for byte.
//! `HEARKEN_BLESS=1` (or `scripts/bless`) rewrites the files that are derived from the code. This
//! file contains code shared by the goldens of several protocols. Not for the server's reactions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Lists all variants, and returns the name of a value: a variant without a row does not compile, a
/// row without a golden fails a test.
macro_rules! variants {
    ($names:ident, $name_of:ident, $type:ty, { $($pattern:pat => $name:literal,)+ }) => {
        const $names: &[&str] = &[$($name),+];

        fn $name_of(message: &$type) -> &'static str {
            match message {
                $($pattern => $name,)+
            }
        }
    };
}

// Below the macro, which they use.
mod device;
mod limits;
mod litemcp;
mod messages;
mod text_gateway;
mod words;

/// Returns the folder of this protocol's goldens.
fn fixtures(wire: &str) -> PathBuf {
    Path::new("../fixtures/wire").join(wire)
}

fn blessing() -> bool {
    std::env::var_os("HEARKEN_BLESS").is_some()
}

/// Checks that the file has exactly this content, or writes it.
fn golden(path: &Path, expected: &[u8]) {
    if blessing() {
        std::fs::write(path, expected).unwrap();
    }
    let found = std::fs::read(path)
        .unwrap_or_else(|e| panic!("{}: {e}; scripts/bless writes it", path.display()));
    assert!(
        found == expected,
        "{} holds\n{}\nand not\n{}\nscripts/bless rewrites it",
        path.display(),
        String::from_utf8_lossy(&found),
        String::from_utf8_lossy(expected)
    );
}

fn complete(known: &[&str], seen: &BTreeSet<&'static str>) {
    let missing: Vec<_> = known.iter().filter(|name| !seen.contains(*name)).collect();
    assert!(missing.is_empty(), "no golden for {missing:?}");
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is not an object"),
    }
}
