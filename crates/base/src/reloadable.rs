//! Values that may change while the server runs: readers load the value at each use. Not for
//! deciding which changes are allowed.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// Value that may be replaced at run time. Clones share it.
#[derive(Debug)]
pub struct Reloadable<T>(Arc<ArcSwap<T>>);

impl<T> Reloadable<T> {
    /// Creates a value that stays until another is set.
    pub fn new(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// Returns the current value.
    pub fn get(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces the value for all clones.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: PartialEq> PartialEq for Reloadable<T> {
    /// Compares the current values.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl<T> From<T> for Reloadable<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Default> Default for Reloadable<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_see_a_change() {
        let live = Reloadable::new(1);
        let clone = live.clone();
        let before = live.get();
        live.set(2);
        assert_eq!((*before, *clone.get()), (1, 2));
    }
}
