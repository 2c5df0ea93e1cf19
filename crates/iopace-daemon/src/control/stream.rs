//! What everything does: the latest report, the last minutes, and a stream of Server-Sent Events.
//!
//! The bytes of a report are shared by all who read it. (axum's own events would be copied for each
//! of them.) What comes next is seen by tasks that may take the hub's lock; it is put into words
//! and sent [`idle_executor`].

use super::admission::Guest;
use super::idle_executor;
use super::refused::Refused;
use super::shared::{Shared, Subject, words};
use crate::api::{EventReport, LiveReport, Problem};
use crate::limits::LIVE_KEPT;
use crate::live::{Interval, Item, Reader};
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
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
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
async fn live(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    uri: Uri,
) -> Result<Response, Refused> {
    let [history] = words(&uri, ["history"])?;
    let hub = shared.subject.live();
    let json = |body: Body| ([(CONTENT_TYPE, "application/json")], body).into_response();
    let Some(history) = history else {
        let mut reader = hub.reader(None);
        loop {
            if let Some(latest) = hub.latest() {
                guest.keep(Arc::<Interval>::clone(&latest));
                let pieces = once(latest).map(|latest| latest.json());
                return Ok(json(idle_executor::body(&guest, pieces)));
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
    let told = hub.told(count);
    guest.keep(Arc::new(told.clone()));
    Ok(json(idle_executor::body(&guest, told.pieces())))
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
    guest.steps_aside();
    let last = headers.get("last-event-id").and_then(|last| last.to_str().ok());
    let telling = Telling {
        reader: shared.subject.live().reader(last),
        ended: shared.ended.clone(),
        _permit: permit,
    };
    let (to, from) = channel(1);
    tokio::spawn(telling.tell(to));
    let sending =
        Sending { from, pieces: VecDeque::from([Bytes::from_static(PREAMBLE.as_bytes())]) };
    let pieces = unfold(sending, |mut sending| async move {
        let piece = sending.next().await?;
        Some((Ok::<_, Infallible>(piece), sending))
    });
    let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((head, Body::from_stream(pieces)).into_response())
}

/// What is said next on a stream.
enum Said {
    /// What came, with its place.
    Item(String, Item),
    /// That there is nothing.
    Nothing,
}

/// One stream, as it is seen here.
struct Telling {
    reader: Reader,
    ended: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl Telling {
    /// Tells until the end, or until nobody listens. What was told last is kept until the next is,
    /// so that who sends it does not free it.
    async fn tell(mut self, to: Sender<Said>) {
        let mut _last = None;
        loop {
            let room = tokio::select! {
                biased;
                _ = self.ended.wait_for(|ended| *ended) => return,
                room = to.reserve() => room,
            };
            let Ok(room) = room else { return };
            let item = tokio::select! {
                biased;
                _ = self.ended.wait_for(|ended| *ended) => return,
                () = to.closed() => return,
                item = self.reader.next() => Some(item),
                () = tokio::time::sleep(KEEP_ALIVE) => None,
            };
            let said = match &item {
                Some(item) => Said::Item(self.reader.id(), item.clone()),
                None => Said::Nothing,
            };
            _last = item;
            room.send(said);
        }
    }
}

/// The same as it is sent.
struct Sending {
    from: Receiver<Said>,
    /// What is to be sent next.
    pieces: VecDeque<Bytes>,
}

impl Sending {
    /// What is sent next; none at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(piece) = self.pieces.pop_front() {
            return Some(piece);
        }
        let Said::Item(id, item) = self.from.recv().await? else {
            return Some(Bytes::from_static(b":\n\n"));
        };
        let (event, data) = match item {
            Item::Interval(interval) => ("live", interval.json()),
            Item::Event(event) => ("event", json(&event)),
        };
        self.pieces.extend([data, Bytes::from_static(b"\n\n")]);
        Some(format!("event: {event}\nid: {id}\ndata: ").into())
    }
}

fn json(event: &EventReport) -> Bytes {
    serde_json::to_vec(event).expect("strings and numbers").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::fake::null_daemon;
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_told_of_the_end_as_well() {
        let daemon = null_daemon();
        let (end, ended) = watch::channel(false);
        let streams = Arc::new(Semaphore::new(1));
        let permit = Arc::clone(&streams).try_acquire_owned().expect("the first");
        let reader = daemon.live().hub().reader(None);
        let (to, mut from) = channel(1);
        let telling = tokio::spawn(Telling { reader, ended, _permit: permit }.tell(to));
        // Something was said, and nobody takes it: the next waits.
        tokio::time::sleep(2 * KEEP_ALIVE).await;
        assert_eq!(from.len(), 1);
        assert!(!telling.is_finished());
        end.send_replace(true);
        timeout(KEEP_ALIVE, telling).await.expect("in time").expect("ended well");
        assert_eq!(streams.available_permits(), 1);
        assert!(from.recv().await.is_some() && from.recv().await.is_none());
        daemon.shutdown();
    }
}
