//! Expected level of an echo, learned from earlier echo: distinguishes frames that are no louder
//! from frames in which a person speaks. Not for measuring levels.

use super::octaves::{BANDS, Levels, SILENCE};

/// Quantile of the echo's level that is learned. A person who speaks over the echo for seconds
/// shifts it less than the mean.
const SHARE: f32 = 0.8;
const HALF: f32 = 0.5;
/// Maximum change of the learned level per frame, in decibels: after much learning, and at first.
const STEP_DB: f32 = 0.04;
const FIRST_STEP_DB: f32 = 10.0;
/// Consecutive frames below the learned level after which it is considered too high, for example
/// because the loudspeaker was turned down. Steps are then `FURTHER` times larger.
const QUIETER: u32 = 50;
const FURTHER: f32 = 5.0;
/// Playback this far below its recent maximum, or below this level, in decibels, is not learned
/// from: its echo is quieter than the noise.
const TEACHES_DB: f32 = 30.0;
const AUDIBLE_DB: f32 = 10.0;
/// Decay of the playback's maximum and rise of the noise level per frame, in decibels: both adapt
/// within half a minute.
const FORGETS_DB: f32 = 0.02;
const NOISE_RISES_DB: f32 = 0.03;
/// Maximum contribution of one band to the excess, in decibels.
const MOST_DB: f32 = 10.0;
/// The echo is missing if it is this much quieter than usual in at least this many bands.
const MISSING_DB: f32 = 12.0;
const MISSING_BANDS: usize = 3;

/// Thresholds for a person's voice over the echo.
#[derive(Debug, Clone, Copy)]
pub struct Margin {
    /// Excess of a band over the expected echo that does not count, in decibels.
    pub band_db: f32,
    /// Further excess that does not count, as a multiple of the spread of the echo's level.
    pub spread: f32,
    /// Sum of the excess over all bands above which a person speaks, in decibels.
    pub sum_db: f32,
    /// Number of frames for which a person then counts as speaking: words are not louder than the
    /// echo in every frame.
    pub holds: u32,
}

/// Learned level of the echo of one device.
#[derive(Debug, Clone)]
pub struct ExpectedEcho {
    margin: Margin,
    /// Level of the echo relative to the playback, at the quantile `SHARE`.
    gain: Levels,
    /// The same for the median.
    half: Levels,
    /// Number of frames learned from, by band.
    learned: [u32; BANDS],
    /// Frames since the last one above the learned level, by band.
    quieter: [u32; BANDS],
    /// Recent maximum of the playback.
    loudest: Levels,
    /// Noise level: the recent minimum of the microphone.
    noise: Levels,
    /// Remaining frames for which a person counts as speaking.
    holds: u32,
}

impl ExpectedEcho {
    /// Creates the state for an echo that was never heard.
    pub fn new(margin: Margin) -> Self {
        Self {
            margin,
            gain: SILENCE,
            half: SILENCE,
            learned: [0; BANDS],
            quieter: [0; BANDS],
            loudest: SILENCE,
            noise: [f32::MAX; BANDS],
            holds: 0,
        }
    }

    /// Returns true if a frame may be nothing but the echo of the playback. Must be called for each
    /// frame while something is played or echoes.
    pub fn explains(&mut self, played: &Levels, heard: &Levels) -> bool {
        let mut over = 0.0;
        for band in 0..BANDS {
            let played = played[band];
            let heard = heard[band];
            let gain = self.gain[band];
            self.noise[band] = heard.min(self.noise[band] + NOISE_RISES_DB);
            let expected = (played + gain).max(self.noise[band]);
            let spread = self.margin.spread * (gain - self.half[band]).max(0.0);
            over += (heard - expected - self.margin.band_db - spread).clamp(0.0, MOST_DB);
        }
        self.holds = if over > self.margin.sum_db {
            self.margin.holds
        } else {
            self.holds.saturating_sub(1)
        };
        self.holds == 0 && *played != SILENCE
    }

    /// Learns the level of the echo relative to the playback.
    pub fn learn(&mut self, played: &Levels, heard: &Levels) {
        for band in 0..BANDS {
            let played = played[band];
            let heard = heard[band];
            self.loudest[band] = played.max(self.loudest[band] - FORGETS_DB);
            if played <= AUDIBLE_DB || played <= self.loudest[band] - TEACHES_DB {
                continue;
            }
            self.learned[band] = self.learned[band].saturating_add(1);
            let over = heard - played;
            if self.learned[band] == 1 {
                (self.gain[band], self.half[band]) = (over, over);
            }
            let quieter = &mut self.quieter[band];
            *quieter = if over > self.gain[band] { 0 } else { quieter.saturating_add(1) };
            #[allow(
                clippy::cast_precision_loss,
                reason = "beyond 2^24 frames it is the least step"
            )]
            let step = (FIRST_STEP_DB / self.learned[band] as f32).max(STEP_DB);
            let step = if *quieter > QUIETER { step * FURTHER } else { step };
            for (gain, share) in [(&mut self.gain[band], SHARE), (&mut self.half[band], HALF)] {
                *gain += if over > *gain { step * share } else { -step * (1.0 - share) };
            }
        }
    }

    /// Returns true if a frame lacks the expected echo.
    pub fn is_missing(&self, played: &Levels, heard: &Levels) -> bool {
        let lacks = |band: &usize| {
            let least = played[*band] + self.gain[*band] - MISSING_DB;
            heard[*band] < least && self.noise[*band] < least
        };
        (1..BANDS).filter(lacks).count() >= MISSING_BANDS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARGIN: Margin = Margin { band_db: 6.0, spread: 0.0, sum_db: 6.0, holds: 6 };

    /// Plays `frames` frames of changing level, with an echo that is 20 dB quieter plus `over_db`.
    /// Returns the share of frames that is explained as echo.
    fn play(echo: &mut ExpectedEcho, frames: u32, over_db: f32) -> f32 {
        let explained = (0..frames).filter(|n| {
            #[allow(clippy::cast_precision_loss, reason = "small")]
            let played = 50.0 + 20.0 * (*n as f32 * 0.7).sin();
            let heard = [played - 20.0 + over_db; BANDS];
            let played = [played; BANDS];
            echo.learn(&played, &heard);
            echo.explains(&played, &heard)
        });
        #[allow(clippy::cast_precision_loss, reason = "small")]
        let share = explained.count() as f32 / frames as f32;
        share
    }

    #[test]
    fn an_echo_is_learned_and_louder_sound_is_speech() {
        let mut echo = ExpectedEcho::new(MARGIN);
        play(&mut echo, 200, 0.0);
        assert!(play(&mut echo, 200, 0.0) > 0.99);
        assert!(play(&mut echo, 100, 12.0) < 0.01);
        // The louder sound has not changed the learned level.
        play(&mut echo, 20, 0.0);
        assert!(play(&mut echo, 50, 0.0) > 0.99);
    }

    #[test]
    fn a_loudspeaker_that_is_turned_down_is_noticed_in_time() {
        let mut echo = ExpectedEcho::new(MARGIN);
        play(&mut echo, 500, 0.0);
        play(&mut echo, 800, -25.0);
        assert!(play(&mut echo, 50, -10.0) < 0.1);
    }

    #[test]
    fn speech_lasts_some_frames_beyond_a_loud_one() {
        let mut echo = ExpectedEcho::new(MARGIN);
        play(&mut echo, 200, 0.0);
        let mut step = |over: f32| echo.explains(&[50.0; BANDS], &[30.0 + over; BANDS]);
        assert!(step(0.0));
        assert!(!step(15.0));
        let after: Vec<bool> = (0..8).map(|_| step(0.0)).collect();
        assert_eq!(after, [false, false, false, false, false, true, true, true]);
    }

    #[test]
    fn while_nothing_is_played_nothing_is_an_echo() {
        let mut echo = ExpectedEcho::new(MARGIN);
        play(&mut echo, 200, 0.0);
        assert!(!echo.explains(&SILENCE, &[5.0; BANDS]));
    }

    #[test]
    fn an_echo_that_stops_is_missing() {
        let mut echo = ExpectedEcho::new(MARGIN);
        play(&mut echo, 200, 0.0);
        echo.explains(&[50.0; BANDS], &[5.0; BANDS]);
        assert!(!echo.is_missing(&[50.0; BANDS], &[28.0; BANDS]));
        assert!(echo.is_missing(&[50.0; BANDS], &[10.0; BANDS]));
        assert!(!echo.is_missing(&[15.0; BANDS], &[0.0; BANDS]), "its echo is below noise");
    }

    #[test]
    fn an_echo_that_varies_gets_a_wider_margin() {
        let over = |spread, varies: f32| {
            let mut echo =
                ExpectedEcho::new(Margin { band_db: 1.0, spread, sum_db: 1.0, holds: 1 });
            for n in 0_u8..200 {
                let heard = if n % 3 == 0 { 30.0 + varies } else { 30.0 };
                echo.learn(&[50.0; BANDS], &[heard; BANDS]);
            }
            echo.explains(&SILENCE, &[5.0; BANDS]);
            echo.explains(&[50.0; BANDS], &[30.0 + varies + 4.0; BANDS])
        };
        assert_eq!([over(0.0, 8.0), over(1.0, 8.0), over(1.0, 0.0)], [false, true, false]);
    }

    proptest! {
        #[test]
        fn any_levels_are_handled(
            frames in proptest::collection::vec((0.0_f32..100.0, 0.0_f32..100.0), 0..300),
        ) {
            let mut echo = ExpectedEcho::new(MARGIN);
            for (played, heard) in frames {
                echo.learn(&[played; BANDS], &[heard; BANDS]);
                echo.explains(&[played; BANDS], &[heard; BANDS]);
                prop_assert!(echo.gain.iter().all(|gain| gain.abs() <= 200.0));
            }
        }
    }
}
