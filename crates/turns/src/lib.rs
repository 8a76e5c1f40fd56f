//! Scores of turn-taking: when does a policy answer, and whom does it cut off? Recorded speech goes through the
//! real actors of a connection in virtual time. Not part of the server: nothing depends on it.
//!
//! Reading order: [`score`] (the metric), [`manifest`] (what is scored), [`policy`] (what is compared), [`device`]
//! (the way of the sound), [`latency`], [`detector`], [`speech`], [`run`], [`report`]; apart from these, [`echo`] and [`speakers`].

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
