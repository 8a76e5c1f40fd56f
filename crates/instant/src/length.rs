//! Lengths of time. Not for reading them from words, which is in `times`.

/// Length of time in units that do not depend on one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Length {
    pub(crate) months: i64,
    pub(crate) days: i64,
    pub(crate) seconds: i64,
}
