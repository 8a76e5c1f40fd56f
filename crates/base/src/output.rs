//! Output of commands for people: results to standard output, notes and failures to standard error;
//! the exit code of a failure. Not for the log.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

/// Prints text to standard output; a closed reader is not an error.
///
/// # Errors
/// The text cannot be written.
pub fn print(text: &str) -> io::Result<()> {
    unless_closed(writeln!(io::stdout(), "{}", text.trim_end()))
}

/// Prints a line for people to standard error.
///
/// # Errors
/// The line cannot be written.
pub fn note(text: &str) -> io::Result<()> {
    unless_closed(writeln!(io::stderr(), "{text}"))
}

/// Returns the exit code of a program: that of its command, or 2 after a failure, which is printed
/// with its causes.
pub fn exit_code<E: Display>(program: &str, outcome: Result<ExitCode, E>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        // If the failure cannot be printed, the exit code still reports it.
        note(&format!("{program}: {error:#}")).ok();
        ExitCode::from(2)
    })
}

fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
