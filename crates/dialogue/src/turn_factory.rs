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

/// Journal of the connection's turns, with the data of their client.
#[derive(Clone)]
struct Traces {
    journal: TurnJournal,
    kind: ClientKind,
    client: Arc<str>,
    /// Version of a device's firmware, if known.
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

    /// Sets the journal and the client of the turns.
    #[must_use]
    pub fn traced(self, journal: &TurnJournal, kind: ClientKind, client: &str) -> Self {
        let journal = journal.clone();
        let role = Arc::new(|| None);
        let traces = Traces { journal, kind, client: client.into(), firmware: None, role };
        Self { traces: Some(traces), ..self }
    }

    /// Sets the role of the client.
    #[must_use]
    pub fn in_role(self, role: CurrentRole) -> Self {
        Self { traces: self.traces.map(|traces| Traces { role, ..traces }), ..self }
    }

    /// Sets the firmware version of the device.
    #[must_use]
    pub fn on_firmware(self, firmware: Option<Arc<str>>) -> Self {
        Self { traces: self.traces.map(|traces| Traces { firmware, ..traces }), ..self }
    }

    /// Sets the rate of the client's turns.
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

    /// Returns the next turn without a trace, for a request without speech.
    pub fn next_untraced(&self) -> Turn {
        let id = TurnId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let plays_at_once = self.plays_at_once.load(Ordering::Relaxed);
        Turn::new(id, &self.connection).played_at_once(plays_at_once).at_rate(self.rate.clone())
    }

    /// Records that the client of the connection plays audio directly after `tts start`.
    pub fn plays_at_once(&self) {
        self.plays_at_once.store(true, Ordering::Relaxed);
    }

    /// Returns the connection's token.
    pub fn connection(&self) -> &CancellationToken {
        &self.connection
    }
}
