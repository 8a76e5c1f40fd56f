//! Measures turn-taking: how soon a policy answers, and how often it cuts people off. Recorded
//! speech passes through the real actors of a connection in virtual time. Not part of the server:
//! nothing depends on it.
//!
//! Reading order: [`score`] (the metric), [`manifest`] (the recordings), [`policy`] (the settings
//! that are compared), [`device`] (from recording to server), [`latency`], [`detector`],
//! [`speech`], [`run`], [`report`]; independent of these: [`echo`] and [`speakers`].

pub mod acted;
pub mod detector;
pub mod device;
pub mod echo;
pub mod interruptions;
pub mod latency;
pub mod listen;
pub mod manifest;
pub mod policy;
pub mod report;
pub mod run;
pub mod score;
pub mod speakers;
pub mod speech;
