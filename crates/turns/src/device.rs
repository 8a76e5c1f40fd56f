//! Sends a recording through a device and the network into the real actors of a connection, in
//! virtual time: Opus of the firmware's encoder, DTX, packets of 60 ms that arrive late. Scoring
//! the answers is in [`score`](crate::score) and [`latency`](crate::latency).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_dialogue::testkit::{AsrAct, LlmAct, Plan, TtsAct};
use hearken_ports::{Prompt, TurnDetector};
use hearken_virtual_device::sound::PACKET;
use tokio::time::Instant;

/// Shortest delay of a packet to the server.
pub(crate) const WAY: Duration = Duration::from_millis(20);
/// Delay of a model that never answers: only the end of the turn is measured.
const NEVER: Duration = Duration::from_secs(3_600);

/// Network between device and server.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// Longest additional delay of a packet. Most packets have little of it, one in twenty has all.
    pub jitter: Duration,
}

impl Network {
    /// Returns when each packet arrives, from the start of the recording. Packets stay in order.
    pub fn arrivals(&self, packets: usize, seed: u64) -> Vec<Duration> {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut last = Duration::ZERO;
        let mut at = Duration::ZERO;
        let mut arrival = || {
            at += PACKET;
            let share = match chance.u8(0..20) {
                0 => 1.0,
                1..=4 => chance.f64(),
                _ => chance.f64() / 4.0,
            };
            last = last.max(at + WAY + self.jitter.mul_f64(share));
            last
        };
        (0..packets).map(|_| arrival()).collect()
    }
}

/// Simulated services, which recognise every utterance and answer it.
#[derive(Debug, Clone, Copy)]
pub struct Upstreams {
    /// Time from the end of the audio to the transcript.
    pub recogniser: Duration,
    /// Time from the prompt to the words.
    pub model: Duration,
    /// Time from the words to their sound.
    pub synthesiser: Duration,
    /// Lag of the recogniser's partial results behind the audio; `None` without partial results.
    pub partials: Option<Duration>,
}

impl Upstreams {
    /// Recognises immediately and never answers: measures only when a turn counts as over.
    pub const PATIENT: Self = Self {
        recogniser: Duration::ZERO,
        model: NEVER,
        synthesiser: Duration::ZERO,
        partials: None,
    };
}

impl Plan for Upstreams {
    fn hears(&self) -> AsrAct {
        match self.partials {
            Some(lag) => AsrAct::Streaming { lag, finish: self.recogniser },
            None => AsrAct::Text("words", self.recogniser),
        }
    }

    fn heard(&self, _: &AsrAct) {}

    fn thinks(&self, _: &Prompt) -> LlmAct {
        LlmAct::Write(vec!["Yes."], self.model)
    }

    fn says(&self, _: &str) -> TtsAct {
        let length = Duration::from_millis(600);
        let each = Duration::ZERO;
        TtsAct::Audio { length, first: self.synthesiser, each }
    }
}

/// Result of a recording.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Times at which the device received a transcript, that is, at which a turn counted as over.
    pub told: Vec<Duration>,
    /// Times at which the packets of the reply arrived.
    pub audio: Vec<Duration>,
    /// Number of requested final transcripts.
    pub recognised: usize,
    /// Number of prompts to the model.
    pub asked: usize,
}

/// Sends the packets to a server with these settings and services. Times count from the start of
/// the recording.
pub fn play(
    settings: PipelineSettings,
    detector: Option<Arc<dyn TurnDetector>>,
    upstreams: Upstreams,
    packets: Vec<Bytes>,
    arrivals: Vec<Duration>,
) -> Seen {
    let has_model = !settings.turn_detection.model.is_empty();
    let clock = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime starts")
    };
    actix::System::with_tokio_rt(clock).block_on(async move {
        let mut pipeline = TestPipeline::greeted(settings, 1).await;
        *pipeline.script.plan.lock().expect("no panic while locked") = Some(Arc::new(upstreams));
        let detector = detector.filter(|_| has_model);
        *pipeline.script.turn_detector.lock().expect("no panic while locked") = detector;
        pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
        let epoch = Instant::now();
        let zero = pipeline.now();
        for (opus, at) in packets.into_iter().zip(arrivals) {
            while pipeline.next_by(epoch + at).await.is_some() {}
            pipeline.packet(opus);
        }
        pipeline.pass(PACKET).await;
        let times = |name: &str| {
            let of_it = pipeline.log.iter().filter(|down| down.what.name() == name);
            of_it.map(|down| down.at.saturating_sub(zero)).collect()
        };
        let script = &pipeline.script;
        Seen {
            told: times("stt"),
            audio: times("audio"),
            recognised: script.utterances.lock().expect("no panic while locked").len(),
            asked: script.prompts.lock().expect("no panic while locked").len(),
        }
    })
}

#[cfg(test)]
mod tests {
    use hearken_audio::sound;

    use super::*;

    #[test]
    fn packets_arrive_in_order_and_within_the_jitter() {
        let jitter = Duration::from_millis(100);
        let arrivals = Network { jitter }.arrivals(400, 7);
        assert!(arrivals.is_sorted());
        let late = |(n, at): (usize, &Duration)| *at - PACKET * (n as u32 + 1) - WAY;
        let lateness: Vec<_> = arrivals.iter().enumerate().map(late).collect();
        let most = lateness.iter().max().unwrap();
        assert!(*most == jitter, "{most:?}");
        assert!(lateness.iter().filter(|l| **l < jitter / 2).count() > 300);
        assert_eq!(arrivals, Network { jitter }.arrivals(400, 7));
    }

    #[test]
    fn an_answer_comes_after_each_long_silence() {
        let voice = sound::voice(1_200);
        let silence = sound::silence(1_500);
        let packets = [silence.clone(), voice.clone(), silence.clone(), voice, silence].concat();
        let arrivals = Network { jitter: Duration::ZERO }.arrivals(packets.len(), 1);
        let settings = PipelineSettings::default();
        let patient = Upstreams::PATIENT;
        let told = play(settings, None, patient, packets, arrivals).told;
        let [first, second] = told[..] else { panic!("{told:?}") };
        let expected = Duration::from_millis(1_500 + 1_200 + 700);
        assert!(first.abs_diff(expected) < Duration::from_millis(150), "{first:?}");
        let expected = expected + Duration::from_millis(2_700);
        assert!(second.abs_diff(expected) < Duration::from_millis(150), "{second:?}");
    }

    #[test]
    fn the_latency_of_a_reply_is_that_of_its_services() {
        let ms = Duration::from_millis;
        let packets = [sound::voice(1_200), sound::silence(2_500)].concat();
        let arrivals = Network { jitter: Duration::ZERO }.arrivals(packets.len(), 1);
        let upstreams =
            Upstreams { recogniser: ms(250), model: ms(350), synthesiser: ms(150), partials: None };
        for (tries, expected) in [(0, 700 + 750), (3, 200 + 750)] {
            let mut settings = PipelineSettings::default();
            settings.speculation.tries = tries;
            let seen = play(settings, None, upstreams, packets.clone(), arrivals.clone());
            let first = seen.audio[0] - ms(1_200);
            assert!(first.abs_diff(ms(expected)) < ms(150), "{tries}: {first:?}");
            assert_eq!((seen.told.len(), seen.recognised, seen.asked), (1, 1, 1));
        }
    }
}
