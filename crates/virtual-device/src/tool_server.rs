//! Tools of the device, over MCP or as things over `iot`, and the events that are queued while a
//! tool blocks the main loop. Not for either protocol.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::events::Event;
use super::iot::{Crash, Things};
use super::mcp::McpServer;
pub(super) use super::mcp::Outcome;
use super::profile::{Profile, Tools};
use super::toolbox::{Board, Toolbox};

/// Maximum number of events queued for the main loop; people and servers produce fewer.
const MOST_DEFERRED: usize = 256;

/// Tools of one device.
#[derive(Debug)]
pub(super) struct DeviceToolServer {
    pub(super) board: Board,
    protocol: Protocol,
    deferred: VecDeque<Deferred>,
}

#[derive(Debug)]
enum Protocol {
    None,
    Iot(Things),
    Mcp(Box<McpServer>),
}

/// Event or message queued for the main loop.
#[derive(Debug)]
pub(super) enum Deferred {
    Event(Event),
    Message(Value),
}

impl DeviceToolServer {
    pub(super) fn new(profile: &Profile, tools: Tools, toolbox: Toolbox) -> Self {
        let protocol = match tools {
            Tools::None => Protocol::None,
            // Names changed with the version that added features to the hello.
            Tools::Iot => Protocol::Iot(Things::new(!profile.features_in_hello)),
            Tools::Mcp => {
                Protocol::Mcp(Box::new(McpServer::new(toolbox, profile.user_tools, profile.name)))
            }
        };
        Self { board: Board::default(), protocol, deferred: VecDeque::new() }
    }

    /// Returns the messages that describe the things, after the hello.
    pub(super) fn describe(&mut self, session_id: &str) -> Vec<String> {
        match &mut self.protocol {
            Protocol::Iot(things) => things.describe(session_id),
            _ => Vec::new(),
        }
    }

    /// Returns the changed states of the things, at the start of listening.
    pub(super) fn states(&mut self, session_id: &str) -> Option<String> {
        match &mut self.protocol {
            Protocol::Iot(things) => things.changed_states(session_id, &self.board),
            _ => None,
        }
    }

    /// Executes a command for a thing; `None` if the device has no things.
    pub(super) fn command(&mut self, command: &Value) -> Option<Result<(), Crash>> {
        match &self.protocol {
            Protocol::Iot(things) => Some(things.invoke(command, &mut self.board)),
            _ => None,
        }
    }

    /// Queues an MCP request. Returns false if the device has no MCP server.
    pub(super) fn request(&mut self, now: Duration, request: &Value) -> bool {
        match &mut self.protocol {
            Protocol::Mcp(server) => server.receive(now, request),
            _ => return false,
        }
        true
    }

    /// Completes an upload.
    pub(super) fn uploaded(&mut self, now: Duration, answer: Result<String, String>) {
        if let Protocol::Mcp(server) = &mut self.protocol {
            server.uploaded(now, answer);
        }
    }

    /// Runs the tools until now, and returns their outputs.
    pub(super) fn pass_time(&mut self, now: Duration) -> Vec<Outcome> {
        match &mut self.protocol {
            Protocol::Mcp(server) => server.pass_time(now, &mut self.board),
            _ => Vec::new(),
        }
    }

    /// Returns the next time at which the state changes without an event.
    pub(super) fn due(&self) -> Option<Duration> {
        match &self.protocol {
            Protocol::Mcp(server) => server.due(),
            _ => None,
        }
    }

    /// Returns true while a tool blocks the main loop.
    pub(super) fn busy(&self) -> bool {
        matches!(&self.protocol, Protocol::Mcp(server) if server.busy())
    }

    /// Queues an event until the main loop is free.
    pub(super) fn defer(&mut self, event: Event) {
        if self.deferred.len() < MOST_DEFERRED {
            self.deferred.push_back(Deferred::Event(event));
        }
    }

    /// Queues a message until the main loop is free.
    pub(super) fn defer_message(&mut self, message: Value) {
        if self.deferred.len() < MOST_DEFERRED {
            self.deferred.push_back(Deferred::Message(message));
        }
    }

    /// Takes everything that was queued for the main loop.
    pub(super) fn take_deferred(&mut self) -> VecDeque<Deferred> {
        std::mem::take(&mut self.deferred)
    }

    /// Resets the tools, because the device restarts. The state of the board stays.
    pub(super) fn reset(&mut self) {
        self.deferred.clear();
        if let Protocol::Mcp(server) = &mut self.protocol {
            server.reset();
        }
    }
}
