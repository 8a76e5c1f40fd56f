//! Layers in front of all routes: TLS, origins, limits, request ids and host names. Not for the
//! answers of routes.

mod bodies;
mod handshakes;
mod kept_connections;
mod rules;
mod shares;
mod tls;
