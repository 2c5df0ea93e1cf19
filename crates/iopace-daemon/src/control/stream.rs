//! What everything does: the latest report, the last minutes, and a stream of Server-Sent Events.
//!
//! The bytes of a report are shared by all who read it. (axum's own events would be copied for each
//! of them.)

use super::api::{EventReport, LiveReport, Problem};
use super::hall::Guest;
use super::routes::{Refused, Shared, Subject, words};
use crate::limits::LIVE_KEPT;
use crate::live::{Item, Reader};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, watch};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// A comment is sent when there was nothing else for so long.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// What a stream begins with: whoever is cut off is to come back after a second.
const PREAMBLE: &str = "retry: 1000\n\n";

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(live)).routes(routes!(stream))
}

/// What `GET /v1/live` answers, for the description: the bytes are made elsewhere.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its description is needed")]
enum LiveAnswer {
    Latest(LiveReport),
    History(Vec<LiveReport>),
}

/// What everything did in the last interval, or in the last ones.
#[utoipa::path(get, path = "/v1/live",
    params(("history" = Option<usize>, Query,
        description = "So many of the last intervals at most, oldest first: 1 to 120")),
    responses((status = 200, description = "A report, or a list of them", body = LiveAnswer),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn live(State(shared): Subject, uri: Uri) -> Result<Response, Refused> {
    let [history] = words(&uri, ["history"])?;
    let hub = shared.subject.live();
    let json = |body: Bytes| ([(CONTENT_TYPE, "application/json")], body).into_response();
    let Some(history) = history else {
        let mut reader = hub.reader(None);
        loop {
            if let Some(latest) = hub.latest() {
                return Ok(json(latest.json()));
            }
            // Within the first second.
            reader.next().await;
        }
    };
    let count = history.parse().ok().filter(|count| (1..=LIVE_KEPT).contains(count));
    let count = count.ok_or_else(|| {
        let error = format!("history={history} is not possible");
        let hint = format!("it is a number of intervals, 1 to {LIVE_KEPT}");
        Refused::new(StatusCode::BAD_REQUEST, error, hint)
    })?;
    Ok(json(hub.history_json(count)))
}

/// What everything does, as it happens.
#[utoipa::path(get, path = "/v1/live/stream", operation_id = "live_stream",
    params(("last-event-id" = Option<String>, Header,
        description = "The id of the last message, to go on behind it")),
    responses((status = 200, body = String, content_type = "text/event-stream",
        description = "Server-Sent Events: `live` with a LiveReport, `event` with an EventReport"),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn stream(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let permit = shared.streams.clone().try_acquire_owned().map_err(|_| {
        Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "there are as many streams already as may be",
            "close one, or ask for GET /v1/live from time to time",
        )
    })?;
    guest.stay();
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let telling = Telling {
        reader: shared.subject.live().reader(last),
        ended: shared.ended.clone(),
        pieces: VecDeque::from([Bytes::from_static(PREAMBLE.as_bytes())]),
        _permit: permit,
    };
    let pieces = unfold(telling, |mut telling| async move {
        let piece = telling.next().await?;
        Some((Ok::<_, Infallible>(piece), telling))
    });
    let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((head, Body::from_stream(pieces)).into_response())
}

/// One stream.
struct Telling {
    reader: Reader,
    ended: watch::Receiver<bool>,
    /// What is to be sent next.
    pieces: VecDeque<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl Telling {
    /// What is sent next; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(piece) = self.pieces.pop_front() {
            return Some(piece);
        }
        let item = tokio::select! {
            biased;
            _ = self.ended.wait_for(|ended| *ended) => return None,
            item = self.reader.next() => item,
            () = tokio::time::sleep(KEEP_ALIVE) => return Some(Bytes::from_static(b":\n\n")),
        };
        let (event, data) = match item {
            Item::Interval(interval) => ("live", interval.json()),
            Item::Event(event) => ("event", json(&event)),
        };
        self.pieces.extend([data, Bytes::from_static(b"\n\n")]);
        let id = self.reader.id();
        Some(format!("event: {event}\nid: {id}\ndata: ").into())
    }
}

fn json(event: &EventReport) -> Bytes {
    serde_json::to_vec(event).expect("strings and numbers").into()
}
