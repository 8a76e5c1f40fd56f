//! Connection of an instance to Redis: one connection for commands, one for subscriptions, and its
//! state. Not for the data in it.
//!
//! - A command that is not answered in time marks Redis as lost at once, for all parts.
//!   Reconnection happens in the background. No operation waits for a lost Redis.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use redis::aio::{AsyncStream, MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::task_group::TaskGroup;
use crate::config::RedisConfig;

/// Time after its last heartbeat for which an instance counts as running.
pub(super) const PRESENCE_LEASE: Duration = Duration::from_secs(15);

/// Interval between pings.
const PING_EVERY: Duration = Duration::from_secs(1);
/// Maximum wait between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// First wait after a failed attempt. It doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum wait for a connection, as a multiple of the wait for an answer.
const TO_CONNECT: u32 = 4;
/// Time for background tasks to release their resources, at the end of the process.
const FINISH_WITHIN: Duration = Duration::from_secs(1);

/// Gauge: 1 while Redis is up, 0 while it is lost.
const UP: &str = "hearken_redis_up";

/// Counter of losses of Redis.
const LOST: &str = "hearken_redis_lost_total";

/// Error of a command: Redis is lost or refused it. The caller works without Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("redis is lost")]
pub struct RedisUnavailable;

/// Function that receives the messages of a channel. It must not block.
pub(super) type Subscriber = Box<dyn Fn(String) + Send + Sync>;

/// Byte stream to Redis.
pub type RedisStream = std::pin::Pin<Box<dyn AsyncStream + Send + Sync>>;

/// Function that opens a byte stream to Redis, instead of the network.
pub type OpenStream =
    Arc<dyn Fn() -> BoxFuture<'static, std::io::Result<RedisStream>> + Send + Sync>;

/// Connection to Redis. Clones share it.
#[derive(Clone)]
pub struct Shared(Arc<Inner>);

struct Inner {
    client: Client,
    /// `None` for the network.
    open_stream: Option<OpenStream>,
    prefix: String,
    instance: String,
    within: Duration,
    connection: Mutex<Option<MultiplexedConnection>>,
    up: watch::Sender<bool>,
    tasks: TaskGroup,
    process: CancellationToken,
}

impl Shared {
    /// Creates the connection of this configuration without connecting yet. It ends with `process`.
    ///
    /// # Errors
    /// Fails if the address cannot be parsed.
    pub fn new(
        config: &RedisConfig,
        open_stream: Option<OpenStream>,
        process: CancellationToken,
    ) -> RedisResult<Self> {
        describe_gauge!(UP, Unit::Count, "1 while the Redis that instances share is up");
        describe_counter!(LOST, Unit::Count, "losses of the Redis that instances share");
        gauge!(UP).set(0.0);
        counter!(LOST).absolute(0);
        Ok(Self(Arc::new(Inner {
            client: Client::open(config.url.expose())?,
            open_stream,
            prefix: config.prefix.clone(),
            instance: uuid::Uuid::new_v4().simple().to_string(),
            within: Duration::from_millis(config.timeout_ms),
            connection: Mutex::default(),
            up: watch::Sender::new(false),
            tasks: TaskGroup::new(),
            process,
        })))
    }

    /// Returns the name of this instance, which is new at each start.
    pub fn instance(&self) -> &str {
        &self.0.instance
    }

    /// Returns the prefix of all keys.
    pub(super) fn prefix(&self) -> &str {
        &self.0.prefix
    }

    /// Returns the full name of a key or a channel.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.0.prefix)
    }

    /// Returns true while Redis is up.
    pub fn is_up(&self) -> bool {
        *self.0.up.borrow()
    }

    /// Returns a receiver that is notified when Redis is lost or comes back.
    pub(super) fn up(&self) -> watch::Receiver<bool> {
        self.0.up.subscribe()
    }

    /// Starts a background task that runs until the process ends.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let process = self.0.process.clone();
        self.0.tasks.spawn(async move {
            process.run_until_cancelled(task).await.unwrap_or_default();
        });
    }

    /// Starts a background task that ends by itself. It is aborted soon after the end of the
    /// process.
    pub(super) fn spawn_finishing(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(task);
    }

    /// Waits for background tasks to release their resources, at most [`FINISH_WITHIN`].
    pub(super) async fn finish(&self) {
        self.0.tasks.finish(FINISH_WITHIN).await;
    }

    /// Runs a command with a time limit.
    ///
    /// # Errors
    /// Fails if Redis is lost, or refuses the command.
    pub(super) async fn run<T, F>(
        &self,
        ask: impl FnOnce(MultiplexedConnection) -> F,
    ) -> Result<T, RedisUnavailable>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let connection = self.connection().clone();
        let Some(connection) = connection.filter(|_| self.is_up()) else {
            return Err(RedisUnavailable);
        };
        let error = match timeout(self.0.within, ask(connection)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => error,
            Err(_) => {
                self.mark_lost("redis does not answer");
                return Err(RedisUnavailable);
            }
        };
        if is_fatal(&error) {
            self.mark_lost(error.category());
        } else {
            tracing::warn!(
                prefix = self.0.prefix,
                cause = error.category(),
                detail = error.detail(),
                "redis refused a command"
            );
        }
        Err(RedisUnavailable)
    }

    /// Marks Redis as lost.
    fn mark_lost(&self, cause: &str) {
        let lost = self.0.up.send_if_modified(|up| std::mem::replace(up, false));
        if lost {
            gauge!(UP).set(0.0);
            counter!(LOST).increment(1);
            let prefix = &self.0.prefix;
            tracing::error!(prefix, cause, "redis is lost: this instance works alone");
        }
    }

    /// Starts a task that connects to Redis, and reconnects when it is lost, until the process
    /// ends.
    pub(super) fn stay_connected(&self, subscribers: HashMap<String, Subscriber>) {
        let shared = self.clone();
        self.spawn(async move { shared.reconnect_loop(&subscribers).await });
    }

    async fn reconnect_loop(&self, subscribers: &HashMap<String, Subscriber>) {
        let mut pause = FIRST_PAUSE;
        let mut lost = false;
        loop {
            match self.connect(subscribers).await {
                Ok((connection, pubsub)) => {
                    self.set_connected(connection.clone());
                    pause = FIRST_PAUSE;
                    let cause = self.dispatch(connection, pubsub, subscribers).await;
                    self.mark_lost(&cause);
                    lost = true;
                    self.connection().take();
                    continue;
                }
                Err(cause) if !lost => {
                    lost = true;
                    let prefix = &self.0.prefix;
                    tracing::error!(prefix, cause, "cannot reach redis: this instance works alone");
                }
                Err(cause) => tracing::debug!(cause, "still cannot reach redis"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn connection(&self) -> MutexGuard<'_, Option<MultiplexedConnection>> {
        self.0.connection.lock().expect("nothing panics while it holds the connection")
    }

    fn set_connected(&self, connection: MultiplexedConnection) {
        *self.connection() = Some(connection);
        gauge!(UP).set(1.0);
        self.0.up.send_replace(true);
        tracing::info!(instance = self.0.instance, "connected to redis");
    }

    /// Opens both connections, and subscribes the second to every channel.
    async fn connect(
        &self,
        subscribers: &HashMap<String, Subscriber>,
    ) -> Result<(MultiplexedConnection, PubSub), String> {
        let connecting = async {
            let mut connection = self.open().await?;
            redis::cmd("PING").query_async::<()>(&mut connection).await?;
            let mut pubsub = self.open_pubsub().await?;
            for channel in subscribers.keys() {
                pubsub.subscribe(channel).await?;
            }
            Ok::<_, RedisError>((connection, pubsub))
        };
        match timeout(self.0.within * TO_CONNECT, connecting).await {
            Ok(Ok(both)) => Ok(both),
            Ok(Err(error)) if error.is_io_error() => Err(format!("{}: {error}", self.address())),
            Ok(Err(error)) => Err(format!("{}: {}", self.address(), error.category())),
            Err(_) => Err(format!("{} does not answer", self.address())),
        }
    }

    /// Returns the address of Redis, without its password.
    fn address(&self) -> &redis::ConnectionAddr {
        self.0.client.get_connection_info().addr()
    }

    async fn open(&self) -> RedisResult<MultiplexedConnection> {
        let Inner { client, open_stream, within, .. } = &*self.0;
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(*within))
            .set_connection_timeout(Some(*within * TO_CONNECT));
        let Some(open_stream) = open_stream else {
            return client.get_multiplexed_async_connection_with_config(&config).await;
        };
        let info = client.get_connection_info().redis_settings();
        let stream = open_stream().await?;
        let (connection, work) =
            MultiplexedConnection::new_with_config(info, stream, config).await?;
        self.spawn(work);
        Ok(connection)
    }

    async fn open_pubsub(&self) -> RedisResult<PubSub> {
        let Inner { client, open_stream, .. } = &*self.0;
        let Some(open_stream) = open_stream else { return client.get_async_pubsub().await };
        PubSub::new(client.get_connection_info().redis_settings(), open_stream().await?).await
    }

    /// Passes messages to their subscribers until Redis is lost. Returns the cause.
    async fn dispatch(
        &self,
        mut connection: MultiplexedConnection,
        pubsub: PubSub,
        subscribers: &HashMap<String, Subscriber>,
    ) -> String {
        let mut up = self.up();
        let (mut sink, mut messages) = pubsub.split();
        let mut ticks = tokio::time::interval(PING_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let dispatching = async {
            while let Some(message) = messages.next().await {
                let subscriber = subscribers.get(message.get_channel_name());
                if let (Some(subscriber), Ok(text)) = (subscriber, message.get_payload()) {
                    subscriber(text);
                }
            }
        };
        let pinging = async {
            loop {
                ticks.tick().await;
                let both = async {
                    redis::cmd("PING").query_async::<()>(&mut connection).await?;
                    sink.ping::<redis::Value>().await
                };
                match timeout(self.0.within, both).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return error.category().to_owned(),
                    Err(_) => return "redis does not answer".to_owned(),
                }
            }
        };
        tokio::select! {
            () = dispatching => "the subscribed connection was lost".into(),
            cause = pinging => cause,
            _ = up.wait_for(|up| !up) => "a command was not answered".into(),
        }
    }
}

/// Returns true if the connection, or the server behind it, can no longer be used.
fn is_fatal(error: &RedisError) -> bool {
    let useless = matches!(
        error.kind(),
        ErrorKind::Io
            | ErrorKind::AuthenticationFailed
            | ErrorKind::Server(
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly
            )
    );
    useless || error.is_unrecoverable_error()
}

/// Converts a time to milliseconds for Redis.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
