//! Monitors one connection from its handshake to its end: lists the tools, lists them again when
//! they change, and detects that the peer is gone. For connections of either direction.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::connected_source::ConnectedSource;
use super::link::Link;

/// Interval at which an unused source is asked for its tools: to check that it still responds, and
/// because not every server reports changes.
const ASK_AGAIN_EVERY: Duration = Duration::from_secs(60);
/// Minimum time between two listings triggered by the server.
const SETTLE: Duration = Duration::from_millis(100);

/// Monitors the source until its connection ends. Returns the reason of the end.
pub(super) async fn run(source: &ConnectedSource, connection: &Link) -> String {
    let page_within = source.call_timeout().max(Duration::from_secs(5));
    let mut routine = interval_at(Instant::now() + ASK_AGAIN_EVERY, ASK_AGAIN_EVERY);
    routine.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = connection.gone() => return "the connection was lost".into(),
            listed = connection.tools(page_within) => match listed {
                Ok(tools) => source.set_ready(connection, tools),
                Err(reason) => return reason,
            },
        }
        let changed = async {
            loop {
                tokio::select! {
                    () = connection.changed() => {
                        tokio::time::sleep(SETTLE).await;
                        return;
                    }
                    () = source.wait_until_suspected() => return,
                    // A server that is busy with a call may be unable to list its tools.
                    _ = routine.tick() => if source.idle() { return },
                }
            }
        };
        tokio::select! {
            () = connection.gone() => return "the connection was lost".into(),
            () = changed => {}
        }
    }
}
