//! Entry point: arguments, configuration, telemetry, run, exit code.
fn main() {}
