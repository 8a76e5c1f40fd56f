//! Tool source of devices with firmware up to 1.7, which has no MCP: one tool for each method of a
//! thing, and one for reading each property. Not for the messages themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use actix::Recipient;
use futures_util::future::BoxFuture;
use hearken_base::memory_pool::{MemoryExceeded, PeerMemory, Reserved};
use hearken_ports::tool_limits::{tool_weight, within_limits};
use hearken_ports::{Provenance, Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use hearken_proto::device::Downlink;
use hearken_proto::device::iot::{Command, IotReport, Property, Thing, ThingState, ValueKind};
use hearken_proto::json::weight;
use serde_json::{Map, Value, json};

use crate::messages::DeviceOrder;

/// Maximum number of things stored for a device. Firmware has at most five.
const MAX_THINGS: usize = 64;

/// Maximum number of stored properties of one thing, and maximum length of one name and value
/// together.
const MAX_PROPERTIES: usize = 64;
const MAX_VALUE_BYTES: usize = 1024;

/// Name of the source.
const SOURCE: &str = "things";

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
    states: BTreeMap<String, Reserved<Map<String, Value>>>,
    tools: Option<Reserved<Arc<[Tool]>>>,
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
        let stored = self.keep_report(&mut known, report, described);
        if let Err(error) = stored {
            tracing::warn!(%error, things = known.things.len(), "left out things of the device");
        }
        if described {
            tracing::info!(things = known.things.len(), "listed the device's things");
        }
    }

    /// Stores a report, within the device's memory limit.
    fn keep_report(
        &self,
        known: &mut KnownThings,
        report: IotReport,
        described: bool,
    ) -> Result<(), MemoryExceeded> {
        for thing in report.things {
            if known.things.len() < MAX_THINGS || known.things.contains_key(&thing.name) {
                let weighs = serde_json::to_value(&thing).map_or(0, |thing| weight(&thing));
                let name = thing.name.clone();
                known.things.insert(name, self.memory.keep(thing, weighs)?);
            }
        }
        for ThingState { name, values } in report.states {
            if known.states.len() < MAX_THINGS || known.states.contains_key(&name) {
                let before = known.states.get(&name).map(|state| (**state).clone());
                let merged = merged(before.unwrap_or_default(), values);
                let weighs = merged.iter().map(|(name, value)| name.len() + weight(value)).sum();
                known.states.insert(name, self.memory.keep(merged, weighs)?);
            }
        }
        if described {
            let tools = known.things.values().flat_map(|thing| tools(thing)).take(MAX_TOOLS);
            let tools = within_limits(SOURCE, tools);
            let weighs: usize = tools.iter().map(tool_weight).sum();
            known.tools = None;
            // An offer is built from the list, so its weight counts twice.
            known.tools = Some(self.memory.keep(tools.into(), 2 * weighs)?);
        }
        Ok(())
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

fn tools(thing: &Thing) -> Vec<Tool> {
    let about = |what: &str| [thing.description.as_str(), what].join(": ");
    let methods = thing.methods.iter().map(|(name, method)| {
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
    let free = |name: &&String| !thing.methods.contains_key(&format!("{READ}{name}"));
    let reads =
        thing.properties.iter().filter(|(name, _)| free(name)).map(|(name, property)| Tool {
            name: format!("{}.{READ}{name}", thing.name),
            description: about(&property.description),
            parameters: json!({"type": "object", "properties": {}}),
            finishes: false,
            destructive: false,
        });
    methods.chain(reads).collect()
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
        SOURCE
    }

    fn kind(&self) -> &'static str {
        "iot"
    }

    fn provenance(&self, tool: &str) -> Provenance {
        Provenance::trusted(SOURCE, tool)
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
}
