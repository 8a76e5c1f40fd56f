//! Routes of devices and their owners: the socket, the boot request, firmware and pictures;
//! records, orders, status and tools of a device. Not for conversations.

pub(crate) mod device;
pub(crate) mod device_identity;
pub(crate) mod device_orders;
pub(crate) mod device_records;
pub(crate) mod device_status;
pub(crate) mod device_tools;
pub(crate) mod firmware;
pub(crate) mod ota;
pub(crate) mod session_tools;
pub(crate) mod status_tool;
pub(crate) mod vision;
