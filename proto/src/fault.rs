//! Table of the faults that are reported to clients: code, HTTP status, WebSocket close code, and
//! whether a retry may help. Not for internal causes.

/// Fault reported to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The server is shutting down or restarting.
    GoingAway,
    /// The peer was silent for longer than allowed.
    Idle,
    /// No hello came in time.
    NoHello,
    /// A message is larger than its limit.
    TooLarge,
    /// The peer violated the WebSocket protocol.
    Protocol,
    /// A text message or Close reason of a WebSocket is not UTF-8.
    NotText,
    /// The server has reached its maximum number of connections or turns.
    Busy,
    /// Another connection of the same device replaced this one.
    Replaced,
    /// The address does not exist.
    NotFound,
    /// The request cannot be read.
    BadRequest,
    /// The caller is not authenticated: the token is missing, expired, forged or belongs to another
    /// caller.
    Unauthorized,
    /// The caller is authenticated, but has no access.
    Forbidden,
    /// The device is known, but not connected.
    NotConnected,
    /// The request conflicts with the current state.
    Conflict,
    /// Wrong codes were entered too often.
    TooMany,
    /// The client sends requests too often.
    RateLimited,
    /// A daily limit, such as one of tokens, is reached.
    LimitReached,
    /// A part of the server, such as its store, does not respond.
    Unavailable,
    /// No chat session has this id.
    SessionNotFound,
    /// A chat session, or its state, was changed meanwhile.
    VersionConflict,
    /// The model did not stop calling tools.
    MaxIterations,
    /// A request about a chat session violates its limits.
    InvalidRequest,
    /// The language model failed.
    LlmUnavailable,
    /// The state server failed.
    StateServer,
    /// Events arrived faster than they were read.
    Lagging,
    /// Internal error of the server.
    Internal,
}

/// Row of the fault table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRow {
    /// Fault of this row.
    pub fault: Fault,
    /// Code in JSON bodies and logs.
    pub code: &'static str,
    /// HTTP status.
    pub http_status: u16,
    /// Code of a WebSocket close (RFC 6455, section 7.4).
    pub close_code: u16,
    /// True if a retry may help.
    pub retryable: bool,
    /// Meaning, for people.
    pub meaning: &'static str,
}

const fn row(
    fault: Fault,
    code: &'static str,
    http_status: u16,
    close_code: u16,
    retryable: bool,
    meaning: &'static str,
) -> FaultRow {
    FaultRow { fault, code, http_status, close_code, retryable, meaning }
}

/// All faults.
pub const TABLE: [FaultRow; 26] = [
    row(Fault::GoingAway, "GOING_AWAY", 503, 1001, true, "the server is stopping"),
    row(Fault::Idle, "IDLE", 408, 1000, true, "nothing was heard for too long"),
    row(Fault::NoHello, "NO_HELLO", 408, 1008, true, "no hello came in time"),
    row(Fault::TooLarge, "TOO_LARGE", 413, 1009, false, "a message is larger than its limit"),
    row(Fault::Protocol, "PROTOCOL", 400, 1002, false, "the WebSocket protocol was broken"),
    row(Fault::NotText, "NOT_TEXT", 400, 1007, false, "a text message is no UTF-8"),
    row(Fault::Busy, "BUSY", 503, 1013, true, "the server is full"),
    row(Fault::Replaced, "REPLACED", 409, 1008, false, "the device connected again elsewhere"),
    row(Fault::NotFound, "NOT_FOUND", 404, 1008, false, "there is nothing at this address"),
    row(Fault::BadRequest, "BAD_REQUEST", 400, 1008, false, "the request cannot be read"),
    row(Fault::Unauthorized, "UNAUTHORIZED", 401, 1008, false, "the caller is not known"),
    row(Fault::Forbidden, "FORBIDDEN", 403, 1008, false, "the caller is not let in"),
    row(Fault::NotConnected, "NOT_CONNECTED", 409, 1008, true, "the device is not connected"),
    row(Fault::Conflict, "CONFLICT", 409, 1008, false, "this is at odds with what is there"),
    row(Fault::TooMany, "TOO_MANY", 429, 1008, true, "wrong codes were tried too often"),
    row(Fault::RateLimited, "RATE_LIMITED", 429, 1008, true, "requests come too often"),
    row(Fault::LimitReached, "LIMIT_REACHED", 429, 1008, false, "today's limit is reached"),
    row(Fault::Unavailable, "UNAVAILABLE", 503, 1013, true, "a part of the server is down"),
    row(Fault::SessionNotFound, "SESSION_NOT_FOUND", 404, 1008, false, "there is no such session"),
    row(Fault::VersionConflict, "VERSION_CONFLICT", 409, 1008, true, "it was changed meanwhile"),
    row(
        Fault::MaxIterations,
        "MAX_ITERATIONS_EXCEEDED",
        500,
        1011,
        false,
        "the model did not stop calling tools",
    ),
    row(Fault::InvalidRequest, "INVALID_REQUEST", 400, 1008, false, "the request does not fit"),
    row(Fault::LlmUnavailable, "LLM_UNAVAILABLE", 503, 1013, true, "the language model failed"),
    row(Fault::StateServer, "MCP_SERVER_ERROR", 502, 1011, true, "the state server failed"),
    row(Fault::Lagging, "LAGGING", 503, 1013, true, "events came faster than they were read"),
    row(Fault::Internal, "INTERNAL_ERROR", 500, 1011, true, "the server made a mistake"),
];

impl Fault {
    /// Returns the row of the fault.
    pub fn row(self) -> &'static FaultRow {
        TABLE.iter().find(|r| r.fault == self).expect("the table holds every fault, as tested")
    }

    /// Returns the code in JSON bodies and logs.
    pub fn code(self) -> &'static str {
        self.row().code
    }
}

/// Returns the table as Markdown, as in the crate's README.
pub fn markdown() -> String {
    let mut out =
        String::from("| Code | HTTP | Close | Retry | Meaning |\n|---|---|---|---|---|\n");
    for r in &TABLE {
        let retry = if r.retryable { "yes" } else { "no" };
        out += &format!(
            "| `{}` | {} | {} | {} | {} |\n",
            r.code, r.http_status, r.close_code, retry, r.meaning
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_found() {
        for (i, a) in TABLE.iter().enumerate() {
            assert_eq!(a.fault.row(), a);
            assert!(TABLE[i + 1..].iter().all(|b| b.code != a.code), "{}", a.code);
        }
    }

    #[test]
    fn the_readme_shows_the_table() {
        let table = markdown();
        assert_eq!(table.lines().count(), TABLE.len() + 2, "{table}");
        assert!(include_str!("../README.md").contains(&table), "put this in README.md:\n{table}");
    }
}
