//! Three WebSocket client libraries behind one interface: Python's `websockets`, Node's `ws`,
//! Rust's tungstenite. Not for the servers.

use std::process::Stdio;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use hearken_test_support::peers::Peers;
use hearken_test_support::socket::Socket;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::{Error, Message, protocol::CloseFrame};

/// Timeout for all waits; interpreters start slowly on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// What one connection does.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Plan {
    pub(super) url: String,
    /// Messages to send first.
    pub(super) say: Vec<String>,
    /// Then wait for `binary`, a part of a text, or nothing if empty.
    pub(super) until: &'static str,
    /// Then send a text of this many bytes, unless 0.
    pub(super) large: usize,
    /// Then close with this; `None` waits for the other side to close.
    pub(super) close: Option<(u16, &'static str)>,
}

/// How a connection ended for its client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Ended {
    /// Code of the other side's close frame; 1006 without one.
    pub(super) code: u16,
    pub(super) reason: String,
    /// Both sides sent a close frame.
    pub(super) clean: bool,
}

impl Ended {
    pub(super) fn with(code: u16, reason: &str) -> Self {
        Self { code, reason: reason.into(), clean: true }
    }
}

/// A client library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Library {
    Websockets,
    Ws,
    Tungstenite,
}

impl Library {
    /// All libraries that are installed.
    pub(super) fn all() -> Vec<Self> {
        let mut all = vec![Self::Tungstenite];
        if Peers::with("ws").is_some() {
            all.extend([Self::Websockets, Self::Ws]);
        }
        all
    }

    /// Starts the connections; returns once each has received what it waits for.
    pub(super) async fn run(self, plans: &[Plan]) -> Running {
        let clients = hearken_test_support::repository().join("tests/it/sockets/clients");
        let written = serde_json::to_string(plans).unwrap();
        let mut command = match self {
            Self::Tungstenite => return Running::ours(plans).await,
            Self::Websockets => {
                let mut command = Command::new(Peers::installed().unwrap().python("python"));
                command.arg("-B").arg(clients.join("client.py")).arg(written);
                command
            }
            Self::Ws => {
                let peers = Peers::installed().unwrap();
                let mut command = Command::new(peers.node());
                command.arg(clients.join("client.mjs")).arg(written).arg(peers.packages());
                command
            }
        };
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(line(&mut lines).await, "ready", "{self:?}");
        Running::Theirs(Box::new(child), lines)
    }
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = timeout(PATIENCE, lines.next_line()).await.expect("a line in time").unwrap();
    line.expect("the program ended; see its standard error")
}

/// Connections that are ready to end.
pub(super) enum Running {
    Ours(Vec<JoinHandle<Ended>>),
    Theirs(Box<Child>, Lines<BufReader<ChildStdout>>),
}

impl Running {
    async fn ours(plans: &[Plan]) -> Self {
        let sockets = join_all(plans.iter().map(opened)).await;
        let ending = plans.iter().cloned().zip(sockets);
        Self::Ours(ending.map(|(plan, socket)| tokio::spawn(ended(plan, socket))).collect())
    }

    /// How each connection ended, in the order of the plans.
    pub(super) async fn ended(self) -> Vec<Ended> {
        match self {
            Self::Ours(tasks) => {
                let ended = timeout(PATIENCE, join_all(tasks)).await.expect("they end in time");
                ended.into_iter().map(Result::unwrap).collect()
            }
            Self::Theirs(_child, mut lines) => {
                serde_json::from_str(&line(&mut lines).await).unwrap()
            }
        }
    }
}

async fn opened(plan: &Plan) -> Socket {
    let (mut socket, _) = connect_async(&plan.url).await.unwrap();
    for text in &plan.say {
        socket.send(Message::text(text)).await.unwrap();
    }
    let awaited = |message: Message| match message {
        Message::Binary(_) => plan.until == "binary",
        Message::Text(text) => text.contains(plan.until),
        other => panic!("{other:?} from {}", plan.url),
    };
    while !plan.until.is_empty() {
        let message = timeout(PATIENCE, socket.next()).await.expect("something comes");
        match message.unwrap().unwrap() {
            Message::Ping(_) => {}
            message if awaited(message.clone()) => break,
            _ => {}
        }
    }
    socket
}

async fn ended(plan: Plan, mut socket: Socket) -> Ended {
    if plan.large > 0 {
        // The server may close while this is in flight.
        socket.send(Message::text("x".repeat(plan.large))).await.ok();
    }
    if let Some((code, reason)) = plan.close {
        let frame = CloseFrame { code: code.into(), reason: reason.into() };
        socket.close(Some(frame)).await.unwrap();
    }
    let mut ended = Ended { code: 1006, reason: String::new(), clean: false };
    loop {
        match socket.next().await {
            Some(Ok(Message::Close(Some(frame)))) => {
                ended = Ended::with(frame.code.into(), &frame.reason);
            }
            Some(Ok(Message::Close(None))) => ended = Ended::with(1005, ""),
            Some(Ok(_)) => {}
            Some(Err(Error::ConnectionClosed)) | None => return ended,
            // TCP ended before the close handshake was complete.
            Some(Err(_)) => return Ended { clean: false, ..ended },
        }
    }
}
