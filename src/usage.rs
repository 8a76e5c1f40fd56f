//! What was used on each day: stores the sums of the meter now and then, and tells them. Not for what is counted, nor for
//! limits.

use std::sync::Arc;
use std::time::Duration;

use hearken_dialogue::usage::{UnsavedUsage, UsageMeter};
use hearken_ports::store::{StoreError, StoreErrorKind, UsageGroup, UsageStore};
use hearken_ports::usage::{UsageKey, Used};
use hearken_proto::ids::DeviceId;
use jiff::civil::Date;
use jiff::{Span, Timestamp};
use tokio::sync::Mutex;
use tokio::time::interval;

/// Time between two savings.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// Rows that are stored in one transaction.
const AT_ONCE: usize = 500;
/// Rows of today that are read from the store.
const MOST_ROWS: u32 = 20_000;
/// Devices and roles that are told.
const MOST_TOLD: u32 = 200;

/// Sums of all days, up to now. Clones share them.
#[derive(Clone)]
pub struct DailyUsage {
    meter: UsageMeter,
    store: Arc<dyn UsageStore>,
    /// True if other instances add to the same sums.
    others: bool,
    /// Held while sums are on their way to the store. The day of which what is stored was read.
    saving: Arc<Mutex<Option<Date>>>,
}

/// Sums since a day.
pub struct UsageReport {
    /// Today.
    pub today: Date,
    /// The first day.
    pub from: Date,
    /// Sums by day, device, role and kind.
    pub groups: [Vec<(String, Used)>; 4],
}

/// What sums are told by.
const GROUPS: [(UsageGroup, u32); 4] = [
    (UsageGroup::Day, MOST_ROWS),
    (UsageGroup::Device, MOST_TOLD),
    (UsageGroup::Role, MOST_TOLD),
    (UsageGroup::Kind, MOST_TOLD),
];

impl DailyUsage {
    /// Creates it; `others` is true if other instances add to the same sums.
    pub fn new(meter: UsageMeter, store: Arc<dyn UsageStore>, others: bool) -> Self {
        Self { meter, store, others, saving: Arc::default() }
    }

    /// Returns the meter.
    pub fn meter(&self) -> &UsageMeter {
        &self.meter
    }

    /// Saves now and then, and deletes what is too old. Never returns.
    pub async fn keep_saving(self) {
        let mut ticks = interval(SAVE_EVERY);
        let mut trimmed = None;
        let mut is_down = false;
        loop {
            ticks.tick().await;
            let saved = self.save().await;
            if let Err(error) = &saved
                && !is_down
            {
                tracing::warn!(%error, "cannot store what was used; it is kept and tried again");
            }
            is_down = saved.is_err();
            let today = self.meter.today();
            // At once where the days were changed.
            let due = Some((today, self.meter.settings().get().retention_days));
            if !is_down && trimmed != due && self.trim(today).await.is_ok() {
                trimmed = due;
            }
        }
    }

    /// Stores what was counted since the last time, and reads what others have stored of today.
    ///
    /// # Errors
    /// The store failed. What was counted is kept.
    pub async fn save(&self) -> Result<(), StoreError> {
        // Sums on their way to the store would be lost with a request that ends early.
        let saving = tokio::spawn(self.clone().save_whole());
        let failed = |error| StoreError::because(StoreErrorKind::Unusable, error);
        saving.await.map_err(failed)?
    }

    async fn save_whole(self) -> Result<(), StoreError> {
        let mut loaded = self.saving.lock().await;
        let UnsavedUsage { mut rows, since } = self.meter.take_unsaved();
        while !rows.is_empty() {
            let next = &rows[..rows.len().min(AT_ONCE)];
            let began = since.unwrap_or_else(Timestamp::now);
            if let Err(error) = self.store.add_usage(next, began).await {
                self.meter.put_back(UnsavedUsage { rows, since });
                return Err(error);
            }
            let stored = next.len();
            rows.drain(..stored);
        }
        let today = self.meter.today();
        if self.others || *loaded != Some(today) {
            let stored: Vec<(UsageKey, Used)> = self.store.usage_of_day(today, MOST_ROWS).await?;
            self.meter.set_stored(today, &stored);
            *loaded = Some(today);
        }
        Ok(())
    }

    async fn trim(&self, today: Date) -> Result<(), StoreError> {
        let days = self.meter.settings().get().retention_days;
        if days == 0 {
            return Ok(());
        }
        let oldest = today.saturating_sub(Span::new().days(days));
        let rows = self.store.delete_usage_before(oldest).await?;
        tracing::debug!(rows, "deleted old sums of what was used");
        Ok(())
    }

    /// Returns the sums of the last days, with today.
    ///
    /// # Errors
    /// The store failed.
    pub async fn report(&self, days: u16) -> Result<UsageReport, StoreError> {
        self.save().await?;
        let today = self.meter.today();
        let from = today.saturating_sub(Span::new().days(days.saturating_sub(1)));
        let mut groups = [const { Vec::new() }; 4];
        for (sums, (group, most)) in groups.iter_mut().zip(GROUPS) {
            *sums = self.store.usage_by(group, from, most).await?;
        }
        Ok(UsageReport { today, from, groups })
    }

    /// Removes the id of a device: what it used stays in the sums.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forget(&self, device: &DeviceId) -> Result<(), StoreError> {
        self.meter.forget(device.as_str());
        self.save().await?;
        self.store.forget_usage_of(device).await
    }
}
