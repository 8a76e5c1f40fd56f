//! The server: configuration, HTTP, access control, commands, and the composition of all crates.
//!
//! Reading order: [`config`], [`app`], [`http`], [`auth`], [`admin`], [`commands`].

pub mod admin;
pub mod app;
pub mod auth;
pub mod commands;
pub mod config;
pub mod engines;
pub mod history;
pub mod http;
pub mod liveness;
pub mod recorder;
mod self_signed;
pub mod service_manager;
pub mod service_tests;
pub mod telemetry;
pub mod tls;
pub mod trace_export;
pub mod turn_json;
pub mod usage;
pub mod words;
