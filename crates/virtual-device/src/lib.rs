//! A virtual device of the xiaozhi protocol, and recorded sessions that it replays: record a session
//! once, and test a server with it for ever.
//!
//! # Replay a recording in a test
//! A recording is a file of JSON lines that `hearken serve --record DIR` writes, or that
//! `hearken convert` makes of speech; [`Recording::load`] also takes WAV and Ogg Opus files of a
//! person speaking. What is expected stands in its header, in the test, or in both:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use hearken_virtual_device::{Expectations, Recording, ScriptedTool, Toolbox};
//!
//! // Below `#[tokio::test]` in a test.
//! async fn the_lamp_is_switched_on() -> Result<(), Box<dyn std::error::Error>> {
//!     let lamp = ScriptedTool::new("self.lamp.set", "Switches the lamp on or off.")
//!         .boolean("on")
//!         .answers("true");
//!     let session = Recording::load("tests/switch_on_the_lamp.jsonl")?
//!         .replay("ws://127.0.0.1:9400/xiaozhi/v1/")
//!         .token("secret")
//!         .tools(Toolbox { scripted: vec![lamp], ..Toolbox::default() })
//!         .answer_within(Duration::from_secs(20))
//!         .await?;
//!     session.expect(
//!         Expectations::new()
//!             .transcript("switch on the lamp", 0.2)
//!             .called("self.lamp.set", [("on", true)])
//!             .reply_contains("on")
//!             .audio(Duration::from_millis(500)..=Duration::from_secs(20))
//!             .no_faults(),
//!     )?;
//!     hearken_virtual_device::sound::write_wav("reply.wav".as_ref(), session.heard())?;
//!     Ok(())
//! }
//! ```
//!
//! An expectation that does not hold is an [`Unmet`], which tells what was found instead and
//! everything that happened with its time. A replay that cannot run at all is a [`ReplayError`].
//! Test suites in other languages run `hearken replay FILE --expect --json`, whose output and exit
//! status are described in `docs/replay-json.md`.
//!
//! # Drive a device by hand
//! [`Device`] is a device on a real socket: a person presses its button ([`Event`]), speaks
//! ([`Sound::packets`]) and waits ([`Device::live_until`]); `examples/device.rs` does so in 40
//! lines. [`virtual_device::VirtualDevice`] is the same without a socket and in any time, for
//! simulations; [`load`] is many of them at once.
//!
//! # What it depends on
//! Nothing of a server: it knows the words on the wire alone, and works against any server of the
//! protocol. Of this repository's crates it uses `hearken-proto` (messages and the format of
//! recordings), `hearken-actors` for its Opus codec, resampler and PCM functions only, and
//! `hearken-base` for the choice of a TLS implementation and the end of WebSockets. It needs a
//! tokio runtime with IO and time.
//!
//! Reading order: [`recording`], [`replay`], [`session`] and [`expectations`] (the API above),
//! [`firmware`] (the rules), [`profile`] (what versions do differently), [`mod@virtual_device`] (a
//! device to be driven in any time), [`socket`] (the same on a real socket), [`script`] (what a
//! person does with it), [`report`] and [`observer`] (what they heard).

pub mod boot;
pub mod clock;
pub mod dtx;
pub mod endpoint_options;
pub mod events;
pub mod expectations;
pub mod firmware;
mod iot;
pub mod load;
mod mcp;
mod messages;
pub mod observer;
pub mod ogg;
mod outbox;
mod playback;
pub mod profile;
pub mod read_back;
pub mod recording;
pub mod replay;
pub mod report;
pub mod script;
mod scripted_tool;
pub mod session;
pub mod socket;
pub mod sound;
pub mod summary;
pub mod text_similarity;
pub mod timeline;
mod tool_server;
pub mod toolbox;
mod uplink;
pub mod upload;
mod user_actions;
pub mod virtual_device;

pub use endpoint_options::EndpointOptions;
pub use events::Event;
pub use expectations::{ExpectationResult, Expectations, Unmet};
pub use firmware::Firmware;
pub use hearken_proto::device::{AudioParams, ListenMode};
pub use hearken_proto::recording::{Expect, ExpectedCall, Header};
pub use playback::packet_length;
pub use recording::{LoadError, Recording};
pub use replay::{Replay, ReplayError};
pub use scripted_tool::ScriptedTool;
pub use session::Session;
pub use socket::{Device, Endpoint};
pub use sound::Sound;
pub use toolbox::Toolbox;
