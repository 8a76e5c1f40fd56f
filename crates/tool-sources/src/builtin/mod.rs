//! The built-in tools: one source of tools that run in this server, each registered in one list.
//! Not for tools of other servers, nor for requests to external services, which are in [`web`].
//!
//! Each tool is a separate [`BuiltinTool`]. Global tools (`clock`, `location`, `weather`) are
//! shared by all conversations; tools of a conversation (`language`, `roleplay`) hold its state and
//! are added to a [`Builtin`] made for it.

mod clock;
mod conversation;
mod days;
mod language;
mod location;
mod roleplay;
mod settings;
mod weather;
mod web;
mod wmo;

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use conversation::Conversation;
use futures_util::future::BoxFuture;
use hearken_dialogue::{Character, SharedStyle};
use hearken_ports::{Provenance, Tool, ToolCall, ToolError, ToolOutput, ToolSource, source_names};
use jiff::tz::TimeZone;
use location::Locator;
use serde_json::{Map, Value};
use weather::Weather;

use super::report::{Origin, SourceKind, SourceReport, SourceState, ToolReport};

pub use settings::{BuiltinError, BuiltinSettings};

/// Time added to the tools' own time limit. The tools can then report an exceeded limit themselves.
const SPARE: Duration = Duration::from_secs(1);

/// Tool that runs in this server.
pub trait BuiltinTool: Send + Sync {
    /// Returns the definition of the tool for the model.
    fn tool(&self) -> Tool;

    /// Executes the tool within the time limit of its settings. Errors are returned as a failed
    /// output with a message.
    fn call(&self, arguments: Map<String, Value>) -> BoxFuture<'static, ToolOutput>;
}

/// Creates every global tool, in the order in which they are offered.
fn global_tools(
    settings: &BuiltinSettings,
    zone: &TimeZone,
) -> Result<Vec<Arc<dyn BuiltinTool>>, BuiltinError> {
    let locator = Locator::new(settings)?;
    let weather = Weather::new(settings, locator.clone(), zone.clone())?;
    Ok(vec![Arc::new(weather), Arc::new(Clock::new(zone.clone())), Arc::new(locator)])
}

/// Creates every tool of a conversation with its name, in the order in which they are offered.
fn conversation_tools(
    conversation: &Conversation,
) -> impl Iterator<Item = (&'static str, Arc<dyn BuiltinTool>)> {
    let language = language::NAMES.into_iter().zip(language::all(conversation));
    language.chain(roleplay::NAMES.into_iter().zip(roleplay::all(conversation)))
}

/// Names of all tools, the global ones first.
pub(super) const NAMES: [&str; 10] = {
    let [set, get, languages] = language::NAMES;
    let [enter, exit, status, characters] = roleplay::NAMES;
    let [weather, time, location] = [weather::NAME, clock::NAME, location::NAME];
    [weather, time, location, set, get, languages, enter, exit, status, characters]
};

/// Source of the built-in tools: the global ones, and, if made for a conversation, also its own.
/// Clones share them.
#[derive(Clone)]
pub struct Builtin {
    tools: Arc<[Tool]>,
    does: Arc<[Arc<dyn BuiltinTool>]>,
    timeout: Duration,
    conversations: Arc<ForConversations>,
}

/// Tools that are made for every conversation.
struct ForConversations {
    /// All tools, the global ones first.
    tools: Arc<[Tool]>,
    /// Names of the conversation's own tools.
    names: Vec<&'static str>,
    characters: Arc<[Character]>,
}

impl Builtin {
    /// Creates the tools that the settings name; `zone` is the local time zone.
    ///
    /// # Errors
    /// The settings name an unknown tool, an unusable address, or characters with names that cannot
    /// be distinguished.
    pub fn new(settings: &BuiltinSettings, zone: &TimeZone) -> Result<Self, BuiltinError> {
        settings.check()?;
        let enabled = |name: &str| settings.enabled.iter().any(|n| n == name);
        let mut does = global_tools(settings, zone)?;
        does.retain(|tool| enabled(&tool.tool().name));
        let tools: Arc<[Tool]> = does.iter().map(|tool| tool.tool()).collect();
        let characters: Arc<[Character]> = settings.characters.clone().into();
        let nobody = Conversation::new("", &SharedStyle::default(), &characters);
        let own: Vec<_> = conversation_tools(&nobody).filter(|(name, _)| enabled(name)).collect();
        let conversations = ForConversations {
            tools: tools.iter().cloned().chain(own.iter().map(|(_, tool)| tool.tool())).collect(),
            names: own.iter().map(|(name, _)| *name).collect(),
            characters,
        };
        let timeout = Duration::from_millis(settings.timeout_ms) + SPARE;
        Ok(Self { tools, does: does.into(), timeout, conversations: Arc::new(conversations) })
    }

    /// Creates a source for one conversation: the global tools, and those that change the style of
    /// this session. Its tools know the session by `session_id`.
    pub fn for_conversation(&self, session_id: &str, style: &SharedStyle) -> Self {
        let all = &self.conversations;
        let conversation = Conversation::new(session_id, style, &all.characters);
        let own = conversation_tools(&conversation).filter(|(name, _)| all.names.contains(name));
        let does = self.does.iter().map(Arc::clone).chain(own.map(|(_, tool)| tool)).collect();
        Self { tools: Arc::clone(&all.tools), does, ..self.clone() }
    }

    /// Returns true if the source has no tools.
    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns a report on the source.
    pub(super) fn report(&self) -> SourceReport {
        SourceReport {
            name: source_names::BUILTIN.into(),
            key: None,
            kind: SourceKind::Builtin,
            origin: Origin::Builtin,
            devices: Vec::new(),
            state: SourceState::Ready,
            protocol: String::new(),
            connections: 0,
            usage: None,
            warning: None,
            tools: self.tools.iter().map(|tool| ToolReport::from_tool(tool, false)).collect(),
        }
    }
}

impl ToolSource for Builtin {
    fn name(&self) -> &str {
        source_names::BUILTIN
    }

    fn kind(&self) -> &'static str {
        SourceKind::Builtin.label()
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.tools)
    }

    /// Results are trusted, except those that contain names from external services.
    fn provenance(&self, tool: &str) -> Provenance {
        let trusted = !matches!(tool, weather::NAME | location::NAME);
        Provenance { trusted, ..Provenance::untrusted(source_names::BUILTIN, tool) }
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

/// Converts a result to an output: JSON, or a failure with its reason.
fn output(outcome: Result<Value, String>) -> ToolOutput {
    match outcome {
        Ok(value) => ToolOutput::text(value.to_string()),
        Err(reason) => ToolOutput { failed: true, ..ToolOutput::text(reason) },
    }
}

/// Returns an argument's text; empty if it is missing, or if the model wrote `null`.
fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default().trim()
}

/// Returns a text of an external service, truncated at the maximum length of a name.
fn name_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(builtin: &Builtin) -> Vec<&str> {
        builtin.tools.iter().map(|t| t.name.as_str()).collect()
    }

    #[test]
    fn every_tool_has_its_name_in_the_list() {
        let settings = BuiltinSettings::default();
        let world = Builtin::new(&settings, &TimeZone::UTC).unwrap();
        let all = world.for_conversation("a", &SharedStyle::default());
        assert_eq!((names(&world), names(&all)), (NAMES[..3].to_vec(), NAMES.to_vec()));
        assert_eq!(settings.enabled, NAMES);
        for (tool, does) in all.tools.iter().zip(all.does.iter()) {
            assert_eq!(tool, &does.tool(), "the described tool is the called one");
            assert_eq!(tool.parameters["type"], "object", "{}", tool.name);
        }
        let again = world.for_conversation("b", &SharedStyle::default());
        assert!(Arc::ptr_eq(&all.tools, &again.tools), "the descriptions are shared");
        let enabled = ["get_roleplay_status", "get_location"].map(str::to_owned).to_vec();
        let few = Builtin::new(&BuiltinSettings { enabled, ..settings }, &TimeZone::UTC).unwrap();
        assert_eq!(names(&few), ["get_location"]);
        let few = few.for_conversation("a", &SharedStyle::default());
        assert_eq!(names(&few), ["get_location", "get_roleplay_status"]);
        assert_eq!(few.does[1].tool().name, "get_roleplay_status");
    }
}
