//! Entry point of the cluster: combines all functions that involve other instances. Without a
//! configured Redis, the instance works alone. Not for the details of each part.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_ports::{Devices, EventBus, SessionLocks, ToolClients, Unreachable};
use hearken_proto::ids::{DeviceId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::limit::SharedLimit;
use super::presence::Presence;
use super::remote_tool_clients::SharedToolClients;
use super::rpc::{NoAnswer, Rpc};
use super::shared::{OpenStream, Subscriber};
use super::{LocalBus, LocalLocks, RedisBus, RedisLocks, Shared, SharedCache};
use crate::config::RedisConfig;
use crate::rate_limit::{LocalLimit, RateLimit};

/// RPC methods that concern devices.
const ORDER: &str = "order";
const REPLACED: &str = "replaced";
/// Answers to an order.
const ACCEPTED: &str = "accepted";
const AWAY: &str = "away";
/// Name of a device's answer, for orders that have one.
const ANSWER: &str = "answer";
/// Maximum wait for another instance to execute an order.
const ORDER_WITHIN: Duration = Duration::from_secs(3);
/// Capacity of the queue of instances whose tool clients have changed.
const CHANGES: usize = 256;

/// Error for a configured address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`redis.url` cannot be read: use redis://HOST:PORT (REDIS_URL)")]
pub struct ClusterError(#[source] redis::RedisError);

/// State of the Redis that instances share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RedisState {
    /// Redis responds.
    Ok,
    /// Redis is lost. This instance works alone.
    Lost,
}

/// Membership of this instance in the cluster. Clones share it.
#[derive(Clone)]
pub struct Cluster {
    joined: Option<Joined>,
    events: Arc<dyn EventBus>,
    locks: Arc<dyn SessionLocks>,
}

/// Parts that exist only with Redis.
#[derive(Clone)]
struct Joined {
    shared: Shared,
    rpc: Rpc,
    presence: Presence,
    /// Receiver of the names of instances whose tool clients have changed, until it is taken.
    changed: Arc<Mutex<Option<mpsc::Receiver<String>>>>,
}

/// Handler that executes an order for a device of this instance, requested by another instance.
/// Returns the device's answer, `null` for none.
pub type OrderHandler =
    Arc<dyn Fn(DeviceId, Value) -> BoxFuture<'static, Result<Value, Unreachable>> + Send + Sync>;

impl Cluster {
    /// Joins the instances that share this Redis, until `process` ends. If Redis cannot be reached,
    /// connects in the background.
    ///
    /// # Errors
    /// Fails if the address cannot be parsed.
    pub fn start(config: &RedisConfig, process: &CancellationToken) -> Result<Self, ClusterError> {
        if config.url.is_empty() {
            return Ok(Self::alone());
        }
        Self::join(config, None, process)
    }

    /// Checks the address of Redis. Connects to nothing.
    ///
    /// # Errors
    /// The address cannot be parsed.
    pub fn check(config: &RedisConfig) -> Result<(), ClusterError> {
        if config.url.is_empty() {
            return Ok(());
        }
        redis::Client::open(config.url.expose()).map(drop).map_err(ClusterError)
    }

    /// Does the same as [`Cluster::start`] over streams from `open_stream`, instead of the network.
    ///
    /// # Errors
    /// Fails if the address cannot be parsed.
    pub fn start_over(
        config: &RedisConfig,
        open_stream: OpenStream,
        process: &CancellationToken,
    ) -> Result<Self, ClusterError> {
        Self::join(config, Some(open_stream), process)
    }

    fn join(
        config: &RedisConfig,
        open_stream: Option<OpenStream>,
        process: &CancellationToken,
    ) -> Result<Self, ClusterError> {
        let shared = Shared::new(config, open_stream, process.clone()).map_err(ClusterError)?;
        let events = RedisBus::new(shared.clone());
        let rpc = Rpc::new(shared.clone());
        let (sender, changed) = mpsc::channel(CHANGES);
        let tool_clients: Subscriber = Box::new(move |instance| {
            // If the queue is full, the next heartbeat notices the change.
            sender.try_send(instance).unwrap_or_default();
        });
        let tool_clients = (shared.key("guests"), tool_clients);
        shared.stay_connected(HashMap::from([events.subscriber(), rpc.subscriber(), tool_clients]));
        let locks = RedisLocks::new(shared.clone());
        let presence = Presence::new(shared.clone());
        let changed = Arc::new(Mutex::new(Some(changed)));
        let joined = Some(Joined { shared, rpc, presence, changed });
        Ok(Self { joined, events: Arc::new(events), locks: Arc::new(locks) })
    }

    /// Announces these devices and tool clients to the other instances, and accepts orders and
    /// calls for them. To be called once.
    pub fn announce(
        &self,
        devices: Arc<dyn Devices>,
        tool_clients: Arc<dyn ToolClients>,
        handler: OrderHandler,
    ) {
        let Some(joined) = &self.joined else { return };
        let replaced = Arc::clone(&devices);
        joined.rpc.register(
            REPLACED,
            Arc::new(move |replaced_device| {
                if let Ok(ReplacedDevice { device, session }) =
                    serde_json::from_value(replaced_device)
                {
                    replaced.replaced_by_other_instance(&device, &session);
                }
                Box::pin(std::future::ready(Value::Null))
            }),
        );
        joined.rpc.register(
            ORDER,
            Arc::new(move |order| {
                let handler = Arc::clone(&handler);
                Box::pin(async move { carry_out(order, &handler).await })
            }),
        );
        let changed = joined.changed.lock().expect("nothing panics while it holds it").take();
        let Some(changed) = changed else { return };
        let tool_clients =
            SharedToolClients::new(joined.shared.clone(), joined.rpc.clone(), tool_clients);
        joined.shared.spawn(joined.presence.clone().run(devices, tool_clients, changed));
    }

    /// Returns the devices that are connected to other instances, with their sessions.
    pub async fn devices(&self) -> HashMap<DeviceId, SessionId> {
        match &self.joined {
            Some(joined) => joined.presence.devices().await,
            None => HashMap::new(),
        }
    }

    /// Sends an order to a device that is connected to another instance. Returns the device's
    /// answer, `null` for none.
    ///
    /// # Errors
    /// Fails if no such device is connected, or it accepts no order. If its instance has the order
    /// and does not answer in time, the order is unconfirmed: it may have been carried out.
    pub async fn order(&self, device: &DeviceId, order: Value) -> Result<Value, Unreachable> {
        let joined = self.joined.as_ref().ok_or(Unreachable::NotConnected)?;
        let holder = joined.presence.instance_of(device).await.ok_or(Unreachable::NotConnected)?;
        let body = json!({ "device": device, "order": order });
        outcome(joined.rpc.call(&holder, ORDER, body, ORDER_WITHIN).await)
    }

    /// Creates an instance that works alone, without Redis.
    pub fn alone() -> Self {
        Self { joined: None, events: Arc::new(LocalBus::new()), locks: Arc::new(LocalLocks::new()) }
    }

    /// Returns the event bus.
    pub fn events(&self) -> Arc<dyn EventBus> {
        Arc::clone(&self.events)
    }

    /// Returns the locks of sessions.
    pub fn locks(&self) -> Arc<dyn SessionLocks> {
        Arc::clone(&self.locks)
    }

    /// Returns a rate limit that counts the requests of each client across all instances, with
    /// bursts. Limits of different names count separately.
    pub fn limit(&self, name: &'static str, per_minute: NonZeroU32) -> Arc<dyn RateLimit> {
        match &self.joined {
            Some(joined) => Arc::new(SharedLimit::new(joined.shared.clone(), name, per_minute)),
            None => Arc::new(LocalLimit::new(per_minute)),
        }
    }

    /// Returns a cache that all instances share, with its own key space `name`; none if this
    /// instance works alone.
    pub fn cache(&self, name: &'static str) -> Option<SharedCache> {
        Some(SharedCache::new(self.joined.as_ref()?.shared.clone(), name))
    }

    /// Returns true if Redis is configured: there may be other instances.
    pub fn is_shared(&self) -> bool {
        self.joined.is_some()
    }

    /// Returns the state of Redis; none if this instance works alone by its configuration.
    pub fn redis_state(&self) -> Option<RedisState> {
        let up = self.joined.as_ref()?.shared.is_up();
        Some(if up { RedisState::Ok } else { RedisState::Lost })
    }

    /// Withdraws the announcements of this instance and releases its locks, within a bounded time.
    /// To be called after the end of its process.
    pub async fn stop(&self) {
        if let Some(joined) = &self.joined {
            joined.presence.withdraw().await;
            joined.shared.finish().await;
        }
    }
}

/// Connection of a device that was replaced by one at another instance.
#[derive(Deserialize)]
struct ReplacedDevice {
    device: DeviceId,
    session: SessionId,
}

/// Order that another instance requested.
#[derive(Deserialize)]
struct Ordered {
    device: DeviceId,
    order: Value,
}

/// Returns the outcome of an order from the answer of the device's instance.
fn outcome(answer: Result<Value, NoAnswer>) -> Result<Value, Unreachable> {
    match answer {
        Ok(Value::String(word)) if word == ACCEPTED => Ok(Value::Null),
        Ok(Value::String(word)) if word == AWAY => Err(Unreachable::NotConnected),
        Ok(Value::Object(mut answer)) => answer.remove(ANSWER).ok_or(Unreachable::Unconfirmed),
        Ok(_) | Err(NoAnswer::Busy) => Err(Unreachable::Busy),
        Err(NoAnswer::Gone) => Err(Unreachable::NotConnected),
        Err(NoAnswer::Late | NoAnswer::Lost | NoAnswer::TooLong) => Err(Unreachable::Unconfirmed),
    }
}

async fn carry_out(order: Value, handler: &OrderHandler) -> Value {
    let Ok(Ordered { device, order }) = serde_json::from_value(order) else {
        return Value::Null;
    };
    match handler(device, order).await {
        Ok(Value::Null) => ACCEPTED.into(),
        Ok(answer) => json!({ ANSWER: answer }),
        Err(Unreachable::NotConnected) => AWAY.into(),
        Err(Unreachable::Busy) => "busy".into(),
        Err(Unreachable::Unconfirmed) => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_outcome_of_an_order_reaches_its_sender() {
        let order = json!({"device": "02:00:00:00:00:01", "order": {}});
        for carried_out in [
            Ok(Value::Null),
            Ok(json!({"battery": 7})),
            Err(Unreachable::NotConnected),
            Err(Unreachable::Busy),
            Err(Unreachable::Unconfirmed),
        ] {
            let expected = carried_out.clone();
            let handler: OrderHandler = Arc::new(move |_, _| {
                let carried_out = carried_out.clone();
                Box::pin(async move { carried_out })
            });
            assert_eq!(outcome(Ok(carry_out(order.clone(), &handler).await)), expected);
        }
    }

    #[test]
    fn an_order_without_an_answer_is_busy_only_if_it_was_not_sent() {
        for (answer, expected) in [
            (NoAnswer::Gone, Unreachable::NotConnected),
            (NoAnswer::Busy, Unreachable::Busy),
            (NoAnswer::Late, Unreachable::Unconfirmed),
            (NoAnswer::Lost, Unreachable::Unconfirmed),
            (NoAnswer::TooLong, Unreachable::Unconfirmed),
        ] {
            assert_eq!(outcome(Err(answer)), Err(expected), "{answer}");
        }
        // The other instance could not read the order.
        assert_eq!(outcome(Ok(Value::Null)), Err(Unreachable::Busy));
    }
}
