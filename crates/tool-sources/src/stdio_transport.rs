//! rmcp transport over the standard streams of a program: one message per line. Not for the program
//! itself.

mod lines;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use hearken_base::paced_log::PacedLog;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

use self::lines::{JoinedLines, Line, Lines};
use super::jsonrpc_repair::{MessageReader, Repair};

type Outgoing = FramedWrite<ChildStdin, LinesCodec>;

/// Transport over a program's standard streams.
pub(super) struct StdioTransport {
    incoming: FramedRead<ChildStdout, Lines>,
    /// None once the connection is closed, which closes the program's standard input.
    outgoing: Arc<Mutex<Option<Outgoing>>>,
    joined: JoinedLines,
    /// Texts that have not been parsed yet.
    texts: VecDeque<String>,
    messages: MessageReader,
    warnings: PacedLog,
}

impl StdioTransport {
    /// Creates the transport; a line longer than `most` bytes is skipped.
    pub(super) fn new(stdout: ChildStdout, stdin: ChildStdin, most: usize) -> Self {
        Self {
            incoming: FramedRead::new(stdout, Lines::new(most)),
            outgoing: Arc::new(Mutex::new(Some(FramedWrite::new(stdin, LinesCodec::new())))),
            joined: JoinedLines::new(most),
            texts: VecDeque::new(),
            messages: MessageReader::new(Repair::of_configured()),
            warnings: PacedLog::default(),
        }
    }
}

/// Error: a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum StdioError {
    #[error("the program has ended")]
    Gone,
    #[error("cannot write a message")]
    Unwritable(#[from] serde_json::Error),
    #[error("cannot write to the program")]
    Io(#[from] LinesCodecError),
}

impl Transport<RoleClient> for StdioTransport {
    type Error = StdioError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), StdioError>> + Send + 'static {
        let outgoing = Arc::clone(&self.outgoing);
        self.messages.note(&item);
        async move {
            let text = serde_json::to_string(&item)?;
            let mut outgoing = outgoing.lock().await;
            Ok(outgoing.as_mut().ok_or(StdioError::Gone)?.send(text).await?)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.next().await {
                return Some(message);
            }
            if let Some(text) = self.texts.pop_front() {
                self.messages.begin(text);
                continue;
            }
            match self.incoming.next().await? {
                Ok(Line::Text(line)) => self.texts.extend(self.joined.push(line)),
                Ok(Line::TooLong(begin)) => {
                    self.warnings.log(|left_out| {
                        tracing::warn!(
                            left_out,
                            "skipped a line of a tool server, because it is too long"
                        );
                    });
                    self.messages.begin_unread(&begin, "is too long");
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot read from a tool server");
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), StdioError> {
        self.outgoing.lock().await.take();
        Ok(())
    }
}
