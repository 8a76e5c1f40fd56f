//! Orders from outside the conversation: a notice, a spoken message, a farewell. Not for their
//! senders, which are the device registry and the tool host.

use std::sync::Arc;
use std::time::Duration;

use actix::AsyncContext as _;
use hearken_dialogue::TurnInput;
use hearken_dialogue::metrics::actor_metrics;
use hearken_ports::ToolSource;
use hearken_proto::device::Downlink;
use hearken_socket::SocketContext;
use tokio::time::Instant;

use super::DeviceActor;
use crate::device_registry::RegisteredSocket;
use crate::messages::DeviceOrder;

/// Maximum number of messages that wait to be spoken at the end of a turn.
const MAX_TO_SAY: usize = 8;

/// Time after an abort in which messages wait for the person's words: firmware sends `abort` when a
/// person starts to talk, too, and waiting messages would be spoken before their first word.
const ABORT_HOLD: Duration = Duration::from_secs(5);

type Ctx = SocketContext<DeviceActor>;

impl DeviceActor {
    /// Registers the connection under its device's id, replacing an earlier connection of the same
    /// device.
    pub(super) fn register(&mut self, tools: Option<Arc<dyn ToolSource>>, ctx: &mut Ctx) {
        let device_id = self.connection.device_id.clone();
        let socket = RegisteredSocket {
            session_id: self.session_id.clone(),
            orders: ctx.address().recipient(),
            ended: self.connection.ended.clone(),
            tools,
        };
        self.registration = Some(self.rules.device_registry.register(device_id, socket));
    }

    pub(super) fn carry_out(&mut self, order: DeviceOrder, ctx: &mut Ctx) {
        match order {
            DeviceOrder::Send(message) => self.pass_on(&message, ctx),
            DeviceOrder::Say(_) if self.state.to_say.len() >= MAX_TO_SAY => {
                actor_metrics().drops.messages.increment(1);
                tracing::warn!("dropped a message to speak: the queue is full");
            }
            DeviceOrder::Say(text) => {
                self.state.to_say.push_back(text);
                self.say_next();
            }
            DeviceOrder::Leave(fault) => self.leave(fault, ctx),
        }
    }

    /// Sends a message to the device, or drops it: a device accepts no messages before its hello.
    fn pass_on(&mut self, message: &Downlink, ctx: &mut Ctx) {
        if self.state.greeted {
            self.send(message, ctx);
        } else {
            tracing::debug!("dropped a message: the device has not said hello");
        }
    }

    /// Lets the waiting messages wait for the end of the next turn, or for [`ABORT_HOLD`] if none
    /// starts.
    pub(super) fn hold_messages(&mut self) {
        if !self.state.to_say.is_empty() {
            self.state.messages_held_until = Some(Instant::now() + ABORT_HOLD);
        }
    }

    /// Speaks the message that has waited longest, unless a turn is live: a message does not
    /// interrupt a conversation.
    pub(super) fn say_next(&mut self) {
        let held = self.state.messages_held_until.is_some_and(|until| Instant::now() < until);
        if self.state.greeted
            && !held
            && self.live.is_none()
            && let Some(text) = self.state.to_say.pop_front()
        {
            self.begin(TurnInput::Say(text));
        }
    }

    /// Speaks the notice of the connection, if it has one: when the device first listens, and again
    /// each time that a person asks, unless turns come too fast. Returns true if it has one; then
    /// the caller does nothing else.
    pub(super) fn say_notice(&mut self, asked: bool) -> bool {
        let Some(notice) = self.connection.notice.clone() else { return false };
        if (asked || !self.state.notice_given) && self.live.is_none() {
            // Any client can get a notice: it counts in the rate of its address, although it is no
            // turn of the household.
            let turn = self.turns.next();
            if turn.take_rate().is_ok() {
                self.state.notice_given = true;
                self.begin_turn(turn, TurnInput::Say(notice));
            }
        }
        true
    }
}
