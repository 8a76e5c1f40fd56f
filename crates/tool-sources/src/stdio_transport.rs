//! rmcp transport over the standard streams of a program: a message a line. Not for the program itself.

use std::sync::Arc;

use futures_util::{SinkExt as _, StreamExt as _};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

use super::jsonrpc_repair::Repair;

type Lines = FramedWrite<ChildStdin, LinesCodec>;

/// Transport over a program's standard streams.
pub(super) struct StdioTransport {
    incoming: FramedRead<ChildStdout, LinesCodec>,
    /// None once the connection is closed, which closes the program's standard input.
    outgoing: Arc<Mutex<Option<Lines>>>,
    /// Messages of a batch, the last first.
    read: Vec<RxJsonRpcMessage<RoleClient>>,
    repair: Repair,
}

impl StdioTransport {
    /// Creates the transport; a longer line than `most` bytes is left out.
    pub(super) fn new(stdout: ChildStdout, stdin: ChildStdin, most: usize) -> Self {
        Self {
            incoming: FramedRead::new(stdout, LinesCodec::new_with_max_length(most)),
            outgoing: Arc::new(Mutex::new(Some(FramedWrite::new(stdin, LinesCodec::new())))),
            read: Vec::new(),
            repair: Repair::default(),
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
        self.repair.note(&item);
        async move {
            let text = serde_json::to_string(&item)?;
            let mut outgoing = outgoing.lock().await;
            Ok(outgoing.as_mut().ok_or(StdioError::Gone)?.send(text).await?)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.read.pop() {
                return Some(message);
            }
            match self.incoming.next().await? {
                Ok(line) => {
                    self.read = self.repair.read(&line);
                    self.read.reverse();
                }
                Err(LinesCodecError::MaxLineLengthExceeded) => {
                    tracing::warn!("left out a line of a tool server: it is too long");
                }
                Err(LinesCodecError::Io(error))
                    if error.kind() == std::io::ErrorKind::InvalidData =>
                {
                    tracing::debug!("ignored a line of a tool server: it is no UTF-8");
                }
                Err(LinesCodecError::Io(error)) => {
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
