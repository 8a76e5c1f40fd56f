//! Creates the turns of one connection, with increasing ids. Not for running them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hearken_proto::fault::Fault;
use hearken_proto::ids::TurnId;
use tokio_util::sync::CancellationToken;

use crate::Turn;
use crate::role::CurrentRole;
use crate::turn_rate::TurnRate;
use crate::turn_trace::{ClientKind, TurnJournal};

/// Factory of a connection's turns. Clones share the count.
#[derive(Clone)]
pub struct TurnFactory {
    process: CancellationToken,
    connection: CancellationToken,
    last: Arc<AtomicU64>,
    plays_at_once: Arc<AtomicBool>,
    rate: Option<TurnRate>,
    traces: Option<Traces>,
}

/// Where the connection's turns are written about.
#[derive(Clone)]
struct Traces {
    journal: TurnJournal,
    kind: ClientKind,
    client: Arc<str>,
    /// Version of a device's firmware, if that is known.
    firmware: Option<Arc<str>>,
    role: CurrentRole,
}

impl TurnFactory {
    /// Creates the factory of a connection, which ends when the token of the process is cancelled.
    pub fn new(process: CancellationToken) -> Self {
        Self {
            connection: process.child_token(),
            process,
            last: Arc::default(),
            plays_at_once: Arc::default(),
            rate: None,
            traces: None,
        }
    }

    /// Returns the factory with a journal of its turns, as those of this client.
    #[must_use]
    pub fn traced(self, journal: &TurnJournal, kind: ClientKind, client: &str) -> Self {
        let journal = journal.clone();
        let role = Arc::new(|| None);
        let traces = Traces { journal, kind, client: client.into(), firmware: None, role };
        Self { traces: Some(traces), ..self }
    }

    /// Returns the factory of a client that has this role.
    #[must_use]
    pub fn in_role(self, role: CurrentRole) -> Self {
        Self { traces: self.traces.map(|traces| Traces { role, ..traces }), ..self }
    }

    /// Returns the factory of a device with this version of its firmware.
    #[must_use]
    pub fn on_firmware(self, firmware: Option<Arc<str>>) -> Self {
        Self { traces: self.traces.map(|traces| Traces { firmware, ..traces }), ..self }
    }

    /// Returns the factory of a client with this rate of turns.
    #[must_use]
    pub fn at_rate(self, rate: TurnRate) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// Returns the fault to report to the peer when the connection's token ends it.
    pub fn fault(&self) -> Fault {
        if self.process.is_cancelled() { Fault::GoingAway } else { Fault::Internal }
    }

    /// Returns the next turn.
    pub fn next(&self) -> Turn {
        let turn = self.next_untraced();
        let Some(Traces { journal, kind, client, firmware, role }) = &self.traces else {
            return turn;
        };
        let trace = journal.begin_as(*kind, client, role());
        firmware.iter().for_each(|version| trace.on_firmware(Arc::clone(version)));
        turn.traced(trace)
    }

    /// Returns the next turn, for a request in which nothing is said: nothing is written about it.
    pub fn next_untraced(&self) -> Turn {
        let id = TurnId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let plays_at_once = self.plays_at_once.load(Ordering::Relaxed);
        Turn::new(id, &self.connection).played_at_once(plays_at_once).at_rate(self.rate.clone())
    }

    /// Notes that the client of the connection plays what follows `tts start` at once.
    pub fn plays_at_once(&self) {
        self.plays_at_once.store(true, Ordering::Relaxed);
    }

    /// Returns the connection's token.
    pub fn connection(&self) -> &CancellationToken {
        &self.connection
    }
}
