//! Load of many devices that connect one by one and then repeatedly talk, interrupt or listen, or
//! stay silent. Not for measuring.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioParams, ListenMode};
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::events::{DeviceState, Event};
use hearken_virtual_device::firmware::Firmware;
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::socket::{Device, Endpoint, SocketError};
use hearken_virtual_device::toolbox::Toolbox;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::figures::{Figures, Shared};
use super::measure::LoadObserver;

/// Maximum wait from the wake word to the open microphone, and from the end of speech to the end of
/// the answer.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Interval between packets of a microphone.
const PACKET: Duration = Duration::from_millis(60);
/// Wait before a refused device tries again.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Interval between two reports of the measurements.
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// Interval of the timer that measures the lateness of this program itself.
const TICK: Duration = Duration::from_millis(10);
/// Mean time for which an interrupting user hears the answer; the actual time is between half and
/// one and a half times the mean.
const LISTENING_TIME: Duration = Duration::from_secs(1);
/// Maximum pause, as a multiple of the mean.
const LONGEST_PAUSE: f64 = 5.0;

/// Devices of a load run and their behaviour.
#[derive(Debug, Clone)]
pub struct LoadScenario {
    /// Endpoint of each device; their number is the number of devices. Devices without another role
    /// stay connected and silent.
    pub endpoints: Vec<Endpoint>,
    /// Number of devices that talk and wait for the end of the answer.
    pub talking: usize,
    /// Number of devices that talk and interrupt each answer.
    pub interrupting: usize,
    /// Number of devices with an open microphone in a room where no user talks to them.
    pub listening: usize,
    /// Side that decides when a user has finished.
    pub mode: ListenMode,
    /// Time over which the devices connect, evenly.
    pub ramp: Duration,
    /// Speech of each user, in packets of 60 ms.
    pub speech: Arc<[Bytes]>,
    /// Background noise of the listening devices: too faint to be speech.
    pub background_noise: Arc<[Bytes]>,
    /// Packet sent while the user waits: an open microphone in a quiet room.
    pub silence: Bytes,
    /// Mean pause from the end of an answer to the next speech; exponentially distributed, so that
    /// devices do not synchronise.
    pub pause: Duration,
    /// Phrases of the server that mean that it is busy.
    pub busy_words: Arc<[String]>,
    /// Firmware of the devices.
    pub profile: Profile,
    /// Tools of the devices.
    pub toolbox: Toolbox,
}

/// Role of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Talks,
    Interrupts,
    Listens,
    Stays,
}

impl LoadScenario {
    /// Returns the role of each device, mixed: talking devices come neither first nor all at once.
    fn roles(&self) -> Vec<Role> {
        let talkers = self.talking + self.interrupting;
        let devices = self.endpoints.len();
        let role = |number| match number {
            n if n < self.talking => Role::Talks,
            n if n < talkers => Role::Interrupts,
            n if n < talkers + self.listening => Role::Listens,
            _ => Role::Stays,
        };
        let mut roles: Vec<_> = (0..devices).map(role).collect();
        fastrand::Rng::with_seed(0).shuffle(&mut roles);
        roles
    }
}

/// Runs the devices until `end` is cancelled, and returns the measurements. `look` receives the
/// current ones every two seconds.
pub async fn run(
    scenario: LoadScenario,
    end: CancellationToken,
    mut report: impl FnMut(&Figures),
) -> Figures {
    let shared = Shared::default();
    let scenario = Arc::new(scenario);
    let mut people = JoinSet::new();
    let each = scenario.ramp / u32::try_from(scenario.endpoints.len().max(1)).unwrap_or(u32::MAX);
    for (number, role) in scenario.roles().into_iter().enumerate() {
        let wait = each * u32::try_from(number).unwrap_or(u32::MAX);
        let scenario = Arc::clone(&scenario);
        let shared = shared.clone();
        let end = end.clone();
        people.spawn(async move {
            let life = run_device(&scenario, number, role, wait, &shared);
            end.run_until_cancelled(life).await;
        });
    }
    let mut reports = interval(REPORT_EVERY);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = reports.tick() => report(&shared.lock()),
            due = ticks.tick() => shared.lock().own_lateness.add(due.elapsed()),
            person = people.join_next() => match person {
                Some(Err(error)) if error.is_panic() => shared.error("a virtual device panicked"),
                Some(_) => {}
                None => break,
            },
        }
    }
    shared.lock().clone()
}

/// Runs one device until it is dropped. A lost connection is reopened.
async fn run_device(
    scenario: &LoadScenario,
    number: usize,
    role: Role,
    wait: Duration,
    shared: &Shared,
) {
    sleep(wait).await;
    let talks = matches!(role, Role::Talks | Role::Interrupts);
    let mode = if talks { scenario.mode } else { ListenMode::Auto };
    let endpoint = &scenario.endpoints[number];
    let uplink = AudioParams::default();
    let firmware = Firmware::new(scenario.profile.clone(), mode, endpoint.framing, &uplink);
    let firmware = firmware.with_tools(scenario.toolbox.clone());
    let observer = LoadObserver::new(shared.clone(), Arc::clone(&scenario.busy_words));
    let device = Device::with_observer(endpoint.clone(), firmware, observer, Drift::default());
    let dice = fastrand::Rng::with_seed(number as u64);
    let mut person = Person { scenario, device, dice };
    loop {
        let asked = Instant::now();
        let outcome = match role {
            Role::Talks => person.talk(false).await,
            Role::Interrupts => person.talk(true).await,
            Role::Listens => person.listen().await,
            Role::Stays => person.stay().await,
        };
        let connected = person.device.is_connected();
        if !connected {
            person.device.observer_mut().disconnected();
        }
        match outcome {
            Ok(Outcome::Answered) => shared.lock().turns += 1,
            Ok(Outcome::Interrupted) => shared.lock().interrupted += 1,
            Ok(Outcome::Unanswered) if connected => shared.error("no answer within 60 s"),
            Ok(Outcome::Unanswered | Outcome::OtherRole) => {}
            Err(error) => {
                if matches!(error, SocketError::Status { status: 503, .. }) {
                    shared.lock().refused.add(asked.elapsed());
                }
                shared.error(&short(&error));
                sleep(RETRY_WAIT).await;
            }
        }
    }
}

/// Returns a random pause with this mean. If pauses were nearly equal, all devices that a full
/// server refused would return at the same time and be refused again: they would remain
/// synchronised, and the server would be idle in between.
fn pause(mean: Duration, dice: &mut fastrand::Rng) -> Duration {
    let times = (1.0 - dice.f64()).ln().abs();
    mean.mul_f64(times.min(LONGEST_PAUSE))
}

/// Outcome of one turn, or of one period of another role.
enum Outcome {
    Answered,
    Interrupted,
    Unanswered,
    OtherRole,
}

/// User with a device.
struct Person<'a> {
    scenario: &'a LoadScenario,
    device: Device<LoadObserver>,
    dice: fastrand::Rng,
}

impl Person<'_> {
    /// Returns a random time between half and one and a half times this time.
    fn about(&mut self, time: Duration) -> Duration {
        time.mul_f64(0.5 + self.dice.f64())
    }

    /// Connects if necessary. Returns false if the microphone did not open in time.
    async fn open(&mut self) -> Result<bool, SocketError> {
        let device = &mut self.device;
        if !device.firmware().microphone_open() {
            if device.firmware().state() == DeviceState::Idle {
                let event = match device.firmware().mode() {
                    ListenMode::Manual => Event::TalkPressed,
                    _ => Event::Wake { word: None },
                };
                device.handle(event).await?;
            }
            let deadline = Instant::now() + LONGEST_WAIT;
            device.run_until(deadline, |_, firmware| firmware.microphone_open()).await?;
        }
        Ok(device.firmware().microphone_open())
    }

    /// Sends these packets in real time, and returns the time at which the last one was complete.
    async fn say(&mut self, packets: &[Bytes]) -> Result<Instant, SocketError> {
        let mut due = Instant::now();
        for packet in packets {
            due += PACKET;
            self.device.run_until(due, |_, _| false).await?;
            self.device.handle(Event::Microphone(packet.clone())).await?;
        }
        Ok(due)
    }

    /// Runs one turn: the user speaks and hears the answer, or interrupts it.
    async fn talk(&mut self, interrupts: bool) -> Result<Outcome, SocketError> {
        if !self.open().await? {
            return Ok(Outcome::Unanswered);
        }
        let before = (self.device.report().replies, self.device.report().answers);
        let speech = Arc::clone(&self.scenario.speech);
        let due = self.say(&speech).await?;
        if self.device.firmware().mode() == ListenMode::Manual {
            self.device.handle(Event::TalkReleased).await?;
        }
        let now = self.device.now();
        self.device.observer_mut().speech_ended(now);
        let wanted = move |observer: &LoadObserver| {
            observer.answers > before.1 || (interrupts && observer.replies > before.0)
        };
        self.wait(due, wanted).await?;
        let over = self.device.report().answers > before.1;
        let busy = self.device.report().busy;
        if interrupts && !over && self.device.report().replies > before.0 {
            return self.interrupt(before.1).await;
        }
        // Firmware plays on for a moment before it listens again.
        let rest = Instant::now() + pause(self.scenario.pause, &mut self.dice);
        let resting = self.device.run_until(rest, |_, _| false);
        timeout_at(rest + LONGEST_WAIT, resting).await.unwrap_or(Ok(()))?;
        Ok(match over {
            true if busy => Outcome::OtherRole,
            true => Outcome::Answered,
            false => Outcome::Unanswered,
        })
    }

    /// Sends silence while the microphone is open, until `wanted` holds.
    async fn wait(
        &mut self,
        mut due: Instant,
        wanted: impl Fn(&LoadObserver) -> bool + Copy,
    ) -> Result<(), SocketError> {
        let deadline = Instant::now() + LONGEST_WAIT;
        let device = &mut self.device;
        let over = |observer: &_, firmware: &Firmware| wanted(observer) || !firmware.is_connected();
        while !over(device.report(), device.firmware()) && Instant::now() < deadline {
            due += PACKET;
            let listening = device.firmware().microphone_open();
            let until = if listening { due } else { deadline };
            device.run_until(until, over).await?;
            if listening {
                device.handle(Event::Microphone(self.scenario.silence.clone())).await?;
            }
        }
        Ok(())
    }

    /// Hears a part of the answer, and then says the wake word or presses the button.
    async fn interrupt(&mut self, answers: usize) -> Result<Outcome, SocketError> {
        let until = Instant::now() + self.about(LISTENING_TIME);
        self.device.run_until(until, |observer, _| observer.answers > answers).await?;
        if self.device.firmware().state() != DeviceState::Speaking {
            return Ok(Outcome::Answered);
        }
        let now = self.device.now();
        self.device.observer_mut().interrupts(now);
        let event = match self.device.firmware().mode() {
            ListenMode::Manual => Event::TalkPressed,
            _ => Event::Wake { word: None },
        };
        self.device.handle(event).await?;
        let deadline = Instant::now() + LONGEST_WAIT;
        let over = |observer: &LoadObserver, firmware: &Firmware| {
            observer.answers > answers || !firmware.is_connected()
        };
        self.device.run_until(deadline, over).await?;
        Ok(Outcome::Interrupted)
    }

    /// Leaves the microphone open while no user speaks to it.
    async fn listen(&mut self) -> Result<Outcome, SocketError> {
        if !self.open().await? {
            return Ok(Outcome::Unanswered);
        }
        let background_noise = Arc::clone(&self.scenario.background_noise);
        let from = self.dice.usize(..background_noise.len().max(1));
        self.say(&background_noise[from..]).await?;
        Ok(Outcome::OtherRole)
    }

    /// Stays connected and silent.
    async fn stay(&mut self) -> Result<Outcome, SocketError> {
        if !self.open().await? {
            return Ok(Outcome::Unanswered);
        }
        let for_long = Instant::now() + Duration::from_secs(86_400);
        self.device
            .run_until(for_long, |_, firmware| firmware.state() == DeviceState::Idle)
            .await?;
        Ok(Outcome::OtherRole)
    }
}

/// Renders an error without its address, so that equal errors are counted together.
fn short(error: &SocketError) -> String {
    match error {
        SocketError::Address { .. } => "an address that cannot be used".into(),
        SocketError::Refused { reason, .. } => format!("not reached: {reason}"),
        SocketError::Status { status, .. } => format!("refused with HTTP status {status}"),
        SocketError::Handshake { reason, .. } => format!("no WebSocket: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_have_the_requested_mean_and_a_wide_spread() {
        let mean = Duration::from_secs(1);
        let mut dice = fastrand::Rng::with_seed(1);
        let pauses: Vec<_> = (0..10_000).map(|_| pause(mean, &mut dice).as_secs_f64()).collect();
        let measured = pauses.iter().sum::<f64>() / 10_000.0;
        assert!((0.97..1.02).contains(&measured), "{measured}");
        let role = |of: &dyn Fn(&&f64) -> bool| pauses.iter().filter(of).count();
        assert!((800..1_100).contains(&role(&|p| **p < 0.1)), "{}", role(&|p| **p < 0.1));
        assert!((1_200..1_500).contains(&role(&|p| **p > 2.0)), "{}", role(&|p| **p > 2.0));
        assert!(pauses.iter().all(|p| *p <= LONGEST_PAUSE));
    }
}
