//! Output of commands for people: results to standard output, notes and failures to standard error;
//! the exit code of a failure. Not for the log.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

/// Marks that change the order in which a terminal shows the letters around them.
const REORDERING: [std::ops::RangeInclusive<char>; 2] =
    ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];

/// Returns a text without what could hide or change other parts of the output: control characters
/// except line ends and tabs, and marks of the writing direction.
#[must_use]
pub fn printable(text: &str) -> String {
    let controls = |c: &char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || REORDERING.iter().any(|marks| marks.contains(c))
    };
    text.chars().filter(|c| !controls(c)).collect()
}

/// Returns a text of somebody else for one line of a list, without line ends.
#[must_use]
pub fn one_line(text: &str) -> String {
    printable(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Prints text to standard output, without characters that control a terminal; a closed reader is
/// not an error.
///
/// # Errors
/// The text cannot be written.
pub fn print(text: &str) -> io::Result<()> {
    unless_closed(writeln!(io::stdout(), "{}", printable(text.trim_end())))
}

/// Prints a line for people to standard error, without characters that control a terminal.
///
/// # Errors
/// The line cannot be written.
pub fn note(text: &str) -> io::Result<()> {
    unless_closed(writeln!(io::stderr(), "{}", printable(text)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_changes_nothing_around_it() {
        for (text, printed, line) in [
            ("lamp", "lamp", "lamp"),
            ("开灯\tnow", "开灯\tnow", "开灯 now"),
            ("one\r\n two", "one\n two", "one two"),
            ("safe\x1b[2K\r", "safe[2K", "safe[2K"),
            ("a\u{9b}2Kb\u{7}\u{8}\u{0}", "a2Kb", "a2Kb"),
            ("\u{202e}txt.\u{2066}exe", "txt.exe", "txt.exe"),
            ("👩\u{200d}🚀 שלום", "👩\u{200d}🚀 שלום", "👩\u{200d}🚀 שלום"),
        ] {
            assert_eq!(
                (printable(text), one_line(text)),
                (printed.into(), line.into()),
                "{text:?}"
            );
        }
    }
}
