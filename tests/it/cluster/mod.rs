//! Several instances of the server: what they share, and what clients see when one, or the Redis
//! between them, is gone. Real Redis, PostgreSQL and nginx; skipped where there are none.

mod crossings;
mod cutting;
mod instances;
mod killed;
pub(crate) mod load;
mod text_cutting;
