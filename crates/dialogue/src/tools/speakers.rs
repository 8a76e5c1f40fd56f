//! Tools for the speaker: enrol their voice, change their name, store facts, delete their data,
//! ignore other voices.
//! They only affect the person who asks. Not for recognising speakers.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _};
use hearken_ports::{Provenance, Tool, ToolCall, ToolError, ToolOutput, ToolSource, source_names};
use serde_json::{Value, json};

use crate::people::{MOST_FACT_CHARS, MOST_NAME_CHARS, PeopleError};
use crate::speaker_tracker::{Forgotten, SpeakerTracker};

const LEARN: &str = "remember_my_voice";
const RENAME: &str = "change_my_name";
const REMEMBER: &str = "remember_about_me";
const FORGET: &str = "forget_me";
const IGNORE: &str = "ignore_other_voices";

/// Tools about the speakers of one conversation.
pub struct SpeakerTools {
    tracker: Arc<SpeakerTracker>,
    tools: Arc<[Tool]>,
}

impl SpeakerTools {
    /// Creates the tools of a conversation.
    pub fn new(tracker: Arc<SpeakerTracker>) -> Self {
        Self { tracker, tools: tools().into() }
    }
}

fn tools() -> Vec<Tool> {
    let text = |name: &str, about: &str, most: usize| {
        json!({
            "type": "object", "required": [name],
            "properties": { name: { "type": "string", "description": about, "minLength": 1, "maxLength": most } },
        })
    };
    let on = json!({
        "type": "object", "required": ["on"],
        "properties": { "on": { "type": "boolean", "description": "false to listen to everybody again" } },
    });
    let tool = |name: &str, description: &str, parameters: Value| Tool {
        name: name.into(),
        description: description.into(),
        parameters,
        finishes: false,
        // Untrusted text must not become a memory unnoticed: later conversations would trust it.
        destructive: matches!(name, LEARN | RENAME | REMEMBER | FORGET),
    };
    let names = json!({
        "type": "object", "required": ["name", "instead_of"],
        "properties": {
            "name": { "type": "string", "description": "New name, as they said it", "minLength": 1, "maxLength": MOST_NAME_CHARS },
            "instead_of": { "type": "string", "description": "Name that they have now", "minLength": 1, "maxLength": MOST_NAME_CHARS },
        },
    });
    let nothing = json!({"type": "object", "properties": {}});
    vec![
        tool(
            LEARN,
            "Learns the voice of the person who speaks, so that they are known by name from then on. Only when they ask for it. \
             Not for the voice of another person, who has to ask with it.",
            text("name", "Name of the person, as they said it", MOST_NAME_CHARS),
        ),
        tool(
            RENAME,
            "Gives the person who speaks, whose voice must be known, another name. Only when they ask for it.",
            names,
        ),
        tool(
            REMEMBER,
            "Remembers a fact about the person who speaks, for later conversations. Only if their voice is known, and they want it.",
            text("fact", "The fact, as a short sentence without their name", MOST_FACT_CHARS),
        ),
        tool(
            FORGET,
            "Deletes the voice of the person who speaks, and all that is remembered of them, for good. \
             While their voice is being learned, stops that: also if they no longer want it.",
            nothing,
        ),
        tool(
            IGNORE,
            "Ignores other voices while talking with the person who speaks, whose voice must be known. Ends with the conversation.",
            on,
        ),
    ]
}

impl ToolSource for SpeakerTools {
    fn name(&self) -> &str {
        source_names::SPEAKERS
    }

    fn kind(&self) -> &'static str {
        "speakers"
    }

    fn provenance(&self, tool: &str) -> Provenance {
        Provenance::trusted(source_names::SPEAKERS, tool)
    }

    fn tools(&self) -> Arc<[Tool]> {
        Arc::clone(&self.tools)
    }

    fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        let tracker = Arc::clone(&self.tracker);
        async move { carry_out(&tracker, &call).await }.boxed()
    }

    fn at_once(&self) -> usize {
        1
    }
}

async fn carry_out(tracker: &SpeakerTracker, call: &ToolCall) -> Result<ToolOutput, ToolError> {
    let text = |name: &str| call.arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let done = match call.name.as_str() {
        LEARN => tracker.learn(text("name")).await.map(learning),
        RENAME => {
            let renamed = tracker.rename(text("instead_of"), text("name")).await;
            renamed.map(|()| "this person has this name now".into())
        }
        REMEMBER => tracker.remember(text("fact")).await.map(|()| "remembered".into()),
        FORGET => tracker.forget_person().await.map(|what| forgotten(what).to_owned()),
        IGNORE => {
            let on = call.arguments.get("on").and_then(Value::as_bool).unwrap_or(true);
            if on && tracker.person().is_none() {
                Err(PeopleError::Unknown)
            } else {
                tracker.ignore_others(on);
                Ok(if on { "other voices are ignored" } else { "everybody is listened to" }.into())
            }
        }
        other => return Err(ToolError::Unknown(other.to_owned())),
    };
    done.map(ToolOutput::text).map_err(|error| ToolError::Failed(reason(&error)))
}

fn forgotten(what: Forgotten) -> &'static str {
    match what {
        Forgotten::Person => "deleted",
        Forgotten::Enrolment => "the voice was not learned, and nothing of it was stored",
    }
}

fn learning(left: usize) -> String {
    match left {
        0 => "this person is known by this name".into(),
        left => format!("ask the person to say {left} more sentences of a few seconds"),
    }
}

/// Returns the reason of a failure for the model.
fn reason(error: &PeopleError) -> String {
    match error {
        PeopleError::Unknown => "the voice of this person is not known".into(),
        PeopleError::TooShort(_) => "too little was said; ask for a longer sentence first".into(),
        PeopleError::OtherName(_) => {
            format!("{error}; `{RENAME}` is for one who asks for another name")
        }
        error => error.to_string(),
    }
}
