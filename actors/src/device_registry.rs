//! The roster: which devices are connected now, and how to reach one by its id. Kept by the
//! sockets themselves; not for what a device is told, nor for devices that are away.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use actix::Recipient;
use actix::dev::SendError;
use hearken_proto::fault::Fault;
use hearken_proto::ids::{DeviceId, SessionId};
use tokio::sync::watch;

use crate::actors::messages::DeviceOrder;

/// Every connected device, by its id; clones show the same devices.
#[derive(Clone, Default)]
pub struct DeviceRegistry(Arc<Mutex<Registrations>>);

#[derive(Default)]
struct Registrations {
    by_id: HashMap<DeviceId, Entry>,
    last: u64,
    /// Told whenever a device comes or goes.
    changes: watch::Sender<()>,
}

struct Entry {
    number: u64,
    session_id: SessionId,
    since: Instant,
    orders: Recipient<DeviceOrder>,
}

/// A device that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connected {
    /// Its id, as in the handshake.
    pub device_id: DeviceId,
    /// The session of its connection.
    pub session_id: SessionId,
    /// How long it has been connected.
    pub since: Duration,
}

/// Why an order did not reach a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No such device is connected.
    #[error("the device is not connected")]
    NotConnected,
    /// It has not carried out those before.
    #[error("the device has too many orders waiting")]
    Busy,
}

impl DeviceRegistry {
    /// Takes the device's seat for a connection. One that holds it already is told that it has
    /// been replaced.
    pub(crate) fn enter(
        &self,
        device_id: DeviceId,
        session_id: SessionId,
        orders: Recipient<DeviceOrder>,
    ) -> Registration {
        let mut seats = self.lock();
        seats.last += 1;
        let number = seats.last;
        let seat = Entry { number, session_id, since: Instant::now(), orders };
        if let Some(before) = seats.by_id.insert(device_id.clone(), seat) {
            before.orders.do_send(DeviceOrder::Leave(Fault::Replaced));
        }
        seats.changes.send_replace(());
        Registration { device_registry: self.clone(), device_id, number }
    }

    /// Gives a connected device an order.
    ///
    /// # Errors
    /// It is not connected, or too many orders wait already.
    pub fn order(&self, device_id: &DeviceId, order: DeviceOrder) -> Result<(), Unreachable> {
        let seats = self.lock();
        let seat = seats.by_id.get(device_id).ok_or(Unreachable::NotConnected)?;
        seat.orders.try_send(order).map_err(|error| match error {
            SendError::Full(_) => Unreachable::Busy,
            SendError::Closed(_) => Unreachable::NotConnected,
        })
    }

    /// The device of this connection has connected to another instance of the server: the
    /// connection is told that it has been replaced, unless a later one has the seat already.
    pub fn replaced_by_other_instance(&self, device_id: &DeviceId, session_id: &SessionId) {
        let seats = self.lock();
        let seat = seats.by_id.get(device_id).filter(|seat| seat.session_id == *session_id);
        if let Some(seat) = seat {
            seat.orders.do_send(DeviceOrder::Leave(Fault::Replaced));
        }
    }

    /// Tells whenever a device comes or goes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.lock().changes.subscribe()
    }

    /// All connected devices, in the order of their ids.
    pub fn connected(&self) -> Vec<Connected> {
        let seats = self.lock();
        let mut all: Vec<Connected> = seats
            .by_id
            .iter()
            .map(|(device_id, seat)| Connected {
                device_id: device_id.clone(),
                session_id: seat.session_id.clone(),
                since: seat.since.elapsed(),
            })
            .collect();
        all.sort_by(|a, b| a.device_id.as_str().cmp(b.device_id.as_str()));
        all
    }

    fn lock(&self) -> MutexGuard<'_, Registrations> {
        self.0.lock().expect("nothing panics while it holds the roster")
    }
}

/// A connection's seat; given up when dropped.
pub(crate) struct Registration {
    device_registry: DeviceRegistry,
    device_id: DeviceId,
    number: u64,
}

impl Drop for Registration {
    /// The seat may have gone to a later connection of the same device.
    fn drop(&mut self) {
        let mut seats = self.device_registry.lock();
        if seats.by_id.get(&self.device_id).is_some_and(|s| s.number == self.number) {
            seats.by_id.remove(&self.device_id);
            seats.changes.send_replace(());
        }
    }
}
