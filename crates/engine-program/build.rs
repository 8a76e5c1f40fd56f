//! Lets the binary find the speech engine's shared libraries beside itself or in `../lib`.

fn main() {
    if std::env::var_os("CARGO_FEATURE_NATIVE").is_some() {
        println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN:$ORIGIN/../lib");
    }
}
