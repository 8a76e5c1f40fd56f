//! The crowd: devices that connect one after the other and then talk, interrupt, listen or only
//! stay, again and again. Not for measuring.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::{AudioParams, ListenMode};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::figures::{Figures, Shared};
use super::measure::Meter;
use crate::clock::Drift;
use crate::events::{Event, State};
use crate::firmware::Firmware;
use crate::profile::Profile;
use crate::socket::{Device, Endpoint, SocketError};
use crate::toolbox::Toolbox;

/// From the wake word to the open microphone, and from the end of speech to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Packets of a microphone come this often.
const PACKET: Duration = Duration::from_millis(60);
/// Wait before a device that was refused tries again.
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks at the figures.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Between two looks at the clock, for how late this program is itself.
const TICK: Duration = Duration::from_millis(10);
/// An interrupting person hears the answer for between half and three halves of this.
const HEARS: Duration = Duration::from_secs(1);
/// No pause is more times as long as the mean.
const LONGEST_PAUSE: f64 = 5.0;

/// Who comes and what they do.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// Where each device connects, and as whom; their number is the number of devices. Those of
    /// whom nothing else is said stay connected and are silent.
    pub endpoints: Vec<Endpoint>,
    /// How many of them talk and hear the answer out.
    pub talking: usize,
    /// How many talk and interrupt each answer.
    pub interrupting: usize,
    /// How many have their microphone open in a room where nothing is said to them.
    pub listening: usize,
    /// Who decides when a person has finished.
    pub mode: ListenMode,
    /// The devices come evenly over this time.
    pub ramp: Duration,
    /// What each person says, in packets of 60 ms.
    pub speech: Arc<[Bytes]>,
    /// What those who listen hear: too faint to be speech.
    pub murmur: Arc<[Bytes]>,
    /// Sent while the person waits: what an open microphone hears in a quiet room.
    pub silence: Bytes,
    /// From the end of an answer to the next words, in the mean: exponentially distributed, so
    /// that nobody keeps step with others.
    pub pause: Duration,
    /// What the server says where it is busy.
    pub busy_words: Arc<[String]>,
    /// The devices' firmware.
    pub profile: Profile,
    /// Their tools.
    pub toolbox: Toolbox,
}

/// What one device does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Talks,
    Interrupts,
    Listens,
    Stays,
}

impl Crowd {
    /// What each device does, mixed: those who talk come neither first nor all at once.
    fn parts(&self) -> Vec<Part> {
        let (talkers, devices) = (self.talking + self.interrupting, self.endpoints.len());
        let part = |number| match number {
            n if n < self.talking => Part::Talks,
            n if n < talkers => Part::Interrupts,
            n if n < talkers + self.listening => Part::Listens,
            _ => Part::Stays,
        };
        let mut parts: Vec<_> = (0..devices).map(part).collect();
        fastrand::Rng::with_seed(0).shuffle(&mut parts);
        parts
    }
}

/// Lets the crowd come and talk until the token ends it, and tells what was measured; `look` sees
/// the figures every two seconds.
pub async fn run(crowd: Crowd, end: CancellationToken, mut look: impl FnMut(&Figures)) -> Figures {
    let shared = Shared::default();
    let crowd = Arc::new(crowd);
    let mut people = JoinSet::new();
    let each = crowd.ramp / u32::try_from(crowd.endpoints.len().max(1)).unwrap_or(u32::MAX);
    for (number, part) in crowd.parts().into_iter().enumerate() {
        let wait = each * u32::try_from(number).unwrap_or(u32::MAX);
        let (crowd, shared, end) = (Arc::clone(&crowd), shared.clone(), end.clone());
        people.spawn(async move {
            let life = live(&crowd, number, part, wait, &shared);
            end.run_until_cancelled(life).await;
        });
    }
    let mut looks = interval(LOOK_EVERY);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = looks.tick() => look(&shared.lock()),
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

/// One device, until it is dropped. A lost connection is made anew.
async fn live(crowd: &Crowd, number: usize, part: Part, wait: Duration, shared: &Shared) {
    sleep(wait).await;
    let talks = matches!(part, Part::Talks | Part::Interrupts);
    let mode = if talks { crowd.mode } else { ListenMode::Auto };
    let endpoint = &crowd.endpoints[number];
    let uplink = AudioParams::default();
    let firmware = Firmware::new(crowd.profile.clone(), mode, endpoint.framing, &uplink);
    let firmware = firmware.with_tools(crowd.toolbox.clone());
    let meter = Meter::new(shared.clone(), Arc::clone(&crowd.busy_words));
    let device = Device::watched(endpoint.clone(), firmware, meter, Drift::default());
    let dice = fastrand::Rng::with_seed(number as u64);
    let mut person = Person { crowd, device, dice };
    loop {
        let asked = Instant::now();
        let lived = match part {
            Part::Talks => person.talk(false).await,
            Part::Interrupts => person.talk(true).await,
            Part::Listens => person.listen().await,
            Part::Stays => person.stay().await,
        };
        let connected = person.device.is_connected();
        if !connected {
            person.device.watcher_mut().disconnected();
        }
        match lived {
            Ok(Lived::Answered) => shared.lock().turns += 1,
            Ok(Lived::Interrupted) => shared.lock().interrupted += 1,
            Ok(Lived::Unanswered) if connected => shared.error("no answer within 60 s"),
            Ok(Lived::Unanswered | Lived::On) => {}
            Err(error) => {
                if matches!(error, SocketError::Status { status: 503, .. }) {
                    shared.lock().refused.add(asked.elapsed());
                }
                shared.error(&short(&error));
                sleep(AGAIN).await;
            }
        }
    }
}

/// A pause, of those with this mean. Were they nearly equal, everybody whom a full server refused
/// would come back at once, and be refused again: the crowd would fall into step and stay so, and
/// the server would be idle in between.
fn pause(mean: Duration, dice: &mut fastrand::Rng) -> Duration {
    let times = (1.0 - dice.f64()).ln().abs();
    mean.mul_f64(times.min(LONGEST_PAUSE))
}

/// What came of one turn, or of some other time.
enum Lived {
    Answered,
    Interrupted,
    Unanswered,
    On,
}

/// Somebody with a device.
struct Person<'a> {
    crowd: &'a Crowd,
    device: Device<Meter>,
    dice: fastrand::Rng,
}

impl Person<'_> {
    /// Between half and three halves of this time.
    fn about(&mut self, time: Duration) -> Duration {
        time.mul_f64(0.5 + self.dice.f64())
    }

    /// Connects where that is needed. False where the microphone did not open in time.
    async fn open(&mut self) -> Result<bool, SocketError> {
        let device = &mut self.device;
        if !device.firmware().microphone_open() {
            if device.firmware().state() == State::Idle {
                let event = match device.firmware().mode() {
                    ListenMode::Manual => Event::TalkPressed,
                    _ => Event::Wake { word: None },
                };
                device.happen(event).await?;
            }
            let deadline = Instant::now() + PATIENCE;
            device.live_until(deadline, |_, firmware| firmware.microphone_open()).await?;
        }
        Ok(device.firmware().microphone_open())
    }

    /// Sends these packets in real time; the time at which the last had been heard.
    async fn say(&mut self, packets: &[Bytes]) -> Result<Instant, SocketError> {
        let mut due = Instant::now();
        for packet in packets {
            due += PACKET;
            self.device.live_until(due, |_, _| false).await?;
            self.device.happen(Event::Microphone(packet.clone())).await?;
        }
        Ok(due)
    }

    /// One turn: the person speaks and hears the answer, or interrupts it.
    async fn talk(&mut self, interrupts: bool) -> Result<Lived, SocketError> {
        if !self.open().await? {
            return Ok(Lived::Unanswered);
        }
        let before = (self.device.report().replies, self.device.report().answers);
        let speech = Arc::clone(&self.crowd.speech);
        let due = self.say(&speech).await?;
        if self.device.firmware().mode() == ListenMode::Manual {
            self.device.happen(Event::TalkReleased).await?;
        }
        let now = self.device.now();
        self.device.watcher_mut().speech_ended(now);
        let wanted = move |meter: &Meter| {
            meter.answers > before.1 || (interrupts && meter.replies > before.0)
        };
        self.wait(due, wanted).await?;
        let over = self.device.report().answers > before.1;
        let busy = self.device.report().busy;
        if interrupts && !over && self.device.report().replies > before.0 {
            return self.interrupt(before.1).await;
        }
        // Firmware plays on for a moment and only then listens again.
        let rest = Instant::now() + pause(self.crowd.pause, &mut self.dice);
        let resting = self.device.live_until(rest, |_, _| false);
        timeout_at(rest + PATIENCE, resting).await.unwrap_or(Ok(()))?;
        Ok(match over {
            true if busy => Lived::On,
            true => Lived::Answered,
            false => Lived::Unanswered,
        })
    }

    /// Lets the microphone send silence where it is open, until what is wanted came.
    async fn wait(
        &mut self,
        mut due: Instant,
        wanted: impl Fn(&Meter) -> bool + Copy,
    ) -> Result<(), SocketError> {
        let deadline = Instant::now() + PATIENCE;
        let device = &mut self.device;
        let over = |meter: &_, firmware: &Firmware| wanted(meter) || !firmware.is_connected();
        while !over(device.report(), device.firmware()) && Instant::now() < deadline {
            due += PACKET;
            let listening = device.firmware().microphone_open();
            let until = if listening { due } else { deadline };
            device.live_until(until, over).await?;
            if listening {
                device.happen(Event::Microphone(self.crowd.silence.clone())).await?;
            }
        }
        Ok(())
    }

    /// Hears some of the answer, and then says the wake word or presses the button.
    async fn interrupt(&mut self, answers: usize) -> Result<Lived, SocketError> {
        let until = Instant::now() + self.about(HEARS);
        self.device.live_until(until, |meter, _| meter.answers > answers).await?;
        if self.device.firmware().state() != State::Speaking {
            return Ok(Lived::Answered);
        }
        let now = self.device.now();
        self.device.watcher_mut().interrupts(now);
        let event = match self.device.firmware().mode() {
            ListenMode::Manual => Event::TalkPressed,
            _ => Event::Wake { word: None },
        };
        self.device.happen(event).await?;
        let deadline = Instant::now() + PATIENCE;
        let over = |meter: &Meter, firmware: &Firmware| {
            meter.answers > answers || !firmware.is_connected()
        };
        self.device.live_until(deadline, over).await?;
        Ok(Lived::Interrupted)
    }

    /// Has the microphone open while nobody speaks to it.
    async fn listen(&mut self) -> Result<Lived, SocketError> {
        if !self.open().await? {
            return Ok(Lived::Unanswered);
        }
        let murmur = Arc::clone(&self.crowd.murmur);
        let from = self.dice.usize(..murmur.len().max(1));
        self.say(&murmur[from..]).await?;
        Ok(Lived::On)
    }

    /// Stays connected and says nothing.
    async fn stay(&mut self) -> Result<Lived, SocketError> {
        if !self.open().await? {
            return Ok(Lived::Unanswered);
        }
        let for_long = Instant::now() + Duration::from_secs(86_400);
        self.device.live_until(for_long, |_, firmware| firmware.state() == State::Idle).await?;
        Ok(Lived::On)
    }
}

/// An error without its address, so that equal ones are counted together.
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
    fn pauses_are_as_long_as_they_should_be_in_the_mean_and_far_apart() {
        let (mean, mut dice) = (Duration::from_secs(1), fastrand::Rng::with_seed(1));
        let pauses: Vec<_> = (0..10_000).map(|_| pause(mean, &mut dice).as_secs_f64()).collect();
        let measured = pauses.iter().sum::<f64>() / 10_000.0;
        assert!((0.97..1.02).contains(&measured), "{measured}");
        let part = |of: &dyn Fn(&&f64) -> bool| pauses.iter().filter(of).count();
        assert!((800..1_100).contains(&part(&|p| **p < 0.1)), "{}", part(&|p| **p < 0.1));
        assert!((1_200..1_500).contains(&part(&|p| **p > 2.0)), "{}", part(&|p| **p > 2.0));
        assert!(pauses.iter().all(|p| *p <= LONGEST_PAUSE));
    }
}
