//! What instances of the server tell each other: events, who holds what, and questions. With a
//! Redis between them they know of each other; without one, or while it is lost, each goes on
//! alone. Not for what an event means, nor for what is asked.
//!
//! Reading order: [`Fleet`], which holds the rest; `shared` is Redis and whether it is there;
//! `events`, `locks`, `rpc` (questions), `presence` (who holds what), `tool_clients` (tool clients
//! elsewhere), `limit` and `cache`. `local` is each
//! of them alone.

mod cache;
mod cluster;
mod config;
mod events;
mod limit;
mod local;
mod locks;
mod presence;
mod rate_limit;
mod remote_tool_clients;
mod rpc;
mod shared;
mod task_group;

pub use cache::SharedCache;
pub use cluster::{Cluster, ClusterError, OrderHandler, RedisState};
pub use config::RedisConfig;
pub use events::RedisBus;
pub use local::{LocalBus, LocalLocks};
pub use locks::RedisLocks;
pub use rate_limit::{LocalLimit, RateLimit};
pub use shared::{RedisUnavailable, Shared};
