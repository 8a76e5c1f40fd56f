//! Contract of all stores for enrolled people, and the erasure of deleted people from a file.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use hearken_ports::people::{MOST_EXCHANGES, MOST_FACTS, MOST_PEOPLE, MOST_VOICES};
use hearken_ports::{Exchange, Person, PersonId, PersonMemory, PersonOutcome, PersonStore as _};
use hearken_store::SqlStore;
use hearken_test_support::places::Place;
use serde_json::json;

use super::backup::restore;
use super::devices::backup_of;
use super::{on_every_store, open};

on_every_store!(
    people_are_stored_renamed_and_deleted,
    the_data_of_a_person_is_limited,
    memories_are_deleted_and_voices_stay,
    each_change_gives_another_version,
    concurrent_instances_agree,
    concurrent_memories_of_a_deleted_person_are_not_stored,
);

pub(super) fn person(id: &str, name: &str) -> Person {
    Person {
        id: PersonId(id.into()),
        name: name.into(),
        role_id: String::new(),
        voices: vec![vec![0.25, -1.0, f32::MIN_POSITIVE]],
        facts: vec!["likes 茶 \u{0} and \"tea\"".into()],
        exchanges: vec![exchange(0)],
    }
}

fn id(person: &str) -> PersonId {
    PersonId(person.into())
}

fn exchange(number: usize) -> Exchange {
    Exchange { said: format!("question {number}"), answered: format!("回答 {number}") }
}

async fn people_are_stored_renamed_and_deleted(place: Arc<Place>) {
    let store = open(&place);
    assert_eq!(store.people().await.unwrap(), []);
    let zoe = person("z", "Zoë");
    let ann = person("a", "'; DROP TABLE persons; --");
    for person in [&zoe, &ann] {
        assert_eq!(store.add_person(person).await.unwrap(), PersonOutcome::Done);
    }
    assert_eq!(store.people().await.unwrap(), [zoe.clone(), ann.clone()], "in order of enrolment");
    let store = open_again(&place, store).await;
    assert_eq!(store.people().await.unwrap().len(), 2);
    let same = Person { id: id("y"), ..zoe.clone() };
    assert_eq!(store.add_person(&same).await.unwrap(), PersonOutcome::NameTaken);
    let rename = async |of: &str, name| store.rename_person(&id(of), name).await.unwrap();
    assert_eq!(rename("a", "Zoë").await, PersonOutcome::NameTaken);
    assert_eq!(rename("nobody", "Zoë").await, PersonOutcome::NameTaken);
    assert_eq!(rename("nobody", "Eve").await, PersonOutcome::Unknown);
    assert_eq!(rename("a", "小安").await, PersonOutcome::Done);
    assert_eq!(rename("a", "小安").await, PersonOutcome::Done, "it is their own name");
    let ann = Person { name: "小安".into(), ..ann };
    assert_eq!(store.people().await.unwrap(), [zoe, ann.clone()]);
    assert!(store.delete_person(&id("z")).await.unwrap());
    assert!(!store.delete_person(&id("z")).await.unwrap());
    assert_eq!(store.people().await.unwrap(), [ann]);
    let unknown = PersonOutcome::Unknown;
    assert_eq!(store.add_voice(&id("z"), &[1.0]).await.unwrap(), unknown);
    assert_eq!(store.remember(&id("z"), &fact(1)).await.unwrap(), unknown);
    assert!(!store.forget_memories(&id("z")).await.unwrap());
}

/// Opens a place again, as a restarted server does.
pub(super) async fn open_again(place: &Place, store: SqlStore) -> SqlStore {
    if !place.is_shared() {
        return store;
    }
    store.shut().await;
    open(place)
}

fn fact(number: usize) -> PersonMemory {
    PersonMemory::Fact(format!("fact {number}"))
}

async fn the_data_of_a_person_is_limited(place: Arc<Place>) {
    let store = open(&place);
    for name in ["a", "b"] {
        store.add_person(&person(name, name)).await.unwrap();
    }
    for number in 0..=MOST_VOICES.max(MOST_FACTS).max(MOST_EXCHANGES) {
        #[allow(clippy::cast_precision_loss, reason = "a small number")]
        let voice = [number as f32];
        let outcomes = [
            store.add_voice(&id("a"), &voice).await.unwrap(),
            store.remember(&id("a"), &fact(number)).await.unwrap(),
            store.remember(&id("a"), &PersonMemory::Exchange(exchange(number))).await.unwrap(),
        ];
        assert_eq!(outcomes, [PersonOutcome::Done; 3]);
    }
    let all = store.people().await.unwrap();
    assert_eq!(all[1], person("b", "b"), "data of others is unchanged");
    let one = &all[0];
    let counts = (one.voices.len(), one.facts.len(), one.exchanges.len());
    assert_eq!(counts, (MOST_VOICES, MOST_FACTS, MOST_EXCHANGES));
    assert_eq!((one.facts[0].as_str(), one.facts[MOST_FACTS - 1].as_str()), ("fact 1", "fact 50"));
    assert_eq!(one.exchanges[0], exchange(51 - MOST_EXCHANGES));
    assert_eq!(one.voices[MOST_VOICES - 1], [50.0]);
    // A new person with more data than that loses the oldest of it, too.
    let facts: Vec<String> = (0..MOST_FACTS + 2).map(|number| number.to_string()).collect();
    store.add_person(&Person { facts, ..person("c", "c") }).await.unwrap();
    assert_eq!(store.people().await.unwrap()[2].facts[0], "2");
}

async fn memories_are_deleted_and_voices_stay(place: Arc<Place>) {
    let store = open(&place);
    for name in ["a", "b"] {
        store.add_person(&person(name, name)).await.unwrap();
    }
    assert!(store.forget_memories(&id("a")).await.unwrap());
    assert!(store.forget_memories(&id("a")).await.unwrap(), "they are still enrolled");
    let forgotten = Person { facts: Vec::new(), exchanges: Vec::new(), ..person("a", "a") };
    assert_eq!(store.people().await.unwrap(), [forgotten, person("b", "b")]);
}

async fn each_change_gives_another_version(place: Arc<Place>) {
    let store = open(&place);
    let mut before = store.people_version().await.unwrap();
    let mut check = async |what: &str| {
        let version = store.people_version().await.unwrap();
        assert_ne!(version, before, "{what}");
        assert_eq!(store.people_version().await.unwrap(), version, "{what}: and only a change");
        before = version;
    };
    let ann = person("a", "小安");
    store.add_person(&ann).await.unwrap();
    check("a new person").await;
    store.rename_person(&ann.id, "b").await.unwrap();
    check("a new name").await;
    store.set_person_role(&ann.id, "calm").await.unwrap();
    check("a role").await;
    // At the limit, each new row deletes another.
    for number in 0..=MOST_VOICES.max(MOST_FACTS).max(MOST_EXCHANGES) {
        store.add_voice(&ann.id, &[1.0]).await.unwrap();
        check("a voice").await;
        store.remember(&ann.id, &fact(number)).await.unwrap();
        check("a fact").await;
        store.remember(&ann.id, &PersonMemory::Exchange(exchange(number))).await.unwrap();
        check("an exchange").await;
    }
    store.forget_memories(&ann.id).await.unwrap();
    check("no memories").await;
    store.delete_person(&ann.id).await.unwrap();
    check("no person").await;
}

async fn concurrent_instances_agree(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let stores = [open(&place), open(&place)];
    let row = |n: usize| json!({"person_id": format!("p{n}"), "name": format!("n{n}"), "created_ms": n, "role_id": ""});
    let rows = (0..MOST_PEOPLE - 2).map(row);
    restore(&stores[0], backup_of("persons", rows).as_bytes(), false).await.unwrap();
    let count = |outcomes: &[PersonOutcome], wanted| {
        outcomes.iter().filter(|outcome| **outcome == wanted).count()
    };
    let add = async |named: fn(usize) -> String| {
        let adding = (0..8).map(|n| {
            let store = &stores[n % 2];
            let new = person(&format!("{}-{n}", named(n)), &named(n));
            async move { store.add_person(&new).await.unwrap() }
        });
        join_all(adding).await
    };
    let outcomes = add(|_| "same".into()).await;
    let done = PersonOutcome::Done;
    let taken = PersonOutcome::NameTaken;
    assert_eq!((count(&outcomes, done), count(&outcomes, taken)), (1, 7), "{outcomes:?}");
    let outcomes = add(|n| format!("other {n}")).await;
    let full = PersonOutcome::TooMany;
    assert_eq!((count(&outcomes, done), count(&outcomes, full)), (1, 7), "{outcomes:?}");
    let renaming = (0..8).map(|n| {
        let store = &stores[n % 2];
        async move { store.rename_person(&id(&format!("p{n}")), "one").await.unwrap() }
    });
    let outcomes = join_all(renaming).await;
    assert_eq!((count(&outcomes, done), count(&outcomes, taken)), (1, 7), "{outcomes:?}");
    assert_eq!(stores[1].people().await.unwrap().len(), MOST_PEOPLE);
}

async fn concurrent_memories_of_a_deleted_person_are_not_stored(place: Arc<Place>) {
    if !place.is_shared() {
        return;
    }
    let stores = [open(&place), open(&place)];
    for round in 0..5 {
        let known = id(&round.to_string());
        stores[0].add_person(&person(&known.0, &known.0)).await.unwrap();
        let remembering = (0..6).map(|n| {
            let store = &stores[n % 2];
            let known = &known;
            async move { store.remember(known, &fact(n)).await.unwrap() }
        });
        let (deleted, outcomes) =
            tokio::join!(stores[1].delete_person(&known), join_all(remembering));
        assert!(deleted.unwrap());
        let fit = |outcome| matches!(outcome, PersonOutcome::Done | PersonOutcome::Unknown);
        assert!(outcomes.into_iter().all(fit));
    }
    let report = stores[0].check(&mut |_, _| ()).await.unwrap();
    let left = ["persons", "person_voices", "person_memories"].map(|table| report.rows[table]);
    assert_eq!((left, report.faults), ([0; 3], vec![]));
}

/// Bytes as characters, which are searched faster.
pub(super) fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Returns the content of all files of a store.
pub(super) fn content(folder: &Path) -> String {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| latin(&std::fs::read(file.unwrap().path()).unwrap())).collect()
}

/// Returns a person with a unique name, facts, words and voice, and the bytes to search for.
fn traces(number: u8) -> (Person, Vec<Vec<u8>>) {
    let voice: Vec<f32> = (1..=192_u8).map(|n| f32::from(n) / f32::from(number + 3)).collect();
    let words = |what: &str| format!("{what} of Rumpelstiltskin, who is number {number}.");
    let person = Person {
        id: PersonId(uuid::Uuid::new_v4().to_string()),
        name: words("name"),
        role_id: String::new(),
        voices: vec![voice.clone(); 3],
        facts: (0..MOST_FACTS).map(|n| words(&format!("fact {n}"))).collect(),
        exchanges: vec![Exchange { said: words("said"), answered: words("answered") }; 5],
    };
    let voice = voice.iter().flat_map(|number| number.to_le_bytes()).collect();
    let words =
        ["name", "fact 0", "fact 49", "said", "answered"].map(|what| words(what).into_bytes());
    (person, words.into_iter().chain([voice]).collect())
}

/// Every second one of many is deleted, so that pages are split, merged and reused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_deleted_person_stays_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqlStore::file(&folder.path().join("hearken.db")).unwrap();
    let people: Vec<_> = (0..40).map(traces).collect();
    for (person, _) in &people {
        assert_eq!(store.add_person(person).await.unwrap(), PersonOutcome::Done);
    }
    let all = || -> Vec<usize> {
        let content = content(folder.path());
        let found = |bytes: &&Vec<u8>| content.contains(&latin(bytes));
        people.iter().map(|(_, traces)| traces.iter().filter(found).count()).collect()
    };
    assert_eq!(all(), [6; 40], "the search finds existing data");
    for (number, (person, _)) in people.iter().enumerate() {
        let id = &person.id;
        for more in 0..4 {
            store.remember(id, &fact(more)).await.unwrap();
        }
        match number % 4 {
            0 => assert!(store.delete_person(id).await.unwrap()),
            1 => assert!(store.forget_memories(id).await.unwrap()),
            2 => assert_eq!(store.rename_person(id, &id.0).await.unwrap(), PersonOutcome::Done),
            _ => {}
        }
    }
    assert!(store.delete_person(&people[2].0.id).await.unwrap());
    // Of the others, the oldest facts were deleted.
    let wanted = |number: usize| match number {
        2 => 0,
        _ => [0, 2, 4, 5][number % 4],
    };
    let wanted: Vec<_> = (0..people.len()).map(wanted).collect();
    assert_eq!(all(), wanted);
    assert_eq!(store.people().await.unwrap().len(), 29);
    store.shut().await;
    assert_eq!(all(), wanted, "after the last connection is closed");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 24, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn any_person_is_read_back_unchanged(
        name in "\\PC{1,40}",
        facts in proptest::collection::vec(".{0,40}", 0..4),
        numbers in proptest::collection::vec(proptest::num::f32::ANY, 0..9),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let store = SqlStore::at("sqlite::memory:").unwrap();
            let known = Person { facts, voices: vec![numbers], ..person("p", &name) };
            store.add_person(&known).await.unwrap();
            let read = store.people().await.unwrap().remove(0);
            let bits = |person: &Person| -> Vec<u32> {
                person.voices[0].iter().map(|number| number.to_bits()).collect()
            };
            assert_eq!((bits(&read), read.facts), (bits(&known), known.facts));
            assert_eq!((read.name, read.exchanges), (known.name, known.exchanges));
        });
    }
}
