//! A recording of a device: `GET /v1/devices/{name}/record`, which answers for as long as was asked
//! for.
//!
//! ```text
//!   engine: list of 16 384 ─► every 50 ms: copied, and forgotten there ─► pieces ─► client
//! ```
//! The thread of the recording holds two such lists at most, and one piece. While the client takes
//! nothing, the list in the engine becomes full, and further requests are counted only.

use super::Controlled;
use super::admission::Guest;
use super::refused::Refused;
use super::shared::{Name, Shared, Subject, find, words};
use crate::api::{Problem, RecordName, RecordPiece, RecordRequest};
use crate::clock;
use crate::device::Device;
use crate::limits::LOOK_PAUSE;
use crate::live::name_of;
use crate::live::text::json;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use iopace_core::engine::Control;
use iopace_core::limits::RECORDED_MAX;
use iopace_core::request::{Cover, GroupId, Op, TaskId};
use iopace_core::shadow::{Recorded, RecordedKind};
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The time that is recorded if none is said.
const FOR_MS: u64 = 10_000;

/// Longest recording: an hour. The memory of the daemon does not grow with it.
const RECORD_MS_MAX: u64 = 3_600_000;

/// How often what has ended is copied: 16 384 requests in that time are 300 000 a second.
const EVERY: Duration = Duration::from_millis(50);

/// A piece is sent at least that often, so that the client knows that it goes on.
const TELL: Nanos = Nanos::from_millis(500);

/// Requests of a piece, some 150 bytes each as text.
const PIECE_COUNT: usize = 1_024;

/// A recording waits so long for a look of `explain` or another recording to end.
const WAITS: Duration = Duration::from_secs(6);

/// A client that takes nothing for so long has its recording ended: nobody else can record or take
/// a look meanwhile.
const TAKES_WITHIN: Nanos = Nanos::from_secs(10);

/// Tasks, and groups, whose names are told: those beyond that have their numbers only.
const NAMES_MAX: usize = 65_536;

/// Between two tries to hand over a piece that the client has no room for.
const ROOM: Duration = Duration::from_millis(5);

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(record))
}

/// Each request that a device gets from now on, as it ends.
#[utoipa::path(get, path = "/v1/devices/{name}/record", operation_id = "record",
    params(("name" = String, Path, description = "The device"),
        ("for_ms" = Option<u64>, Query,
            description = "How long it is recorded: 100 to 3600000, 10000 without it")),
    responses((status = 200, body = RecordPiece, content_type = "application/x-ndjson",
        description = "Lines, each a RecordPiece; the last says so"),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn record(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    name: Name,
    uri: Uri,
) -> Result<Response, Refused> {
    let [for_ms] = words(&uri, ["for_ms"])?;
    let length = length(for_ms.as_deref())?;
    let name = find(&shared, name)?.info().name.clone();
    // One records at a time: a recording is of whoever began it last.
    let right = timeout(WAITS, Arc::clone(&shared.looks).acquire_owned()).await;
    let right = right.ok().and_then(Result::ok).ok_or_else(|| {
        let error = "another recording, or a look of 'explain', goes on";
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, error, "ask again when it has ended")
    })?;
    guest.stay();
    let (to, from) = channel(1);
    let subject = Arc::clone(&shared.subject);
    let ended = shared.ended.clone();
    tokio::task::spawn_blocking(move || {
        if let Some(device) = subject.devices().iter().find(|one| one.info().name == name) {
            Taking::new(&*subject, &**device, (to, ended, right)).run(length);
        }
    });
    let pieces = unfold(from, |mut from| async move {
        let piece = from.recv().await?;
        Some((Ok::<_, Infallible>(piece), from))
    });
    let head = [(CONTENT_TYPE, "application/x-ndjson"), (CACHE_CONTROL, "no-store")];
    Ok((head, Body::from_stream(pieces)).into_response())
}

fn length(for_ms: Option<&str>) -> Result<Nanos, Refused> {
    let length = match for_ms {
        Some(text) => text.parse().ok().filter(|ms| (100..=RECORD_MS_MAX).contains(ms)),
        None => Some(FOR_MS),
    };
    length.map(Nanos::from_millis).ok_or_else(|| {
        let error = format!("for_ms={} is not possible", for_ms.unwrap_or_default());
        let hint = format!("it is a number of milliseconds, 100 to {RECORD_MS_MAX}");
        Refused::new(StatusCode::BAD_REQUEST, error, hint)
    })
}

/// A recording under way. The engine records as long as this is there.
struct Taking<'a> {
    subject: &'a dyn Controlled,
    device: &'a dyn Device,
    to: Sender<Bytes>,
    /// Becomes true when the daemon ends.
    ended: watch::Receiver<bool>,
    _right: OwnedSemaphorePermit,
    began: Instant,
    told_at: Instant,
    left_out_count: u64,
    /// Tasks and groups that the client knows the names of.
    tasks: BTreeSet<TaskId>,
    groups: BTreeSet<GroupId>,
}

impl<'a> Taking<'a> {
    fn new(
        subject: &'a dyn Controlled,
        device: &'a dyn Device,
        (to, ended, right): (Sender<Bytes>, watch::Receiver<bool>, OwnedSemaphorePermit),
    ) -> Taking<'a> {
        // It can always be begun.
        let _ = device.control(Control::Record(Some(RECORDED_MAX)));
        let mut began = clock::now();
        device.look(&mut |engine, _| {
            began = engine.recording().map_or(began, |recording| recording.began);
        });
        let (tasks, groups, left_out_count) = (BTreeSet::new(), BTreeSet::new(), 0);
        Taking {
            subject,
            device,
            to,
            ended,
            _right: right,
            began,
            told_at: began,
            left_out_count,
            tasks,
            groups,
        }
    }

    fn run(mut self, length: Nanos) {
        let until = self.began + length;
        loop {
            let now = clock::now();
            let is_ended = *self.ended.borrow();
            let is_over = now >= until || is_ended;
            let mut taken = self.take();
            taken.retain(|one| one.ended <= until);
            for piece in taken.chunks(PIECE_COUNT) {
                if !self.tell(piece, now, false) {
                    return;
                }
            }
            if is_over {
                self.tell(&[], now.min(until), true);
                return;
            }
            if now.since(self.told_at) >= TELL && !self.tell(&[], now, false) {
                return;
            }
            // SLEEP: until there is something to copy.
            thread::sleep(EVERY.min(clock::until(until).unwrap_or_default()));
        }
    }

    /// Copies what has ended since the last time; the device's lock is held for a piece of it.
    fn take(&mut self) -> Vec<Recorded> {
        let mut taken: Vec<Recorded> = Vec::new();
        loop {
            let before = taken.len();
            self.device.look(&mut |engine, _| {
                let Some(recording) = engine.recording() else { return };
                let rest = recording.ended.get(taken.len()..).unwrap_or_default();
                taken.extend(rest.iter().take(PIECE_COUNT));
                self.left_out_count = recording.left_out_count;
            });
            if taken.len() < before + PIECE_COUNT {
                break;
            }
            // SLEEP: requests have the device's lock between two pieces.
            thread::sleep(LOOK_PAUSE);
        }
        // It can always be forgotten.
        let _ = self.device.control(Control::ForgetRecorded(taken.len()));
        taken
    }

    /// Sends a piece, when the client has room for it. False if nobody listens any more, or takes
    /// nothing.
    fn tell(&mut self, recorded: &[Recorded], now: Instant, end: bool) -> bool {
        self.told_at = now;
        let piece = RecordPiece {
            at_ns: now.since(self.began).as_nanos(),
            tasks: self.new_tasks(recorded),
            groups: self.new_groups(recorded),
            requests: recorded.iter().map(|one| request(self.began, one)).collect(),
            left_out_count: self.left_out_count,
            end,
        };
        let mut line = json(&piece, Vec::new());
        line.push(b'\n');
        let mut line = Bytes::from(line);
        let asked = clock::now();
        loop {
            line = match self.to.try_send(line) {
                Ok(()) => return true,
                Err(TrySendError::Closed(_)) => return false,
                Err(TrySendError::Full(line)) => line,
            };
            if *self.ended.borrow() || clock::now().since(asked) > TAKES_WITHIN {
                return false;
            }
            // SLEEP: the pause between two looks at the condition.
            thread::sleep(ROOM);
        }
    }

    fn new_tasks(&mut self, recorded: &[Recorded]) -> Vec<RecordName> {
        let proc = self.subject.groups().proc();
        let is_new = |id: &TaskId| self.tasks.len() < NAMES_MAX && self.tasks.insert(*id);
        let new = recorded.iter().map(|one| one.submit.task).filter(is_new);
        new.map(|id| RecordName { number: id.0, name: name_of(&*proc, Some(id)) }).collect()
    }

    fn new_groups(&mut self, recorded: &[Recorded]) -> Vec<RecordName> {
        let new = recorded.iter().map(|one| one.submit.group).filter(|id| self.groups.insert(*id));
        let new: Vec<GroupId> = new.collect();
        if new.is_empty() {
            return Vec::new();
        }
        let named = self.subject.groups().named();
        let path = |id: GroupId| named.iter().find(|named| named.id == id);
        let path =
            |id: GroupId| path(id).map_or_else(|| format!("/{}", id.0), |it| it.path.clone());
        new.into_iter().map(|id| RecordName { number: id.0.into(), name: path(id) }).collect()
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        // It can always be ended.
        let _ = self.device.control(Control::Record(None));
    }
}

fn request(began: Instant, one: &Recorded) -> RecordRequest {
    let at = |instant: Instant| match instant >= began {
        true => instant.since(began).as_nanos().cast_signed(),
        false => -began.since(instant).as_nanos().cast_signed(),
    };
    let (mut space, mut extent) = (one.space, one.submit.extent);
    if let Cover::Piece(area) = one.cover {
        (space, extent) = (area.space, area.extent);
    }
    let started = match one.was_at_disk() {
        true => one.started.clamp(one.arrived, one.ended),
        false => one.ended,
    };
    RecordRequest {
        arrived_ns: at(one.arrived),
        started_ns: at(started),
        done_ns: at(one.ended),
        op: word(one.submit.op).into(),
        flags: flags(one),
        task: one.submit.task.0,
        group: one.submit.group.0,
        space: space.0,
        offset: extent.offset().get(),
        length: extent.len().get(),
    }
}

fn word(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Trim => "trim",
        Op::WriteZeroes => "zero",
        Op::Cache => "cache",
    }
}

fn flags(one: &Recorded) -> String {
    let is_flush = one.kind == RecordedKind::Flush;
    let all = [
        ('b', one.kind == RecordedKind::Buffered),
        ('w', one.kind == RecordedKind::WriteBack),
        ('f', one.submit.fua),
        ('a', !one.submit.sync),
        ('p', is_flush && matches!(one.cover, Cover::Piece(_))),
        ('n', is_flush && one.cover == Cover::Nothing),
    ];
    all.into_iter().filter(|(_, is_so)| *is_so).map(|(letter, _)| letter).collect()
}
