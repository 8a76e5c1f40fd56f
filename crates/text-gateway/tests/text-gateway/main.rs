//! Text clients in virtual time, on scripted ports. Not for real engines or sockets.

mod consent_of_text_clients;
mod text_after;
mod text_clients;
mod text_copies;
mod text_sessions;
mod text_uses;

pub(crate) use hearken_dialogue::testkit::{freeze, ms};
