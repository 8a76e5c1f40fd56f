//! MCP server inside the virtual device (specification of 2024-11-05), as in firmware's
//! `main/mcp_server.cc`: pure, with the time as an argument. Not for the tools, which are in
//! [`super::toolbox`].
//!
//! Calls run on the main loop in sequence, it sends responses in the order of requests, and while a
//! tool runs the device does nothing else. Ids are numbers, clamped to 32 bits; requests without
//! one are never answered. Errors have no code, and their text is not escaped.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::events::{ToolUse, Upload};
use super::tool::{Tool, int32};
use super::toolbox::{Board, Toolbox};

/// Maximum length of a page of tools, in bytes.
const PAGE: usize = 8_000;
/// Number of bytes reserved for the end of a page.
const PAGE_END: usize = 30;
/// Timeout of the camera's upload.
pub(super) const UPLOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of queued requests for the main loop.
const MOST_JOBS: usize = 256;
/// Name of the board.
const BOARD: &str = "virtual-board";

/// Job of the main loop.
#[derive(Debug)]
struct Job {
    id: i32,
    asked: Duration,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Answer(ToolAnswer),
    Call(String, Map<String, Value>),
}

type ToolAnswer = Result<String, String>;

/// Call that blocks the main loop.
#[derive(Debug)]
struct Running {
    id: i32,
    until: Duration,
    name: String,
    answer: ToolAnswer,
}

/// Output of the server.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// The payload of an `mcp` message.
    Answer(String),
    /// A picture has to be sent.
    Upload(Upload),
    /// A tool has been called.
    Called(ToolUse),
    /// The device has to restart.
    Reboot,
}

/// MCP server of one device.
#[derive(Debug)]
pub(super) struct McpServer {
    toolbox: Toolbox,
    tools: Vec<Tool>,
    version: &'static str,
    /// Upload address for pictures, and its token.
    vision: Option<(String, Option<String>)>,
    jobs: VecDeque<Job>,
    running: Option<Running>,
    /// Time at which the main loop is free.
    free_at: Duration,
    late: VecDeque<(Duration, String)>,
}

impl McpServer {
    pub(super) fn new(toolbox: Toolbox, user_tools: bool, version: &'static str) -> Self {
        Self {
            tools: toolbox.tools(user_tools),
            toolbox,
            version,
            vision: None,
            jobs: VecDeque::new(),
            running: None,
            free_at: Duration::ZERO,
            late: VecDeque::new(),
        }
    }

    /// Returns true while a tool blocks the main loop.
    pub(super) fn busy(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the next time at which the state changes without an event.
    pub(super) fn due(&self) -> Option<Duration> {
        let running = self.running.as_ref().map(|r| r.until);
        let late = self.late.front().map(|(at, _)| *at);
        [running, late].into_iter().flatten().min()
    }

    /// Drops all queued requests, because the device restarts.
    pub(super) fn reset(&mut self) {
        self.vision = None;
        self.jobs.clear();
        self.running = None;
        self.late.clear();
    }

    /// Queues the payload of an `mcp` message. [`Self::pass_time`] returns its effects.
    pub(super) fn receive(&mut self, now: Duration, request: &Value) {
        let string = |name: &str| request.get(name).and_then(Value::as_str);
        let (Some("2.0"), Some(method)) = (string("jsonrpc"), string("method")) else { return };
        let params = request.get("params");
        if method.starts_with("notifications") || params.is_some_and(|p| !p.is_object()) {
            return;
        }
        let Some(id) = request.get("id").filter(|id| id.is_number()).map(int32) else { return };
        let work = match method {
            "initialize" => Work::Answer(Ok(self.initialize(params))),
            "tools/list" => Work::Answer(self.list(params)),
            "tools/call" => match self.check(params) {
                Ok((name, arguments)) => Work::Call(name, arguments),
                Err(_) if self.toolbox.quirks.ignores_unknown => return,
                Err(why) => Work::Answer(Err(why)),
            },
            _ if self.toolbox.quirks.ignores_unknown => return,
            _ => Work::Answer(Err(format!("Method not implemented: {method}"))),
        };
        if self.jobs.len() < MOST_JOBS {
            self.jobs.push_back(Job { id, asked: now, work });
        }
    }

    /// Runs the main loop until now, and returns its outputs.
    pub(super) fn pass_time(&mut self, now: Duration, board: &mut Board) -> Vec<Outcome> {
        let mut out = Vec::new();
        loop {
            if let Some(running) = self.running.take_if(|r| r.until <= now) {
                self.free_at = running.until;
                self.answer(running.until, running.id, running.answer, &mut out);
                if running.name == "self.reboot" {
                    out.push(Outcome::Reboot);
                }
            }
            if self.running.is_some() {
                break;
            }
            let Some(Job { id, asked, work }) = self.jobs.pop_front() else { break };
            let start = asked.max(self.free_at);
            match work {
                Work::Answer(answer) => self.answer(start, id, answer, &mut out),
                Work::Call(name, arguments) => {
                    self.call(start, id, name, &arguments, board, &mut out);
                }
            }
        }
        while let Some((_, text)) = self.late.pop_front_if(|(at, _)| *at <= now) {
            out.push(Outcome::Answer(text));
        }
        out
    }

    /// Completes an upload, with the answer or the reason of its failure.
    pub(super) fn uploaded(&mut self, now: Duration, answer: Result<String, String>) {
        let takes_photo = |r: &&mut Running| r.name == "self.camera.take_photo";
        if let Some(running) = self.running.as_mut().filter(takes_photo) {
            running.until = now;
            running.answer = answer.map(|text| self.toolbox.result(&text));
        }
    }

    fn initialize(&mut self, params: Option<&Value>) -> String {
        let vision = params.and_then(|p| p.get("capabilities")).and_then(|c| c.get("vision"));
        let string = |name: &str| vision.and_then(|v| v.get(name)).and_then(Value::as_str);
        if let Some(url) = string("url") {
            self.vision = Some((url.to_owned(), string("token").map(str::to_owned)));
        }
        format!(
            "{{\"protocolVersion\":\"2024-11-05\",\"capabilities\":{{\"tools\":{{}}}},\
             \"serverInfo\":{{\"name\":\"{BOARD}\",\"version\":\"{}\"}}}}",
            self.version
        )
    }

    fn list(&self, params: Option<&Value>) -> ToolAnswer {
        let param = |name: &str| params.and_then(|p| p.get(name));
        let cursor = param("cursor").and_then(Value::as_str).unwrap_or_default();
        let users = param("withUserTools").and_then(Value::as_bool).unwrap_or(false);
        let mut page = String::from("{\"tools\":[");
        let mut next = "";
        let from = self.tools.iter().skip_while(|tool| !cursor.is_empty() && tool.name != cursor);
        for tool in from.filter(|tool| users || !tool.user_only) {
            let listing = tool.listing();
            if page.len() + listing.len() + 1 + PAGE_END > PAGE {
                next = &tool.name;
                break;
            }
            page.push_str(&listing);
            page.push(',');
        }
        if page.ends_with('[') {
            return Err(format!("Failed to add tool {next} because of payload size limit"));
        }
        page.pop();
        page.push(']');
        if !next.is_empty() || self.toolbox.quirks.empty_cursor {
            page.push_str(&format!(",\"nextCursor\":\"{next}\""));
        }
        page.push('}');
        Ok(page)
    }

    fn check(&self, params: Option<&Value>) -> Result<(String, Map<String, Value>), String> {
        let params = params.ok_or("Missing params")?;
        let name = params.get("name").and_then(Value::as_str).ok_or("Missing name")?;
        let given = params.get("arguments");
        if given.is_some_and(|g| !g.is_object()) {
            return Err("Invalid arguments".into());
        }
        let tool = self.tools.iter().find(|tool| tool.name == name);
        let tool = tool.ok_or_else(|| format!("Unknown tool: {name}"))?;
        Ok((name.to_owned(), tool.check(given)?))
    }

    fn call(
        &mut self,
        start: Duration,
        id: i32,
        name: String,
        arguments: &Map<String, Value>,
        board: &mut Board,
        out: &mut Vec<Outcome>,
    ) {
        let call = ToolUse { name: name.clone(), arguments: arguments.clone() };
        out.push(Outcome::Called(call));
        let mut until = start + self.toolbox.call_takes;
        let scripted = self.toolbox.scripted.iter().any(|tool| tool.name() == name);
        let answer = if name == "self.camera.take_photo" && !scripted {
            match &self.vision {
                None => Err("Image explain URL or token is not set".to_owned()),
                Some((url, token)) => {
                    let question = arguments.get("question").and_then(Value::as_str);
                    out.push(Outcome::Upload(Upload {
                        url: url.clone(),
                        token: token.clone(),
                        question: question.unwrap_or_default().to_owned(),
                    }));
                    // Unless a response arrives before.
                    until = start + UPLOAD_TIMEOUT;
                    Err("Failed to upload photo".to_owned())
                }
            }
        } else {
            let scripted = self.toolbox.scripted.iter_mut().find(|tool| tool.name() == name);
            let text = match scripted {
                Some(tool) => tool.call(),
                None => Ok(board.call(&name, arguments)),
            };
            text.map(|text| self.toolbox.result(&text))
        };
        self.running = Some(Running { id, until, name, answer });
    }

    fn answer(&mut self, at: Duration, id: i32, answer: ToolAnswer, out: &mut Vec<Outcome>) {
        let Toolbox { quirks, .. } = &self.toolbox;
        if quirks.silent {
            return;
        }
        let text = match answer {
            Ok(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
            Err(why) => {
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"message\":\"{why}\"}}}}")
            }
        };
        if quirks.late.is_zero() {
            out.push(Outcome::Answer(text));
        } else {
            self.late.push_back((at + quirks.late, text));
        }
    }
}

impl Toolbox {
    /// Returns the result of a tool with this text, in the format of firmware.
    fn result(&self, text: &str) -> String {
        let content = if self.quirks.picture_results {
            let picture = json!({"type": "image", "mimeType": "image/jpeg", "data": "/9j/"});
            format!("{{\"type\":\"image\",\"image\":{}}}", json!(picture.to_string()))
        } else {
            format!("{{\"type\":\"text\",\"text\":{}}}", json!(text))
        };
        format!("{{\"content\":[{content}],\"isError\":false}}")
    }
}

#[cfg(test)]
mod tests;
