//! Virtual device of the xiaozhi protocol, and replay of recorded sessions: record a session once,
//! and use it in every test of a server.
//!
//! # Replay a recording in a test
//! A recording is a file of JSON lines that `hearken serve --record DIR` writes, or that `hearken
//! convert` creates from speech; [`Recording::load`] also accepts WAV and Ogg Opus files of a
//! person speaking. Its expectations are in its header, in the test, or in both:
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
//! An expectation that does not hold is an [`UnmetExpectations`], which contains the observed values and the
//! timeline. A replay that cannot run is a [`ReplayError`]. Test suites in other languages run
//! `hearken replay FILE --expect --json`; `docs/replay-json.md` describes its output and exit
//! status.
//!
//! # Drive a device directly
//! [`Device`] is a device on a real socket: a person presses its button ([`Event`]), speaks
//! ([`Sound::packets`]) and waits ([`Device::run_until`]); `examples/device.rs` does so in 40
//! lines. [`virtual_device::VirtualDevice`] is the same without a socket and with any clock, for
//! simulations.
//!
//! # Dependencies
//! It depends on no server: it implements the device protocol, and works with any server of it. Of
//! this repository's crates it uses `hearken-proto` (messages and the format of recordings),
//! `hearken-actors` for its Opus codec, resampler and PCM functions only, and `hearken-base` for
//! the choice of a TLS implementation and for closing WebSockets. It needs a tokio runtime with IO
//! and time.
//!
//! Reading order: [`recording`], [`replay`], [`session`] and [`expectations`] (the API above),
//! [`firmware`] (the rules), [`profile`] (differences between versions), [`mod@virtual_device`] (a
//! device with any clock), [`socket`] (the same on a real socket), [`script`] (actions of a
//! person), [`report`] and [`observer`] (observations).

pub mod boot;
pub mod clock;
pub mod dice;
pub mod dtx;
pub mod endpoint_options;
pub mod events;
pub mod expectations;
pub mod firmware;
mod iot;
mod mcp;
pub mod network;
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
mod tool;
mod tool_server;
pub mod toolbox;
mod uplink;
pub mod upload;
mod user_actions;
pub mod virtual_device;

pub use endpoint_options::EndpointOptions;
pub use events::Event;
pub use expectations::{ExpectationResult, Expectations, UnmetExpectations};
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
