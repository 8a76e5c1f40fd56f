//! Code for setting the first password in a browser: printed in the log, single-use, limited in
//! time and attempts. Not for passwords.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::auth::same;

/// Lifetime of a code.
pub const GOOD_FOR: Duration = Duration::from_hours(1);
/// Number of wrong codes after which the code becomes invalid.
const TRIES: u32 = 20;
/// Number of digits of a code.
const DIGITS: usize = 8;

/// Current code of the server, if any.
#[derive(Default)]
pub struct SetupCode(Mutex<Option<Code>>);

struct Code {
    digits: String,
    until: Instant,
    wrong: u32,
}

impl SetupCode {
    /// Creates a new code, and returns it in readable form.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn renew(&self) -> Result<String, getrandom::Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let number = u128::from_le_bytes(random) % 10_u128.pow(8);
        let digits = format!("{number:0width$}", width = DIGITS);
        let shown = format!("{}-{}", &digits[..DIGITS / 2], &digits[DIGITS / 2..]);
        *self.code() = Some(Code { digits, until: Instant::now() + GOOD_FOR, wrong: 0 });
        Ok(shown)
    }

    /// Returns true if this is the code; otherwise counts a failed attempt.
    pub fn is(&self, told: &str) -> bool {
        let told: String = told.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
        let mut kept = self.code();
        let Some(code) = kept.as_mut() else { return false };
        let fits = same(&told, &code.digits);
        if !fits {
            code.wrong += 1;
        }
        if code.wrong >= TRIES || Instant::now() >= code.until {
            *kept = None;
            return false;
        }
        fits
    }

    /// Invalidates the code, after a password was set.
    pub fn end(&self) {
        *self.code() = None;
    }

    fn code(&self) -> MutexGuard<'_, Option<Code>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_code_is_valid_for_an_hour_or_until_it_is_ended() {
        let code = SetupCode::default();
        assert!(!code.is(""), "there is none");
        let shown = code.renew().unwrap();
        assert!(shown.len() == 9 && shown.as_bytes()[4] == b'-', "{shown}");
        assert!(code.is(&shown) && code.is(&format!(" {} ", shown.replace('-', " "))));
        tokio::time::advance(GOOD_FOR - Duration::from_secs(1)).await;
        assert!(code.is(&shown));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!code.is(&shown));
        let other = code.renew().unwrap();
        assert_ne!(shown, other);
        code.end();
        assert!(!code.is(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_wrong_codes_invalidate_the_code() {
        let code = SetupCode::default();
        let shown = code.renew().unwrap();
        for _ in 0..TRIES - 1 {
            assert!(!code.is("0000-000x"));
        }
        assert!(code.is(&shown));
        assert!(!code.is("") && !code.is(&shown));
    }
}
