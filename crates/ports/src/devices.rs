//! Port of the devices that are connected to this instance. Not for orders to them, which are the
//! actors' own messages.

use std::time::Duration;

use hearken_proto::ids::{DeviceId, SessionId};
use tokio::sync::watch;

/// Connected device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedDevice {
    /// Its id, as in the handshake.
    pub device_id: DeviceId,
    /// Session of its connection.
    pub session_id: SessionId,
    /// Duration of the connection so far.
    pub since: Duration,
}

/// Reason for which an order did not reach a device, or may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No such device is connected.
    #[error("the device is not connected")]
    NotConnected,
    /// The device's mailbox is full of earlier orders.
    #[error("the device has too many orders waiting")]
    Busy,
    /// The instance of the device did not confirm the order, and may have carried it out.
    #[error("the order was not confirmed, but may have been carried out")]
    Unconfirmed,
}

/// Devices that are connected to this instance.
pub trait Devices: Send + Sync {
    /// Orders a connection to close because its device has connected to another instance of the
    /// server. Does nothing if the device has connected here again since.
    fn replaced_by_other_instance(&self, device_id: &DeviceId, session_id: &SessionId);

    /// Returns a receiver that is notified whenever a device connects or disconnects.
    fn changes(&self) -> watch::Receiver<()>;

    /// Returns all connected devices, ordered by id.
    fn connected(&self) -> Vec<ConnectedDevice>;
}
