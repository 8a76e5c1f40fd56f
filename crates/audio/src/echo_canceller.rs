//! Echo cancellation for devices that leave it to the server: removes the device's playback from
//! the microphone signal. The only file that uses `sonora_aec3`. Not for devices that cancel their
//! echo themselves.
//!
//! Such a device sends, with each microphone packet, the stamp of the packet that it has played (0
//! for none). The delay between a packet and its echo is therefore nearly constant, whatever the
//! network does.

use std::collections::VecDeque;

use sonora_aec3::block::Block;
use sonora_aec3::block_processor::BlockProcessor;
use sonora_aec3::common::BLOCK_SIZE as BLOCK;
use sonora_aec3::config::{EchoCanceller3Config, MaskingThresholds};

use super::voice_detector::SAMPLE_RATE_HZ;

/// Sample level at or above which the microphone counts as saturated.
const SATURATED: u16 = 32_700;
/// Maximum number of stored packets: more than a device queues and a network holds.
const KEPT: usize = 32;
/// Offset from the packet that the device reports as played to the packet that the canceller gets
/// next. By then the device already plays the following packet, and the canceller must get it
/// before the microphone does.
const AHEAD: usize = 2;
/// Time without playback after which new packets count as played only once the device reports them.
/// Until then they count without a report, because stamps get lost, one by one or for seconds.
const PAUSE: usize = SAMPLE_RATE_HZ as usize * 3 / 10;
/// Time for which a reply may still sound in the room, with all delays.
const REVERBERATION: usize = SAMPLE_RATE_HZ as usize / 2;

/// Echo canceller of one device.
pub struct EchoCanceller {
    processor: BlockProcessor,
    played: Block,
    microphone: Block,
    /// Sent packets, oldest first.
    sent: VecDeque<(u32, Vec<i16>)>,
    /// Position that the canceller reads next: index in `sent`, and index of a sample in that
    /// packet.
    next: (usize, usize),
    /// Microphone samples since something was last played.
    quiet: usize,
}

impl EchoCanceller {
    /// Creates the canceller of a device that has been sent nothing.
    pub fn new() -> Self {
        Self {
            processor: BlockProcessor::new(&config(), SAMPLE_RATE_HZ as usize, 1, 1),
            played: Block::new(1, 1),
            microphone: Block::new(1, 1),
            sent: VecDeque::with_capacity(KEPT),
            next: (0, 0),
            quiet: REVERBERATION,
        }
    }

    /// Adds the samples of a sent packet, with its stamp.
    pub fn play(&mut self, stamp: u32, sound: &[i16]) {
        let mut samples = if self.sent.len() >= KEPT {
            self.next.0 = self.next.0.saturating_sub(1);
            self.sent.pop_front().map(|(_, samples)| samples).unwrap_or_default()
        } else {
            Vec::new()
        };
        samples.clear();
        samples.extend_from_slice(sound);
        self.sent.push_back((stamp, samples));
    }

    /// Removes the echo from the samples of one microphone packet, given the stamp that came with
    /// it. Does nothing while nothing is played.
    pub fn cancel(&mut self, stamp: u32, sound: &mut [i16]) {
        self.follow(stamp);
        for microphone in sound.chunks_mut(BLOCK) {
            let mut played = [0; BLOCK];
            let plays = self.quiet < PAUSE && self.take(&mut played[..microphone.len()]);
            self.quiet = if plays { 0 } else { self.quiet.saturating_add(microphone.len()) };
            if self.quiet < REVERBERATION {
                self.block(&played, microphone);
            }
        }
    }

    /// Processes one block, or a shorter last part.
    fn block(&mut self, played: &[i16; BLOCK], microphone: &mut [i16]) {
        let saturated = microphone.iter().any(|sample| sample.unsigned_abs() >= SATURATED);
        for (block, samples) in self.played.view_mut(0, 0).iter_mut().zip(played) {
            *block = f32::from(*samples);
        }
        let block = self.microphone.view_mut(0, 0);
        block.fill(0.0);
        block.iter_mut().zip(&*microphone).for_each(|(block, sample)| *block = f32::from(*sample));
        self.processor.buffer_render(&self.played);
        self.processor.process_capture(false, saturated, None, &mut self.microphone);
        for (sample, left) in microphone.iter_mut().zip(self.microphone.view(0, 0)) {
            #[allow(clippy::cast_possible_truncation, reason = "clamped to samples")]
            let rounded = left.round().clamp(f32::from(i16::MIN), f32::from(i16::MAX)) as i16;
            *sample = rounded;
        }
    }

    /// Moves to the current playback position of the device.
    fn follow(&mut self, stamp: u32) {
        let reported = self.sent.iter().rposition(|(sent, _)| *sent == stamp);
        if let Some(place) = reported.filter(|_| stamp > 0) {
            self.next = (place + AHEAD, 0);
            self.quiet = 0;
        }
    }

    /// Takes the next samples that are played. Returns false if there are none.
    fn take(&mut self, out: &mut [i16]) -> bool {
        let mut taken = 0;
        while taken < out.len()
            && let Some((_, samples)) = self.sent.get(self.next.0)
        {
            let rest = samples.get(self.next.1..).unwrap_or_default();
            let count = rest.len().min(out.len() - taken);
            out[taken..taken + count].copy_from_slice(&rest[..count]);
            taken += count;
            self.next = if count < rest.len() {
                (self.next.0, self.next.1 + count)
            } else {
                (self.next.0 + 1, 0)
            };
        }
        taken > 0
    }
}

/// Duration of fast adaptation at the start, in seconds. The default of 2.5 s is too short for some
/// rooms: echo broke through there until the eighth second.
const LEARNS_FAST_SECONDS: f32 = 6.0;

/// Returns the defaults of `sonora_aec3` with three changes: it adapts fast for longer, trusts its
/// filter more, and lets more possible voice through, so that more people are heard over the echo.
/// BENCHMARKS.md has the figures.
fn config() -> EchoCanceller3Config {
    let mut config = EchoCanceller3Config::default();
    config.filter.initial_state_seconds = LEARNS_FAST_SECONDS;
    (config.erle.max_l, config.erle.max_h) = (8.0, 4.0);
    // Lets more through than by default: a person who speaks over the reply must be heard. Decision
    // 0064.
    let mask = |enr_transparent, enr_suppress| MaskingThresholds {
        enr_transparent,
        enr_suppress,
        emr_transparent: 0.3,
    };
    config.suppressor.normal_tuning.mask_lf = mask(0.6, 0.7);
    config.suppressor.normal_tuning.mask_hf = mask(0.15, 0.2);
    config
}

impl Default for EchoCanceller {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for EchoCanceller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EchoCanceller").field("next", &self.next).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::opus::{Decoder, Encoder};
    use crate::sound;

    const PACKET: usize = SAMPLE_RATE_HZ as usize * 60 / 1_000;

    /// Returns recorded speech of this length, looped.
    fn speech(name: &str, length: usize) -> Vec<i16> {
        let recorded = sound::decoded(&sound::recorded(name));
        recorded.iter().copied().cycle().take(length).collect()
    }

    fn reply(packets: usize) -> Vec<i16> {
        speech("zh_trade_stalls", packets * PACKET)
    }

    fn energy(sound: &[i16]) -> f64 {
        sound.iter().map(|s| f64::from(*s) * f64::from(*s)).sum()
    }

    /// Plays `packets` packets to a canceller whose device hears them 100 ms later at half their
    /// level, together with `person`. Returns the remaining sound.
    fn left(packets: usize, person: &[i16]) -> Vec<i16> {
        let reply = reply(packets);
        let mut encoder = Encoder::new(SAMPLE_RATE_HZ, 48_000, 5).unwrap();
        let mut decoder = Decoder::new(SAMPLE_RATE_HZ).unwrap();
        let mut canceller = EchoCanceller::new();
        let mut played = vec![0; SAMPLE_RATE_HZ as usize / 10];
        let mut left = Vec::new();
        let stamp = |n: usize| u32::try_from(n * 60 + 100).unwrap();
        for n in 0..packets + 3 {
            if let Some(samples) = reply.get(n * PACKET..(n + 1) * PACKET) {
                let opus = encoder.encode(samples).unwrap();
                let from = played.len();
                decoder.decode(&opus, &mut played).unwrap();
                canceller.play(stamp(n), &played[from..]);
            }
            // Three packets are sent ahead; each is reported as played when it has ended.
            let Some(now) = n.checked_sub(3) else { continue };
            let heard = &played[now * PACKET..(now + 1) * PACKET];
            let spoken =
                person[(now * PACKET).min(person.len())..].iter().chain(std::iter::repeat(&0));
            let mut sound: Vec<i16> = heard.iter().zip(spoken).map(|(e, p)| e / 2 + p).collect();
            canceller.cancel(now.checked_sub(1).map_or(0, stamp), &mut sound);
            left.extend(sound);
        }
        left
    }

    #[test]
    fn playback_is_removed_and_a_person_is_not() {
        let packets = 150;
        let last = 100 * PACKET..150 * PACKET;
        let echo = energy(&reply(packets)[last.clone()]) / 4.0;
        let alone = energy(&left(packets, &[])[last.clone()]);
        let reduction = 10.0 * (echo / alone.max(1.0)).log10();
        assert!(reduction > 30.0, "{reduction:.1} dB");
        let mut person = vec![0; last.start];
        person.extend(speech("en_go_forward", 50 * PACKET));
        let both = energy(&left(packets, &person)[last.clone()]);
        let change = 10.0 * (both / energy(&person[last])).log10();
        assert!(change.abs() < 6.0, "a person's level changes by {change:.1} dB");
    }

    #[test]
    fn sound_is_unchanged_until_a_packet_is_reported_as_played() {
        let mut canceller = EchoCanceller::new();
        canceller.play(5, &reply(1));
        for stamp in [0, 7, 0] {
            let sound = reply(1);
            let mut heard = sound.clone();
            canceller.cancel(stamp, &mut heard);
            assert_eq!(heard, sound);
        }
    }

    #[test]
    fn packets_count_as_played_without_reports_until_they_run_out() {
        let mut canceller = EchoCanceller::new();
        (1..=20).for_each(|stamp| canceller.play(stamp, &reply(1)));
        canceller.cancel(1, &mut reply(1));
        (0..15).for_each(|_| canceller.cancel(0, &mut reply(1)));
        assert_eq!((canceller.next, canceller.quiet), ((18, 0), 0));
        (0..10).for_each(|_| canceller.cancel(0, &mut reply(1)));
        // After a pause, nothing counts as played until the device reports it.
        canceller.play(21, &reply(1));
        canceller.cancel(0, &mut reply(1));
        assert_eq!(canceller.next, (20, 0));
    }

    proptest! {
        #[test]
        fn any_packets_and_stamps_are_handled(
            steps in proptest::collection::vec((any::<bool>(), 0_u32..40, 0_usize..1_000), 0..60),
        ) {
            let mut canceller = EchoCanceller::new();
            for (sends, stamp, length) in steps {
                let mut sound = vec![i16::try_from(stamp * 800).unwrap(); length];
                if sends {
                    canceller.play(stamp, &sound);
                }
                canceller.cancel(stamp, &mut sound);
                prop_assert_eq!(sound.len(), length);
                prop_assert!(canceller.sent.len() <= KEPT);
            }
        }
    }
}
