//! Endpointing: finds the start and the end of an utterance from one decision (voice or not) per 20
//! ms. A small state machine:
//!
//! - **quiet**: voice adds up; after `min_speech` of it, with no pause longer than
//!   [`MAX_ONSET_PAUSE`] inside, speech has started;
//! - **speaking**: speech has ended after `silence` without voice, or after `max_utterance` in
//!   total. The caller may choose another window for the current silence, and gets an event for it
//!   at each of [`LOOKS`]. Before that, after `speculate_after`, an event reports that the person
//!   may have finished.
//!
//! - **discarding**: after [`Endpointer::discard`], voice starts nothing until there was `silence`
//!   without voice, or after `max_utterance`.
//!
//! Not for samples: the caller stores the pre-roll. Not for choosing the window.

use std::time::Duration;

use crate::HearingSettings;

/// Longest pause before `min_speech` is reached; voice with a longer one was a click or a cough.
pub const MAX_ONSET_PAUSE: Duration = Duration::from_millis(120);

/// Lengths of a silence at which the caller may choose the window. The voice detector loses a
/// fading voice some 100 ms before people do (measured: 100 ms in Chinese, 78 ms in English), so
/// these are 200 and 400 ms of true silence.
pub const LOOKS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(500)];

/// Event caused by one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Speech has started, this long ago.
    Started {
        /// Time from the first voiced frame to now.
        ago: Duration,
    },
    /// The person has been silent for some time, and may or may not go on.
    Paused {
        /// Index in [`LOOKS`], if it is time to choose the window.
        look: Option<usize>,
        /// True if it is time to start a speculative answer.
        speculate: bool,
    },
    /// The person goes on after a silence that was reported as [`Endpoint::Paused`].
    Resumed {
        /// Length of the silence.
        after: Duration,
    },
    /// Speech has ended.
    Ended,
}

/// State machine that finds the start and the end of utterances.
#[derive(Debug)]
pub struct Endpointer {
    min_speech: Duration,
    silence: Duration,
    speculate_after: Duration,
    max_utterance: Duration,
    state: EndpointerState,
}

#[derive(Debug)]
enum EndpointerState {
    Quiet {
        voice: Duration,
        pause: Duration,
        since_onset: Duration,
    },
    /// `window` is the length of silence that ends the utterance.
    Speaking {
        silence: Duration,
        total: Duration,
        window: Duration,
        looks: usize,
        speculated: bool,
    },
    Discarding {
        silence: Duration,
        total: Duration,
    },
}

const QUIET: EndpointerState = EndpointerState::Quiet {
    voice: Duration::ZERO,
    pause: Duration::ZERO,
    since_onset: Duration::ZERO,
};

impl Endpointer {
    /// Creates an endpointer in the quiet state.
    pub fn new(settings: &HearingSettings) -> Self {
        let &HearingSettings { min_speech, silence, max_utterance, .. } = settings;
        Self { min_speech, silence, speculate_after: Duration::MAX, max_utterance, state: QUIET }
    }

    /// Returns to the quiet state, whatever came before.
    pub fn reset(&mut self) {
        self.state = QUIET;
    }

    /// Opens an utterance that was not started by voice and has lasted for `total`: from here on
    /// silence ends it.
    pub fn open(&mut self, total: Duration) {
        self.state = EndpointerState::Speaking {
            silence: Duration::ZERO,
            total,
            window: self.silence,
            looks: 0,
            speculated: false,
        };
    }

    /// Discards the rest of the current speech: the next speech starts after a silence.
    pub fn discard(&mut self) {
        self.state = EndpointerState::Discarding { silence: Duration::ZERO, total: Duration::ZERO };
    }

    /// Returns true while the rest of earlier speech is discarded.
    pub fn is_discarding(&self) -> bool {
        matches!(self.state, EndpointerState::Discarding { .. })
    }

    /// Sets the length of voice after which speech counts as started.
    pub fn set_min_speech(&mut self, min_speech: Duration) {
        self.min_speech = min_speech;
    }

    /// Sets the length of silence after which a speculative answer may start. By default, none does.
    pub fn set_speculate_after(&mut self, speculate_after: Duration) {
        self.speculate_after = speculate_after;
    }

    /// Returns true while an utterance is open.
    pub fn is_speaking(&self) -> bool {
        matches!(self.state, EndpointerState::Speaking { .. })
    }

    /// Returns the current silence in the open utterance.
    pub fn silence(&self) -> Option<Duration> {
        match self.state {
            EndpointerState::Speaking { silence, .. } => Some(silence),
            EndpointerState::Quiet { .. } | EndpointerState::Discarding { .. } => None,
        }
    }

    /// Returns the length of silence that ends the utterance.
    pub fn window(&self) -> Duration {
        match self.state {
            EndpointerState::Speaking { window, .. } => window,
            EndpointerState::Quiet { .. } | EndpointerState::Discarding { .. } => self.silence,
        }
    }

    /// Returns the length of silence at which the next event is due.
    pub fn next_event(&self) -> Duration {
        let EndpointerState::Speaking { window, looks, speculated, .. } = self.state else {
            return self.silence;
        };
        let speculate = if speculated { Duration::MAX } else { self.speculate_after };
        window.min(speculate).min(LOOKS.get(looks).copied().unwrap_or(Duration::MAX))
    }

    /// Sets the length that the current silence must reach to end the utterance. Voice restores the
    /// default.
    pub fn choose_window(&mut self, chosen: Duration) {
        if let EndpointerState::Speaking { window, .. } = &mut self.state {
            *window = chosen;
        }
    }

    /// Processes the decision on `length` of audio. Returns the event that it causes.
    pub fn push(&mut self, voiced: bool, length: Duration) -> Option<Endpoint> {
        match &mut self.state {
            EndpointerState::Quiet { voice, pause, since_onset } => {
                if voiced {
                    *voice += length;
                    *pause = Duration::ZERO;
                } else if voice.is_zero() {
                    return None;
                } else {
                    *pause += length;
                }
                *since_onset += length;
                if *pause > MAX_ONSET_PAUSE {
                    self.state = QUIET;
                    return None;
                }
                if *voice < self.min_speech {
                    return None;
                }
                let ago = *since_onset;
                let silence = *pause;
                let window = self.silence;
                let looks = 0;
                let speculated = false;
                self.state =
                    EndpointerState::Speaking { silence, total: ago, window, looks, speculated };
                Some(Endpoint::Started { ago })
            }
            EndpointerState::Speaking { silence, total, window, looks, speculated } => {
                *total += length;
                let before = *silence;
                let reported = *speculated || *looks > 0;
                if voiced {
                    (*silence, *window, *looks, *speculated) =
                        (Duration::ZERO, self.silence, 0, false);
                } else {
                    *silence += length;
                }
                if *silence >= *window || *total >= self.max_utterance {
                    self.state = QUIET;
                    return Some(Endpoint::Ended);
                }
                if voiced && reported {
                    return Some(Endpoint::Resumed { after: before });
                }
                let due = LOOKS.get(*looks).is_some_and(|at| *silence >= *at);
                let look = due.then_some(*looks);
                *looks += usize::from(due);
                let speculate = !*speculated && *silence >= self.speculate_after;
                *speculated |= speculate;
                (due || speculate).then_some(Endpoint::Paused { look, speculate })
            }
            EndpointerState::Discarding { silence, total } => {
                *total += length;
                *silence = if voiced { Duration::ZERO } else { *silence + length };
                if *silence >= self.silence || *total >= self.max_utterance {
                    self.state = QUIET;
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: Duration = Duration::from_millis(20);

    fn endpointer() -> Endpointer {
        Endpointer::new(&HearingSettings {
            min_speech: Duration::from_millis(100),
            silence: Duration::from_millis(200),
            max_utterance: Duration::from_secs(2),
            ..HearingSettings::default()
        })
    }

    /// Processes `v` (voice) and `.` (none), one frame each; returns the events with their frame
    /// numbers.
    fn push_all(endpointer: &mut Endpointer, frames: &str) -> Vec<(usize, Endpoint)> {
        let push = |(i, c)| endpointer.push(c == 'v', FRAME).map(|e| (i, e));
        frames.chars().enumerate().filter_map(push).collect()
    }

    /// Returns only the starts and ends.
    fn push(endpointer: &mut Endpointer, frames: &str) -> Vec<(usize, Endpoint)> {
        let mut events = push_all(endpointer, frames);
        events.retain(|(_, event)| matches!(event, Endpoint::Started { .. } | Endpoint::Ended));
        events
    }

    fn started(ms: u64) -> Endpoint {
        Endpoint::Started { ago: Duration::from_millis(ms) }
    }

    #[test]
    fn speech_starts_after_enough_voice_and_ends_after_enough_silence() {
        let events = push(&mut endpointer(), "..vvvvvvvv..........vv");
        assert_eq!(events, [(6, started(100)), (19, Endpoint::Ended)]);
    }

    #[test]
    fn a_cough_does_not_start_speech_and_a_pause_does_not_end_it() {
        assert_eq!(push(&mut endpointer(), "vvv.......vvvv......."), []);
        let events = push(&mut endpointer(), "vvvvvvvv.........vvv..........");
        assert_eq!(events, [(4, started(100)), (29, Endpoint::Ended)]);
    }

    #[test]
    fn short_pauses_at_the_onset_count_as_speech() {
        assert_eq!(push(&mut endpointer(), "vv..vv..v"), [(8, started(180))]);
    }

    #[test]
    fn an_endless_utterance_is_cut() {
        let events = push(&mut endpointer(), &"v".repeat(150));
        assert_eq!(events[..2], [(4, started(100)), (99, Endpoint::Ended)]);
    }

    #[test]
    fn an_utterance_that_was_opened_without_voice_ends_by_silence_or_its_length() {
        let mut endpointer = endpointer();
        endpointer.open(Duration::ZERO);
        assert_eq!(push(&mut endpointer, ".........vvv.........."), [(21, Endpoint::Ended)]);
        endpointer.open(Duration::from_millis(1_900));
        assert_eq!(push(&mut endpointer, "vvvvv"), [(4, Endpoint::Ended)]);
    }

    #[test]
    fn the_rest_of_discarded_speech_starts_nothing() {
        let mut endpointer = endpointer();
        push(&mut endpointer, "vvvvvvvv");
        endpointer.discard();
        assert_eq!(push(&mut endpointer, "vvvvvvvv.........vvvvvvv.........."), []);
        assert!(!endpointer.is_discarding());
        assert_eq!(push(&mut endpointer, "vvvvv"), [(4, started(100))]);
        endpointer.discard();
        let events = push(&mut endpointer, &"v".repeat(110));
        assert_eq!(events, [(104, started(100))], "endless voice is no speech to be discarded");
    }

    #[test]
    fn each_long_silence_may_get_another_window() {
        let mut endpointer = Endpointer::new(&HearingSettings {
            silence: Duration::from_millis(700),
            ..HearingSettings::default()
        });
        endpointer.set_speculate_after(Duration::from_millis(200));
        push(&mut endpointer, "vvvvvvvv");
        let look = |look| Endpoint::Paused { look: Some(look), speculate: false };
        let speculate = Endpoint::Paused { look: None, speculate: true };
        let events = push_all(&mut endpointer, &".".repeat(30));
        assert_eq!(events, [(9, speculate), (14, look(0)), (24, look(1))]);
        assert_eq!(endpointer.silence(), Some(Duration::from_millis(600)));
        endpointer.choose_window(Duration::from_millis(900));
        assert_eq!(push_all(&mut endpointer, &".".repeat(10)), []);
        assert_eq!(endpointer.window(), Duration::from_millis(900));
        // Voice undoes the choice, and the next silence causes the same events.
        let after = Duration::from_millis(800);
        assert_eq!(push_all(&mut endpointer, "v"), [(0, Endpoint::Resumed { after })]);
        assert_eq!(endpointer.window(), Duration::from_millis(700));
        assert_eq!(push_all(&mut endpointer, &".".repeat(15)), [(9, speculate), (14, look(0))]);
        endpointer.choose_window(Duration::from_millis(400));
        assert_eq!(push_all(&mut endpointer, &".".repeat(20)), [(4, Endpoint::Ended)]);
        assert_eq!(endpointer.silence(), None);
    }

    proptest! {
        #[test]
        fn starts_and_ends_alternate(frames in "[v.]{0,400}") {
            let events = push(&mut endpointer(), &frames);
            for (i, (_, event)) in events.iter().enumerate() {
                prop_assert_eq!(matches!(event, Endpoint::Started { .. }), i % 2 == 0);
            }
        }
    }
}
