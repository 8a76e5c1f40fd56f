//! REST API of the last turns: what happened in them, and when, as a list and as it happens. Not for keeping them.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::http::header::CACHE_CONTROL;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::LocalBoxFuture;
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
use crate::http::lasting_access::refused;
use crate::http::middleware::slot_of;
use crate::http::params::number;
use crate::turn_json::TurnJson;

/// Path of the turns as they happen.
pub(crate) const LIVE: &str = "/api/turns/live";
/// Watchers at a time.
const MOST_WATCHERS: usize = 32;
/// Shortest time between two messages about changes.
const PACE: Duration = Duration::from_millis(100);
/// Time after which a comment is sent when nothing has changed, so that nobody takes the stream for dead.
const STILL_THERE: Duration = Duration::from_secs(15);
/// Longest life of a stream. Its client asks again, and shows again who they are.
const LONGEST: Duration = Duration::from_mins(10);
/// Number of turns in a list where none is asked for, and at most.
const USUAL: usize = 50;
const MOST: usize = 500;

/// State of the routes about turns.
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

    /// Returns the calls of turns that wait for a person's yes.
    pub(crate) fn waiting(&self) -> WaitingCalls {
        self.journal.waiting().clone()
    }
}

/// Last turns.
#[derive(Serialize, ToSchema)]
struct LastTurns {
    /// Newest first.
    turns: Vec<TurnJson>,
}

/// Lists the last turns, newest first (`GET /api/turns`).
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

/// Tells turns as they happen, as server-sent events `turn`, each with a whole turn, again whenever it changes, at most ten
/// times a second. The last turns come first. After ten minutes the stream ends, and its client asks again
/// (`GET /api/turns/live`).
#[utoipa::path(get, path = "/api/turns/live", tag = "turns",
    responses((status = 200, content((String = "text/event-stream"))), Faults))]
pub(crate) async fn live(
    _: Operator,
    request: HttpRequest,
    turns: web::Data<Turns>,
) -> RouteResult {
    let about = |_| refusal(Fault::Busy, "too many watch the turns: try again later");
    let slot = slot_of(&request, &turns.watchers).map_err(about)?;
    let ended = Box::pin(refused::<Operator>(request));
    let watch = Watch::new(&turns, slot, ended);
    let mut response = HttpResponse::Ok();
    response.content_type("text/event-stream").insert_header((CACHE_CONTROL, "no-cache"));
    // Turns off the buffering of a proxy (nginx), which would delay the stream.
    response.insert_header(("X-Accel-Buffering", "no"));
    Ok(response.streaming(to_event_stream(watch)))
}

/// What one client has been told.
struct Watch {
    journal: TurnJournal,
    changes: watch::Receiver<u64>,
    /// Number of changes that were told.
    told: u64,
    until: Instant,
    /// Ends when the client may no longer watch.
    ended: LocalBoxFuture<'static, ()>,
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
    fn new(turns: &Turns, slot: Slot, ended: LocalBoxFuture<'static, ()>) -> Self {
        let journal = turns.journal.clone();
        let mut changes = journal.changes();
        changes.mark_changed();
        let until = Instant::now() + LONGEST;
        let process = turns.process.clone();
        Self { journal, changes, told: 0, until, ended, process, _slot: slot }
    }

    /// Returns what is to be told next; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Bytes> {
        let changed = tokio::select! {
            biased;
            () = self.process.cancelled() => return None,
            () = sleep_until(self.until) => return None,
            () = &mut self.ended => return None,
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
