//! Allocations of the hot paths once they run: none for the uplink, and one in many packets for the
//! downlink, since packets are slices of a larger block. libopus and libfvad allocate nothing after
//! their creation.

use std::time::Duration;

use actix::{Actor, AsyncContext as _, Context, Handler, WrapFuture as _};
use allocation_counter::measure;
use bytes::Bytes;
use hearken_actors::messages::{OpenUtterance, SpeechEnded, SpeechStarted, UplinkItem};
use hearken_actors::testkit::paths::{Downlink, Uplink};
use hearken_actors::turn_detection::{LearnedPauses, TurnDetection, TurnDetectionSettings};
use hearken_actors::vad::{UtteranceRules, VadActor, VadOutputs};
use hearken_audio::{HearingSettings, SpeakingSettings, sound};
use hearken_base::language::Language;
use hearken_dialogue::SpokenLanguage;
use hearken_dialogue::admission::{Admission, AdmissionSettings};
use hearken_dialogue::turn_factory::TurnFactory;
use hearken_proto::device::ListenMode;
use hearken_proto::ids::DeviceId;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Returns a recording without speech: the end of a recording in noise.
fn quiet() -> Vec<Bytes> {
    let noisy = sound::recorded("zh_trade_stalls_noisy");
    let room = &noisy[noisy.len() - 20..];
    room.iter().cycle().take(200).cloned().collect()
}

#[test]
fn listening_to_a_quiet_room_allocates_nothing() {
    let mut uplink = Uplink::default();
    let quiet = quiet();
    quiet.iter().for_each(|packet| assert_eq!(uplink.packet(packet), 0, "there is no speech"));
    let mut heard = 0;
    let spent = measure(|| heard = quiet.iter().map(|packet| uplink.packet(packet)).sum());
    assert_eq!((heard, spent.count_total), (0, 0));
}

#[test]
fn an_utterance_allocates_nothing_while_it_is_spoken() {
    let mut uplink = Uplink::default();
    let speech = sound::recorded("en_sorrow_with_pauses");
    // A channel has all its memory once each of its two blocks of 32 slots was used.
    let begun = speech.iter().position(|packet| uplink.packet(packet) > 0).unwrap();
    let (first, rest) = speech[begun + 1..].split_at(70);
    first.iter().for_each(|packet| assert!(uplink.packet(packet) > 0));
    let rest = &rest[..40];
    let spent = measure(|| rest.iter().for_each(|packet| assert!(uplink.packet(packet) > 0)));
    assert_eq!(spent.count_total, 0);
}

#[test]
fn speech_allocates_at_most_once_in_twenty_packets() {
    let sound = sound::decoded(&sound::recorded("en_sorrow_with_pauses"));
    for rate_hz in [16_000, 24_000] {
        let settings = SpeakingSettings::default().for_rate(Some(rate_hz));
        // Another sample rate, so that the sound is resampled.
        let mut downlink = Downlink::new(&settings, 22_050);
        let pieces: Vec<&[i16]> = sound.chunks_exact(1_323).collect();
        let mut bytes = 0;
        let mut say = || bytes += pieces.iter().map(|p| downlink.samples(p)).sum::<usize>();
        // Until the maximum number of packets waits.
        (0..2).for_each(|_| say());
        let spent = measure(&mut say);
        assert!(bytes > 0);
        let most = pieces.len() as u64 / 20;
        assert!(spent.count_total <= most, "{} in {} packets", spent.count_total, pieces.len());
        // Only the packets, and the unused ends of blocks.
        assert!(spent.bytes_total < 64 * 1_024, "{} bytes", spent.bytes_total);
    }
}

/// Reads the utterances and does nothing with them.
struct Reader;

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<OpenUtterance> for Reader {
    type Result = ();

    fn handle(&mut self, mut open: OpenUtterance, ctx: &mut Self::Context) {
        let read = async move { while open.audio.recv().await.is_some() {} };
        ctx.spawn(read.into_actor(self));
    }
}

impl Handler<SpeechStarted> for Reader {
    type Result = ();

    fn handle(&mut self, _: SpeechStarted, _: &mut Self::Context) {}
}

impl Handler<SpeechEnded> for Reader {
    type Result = ();

    fn handle(&mut self, _: SpeechEnded, _: &mut Self::Context) {}
}

#[test]
fn the_actor_allocates_nothing_beyond_its_parts() {
    let system = actix::System::new();
    let (lane, reader) = system.block_on(async {
        let (lane, packets) = mpsc::channel(64);
        let reader = Reader.start();
        let outputs = VadOutputs {
            started: reader.clone().recipient(),
            ended: reader.clone().recipient(),
            utterances: reader.clone().recipient(),
        };
        let turns = TurnFactory::new(CancellationToken::new());
        let hearing = HearingSettings::default();
        let turn_detection = TurnDetection::new(
            None,
            TurnDetectionSettings::default(),
            Admission::new(AdmissionSettings::default()),
            SpokenLanguage::new(Language::Chinese),
            DeviceId::new("device"),
            LearnedPauses::default(),
        );
        let rules = UtteranceRules { lane: 128, hearing, turn_detection, speculate_after: None };
        VadActor::new(packets, outputs, turns, rules).start();
        lane.send(UplinkItem::ListenStart(ListenMode::Auto)).await.unwrap();
        (lane, reader)
    });
    let send = |packets: &[Bytes]| {
        system.block_on(async {
            for packet in packets {
                lane.send(UplinkItem::Packet { opus: packet.clone(), played: 0 }).await.unwrap();
                tokio::task::yield_now().await;
            }
            while lane.capacity() < lane.max_capacity() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    };
    let speech = sound::recorded("en_sorrow_with_pauses");
    // The first clone of some bytes allocates their reference count; a socket's packets are clones
    // already.
    let also = speech.clone();
    send(&speech[..60]);
    let few = measure(|| send(&speech[60..70])).count_total;
    let many = measure(|| send(&speech[60..120])).count_total;
    // Channels grow by a block now and then; nothing is allocated per packet.
    assert!(many <= few + 5, "{many} in 60 packets, {few} in 10");
    drop((also, reader));
}
