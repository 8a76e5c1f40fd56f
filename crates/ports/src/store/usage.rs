//! Storage of daily usage: the port and its types. Not for limits.

use async_trait::async_trait;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use jiff::civil::Date;

use super::StoreError;
use crate::usage::{UsageKey, Used};

/// Grouping of sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageGroup {
    /// Day, oldest first.
    Day,
    /// Id of the device, highest cost first; empty for devices without a name of their own.
    Device,
    /// Id of the role, highest cost first; empty for none.
    Role,
    /// Kind of the client, highest cost first.
    Kind,
}

/// Storage of usage. Every call ends within seconds, with an error if the store is down.
#[async_trait]
pub trait UsageStore: Send + Sync {
    /// Adds a batch of usage, by turns that started at this time or later, unless the batch with
    /// this unique id was added within the last hour: the caller repeats a call that failed. All or
    /// nothing is added. Devices that were deleted since then, on any instance, have no id in the
    /// sums.
    async fn add_usage(
        &self,
        batch: &str,
        rows: &[(UsageKey, Used)],
        since: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns the usage of a day, at most `most` rows, highest cost first.
    async fn usage_of_day(&self, day: Date, most: u32)
    -> Result<Vec<(UsageKey, Used)>, StoreError>;

    /// Returns at most `most` sums of the usage since a day.
    async fn usage_by(
        &self,
        group: UsageGroup,
        from: Date,
        most: u32,
    ) -> Result<Vec<(String, Used)>, StoreError>;

    /// Removes the id of a device; its usage stays in the sums.
    async fn forget_usage_of(&self, device: &DeviceId) -> Result<(), StoreError>;

    /// Deletes the usage before a day. Returns the number of rows.
    async fn delete_usage_before(&self, day: Date) -> Result<u64, StoreError>;
}
