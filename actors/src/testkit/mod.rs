//! In-memory pipeline for tests in virtual time; never linked by the server. The socket is the real
//! actor on real WebSocket bytes, only without a network.

pub mod paths;
pub mod pipeline;

pub use pipeline::TestPipeline;
