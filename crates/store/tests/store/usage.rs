//! Contract of all stores for the usage of each day.

use std::sync::Arc;

use hearken_ports::store::{UsageGroup, UsageStore as _};
use hearken_ports::usage::{UsageKey, Used};
use hearken_proto::ids::DeviceId;
use hearken_store::SqlStore;
use hearken_test_support::places::Place;
use jiff::civil::{Date, date};
use jiff::{SignedDuration, Timestamp};

use super::people::open_again;
use super::{on_every_store, open};

on_every_store!(
    additions_count_for_their_day_device_role_and_kind,
    concurrent_additions_of_instances_are_all_counted,
    a_batch_that_is_added_again_counts_once,
    a_forgotten_device_stays_in_the_sums_without_its_id,
    a_turn_that_ends_after_its_device_was_deleted_does_not_bring_back_its_id,
);

/// Earlier than all turns.
const LONG_AGO: Timestamp = Timestamp::UNIX_EPOCH;

fn day(day: i8) -> Date {
    date(2026, 11, day)
}

fn key(on: i8, kind: &str, client: &str, role_id: &str) -> UsageKey {
    let [kind, client, role_id] = [kind, client, role_id].map(str::to_owned);
    UsageKey { day: day(on), kind, client, role_id }
}

fn used(turns: u64) -> Used {
    Used {
        turns,
        refused: turns / 2,
        prompt_tokens: turns * 100,
        completion_tokens: turns * 10,
        heard_ms: turns * 1_500,
        said_ms: turns * 2_500,
        said_chars: turns * 30,
        cost_nano: turns * 7,
    }
}

pub(super) fn row(on: i8, client: &str, turns: u64) -> (UsageKey, Used) {
    (key(on, "voice", client, ""), used(turns))
}

async fn sums(store: &SqlStore, group: UsageGroup, from: i8) -> Vec<(String, u64)> {
    let sums = store.usage_by(group, day(from), 100).await.unwrap();
    sums.into_iter()
        .map(|(name, sum)| {
            assert_eq!(sum, used(sum.turns));
            (name, sum.turns)
        })
        .collect()
}

fn told(sums: &[(&str, u64)]) -> Vec<(String, u64)> {
    sums.iter().map(|(name, turns)| ((*name).to_owned(), *turns)).collect()
}

async fn additions_count_for_their_day_device_role_and_kind(place: Arc<Place>) {
    let store = open(&place);
    store.add_usage("0", &[], LONG_AGO).await.unwrap();
    assert_eq!(sums(&store, UsageGroup::Day, 1).await, []);
    let first = [
        (key(1, "voice", "a", "kids"), used(2)),
        (key(1, "voice", "b", ""), used(8)),
        (key(2, "text", "", ""), used(4)),
    ];
    store.add_usage("1", &first, LONG_AGO).await.unwrap();
    store
        .add_usage(
            "2",
            &[(key(2, "voice", "a", ""), used(2)), (key(1, "voice", "a", "kids"), used(2))],
            LONG_AGO,
        )
        .await
        .unwrap();
    let store = open_again(&place, store).await;
    assert_eq!(
        sums(&store, UsageGroup::Day, 1).await,
        told(&[("2026-11-01", 12), ("2026-11-02", 6)])
    );
    assert_eq!(sums(&store, UsageGroup::Day, 2).await, told(&[("2026-11-02", 6)]));
    assert_eq!(sums(&store, UsageGroup::Device, 1).await, told(&[("b", 8), ("a", 6)]));
    assert_eq!(sums(&store, UsageGroup::Role, 1).await, told(&[("", 14), ("kids", 4)]));
    assert_eq!(sums(&store, UsageGroup::Kind, 1).await, told(&[("voice", 14), ("text", 4)]));
    assert_eq!(store.usage_by(UsageGroup::Device, day(1), 1).await.unwrap().len(), 1);
    let first = store.usage_of_day(day(1), 10).await.unwrap();
    assert_eq!(
        first,
        [(key(1, "voice", "b", ""), used(8)), (key(1, "voice", "a", "kids"), used(4))]
    );
    assert_eq!(store.delete_usage_before(day(2)).await.unwrap(), 2);
    assert_eq!(sums(&store, UsageGroup::Day, 1).await, told(&[("2026-11-02", 6)]));
}

async fn concurrent_additions_of_instances_are_all_counted(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let stores = [open(&place), open(&place)];
    let adding = (0..40_usize).map(|number| {
        let store = &stores[number % 2];
        let batch = number.to_string();
        let rows = [row(1, "a", 2), row(1, "b", 2)];
        async move { store.add_usage(&batch, &rows, LONG_AGO).await.unwrap() }
    });
    futures_util::future::join_all(adding).await;
    assert_eq!(sums(&stores[0], UsageGroup::Day, 1).await, told(&[("2026-11-01", 160)]));
}

async fn a_batch_that_is_added_again_counts_once(place: Arc<Place>) {
    let store = open(&place);
    let rows = [row(1, "a", 2)];
    for batch in ["1", "1", "2", "1"] {
        store.add_usage(batch, &rows, LONG_AGO).await.unwrap();
    }
    let store = open_again(&place, store).await;
    assert_eq!(sums(&store, UsageGroup::Day, 1).await, told(&[("2026-11-01", 4)]));
    if !place.is_shared() {
        return;
    }
    // The database may still be at the first call when it is repeated.
    let stores = [open(&place), open(&place)];
    let adding = stores.iter().map(|store| store.add_usage("3", &rows, LONG_AGO));
    for added in futures_util::future::join_all(adding).await {
        added.unwrap();
    }
    assert_eq!(sums(&store, UsageGroup::Day, 1).await, told(&[("2026-11-01", 6)]));
}

async fn a_turn_that_ends_after_its_device_was_deleted_does_not_bring_back_its_id(
    place: Arc<Place>,
) {
    if !place.is_shared() {
        return;
    }
    // Another instance deletes it.
    let [here, there] = [open(&place), open(&place)];
    let began = Timestamp::now();
    there.forget_usage_of(&DeviceId::new("a")).await.unwrap();
    here.add_usage("1", &[row(1, "a", 2), row(1, "b", 4)], began).await.unwrap();
    assert_eq!(sums(&here, UsageGroup::Device, 1).await, told(&[("b", 4), ("", 2)]));
    let later = Timestamp::now().checked_add(SignedDuration::from_secs(1)).unwrap();
    here.add_usage("2", &[row(1, "a", 1)], later).await.unwrap();
    assert_eq!(sums(&here, UsageGroup::Device, 1).await, told(&[("b", 4), ("", 2), ("a", 1)]));
}

async fn a_forgotten_device_stays_in_the_sums_without_its_id(place: Arc<Place>) {
    let store = open(&place);
    store
        .add_usage("1", &[row(1, "a", 2), row(1, "", 4), row(2, "a", 2), row(1, "b", 2)], LONG_AGO)
        .await
        .unwrap();
    for _ in 0..2 {
        store.forget_usage_of(&DeviceId::new("a")).await.unwrap();
        assert_eq!(sums(&store, UsageGroup::Device, 1).await, told(&[("", 8), ("b", 2)]));
    }
    assert_eq!(
        sums(&store, UsageGroup::Day, 1).await,
        told(&[("2026-11-01", 8), ("2026-11-02", 2)])
    );
}
