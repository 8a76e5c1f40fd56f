//! A device in 40 lines: it holds its button, plays the speech of a file (WAV, Ogg Opus or a
//! recording) to the server, and writes the reply to another file. The device has a lamp that the
//! model may switch.
//!
//! ```sh
//! cargo run --example device -- ws://127.0.0.1:9400/xiaozhi/v1/ SPEECH.wav REPLY.wav
//! ```
#![allow(clippy::print_stdout, reason = "it shows what was heard and answered")]

use std::time::Duration;

use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::sound::{self, PACKET, Side};
use hearken_virtual_device::{AudioParams, Device, Endpoint, Event, Firmware, ListenMode};
use hearken_virtual_device::{Recording, ScriptedTool, Toolbox};
use tokio::time::Instant;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, speech, reply] = &args[..] else {
        return Err("use: device URL SPEECH REPLY.wav".into());
    };
    let lamp = ScriptedTool::new("self.lamp.set", "Switches the lamp on or off.").boolean("on");
    let tools = Toolbox { scripted: vec![lamp], ..Toolbox::default() };
    let firmware =
        Firmware::new(Profile::default(), ListenMode::Manual, 1, &AudioParams::default());
    let mut device = Device::new(Endpoint::new(url), firmware.with_tools(tools));
    let soon = || Instant::now() + Duration::from_secs(30);

    device.handle(Event::TalkPressed).await?;
    device.run_until(soon(), |_, firmware| firmware.microphone_open()).await?;
    for packet in Recording::load(speech)?.sound(Side::Up)?.packets()? {
        device.handle(Event::Microphone(packet)).await?;
        device.run_until(Instant::now() + PACKET, |_, _| false).await?;
    }
    device.handle(Event::TalkReleased).await?;
    device.run_until(soon(), |report, _| report.messages("tts stop").next().is_some()).await?;
    device.run_until(soon(), |_, firmware| firmware.due().is_none()).await?;

    let report = device.into_report();
    println!("heard: {}\nanswered: {}", report.transcript(), report.reply());
    for call in report.calls() {
        println!("called: {} {}", call.name, serde_json::to_string(&call.arguments)?);
    }
    sound::write_wav(reply.as_ref(), &sound::heard(&report, 24_000)?)?;
    Ok(())
}
