//! Several instances of the server: what they share, and the effect on clients if one of them, or
//! Redis, is down. Uses real Redis, PostgreSQL and nginx; skipped if they are not available.

mod crossings;
mod cutting;
mod instances;
mod killed;
pub(crate) mod load;
mod text_cutting;
mod unfinished;
