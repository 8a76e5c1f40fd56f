//! Pins of tools' definitions: the hash of each as it was seen first, or accepted last. Detects
//! definitions that have changed since. Not for storing pins, nor for the consequences of a change.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hearken_base::paced_log::PacedLog;
use hearken_ports::Tool;
use hearken_ports::store::KeptPin;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

/// Maximum number of pins. A tool that was not pinned for lack of space counts as changed.
const MAX_PINS: usize = 20_000;
/// Maximum number of pins of one agent: if its tools have other names at each connection, it does
/// not use up the pins of others.
const MAX_PINS_OF_AGENT: usize = 2_000;

/// Agent, source and tool.
type Key = (String, String, String);

/// Pins of all sources of one kind; clones share them.
#[derive(Clone, Default)]
pub(super) struct Pins(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<BTreeMap<Key, Pin>>,
    /// Notified when there are unstored pins.
    added: Notify,
}

#[derive(Clone)]
struct Pin {
    hash: String,
    is_stored: bool,
    /// Hash of the changed definition that was logged last.
    logged: String,
}

impl Pin {
    fn new(hash: String, is_stored: bool) -> Self {
        Self { hash, is_stored, logged: String::new() }
    }
}

impl Pins {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Pin>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pins of one source. `agent` is empty for sources that belong to no agent.
    pub(super) fn of(&self, agent: &str, source: &str) -> SourcePins {
        let agent = agent.to_owned();
        let source = source.to_owned();
        SourcePins { all: self.clone(), agent, source, warnings: Arc::default() }
    }

    /// Waits until there are unstored pins.
    pub(super) async fn added(&self) {
        self.0.added.notified().await;
    }

    /// Returns the unstored pins.
    pub(super) fn unstored(&self) -> Vec<KeptPin> {
        let known = self.lock();
        let new = known.iter().filter(|(_, pin)| !pin.is_stored);
        new.map(|((agent, source, tool), pin)| kept(agent, source, tool, &pin.hash)).collect()
    }

    /// Applies the state of the store: its pins replace those of this instance. Pins that it no
    /// longer has are removed; those that it does not have yet are retained.
    pub(super) fn replace(&self, stored: impl IntoIterator<Item = KeptPin>) {
        let mut known = self.lock();
        known.retain(|_, pin| !pin.is_stored);
        for KeptPin { agent, source, tool, hash } in stored {
            known.insert((agent, source, tool), Pin::new(hash, true));
        }
    }
}

fn kept(agent: &str, source: &str, tool: &str, hash: &str) -> KeptPin {
    KeptPin {
        agent: agent.to_owned(),
        source: source.to_owned(),
        tool: tool.to_owned(),
        hash: hash.to_owned(),
    }
}

/// Pins of one source; clones share them.
#[derive(Clone)]
pub(super) struct SourcePins {
    all: Pins,
    agent: String,
    source: String,
    warnings: Arc<PacedLog>,
}

/// What a listing of a source differs in from its pins.
#[derive(Default)]
struct Noted {
    /// Number of tools that have changed since they were last noted, and the name of the first.
    changed: usize,
    first: String,
    /// Number of tools that could not be pinned.
    unpinned: usize,
}

impl SourcePins {
    fn key(&self, tool: &str) -> Key {
        (self.agent.clone(), self.source.clone(), tool.to_owned())
    }

    /// Pins the definitions that are seen for the first time, and logs how many have changed.
    pub(super) fn note(&self, tools: &[Tool]) {
        let Noted { changed, first, unpinned } = self.noted(tools);
        let source = &self.source;
        // A server may list other definitions continually: one line for a listing, a few a minute.
        if changed > 0 {
            self.warnings.log(|left_out| {
                tracing::warn!(
                    source,
                    changed,
                    first,
                    left_out,
                    "the definitions of tools have changed: `hearken tools list` shows them, \
                     `hearken tools accept` accepts them"
                );
            });
        }
        if unpinned > 0 {
            self.warnings.log(|left_out| {
                tracing::warn!(source, unpinned, left_out, "too many tools are pinned");
            });
        }
    }

    /// Pins the definitions that are seen for the first time.
    fn noted(&self, tools: &[Tool]) -> Noted {
        // Before the lock, which all sources share: a list may have a MiB.
        let hashes: Vec<String> = tools.iter().map(hash).collect();
        let mut noted = Noted::default();
        let mut known = self.all.lock();
        let mut added = false;
        let mut room = self.room(&known);
        for (tool, hash) in tools.iter().zip(hashes) {
            let key = self.key(&tool.name);
            match known.get_mut(&key) {
                Some(pin) if pin.hash == hash || pin.logged == hash => {}
                Some(pin) => {
                    if noted.changed == 0 {
                        noted.first.clone_from(&tool.name);
                    }
                    noted.changed += 1;
                    pin.logged = hash;
                }
                // The first definition is trusted; only later changes count. Decision 0050.
                None if room > 0 => {
                    room -= 1;
                    known.insert(key, Pin::new(hash, false));
                    added = true;
                }
                None => noted.unpinned += 1,
            }
        }
        drop(known);
        if added {
            self.all.0.added.notify_one();
        }
        noted
    }

    /// Reports whether the maximum number of pins of the agent is reached.
    pub(super) fn is_full(&self) -> bool {
        self.room(&self.all.lock()) == 0
    }

    /// Returns the number of further pins that the agent may have.
    fn room(&self, known: &BTreeMap<Key, Pin>) -> usize {
        let room = MAX_PINS.saturating_sub(known.len());
        if self.agent.is_empty() {
            return room;
        }
        let first = (self.agent.clone(), String::new(), String::new());
        let its = known.range(first..).take_while(|((agent, ..), _)| *agent == self.agent);
        room.min(MAX_PINS_OF_AGENT.saturating_sub(its.count()))
    }

    /// Reports whether this definition differs from that of its pin. `None` if it has none.
    pub(super) fn is_changed(&self, tool: &Tool) -> Option<bool> {
        let pinned = self.all.lock().get(&self.key(&tool.name)).map(|pin| pin.hash.clone());
        pinned.map(|pinned| pinned != hash(tool))
    }

    /// Returns the name of the first of these tools that is not pinned as it is, and whose hash is
    /// not in `seen`, by the name of the tool.
    pub(super) fn first_unseen<'a>(
        &self,
        tools: &'a [Tool],
        seen: &BTreeMap<String, String>,
    ) -> Option<&'a str> {
        let is_unseen = |tool: &&Tool| {
            self.is_changed(tool) != Some(false) && seen.get(&tool.name) != Some(&hash(tool))
        };
        tools.iter().find(is_unseen).map(|tool| tool.name.as_str())
    }

    /// Returns the pins that these definitions would have.
    pub(super) fn pins_for(&self, tools: &[Tool]) -> Vec<KeptPin> {
        let pin = |tool: &Tool| {
            let (agent, source, name) = self.key(&tool.name);
            kept(&agent, &source, &name, &hash(tool))
        };
        tools.iter().map(pin).collect()
    }

    /// Sets the pins of these definitions, which are already stored.
    pub(super) fn set(&self, pins: Vec<KeptPin>) {
        let mut known = self.all.lock();
        for KeptPin { agent, source, tool, hash } in pins {
            known.insert((agent, source, tool), Pin::new(hash, true));
        }
    }

    /// Removes the pins of this source.
    pub(super) fn forget(&self) {
        let is_its = |(agent, source, _): &Key| *agent == self.agent && *source == self.source;
        self.all.lock().retain(|key, _| !is_its(key));
    }
}

/// Returns the SHA-256 of all parts of a definition that a model or a policy sees, in hexadecimal.
pub(super) fn hash(tool: &Tool) -> String {
    // Fields are sorted, and titles omitted: invisible parts do not count as a change. Decision
    // 0050.
    let Tool { name, description, parameters, destructive, .. } = tool;
    let mut text = String::new();
    canonical(&json!([name, description, destructive]), &mut text);
    canonical(parameters, &mut text);
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        // Writing to a String cannot fail.
        write!(hex, "{byte:02x}").unwrap_or_default();
    }
    hex
}

/// Writes JSON with the fields of each object in the order of their names.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (name, field) in fields {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(field, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, parameters: &str) -> Tool {
        Tool {
            name: name.into(),
            description: description.into(),
            parameters: serde_json::from_str(parameters).unwrap(),
            finishes: false,
            destructive: false,
        }
    }

    #[test]
    fn a_definition_is_compared_in_any_order_of_its_fields() {
        let plain = tool("t", "d", r#"{"type": "object", "properties": {"a": {}, "b": [1, 2]}}"#);
        let turned = tool("t", "d", r#"{"properties": {"b": [1,2], "a": {}}, "type": "object"}"#);
        assert_eq!(hash(&plain), hash(&turned));
        assert_eq!(hash(&plain).len(), 64);
        let other = |parameters| tool("t", "d", parameters);
        for changed in [
            tool("t", "D", r#"{"type": "object", "properties": {"a": {}, "b": [1, 2]}}"#),
            other(r#"{"type": "object", "properties": {"a": {}, "b": [2, 1]}}"#),
            other(r#"{"type": "object", "properties": {"a": {}}}"#),
            Tool { destructive: true, ..plain.clone() },
        ] {
            assert_ne!(hash(&plain), hash(&changed), "{changed:?}");
        }
    }

    #[test]
    fn the_first_definition_is_pinned_and_the_store_takes_precedence() {
        let pins = Pins::default();
        let here = pins.of("", "s");
        let there = pins.of("a", "s");
        let first = tool("t", "1", "{}");
        let second = tool("t", "2", "{}");
        here.note(std::slice::from_ref(&first));
        here.note(std::slice::from_ref(&second));
        assert_eq!([&first, &second].map(|tool| here.is_changed(tool)), [Some(false), Some(true)]);
        assert_eq!(there.is_changed(&first), None, "another agent's source of the same name");
        assert_eq!(pins.unstored(), here.pins_for(std::slice::from_ref(&first)));
        pins.replace(here.pins_for(std::slice::from_ref(&second)));
        assert_eq!((here.is_changed(&second), pins.unstored()), (Some(false), vec![]));
        here.set(here.pins_for(std::slice::from_ref(&first)));
        assert_eq!(here.is_changed(&first), Some(false));
        there.note(std::slice::from_ref(&first));
        here.forget();
        assert_eq!((here.is_changed(&first), there.is_changed(&first)), (None, Some(false)));
        pins.replace([]);
        assert_eq!(there.is_changed(&first), Some(false), "it is not stored yet");
    }

    #[test]
    fn only_a_definition_with_the_given_hash_counts_as_seen() {
        let pins = Pins::default().of("", "s");
        let same = tool("same", "1", "{}");
        pins.note(&[same.clone(), tool("a", "1", "{}"), tool("b", "1", "{}")]);
        let a = tool("a", "2", "{}");
        let b = tool("b", "2", "{}");
        let now = [same.clone(), a.clone(), b.clone()];
        let earlier = tool("a", "1", "{}");
        for (seen, unseen) in [
            (vec![], Some("a")),
            (vec![&a], Some("b")),
            (vec![&b], Some("a")),
            (vec![&a, &b], None),
            (vec![&same, &a, &b], None),
            (vec![&earlier, &b], Some("a")),
        ] {
            let seen = seen.into_iter().map(|tool| (tool.name.clone(), hash(tool))).collect();
            assert_eq!(pins.first_unseen(&now, &seen), unseen, "{seen:?}");
        }
        let new = [tool("new", "1", "{}")];
        assert_eq!(pins.first_unseen(&new, &BTreeMap::new()), Some("new"), "it is not pinned");
    }

    #[test]
    fn a_listing_is_one_warning_however_many_tools_have_changed() {
        let pins = Pins::default().of("", "s");
        let list = |description: &str| -> Vec<Tool> {
            (0..1_000).map(|n| tool(&n.to_string(), description, "{}")).collect()
        };
        let noted = |listed: &[Tool]| {
            let Noted { changed, first, unpinned } = pins.noted(listed);
            assert_eq!(unpinned, 0);
            (changed, first)
        };
        let none = (0, String::new());
        let all = (1_000, "0".to_owned());
        for (description, expected) in
            [("1", &none), ("1", &none), ("2", &all), ("2", &none), ("1", &none), ("2", &none)]
        {
            assert_eq!(noted(&list(description)), *expected, "{description}");
        }
        for description in ["3", "4", "3", "4"] {
            assert_eq!(noted(&list(description)), all, "{description}");
        }
        let mut some = list("4");
        some[7].destructive = true;
        assert_eq!(noted(&some), (1, "7".to_owned()));
    }

    #[test]
    fn the_number_of_pins_is_bounded() {
        let pins = Pins::default();
        let tools: Vec<Tool> = (0..500).map(|n| tool(&n.to_string(), "", "{}")).collect();
        // An agent whose tools have other names at each connection does not use up the pins of
        // others.
        for source in 0..=MAX_PINS_OF_AGENT / 500 {
            pins.of("a", &source.to_string()).note(&tools);
        }
        assert_eq!(pins.unstored().len(), MAX_PINS_OF_AGENT);
        let last = pins.of("a", &(MAX_PINS_OF_AGENT / 500).to_string());
        assert_eq!(last.is_changed(&tools[0]), None);
        let other = pins.of("b", "0");
        other.note(&tools);
        assert_eq!(other.is_changed(&tools[0]), Some(false));
        for source in 0..=MAX_PINS / 500 {
            pins.of("", &source.to_string()).note(&tools);
        }
        assert_eq!(pins.unstored().len(), MAX_PINS);
    }
}
