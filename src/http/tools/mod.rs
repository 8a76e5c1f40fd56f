//! Routes of tools outside devices, of tool servers and tokens, and of roles. Not for the tools themselves.

pub(crate) mod role_bodies;
pub(crate) mod roles;
pub(crate) mod tokens;
pub(crate) mod tool_bodies;
pub(crate) mod tool_servers;
pub(crate) mod tools_api;
