//! What commands write for people: results to standard output, notes to standard error. Not for the log.

use std::io::{self, ErrorKind, Write as _};

/// Prints text to standard output; a closed reader is not an error.
///
/// # Errors
/// It cannot be written.
pub fn print(text: &str) -> io::Result<()> {
    unless_closed(writeln!(io::stdout(), "{}", text.trim_end()))
}

/// Prints a line for people to standard error.
///
/// # Errors
/// It cannot be written.
pub fn note(text: &str) -> io::Result<()> {
    unless_closed(writeln!(io::stderr(), "{text}"))
}

fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}
