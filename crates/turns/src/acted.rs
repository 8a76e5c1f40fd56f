//! Simulates one conversation in virtual time: a recorded question, an emulated device, the real
//! actors of its connection, and a sound over the reply. Records with timestamps what the server
//! sent and the device played. Drawing the scene and judging the result are elsewhere.

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

/// Deadline for the device to start listening.
const CONNECTED: Duration = Duration::from_secs(3);
/// Deadline for the first sound of the reply.
const ANSWERED: Duration = Duration::from_secs(20);
/// The conversation is over after this much quiet.
const OVER: Duration = Duration::from_secs(3);
/// Time limit of a conversation.
const LONGEST: Duration = Duration::from_secs(150);

/// Sound at a microphone, 16 kHz mono.
#[derive(Debug, Clone, Default)]
pub struct Sound {
    /// Its samples.
    pub samples: Arc<[i16]>,
    /// Start and end of the voice in it.
    pub voice: Stretch,
    /// Words that the recogniser returns for it.
    pub words: &'static str,
}

/// Sentence of a reply, as written by the model and spoken by the synthesiser.
#[derive(Debug, Clone)]
pub struct Sentence {
    /// Its text.
    pub text: &'static str,
    /// Its audio, 16 kHz mono.
    pub sound: Arc<[i16]>,
}

/// Echo of a device that leaves echo cancellation to the server.
#[derive(Debug, Clone)]
pub struct Echo {
    /// The room, with its loudspeaker.
    pub(crate) room: Room,
    /// Gain of the reply from its own level to the level at the microphone.
    pub gain: f64,
    /// Words that the recogniser returns for an echo that is mistaken for a person.
    pub words: &'static str,
}

/// One conversation to simulate.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Firmware version.
    pub profile: Profile,
    /// Firmware build options.
    pub build: Build,
    /// Version of the binary framing.
    pub framing: u32,
    /// Network in both directions.
    pub network: Network,
    /// Services behind the server.
    pub upstreams: Upstreams,
    /// Level of the room noise, of 32,768.
    pub noise: f64,
    /// Echo of the replies, if any.
    pub echo: Option<Echo>,
    /// The user's question.
    pub question: Sound,
    /// Reply to the question.
    pub reply: Vec<Sentence>,
    /// Reply to anything else.
    pub other: Sentence,
    /// Sound over the reply, and its offset from the start of the reply.
    pub over: Option<(Duration, Sound)>,
    /// Seed of the network and the noise.
    pub seed: u64,
    /// True to record the audio of the microphone and the loudspeaker.
    pub keeps_sound: bool,
}

/// Plays the scene with these server settings.
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
    tracing::debug!(seed = scene.seed, "the conversation starts");
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

/// Plays a sound into the microphone from now on, and returns the span of the voice in it.
fn say(connection: &mut Connection, services: &Services, sound: &Sound) -> Stretch {
    let begun = connection.hear(Arc::clone(&sound.samples));
    let voice = begun + sound.voice.start..begun + sound.voice.end;
    services.said(Said { voice: voice.clone(), words: sound.words });
    voice
}
