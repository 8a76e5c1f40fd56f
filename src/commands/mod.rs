//! One file per subcommand: arguments, calling one thing, printing. No behaviour.

pub mod convert;
pub mod replay;
