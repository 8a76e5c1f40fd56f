//! Cluster coordination over Redis: events, presence, remote procedure calls, locks, rate limits
//! and a cache. Without Redis, or while it is lost, each instance works alone. Not for the meaning
//! of an event, nor for the content of a call.
//!
//! Reading order: [`Cluster`], which combines the rest; `shared`, the connection to Redis and its
//! state; `events`; `locks`; `rpc`; `presence`, the location of devices by instance;
//! `remote_tool_clients`, tool clients of other instances; `limit` and `cache`. `local` has the
//! events and locks of a single instance, `rate_limit` its rate limit.

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
pub use shared::{OpenStream, RedisStream, RedisUnavailable, Shared};
