//! Daily usage: stores the meter's counts periodically, and reports them. Not for what is counted, nor for limits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hearken_base::wall_clock;
use hearken_dialogue::usage::{UnsavedUsage, UsageMeter};
use hearken_ports::store::{StoreError, StoreErrorKind, UsageGroup, UsageStore};
use hearken_ports::usage::{UsageKey, Used};
use hearken_proto::ids::DeviceId;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use tokio::sync::Mutex;
use tokio::time::interval;
use uuid::Uuid;

/// Interval at which counts are stored.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// Maximum number of rows stored in one transaction.
const AT_ONCE: usize = 500;
/// Maximum number of rows that one query reads from the store.
const MOST_ROWS: u32 = 20_000;
/// Maximum number of devices, roles and kinds in a report.
const MOST_TOLD: u32 = 200;

/// Usage of all days, including today. Clones share it.
#[derive(Clone)]
pub struct DailyUsage {
    meter: UsageMeter,
    store: Arc<dyn UsageStore>,
    zone: TimeZone,
    /// True if other instances add to the same rows.
    others: bool,
    /// Held while counts are being stored.
    saving: Arc<Mutex<Saving>>,
}

/// Counts that are being stored.
#[derive(Default)]
struct Saving {
    /// Those that are not confirmed as stored. The store may have added the first ones: they are
    /// sent again as they are, and the store knows them by their ids.
    batches: VecDeque<UsageBatch>,
    /// Day whose stored rows were last read.
    day_read: Option<Date>,
}

/// Counts that are stored together.
struct UsageBatch {
    id: String,
    rows: Vec<(UsageKey, Used)>,
    since: Timestamp,
}

impl UsageBatch {
    fn of(unsaved: &UnsavedUsage) -> impl Iterator<Item = Self> {
        let since = unsaved.since.unwrap_or_else(Timestamp::now);
        unsaved.rows.chunks(AT_ONCE).map(move |rows| Self {
            id: Uuid::new_v4().to_string(),
            rows: rows.to_vec(),
            since,
        })
    }
}

/// Usage since a day.
pub struct UsageReport {
    /// Today.
    pub today: Date,
    /// First day of the report.
    pub from: Date,
    /// Usage by day, device, role and kind.
    pub groups: [Vec<(String, Used)>; 4],
}

/// Groupings of the report, each with its maximum number of rows.
const GROUPS: [(UsageGroup, u32); 4] = [
    (UsageGroup::Day, MOST_ROWS),
    (UsageGroup::Device, MOST_TOLD),
    (UsageGroup::Role, MOST_TOLD),
    (UsageGroup::Kind, MOST_TOLD),
];

impl DailyUsage {
    /// Creates it; days begin in this zone, and `others` is true if other instances add to the same
    /// rows.
    pub fn new(
        meter: UsageMeter,
        store: Arc<dyn UsageStore>,
        zone: TimeZone,
        others: bool,
    ) -> Self {
        Self { meter, store, zone, others, saving: Arc::default() }
    }

    /// Returns the meter.
    pub fn meter(&self) -> &UsageMeter {
        &self.meter
    }

    /// Stores counts periodically, and deletes rows beyond the retention. Never returns.
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
                tracing::warn!(%error, "cannot store usage; trying again later");
            }
            is_down = saved.is_err();
            // A clock that jumps ahead deletes nothing.
            let today = wall_clock::earliest().to_zoned(self.zone.clone()).date();
            // Trims at once if the retention has changed.
            let due = Some((today, self.meter.settings().get().retention_days));
            if !is_down && trimmed != due && self.trim(today).await.is_ok() {
                trimmed = due;
            }
        }
    }

    /// Stores the counts since the last call, and reads what other instances have stored today.
    ///
    /// # Errors
    /// The store failed. The counts are not lost.
    pub async fn save(&self) -> Result<(), StoreError> {
        // Runs in a task: counts that are being stored would be lost with a cancelled request.
        let saving = tokio::spawn(self.clone().save_whole());
        let failed = |error| StoreError::because(StoreErrorKind::Unusable, error);
        saving.await.map_err(failed)?
    }

    async fn save_whole(self) -> Result<(), StoreError> {
        let mut saving = self.saving.lock().await;
        self.add(&mut saving.batches).await?;
        saving.batches.extend(UsageBatch::of(&self.meter.take_unsaved()));
        self.add(&mut saving.batches).await?;
        let today = self.meter.today();
        if self.others || saving.day_read != Some(today) {
            let stored: Vec<(UsageKey, Used)> = self.store.usage_of_day(today, MOST_ROWS).await?;
            self.meter.set_stored(today, &stored);
            saving.day_read = Some(today);
        }
        Ok(())
    }

    /// Stores these batches. Those that the store has not confirmed stay.
    async fn add(&self, batches: &mut VecDeque<UsageBatch>) -> Result<(), StoreError> {
        while let Some(UsageBatch { id, rows, since }) = batches.front() {
            self.store.add_usage(id, rows, *since).await?;
            batches.pop_front();
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
        tracing::debug!(rows, "deleted old usage");
        Ok(())
    }

    /// Returns the usage of this many days, including today.
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

    /// Removes the id of a device from its usage; the totals stay.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forget(&self, device: &DeviceId) -> Result<(), StoreError> {
        self.meter.forget(device.as_str());
        self.save().await?;
        self.store.forget_usage_of(device).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use hearken_dialogue::usage::{UsageAccount, UsageSettings};
    use hearken_ports::Usage;
    use hearken_store::SqlStore;
    use jiff::civil::date;

    use super::*;

    /// A store whose answer to the first addition is lost.
    struct Unanswered {
        store: SqlStore,
        loses: AtomicBool,
    }

    #[async_trait]
    impl UsageStore for Unanswered {
        async fn add_usage(
            &self,
            batch: &str,
            rows: &[(UsageKey, Used)],
            since: Timestamp,
        ) -> Result<(), StoreError> {
            self.store.add_usage(batch, rows, since).await?;
            if self.loses.swap(false, Ordering::Relaxed) {
                return Err(StoreError::new(StoreErrorKind::Unavailable));
            }
            Ok(())
        }

        async fn usage_of_day(
            &self,
            day: Date,
            most: u32,
        ) -> Result<Vec<(UsageKey, Used)>, StoreError> {
            self.store.usage_of_day(day, most).await
        }

        async fn usage_by(
            &self,
            group: UsageGroup,
            from: Date,
            most: u32,
        ) -> Result<Vec<(String, Used)>, StoreError> {
            self.store.usage_by(group, from, most).await
        }

        async fn forget_usage_of(&self, device: &DeviceId) -> Result<(), StoreError> {
            self.store.forget_usage_of(device).await
        }

        async fn delete_usage_before(&self, day: Date) -> Result<u64, StoreError> {
            self.store.delete_usage_before(day).await
        }
    }

    #[tokio::test]
    async fn usage_is_counted_once_if_the_answer_of_the_store_is_lost() {
        let store = SqlStore::at("sqlite::memory:").unwrap();
        let store = Arc::new(Unanswered { store, loses: AtomicBool::new(true) });
        let meter = UsageMeter::new(UsageSettings::default(), || date(2026, 11, 1));
        let usage = DailyUsage::new(meter.clone(), store, TimeZone::UTC, false);
        let turn = Used { turns: 1, ..Used::default() };
        meter.count("voice", "a", "", &turn);
        usage.save().await.unwrap_err();
        meter.count("voice", "a", "", &turn);
        let report = usage.report(1).await.unwrap();
        let [days, ..] = report.groups;
        assert_eq!(days, [("2026-11-01".to_owned(), Used { turns: 2, ..Used::default() })]);
    }

    #[tokio::test]
    async fn a_device_that_is_deleted_while_its_picture_is_described_is_not_listed_again() {
        let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
        let meter = UsageMeter::new(UsageSettings::default(), || date(2026, 11, 1));
        let usage = DailyUsage::new(meter.clone(), store, TimeZone::UTC, false);
        let account = UsageAccount::new(meter, "voice", "a", None, wall_clock::now());
        usage.forget(&DeviceId::new("a")).await.unwrap();
        account.count(&Usage { prompt_tokens: 7, ..Usage::default() });
        let report = usage.report(1).await.unwrap();
        let [_, devices, ..] = report.groups;
        assert_eq!(devices, [(String::new(), Used { prompt_tokens: 7, ..Used::default() })]);
    }
}
