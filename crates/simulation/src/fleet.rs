//! The instances of a world, and the faults of them and of their shared services. Not for the clients.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::determinism;
use crate::instance::{Instance, Surroundings};
use crate::plan::{Fault, Plan};
use crate::redis::{Link, Mischief};
use crate::store::Weather;

/// An hour, in seconds.
const HOUR: i64 = 3_600;

/// All instances. Clones share them.
#[derive(Clone)]
pub(crate) struct Fleet {
    around: Surroundings,
    places: Arc<Mutex<Places>>,
}

struct Places {
    instances: Vec<Option<(usize, Instance)>>,
    /// Number of the next instance.
    next: usize,
}

impl Fleet {
    pub(crate) fn start(around: Surroundings, instances: usize) -> Self {
        let places = Places { instances: vec![None; instances], next: 0 };
        let this = Self { around, places: Arc::new(Mutex::new(places)) };
        (0..instances).for_each(|place| this.fill(place));
        this
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().expect("no panic while the instances are locked")
    }

    /// Starts an instance in a free place.
    fn fill(&self, place: usize) {
        let mut places = self.places();
        if places.instances[place].is_some() {
            return;
        }
        let number = places.next;
        places.next += 1;
        let instance = Instance::start(&self.around, number);
        places.instances[place] = Some((number, instance));
        drop(places);
        self.around.judge.note(&format!("instance {number} starts"));
    }

    fn take(&self, place: usize) -> Option<(usize, Instance)> {
        self.places().instances[place].take()
    }

    fn at(&self, place: usize) -> Option<(usize, Instance)> {
        self.places().instances[place].clone()
    }

    /// All running instances.
    pub(crate) fn all(&self) -> Vec<(usize, Instance)> {
        self.places().instances.iter().flatten().cloned().collect()
    }

    /// A running instance, as a load balancer chooses it.
    pub(crate) async fn pick(&self) -> (usize, Instance) {
        loop {
            let all = self.all();
            if !all.is_empty() {
                return all[self.around.judge.throw(0, all.len())].clone();
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Injects faults until `calm`, and then removes them.
    pub(crate) async fn trouble(self, plan: Plan, calm: CancellationToken) {
        let mut recoveries = JoinSet::new();
        let judge = self.around.judge.clone();
        let longest = usize::try_from(plan.fault_every.as_millis()).unwrap_or(usize::MAX / 1_000);
        let lost_answers = if plan.redis_fails { 2 } else { 0 };
        self.around.redis.set_mischief(Mischief { lost_answers, doubled: 20 });
        while calm.run_until_cancelled(sleep(judge.pause(0, longest))).await.is_some() {
            let fleet = self.clone();
            let place = judge.throw(0, plan.instances);
            let lasts = judge.pause(200, 16_000);
            let fault = plan.faults()[judge.throw(0, plan.faults().len())];
            recoveries.spawn(async move { fleet.hurt(fault, place, lasts).await });
        }
        self.around.redis.set_mischief(Mischief::default());
        while recoveries.join_next().await.is_some() {}
        judge.calm();
    }

    /// Runs one fault until its end.
    async fn hurt(&self, fault: Fault, place: usize, lasts: Duration) {
        let Surroundings { judge, database, redis, .. } = &self.around;
        match fault {
            Fault::Kill => {
                let Some((number, instance)) = self.take(place) else { return };
                judge.fault_made(&format!("instance {number} is killed"));
                instance.kill();
                sleep(lasts).await;
                self.fill(place);
            }
            Fault::Stop => {
                let Some((number, instance)) = self.take(place) else { return };
                judge.fault_made(&format!("instance {number} is stopped"));
                instance.stop().await;
                self.fill(place);
            }
            Fault::Link(link) => {
                let Some((number, instance)) = self.at(place) else { return };
                judge.fault_made(&format!("the link of {number} to Redis is {link:?}"));
                instance.link.send_replace(link);
                sleep(lasts).await;
                if !instance.life.is_over() {
                    instance.link.send_replace(Link::Up);
                }
            }
            Fault::Redis { forgets } => {
                judge.fault_made(&format!("Redis restarts, without its data: {forgets}"));
                redis.restart(forgets);
            }
            Fault::Clock => {
                let seconds = [-HOUR, HOUR, -1, 1][judge.throw(0, 4)];
                judge.fault_made(&format!("the clock jumps by {seconds} s"));
                determinism::jump(seconds);
            }
            Fault::Store => {
                let all = [Weather::Shaky, Weather::Down, Weather::Deaf, Weather::Full];
                let weather = all[judge.throw(0, all.len())];
                judge.fault_made(&format!("the store is {weather:?}"));
                database.set_weather(weather);
                sleep(lasts).await;
                database.set_weather(Weather::Fair);
            }
        }
    }
}
