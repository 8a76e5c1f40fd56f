//! Interns tool lists and offers. Devices of one firmware report the same tools, and a thousand of
//! them need one list and one offer. Not for deciding which tools are offered.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hearken_base::memory_pool::{MemoryExceeded, PeerMemory, Reservation};
use hearken_ports::Tool;
use hearken_ports::tool_limits::tool_weight;

use super::offer::BuiltOffer;

/// Minimum number of entries before unused ones are dropped.
const FEW: usize = 64;

/// Interner of tool lists and of their offers. Clones share the tables. It holds weak references
/// only.
// A thousand devices with the same forty tools hold one list. Decision 0080.
#[derive(Clone, Default)]
pub struct ToolsetInterner(Arc<Mutex<Tables>>);

#[derive(Default)]
struct Tables {
    lists: HashMap<u64, Vec<Known>>,
    built: HashMap<OfferKey, Weak<BuiltOffer>>,
    /// Number of entries at which each table is cleaned up next.
    prune_at: [usize; 2],
    made: u64,
}

/// List in use, with its memory reservation if it belongs to a peer.
struct Known {
    list: Weak<[Tool]>,
    weight: Weak<Reservation>,
}

/// List of a peer's tools. Its memory is reserved once for all peers that report the same list.
#[derive(Debug, Clone)]
pub struct PeerTools {
    /// The tools.
    pub list: Arc<[Tool]>,
    _weight: Arc<Reservation>,
}

/// Inputs of a [`BuiltOffer`], used as key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct OfferKey {
    /// Number of the previous [`BuiltOffer`], whose tool names are retained. 0 for none.
    pub(super) before: u64,
    pub(super) max_tools: usize,
    /// Number of sources that belong to the device itself.
    pub(super) own: usize,
    /// Name of each source, and the address of its list.
    pub(super) lists: Vec<(String, usize)>,
    /// Numbers of the connections of each source's tools.
    pub(super) connections: Vec<Vec<u64>>,
}

impl ToolsetInterner {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an equal list that is in use, else this list.
    pub fn list(&self, list: Arc<[Tool]>) -> Arc<[Tool]> {
        let hash = hash_of(&list);
        let mut tables = self.tables();
        let known = tables.like(hash, &list);
        if let Some(list) = known.and_then(|known| known.list.upgrade()) {
            return list;
        }
        tables.add(hash, &list, Weak::new());
        list
    }

    /// Stores the list of a peer, or returns an equal one of another peer. Its weight is reserved
    /// twice, for the list and for the offer that is built from it.
    ///
    /// # Errors
    /// Returns the first limit that is exceeded.
    pub fn keep(
        &self,
        list: Arc<[Tool]>,
        memory: &PeerMemory,
    ) -> Result<PeerTools, MemoryExceeded> {
        let hash = hash_of(&list);
        let mut tables = self.tables();
        let known = tables.like(hash, &list);
        let known = known.map(|known| (known.list.upgrade(), known.weight.upgrade()));
        let list = match known {
            Some((Some(list), Some(weight))) => return Ok(PeerTools { list, _weight: weight }),
            // A list of the server's own, which no reservation covers yet.
            Some((Some(list), None)) => list,
            _ => list,
        };
        let weighs: usize = list.iter().map(tool_weight).sum();
        let weight = Arc::new(memory.reserve(2 * weighs)?);
        tables.add(hash, &list, Arc::downgrade(&weight));
        Ok(PeerTools { list, _weight: weight })
    }

    /// Returns the value for this key, or creates it. `gather` receives its number.
    pub(super) fn built(
        &self,
        key: OfferKey,
        build: impl FnOnce(u64) -> BuiltOffer,
    ) -> Arc<BuiltOffer> {
        let known = self.tables().built.get(&key).and_then(Weak::upgrade);
        if let Some(known) = known {
            return known;
        }
        let number = {
            let mut tables = self.tables();
            tables.prune();
            tables.made += 1;
            tables.made
        };
        let built = Arc::new(build(number));
        self.tables().built.insert(key, Arc::downgrade(&built));
        built
    }
}

fn hash_of(list: &[Tool]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for tool in list {
        (&tool.name, &tool.description, tool.finishes, tool.destructive).hash(&mut hasher);
        tool.parameters.to_string().hash(&mut hasher);
    }
    hasher.finish()
}

impl Tables {
    /// Returns the entry of an equal list that is in use.
    fn like(&mut self, hash: u64, list: &[Tool]) -> Option<&Known> {
        self.prune();
        let like = self.lists.get(&hash)?;
        like.iter().find(|known| known.list.upgrade().is_some_and(|known| *known == *list))
    }

    /// Adds a list, replacing an entry without a reservation.
    fn add(&mut self, hash: u64, list: &Arc<[Tool]>, weight: Weak<Reservation>) {
        let like = self.lists.entry(hash).or_default();
        let list = Arc::downgrade(list);
        like.retain(|known| known.list.strong_count() > 0 && !known.list.ptr_eq(&list));
        like.push(Known { list, weight });
    }

    /// Drops unused entries, each time a table has doubled since the last cleanup.
    fn prune(&mut self) {
        if self.lists.len() >= self.prune_at[0].max(FEW) {
            self.lists.retain(|_, like| like.iter().any(|known| known.list.strong_count() > 0));
            self.prune_at[0] = 2 * self.lists.len();
        }
        if self.built.len() >= self.prune_at[1].max(FEW) {
            self.built.retain(|_, known| known.strong_count() > 0);
            self.prune_at[1] = 2 * self.built.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(name: &str) -> Arc<[Tool]> {
        let tool = Tool {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            finishes: false,
            destructive: false,
        };
        [tool].into()
    }

    #[test]
    fn only_equal_lists_are_shared() {
        let interner = ToolsetInterner::default();
        let first = interner.list(list("a"));
        assert!(Arc::ptr_eq(&first, &interner.clone().list(list("a"))));
        assert!(!Arc::ptr_eq(&first, &interner.list(list("b"))));
    }

    #[test]
    fn unused_lists_are_dropped() {
        let interner = ToolsetInterner::default();
        let held = interner.list(list("held"));
        for n in 0..1_000 {
            interner.list(list(&n.to_string()));
        }
        assert!(interner.tables().lists.len() <= 2 * FEW);
        assert!(Arc::ptr_eq(&held, &interner.list(list("held"))));
    }
}
