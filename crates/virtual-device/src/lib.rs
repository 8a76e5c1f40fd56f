//! A firmware-faithful virtual device: used by `replay`, by load generation and by tests. Knows
//! nothing of the server but the words on the wire.
//!
//! Reading order: [`firmware`] (the rules), [`profile`] (what versions do differently), [`virtual_device`]
//! (a device to be driven in any time), [`socket`] (the same on a real socket), [`script`] (what a
//! person does with it), [`report`] and [`observer`] (what they heard), [`expectations`] (whether it was
//! what a recording expects).

pub mod boot;
#[cfg(test)]
mod boot_rules;
pub mod clock;
pub mod dtx;
pub mod events;
pub mod expectations;
pub mod firmware;
#[cfg(test)]
mod firmware_rules;
#[cfg(test)]
mod firmware_versions;
mod iot;
pub mod load;
mod mcp;
#[cfg(test)]
mod mcp_rules;
mod messages;
pub mod observer;
pub mod ogg;
mod outbox;
mod playback;
pub mod profile;
pub mod report;
pub mod script;
pub mod socket;
#[cfg(test)]
mod socket_rules;
pub mod sound;
pub mod text_similarity;
mod tool_server;
pub mod toolbox;
mod uplink;
pub mod upload;
mod user_actions;
pub mod virtual_device;

pub use playback::packet_length;
