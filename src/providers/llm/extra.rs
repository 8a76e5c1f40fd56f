//! A field of requests that some bases or models refuse, found out by asking. Not for which field.

use std::sync::atomic::{AtomicU8, Ordering};

use http::StatusCode;

const UNKNOWN: u8 = 0;
const TAKEN: u8 = 1;
const REFUSED: u8 = 2;

/// What is known of a field.
pub(super) struct Extra(AtomicU8);

impl Extra {
    /// A field that is to be sent, or never.
    pub(super) fn new(wanted: bool) -> Self {
        Self(AtomicU8::new(if wanted { UNKNOWN } else { REFUSED }))
    }

    /// The field is to be sent.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) != REFUSED
    }

    /// A request with it was answered.
    pub(super) fn is_taken(&self) {
        self.0.store(TAKEN, Ordering::Relaxed);
    }

    /// A request was answered only without it: it is never sent again.
    pub(super) fn is_refused(&self) {
        self.0.store(REFUSED, Ordering::Relaxed);
    }

    /// A request with it that met this status may be answered without it.
    pub(super) fn may_be_why(&self, status: Option<StatusCode>) -> bool {
        let wrong = [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY];
        self.0.load(Ordering::Relaxed) == UNKNOWN && status.is_some_and(|s| wrong.contains(&s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_doubted_until_it_was_taken_once() {
        let field = Extra::new(true);
        let refused = Some(StatusCode::BAD_REQUEST);
        assert!(field.is_wanted() && field.may_be_why(refused));
        assert!(!field.may_be_why(Some(StatusCode::NOT_FOUND)) && !field.may_be_why(None));
        field.is_taken();
        assert!(field.is_wanted() && !field.may_be_why(refused));
        field.is_refused();
        assert!(!field.is_wanted());
        assert!(!Extra::new(false).is_wanted());
    }
}
