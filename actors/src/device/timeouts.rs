//! Events that time alone causes: missing hellos, silence, peers that are gone. Not for the timers
//! of a turn.

use std::time::Duration;

use hearken_dialogue::TurnInput;
use hearken_dialogue::metrics::{self, actor_metrics};
use hearken_proto::fault::Fault;
use hearken_socket::SocketContext;
use tokio::time::Instant;

use super::DeviceActor;

/// Interval between checks of the idle rules.
pub(super) const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Maximum duration of a connection that only plays a notice. The device gets another one when a
/// person next asks.
const NOTICE_FOR: Duration = Duration::from_mins(2);

type Ctx = SocketContext<DeviceActor>;

impl DeviceActor {
    pub(super) fn leave(&mut self, fault: Fault, ctx: &mut Ctx) {
        tracing::info!(fault = fault.code(), "closing");
        self.cut(ctx);
        hearken_socket::close(ctx, fault);
    }

    pub(super) fn check_timeouts(&mut self, ctx: &mut Ctx) {
        self.say_next();
        self.count();
        if let Some(links) = &self.links {
            let waiting = links.uplink.max_capacity() - links.uplink.capacity();
            actor_metrics().uplink_depth.record(metrics::as_f64(waiting));
        }
        let device = &self.rules.device;
        let now = Instant::now();
        if !self.state.greeted && now - self.state.since >= device.hello_timeout {
            return self.leave(Fault::NoHello, ctx);
        }
        if now - self.state.last_inbound >= device.dead_after {
            tracing::info!("the device closed the connection without a Close frame");
            return self.leave(Fault::Idle, ctx);
        }
        if self.connection.notice.is_some() && now - self.state.since >= NOTICE_FOR {
            return self.leave(Fault::Idle, ctx);
        }
        if now - self.state.last_ping >= device.ping_every {
            self.state.last_ping = now;
            ctx.ping();
        }
        self.check_silence(ctx);
    }

    /// Starts the farewell after a long time without speech.
    pub(super) fn check_silence(&mut self, ctx: &mut Ctx) {
        let longest = match &self.live {
            None => Duration::ZERO,
            // The person may be speaking for longer than the timeout. A button may be held without
            // end.
            Some(live) if live.hearing => self.rules.max_utterance,
            Some(_) => return,
        };
        let timeout = self.rules.device.no_voice_timeout.max(longest);
        if self.state.greeted && self.state.last_voice.elapsed() >= timeout {
            self.cut(ctx);
            self.state.leaving = true;
            self.begin(TurnInput::Farewell);
        }
    }
}
