//! Values that may change while the server runs: who uses one looks it up at each use. Not for
//! deciding what a change may be.

use std::sync::Arc;

use arc_swap::ArcSwap;

/// A value that may change. Clones share it.
#[derive(Debug)]
pub struct Reloadable<T>(Arc<ArcSwap<T>>);

impl<T> Reloadable<T> {
    /// This value, until another is set.
    pub fn new(value: T) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(value)))
    }

    /// The value as it is now.
    pub fn get(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Sets another value, for all that share it.
    pub fn set(&self, value: T) {
        self.0.store(Arc::new(value));
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
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
        let (clone, before) = (live.clone(), live.get());
        live.set(2);
        assert_eq!((*before, *clone.get()), (1, 2));
    }
}
