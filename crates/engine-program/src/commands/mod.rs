//! One file per subcommand: arguments, calling one thing, printing. `models` is in
//! `hearken_engines`, because `hearken` has it, too.

pub(crate) mod llm;
pub(crate) mod speech;
