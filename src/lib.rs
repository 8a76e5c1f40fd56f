//! The outside of Hearken: configuration, HTTP, vendors, embedded engines, commands.
//!
//! Reading order: [`config`], [`app`], [`http`], [`providers`], [`tools`], then the engines [`speech`] and
//! [`llm`], and the virtual device [`emulator`].

pub mod admin;
pub mod app;
pub mod auth;
pub mod commands;
pub mod config;
pub mod engines;
pub mod http;
pub mod museum;
pub mod open_files;
pub mod recorder;
pub mod shutdown;
pub mod telemetry;
pub mod tls;
