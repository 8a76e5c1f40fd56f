//! The whole socket of a device, through all its actors and in virtual time. An input consists of
//! steps: a byte for the kind, two bytes for the length, and the content.
//!
//! For any input, the device receives audio only between `tts start` and `tts stop`, and nothing
//! after a close frame; once it has disconnected, no actor is left.

use std::time::Duration;

use actix::{System, SystemRunner};
use bytes::Bytes;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_socket::testkit::{Down, Received};

/// Maximum number of steps of an input.
const MAX_STEPS: usize = 40;
/// Maximum wait of one step.
const MAX_WAIT_MS: u64 = 10_000;

thread_local! {
    /// Shared, as starting a system takes longer than most inputs.
    static SYSTEM: SystemRunner = System::with_tokio_rt(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime")
    });
}

/// One action of a device.
enum Step<'a> {
    Text(&'a str),
    Binary(&'a [u8]),
    /// Raw bytes, which may be no valid frame.
    Raw(&'a [u8]),
    Speak(u64),
    Wait(u64),
    /// Opens another socket and drops this one.
    Again,
}

fn steps(mut bytes: &[u8]) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    while let Some(([kind, low, high], rest)) = bytes.split_first_chunk() {
        let number = u16::from_le_bytes([*low, *high]);
        let (content, after) = rest.split_at(usize::from(number).min(rest.len()));
        let step = match kind % 8 {
            0 | 1 => std::str::from_utf8(content).map_or(Step::Binary(content), Step::Text),
            2 | 3 => Step::Binary(content),
            4 => Step::Raw(content),
            5 => Step::Speak(u64::from(number) % 2_000),
            6 => Step::Wait(u64::from(number) % MAX_WAIT_MS),
            _ => Step::Again,
        };
        bytes = if matches!(step, Step::Text(_) | Step::Binary(_) | Step::Raw(_)) { after } else { rest };
        steps.push(step);
    }
    steps.truncate(MAX_STEPS);
    steps
}

/// Runs one input.
///
/// # Panics
/// Panics if a property above is violated.
pub fn run(bytes: &[u8]) {
    SYSTEM.with(|system| system.block_on(play(steps(bytes))));
}

async fn play(steps: Vec<Step<'_>>) {
    let mut device = TestPipeline::connect(PipelineSettings::default());
    for step in steps {
        match step {
            Step::Text(text) => device.text(text),
            Step::Binary(bytes) => device.binary(Bytes::copy_from_slice(bytes)),
            Step::Raw(bytes) => device.raw(Bytes::copy_from_slice(bytes)),
            Step::Speak(ms) => {
                device.stream(sound::voice(ms)).await;
                device.stream(sound::silence(900)).await;
            }
            Step::Wait(ms) => device.pass(Duration::from_millis(ms)).await,
            Step::Again => {
                let next = device.again();
                check(&device.log);
                device.lose();
                device = next;
            }
        }
        // Lets the server read the message.
        device.pass(Duration::from_millis(1)).await;
    }
    device.lose();
    // Tool calls and turns end by their own timeouts.
    device.pass(Duration::from_secs(200)).await;
    assert!(device.is_deserted(), "actors outlived their connection: {:?}", device.names());
    check(&device.log);
}

/// Checks what a device received on one socket.
fn check(log: &[Down]) {
    let mut speaking = false;
    let mut closed = false;
    for down in log {
        assert!(!closed || down.what == Received::Gone, "{:?} after a close frame", down.what);
        match &down.what {
            Received::Audio(_) => assert!(speaking, "audio outside of `tts start` and `tts stop`"),
            Received::Closed(_) => closed = true,
            Received::Text(_) => match down.what.name().as_str() {
                "tts/start" => speaking = true,
                "tts/stop" => speaking = false,
                _ => {}
            },
            Received::Gone => {}
        }
    }
}
