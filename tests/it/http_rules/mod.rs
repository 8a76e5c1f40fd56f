//! What stands before the routes of the whole server: TLS, other sites' pages, limits, names of
//! requests and of addresses. Not for what a route answers.

mod bodies;
mod handshakes;
mod kept_connections;
mod rules;
mod shares;
mod tls;
