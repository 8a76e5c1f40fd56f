//! One file per subcommand: arguments, calling one thing, printing. No behaviour.

pub mod convert;
mod endpoint;
pub mod llm;
pub mod load;
pub mod models;
pub mod replay;
pub mod serve;
pub mod speech;

use std::io::Write as _;

/// Prints text to standard output; a reader that has gone away is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
