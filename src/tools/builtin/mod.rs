//! The built-in tools: one source of tools that this server has itself, each registered in one
//! list. Not for tools of others, nor for how the outside is asked, which is [`web`].
//!
//! A tool is a [`BuiltinTool`] of its own. Those of the world (`clock`, `location`, `weather`)
//! are the same for everybody; one that belongs to a conversation holds that conversation's state
//! and joins the list of a [`Builtin`] made for it.

mod clock;
mod days;
mod location;
mod settings;
mod weather;
mod web;
mod wmo;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_actors::ports::{Tool, ToolCall, ToolError, ToolOutput, ToolSource};
use serde_json::{Map, Value};

use super::live::{Origin, SourceKind, SourceReport, SourceState, ToolReport};
use clock::Clock;
use location::Locator;
pub use settings::{BuiltinError, BuiltinSettings};
use weather::Weather;

/// The name of the source.
pub(super) const NAME: &str = "builtin";

/// More time than the tools take for themselves, so that their own words are heard of a deadline.
const SPARE: Duration = Duration::from_secs(1);

/// A tool of this server.
pub trait BuiltinTool: Send + Sync {
    /// As the model sees it.
    fn tool(&self) -> Tool;

    /// Does it. What goes wrong is an output that failed and says so; it ends within the time of
    /// its settings.
    fn call(&self, arguments: Map<String, Value>) -> BoxFuture<'static, ToolOutput>;
}

/// Every tool that there is, in the order in which they are offered.
fn all(settings: &BuiltinSettings) -> Result<Vec<Arc<dyn BuiltinTool>>, BuiltinError> {
    let locator = Locator::new(settings)?;
    Ok(vec![Arc::new(Weather::new(settings, locator.clone())?), Arc::new(Clock), Arc::new(locator)])
}

/// The names of all tools that there are.
pub(super) const NAMES: [&str; 3] = [weather::NAME, clock::NAME, location::NAME];

/// The built-in tools as a source; clones share them.
#[derive(Clone)]
pub struct Builtin {
    tools: Arc<[Tool]>,
    does: Arc<[Arc<dyn BuiltinTool>]>,
    timeout: Duration,
}

impl Builtin {
    /// The tools that the settings name.
    ///
    /// # Errors
    /// The settings name a tool that there is not, or an address that cannot be used.
    pub fn new(settings: &BuiltinSettings) -> Result<Self, BuiltinError> {
        settings.check()?;
        let mut does = all(settings)?;
        does.retain(|tool| settings.enabled.contains(&tool.tool().name));
        let tools = does.iter().map(|tool| tool.tool()).collect();
        let timeout = Duration::from_millis(settings.timeout_ms) + SPARE;
        Ok(Self { tools, does: does.into(), timeout })
    }

    /// The settings name none.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// What is known of it, for people.
    pub(super) fn report(&self) -> SourceReport {
        SourceReport {
            name: NAME.into(),
            kind: SourceKind::Builtin,
            origin: Origin::Builtin,
            devices: Vec::new(),
            state: SourceState::Ready,
            protocol: String::new(),
            connections: 0,
            tools: self.tools.iter().map(ToolReport::of).collect(),
        }
    }
}

impl ToolSource for Builtin {
    fn name(&self) -> &str {
        NAME
    }

    fn kind(&self) -> &'static str {
        SourceKind::Builtin.word()
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let found = self.tools.iter().position(|tool| tool.name == call.name);
        let Some(number) = found else {
            return Box::pin(std::future::ready(Err(ToolError::Unknown(call.name))));
        };
        let work = self.does[number].call(call.arguments);
        Box::pin(async move { Ok(work.await) })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// An output that is JSON, or one that failed and says why.
fn output(outcome: Result<Value, String>) -> ToolOutput {
    match outcome {
        Ok(value) => ToolOutput::text(value.to_string()),
        Err(reason) => ToolOutput { failed: true, ..ToolOutput::text(reason) },
    }
}

/// An argument's text; empty where it is missing, and where a model wrote `null`.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default().trim()
}

/// Text of another service, cut at a length that is sure to be a name.
fn name_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_its_name_in_the_list() {
        let settings = BuiltinSettings::default();
        let builtin = Builtin::new(&settings).unwrap();
        let names: Vec<&str> = builtin.tools.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, NAMES);
        assert_eq!(settings.enabled, NAMES);
        for tool in builtin.tools.iter() {
            assert_eq!(tool.parameters["type"], "object", "{}", tool.name);
        }
        let few = BuiltinSettings { enabled: vec!["get_location".into()], ..settings };
        assert_eq!(Builtin::new(&few).unwrap().tools().len(), 1);
    }
}
