//! The program for libFuzzer: runs one target, named by `HEARKEN_FUZZ_TARGET`. A program per target
//! would link the whole server each time.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var_os("HEARKEN_FUZZ_TARGET").unwrap_or_default();
    hearken_fuzz::target(&name.to_string_lossy()).unwrap_or_else(|error| panic!("{error}"))
});

fuzz_target!(|bytes: &[u8]| TARGET(bytes));
