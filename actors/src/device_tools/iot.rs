//! Tool source of devices with firmware up to 1.7, which has no MCP: one tool for each method of a
//! thing, and one for reading each property. Not for the messages themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use actix::Recipient;
use futures_util::future::BoxFuture;
use hearken_base::memory_pool::{MemoryExceeded, PeerMemory, Reserved};
use hearken_ports::tool_limits::{MAX_NAME_BYTES, cut_description, tool_weight, within_limits};
use hearken_ports::{Provenance, Tool, ToolCall, ToolError, ToolOutput, ToolSource, source_names};
use hearken_proto::device::Downlink;
use hearken_proto::device::iot::{Command, IotReport, Property, Thing, ThingState, ValueKind};
use hearken_proto::json::weight;
use serde_json::{Map, Value, json};

use crate::messages::DeviceOrder;

/// Maximum number of things stored for a device. Firmware has at most five.
const MAX_THINGS: usize = 64;

/// Maximum number of stored methods of one thing. Firmware has a few.
const MAX_METHODS: usize = 64;

/// Maximum number of stored properties of one thing, and maximum length of one name and value
/// together.
const MAX_PROPERTIES: usize = 64;
const MAX_VALUE_BYTES: usize = 1024;

/// Maximum number of tools offered for a device.
const MAX_TOOLS: usize = 256;

/// Things of one device; none until the device has listed them.
pub struct ThingTools {
    device: Recipient<DeviceOrder>,
    /// Memory that is used for the device.
    memory: PeerMemory,
    known: Mutex<KnownThings>,
}

#[derive(Default)]
struct KnownThings {
    things: BTreeMap<String, Reserved<Thing>>,
    /// Objects of values by property.
    states: BTreeMap<String, Reserved<Value>>,
    tools: Option<Reserved<Arc<[Tool]>>>,
}

impl KnownThings {
    /// Stores a report, within the device's memory limit. A name that no tool may have is left out
    /// with its thing.
    fn store(&mut self, report: IotReport, memory: &PeerMemory) -> Result<(), MemoryExceeded> {
        let described = !report.things.is_empty();
        for thing in report.things {
            if has_room(&self.things, &thing.name) {
                let thing = limited(thing);
                let name = thing.name.clone();
                let weighs = serde_json::to_value(&thing).map_or(0, |thing| weight(&thing));
                let weighs = name.len() + weighs;
                self.things.insert(name, memory.keep(thing, weighs)?);
            }
        }
        for ThingState { name, values } in report.states {
            if has_room(&self.states, &name) {
                let before = self.states.get(&name).and_then(|state| state.as_object());
                let merged = Value::Object(merged(before.cloned().unwrap_or_default(), values));
                let weighs = name.len() + weight(&merged);
                self.states.insert(name, memory.keep(merged, weighs)?);
            }
        }
        if described {
            let tools = self.things.values().flat_map(|thing| tools(thing)).take(MAX_TOOLS);
            let tools = within_limits(source_names::THINGS, tools);
            let weighs: usize = tools.iter().map(tool_weight).sum();
            self.tools = None;
            // An offer is built from the list, so its weight counts twice.
            self.tools = Some(memory.keep(tools.into(), 2 * weighs)?);
        }
        Ok(())
    }
}

/// Reports whether an entry of this name may be stored.
fn has_room<T>(stored: &BTreeMap<String, T>, name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && (stored.len() < MAX_THINGS || stored.contains_key(name))
}

/// Shortens the description of a thing, which is in that of each of its tools, and drops methods and
/// properties beyond the limits.
fn limited(mut thing: Thing) -> Thing {
    thing.description = cut_description(&thing.description);
    while thing.methods.len() > MAX_METHODS {
        thing.methods.pop_last();
    }
    while thing.properties.len() > MAX_PROPERTIES {
        thing.properties.pop_last();
    }
    thing
}

impl ThingTools {
    /// Creates an empty source, which stores what the device reports in `memory`.
    pub fn new(device: Recipient<DeviceOrder>, memory: PeerMemory) -> Self {
        Self { device, memory, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, KnownThings> {
        self.known.lock().expect("nothing panics while it holds a device's things")
    }

    /// Drops all data of the device, because it says hello again or is gone.
    pub fn forget(&self) {
        *self.known() = KnownThings::default();
    }

    /// Stores the things and the state that the device reports. A state may be partial.
    pub fn note(&self, report: IotReport) {
        let mut known = self.known();
        let described = !report.things.is_empty();
        let stored = known.store(report, &self.memory);
        if let Err(error) = stored {
            tracing::warn!(%error, things = known.things.len(), "left out things of the device");
        }
        if described {
            tracing::info!(things = known.things.len(), "listed the device's things");
        }
    }

    /// Converts a call to a known value or an order for the device.
    fn meaning(&self, call: &ToolCall) -> Result<Meaning, ToolError> {
        let known = self.known();
        let unknown = || ToolError::Unknown(call.name.clone());
        let within = |thing: &&Thing| {
            call.name.strip_prefix(&thing.name).and_then(|rest| rest.strip_prefix('.')).is_some()
        };
        let named = known.things.values().map(|thing| &**thing);
        let named = named.filter(within).max_by_key(|thing| thing.name.len());
        let thing = named.ok_or_else(unknown)?;
        let what = &call.name[thing.name.len() + 1..];
        if thing.methods.contains_key(what) {
            let command = thing.command(what, &call.arguments);
            return command.map(Meaning::Order).map_err(|e| ToolError::Arguments(e.to_string()));
        }
        let property = what.strip_prefix(READ).filter(|p| thing.properties.contains_key(*p));
        let property = property.ok_or_else(unknown)?;
        let value = known.states.get(&thing.name).and_then(|state| state.get(property));
        let unsaid = || ToolError::Failed("the device has not said yet".into());
        value.map(|value| Meaning::Received(value.to_string())).ok_or_else(unsaid)
    }
}

/// Merges reported properties into the stored ones, within the limits.
fn merged(mut stored: Map<String, Value>, reported: Map<String, Value>) -> Map<String, Value> {
    for (property, value) in reported {
        let room = stored.len() < MAX_PROPERTIES || stored.contains_key(&property);
        if room && property.len() + value.to_string().len() <= MAX_VALUE_BYTES {
            stored.insert(property, value);
        }
    }
    stored
}

/// Prefix of the names of tools that read a property.
const READ: &str = "get_";

enum Meaning {
    Received(String),
    Order(Command),
}

/// Returns the tools of a thing, each created when it is needed.
fn tools(thing: &Thing) -> impl Iterator<Item = Tool> {
    let about = |what: &str| [thing.description.as_str(), what].join(": ");
    let methods = thing.methods.iter().map(move |(name, method)| {
        let required: Vec<&String> = method.parameters.keys().collect();
        let properties: Map<String, Value> =
            method.parameters.iter().map(|(name, p)| (name.clone(), schema(p))).collect();
        Tool {
            name: format!("{}.{name}", thing.name),
            description: about(&method.description),
            parameters: json!({"type": "object", "properties": properties, "required": required}),
            finishes: false,
            destructive: false,
        }
    });
    let free = move |name: &&String| !thing.methods.contains_key(&format!("{READ}{name}"));
    let reads =
        thing.properties.iter().filter(move |(name, _)| free(name)).map(move |(name, property)| {
            Tool {
                name: format!("{}.{READ}{name}", thing.name),
                description: about(&property.description),
                parameters: json!({"type": "object", "properties": {}}),
                finishes: false,
                destructive: false,
            }
        });
    methods.chain(reads)
}

fn schema(property: &Property) -> Value {
    let kind = match property.kind {
        ValueKind::Boolean => "boolean",
        ValueKind::Number => "integer",
        ValueKind::String => "string",
    };
    json!({"type": kind, "description": property.description})
}

impl ToolSource for ThingTools {
    fn name(&self) -> &str {
        source_names::THINGS
    }

    fn kind(&self) -> &'static str {
        "iot"
    }

    fn provenance(&self, tool: &str) -> Provenance {
        Provenance::trusted(source_names::THINGS, tool)
    }

    fn tools(&self) -> Arc<[Tool]> {
        self.known().tools.as_ref().map(|tools| Arc::clone(tools)).unwrap_or_default()
    }

    /// Sends the order. The device does not report whether it executed it.
    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let outcome = self.meaning(&call).and_then(|meaning| match meaning {
            Meaning::Received(value) => Ok(ToolOutput::text(value)),
            Meaning::Order(command) => {
                let order = DeviceOrder::Send(Downlink::Iot { commands: vec![command] });
                let away = |_| ToolError::Unavailable("the device takes no orders now".into());
                self.device.try_send(order).map_err(away)?;
                Ok(ToolOutput::text("the device was told"))
            }
        });
        Box::pin(std::future::ready(outcome))
    }

    fn at_once(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests {
    use hearken_base::memory_pool::MemoryPool;
    use hearken_ports::tool_limits::MAX_DESCRIPTION_CHARS;

    use super::*;

    #[test]
    fn the_stored_properties_of_a_thing_are_limited() {
        let mut stored = Map::new();
        let mut report = |property: &str, value: Value| {
            let reported = Map::from_iter([(property.to_owned(), value)]);
            stored = merged(std::mem::take(&mut stored), reported);
            stored.clone()
        };
        for n in 0..10 * MAX_PROPERTIES {
            report(&format!("p{n}"), json!(n));
        }
        assert_eq!(report("p0", json!(7)).len(), MAX_PROPERTIES);
        let stored = report("p0", json!("x".repeat(MAX_VALUE_BYTES)));
        assert_eq!(stored["p0"], 7, "a value that is too long changes nothing");
    }

    /// Returns the report of this message, as the device's socket reads it.
    fn report(message: &Value) -> IotReport {
        IotReport::from_object(message.as_object().expect("a message is an object"))
    }

    #[test]
    fn names_of_states_are_limited_and_count_in_the_memory_of_the_device() {
        let memory_pool = MemoryPool::default();
        let memory = memory_pool.peer("", false);
        let mut known = KnownThings::default();
        for n in 0..MAX_THINGS {
            let long = format!("{n:02}{}", "x".repeat(65_000));
            let states = json!([{"name": long, "state": {}}]);
            known.store(report(&json!({"states": states})), &memory).unwrap();
        }
        assert!(known.states.is_empty() && memory_pool.held() == 0);
        let longest = |n| format!("{n:0MAX_NAME_BYTES$}");
        for n in 0..2 * MAX_THINGS {
            let states = json!([{"name": longest(n), "state": {}}]);
            known.store(report(&json!({"states": states})), &memory).unwrap();
        }
        assert_eq!(known.states.len(), MAX_THINGS);
        assert!(memory_pool.held() >= MAX_THINGS * MAX_NAME_BYTES);
        let things = json!([{"name": "x".repeat(MAX_NAME_BYTES + 1)}, {"name": longest(0)}]);
        known.store(report(&json!({"descriptors": things})), &memory).unwrap();
        assert!(known.things.keys().eq([&longest(0)]));
        drop(known);
        assert_eq!(memory_pool.held(), 0);
    }

    #[test]
    fn a_thing_with_many_methods_and_a_long_description_makes_few_and_short_tools() {
        let methods: Map<String, Value> =
            (0..4_000).map(|n| (format!("{n:04}"), json!({}))).collect();
        let properties = methods.clone();
        let description = "x".repeat(30_000);
        let thing = json!({
            "name": "L", "description": description, "methods": methods, "properties": properties
        });
        let memory = PeerMemory::default();
        let mut known = KnownThings::default();
        known.store(report(&json!({"descriptors": [thing]})), &memory).unwrap();
        let thing = &known.things["L"];
        assert_eq!(thing.description.chars().count(), MAX_DESCRIPTION_CHARS);
        assert_eq!((thing.methods.len(), thing.properties.len()), (MAX_METHODS, MAX_PROPERTIES));
        let tools = known.tools.as_ref().unwrap();
        assert_eq!(tools.len(), MAX_METHODS + MAX_PROPERTIES);
        assert!(tools.iter().all(|t| t.description.chars().count() <= MAX_DESCRIPTION_CHARS));
    }
}
