//! Attends to one connection from its handshake to its end: reads the tools, reads them again
//! when they change, notices that nobody is there any more. For connections of either direction.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::connected_source::ConnectedSource;
use super::link::Link;

/// An unused source is asked for its tools this often: to see whether it is still there, and
/// because not every server tells of changes.
const ASK_AGAIN_EVERY: Duration = Duration::from_secs(60);
/// Shortest wait between two lists that the server itself asks for.
const SETTLE: Duration = Duration::from_millis(100);

/// Keeps the source ready until its connection ends; why it did.
pub(super) async fn attend(live: &ConnectedSource, connection: &Link) -> String {
    let page_within = live.call_timeout().max(Duration::from_secs(5));
    let mut routine = interval_at(Instant::now() + ASK_AGAIN_EVERY, ASK_AGAIN_EVERY);
    routine.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = connection.gone() => return "the connection was lost".into(),
            listed = connection.tools(page_within) => match listed {
                Ok(tools) => live.ready(connection, tools),
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
                    () = live.suspected() => return,
                    // A server that is busy with a call may not list its tools meanwhile.
                    _ = routine.tick() => if live.idle() { return },
                }
            }
        };
        tokio::select! {
            () = connection.gone() => return "the connection was lost".into(),
            () = changed => {}
        }
    }
}
