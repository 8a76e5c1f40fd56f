//! Tools offered in one round, under the names that the model sees. Not for collecting them, nor
//! for calls.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use hearken_ports::{OfferedTool, Tool, ToolSource};
use tokio::sync::Semaphore;

use super::allotment::allot;
use super::names::{Names, nearest};
use super::schema::Schema;

/// Source with the semaphore that limits its concurrent calls.
#[derive(Clone)]
pub(super) struct SourceSlot {
    pub(super) source: Arc<dyn ToolSource>,
    pub(super) semaphore: Arc<Semaphore>,
}

/// Tools of a source that may be offered.
#[derive(Clone)]
pub(super) struct SourceTools {
    pub(super) list: Arc<[Tool]>,
    /// Number of the connection of each tool, as [`ToolSource::connection_of`] returns it.
    pub(super) connections: Vec<u64>,
}

impl SourceTools {
    /// Returns true if both have the same tools over the same connections.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.connections == other.connections
            && (Arc::ptr_eq(&self.list, &other.list) || self.list == other.list)
    }

    /// Returns the places of the tools that are offered if there is room for this number. Each
    /// connection has the same share: a source may have one for each of its peers.
    pub(super) fn within(&self, room: usize) -> Vec<usize> {
        let mut peers: Vec<u64> = Vec::new();
        let mut lengths: Vec<usize> = Vec::new();
        let mut peer_of = Vec::with_capacity(self.connections.len());
        for connection in &self.connections {
            let known = peers.iter().position(|peer| peer == connection);
            let peer = known.unwrap_or_else(|| {
                peers.push(*connection);
                lengths.push(0);
                peers.len() - 1
            });
            lengths[peer] += 1;
            peer_of.push(peer);
        }
        let mut shares = allot(&lengths, room);
        let has_room = |place: &usize| {
            let share = &mut shares[peer_of[*place]];
            let has_room = *share > 0;
            *share = share.saturating_sub(1);
            has_room
        };
        (0..self.connections.len()).filter(has_room).collect()
    }
}

/// Offer with its inputs. Conversations with the same tools share it.
#[derive(Default)]
pub(super) struct BuiltOffer {
    pub(super) number: u64,
    pub(super) names: Names,
    /// Tools of each source.
    pub(super) lists: Vec<SourceTools>,
    pub(super) offer: Arc<Offer>,
}

/// Tools offered in one round of a turn.
#[derive(Default)]
pub struct Offer {
    pub(super) tools: Arc<[OfferedTool]>,
    pub(super) by_name: HashMap<String, Offered>,
}

/// Tool of an offer.
pub(super) struct Offered {
    /// Name of the source.
    pub(super) source: String,
    /// Number of the connection over which a call is made.
    pub(super) connection: u64,
    pub(super) tool: Tool,
    /// Compiled schema, created at the first call.
    pub(super) schema: OnceLock<Schema>,
}

impl Offer {
    /// Returns the tools as the model sees them.
    pub fn tools(&self) -> &Arc<[OfferedTool]> {
        &self.tools
    }

    /// Returns the names of the source and its tool for an offered name.
    pub fn origin(&self, name: &str) -> Option<(&str, &str)> {
        self.find(name).map(|found| (found.source.as_str(), found.tool.name.as_str()))
    }

    /// Returns the number of the connection of the tool with this offered name; 0 if there is none.
    pub fn connection(&self, name: &str) -> u64 {
        self.find(name).map_or(0, |found| found.connection)
    }

    /// Returns the offered name that a model means. The model may have used the name at the source,
    /// or other letter case. `None` if no name or more than one matches.
    pub fn resolve_name(&self, name: &str) -> Option<&str> {
        let legal = nearest(name);
        let exact = self.by_name.get_key_value(name).or_else(|| self.by_name.get_key_value(&legal));
        if let Some((name, _)) = exact {
            return Some(name);
        }
        let own = self.only(|_, offered| offered.tool.name == name.trim());
        own.or_else(|| self.only(|offered, _| offered.eq_ignore_ascii_case(&legal)))
    }

    /// Returns the name that satisfies the condition, if exactly one does.
    fn only(&self, holds: impl Fn(&str, &Offered) -> bool) -> Option<&str> {
        let mut found = self.by_name.iter().filter(|(name, offered)| holds(name, offered));
        let (name, _) = found.next()?;
        found.next().is_none().then_some(name.as_str())
    }

    /// Returns the tool with this offered name.
    pub(super) fn find(&self, name: &str) -> Option<&Offered> {
        self.by_name.get(name)
    }
}
