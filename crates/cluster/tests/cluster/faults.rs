//! An instance that reaches Redis through a proxy with each kind of connection fault. During a
//! fault the instance works alone, reports it in its log and metrics, and does not block;
//! afterwards it rejoins the others, and an event that was published everywhere is delivered once.
//! Not for a Redis that dies: see `contracts`.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use hearken_base::Secret;
use hearken_cluster::RedisConfig;
use hearken_ports::{Published, Watch};
use hearken_test_support::fault_proxy::rows::{self, Row, Wire};
use hearken_test_support::fault_proxy::{Fault, FaultProxy};
use hearken_test_support::observed::observed;
use hearken_test_support::peers::peak_memory_bytes;
use hearken_test_support::redis::{Redis, there_is};

use super::contracts::{Instance, event, watch};

/// Bytes on a new connection after which it is in use: more than its set-up takes.
const MIDST: usize = 12;
/// Maximum time of an operation during a fault: a command's 500 ms, further ones of a lock, and the
/// delays of a busy machine.
const WITHIN: Duration = Duration::from_secs(3);
/// Maximum time until an instance is connected to its Redis again.
const BACK_WITHIN: Duration = Duration::from_secs(30);
/// Maximum memory for all faults together, in bytes.
const MOST_MEMORY: usize = 200 << 20;
/// Duration of a fault, and the pause between two uses of Redis.
const HURT_FOR: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);
/// The last event.
const LAST: usize = usize::MAX;
/// The session of all events.
const SESSION: &str = "s";

/// Locks a session and publishes an event in it. Returns how far it went, and the time of both.
async fn use_it(instance: &Instance, id: usize) -> Result<(Published, Duration), String> {
    let begun = Instant::now();
    let held = instance.cluster.locks().lock(SESSION, WITHIN).await;
    if !matches!(held, Ok(Some(_))) {
        return Err(format!("no lock after {:?}", begun.elapsed()));
    }
    let told = instance.cluster.events().publish(event(SESSION, id)).await;
    let took = begun.elapsed();
    match told {
        Ok(told) if took < WITHIN => Ok((told, took)),
        other => Err(format!("{other:?} after {took:?}")),
    }
}

fn is_everywhere(used: &Result<(Published, Duration), String>) -> bool {
    matches!(used, Ok((Published::Everywhere, _)))
}

/// Uses of Redis by an instance during one fault.
#[derive(Default)]
struct Used {
    /// Events that were published everywhere.
    everywhere: Vec<usize>,
    /// Number of events that were published on this instance only.
    alone: usize,
    slowest: Duration,
}

/// Uses Redis until it was hit by the fault, and for the fault's duration.
async fn use_it_hurt(instance: &Instance, proxy: &FaultProxy) -> Result<Used, String> {
    let mut used = Used::default();
    let mut pauses = tokio::time::interval(PAUSE);
    let begun = Instant::now();
    for id in 1.. {
        let (how_far, took) = use_it(instance, id).await?;
        used.slowest = used.slowest.max(took);
        match how_far {
            Published::Everywhere => used.everywhere.push(id),
            Published::Here => used.alone += 1,
        }
        if proxy.hit() > 0 && begun.elapsed() > HURT_FOR {
            break;
        }
        pauses.tick().await;
    }
    Ok(used)
}

/// Uses Redis until it is back. Returns the time that this took.
async fn back(instance: &Instance) -> Result<Duration, String> {
    let mut pauses = tokio::time::interval(PAUSE);
    let healed = Instant::now();
    while !is_everywhere(&use_it(instance, LAST).await) {
        if healed.elapsed() > BACK_WITHIN {
            return Err(format!("not back within {BACK_WITHIN:?}"));
        }
        pauses.tick().await;
    }
    Ok(healed.elapsed())
}

/// Returns the events that a watcher received, up to the last one.
async fn heard(told: &mut Watch) -> Result<Vec<usize>, String> {
    let mut heard = Vec::new();
    while heard.last() != Some(&LAST) {
        match tokio::time::timeout(BACK_WITHIN, told.events.recv()).await {
            Ok(Some(event)) => heard.push(event.id.parse().unwrap()),
            other => return Err(format!("{heard:?}, then {other:?}")),
        }
    }
    Ok(heard)
}

/// Uses Redis during one fault, and afterwards. Returns whether the log reported a loss.
async fn meets(redis: &Redis, Row { name, fault, .. }: Row) -> Result<bool, String> {
    let failed = |why: String| format!("{name}: {why}");
    let prefix = name.replace(' ', "-");
    let proxy = FaultProxy::before(&redis.url()).await;
    let at = |url: String| RedisConfig {
        url: Secret::new(url),
        prefix: prefix.clone(),
        ..RedisConfig::default()
    };
    let here = Instance::of(&at(proxy.url())).await;
    let there = Instance::of(&at(redis.url())).await;
    let mut told = watch(&*there.cluster.events(), SESSION, None).await;
    let before = use_it(&here, 0).await;
    proxy.set(fault);
    let mut used = use_it_hurt(&here, &proxy).await.map_err(failed)?;
    proxy.set(Fault::None);
    let back = back(&here).await.map_err(failed)?;
    eprintln!(
        "| Redis | {name} | {} published everywhere, {} here | {} ms | back in {} ms",
        used.everywhere.len(),
        used.alone,
        used.slowest.as_millis(),
        back.as_millis()
    );
    used.everywhere.extend([0, LAST]);
    let heard = heard(&mut told).await.map_err(failed)?;
    // An event that was published everywhere, but whose answer was lost, counts as published here
    // only.
    used.everywhere.retain(|id| !heard.contains(id));
    let missed = used.everywhere;
    let once = heard.windows(2).all(|two| two[0] < two[1]);
    drop(here);
    proxy.until_closed().await;
    let logged = |what| observed().tells(&[what, &format!("\"prefix\":\"{prefix}\"")]);
    let lost = logged("redis is lost");
    let told = used.alone == 0 || lost || logged("redis refused a command");
    if is_everywhere(&before) && missed.is_empty() && once && told {
        return Ok(lost);
    }
    Err(format!("{name}: {before:?} before; {missed:?} missed: {heard:?}; logged {told}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    if !there_is("faults of the connection to redis") {
        return;
    }
    let redis = Redis::start().await;
    let memory = peak_memory_bytes();
    let seen = observed();
    let all = rows::all(Wire::Bytes, MIDST);
    let met = join_all(all.into_iter().map(|row| meets(&redis, row))).await;
    let lost = met.iter().filter(|met| matches!(met, Ok(true))).count();
    let wrong: Vec<String> = met.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let counted = seen.counts("hearken_redis_lost_total", &[]);
    assert!(lost > 0 && counted >= lost as f64, "{counted} losses counted of {lost}");
    let needed = peak_memory_bytes() - memory;
    eprintln!("Redis: {} KiB for all faults", needed >> 10);
    assert!(needed < MOST_MEMORY, "{needed} bytes");
}
