//! One household: a virtual device, its microphone, the network and the server, all in virtual
//! time. Advances time until an event that a person waits for. Not for the actions of people.

use std::time::Duration;

use actix_http::ws::{Frame, Message};
use hearken_proto::device::AudioParams;
use hearken_virtual_device::clock::Drift;
use hearken_virtual_device::dice::Dice;
use hearken_virtual_device::firmware::{DeviceState, Event, Firmware};
use hearken_virtual_device::profile::Build;
use hearken_virtual_device::virtual_device::{LinkAction, VirtualDevice};
use tokio::time::Instant;

use super::judge::{Counts, Judge};
use super::microphone::Microphone;
use super::plan::Plan;
use super::vendors::{Shared, World, lock};
use super::wire::{Mark, Server, Wire};

/// Maximum time for the response to an abort, in addition to the network latency.
const STOP_WITHIN: Duration = Duration::from_millis(100);
/// Time limit for actors to end after a connection was dropped.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The conversation is over: the person left or disconnected, or the server closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over;

/// A device that lost its power: it sends and answers nothing, but the server does not know.
struct Silent(#[expect(dead_code, reason = "held, so that the server does not know")] Wire);

pub(crate) struct Home {
    pub(crate) plan: Plan,
    pub(crate) dice: Dice,
    pub(crate) world: Shared,
    epoch: Instant,
    server: Server,
    bench: VirtualDevice<Judge>,
    drift: Drift,
    microphone: Microphone,
    /// The microphone is recorded although no packet is sent.
    pub(crate) alert: bool,
    wire: Option<Wire>,
    network: Dice,
    opening: Option<Duration>,
    silent: Vec<Silent>,
    /// Time at which the person leaves, whatever the state.
    pub(crate) walks_away: Option<Duration>,
    over: bool,
    /// The person does not intend to speak again: the server may close.
    pub(crate) may_close: bool,
    /// The person's words are meant for the server.
    words: bool,
    /// They are meant to interrupt a reply.
    interrupts: bool,
    /// Mark of the packet being sent.
    mark: Mark,
}

impl Home {
    pub(crate) fn new(mut plan: Plan, timeline: bool) -> Self {
        let dice = plan.dice.fork();
        let world = World::new(plan.dice.fork());
        let server = Server::new(&plan, World::ports(&world));
        let build = Build { wakes_while_listening: plan.wakes_while_listening, ..Build::default() };
        let packet_ms = u32::try_from(plan.uplink_packet.as_millis()).unwrap();
        let audio = AudioParams::opus(16_000, packet_ms);
        let firmware =
            Firmware::built(plan.profile.clone(), build, plan.mode, plan.framing, &audio);
        let drift = Drift::ppm(plan.drift_ppm);
        Self {
            bench: VirtualDevice::new(firmware, Judge::new(&world, timeline), drift),
            microphone: Microphone::new(plan.uplink_packet),
            network: plan.dice.fork(),
            epoch: Instant::now(),
            dice,
            world,
            server,
            drift,
            plan,
            alert: false,
            wire: None,
            opening: None,
            silent: Vec::new(),
            walks_away: None,
            over: false,
            may_close: false,
            words: false,
            interrupts: false,
            mark: Mark::Nothing,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    pub(crate) fn state(&self) -> DeviceState {
        self.bench.firmware().state()
    }

    pub(crate) fn listens(&self) -> bool {
        self.bench.firmware().microphone_open()
    }

    pub(crate) fn speaks(&self) -> bool {
        self.state() == DeviceState::Speaking
    }

    pub(crate) fn judge(&mut self) -> &mut Judge {
        self.bench.observer_mut()
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.bench.observer().counts
    }

    pub(crate) fn fault(&mut self, what: impl AsRef<str>) {
        let now = self.now();
        self.judge().fault(now, what);
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now();
        self.judge().note(now, line);
    }

    /// Time since the last message from the server.
    pub(crate) fn quiet_for(&self) -> Duration {
        self.now().saturating_sub(self.bench.observer().last_heard_of)
    }

    /// Time since the person's last words.
    pub(crate) fn silent_for(&self) -> Duration {
        self.now().saturating_sub(self.bench.observer().voiced.unwrap_or_default())
    }

    /// A random time from `low` to `high` milliseconds.
    pub(crate) fn dice_ms(&mut self, low: u64, high: u64) -> Duration {
        self.dice.ms(low, high)
    }

    /// A new conversation may start.
    pub(crate) fn come_back(&mut self) {
        self.over = false;
        self.may_close = false;
        self.walks_away = None;
        self.judge().counts.visits += 1;
    }

    /// A person uses the device.
    pub(crate) fn act(&mut self, event: Event) {
        self.note(|| format!("person: {event:?}"));
        let tacit = event == Event::TalkPressed && self.state() == DeviceState::Idle;
        if tacit && self.wire.is_some() {
            let now = self.now();
            self.judge().interrupted_tacitly(now);
            self.mark = Mark::Abort;
        }
        self.happen(event);
        self.mark = Mark::Nothing;
    }

    /// A person makes a sound of this length. `words` are meant for the server.
    pub(crate) fn voice(&mut self, length: Duration, words: bool) {
        self.note(|| format!("person: {} for {length:?}", if words { "speaks" } else { "coughs" }));
        let now = self.now();
        let from = self.drift.on_device(now);
        self.microphone.voice(from, from + length);
        self.words = words;
        self.interrupts = words && self.speaks();
        if self.interrupts {
            self.bench.mark_spoken_over(now);
        }
    }

    /// The person stops speaking.
    pub(crate) fn hush(&mut self) {
        self.microphone.hush();
        self.interrupts = false;
    }

    fn happen(&mut self, event: Event) {
        let now = self.now();
        let orders = self.bench.at(now, event);
        self.obey(orders);
    }

    fn obey(&mut self, orders: Vec<LinkAction>) {
        for order in orders {
            match order {
                LinkAction::Open => {
                    self.drop_wire(false);
                    self.over = false;
                    let there_and_back = self.plan.base * 2 + self.plan.jitter;
                    self.opening = Some(self.now() + there_and_back);
                }
                LinkAction::Drop => {
                    self.drop_wire(false);
                    self.over = true;
                }
                LinkAction::Text(text) => {
                    let abort = text.contains(r#""type":"abort""#);
                    let mark = if abort { Mark::Abort } else { self.mark };
                    self.send(Message::Text(text.into()), mark);
                }
                LinkAction::Binary(bytes) => self.send(Message::Binary(bytes), self.mark),
                LinkAction::Upload(_) => self.fault("a picture was requested"),
            }
        }
    }

    fn send(&mut self, message: Message, mark: Mark) {
        if let Some(wire) = &mut self.wire {
            wire.send(message, mark);
        }
    }

    fn drop_wire(&mut self, silently: bool) {
        self.opening = None;
        let Some(wire) = self.wire.take() else { return };
        self.judge().forgive_abort();
        if silently {
            self.silent.push(Silent(wire));
        } else {
            actix::spawn(wire.hang_up());
        }
    }

    /// The device disappears: out of reach, or without power.
    pub(crate) fn walk_away(&mut self) {
        let silently = self.dice.chance(300);
        self.note(|| format!("person: walks away{}", if silently { " in silence" } else { "" }));
        self.judge().counts.walked_away += 1;
        self.drop_wire(silently);
        self.happen(Event::SocketClosed);
        self.over = true;
    }

    /// Advances time until the condition holds or the deadline is reached; returns whether it holds.
    pub(crate) async fn until(
        &mut self,
        deadline: Duration,
        done: impl Fn(&Self) -> bool,
    ) -> Result<bool, Over> {
        loop {
            self.catch_up();
            if self.over {
                return Err(Over);
            }
            if done(self) {
                return Ok(true);
            }
            let now = self.now();
            if now >= deadline {
                return Ok(false);
            }
            let next = self.due().min(deadline).max(now);
            let sleep = tokio::time::sleep_until(self.epoch + next);
            let Some(wire) = &mut self.wire else {
                sleep.await;
                continue;
            };
            tokio::select! {
                biased;
                down = wire.sent() => {
                    let judge = self.bench.observer_mut();
                    judge.server_sends(down.sent, down.frame.as_ref());
                    down.sentence = judge.sentence();
                }
                () = sleep => {}
            }
        }
    }

    /// Advances time by this much.
    pub(crate) async fn pass(&mut self, time: Duration) -> Result<(), Over> {
        let deadline = self.now() + time;
        self.until(deadline, |_| false).await.map(|_| ())
    }

    /// Advances time by a random time from `low` to `high` milliseconds.
    pub(crate) async fn linger(&mut self, low: u64, high: u64) -> Result<(), Over> {
        let time = self.dice.ms(low, high);
        self.pass(time).await
    }

    fn due(&self) -> Duration {
        let heard =
            (self.alert || self.listens()).then(|| self.bench.caller_time(self.microphone.due()));
        let wire = self.wire.as_ref().and_then(Wire::due);
        let dues = [self.bench.due(), heard, wire, self.opening, self.walks_away];
        dues.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Processes everything that is due by now, in order of time as far as it matters.
    fn catch_up(&mut self) {
        let now = self.now();
        if self.walks_away.is_some_and(|at| at <= now) {
            self.walks_away = None;
            self.walk_away();
            return;
        }
        if self.opening.is_some_and(|at| at <= now) {
            self.opening = None;
            self.wire =
                Some(Wire::connect(&self.server, &self.plan, &mut self.network, self.epoch));
            self.judge().connected();
            self.happen(Event::SocketOpen);
        }
        while self.alert || self.listens() {
            self.microphone
                .skip_to(self.drift.on_device(now).saturating_sub(Duration::from_secs(1)));
            if self.bench.caller_time(self.microphone.due()) > now {
                break;
            }
            self.hear();
        }
        if !(self.alert || self.listens()) {
            self.microphone.skip_to(self.drift.on_device(now));
        }
        self.carry();
        if self.bench.due().is_some_and(|at| at <= now) {
            self.happen(Event::Nothing);
        }
        let way = (self.plan.base + self.plan.jitter) * 2;
        if let Some(since) = self.bench.observer().unanswered_abort(now)
            && since > way + STOP_WITHIN
        {
            self.fault("an abort has no response");
            self.judge().forgive_abort();
        }
    }

    fn hear(&mut self) {
        let (opus, voiced) = self.microphone.hear();
        let sent = self.listens() && voiced;
        if sent {
            let now = self.now();
            self.judge().sounded = Some(now);
            if self.words {
                self.judge().voiced = Some(now);
                self.mark = if self.interrupts { Mark::Voice } else { Mark::Nothing };
            }
        }
        self.happen(Event::Microphone(opus));
        self.mark = Mark::Nothing;
    }

    fn carry(&mut self) {
        if let Some(wire) = &mut self.wire {
            let told = wire.carry_up();
            let now = self.now();
            for mark in told {
                match mark {
                    Mark::Abort => self.judge().abort_known(now),
                    Mark::Voice if self.speaks() => self.judge().voice_known(now),
                    Mark::Voice | Mark::Nothing => {}
                }
            }
        }
        while let Some(down) = self.wire.as_mut().and_then(Wire::arrived) {
            match down.frame {
                Some(Frame::Text(text)) => {
                    self.judge().arriving(down.sent, down.sentence);
                    self.happen(Event::Text(String::from_utf8_lossy(&text).into_owned()));
                }
                Some(Frame::Binary(bytes)) => {
                    self.judge().arriving(down.sent, down.sentence);
                    self.happen(Event::Binary(bytes));
                    self.judge().arrived();
                }
                Some(Frame::Ping(payload)) => {
                    self.send(Message::Pong(payload), Mark::Nothing);
                }
                Some(_) => {}
                None => self.closed(),
            }
        }
    }

    fn closed(&mut self) {
        if !self.may_close {
            self.fault("the server closes the connection");
        }
        self.drop_wire(false);
        self.happen(Event::SocketClosed);
        self.over = true;
    }

    /// Leaves the device unused for a while. What was left behind must end by then, except
    /// connections whose loss the server does not know.
    pub(crate) async fn leave_alone(&mut self, time: Duration) {
        self.alert = false;
        self.hush();
        if self.wire.is_some() {
            self.walk_away();
        }
        tokio::time::sleep(time).await;
        let now = self.now();
        self.microphone.skip_to(self.drift.on_device(now));
        let lives = self.server.connections();
        let soon = ENDS_WITHIN + self.plan.base + self.plan.jitter;
        if time > soon && lives > self.silent.len() {
            self.fault(format!("{lives} connections are open"));
        }
    }

    /// The device is switched off for good: none of its actors may be left.
    pub(crate) async fn end(&mut self) {
        self.drop_wire(false);
        if !self.silent.is_empty() {
            let gone = self.plan.settings.device.dead_after + Duration::from_secs(2);
            tokio::time::sleep(gone).await;
        }
        tokio::time::sleep(ENDS_WITHIN + self.plan.base + self.plan.jitter).await;
        if !self.server.is_empty() || self.server.known() > 0 {
            self.fault("actors outlive their connection");
        }
        let faults = std::mem::take(&mut lock(&self.world).faults);
        for fault in faults {
            self.fault(fault);
        }
    }

    /// The results.
    pub(crate) fn into_judge(self) -> Judge {
        self.bench.into_observer()
    }
}
