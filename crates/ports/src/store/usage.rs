//! Storage of what was used on each day: the port and its types. Not for limits.

use async_trait::async_trait;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use jiff::civil::Date;

use super::StoreError;
use crate::usage::{UsageKey, Used};

/// What sums are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageGroup {
    /// Day, the oldest first.
    Day,
    /// Id of the device, the dearest first; empty for devices without a name of their own.
    Device,
    /// Id of the role, the dearest first; empty for none.
    Role,
    /// Kind of the client, the dearest first.
    Kind,
}

/// Storage of what was used. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Adds what was used since the last call, by turns that began at this time or later. All or nothing is added. Devices
    /// that were deleted since then, at any instance, have no name in the sums.
    async fn add_usage(
        &self,
        rows: &[(UsageKey, Used)],
        since: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns what was used on a day, at most so many rows, the dearest first.
    async fn usage_of_day(&self, day: Date, most: u32)
    -> Result<Vec<(UsageKey, Used)>, StoreError>;

    /// Returns the sums since a day, at most so many.
    async fn usage_by(
        &self,
        group: UsageGroup,
        from: Date,
        most: u32,
    ) -> Result<Vec<(String, Used)>, StoreError>;

    /// Removes the id of a device: what it used stays in the sums.
    async fn forget_usage_of(&self, device: &DeviceId) -> Result<(), StoreError>;

    /// Deletes what was used before a day. Returns the number of rows.
    async fn delete_usage_before(&self, day: Date) -> Result<u64, StoreError>;
}
