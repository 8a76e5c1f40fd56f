//! Endpointing: finds the start and the end of an utterance from one decision (voice or not) per 20
//! ms. A small state machine:
//!
//! - **quiet**: voice adds up; after `min_speech` of it, with no pause longer than
//!   [`MAX_ONSET_PAUSE`] inside, speech has started;
//! - **speaking**: after `silence` without voice, or `max_utterance` in all, it has ended.
//!
//! Not for samples: the caller keeps the pre-roll.

use std::time::Duration;

use crate::settings::HearingSettings;

/// Voice that pauses longer than this before `min_speech` is reached was a click or a cough.
pub const MAX_ONSET_PAUSE: Duration = Duration::from_millis(120);

/// Event caused by one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Speech has started, this long ago.
    Started {
        /// Time from the first voiced frame to now.
        ago: Duration,
    },
    /// Speech has ended.
    Ended,
}

/// State machine that finds the start and the end of utterances.
#[derive(Debug)]
pub struct Endpointer {
    min_speech: Duration,
    silence: Duration,
    max_utterance: Duration,
    state: State,
}

#[derive(Debug)]
enum State {
    Quiet { voice: Duration, pause: Duration, since_onset: Duration },
    Speaking { silence: Duration, total: Duration },
}

const QUIET: State =
    State::Quiet { voice: Duration::ZERO, pause: Duration::ZERO, since_onset: Duration::ZERO };

impl Endpointer {
    /// Creates an endpointer in the quiet state.
    pub fn new(settings: &HearingSettings) -> Self {
        let &HearingSettings { min_speech, silence, max_utterance, .. } = settings;
        Self { min_speech, silence, max_utterance, state: QUIET }
    }

    /// Returns to the quiet state, whatever came before.
    pub fn reset(&mut self) {
        self.state = QUIET;
    }

    /// Sets the length of voice that is needed from now on before speech counts as started.
    pub fn set_min_speech(&mut self, min_speech: Duration) {
        self.min_speech = min_speech;
    }

    /// Returns true while an utterance is open.
    pub fn is_speaking(&self) -> bool {
        matches!(self.state, State::Speaking { .. })
    }

    /// Processes the decision on `length` of audio. Returns an event if speech starts or ends with
    /// it.
    pub fn push(&mut self, voiced: bool, length: Duration) -> Option<Endpoint> {
        match &mut self.state {
            State::Quiet { voice, pause, since_onset } => {
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
                let (ago, silence) = (*since_onset, *pause);
                self.state = State::Speaking { silence, total: ago };
                Some(Endpoint::Started { ago })
            }
            State::Speaking { silence, total } => {
                *silence = if voiced { Duration::ZERO } else { *silence + length };
                *total += length;
                let ended = *silence >= self.silence || *total >= self.max_utterance;
                if ended {
                    self.state = QUIET;
                }
                ended.then_some(Endpoint::Ended)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn push(endpointer: &mut Endpointer, frames: &str) -> Vec<(usize, Endpoint)> {
        let push = |(i, c)| endpointer.push(c == 'v', FRAME).map(|e| (i, e));
        frames.chars().enumerate().filter_map(push).collect()
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
    fn a_cough_does_not_start_it_and_a_pause_does_not_end_it() {
        assert_eq!(push(&mut endpointer(), "vvv.......vvvv......."), []);
        let events = push(&mut endpointer(), "vvvvvvvv.........vvv..........");
        assert_eq!(events, [(4, started(100)), (29, Endpoint::Ended)]);
    }

    #[test]
    fn short_pauses_at_the_onset_count_as_part_of_it() {
        assert_eq!(push(&mut endpointer(), "vv..vv..v"), [(8, started(180))]);
    }

    #[test]
    fn an_endless_utterance_is_cut() {
        let events = push(&mut endpointer(), &"v".repeat(150));
        assert_eq!(events[..2], [(4, started(100)), (99, Endpoint::Ended)]);
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
