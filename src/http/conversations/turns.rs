//! REST API of recent turns with their stages and events, as a list and as a live stream. Not for storing them.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use hearken_base::slots::{Slot, Slots};
use hearken_dialogue::tools::waiting::WaitingCalls;
use hearken_dialogue::turn_trace::TurnJournal;
use hearken_proto::fault::Fault;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::http::extract::Operator;
use crate::http::fault::{Faults, RouteResult, refusal};
use crate::http::lasting_access::{AtEnd, LastingAccess};
use crate::http::middleware::slot_of;
use crate::http::params::number;
use crate::turn_json::TurnJson;

/// Path of the live stream.
pub(crate) const LIVE: &str = "/api/turns/live";
/// Maximum number of concurrent watchers.
const MOST_WATCHERS: usize = 32;
/// Minimum time between two updates.
const PACE: Duration = Duration::from_millis(100);
/// Time without changes after which a comment is sent, so that clients and proxies do not close the stream.
const STILL_THERE: Duration = Duration::from_secs(15);
/// Maximum duration of a stream. Its client reconnects, and is authorised again.
const LONGEST: Duration = Duration::from_mins(10);
/// Default and maximum number of turns in a list.
const USUAL: usize = 50;
const MOST: usize = 500;

/// State of the turn routes.
#[derive(Clone)]
pub struct Turns {
    journal: TurnJournal,
    watchers: Slots,
    process: CancellationToken,
}

impl Turns {
    /// Creates the state. Streams end with `process`.
    pub fn new(journal: TurnJournal, process: CancellationToken) -> Self {
        Self { journal, watchers: Slots::new(MOST_WATCHERS, MOST_WATCHERS / 2), process }
    }

    /// Returns the calls of turns that are pending confirmation.
    pub(crate) fn waiting(&self) -> WaitingCalls {
        self.journal.waiting().clone()
    }
}

/// Recent turns.
#[derive(Serialize, ToSchema)]
struct LastTurns {
    /// Turns, newest first.
    turns: Vec<TurnJson>,
}

/// Lists recent turns, newest first.
#[utoipa::path(get, path = "/api/turns", tag = "turns",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 500)),
    responses((status = 200, body = LastTurns), Faults))]
pub(crate) async fn list(
    _: Operator,
    request: HttpRequest,
    turns: web::Data<Turns>,
) -> RouteResult {
    let limit = number(&request, "limit", 1..=MOST, Fault::BadRequest)?.unwrap_or(USUAL);
    let turns = turns.journal.last(limit).into_iter().map(TurnJson::from).collect();
    Ok(HttpResponse::Ok().json(LastTurns { turns }))
}

/// Streams turns as they happen, as server-sent events.
///
/// Each event `turn` contains one complete turn, which is sent again whenever it changes, at most
/// ten times per second. Recent turns come first. The stream ends after ten minutes; the client
/// then reconnects.
#[utoipa::path(get, path = "/api/turns/live", tag = "turns",
    responses((status = 200, content((String = "text/event-stream"))), Faults))]
pub(crate) async fn live(
    _: Operator,
    request: HttpRequest,
    turns: web::Data<Turns>,
) -> RouteResult {
    let about = |_| refusal(Fault::Busy, "too many watchers of turns: try again later");
    let slot = slot_of(&request, &turns.watchers).map_err(about)?;
    let watch = Watch::new(&turns, slot);
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache"));
    // Disables buffering in a proxy (nginx), which would delay the stream.
    response.insert_header(("X-Accel-Buffering", "no"));
    let access = LastingAccess::of::<Operator>(&request);
    Ok(access.stream(response, to_event_stream(watch), AtEnd::Stop))
}

/// State of the stream of one client.
struct Watch {
    journal: TurnJournal,
    changes: watch::Receiver<u64>,
    /// Number of changes sent so far.
    told: u64,
    until: Instant,
    process: CancellationToken,
    _slot: Slot,
}

fn to_event_stream(watch: Watch) -> impl Stream<Item = Result<Bytes, Infallible>> {
    unfold(watch, |mut watch| async move {
        let next = watch.next().await?;
        Some((Ok(next), watch))
    })
}

impl Watch {
    fn new(turns: &Turns, slot: Slot) -> Self {
        let journal = turns.journal.clone();
        let mut changes = journal.changes();
        changes.mark_changed();
        let until = Instant::now() + LONGEST;
        let process = turns.process.clone();
        Self { journal, changes, told: 0, until, process, _slot: slot }
    }

    /// Returns the next part of the stream; `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        let changed = tokio::select! {
            biased;
            () = self.process.cancelled() => return None,
            () = sleep_until(self.until) => return None,
            changed = self.changes.changed() => changed.is_ok(),
            () = sleep(STILL_THERE) => false,
        };
        if !changed {
            return Some(Bytes::from_static(b": still there\n\n"));
        }
        if self.told > 0 {
            sleep(PACE).await;
        }
        let told = std::mem::replace(&mut self.told, (*self.changes.borrow_and_update()).max(1));
        let turns = self.journal.changed_since(told);
        let mut events = String::new();
        for turn in turns {
            let turn = serde_json::to_string(&TurnJson::from(turn)).unwrap_or_default();
            events.push_str("event: turn\ndata: ");
            events.push_str(&turn);
            events.push_str("\n\n");
        }
        if events.is_empty() {
            events.push_str(": no turn yet\n\n");
        }
        Some(events.into())
    }
}
