//! A conversation in virtual time: a person asks with a recording, a device that is emulated hears it, the real actors
//! of its connection answer, and something is heard over the reply. What the server sent and the device played is
//! kept with its times. Not for choosing what happens, nor for judging it.

mod connection;
mod log;
mod microphone;
mod services;
pub(crate) mod timeline;

use std::sync::Arc;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_audio::pcm;
use hearken_ports::TurnDetector;
use hearken_virtual_device::dice::Dice;
use hearken_virtual_device::firmware::{DeviceState, Event};
use hearken_virtual_device::profile::{Build, Profile};
use hearken_virtual_device::sound::UPLINK_RATE_HZ;

use self::connection::Connection;
use self::services::{Said, Services};
use crate::device::{Network, Upstreams};
use crate::echo::room::Room;
use crate::manifest::Stretch;

pub use self::log::{Played, Seen, Sent, Tag};

/// The device listens by then.
const CONNECTED: Duration = Duration::from_secs(3);
/// A reply has begun by then, or none comes.
const ANSWERED: Duration = Duration::from_secs(20);
/// All is over when nothing more has happened for this long.
const OVER: Duration = Duration::from_secs(3);
/// A conversation is given up after this.
const LONGEST: Duration = Duration::from_secs(150);

/// A sound that a microphone hears, 16 kHz mono.
#[derive(Debug, Clone, Default)]
pub struct Sound {
    /// Its samples.
    pub samples: Arc<[i16]>,
    /// From the beginning to the end of the voice in it.
    pub voice: Stretch,
    /// Words that the recogniser understands of it.
    pub words: &'static str,
}

/// A sentence of a reply, as the model writes it and the synthesiser says it.
#[derive(Debug, Clone)]
pub struct Sentence {
    /// Its words.
    pub text: &'static str,
    /// Its sound, 16 kHz mono.
    pub sound: Arc<[i16]>,
}

/// Echo of a device that leaves it to the server.
#[derive(Debug, Clone)]
pub struct Echo {
    /// The room, with its loudspeaker.
    pub(crate) room: Room,
    /// By how much the reply is weaker at the microphone than it was made.
    pub gain: f64,
    /// What the recogniser understands of an echo that is taken for a person.
    pub words: &'static str,
}

/// What happens.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Version of the firmware.
    pub profile: Profile,
    /// Build options of the firmware.
    pub build: Build,
    /// Version of the binary header.
    pub framing: u32,
    /// Network, both ways.
    pub network: Network,
    /// Services behind the server.
    pub upstreams: Upstreams,
    /// Level of the room's own noise, of 32,768.
    pub noise: f64,
    /// Echo of the replies, if there is any.
    pub echo: Option<Echo>,
    /// What the person asks.
    pub question: Sound,
    /// The answer to it.
    pub reply: Vec<Sentence>,
    /// The answer to all else.
    pub other: Sentence,
    /// What is heard over the reply, and after how much of it.
    pub over: Option<(Duration, Sound)>,
    /// Chance of the network and of the noise.
    pub seed: u64,
    /// True if what was recorded and played is kept.
    pub keeps_sound: bool,
}

/// Lets it happen at a server with these settings.
pub fn play(
    scene: &Scene,
    settings: PipelineSettings,
    detector: Option<Arc<dyn TurnDetector>>,
) -> Seen {
    let clock = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime starts")
    };
    actix::System::with_tokio_rt(clock).block_on(converse(scene, settings, detector))
}

async fn converse(
    scene: &Scene,
    settings: PipelineSettings,
    detector: Option<Arc<dyn TurnDetector>>,
) -> Seen {
    tracing::debug!(seed = scene.seed, "the conversation begins");
    let detector = detector.filter(|_| !settings.turn_detection.model.is_empty());
    let mut dice = Dice::new(scene.seed);
    let services = Services::new(scene);
    let mut connection = Connection::new(scene, settings, services.ports(detector), &mut dice);
    connection.act(Event::Button);
    connection.until(CONNECTED, Connection::listens).await;
    connection.pass(dice.ms(300, 900)).await;
    let asked = say(&mut connection, &services, &scene.question);
    let deadline = connection.now() + ANSWERED;
    let answered = |c: &Connection| c.log().first_played().is_some();
    let answered = connection.until(deadline, answered).await;
    let mut over = None;
    if let Some((after, sound)) = scene.over.as_ref().filter(|_| answered) {
        connection.pass(*after).await;
        over = Some(say(&mut connection, &services, sound));
        connection.pass(pcm::duration(sound.samples.len(), UPLINK_RATE_HZ)).await;
    }
    let quiet = |c: &Connection| c.state() != DeviceState::Speaking && c.quiet_for() >= OVER;
    connection.until(LONGEST, quiet).await;
    connection.end(asked, over).await
}

/// Lets the microphone hear a sound from now on, and returns when the voice in it begins and ends.
fn say(connection: &mut Connection, services: &Services, sound: &Sound) -> Stretch {
    let begun = connection.hear(Arc::clone(&sound.samples));
    let voice = begun + sound.voice.start..begun + sound.voice.end;
    services.said(Said { voice: voice.clone(), words: sound.words });
    voice
}
