//! The words of every wire, as others say them and as files of `fixtures/wire`, byte for byte.
//! `HEARKEN_BLESS=1` (or `scripts/bless`) rewrites what follows from the code. Here is what the
//! goldens of several wires share. Not for what the server does with them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// Names every variant, and gives the name of a value: a variant without a row does not compile,
/// a row without a golden fails a test.
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

/// The folder of this wire's goldens.
fn fixtures(wire: &str) -> PathBuf {
    Path::new("../fixtures/wire").join(wire)
}

fn blessing() -> bool {
    std::env::var_os("HEARKEN_BLESS").is_some()
}

/// The file holds exactly this, or is made to.
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
        other => panic!("{other} is no object"),
    }
}
