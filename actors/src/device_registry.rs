//! Registry of the connected devices: delivers orders to a device by its id. Sockets register
//! themselves. Not for the content of orders, nor for devices that are not connected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use actix::Recipient;
use actix::dev::SendError;
use hearken_ports::{ConnectedDevice, Devices, ToolSource, Unreachable};
use hearken_proto::fault::Fault;
use hearken_proto::ids::{DeviceId, SessionId};
use tokio::sync::watch;

use crate::messages::DeviceOrder;

/// Connected devices by id. Clones share the registry.
#[derive(Clone, Default)]
pub struct DeviceRegistry(Arc<Mutex<Registrations>>);

#[derive(Default)]
struct Registrations {
    by_id: HashMap<DeviceId, Entry>,
    last: u64,
    /// Notifies its receivers whenever a device connects or disconnects.
    changes: watch::Sender<()>,
}

struct Entry {
    number: u64,
    session_id: SessionId,
    since: Instant,
    orders: Recipient<DeviceOrder>,
    /// Tools of the device; `None` if it has no pipeline.
    tools: Option<Arc<dyn ToolSource>>,
}

impl DeviceRegistry {
    /// Registers a connection under the id of its device. An earlier connection of the device is
    /// ordered to leave, because it has been replaced.
    pub(crate) fn register(
        &self,
        device_id: DeviceId,
        session_id: SessionId,
        orders: Recipient<DeviceOrder>,
        tools: Option<Arc<dyn ToolSource>>,
    ) -> Registration {
        let mut registrations = self.lock();
        registrations.last += 1;
        let number = registrations.last;
        let entry = Entry { number, session_id, since: Instant::now(), orders, tools };
        // Devices drop TCP without a Close and reconnect: the earlier socket is dead, although it
        // seems open. Decision 0013.
        if let Some(before) = registrations.by_id.insert(device_id.clone(), entry) {
            before.orders.do_send(DeviceOrder::Leave(Fault::Replaced));
        }
        registrations.changes.send_replace(());
        Registration { device_registry: self.clone(), device_id, number }
    }

    /// Sends an order to a connected device.
    ///
    /// # Errors
    /// Fails if the device is not connected, or if too many orders are waiting.
    pub fn order(&self, device_id: &DeviceId, order: DeviceOrder) -> Result<(), Unreachable> {
        let registrations = self.lock();
        let entry = registrations.by_id.get(device_id).ok_or(Unreachable::NotConnected)?;
        entry.orders.try_send(order).map_err(|error| match error {
            SendError::Full(_) => Unreachable::Busy,
            SendError::Closed(_) => Unreachable::NotConnected,
        })
    }

    /// Ends the connection of a device if it is older than `age`, because its token was revoked
    /// that long ago.
    pub fn revoke_older(&self, device_id: &DeviceId, age: Duration) {
        let registrations = self.lock();
        if let Some(entry) = registrations.by_id.get(device_id)
            && entry.since.elapsed() >= age
        {
            entry.orders.do_send(DeviceOrder::Leave(Fault::Forbidden));
        }
    }

    /// Returns the currently known tools of a connected device.
    pub fn tools(&self, device_id: &DeviceId) -> Option<Arc<dyn ToolSource>> {
        self.lock().by_id.get(device_id)?.tools.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Registrations> {
        self.0.lock().expect("nothing panics while it holds the registry")
    }
}

impl Devices for DeviceRegistry {
    fn replaced_by_other_instance(&self, device_id: &DeviceId, session_id: &SessionId) {
        let registrations = self.lock();
        let entry =
            registrations.by_id.get(device_id).filter(|entry| entry.session_id == *session_id);
        if let Some(entry) = entry {
            entry.orders.do_send(DeviceOrder::Leave(Fault::Replaced));
        }
    }

    fn changes(&self) -> watch::Receiver<()> {
        self.lock().changes.subscribe()
    }

    fn connected(&self) -> Vec<ConnectedDevice> {
        let registrations = self.lock();
        let mut all: Vec<ConnectedDevice> = registrations
            .by_id
            .iter()
            .map(|(device_id, entry)| ConnectedDevice {
                device_id: device_id.clone(),
                session_id: entry.session_id.clone(),
                since: entry.since.elapsed(),
            })
            .collect();
        all.sort_by(|a, b| a.device_id.as_str().cmp(b.device_id.as_str()));
        all
    }
}

/// Registration of one connection; removed when dropped.
pub(crate) struct Registration {
    device_registry: DeviceRegistry,
    device_id: DeviceId,
    number: u64,
}

impl Drop for Registration {
    /// Removes the entry, unless a later connection of the same device has replaced it.
    fn drop(&mut self) {
        let mut registrations = self.device_registry.lock();
        if registrations.by_id.get(&self.device_id).is_some_and(|s| s.number == self.number) {
            registrations.by_id.remove(&self.device_id);
            registrations.changes.send_replace(());
        }
    }
}
