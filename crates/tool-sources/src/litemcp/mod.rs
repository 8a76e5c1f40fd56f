//! LiteMCP, a protocol in which each address is one tool: client for other tools, and server for
//! ours.
//!
//! ```text
//! server_connection -> client -+- exchange (ids) - WebSocket, or a child's standard streams
//!                              +- HTTP
//! route, or standard streams -> server -> one of our tools
//! ```

mod arguments;
pub(super) mod client;
mod frame_connection;
mod frames;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod server;
mod web;

use tokio_util::codec::{FramedRead, FramedWrite};
use tokio_util::sync::CancellationToken;

use client::LiteMcpConnection;

pub use server::{CallOutcome, LiteMcpServer};

use super::connected_source::ConnectedSource;
use super::link::Link;
use super::serving::{serve, within};
use super::settings::{Server, ServerTransport};
use super::stdio_process::{Environment, ToolChild};
use frame_connection::FrameConnection;
use frames::Frames;

/// Maximum size of a message that a tool may send, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Runs one connection or one child process until it ends. Returns the reason of the end, and true
/// if the connection was established.
pub(super) async fn keep(
    server: &Server,
    environment: &Environment,
    source: &ConnectedSource,
    token: &CancellationToken,
) -> (String, bool) {
    match &server.transport {
        ServerTransport::Http { .. } => {
            connect_and_serve(server, source, token, client::connect(server)).await
        }
        ServerTransport::Stdio { command, args, env } => {
            let mut all = environment.clone();
            all.extend(env.clone());
            let (child, stdout, stdin) = match ToolChild::spawn(command, args, &all) {
                Ok(spawned) => spawned,
                Err(error) => return (format!("cannot start `{command}`: {error}"), false),
            };
            let read = FramedRead::new(stdout, Frames::new(MAX_MESSAGE_BYTES));
            let write = FramedWrite::new(stdin, Frames::new(MAX_MESSAGE_BYTES));
            let opening =
                client::connect_frames(FrameConnection::new(write, client::texts(read)), server);
            let ended = connect_and_serve(server, source, token, opening).await;
            let said = child.end().await;
            match (ended, said) {
                // Only if no call was made: later, standard error may contain users' words.
                ((reason, false), Some(said)) => (format!("{reason}; it said: {said}"), false),
                (ended, _) => ended,
            }
        }
    }
}

async fn connect_and_serve(
    server: &Server,
    source: &ConnectedSource,
    token: &CancellationToken,
    opening: impl Future<Output = Result<LiteMcpConnection, String>>,
) -> (String, bool) {
    match within(server, token, opening).await {
        Ok(session) => (serve(&server.name, source, Link::LiteMcp(session), token).await, true),
        Err(reason) => (reason, false),
    }
}
