//! Delay of an echo: the one at which the level of the microphone correlates best with that of the
//! playback. Not for how loud the echo is.

/// Number of possible delays, in frames of 20 ms, starting at 0.
pub const LAGS: usize = 31;
/// Minimum number of frames for an estimate.
const FEWEST: f32 = 30.0;
/// Correlation of the levels above which there is an echo.
const ALIKE: f32 = 0.4;

/// Delay estimate for the echo of one device.
#[derive(Debug, Clone)]
pub struct EchoLag {
    /// Frames in the average: many give a reliable delay, few follow a change sooner.
    past: f32,
    heard: Moments,
    played: [Moments; LAGS],
    /// Mean product of the microphone level and the playback level, for each delay.
    products: [f32; LAGS],
    frames: f32,
}

/// Recent mean of a level and of its square.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    mean: f32,
    square: f32,
}

impl Moments {
    fn add(&mut self, level: f32, weight: f32) {
        self.mean += (level - self.mean) * weight;
        self.square += (level * level - self.square) * weight;
    }

    fn variance(self) -> f32 {
        self.square - self.mean * self.mean
    }
}

impl EchoLag {
    /// Creates an estimate from `past` frames, without a known echo.
    pub fn new(past: f32) -> Self {
        Self {
            past: past.max(FEWEST),
            heard: Moments::default(),
            played: [Moments::default(); LAGS],
            products: [0.0; LAGS],
            frames: 0.0,
        }
    }

    /// Learns from the microphone level of a frame, in decibels, and the playback level for each
    /// delay.
    pub fn learn(&mut self, heard: f32, played: &[f32; LAGS]) {
        self.frames = (self.frames + 1.0).min(self.past);
        let weight = 1.0 / self.frames;
        self.heard.add(heard, weight);
        let each = self.played.iter_mut().zip(&mut self.products).zip(played);
        for ((moments, product), played) in each {
            moments.add(*played, weight);
            *product += (heard * played - *product) * weight;
        }
    }

    /// Returns the delay, in frames; `None` while there is no echo.
    pub fn frames(&self) -> Option<usize> {
        let correlation = |lag: usize| {
            let covariance = self.products[lag] - self.heard.mean * self.played[lag].mean;
            let variances = self.heard.variance() * self.played[lag].variance();
            // Without the lower bound, levels that hardly change would correlate by chance.
            covariance / variances.max(1.0).sqrt()
        };
        let all = (0..LAGS).map(|lag| (lag, correlation(lag)));
        let (lag, alike) = all.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        (self.frames >= FEWEST && alike > ALIKE).then_some(lag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAST: f32 = 100.0;

    /// Returns levels of speech: random syllables and pauses.
    fn levels(seed: u64) -> Vec<f32> {
        let mut chance = seed;
        let mut level = move |_| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if (chance >> 40).is_multiple_of(3) { 20.0 } else { 60.0 }
        };
        (0..400).map(&mut level).collect()
    }

    fn lag(heard: &[f32], played: &[f32]) -> Option<usize> {
        let mut lag = EchoLag::new(PAST);
        for now in LAGS..heard.len() {
            let mut before = [0.0; LAGS];
            before.iter_mut().enumerate().for_each(|(n, level)| *level = played[now - n]);
            lag.learn(heard[now], &before);
        }
        lag.frames()
    }

    #[test]
    fn the_delay_of_an_echo_is_found_and_follows_it() {
        let played = levels(1);
        for delay in [0, 7, LAGS - 1] {
            let mut heard: Vec<f32> = played.iter().map(|level| level - 15.0).collect();
            heard.rotate_right(delay);
            assert_eq!(lag(&heard, &played), Some(delay));
        }
        // The delay changes midway.
        let at = |delay: usize, n: usize| played[n.saturating_sub(delay)];
        let heard: Vec<f32> =
            (0..played.len()).map(|n| if n < 150 { at(4, n) } else { at(9, n) }).collect();
        assert_eq!(lag(&heard, &played), Some(9));
    }

    #[test]
    fn sound_unrelated_to_the_playback_is_no_echo() {
        assert_eq!(lag(&levels(1), &levels(2)), None);
        assert_eq!(lag(&[10.0; 400], &levels(2)), None);
        assert_eq!(EchoLag::new(PAST).frames(), None);
    }
}
