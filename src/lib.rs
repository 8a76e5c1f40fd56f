//! The outside of Hearken: configuration, HTTP, vendors, embedded engines, commands.
//!
//! Reading order: [`config`], [`app`], [`http`], [`providers`], [`tools`], then the engines [`speech`] and
//! [`llm`], and the virtual device [`emulator`].

pub mod admin;
pub mod app;
pub mod auth;
pub mod bus;
pub mod commands;
pub mod config;
pub mod doubles;
pub mod emulator;
pub mod engines;
pub mod http;
pub mod llm;
pub mod load;
pub mod models;
pub mod museum;
pub mod open_files;
mod priority;
pub mod providers;
pub mod recorder;
pub mod shutdown;
pub mod speech;
pub mod state;
pub mod state_server;
pub mod store;
pub mod supervise;
pub mod telemetry;
pub mod tls;
pub mod tools;
mod websocket;
