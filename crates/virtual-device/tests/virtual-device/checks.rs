//! Acceptance checks of the device wire that depend on the reaction of a device. Those of the sent
//! messages alone are in `actors/tests/pipeline/checks.rs`.

use std::time::Duration;

use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;
use hearken_dialogue::testkit::TtsAct;
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_socket::testkit::{Down, Received};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::events::Event;
use hearken_virtual_device::firmware::Firmware;
use hearken_virtual_device::profile::{PROFILES, Profile};
use hearken_virtual_device::report::Report;
use hearken_virtual_device::virtual_device::VirtualDevice;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Messages of a server for a reply of this length, from its hello to a second after the end.
async fn reply_of(length: Duration, settings: PipelineSettings) -> Vec<Down> {
    let mut pipeline = TestPipeline::greeted(settings, 1).await;
    pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
    pipeline.script.says(TtsAct::Audio { length, first: ms(120), each: ms(10) });
    pipeline.stream(sound::voice(1_020)).await;
    pipeline.stream(sound::silence(900)).await;
    pipeline.until("tts/stop").await;
    pipeline.pass(ms(1_000)).await;
    let log = std::mem::take(&mut pipeline.log);
    pipeline.hang_up().await;
    log
}

/// The report of a device with this firmware that receives them.
fn heard_on(profile: &Profile, log: &[Down]) -> Report {
    let firmware = Firmware::new(profile.clone(), ListenMode::Auto, 1, &AudioParams::default());
    let mut bench = VirtualDevice::new(firmware, Report::default(), Drift::ppm(0));
    bench.at(ms(0), Event::Button);
    bench.at(ms(0), Event::SocketOpen);
    for down in log {
        let event = match &down.what {
            Received::Text(json) => Event::Text(json.to_string()),
            Received::Audio(opus) => Event::Binary(opus.clone()),
            Received::Closed(_) | Received::Gone => Event::SocketClosed,
        };
        while let Some(due) = bench.due().filter(|due| *due < down.at) {
            bench.at(due, Event::Nothing);
        }
        bench.at(down.at, event);
    }
    bench.at(log.last().unwrap().at + ms(5_000), Event::Nothing);
    bench.into_observer()
}

#[actix::test]
async fn check_12_no_packet_of_a_minute_is_lost_or_late_on_any_firmware() {
    tokio::time::pause();
    for packet in [ms(60), ms(20)] {
        let mut settings = PipelineSettings::default();
        settings.speaking.packet = packet;
        let log = reply_of(Duration::from_secs(60), settings).await;
        let count = 60_000 / usize::try_from(packet.as_millis()).unwrap();
        for profile in &PROFILES {
            let packets = heard_on(profile, &log).packets();
            let name = profile.name;
            assert_eq!(packets.played, count, "{name} at {packet:?}: {packets:?}");
            assert_eq!((packets.late, packets.cut), (0, 0), "{name} at {packet:?}");
            assert!(packets.lost.is_empty(), "{name} at {packet:?}: {packets:?}");
        }
        // A smaller queue drops packets: the check can fail.
        let tiny = Profile { decode_queue_packets: 1, ..Profile::default() };
        assert!(!heard_on(&tiny, &log).packets().lost.is_empty());
    }
}

#[actix::test]
async fn check_13_tts_stop_is_sent_soon_after_everything_was_played() {
    tokio::time::pause();
    let log = reply_of(ms(4_700), PipelineSettings::default()).await;
    for profile in &PROFILES {
        let report = heard_on(profile, &log);
        let packets = report.packets();
        assert_eq!((packets.cut, packets.lost.len()), (0, 0), "{}: {packets:?}", profile.name);
        let (at, _, length) = report.heard().last().unwrap();
        let stop = report.messages("tts stop").next().unwrap().0;
        let after = stop.checked_sub(at + length);
        assert!(after.is_some_and(|t| t <= ms(300)), "{}: {after:?}", profile.name);
    }
    // If `tts stop` came without a margin, old firmware would lose the tail: the check can fail.
    let mut hasty = log;
    let stop = hasty.iter().position(|d| d.what.name() == "tts/stop").unwrap();
    hasty[stop].at -= ms(200);
    let oldest = heard_on(&PROFILES[0], &hasty).packets();
    assert!(oldest.cut + oldest.lost.len() > 0, "{oldest:?}");
}
