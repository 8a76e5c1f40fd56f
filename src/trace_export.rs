//! Exports each ended turn to an OpenTelemetry collector: one trace, with a span for each stage
//! (OTLP over HTTP, protobuf; <https://opentelemetry.io/docs/specs/otlp/>). Not for the content of
//! turns; their words are not exported.

use std::time::Duration;

use anyhow::Context as _;
use hearken_base::Secret;
use hearken_base::redaction::{self, MASK};
use hearken_dialogue::turn_trace::{
    ClientKind, Outcome, Span as StageSpan, TracedTurn, TurnJournal,
};
use hearken_outbound::http;
use metrics::{Counter, counter};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::config::TracesConfig;

/// Path of traces at a collector.
const PATH: &str = "v1/traces";
/// Length of the shown start of a session's id, in bytes.
const SHOWN_OF_SESSION: usize = 8;
/// Maximum number of turns waiting to be sent.
const WAITING: usize = 1_024;
/// Maximum number of turns per request.
const BATCH: usize = 128;
/// Time for which turns are batched for a request.
const GATHER: Duration = Duration::from_secs(1);
/// Waits before a request is sent again.
const AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// Maximum time for the last request, when the server ends.
const LAST: Duration = Duration::from_secs(2);

/// Exporter of traces.
pub struct TraceExporter {
    client: reqwest::Client,
    url: Url,
    authorization: Secret,
    timeout: Duration,
    turns: mpsc::Receiver<TracedTurn>,
    sent: Counter,
    lost: Counter,
}

impl TraceExporter {
    /// Creates the exporter of this journal's turns; `None` if no collector is configured.
    ///
    /// # Errors
    /// `traces.otlp_url` is not an HTTP address, or TLS cannot be set up.
    pub fn new(config: &TracesConfig, journal: &TurnJournal) -> anyhow::Result<Option<Self>> {
        if config.otlp_url.is_empty() {
            return Ok(None);
        }
        let url = address(&config.otlp_url)
            .with_context(|| format!("`traces.otlp_url` is `{}`", shown_text(&config.otlp_url)))?;
        let timeout = Duration::from_millis(config.timeout_ms);
        let client = http::client(&url, timeout)?;
        let (ended, turns) = mpsc::channel(WAITING);
        journal.export(ended);
        let count = |outcome| counter!("hearken_traces_total", "outcome" => outcome);
        let sent = count("sent");
        let lost = count("lost");
        let authorization = config.authorization.clone();
        Ok(Some(Self { client, url, authorization, timeout, turns, sent, lost }))
    }

    /// Sends turns until the server ends.
    pub async fn run(mut self, process: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                biased;
                () = process.cancelled() => break,
                count = self.turns.recv_many(&mut batch, BATCH) => if count == 0 { return },
            }
            if batch.len() < BATCH {
                tokio::select! {
                    () = process.cancelled() => {}
                    () = sleep(GATHER) => {}
                }
                while batch.len() < BATCH
                    && let Ok(turn) = self.turns.try_recv()
                {
                    batch.push(turn);
                }
            }
            tokio::select! {
                biased;
                () = process.cancelled() => break,
                () = self.send(&batch) => batch.clear(),
            }
        }
        while let Ok(turn) = self.turns.try_recv() {
            batch.push(turn);
        }
        if !batch.is_empty() && timeout(LAST, self.send(&batch)).await.is_err() {
            self.lost.increment(batch.len() as u64);
        }
    }

    /// Sends these turns; retries if the collector is temporarily unable to accept them.
    async fn send(&self, turns: &[TracedTurn]) {
        let body = encoded(turns);
        let mut waits = AGAIN_AFTER.iter();
        loop {
            match self.post(body.clone()).await {
                Ok(()) => return self.sent.increment(turns.len() as u64),
                Err(Refused { again: true, why }) if let Some(wait) = waits.next() => {
                    tracing::debug!(why, ?wait, "retrying to send traces");
                    sleep(*wait).await;
                }
                Err(Refused { why, .. }) => {
                    self.lost.increment(turns.len() as u64);
                    tracing::warn!(
                        why,
                        turns = turns.len(),
                        url = redaction::shown(&self.url),
                        "the collector did not accept traces: check `traces.otlp_url`"
                    );
                    return;
                }
            }
        }
    }

    async fn post(&self, body: Vec<u8>) -> Result<(), Refused> {
        let mut request = self.client.post(self.url.clone()).timeout(self.timeout);
        if !self.authorization.is_empty() {
            request = request.header(AUTHORIZATION, self.authorization.expose());
        }
        let request = request.header(CONTENT_TYPE, "application/x-protobuf").body(body);
        let answer = request.send().await;
        let answer = answer
            .map_err(|error| Refused { again: true, why: error.without_url().to_string() })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        // The specification allows a retry for these statuses only.
        let again = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        Err(Refused { again, why: status.to_string() })
    }
}

/// Reason why a request failed.
struct Refused {
    again: bool,
    why: String,
}

/// Returns an address as it may be shown: without its password and the values of its query. Of a
/// text that is no URL, only what cannot contain them.
fn shown_text(address: &str) -> String {
    match address.parse() {
        Ok(url) => redaction::shown(&url),
        Err(_) if address.contains(['@', '?']) => MASK.to_owned(),
        Err(_) => address.to_owned(),
    }
}

/// Returns the URL for traces at a collector.
fn address(base: &str) -> anyhow::Result<Url> {
    let mut url: Url = base.parse()?;
    anyhow::ensure!(
        matches!(url.scheme(), "http" | "https"),
        "it must start with http:// or https://"
    );
    if !url.path().ends_with(PATH) {
        let path = format!("{}/{PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

/// Encodes turns as the body of a request.
fn encoded(turns: &[TracedTurn]) -> Vec<u8> {
    let scope = InstrumentationScope { name: "hearken".into(), ..Default::default() };
    let spans = turns.iter().flat_map(spans).collect();
    let resource = Resource {
        attributes: vec![
            text("service.name", "hearken"),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ],
        ..Default::default()
    };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..Default::default() }];
    let resource_spans =
        vec![ResourceSpans { resource: Some(resource), scope_spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// Returns the spans of a turn: the turn itself, then its stages.
fn spans(turn: &TracedTurn) -> Vec<Span> {
    let ends = turn.spans.iter().filter_map(|span| span.end);
    let length = ends.chain(turn.events.iter().map(|(_, at)| *at)).max().unwrap_or_default();
    let mut whole = Span {
        name: "turn".into(),
        kind: SpanKind::Server as i32,
        attributes: about(turn),
        events: turn.events.iter().map(|(one, at)| event(turn, one.name(), *at)).collect(),
        ..span(turn, 0, Duration::ZERO, length)
    };
    if turn.outcome == Some(Outcome::Failed) {
        let code = StatusCode::Error as i32;
        whole.status = Some(Status { code, ..Default::default() });
    }
    let parent = whole.span_id.clone();
    let stage = |(number, stage): (u64, &StageSpan)| Span {
        name: stage.stage.name().into(),
        kind: SpanKind::Internal as i32,
        parent_span_id: parent.clone(),
        attributes: stage.detail.iter().map(|detail| text("hearken.detail", detail)).collect(),
        ..span(turn, number, stage.start, stage.end.unwrap_or(length))
    };
    let stages: Vec<_> = (1..).zip(&turn.spans).map(stage).collect();
    std::iter::once(whole).chain(stages).collect()
}

/// Returns a span of these times. Its id is derived from that of the turn.
fn span(turn: &TracedTurn, number: u64, start: Duration, end: Duration) -> Span {
    let (_, low) = turn.id.as_u64_pair();
    Span {
        trace_id: turn.id.as_bytes().to_vec(),
        span_id: low.wrapping_add(number).max(1).to_be_bytes().to_vec(),
        start_time_unix_nano: nanos(turn, start),
        end_time_unix_nano: nanos(turn, end),
        ..Default::default()
    }
}

/// Returns the client of a turn: the id of a device, or the start of the id of a session, which
/// whoever has all of it could continue.
fn client(kind: ClientKind, client: &str) -> &str {
    match kind {
        ClientKind::Voice => client,
        ClientKind::Text | ClientKind::Chat => client.get(..SHOWN_OF_SESSION).unwrap_or_default(),
    }
}

/// Returns the attributes of a turn.
fn about(turn: &TracedTurn) -> Vec<KeyValue> {
    let client = client(turn.kind, &turn.client);
    let mut about = vec![text("hearken.kind", turn.kind.name()), text("hearken.client", client)];
    about.extend(turn.firmware.iter().map(|version| text("hearken.firmware", version)));
    about.extend(turn.outcome.map(|outcome| text("hearken.outcome", outcome.name())));
    about.extend(turn.wait().map(|wait| {
        let ms = Value::DoubleValue(wait.as_secs_f64() * 1_000.0);
        pair("hearken.wait_ms", ms)
    }));
    about
}

fn event(turn: &TracedTurn, name: &str, at: Duration) -> Event {
    Event { name: name.into(), time_unix_nano: nanos(turn, at), ..Default::default() }
}

fn nanos(turn: &TracedTurn, at: Duration) -> u64 {
    let began = u64::try_from(turn.began.as_nanosecond()).unwrap_or_default();
    began.saturating_add(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}

fn text(key: &str, value: &str) -> KeyValue {
    pair(key, Value::StringValue(value.into()))
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn the_path_of_traces_is_added_if_missing() {
        for (base, expected) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
            ("https://otel.example/otlp", "https://otel.example/otlp/v1/traces"),
            ("https://otel.example/v1/traces", "https://otel.example/v1/traces"),
        ] {
            assert_eq!(address(base).unwrap().as_str(), expected);
        }
        for wrong in ["", "localhost:4318", "ftp://x/", "http://"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn neither_keys_nor_ids_that_continue_a_session_are_shown() {
        for (address, shown) in [
            ("http://localhost:4318", "http://localhost:4318/"),
            ("https://me:sk-1@a/otlp?key=sk-2", "https://me:***@a/otlp?key=***"),
            ("ftp://me:sk-1@a/", "ftp://me:***@a/"),
            ("http://me:sk-1@", MASK),
            ("a collector", "a collector"),
        ] {
            assert_eq!(shown_text(address), shown);
        }
        let id = "0f8fad5b-d9cb-469f-a165-70867728950e";
        for (kind, shown) in [
            (ClientKind::Voice, id),
            (ClientKind::Text, "0f8fad5b"),
            (ClientKind::Chat, "0f8fad5b"),
        ] {
            assert_eq!(client(kind, id), shown, "{kind:?}");
        }
    }
}
