//! What the device does for the server besides speech: its tools by MCP or its things by `iot`,
//! and what has to wait while a tool holds up the main loop. Not for either protocol.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::events::Event;
use super::iot::{Crash, Things};
use super::mcp::McpServer;
pub(super) use super::mcp::Outcome;
use super::profile::{Profile, Tools};
use super::toolbox::{Board, Toolbox};

/// What waits while the main loop is held up; people and servers are slower than that.
const MOST_DEFERRED: usize = 256;

/// One device's tools.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) board: Board,
    way: Way,
    deferred: VecDeque<Deferred>,
}

#[derive(Debug)]
enum Way {
    None,
    Iot(Things),
    Mcp(Box<McpServer>),
}

/// Something that waited for the main loop.
#[derive(Debug)]
pub(super) enum Deferred {
    Event(Event),
    Message(Value),
}

impl Serving {
    pub(super) fn new(profile: &Profile, tools: Tools, toolbox: Toolbox) -> Self {
        let way = match tools {
            Tools::None => Way::None,
            // Names changed with the version that brought features into the hello.
            Tools::Iot => Way::Iot(Things::new(!profile.features_in_hello)),
            Tools::Mcp => {
                Way::Mcp(Box::new(McpServer::new(toolbox, profile.user_tools, profile.name)))
            }
        };
        Self { board: Board::default(), way, deferred: VecDeque::new() }
    }

    /// Messages that describe the things, after the hello.
    pub(super) fn describe(&mut self, session_id: &str) -> Vec<String> {
        match &mut self.way {
            Way::Iot(things) => things.describe(session_id),
            _ => Vec::new(),
        }
    }

    /// The states of the things that changed, when listening begins.
    pub(super) fn states(&mut self, session_id: &str) -> Option<String> {
        match &mut self.way {
            Way::Iot(things) => things.tell(session_id, &self.board),
            _ => None,
        }
    }

    /// Carries out a command for a thing; None where there are no things.
    pub(super) fn command(&mut self, command: &Value) -> Option<Result<(), Crash>> {
        match &self.way {
            Way::Iot(things) => Some(things.invoke(command, &mut self.board)),
            _ => None,
        }
    }

    /// Takes an MCP request; false where there is no MCP server.
    pub(super) fn request(&mut self, now: Duration, request: &Value) -> bool {
        match &mut self.way {
            Way::Mcp(server) => server.receive(now, request),
            _ => return false,
        }
        true
    }

    /// A picture was sent, or not.
    pub(super) fn uploaded(&mut self, now: Duration, answer: Result<String, String>) {
        if let Way::Mcp(server) = &mut self.way {
            server.uploaded(now, answer);
        }
    }

    /// What the tools have done by now.
    pub(super) fn pass_time(&mut self, now: Duration) -> Vec<Outcome> {
        match &mut self.way {
            Way::Mcp(server) => server.pass_time(now, &mut self.board),
            _ => Vec::new(),
        }
    }

    /// When time alone will change something.
    pub(super) fn due(&self) -> Option<Duration> {
        match &self.way {
            Way::Mcp(server) => server.due(),
            _ => None,
        }
    }

    /// Whether a tool holds up the main loop.
    pub(super) fn busy(&self) -> bool {
        matches!(&self.way, Way::Mcp(server) if server.busy())
    }

    /// Keeps an event for when the main loop is free.
    pub(super) fn defer(&mut self, event: Event) {
        if self.deferred.len() < MOST_DEFERRED {
            self.deferred.push_back(Deferred::Event(event));
        }
    }

    /// Keeps a message for when the main loop is free.
    pub(super) fn defer_message(&mut self, message: Value) {
        if self.deferred.len() < MOST_DEFERRED {
            self.deferred.push_back(Deferred::Message(message));
        }
    }

    /// What waited for the main loop.
    pub(super) fn take_deferred(&mut self) -> VecDeque<Deferred> {
        std::mem::take(&mut self.deferred)
    }

    /// The device restarts; what its tools have changed stays.
    pub(super) fn reset(&mut self) {
        self.deferred.clear();
        if let Way::Mcp(server) = &mut self.way {
            server.reset();
        }
    }
}
