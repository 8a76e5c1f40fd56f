//! Echo guard for devices that do not report what they have played: decides by the levels of the
//! packets sent which microphone frames may be nothing but echo. Not for removing echo, which needs
//! those reports.
//!
//! A device plays packets in order, as soon as they arrive. Their echo is heard some frames later,
//! after a delay that hardly changes ([`EchoLag`]).

use std::collections::VecDeque;

use super::echo_lag::{EchoLag, LAGS};
use super::expected_echo::{ExpectedEcho, Margin};
use super::octaves::{BANDS, Levels, Octaves, SILENCE};
use super::voice_detector::FRAME_SAMPLES;

/// Number of playback frames whose levels are stored, before and after the current one.
const KNOWN: usize = 128;
/// Maximum number of frames that a device has received and not played yet. A larger number means
/// that microphone frames were lost; then [`LEAD`] is assumed.
const MOST: usize = 25;
const LEAD: usize = 6;
/// Decay of an echo per frame, in decibels.
const FADES_DB: f32 = 4.0;
/// Memories of the two delay estimates, in frames: a reliable one, and one that soon follows a
/// change.
const PASTS: [f32; 2] = [150.0, 40.0];
/// Frames of playback within which the delay is found if there is an echo. Until then, every frame
/// counts as echo; this happens once per connection.
const LEARNS: u32 = 60;
/// Number of consecutive frames without the expected echo after which the device must have run out
/// of packets. From then on, and from the start of a reply, the echo may come up to `LATER` frames
/// later or `EARLIER` frames earlier than usual, for `UNSURE` or `UNSURE_AT_FIRST` frames. Longer
/// times hide people who speak; BENCHMARKS.md has the measurements.
const MISSING: u32 = 2;
const LATER: usize = 6;
const EARLIER: usize = 3;
const UNSURE: u32 = 75;
const UNSURE_AT_FIRST: u32 = 40;
/// Maximum number of results that were not asked for yet.
const HEARD: usize = 64;
/// Thresholds without a canceller: echo must not count as voice. Both sets were chosen on
/// recordings; BENCHMARKS.md has the results.
const ALONE: Margin = Margin { band_db: 6.0, spread: 0.0, sum_db: 6.0, holds: 7 };
/// Thresholds behind a canceller: a person may be quieter than the echo was, and must differ from
/// its small residue.
const WITH_CANCELLER: Margin = Margin { band_db: 1.0, spread: 1.0, sum_db: 3.0, holds: 10 };

/// Guard of one device.
pub struct EchoGuard {
    /// Levels of the playback, including its decay, by the earliest microphone frame that may
    /// contain it.
    known: [Levels; KNOWN],
    last: Levels,
    /// Current microphone frame, and the end of the frames in `known`.
    now: usize,
    until: usize,
    played: Octaves,
    heard: Octaves,
    lags: [EchoLag; 2],
    /// Last delay on which both estimates agreed.
    usual: Option<usize>,
    echo: ExpectedEcho,
    /// Frames of playback in which no echo was found.
    unknown: u32,
    /// Consecutive frames without the expected echo, and remaining frames in which it may be late.
    missing: u32,
    late: u32,
    /// Samples that do not fill a frame yet.
    rest: Vec<i16>,
    /// For each frame, whether it may be nothing but echo; oldest first.
    explained: VecDeque<bool>,
}

impl EchoGuard {
    /// Creates a guard that works alone, or behind a canceller.
    pub fn new(with_canceller: bool) -> Self {
        Self {
            known: [SILENCE; KNOWN],
            last: SILENCE,
            now: KNOWN,
            until: 0,
            played: Octaves::default(),
            heard: Octaves::default(),
            lags: PASTS.map(EchoLag::new),
            usual: None,
            echo: ExpectedEcho::new(if with_canceller { WITH_CANCELLER } else { ALONE }),
            unknown: 0,
            missing: 0,
            late: 0,
            rest: Vec::with_capacity(FRAME_SAMPLES),
            explained: VecDeque::with_capacity(HEARD),
        }
    }

    /// Processes samples from the microphone.
    pub fn hear(&mut self, mut sound: &[i16]) {
        while !sound.is_empty() {
            let (more, others) = sound.split_at(sound.len().min(FRAME_SAMPLES - self.rest.len()));
            self.rest.extend_from_slice(more);
            sound = others;
            if self.rest.len() == FRAME_SAMPLES {
                let frame = std::mem::take(&mut self.rest);
                let explained = self.explains(&frame);
                self.rest = frame;
                self.rest.clear();
                if self.explained.len() >= HEARD {
                    self.explained.pop_front();
                }
                self.explained.push_back(explained);
            }
        }
    }

    /// Returns true if the next frame may be nothing but the echo of the playback.
    pub fn explains_next(&mut self) -> bool {
        self.explained.pop_front().unwrap_or(false)
    }

    /// Discards the results that were not asked for yet.
    pub fn forget(&mut self) {
        self.rest.clear();
        self.explained.clear();
    }

    fn explains(&mut self, frame: &[i16]) -> bool {
        self.now += 1;
        if self.now >= self.until + LAGS {
            return false;
        }
        let heard = self.heard.levels(frame);
        let mut loudness = [0.0; LAGS];
        for (lag, loudness) in loudness.iter_mut().enumerate() {
            *loudness = mean(&self.at(self.now - lag));
        }
        self.lags.iter_mut().for_each(|lag| lag.learn(mean(&heard), &loudness));
        let [certain, new] = [0, 1].map(|which: usize| self.lags[which].frames());
        if self.late == 0 && certain.is_some() && certain == new {
            self.usual = certain;
        }
        // A person who has just spoken over a reply hides its delay.
        let usual = self.usual.filter(|_| self.late > 0);
        let Some(lag) = usual.or(certain).or(new).or(self.usual) else {
            self.unknown = self.unknown.saturating_add(1);
            return self.unknown <= LEARNS;
        };
        let near = |lag: usize| lag.saturating_sub(1)..=lag + 1;
        let mut loudest = self.over(near(lag), f32::max);
        if let Some(new) = new {
            louder(&mut loudest, &self.over(near(new), f32::max));
        }
        if self.late > 0 {
            self.late -= 1;
            louder(&mut loudest, &self.over(lag.saturating_sub(EARLIER)..=lag + LATER, f32::max));
        } else {
            self.echo.learn(&loudest, &heard);
        }
        let lacks = self.echo.is_missing(&self.over(near(lag), f32::min), &heard);
        self.missing = if lacks { self.missing + 1 } else { 0 };
        if self.missing >= MISSING {
            self.late = UNSURE;
        }
        self.echo.explains(&loudest, &heard)
    }

    /// Combines the playback levels of a range of delays with `choose` (maximum or minimum).
    fn over(&self, lags: std::ops::RangeInclusive<usize>, choose: fn(f32, f32) -> f32) -> Levels {
        let mut chosen = self.at(self.now - lags.start());
        for lag in lags {
            let levels = self.at(self.now - lag);
            chosen.iter_mut().zip(levels).for_each(|(one, level)| *one = choose(*one, level));
        }
        chosen
    }

    /// Returns the playback levels at a microphone frame.
    fn at(&self, frame: usize) -> Levels {
        let known = frame < self.until && frame + KNOWN >= self.until;
        if known { self.known[frame % KNOWN] } else { SILENCE }
    }

    /// Adds the samples of a packet that the device plays after the earlier ones.
    pub fn play(&mut self, sound: &[i16]) {
        if self.until + LAGS <= self.now {
            // The first packet of a reply may have another delay than the reply before.
            self.late = UNSURE_AT_FIRST;
        }
        self.until = self.until.max(self.now - KNOWN);
        while self.until < self.now {
            self.note(SILENCE);
        }
        if self.until > self.now + MOST {
            self.until = self.now + LEAD;
        }
        for frame in sound.chunks_exact(FRAME_SAMPLES) {
            let levels = self.played.levels(frame);
            self.note(levels);
        }
    }

    fn note(&mut self, levels: Levels) {
        for (last, level) in self.last.iter_mut().zip(levels) {
            *last = level.max(*last - FADES_DB);
        }
        self.known[self.until % KNOWN] = self.last;
        self.until += 1;
    }
}

fn louder(levels: &mut Levels, others: &Levels) {
    levels.iter_mut().zip(others).for_each(|(level, other)| *level = level.max(*other));
}

/// Returns the mean level of all bands except the lowest, which small loudspeakers do not play.
fn mean(levels: &Levels) -> f32 {
    #[allow(clippy::cast_precision_loss, reason = "a small constant")]
    let bands = (BANDS - 1) as f32;
    levels[1..].iter().sum::<f32>() / bands
}

impl std::fmt::Debug for EchoGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EchoGuard").field("lag", &self.lags[0].frames()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sound;

    /// Samples of a packet.
    const PACKET: usize = 3 * FRAME_SAMPLES;
    /// Delay of the echo, in packets.
    const DELAY: usize = 3;

    fn speech(name: &str, packets: usize) -> Vec<i16> {
        let recorded = sound::decoded(&sound::recorded(name));
        recorded.iter().copied().cycle().take(packets * PACKET).collect()
    }

    /// Plays a reply of 12 s to a guard whose device hears it at a quarter of its level, with
    /// `person` from 8 s on. Returns from there on whether each frame is explained as echo.
    fn explained(person: &[i16]) -> Vec<bool> {
        let packets = 200;
        let reply = speech("zh_trade_stalls", packets);
        let mut guard = EchoGuard::new(false);
        let mut explained = Vec::new();
        for (now, packet) in reply.chunks(PACKET).enumerate() {
            guard.play(packet);
            let mut heard = vec![0; PACKET];
            if let Some(played) = now.checked_sub(DELAY) {
                let echo = &reply[played * PACKET..][..PACKET];
                heard.iter_mut().zip(echo).for_each(|(heard, echo)| *heard = echo / 4);
            }
            if now == 133 {
                let off = guard.lags[0].frames().map(|lag| lag.abs_diff(3 * DELAY));
                assert!(off.is_some_and(|off| off <= 1), "{guard:?}");
            }
            if let Some(spoken) = now.checked_sub(133) {
                let words = person.iter().skip(spoken * PACKET);
                heard.iter_mut().zip(words).for_each(|(heard, word)| *heard += word);
            }
            guard.hear(&heard);
            explained.extend((0..3).map(|_| guard.explains_next()));
        }
        explained.split_off(3 * 133)
    }

    #[test]
    fn an_echo_is_explained_and_a_person_is_not() {
        let alone = explained(&[]);
        let echoes = alone.iter().filter(|explained| **explained).count();
        assert!(echoes * 10 > alone.len() * 9, "{echoes} of {}", alone.len());
        let with_person = explained(&speech("en_go_forward", 33));
        let words = with_person[..99].iter().filter(|explained| !**explained).count();
        assert!(words > 50, "{words}");
    }

    #[test]
    fn while_nothing_is_played_nothing_is_explained() {
        let mut guard = EchoGuard::new(false);
        for sound in speech("en_go_forward", 50).chunks(700) {
            guard.hear(sound);
        }
        assert!(!(0..HEARD).any(|_| guard.explains_next()));
        assert_eq!(guard.lags[0].frames(), None);
    }

    #[test]
    fn without_an_echo_frames_are_explained_only_at_first() {
        for with_canceller in [false, true] {
            let mut guard = EchoGuard::new(with_canceller);
            let mut explained = 0;
            for packet in speech("zh_trade_stalls", 100).chunks(PACKET) {
                guard.play(packet);
                guard.hear(&[0; PACKET]);
                explained += (0..3).filter(|_| guard.explains_next()).count();
            }
            assert_eq!(explained, LEARNS as usize);
        }
    }

    #[test]
    fn a_long_pause_is_forgotten() {
        let mut guard = EchoGuard::new(false);
        let sound = speech("zh_trade_stalls", 1);
        guard.play(&sound);
        (0..100).for_each(|_| guard.hear(&sound));
        guard.play(&sound);
        assert!(guard.at(guard.now) != SILENCE && guard.at(guard.now - 30) == SILENCE);
    }

    proptest! {
        #[test]
        fn memory_is_bounded_for_any_sound(
            steps in proptest::collection::vec((0_usize..4, 0_usize..2_000, any::<i16>()), 0..200),
        ) {
            let mut guard = EchoGuard::new(false);
            for (packets, length, sample) in steps {
                (0..packets).for_each(|_| guard.play(&[sample; PACKET]));
                guard.hear(&vec![sample; length]);
                prop_assert!(guard.until <= guard.now + MOST + 3);
                prop_assert!(guard.explained.len() <= HEARD && guard.rest.capacity() == FRAME_SAMPLES);
                if sample % 3 == 0 {
                    guard.explains_next();
                }
            }
        }
    }
}
