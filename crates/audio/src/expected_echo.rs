//! How loud an echo may be, learned from how loud it was: tells frames that are no louder from those in which somebody
//! speaks. Not for where levels come from.

use super::octaves::{BANDS, Levels, SILENCE};

/// Share of the frames of an echo that are no louder than what is learned. Somebody who speaks over it for seconds moves
/// this less than the mean.
const SHARE: f32 = 0.8;
const HALF: f32 = 0.5;
/// Furthest that what is learned moves in a frame, in decibels, once much was learned; and at first.
const STEP_DB: f32 = 0.04;
const FIRST_STEP_DB: f32 = 10.0;
/// Frames in a row that are no louder than what is learned, after which it is too loud: somebody has turned the loudspeaker
/// down. Then it moves so many times further.
const QUIETER: u32 = 50;
const FURTHER: f32 = 5.0;
/// What is played this far below the loudest of late, or below this level, teaches nothing: its echo is less than noise.
const TEACHES_DB: f32 = 30.0;
const AUDIBLE_DB: f32 = 10.0;
/// Change of the loudest and of the noise in a frame, in decibels: by then they are forgotten in half a minute.
const FORGETS_DB: f32 = 0.02;
const NOISE_RISES_DB: f32 = 0.03;
/// A band counts for no more than this.
const MOST_DB: f32 = 10.0;
/// An echo that is so much quieter than it usually is, in so many bands, is missing.
const MISSING_DB: f32 = 12.0;
const MISSING_BANDS: usize = 3;

/// When somebody speaks.
#[derive(Debug, Clone, Copy)]
pub struct Margin {
    /// A band that is louder than the echo by so much tells of somebody,
    pub band_db: f32,
    /// and by so many times what the level of the echo varies by.
    pub spread: f32,
    /// They are believed from this sum over the bands on, of what is over that.
    pub sum_db: f32,
    /// Number of frames for which they still are: words are not louder than the echo in each.
    pub holds: u32,
}

/// What is known of the echo of one device.
#[derive(Debug, Clone)]
pub struct ExpectedEcho {
    margin: Margin,
    /// Level of the echo over that of what is played.
    gain: Levels,
    /// The same of half of the frames.
    half: Levels,
    /// Frames that each was learned from.
    learned: [u32; BANDS],
    /// Frames since one that was louder.
    quieter: [u32; BANDS],
    /// Loudest that was played of late.
    loudest: Levels,
    /// Level of the noise, which is the quietest of late.
    noise: Levels,
    /// Frames for which somebody still speaks.
    holds: u32,
}

impl ExpectedEcho {
    /// Creates what is known of an echo that was never heard.
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

    /// Returns true if a frame may be nothing but the echo of what is played. Call it for each frame while something is
    /// played or echoes.
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

    /// Learns how loud the echo of what is played is.
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

    /// Returns true if a frame lacks the echo of what is played.
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

    /// Plays so many frames of changing level, of which the echo is quieter by 20 dB. Returns the share that is explained.
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
    fn an_echo_is_learned_and_who_is_louder_speaks() {
        let mut echo = ExpectedEcho::new(MARGIN);
        play(&mut echo, 200, 0.0);
        assert!(play(&mut echo, 200, 0.0) > 0.99);
        assert!(play(&mut echo, 100, 12.0) < 0.01);
        // It is still known after that.
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
    fn somebody_speaks_for_some_frames_after_a_loud_one() {
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
        assert!(!echo.is_missing(&[15.0; BANDS], &[0.0; BANDS]), "it would be less than noise");
    }

    #[test]
    fn an_echo_that_varies_is_believed_more() {
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
        fn whatever_is_heard_it_goes_on(
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
