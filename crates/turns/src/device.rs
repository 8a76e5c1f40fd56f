//! The way of a recording through a device and the network, into the real actors of a connection, in virtual time:
//! Opus of the firmware's encoder, DTX, packets of 60 ms that come late. Not for judging when the server answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_actors::ports::{Prompt, TurnDetector};
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::{AsrAct, LlmAct, Plan, TestPipeline, TtsAct};
use hearken_virtual_device::sound::PACKET;
use tokio::time::Instant;

/// Shortest way of a packet to the server.
const WAY: Duration = Duration::from_millis(20);
/// Nothing answers in this time: what is looked for is when a turn is taken to be over.
const NEVER: Duration = Duration::from_secs(3_600);

/// Network between device and server.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    /// Longest additional delay of a packet. Most have little of it, one in twenty all.
    pub jitter: Duration,
}

impl Network {
    /// Returns when each packet arrives, from the start of the recording. They stay in order.
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

/// Recogniser that understands everything at once, before a model that never answers.
struct Patient;

impl Plan for Patient {
    fn hears(&self) -> AsrAct {
        AsrAct::Text("words", Duration::ZERO)
    }

    fn heard(&self, _: &AsrAct) {}

    fn thinks(&self, _: &Prompt) -> LlmAct {
        LlmAct::Write(vec!["Yes."], NEVER)
    }

    fn says(&self, _: &str) -> TtsAct {
        TtsAct::Pieces(Vec::new())
    }
}

/// Sends the packets to a server with these settings. Returns when it took the turn to be over: each time at which it
/// told the device what it understood.
pub fn answers(
    settings: PipelineSettings,
    detector: Option<Arc<dyn TurnDetector>>,
    packets: Vec<Bytes>,
    arrivals: Vec<Duration>,
) -> Vec<Duration> {
    let has_model = !settings.turn_detection.model.is_empty();
    let clock = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().expect("a runtime starts")
    };
    actix::System::with_tokio_rt(clock).block_on(async move {
        let mut pipeline = TestPipeline::greeted(settings, 1).await;
        *pipeline.script.plan.lock().expect("nobody panics with it") = Some(Arc::new(Patient));
        let detector = detector.filter(|_| has_model);
        *pipeline.script.turn_detector.lock().expect("nobody panics with it") = detector;
        pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
        let (epoch, zero) = (Instant::now(), pipeline.now());
        for (opus, at) in packets.into_iter().zip(arrivals) {
            while pipeline.next_by(epoch + at).await.is_some() {}
            pipeline.packet(opus);
        }
        pipeline.pass(PACKET).await;
        let told = pipeline.log.iter().filter(|down| down.what.name() == "stt");
        told.map(|down| down.at.saturating_sub(zero)).collect()
    })
}

#[cfg(test)]
mod tests {
    use hearken_actors::testkit::sound;

    use super::*;

    #[test]
    fn packets_arrive_in_order_and_late_at_times() {
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
        let (voice, silence) = (sound::voice(1_200), sound::silence(1_500));
        let packets = [silence.clone(), voice.clone(), silence.clone(), voice, silence].concat();
        let arrivals = Network { jitter: Duration::ZERO }.arrivals(packets.len(), 1);
        let answers = answers(PipelineSettings::default(), None, packets, arrivals);
        let [first, second] = answers[..] else { panic!("{answers:?}") };
        let expected = Duration::from_millis(1_500 + 1_200 + 700);
        assert!(first.abs_diff(expected) < Duration::from_millis(150), "{first:?}");
        let expected = expected + Duration::from_millis(2_700);
        assert!(second.abs_diff(expected) < Duration::from_millis(150), "{second:?}");
    }
}
