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
use tokio_util::sync::CancellationToken;

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
    since: Instant,
    socket: RegisteredSocket,
}

/// Socket of a connected device.
pub(crate) struct RegisteredSocket {
    pub(crate) session_id: SessionId,
    pub(crate) orders: Recipient<DeviceOrder>,
    /// Cancelled when the device is ordered to leave: its actor does not run while the device reads
    /// nothing.
    pub(crate) ended: CancellationToken,
    /// Tools of the device; `None` if it has no pipeline.
    pub(crate) tools: Option<Arc<dyn ToolSource>>,
}

impl RegisteredSocket {
    /// Orders the device to leave for this reason. The order is sent even if others are waiting.
    fn leave(&self, fault: Fault) {
        self.orders.do_send(DeviceOrder::Leave(fault));
        self.ended.cancel();
    }
}

impl DeviceRegistry {
    /// Registers a connection under the id of its device. An earlier connection of the device is
    /// ordered to leave, because it has been replaced.
    pub(crate) fn register(&self, device_id: DeviceId, socket: RegisteredSocket) -> Registration {
        let mut registrations = self.lock();
        registrations.last += 1;
        let number = registrations.last;
        let entry = Entry { number, since: Instant::now(), socket };
        // Devices drop TCP without a Close and reconnect: the earlier socket is dead, although it
        // seems open. Decision 0013.
        if let Some(before) = registrations.by_id.insert(device_id.clone(), entry) {
            before.socket.leave(Fault::Replaced);
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
        if let DeviceOrder::Leave(fault) = order {
            entry.socket.leave(fault);
            return Ok(());
        }
        entry.socket.orders.try_send(order).map_err(|error| match error {
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
            entry.socket.leave(Fault::Forbidden);
        }
    }

    /// Returns the currently known tools of a connected device.
    pub fn tools(&self, device_id: &DeviceId) -> Option<Arc<dyn ToolSource>> {
        self.lock().by_id.get(device_id)?.socket.tools.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Registrations> {
        self.0.lock().expect("nothing panics while it holds the registry")
    }
}

impl Devices for DeviceRegistry {
    fn replaced_by_other_instance(&self, device_id: &DeviceId, session_id: &SessionId) {
        let registrations = self.lock();
        let socket = registrations.by_id.get(device_id).map(|entry| &entry.socket);
        if let Some(socket) = socket.filter(|socket| socket.session_id == *session_id) {
            socket.leave(Fault::Replaced);
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
                session_id: entry.socket.session_id.clone(),
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

#[cfg(test)]
mod tests {
    use actix::fut::wrap_future;
    use actix::{Actor, AsyncContext as _, Context, Handler};

    use super::*;

    /// Socket whose device reads nothing: its actor handles no order.
    struct Unread;

    impl Actor for Unread {
        type Context = Context<Self>;

        fn started(&mut self, ctx: &mut Self::Context) {
            ctx.wait(wrap_future::<_, Self>(std::future::pending()));
        }
    }

    impl Handler<DeviceOrder> for Unread {
        type Result = ();

        fn handle(&mut self, _: DeviceOrder, _: &mut Self::Context) {}
    }

    fn socket(session_id: &SessionId) -> RegisteredSocket {
        RegisteredSocket {
            session_id: session_id.clone(),
            orders: Unread.start().recipient(),
            ended: CancellationToken::new(),
            tools: None,
        }
    }

    /// Order to a registered device.
    type Ordered = fn(&DeviceRegistry, &DeviceId, &SessionId);

    #[actix::test]
    async fn a_socket_that_reads_nothing_ends_with_the_order_to_leave() {
        let orders: [(&str, bool, Ordered); 5] = [
            ("speak", false, |all, id, _| {
                all.order(id, DeviceOrder::Say("hello".into())).unwrap();
            }),
            ("leave", true, |all, id, _| {
                all.order(id, DeviceOrder::Leave(Fault::GoingAway)).unwrap();
            }),
            ("revoked", true, |all, id, _| all.revoke_older(id, Duration::ZERO)),
            ("at another instance", true, |all, id, session_id| {
                all.replaced_by_other_instance(id, session_id);
            }),
            ("connected again", true, |all, id, session_id| {
                drop(all.register(id.clone(), socket(session_id)));
            }),
        ];
        for (order, ends, give) in orders {
            let device_registry = DeviceRegistry::default();
            let id = DeviceId::new("a device");
            let session_id = SessionId::random();
            let registered = socket(&session_id);
            let ended = registered.ended.clone();
            let _registration = device_registry.register(id.clone(), registered);
            give(&device_registry, &id, &session_id);
            assert_eq!(ended.is_cancelled(), ends, "{order}");
        }
    }
}
