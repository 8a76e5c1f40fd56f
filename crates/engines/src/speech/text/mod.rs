//! Text processing for synthesis and recognition: splitting by script and clause, numbers as words,
//! simplified characters, repeats. Pure functions; no engines.

pub mod clauses;
pub mod cleanup;
pub mod normalise_zh;
mod numerals;
pub mod script;
mod units;
