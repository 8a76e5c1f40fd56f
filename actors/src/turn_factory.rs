//! Mints the turns of one connection, for whoever starts one. Not for running them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hearken_proto::fault::Fault;
use hearken_proto::ids::TurnId;
use tokio_util::sync::CancellationToken;

use crate::dialogue::Turn;

/// Counts a connection's turns; clones count together.
#[derive(Debug, Clone)]
pub struct TurnFactory {
    process: CancellationToken,
    connection: CancellationToken,
    last: Arc<AtomicU64>,
}

impl TurnFactory {
    /// For a connection of the process that ends with this token.
    pub fn new(process: CancellationToken) -> Self {
        Self { connection: process.child_token(), process, last: Arc::default() }
    }

    /// What the peer is told when the connection's token ends it.
    pub fn fault(&self) -> Fault {
        if self.process.is_cancelled() { Fault::GoingAway } else { Fault::Internal }
    }

    /// The next turn.
    pub fn next(&self) -> Turn {
        let id = TurnId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        Turn::new(id, &self.connection)
    }

    /// The connection's token.
    pub fn connection(&self) -> &CancellationToken {
        &self.connection
    }
}
