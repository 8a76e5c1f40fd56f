//! An acceptance check of the device wire with a whole server and a virtual device. Other checks
//! are next to the code that they are about. The numbers are those of the list of 25 checks that
//! `tests/repository/acceptance.rs` requires to be complete.

use std::time::Duration;

use hearken_proto::device::ListenMode;
use hearken_virtual_device::events::Fact;
use hearken_virtual_device::packet_length;

use crate::server::person::Person;
use crate::server::voices::SPEECH;
use crate::support::app::{TestServer, Vendors};

/// The highest sample rate that the bandwidth of an Opus packet needs (RFC 6716, section 3.1).
fn rate_of(opus: &[u8]) -> u32 {
    match opus[0] >> 3 {
        0..=3 | 16..=19 => 8_000,
        4..=7 => 12_000,
        8..=11 | 20..=23 => 16_000,
        12 | 13 | 24..=27 => 24_000,
        _ => 48_000,
    }
}

#[tokio::test]
async fn check_06_the_hello_describes_the_audio_that_is_sent() {
    let vendors = Vendors::start().await;
    for (rate_hz, packet_ms) in [(16_000, 20), (16_000, 60), (24_000, 40), (0, 60)] {
        let server = TestServer::start(&vendors, |config| {
            config.speaking.sample_rate_hz = rate_hz;
            config.speaking.packet = Duration::from_millis(packet_ms);
        })
        .await;
        let mut person = Person::meet(&server.device_url(), 1, ListenMode::Auto).await;
        person.say(&SPEECH).await;
        person.answer().await;
        let report = person.report();
        let hello = report.facts().find_map(|(at, fact)| match fact {
            Fact::Hello(audio) => Some((at, audio.clone())),
            _ => None,
        });
        let (at, audio) = hello.expect("a hello came");
        assert!(at < Duration::from_secs(8), "the hello took {at:?}");
        assert_eq!(u64::from(audio.frame_duration), packet_ms);
        assert_eq!(audio.sample_rate, if rate_hz == 0 { 24_000 } else { rate_hz });
        for (_, opus, _) in report.heard() {
            assert_eq!(packet_length(opus), Some(Duration::from_millis(packet_ms)));
            assert!(rate_of(opus) <= audio.sample_rate, "{} Hz", rate_of(opus));
        }
        drop(person);
        server.stop().await;
    }
}
