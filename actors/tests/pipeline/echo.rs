//! Echo of a device that leaves it to the server, and of one that does not cancel it: its own reply
//! does not interrupt it, but a person does. Not for the quality of cancellation, which
//! `scripts/turns echo` measures.

#![allow(clippy::unwrap_used, reason = "a test that fails here should say where")]

use std::collections::VecDeque;
use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::opus::{Decoder, Encoder};
use hearken_audio::sound;
use hearken_dialogue::testkit::{AsrAct, LlmAct, TtsAct};
use hearken_proto::device::Framing;
use hearken_socket::testkit::Received;
use tokio::time::Instant;

use crate::{freeze, ms, next_turn_works, shown, start};

const PACKET: usize = 960;
/// Samples of delay from the loudspeaker to the microphone, with the device's own buffers.
const WAY: usize = 1_600;

/// Device whose microphone hears its loudspeaker at half its level.
struct Echoing {
    pipeline: TestPipeline,
    speaker: Decoder,
    microphone: Encoder,
    /// Playback from the first packet, and the time of that packet.
    played: Vec<i16>,
    begun: Option<Duration>,
    /// Stamps of packets, and the times at which they have been played.
    stamps: VecDeque<(Duration, u32)>,
    now: Duration,
}

impl Echoing {
    async fn connect(features: &str, guarded: bool) -> Self {
        freeze();
        let mut settings = PipelineSettings::default();
        settings.hearing.guard_echo = guarded;
        let mut pipeline = TestPipeline::connect(settings);
        pipeline.greet_with(2, features).await;
        start(&pipeline, "realtime");
        let now = pipeline.now();
        Self {
            pipeline,
            speaker: Decoder::new(16_000).unwrap(),
            microphone: Encoder::new(16_000, 24_000, 0).unwrap(),
            played: Vec::new(),
            begun: None,
            stamps: VecDeque::new(),
            now,
        }
    }

    fn take(&mut self, at: Duration, frame: &bytes::Bytes) {
        let packet = Framing::V2.decode(frame).unwrap();
        let begun = *self.begun.get_or_insert(at);
        let from = samples(at - begun).max(self.played.len());
        self.played.resize(from, 0);
        self.speaker.decode(&packet.opus, &mut self.played).unwrap();
        let end = begun + Duration::from_micros(self.played.len() as u64 * 1_000 / 16);
        self.stamps.push_back((end, packet.timestamp_ms));
    }

    /// Lets 60 ms pass; `person` is spoken meanwhile.
    async fn tick(&mut self, person: &[i16]) {
        self.now += ms(60);
        let deadline = Instant::now() + (self.now - self.pipeline.now());
        while let Some(down) = self.pipeline.next_by(deadline).await {
            if let Received::Audio(frame) = &down.what {
                self.take(down.at, frame);
            }
        }
        let until = self.begun.map_or(0, |begun| samples(self.now - begun));
        let heard = |n: usize| {
            let at = (until + n).checked_sub(PACKET + WAY);
            let echo = at.and_then(|at| self.played.get(at)).map_or(0, |sample| sample / 2);
            echo.saturating_add(person.get(n).copied().unwrap_or_default())
        };
        let sound: Vec<i16> = (0..PACKET).map(heard).collect();
        let ended = self.stamps.pop_front_if(|(end, _)| *end <= self.now);
        let stamp = ended.map_or(0, |(_, stamp)| stamp);
        self.pipeline.packet_played(self.microphone.encode(&sound).unwrap(), stamp);
    }

    /// Lets a person speak, followed by this silence.
    async fn hear(&mut self, person: &[i16], silence: Duration) {
        for part in person.chunks(PACKET) {
            self.tick(part).await;
        }
        for _ in 0..silence.as_millis() / 60 {
            self.tick(&[]).await;
        }
    }
}

fn samples(time: Duration) -> usize {
    usize::try_from(time.as_millis()).unwrap() * 16
}

/// Asks something, and gets four sentences of recorded speech.
async fn told(features: &str, guarded: bool) -> Echoing {
    let mut device = Echoing::connect(features, guarded).await;
    device.pipeline.script.hears(AsrAct::Text("Tell me.", ms(10)));
    device.pipeline.script.thinks(LlmAct::Write(vec!["One. ", "Two. ", "Three. ", "Four."], ms(5)));
    for name in ["zh_trade_stalls", "zh_guangzhou_housing", "zh_trade_stalls", "zh_own_foot"] {
        let speech = sound::decoded(&sound::recorded(name));
        device.pipeline.script.says(TtsAct::Recorded(speech, ms(50)));
    }
    let question = sound::decoded(&sound::voice(900));
    device.hear(&question, ms(900)).await;
    device
}

fn utterances(device: &Echoing) -> usize {
    device.pipeline.script.utterances.lock().unwrap().len()
}

/// Lets the reply play to its end, which its echo must not interrupt.
async fn plays_to_its_end(mut device: Echoing) {
    device.hear(&[], ms(30_000)).await;
    assert_eq!(shown(&device.pipeline), ["One.", "Two.", "Three.", "Four."]);
    assert_eq!(utterances(&device), 1);
    assert!(device.pipeline.names().contains(&"tts/stop".into()));
}

/// Interrupts the reply.
async fn is_interrupted(mut device: Echoing) {
    device.hear(&[], ms(8_000)).await;
    assert_eq!(utterances(&device), 1);
    device.pipeline.script.hears(AsrAct::Text("Stop.", ms(10)));
    let person = sound::decoded(&sound::recorded("en_go_forward"));
    let quarter: Vec<i16> = person.iter().map(|sample| sample / 2).collect();
    device.hear(&quarter, ms(2_000)).await;
    assert_eq!(
        device.pipeline.log.iter().rfind(|d| d.what.name() == "stt").unwrap().what.text(),
        "Stop."
    );
    assert!(device.pipeline.names().contains(&"tts/stop".into()));
    let mut pipeline = device.pipeline;
    next_turn_works(&mut pipeline).await;
    pipeline.hang_up().await;
}

#[actix::test]
async fn a_device_that_leaves_its_echo_to_the_server_does_not_interrupt_itself() {
    plays_to_its_end(told(r#"{"aec":true}"#, true).await).await;
    plays_to_its_end(told(r#"{"aec":true}"#, false).await).await;
}

#[actix::test]
async fn a_device_without_playback_reports_does_not_interrupt_itself_with_the_guard() {
    plays_to_its_end(told("{}", true).await).await;
    let mut device = told("{}", false).await;
    device.hear(&[], ms(30_000)).await;
    assert!(utterances(&device) > 1, "its echo counts as voice");
}

#[actix::test]
async fn a_person_can_interrupt_the_reply_and_the_next_turn_works() {
    is_interrupted(told(r#"{"aec":true}"#, true).await).await;
    is_interrupted(told("{}", true).await).await;
}

#[actix::test]
async fn words_after_a_reply_do_not_count_as_its_echo() {
    freeze();
    let mut heard = Vec::new();
    for features in [r#"{"aec":true}"#, "{}"] {
        let mut pipeline = TestPipeline::connect(PipelineSettings::default());
        pipeline.greet_with(2, features).await;
        for _ in 0..2 {
            next_turn_works(&mut pipeline).await;
        }
        heard.push(pipeline.script.utterances.lock().unwrap().clone());
        pipeline.hang_up().await;
    }
    assert_eq!(heard[0], heard[1]);
}
