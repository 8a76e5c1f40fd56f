//! Scripted tools of a test: their descriptions, and their answers in order. Not for the tools of
//! firmware, which are in [`super::toolbox`].

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::tool::{Kind, Tool};

/// Default answer of a tool, as most tools of firmware give it.
const DONE: &str = "true";

/// Tool of the device with answers that a test decides.
///
/// The device checks arguments as firmware does. Only calls with valid arguments use up an answer.
/// [`crate::Session::calls`] returns the calls with their arguments.
///
/// ```
/// use hearken_virtual_device::{ScriptedTool, Toolbox};
///
/// let lamp = ScriptedTool::new("self.lamp.set", "Switches the lamp on or off.")
///     .boolean("on")
///     .fails("The lamp does not answer")
///     .answers("true");
/// let toolbox = Toolbox { scripted: vec![lamp], ..Toolbox::default() };
/// # assert_eq!(toolbox.scripted.len(), 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedTool {
    name: String,
    description: String,
    arguments: Vec<(String, Kind)>,
    answers: VecDeque<Result<String, String>>,
}

impl ScriptedTool {
    /// Creates a tool of this name that takes no arguments and answers `true`. The description is
    /// for the language model.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            arguments: Vec::new(),
            answers: VecDeque::new(),
        }
    }

    /// Adds a required boolean argument.
    #[must_use]
    pub fn boolean(self, name: impl Into<String>) -> Self {
        self.argument(name, Kind::Boolean)
    }

    /// Adds a required argument that is an integer in this range.
    #[must_use]
    pub fn integer(self, name: impl Into<String>, range: RangeInclusive<i32>) -> Self {
        let range = Some((*range.start(), *range.end()));
        self.argument(name, Kind::Integer { range, default: None })
    }

    /// Adds a required string argument.
    #[must_use]
    pub fn string(self, name: impl Into<String>) -> Self {
        self.argument(name, Kind::String)
    }

    fn argument(mut self, name: impl Into<String>, kind: Kind) -> Self {
        self.arguments.push((name.into(), kind));
        self
    }

    /// Adds this text as the answer to the next call. The last answer is repeated for all further
    /// calls.
    #[must_use]
    pub fn answers(mut self, text: impl Into<String>) -> Self {
        self.answers.push_back(Ok(text.into()));
        self
    }

    /// Adds an error with this reason as the answer to the next call. Like firmware, the device
    /// does not escape it: a reason with a quotation mark makes a message that is not JSON.
    #[must_use]
    pub fn fails(mut self, reason: impl Into<String>) -> Self {
        self.answers.push_back(Err(reason.into()));
        self
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn tool(&self) -> Tool {
        Tool::scripted(&self.name, &self.description, self.arguments.clone())
    }

    /// Returns the answer to a call with valid arguments.
    pub(super) fn call(&mut self) -> Result<String, String> {
        if self.answers.len() > 1 {
            return self.answers.pop_front().unwrap_or_else(|| Ok(DONE.into()));
        }
        self.answers.front().cloned().unwrap_or_else(|| Ok(DONE.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::toolbox::Toolbox;

    #[test]
    fn answers_come_in_order_and_the_last_is_repeated() {
        let mut tool = ScriptedTool::new("t", "Does it.").fails("no").answers("1").answers("2");
        let answers: Vec<_> = (0..4).map(|_| tool.call()).collect();
        assert_eq!(answers, [Err("no".into()), Ok("1".into()), Ok("2".into()), Ok("2".into())]);
        assert_eq!(ScriptedTool::new("t", "Does it.").call(), Ok("true".into()));
    }

    #[test]
    fn arguments_are_listed_and_checked_as_those_of_firmware() {
        let lamp = ScriptedTool::new("self.lamp.set", "Sets the lamp.")
            .boolean("on")
            .integer("level", 0..=9)
            .string("colour");
        let listing: serde_json::Value = serde_json::from_str(&lamp.tool().listing()).unwrap();
        assert_eq!(listing["inputSchema"]["required"], json!(["on", "level", "colour"]));
        assert_eq!(listing["inputSchema"]["properties"]["level"]["maximum"], 9);
        let check = |given| lamp.tool().check(Some(&given));
        assert!(check(json!({"on": true, "level": 9, "colour": "red"})).is_ok());
        let refused = check(json!({"on": true, "level": 10, "colour": "red"}));
        assert_eq!(refused.unwrap_err(), "Value exceeds maximum allowed: 9");
    }

    #[test]
    fn a_tool_of_firmware_is_replaced_by_one_of_its_name() {
        let volume =
            ScriptedTool::new("self.audio_speaker.set_volume", "Is ours.").integer("v", 0..=1);
        let toolbox = Toolbox { scripted: vec![volume], ..Toolbox::default() };
        let tools = toolbox.tools(false);
        let found: Vec<_> =
            tools.iter().filter(|t| t.name == "self.audio_speaker.set_volume").collect();
        assert_eq!((found.len(), tools.len()), (1, Toolbox::default().tools(false).len()));
        assert_eq!(found[0].arguments[0].0, "v");
    }
}
