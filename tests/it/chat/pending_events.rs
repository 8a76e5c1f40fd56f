//! Events of the server that could not be published at once: they are published later, in order,
//! each once. Not for killed instances, nor for the storage of events.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hearken_chat::{ChatService, PublishedEvents};
use hearken_cluster::LocalBus;
use hearken_ports::{BoxError, ChatStore as _, EventBus, Published, Watch};
use hearken_proto::chat::Event;
use hearken_proto::ids::SessionId;

use super::in_process::ChatInProcess;

/// How far a published event gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Everywhere,
    Here,
    Nowhere,
}

/// The bus of an instance that may not reach the others.
struct Bus {
    inner: LocalBus,
    reach: Mutex<Reach>,
    /// The messages of all events to publish.
    asked: Mutex<Vec<String>>,
}

impl Bus {
    fn new(reach: Reach) -> Arc<Self> {
        Arc::new(Self { inner: LocalBus::new(), reach: reach.into(), asked: Mutex::default() })
    }

    fn set(&self, reach: Reach) {
        *self.reach.lock().unwrap() = reach;
    }
}

fn message(event: &Event) -> String {
    event.data.parse().unwrap()["message"].as_str().unwrap().to_owned()
}

impl EventBus for Bus {
    fn publish(&self, event: Event) -> BoxFuture<'static, Result<Published, BoxError>> {
        self.asked.lock().unwrap().push(message(&event));
        let reach = *self.reach.lock().unwrap();
        let published = self.inner.publish(event);
        Box::pin(async move {
            match reach {
                Reach::Everywhere => published.await,
                Reach::Here => published.await.and(Ok(Published::Here)),
                Reach::Nowhere => Err("the bus is unreachable".into()),
            }
        })
    }

    fn watch(
        &self,
        session: &SessionId,
        after: Option<&str>,
    ) -> BoxFuture<'static, Result<Watch, BoxError>> {
        self.inner.watch(session, after)
    }

    fn forget(&self, session: &SessionId) -> BoxFuture<'static, Result<(), BoxError>> {
        self.inner.forget(session)
    }
}

/// Another instance with the store and the locks of this one.
fn instance(of: &ChatService, bus: &Arc<Bus>) -> ChatService {
    let events = Arc::clone(bus) as _;
    ChatService { events, published: PublishedEvents::default(), ..of.clone() }
}

/// The messages of the events that a watcher has received so far.
fn told(watch: &mut Watch) -> Vec<String> {
    std::iter::from_fn(|| watch.events.try_recv().ok()).map(|event| message(&event)).collect()
}

async fn stored(chat: &ChatInProcess) -> Vec<String> {
    let pending = chat.store.pending_events(Some(&chat.id), 100).await.unwrap();
    pending.iter().map(|pending| message(&pending.event)).collect()
}

/// A chat at an instance whose events reached no other instance, and the bus of another instance.
async fn left() -> (ChatInProcess, Arc<Bus>) {
    let mut chat = ChatInProcess::start().await;
    chat.service.remove_published().await;
    assert_eq!(stored(&chat).await, [""; 0], "published events are removed");
    chat.service = instance(&chat.service, &Bus::new(Reach::Nowhere));
    chat.say("one", None).await.expect("an unpublished event is no error");
    chat.say("two", None).await.unwrap();
    assert_eq!(stored(&chat).await, ["one", "two"]);
    (chat, Bus::new(Reach::Everywhere))
}

#[tokio::test]
async fn pending_events_of_another_instance_are_published_first() {
    let (mut chat, bus) = left().await;
    chat.service = instance(&chat.service, &bus);
    let mut watch = bus.watch(&chat.id, None).await.unwrap();
    chat.say("three", None).await.unwrap();
    assert_eq!(told(&mut watch), ["one", "two", "three"]);
    chat.say("four", None).await.unwrap();
    assert_eq!(told(&mut watch), ["four"]);
    chat.service.remove_published().await;
    assert_eq!(stored(&chat).await, [""; 0]);
}

#[tokio::test]
async fn pending_events_of_an_idle_session_are_published_at_the_second_look() {
    let (chat, bus) = left().await;
    let service = instance(&chat.service, &bus);
    let mut watch = bus.watch(&chat.id, None).await.unwrap();
    let seen = service.publish_left(&HashSet::new()).await;
    assert_eq!(told(&mut watch), [""; 0], "its instance may be about to publish it");
    let seen = service.publish_left(&seen).await;
    assert_eq!(told(&mut watch), ["one", "two"]);
    service.publish_left(&seen).await;
    assert_eq!(told(&mut watch), [""; 0], "once");
    service.remove_published().await;
    assert_eq!(service.publish_left(&seen).await.len(), 0);
}

#[tokio::test]
async fn events_that_reached_one_instance_reach_the_others_later() {
    let mut chat = ChatInProcess::start().await;
    let bus = Bus::new(Reach::Here);
    chat.service = instance(&chat.service, &bus);
    chat.service.publish_left(&HashSet::new()).await;
    bus.asked.lock().unwrap().clear();
    chat.say("one", None).await.unwrap();
    chat.say("two", None).await.unwrap();
    let asked = bus.asked.lock().unwrap().clone();
    assert_eq!(asked[asked.len() - 2..], ["one", "two"], "not again with each turn");
    let seen = chat.service.publish_left(&HashSet::new()).await;
    chat.service.publish_left(&seen).await;
    assert!(stored(&chat).await.ends_with(&["one".into(), "two".into()]), "the bus is still down");
    bus.set(Reach::Everywhere);
    chat.service.publish_left(&seen).await;
    chat.service.remove_published().await;
    assert_eq!(stored(&chat).await, [""; 0]);
}
