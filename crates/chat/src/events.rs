//! Events of the server about chat sessions. Each is stored with the change that it reports, then
//! published in order, then removed from the store. Events that an instance left unpublished when
//! it ended are published by another one. Not for the events of a state server.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hearken_base::wall_clock::now;
use hearken_ports::{PendingEvent, Published};
use hearken_proto::chat::{Event, EventData};
use hearken_proto::ids::SessionId;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

use super::ChatService;

/// Interval at which all stored events are checked. An event that is present in two checks was left
/// by an instance that ended, or could not be published. Decision 0057.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Time for which published events are collected, to be removed together.
const COLLECTED_FOR: Duration = Duration::from_millis(200);
/// Maximum number of events that are read at once.
const READ_AT_ONCE: u32 = 1_000;

/// Publication status of events that are still in the store, by their numbers. Clones share it.
#[derive(Clone, Default)]
pub struct PublishedEvents(Arc<Inner>);

#[derive(Default)]
struct Inner {
    numbers: Mutex<Numbers>,
    added: Notify,
}

#[derive(Default)]
struct Numbers {
    /// Published everywhere; to be removed.
    everywhere: BTreeSet<i64>,
    /// Published only to the watchers of this instance; to be published again.
    here: BTreeSet<i64>,
}

impl PublishedEvents {
    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.0.numbers.lock().expect("nothing panics while it holds the numbers")
    }

    fn add(&self, number: i64, how_far: Published) {
        let mut numbers = self.numbers();
        match how_far {
            Published::Everywhere => {
                numbers.here.remove(&number);
                numbers.everywhere.insert(number);
                self.0.added.notify_one();
            }
            Published::Here => {
                numbers.here.insert(number);
            }
        }
    }
}

/// Creates an event of the server about a session.
pub(super) fn event(id: &SessionId, kind: &str, data: Value) -> Event {
    Event {
        id: uuid::Uuid::now_v7().to_string(),
        session_id: id.clone(),
        kind: kind.into(),
        data: data.as_object().map(EventData::from).unwrap_or_default(),
        timestamp: now(),
    }
}

impl ChatService {
    /// Publishes the stored events of a session in order: those that another instance left, and
    /// that of the change just made. [`ChatService::keep_publishing`] retries failures.
    pub(super) async fn publish_pending(&self, id: &SessionId) {
        let pending = match self.store.pending_events(Some(id), READ_AT_ONCE).await {
            Ok(pending) => pending,
            Err(error) => {
                tracing::warn!(
                    error,
                    session = id.short(),
                    "cannot read the events to publish; trying again later"
                );
                return;
            }
        };
        for PendingEvent { number, event } in pending {
            let known = {
                let numbers = self.published.numbers();
                numbers.everywhere.contains(&number) || numbers.here.contains(&number)
            };
            if !known && self.publish(number, event).await.is_none() {
                return;
            }
        }
    }

    /// Publishes an event, and returns how far it went; `None` if that failed.
    async fn publish(&self, number: i64, event: Event) -> Option<Published> {
        let id = event.session_id.clone();
        match self.events.publish(event).await {
            Ok(how_far) => {
                self.published.add(number, how_far);
                Some(how_far)
            }
            Err(error) => {
                tracing::warn!(
                    error,
                    session = id.short(),
                    "cannot publish an event; trying again later"
                );
                None
            }
        }
    }

    /// Removes published events from the store, and publishes those that other instances left
    /// there. Never returns.
    pub async fn keep_publishing(&self) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = HashSet::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => seen = self.publish_left(&seen).await,
                () = self.published.0.added.notified() => tokio::time::sleep(COLLECTED_FOR).await,
            }
            self.remove_published().await;
        }
    }

    /// Publishes the stored events that were already present in the previous check (`seen`), and
    /// returns those that are present now.
    pub async fn publish_left(&self, seen: &HashSet<i64>) -> HashSet<i64> {
        let pending = match self.store.pending_events(None, READ_AT_ONCE).await {
            Ok(pending) => pending,
            Err(error) => {
                tracing::warn!(error, "cannot read the events to publish; trying again later");
                return seen.clone();
            }
        };
        let there: HashSet<i64> = pending.iter().map(|pending| pending.number).collect();
        self.published.numbers().here.retain(|number| there.contains(number));
        for PendingEvent { number, event } in pending {
            let published = self.published.numbers().everywhere.contains(&number);
            if published || !seen.contains(&number) {
                continue;
            }
            // If one event does not reach the other instances, none will.
            if self.publish(number, event).await != Some(Published::Everywhere) {
                break;
            }
        }
        there
    }

    /// Removes published events from the store.
    pub async fn remove_published(&self) {
        let numbers: Vec<i64> = self.published.numbers().everywhere.iter().copied().collect();
        match self.store.remove_events(&numbers).await {
            Ok(()) => {
                let mut published = self.published.numbers();
                for number in numbers {
                    published.everywhere.remove(&number);
                }
            }
            Err(error) => {
                tracing::warn!(error, "cannot remove published events; trying again later");
            }
        }
    }
}
