//! Program that libFuzzer drives: one target, whose name is in `HEARKEN_FUZZ_TARGET`. A program of
//! its own for each target would link the whole server as often as there are targets.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var_os("HEARKEN_FUZZ_TARGET").unwrap_or_default();
    hearken_fuzz::target(&name.to_string_lossy()).unwrap_or_else(|error| panic!("{error}"))
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
