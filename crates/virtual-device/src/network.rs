//! One direction of a network between a device and a server in virtual time: the latency of
//! messages, which stay in order. Not for their content.
//!
//! Messages sent at the same time travel together. Each such group takes the base latency and a
//! part of the jitter: usually little, sometimes all of it.

use std::time::Duration;

use super::dice::Dice;

/// One direction of a network.
#[derive(Debug)]
pub struct Way {
    dice: Dice,
    base: Duration,
    jitter: Duration,
    sent: Duration,
    arrives: Duration,
}

impl Way {
    /// Creates a direction with a latency of at least `base`, and up to `jitter` more.
    pub fn new(dice: Dice, base: Duration, jitter: Duration) -> Self {
        Self { dice, base, jitter, sent: Duration::MAX, arrives: Duration::ZERO }
    }

    /// Returns the arrival time of a message that is sent now.
    pub fn arrival(&mut self, now: Duration) -> Duration {
        if self.sent != now {
            self.sent = now;
            let most = u64::try_from(self.jitter.as_micros()).unwrap_or(u64::MAX);
            let most = match self.dice.between(0, 19) {
                0 => return self.arrive(now + self.base + self.jitter),
                1..=4 => most,
                _ => most / 4,
            };
            let late = Duration::from_micros(self.dice.between(0, most));
            return self.arrive(now + self.base + late);
        }
        self.arrives
    }

    fn arrive(&mut self, at: Duration) -> Duration {
        self.arrives = self.arrives.max(at);
        self.arrives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_in_order_and_are_sometimes_late() {
        let ms = Duration::from_millis;
        let mut way = Way::new(Dice::new(7), ms(20), ms(100));
        let sent = (0..400).map(|n| ms(60) * n);
        let arrivals: Vec<_> = sent.clone().map(|at| (at, way.arrival(at))).collect();
        assert!(arrivals.is_sorted_by_key(|(_, arrival)| *arrival));
        let late = arrivals.iter().map(|(at, arrival)| *arrival - *at - ms(20));
        assert_eq!(late.clone().max(), Some(ms(100)));
        assert!(late.filter(|late| *late < ms(50)).count() > 300);
        assert_eq!(way.arrival(ms(99_999)), way.arrival(ms(99_999)), "they travel together");
    }
}
