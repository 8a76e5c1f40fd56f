//! Contract of all stores for roles, their versions, and their assignment to devices and people.

use std::sync::Arc;

use hearken_ports::role::{InterruptionManner, Keep, RoleSettings};
use hearken_ports::store::{
    ClientRule, DeviceReport, DeviceStore as _, MAX_ROLE_VERSIONS, MAX_ROLES, Role, RoleOutcome,
    RoleStore as _, ToolStore as _,
};
use hearken_ports::{InstantScope, PersonId, PersonOutcome, PersonStore as _};
use hearken_proto::ids::DeviceId;
use hearken_store::SqlStore;
use hearken_test_support::chat_rows::at;
use hearken_test_support::places::Place;

use super::people::{self, open_again};
use super::{on_every_store, open};

on_every_store!(
    roles_are_added_changed_and_restored,
    roles_and_versions_are_limited,
    a_deleted_role_stays_assigned_to_devices_and_people,
    of_concurrent_changes_of_a_role_each_sees_the_one_before,
);

pub(super) fn role(role_id: &str, name: &str) -> Role {
    let settings = RoleSettings {
        system_prompt: format!("Be {name}, 'always' \0 \\u0000 \u{1f4a1}\n{{current_time}}"),
        model: "m".into(),
        temperature: Some(0.3),
        max_tokens: Some(7),
        answer_seconds: Some(60),
        voice: "v".into(),
        tools_off: vec!["a".into(), "b".into()],
        interruption: Some(InterruptionManner::Cut),
        instant: Some(InstantScope::Commands),
        memory: false,
        history: Some(Keep::Text),
        ..RoleSettings::default()
    };
    Role { role_id: role_id.into(), name: name.into(), version: 1, updated: at(1), settings }
}

async fn add(store: &SqlStore, role: &Role) -> RoleOutcome {
    store.add_role(role).await.unwrap()
}

async fn roles_are_added_changed_and_restored(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.roles().await.unwrap(), []);
    let b = role("1", "b");
    let a = role("2", "a");
    for role in [&b, &a] {
        assert_eq!(add(&store, role).await, RoleOutcome::Done(Box::new(role.clone())));
    }
    assert_eq!(add(&store, &role("3", "a")).await, RoleOutcome::NameTaken);
    let store = open_again(&place, store).await;
    assert_eq!(store.roles().await.unwrap(), [a.clone(), b.clone()], "by name");
    let change = async |id: &str, version, name: &str, settings: &RoleSettings, when| {
        store.change_role(id, version, name, settings, at(when)).await.unwrap()
    };
    assert_eq!(change("9", 1, "c", &a.settings, 5).await, RoleOutcome::Unknown);
    assert_eq!(change("1", 1, "a", &b.settings, 5).await, RoleOutcome::NameTaken);
    assert_eq!(
        change("1", 1, "b", &b.settings, 5).await,
        RoleOutcome::Done(Box::new(b.clone())),
        "as it is"
    );
    let second =
        Role { version: 2, updated: at(6), settings: RoleSettings::default(), ..b.clone() };
    assert_eq!(
        change("1", 1, "b", &second.settings, 6).await,
        RoleOutcome::Done(Box::new(second.clone()))
    );
    assert_eq!(change("1", 1, "c", &b.settings, 7).await, RoleOutcome::Overtaken);
    let third = Role { version: 3, name: "c".into(), updated: at(7), ..b.clone() };
    assert_eq!(
        change("1", 2, "c", &b.settings, 7).await,
        RoleOutcome::Done(Box::new(third.clone()))
    );
    assert_eq!(store.role_versions("1").await.unwrap(), [third.clone(), second, b]);
    assert_eq!(store.role_versions("9").await.unwrap(), []);
    assert_eq!(store.roles().await.unwrap(), [a, third]);
}

async fn roles_and_versions_are_limited(place: Arc<Place>) {
    let store = open(&place);
    for number in 0..MAX_ROLES {
        let role = role(&number.to_string(), &format!("role {number}"));
        assert_eq!(add(&store, &role).await, RoleOutcome::Done(Box::new(role)));
    }
    assert_eq!(add(&store, &role("more", "more")).await, RoleOutcome::TooMany);
    for number in 0..i64::from(MAX_ROLE_VERSIONS) + 2 {
        let settings = RoleSettings { voice: number.to_string(), ..RoleSettings::default() };
        let changed = store.change_role("7", number + 1, "role 7", &settings, at(number)).await;
        assert!(matches!(changed.unwrap(), RoleOutcome::Done(_)), "{number}");
    }
    let versions = store.role_versions("7").await.unwrap();
    let first = versions[0].version;
    let last = versions[versions.len() - 1].version;
    assert_eq!((versions.len(), first, last), (50, 53, 4));
    assert_eq!(store.role_versions("8").await.unwrap().len(), 1);
}

async fn a_deleted_role_stays_assigned_to_devices_and_people(place: Arc<Place>) {
    let store = open(&place);
    for role in [role("1", "a"), role("2", "b")] {
        add(&store, &role).await;
    }
    let device = DeviceId::new("02:00:00:00:00:01");
    let report = DeviceReport {
        device_id: device.clone(),
        client_id: hearken_base::Secret::new("c"),
        address: String::new(),
        board: String::new(),
        chip: String::new(),
        serial_number: String::new(),
        firmware_version: String::new(),
    };
    store.report(&report, ClientRule::First, at(1)).await.unwrap();
    assert_eq!(store.set_role(&DeviceId::new("x"), "1").await.unwrap(), None);
    let given = store.set_role(&device, "1").await.unwrap().unwrap();
    assert_eq!(given.role_id, "1");
    assert_eq!(store.devices_with_overrides().await.unwrap(), std::slice::from_ref(&given));
    let person = PersonId("p".into());
    assert_eq!(store.set_person_role(&person, "1").await.unwrap(), PersonOutcome::Unknown);
    store.add_person(&people::person("p", "Ann")).await.unwrap();
    assert_eq!(store.set_person_role(&person, "1").await.unwrap(), PersonOutcome::Done);
    assert_eq!(store.people().await.unwrap()[0].role_id, "1");
    assert!(store.delete_role("2").await.unwrap());
    assert_eq!(store.people().await.unwrap()[0].role_id, "1");
    assert!(store.delete_role("1").await.unwrap());
    assert!(!store.delete_role("1").await.unwrap());
    // Without a role, they would have what it withheld from them.
    assert_eq!(store.people().await.unwrap()[0].role_id, "1");
    assert_eq!(store.device(&device).await.unwrap().unwrap().role_id, "1");
    assert_eq!(store.devices_with_overrides().await.unwrap(), [given]);
    assert_eq!(
        (store.roles().await.unwrap(), store.role_versions("1").await.unwrap()),
        (vec![], vec![])
    );
}

async fn of_concurrent_changes_of_a_role_each_sees_the_one_before(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let stores = [open(&place), open(&place)];
    add(&stores[0], &role("1", "a")).await;
    let changes = (0..8_usize).map(|number| {
        let store = &stores[number % 2];
        let voice = number.to_string();
        let settings = RoleSettings { voice, ..RoleSettings::default() };
        async move { store.change_role("1", 1, "a", &settings, at(2)).await.unwrap() }
    });
    let outcomes = futures_util::future::join_all(changes).await;
    let done = outcomes.iter().filter(|outcome| matches!(outcome, RoleOutcome::Done(_)));
    assert_eq!(done.count(), 1, "{outcomes:?}");
    let overtaken = outcomes.iter().filter(|outcome| **outcome == RoleOutcome::Overtaken);
    assert_eq!(overtaken.count(), 7, "{outcomes:?}");
    let versions = stores[1].role_versions("1").await.unwrap();
    let numbers: Vec<_> = versions.iter().map(|role| role.version).collect();
    assert_eq!(numbers, [2, 1]);
}
