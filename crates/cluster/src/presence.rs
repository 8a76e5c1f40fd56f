//! Presence: which instances are running, which devices are connected to each, and which tool
//! clients each has. The entries in Redis expire unless the instance sends heartbeats. Not for
//! orders to devices nor calls of tools, which are RPC.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hearken_ports::Devices;
use hearken_proto::ids::{DeviceId, SessionId};
use redis::{RedisResult, Script};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::remote_tool_clients::SharedToolClients;
use super::shared::{PRESENCE_LEASE, RedisUnavailable, Shared, millis};

/// Interval between heartbeats.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Maximum number of devices that are registered at once.
const REGISTERED_AT_ONCE: usize = 64;

/// ARGV: prefix, instance, lease in ms. Registers the instance and deletes expired ones. Returns
/// the number of devices that Redis has for it, then name and version of the tool clients of each
/// other instance.
static HEARTBEAT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local p, me, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
         local time = redis.call('TIME')
         local now = time[1] * 1000 + math.floor(time[2] / 1000)
         local all, versions = p .. ':instances', p .. ':guests-versions'
         redis.call('ZADD', all, now + ttl, me)
         redis.call('PEXPIRE', p .. ':devices:' .. me, ttl)
         redis.call('PEXPIRE', p .. ':guests:' .. me, ttl)
         for _, gone in ipairs(redis.call('ZRANGEBYSCORE', all, '-inf', now)) do
           redis.call('ZREM', all, gone)
           redis.call('HDEL', versions, gone)
           redis.call('DEL', p .. ':devices:' .. gone, p .. ':guests:' .. gone)
         end
         local result = { tostring(redis.call('HLEN', p .. ':devices:' .. me)) }
         for _, other in ipairs(redis.call('ZRANGE', all, 0, -1)) do
           if other ~= me then
             result[#result + 1] = other
             result[#result + 1] = redis.call('HGET', versions, other) or '0'
           end
         end
         return result",
    )
});

/// ARGV: prefix, instance, lease, device, session, `come` or `back`. Registers a device. With
/// `come`, a connection of that device at another instance receives `replaced`. With `back`, the
/// device was registered here before and Redis lost it: if the device is now at another instance,
/// this instance receives `replaced`.
static REGISTER: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local p, me, ttl, device, session = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
         local function replaced(where, which)
           local body = { device = device, session = which }
           local message = { type = 'tell', what = 'replaced', body = body }
           redis.call('PUBLISH', p .. ':to:' .. where, cjson.encode(message))
         end
         for _, other in ipairs(redis.call('ZRANGE', p .. ':instances', 0, -1)) do
           local devices = p .. ':devices:' .. other
           local before = other ~= me and redis.call('HGET', devices, device)
           if before and ARGV[6] ~= 'come' then
             replaced(me, session)
             return 0
           elseif before then
             redis.call('HDEL', devices, device)
             replaced(other, before)
           end
         end
         redis.call('HSET', p .. ':devices:' .. me, device, session)
         return redis.call('PEXPIRE', p .. ':devices:' .. me, ttl)",
    )
});

/// ARGV: prefix, instance, device, session. Removes a device, if it still has that session.
static LEAVE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local devices = ARGV[1] .. ':devices:' .. ARGV[2]
         if redis.call('HGET', devices, ARGV[3]) ~= ARGV[4] then return 0 end
         return redis.call('HDEL', devices, ARGV[3])",
    )
});

/// ARGV: prefix, instance, device. Returns the other instance that has the device, or nothing.
static FIND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "for _, other in ipairs(redis.call('ZRANGE', ARGV[1] .. ':instances', 0, -1)) do
           local devices = ARGV[1] .. ':devices:' .. other
           if other ~= ARGV[2] and redis.call('HEXISTS', devices, ARGV[3]) == 1 then
             return other
           end
         end
         return false",
    )
});

/// ARGV: prefix, instance. Returns device and session alternately, for all other instances.
static LIST: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local all = {}
         for _, other in ipairs(redis.call('ZRANGE', ARGV[1] .. ':instances', 0, -1)) do
           if other ~= ARGV[2] then
             for _, word in ipairs(redis.call('HGETALL', ARGV[1] .. ':devices:' .. other)) do
               all[#all + 1] = word
             end
           end
         end
         return all",
    )
});

/// ARGV: prefix, instance. Removes the instance and all its registrations.
static WITHDRAW: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local p, me = ARGV[1], ARGV[2]
         redis.call('ZREM', p .. ':instances', me)
         redis.call('HDEL', p .. ':guests-versions', me)
         redis.call('PUBLISH', p .. ':guests', me)
         return redis.call('DEL', p .. ':devices:' .. me, p .. ':guests:' .. me)",
    )
});

/// Presence of this and of the other instances. Clones share it.
#[derive(Clone)]
pub(super) struct Presence {
    shared: Shared,
}

impl Presence {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// Runs a script whose first arguments are the prefix and this instance.
    async fn run_script<T: redis::FromRedisValue>(
        &self,
        script: &Script,
        arguments: &[&str],
    ) -> Result<T, RedisUnavailable> {
        let mut call = script.prepare_invoke();
        call.arg(self.shared.prefix()).arg(self.shared.instance());
        for argument in arguments {
            call.arg(*argument);
        }
        let call = &call;
        let running = self
            .shared
            .run(|mut redis| async move { call.invoke_async(&mut redis).await as RedisResult<T> });
        running.await
    }

    /// Returns the other instance that has a device.
    pub(super) async fn instance_of(&self, device: &DeviceId) -> Option<String> {
        self.run_script(&FIND, &[device.as_str()]).await.ok().flatten()
    }

    /// Returns the devices of all other instances, with their sessions.
    pub(super) async fn devices(&self) -> HashMap<DeviceId, SessionId> {
        let words: Vec<String> = self.run_script(&LIST, &[]).await.unwrap_or_default();
        let pairs = words.chunks_exact(2);
        pairs.map(|two| (DeviceId::new(&*two[0]), SessionId::new(&*two[1]))).collect()
    }

    /// Removes this instance and all its registrations.
    pub(super) async fn withdraw(&self) {
        let gone: Result<i64, RedisUnavailable> = self.run_script(&WITHDRAW, &[]).await;
        if gone.is_err() {
            tracing::debug!("cannot withdraw this instance; its registration expires");
        }
    }

    /// Announces the devices and tool clients of this instance as they change, and reads those of
    /// the others. Never returns.
    pub(super) async fn run(
        self,
        devices: Arc<dyn Devices>,
        mut tool_clients: SharedToolClients,
        mut others: mpsc::Receiver<String>,
    ) {
        let mut heartbeats = tokio::time::interval(HEARTBEAT_EVERY);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut up = self.shared.up();
        let mut device_changes = devices.changes();
        let mut clients = tool_clients.changes();
        let mut announced = Announced::default();
        loop {
            tokio::select! {
                _ = heartbeats.tick() => self.heartbeat(&mut announced, &*devices, &mut tool_clients).await,
                Ok(()) = up.changed() => {
                    if self.shared.is_up() {
                        heartbeats.reset_immediately();
                    } else {
                        tool_clients.clear_remote();
                    }
                }
                Ok(()) = device_changes.changed() => self.sync_devices(&mut announced, &*devices).await,
                Ok(()) = clients.changed() => tool_clients.announce().await,
                Some(other) = others.recv() => tool_clients.list_changed(&other).await,
            }
        }
    }

    async fn heartbeat(
        &self,
        announced: &mut Announced,
        devices: &dyn Devices,
        tool_clients: &mut SharedToolClients,
    ) {
        let heartbeat: Result<Vec<String>, RedisUnavailable> =
            self.run_script(&HEARTBEAT, &[&millis(PRESENCE_LEASE).to_string()]).await;
        let Ok(answer) = heartbeat else { return };
        let mut words = answer.iter();
        if words.next().and_then(|known| known.parse().ok()) != Some(announced.registered.len()) {
            // Redis lost some, or another instance took them over.
            announced.before = std::mem::take(&mut announced.registered);
        }
        self.sync_devices(announced, devices).await;
        let others: Vec<(&str, &str)> =
            words.as_slice().chunks_exact(2).map(|two| (&*two[0], &*two[1])).collect();
        tool_clients.heartbeat(&others).await;
    }

    /// Registers in Redis the devices that connected, and removes those that disconnected.
    async fn sync_devices(&self, announced: &mut Announced, devices: &dyn Devices) {
        let now: HashMap<DeviceId, SessionId> =
            devices.connected().into_iter().map(|c| (c.device_id, c.session_id)).collect();
        let gone: Vec<(DeviceId, SessionId)> =
            announced.registered.extract_if(|device, _| !now.contains_key(device)).collect();
        for (device, session) in gone {
            let arguments = [device.as_str(), session.as_str()];
            let left: Result<i64, RedisUnavailable> = self.run_script(&LEAVE, &arguments).await;
            if left.is_err() {
                announced.registered.insert(device, session);
                return;
            }
        }
        let come: Vec<_> =
            now.into_iter().filter(|(d, s)| announced.registered.get(d) != Some(s)).collect();
        let lease = millis(PRESENCE_LEASE).to_string();
        for some in come.chunks(REGISTERED_AT_ONCE) {
            let registered = some.iter().map(|(device, session)| {
                let back = announced.before.get(device) == Some(session);
                let how = if back { "back" } else { "come" };
                let arguments = [lease.as_str(), device.as_str(), session.as_str(), how];
                async move { self.run_script::<i64>(&REGISTER, &arguments).await }
            });
            let registered = futures_util::future::join_all(registered).await;
            let done = some.iter().zip(registered).filter(|(_, registered)| registered.is_ok());
            announced.registered.extend(done.map(|(device, _)| device.clone()));
        }
    }
}

/// Devices that are registered in Redis.
#[derive(Default)]
struct Announced {
    registered: HashMap<DeviceId, SessionId>,
    /// Devices that were registered before Redis lost some.
    before: HashMap<DeviceId, SessionId>,
}
