//! Dice: parsing of `2d6+3`, and a repeatable random generator. Not for any rules of a world.

use serde::{Deserialize, Serialize};

/// Maximum number of dice in one roll, and of sides of one die.
const MAX_DICE: u32 = 100;
const MAX_SIDES: u32 = 1_000;
const MAX_MODIFIER: i64 = 10_000;

/// Random generator (SplitMix64). The same seed gives the same rolls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dice(u64);

impl Dice {
    /// Creates dice with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Rolls one die.
    pub fn die(&mut self, sides: u32) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The bias of the remainder is below one in 2^54 for 1000 sides.
        i64::try_from(mixed % u64::from(sides.max(1))).unwrap_or_default() + 1
    }

    /// Rolls all dice of a throw.
    pub fn throw(&mut self, what: Throw) -> DiceResult {
        let rolls: Vec<i64> = (0..what.count).map(|_| self.die(what.sides)).collect();
        let total = rolls.iter().sum::<i64>() + what.modifier;
        DiceResult { rolls, total }
    }
}

/// Number of dice of one kind and a modifier: `2d6+3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throw {
    /// Number of dice.
    pub count: u32,
    /// Sides of each die.
    pub sides: u32,
    /// Number that is added to their sum.
    pub modifier: i64,
}

/// Result of a throw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiceResult {
    /// Result of each die.
    pub rolls: Vec<i64>,
    /// Sum of the dice and the modifier.
    pub total: i64,
}

impl Throw {
    /// Parses `d20`, `2d6`, `2d6+3`, `1d8 - 1`; none for other text.
    pub fn parse(text: &str) -> Option<Self> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (count, rest) = text.split_once(['d', 'D'])?;
        let sign = rest.find(['+', '-']).unwrap_or(rest.len());
        let (sides, modifier) = rest.split_at(sign);
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = |text: &str| if digits(text) { text.parse::<u32>().ok() } else { None };
        let count = if count.is_empty() { 1 } else { number(count)? };
        let sides = number(sides)?;
        let modifier = match modifier.split_at_checked(1) {
            None => 0,
            Some(("-", amount)) => -i64::from(number(amount)?),
            Some((_, amount)) => i64::from(number(amount)?),
        };
        let sensible = (1..=MAX_DICE).contains(&count)
            && (2..=MAX_SIDES).contains(&sides)
            && modifier.abs() <= MAX_MODIFIER;
        sensible.then_some(Self { count, sides, modifier })
    }

    /// Returns a throw of twice the dice, for a critical hit.
    #[must_use]
    pub fn doubled(self) -> Self {
        Self { count: self.count * 2, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_are_read() {
        let read = |text| Throw::parse(text).map(|t| (t.count, t.sides, t.modifier));
        assert_eq!(read("2d6+3"), Some((2, 6, 3)));
        assert_eq!(read("d20"), Some((1, 20, 0)));
        assert_eq!(read(" 1D8 - 1 "), Some((1, 8, -1)));
        for wrong in
            ["", "6", "d", "2d", "0d6", "2d1", "2d6+", "2d6++1", "101d6", "d1001", "2d6x", "+2d6"]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_rolls_and_all_sides_occur() {
        let throw = Throw { count: 100, sides: 6, modifier: 0 };
        let thrown = Dice::new(7).throw(throw);
        assert_eq!(thrown, Dice::new(7).throw(throw));
        assert_ne!(thrown, Dice::new(8).throw(throw));
        assert!((1..=6).all(|side| thrown.rolls.contains(&side)), "{thrown:?}");
    }

    proptest! {
        #[test]
        fn every_roll_is_within_its_bounds(text in "[0-9]{0,3}d[0-9]{1,4}([+-][0-9]{1,5})?", seed: u64) {
            if let Some(throw) = Throw::parse(&text) {
                let thrown = Dice::new(seed).throw(throw);
                let low = i64::from(throw.count) + throw.modifier;
                let high = i64::from(throw.count * throw.sides) + throw.modifier;
                prop_assert!((low..=high).contains(&thrown.total));
            }
        }

        #[test]
        fn no_text_causes_a_panic(text in ".{0,20}") {
            Throw::parse(&text);
        }
    }
}
