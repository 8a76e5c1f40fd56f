//! Exact fractions: four operations, powers, and their digits. Not for the words of numbers, see `numbers`.

use std::cmp::Ordering;

/// Digits after the point of a value that has more.
const PLACES: u32 = 6;

/// Fraction of two integers in lowest terms; the denominator is positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fraction {
    top: i128,
    bottom: i128,
}

/// Digits of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Digits {
    /// The digits, with `-` and `.`, without separators of thousands.
    pub(crate) text: String,
    /// True if the value was rounded.
    pub(crate) is_rounded: bool,
}

fn common_divisor(one: i128, other: i128) -> i128 {
    let mut a = one.unsigned_abs();
    let mut b = other.unsigned_abs();
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1).max(1)
}

impl Fraction {
    /// The value 0.
    pub(crate) const ZERO: Self = Self { top: 0, bottom: 1 };

    /// Returns a fraction; `None` if `bottom` is 0 or the terms are too large.
    pub(crate) fn new(top: i128, bottom: i128) -> Option<Self> {
        if bottom == 0 {
            return None;
        }
        let divisor = common_divisor(top, bottom);
        let sign = if bottom < 0 { -1 } else { 1 };
        let top = (top / divisor).checked_mul(sign)?;
        Some(Self { top, bottom: (bottom / divisor).checked_mul(sign)? })
    }

    /// Returns an integer.
    pub(crate) fn whole(value: i64) -> Self {
        Self { top: i128::from(value), bottom: 1 }
    }

    /// Reads digits with at most one point, such as `3.5`; `None` if there is anything else.
    pub(crate) fn from_digits(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty()
            || whole.len() + decimals.len() > 30
            || !is_digits(whole)
            || !is_digits(decimals)
        {
            return None;
        }
        let top = format!("{whole}{decimals}").parse().ok()?;
        Self::new(top, 10_i128.checked_pow(u32::try_from(decimals.len()).ok()?)?)
    }

    /// Returns the value as an integer; `None` if it is none.
    pub(crate) fn as_whole(self) -> Option<i64> {
        (self.bottom == 1).then_some(self.top).and_then(|top| i64::try_from(top).ok())
    }

    /// Returns the nearest double.
    #[expect(clippy::cast_precision_loss, reason = "the nearest double is what is wanted")]
    pub(crate) fn as_f64(self) -> f64 {
        self.top as f64 / self.bottom as f64
    }

    /// Reports whether the value is 0.
    pub(crate) fn is_zero(self) -> bool {
        self.top == 0
    }

    /// Reports whether the value is below 0.
    pub(crate) fn is_negative(self) -> bool {
        self.top < 0
    }

    /// Returns the sum; `None` if it is too large.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        let one = self.top.checked_mul(other.bottom)?;
        let two = other.top.checked_mul(self.bottom)?;
        Self::new(one.checked_add(two)?, self.bottom.checked_mul(other.bottom)?)
    }

    /// Returns the difference; `None` if it is too large.
    pub(crate) fn minus(self, other: Self) -> Option<Self> {
        self.plus(other.negated())
    }

    /// Returns the product; `None` if it is too large.
    pub(crate) fn times(self, other: Self) -> Option<Self> {
        Self::new(self.top.checked_mul(other.top)?, self.bottom.checked_mul(other.bottom)?)
    }

    /// Returns the quotient; `None` if `other` is 0 or the result is too large.
    pub(crate) fn over(self, other: Self) -> Option<Self> {
        Self::new(self.top.checked_mul(other.bottom)?, self.bottom.checked_mul(other.top)?)
    }

    /// Returns the power; `None` if the exponent is no integer from -64 to 64, or the result is too large.
    pub(crate) fn power(self, exponent: Self) -> Option<Self> {
        let exponent = i32::try_from(exponent.as_whole()?).ok().filter(|e| e.abs() <= 64)?;
        let count = exponent.unsigned_abs();
        let raised = Self::new(self.top.checked_pow(count)?, self.bottom.checked_pow(count)?)?;
        if exponent < 0 { Self::whole(1).over(raised) } else { Some(raised) }
    }

    /// Returns the square root; `None` if it is no fraction.
    pub(crate) fn square_root(self) -> Option<Self> {
        let root = |value: i128| {
            let root = u128::try_from(value).ok()?.isqrt();
            (root * root == value.unsigned_abs())
                .then_some(root)
                .and_then(|r| i128::try_from(r).ok())
        };
        Self::new(root(self.top)?, root(self.bottom)?)
    }

    /// Returns the value with the other sign.
    pub(crate) fn negated(self) -> Self {
        Self { top: self.top.checked_neg().unwrap_or(i128::MAX), bottom: self.bottom }
    }

    /// Returns the value without its sign.
    pub(crate) fn absolute(self) -> Self {
        if self.is_negative() { self.negated() } else { self }
    }

    /// Returns the nearest integer, halves away from 0.
    pub(crate) fn rounded(self) -> Option<i64> {
        self.times_ten_to(0).and_then(|value| i64::try_from(value).ok())
    }

    fn times_ten_to(self, places: u32) -> Option<i128> {
        let top = self.top.checked_mul(10_i128.checked_pow(places)?)?;
        let half = if top < 0 { -(self.bottom / 2) } else { self.bottom / 2 };
        Some(top.checked_add(half)? / self.bottom)
    }

    /// Returns the digits, with at most `places` after the point.
    pub(crate) fn digits(self, places: u32) -> Option<Digits> {
        let value = self.times_ten_to(places)?;
        let is_rounded = Self::new(value, 10_i128.checked_pow(places)?) != Some(self);
        let sign = if value < 0 { "-" } else { "" };
        let all = format!("{:0>width$}", value.unsigned_abs(), width = places as usize + 1);
        let (whole, decimals) = all.split_at(all.len() - places as usize);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        Some(Digits { text: format!("{sign}{whole}{point}{decimals}"), is_rounded })
    }

    /// Returns the digits of a result: all of them if there are few, else two after the point, more for values near 0.
    pub(crate) fn result_digits(self) -> Option<Digits> {
        let all = self.digits(PLACES)?;
        if !all.is_rounded {
            return Some(all);
        }
        let size = self.absolute().as_f64();
        let places = if size < 0.01 {
            PLACES
        } else if size < 1.0 {
            4
        } else {
            2
        };
        self.digits(places)
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let difference = self.minus(*other)?;
        Some(difference.top.cmp(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Fraction {
        Fraction::from_digits(text).unwrap()
    }

    #[test]
    fn digits_are_exact_or_said_to_be_rounded() {
        let shown = |f: Fraction| f.result_digits().unwrap();
        assert_eq!(shown(of("98.60")), Digits { text: "98.6".into(), is_rounded: false });
        let third = of("10").over(of("3")).unwrap();
        assert_eq!(shown(third), Digits { text: "3.33".into(), is_rounded: true });
        assert_eq!(shown(of("0.5").negated()).text, "-0.5");
        assert_eq!(shown(of("2").power(of("10")).unwrap()).text, "1024");
        assert_eq!(of("81").square_root(), Some(of("9")));
        assert_eq!(of("2").square_root(), None);
        assert_eq!(of("1").over(Fraction::ZERO), None);
    }
}
