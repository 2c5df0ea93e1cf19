//! Sources: requests that come by the clock (open loop), from a trace or from a task with a rate.
//!
//! # Model
//! A source has one request at hand, its *head*. When the head is due it is submitted and the next
//! one is fetched; so a trace of any length runs in flat memory. At most `limit` of its requests
//! are outstanding. A head that is due then waits, is *late*, and is submitted as soon as one is
//! finished: what could not be submitted in time is neither lost nor forgotten, for latency counts
//! from when it was due.
//!
//! In a *closed* loop time stamps do not matter but for the order: the head is due when there is
//! room, or, with think time kept, as long after the submission before it as in the trace.

use super::lanes::task_id;
use super::{Due, World};
use crate::inputs::InputError;
use crate::inputs::place::Piece;
use crate::task::{Action, Clock, Workload};
use iopace_core::request::{GroupId, Submit, Tag};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::modelled::Io;
use iopace_disk::pump::End;

/// Tags from here on are requests of sources; below, they are lanes.
const SOURCE_TAG: u64 = 1 << 63;

/// A stream of pieces that may fail.
pub(crate) type Pieces<'a> = Box<dyn Iterator<Item = Result<Piece, InputError>> + Send + 'a>;

/// When the requests of a source are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourcePace {
    /// By their time stamps; latency counts from them.
    Open,
    /// By their time stamps; latency counts from the submission.
    Ceiling,
    /// As fast as earlier ones finish, with the pauses of the trace or without.
    Closed { keeps_pauses: bool },
}

/// Where requests come from.
pub(crate) enum Feed<'a> {
    /// A task with a rate.
    Task { task: usize, clock: Clock, workload: Box<dyn Workload>, begin: Instant },
    /// A trace: its streams are booked from a place of the tallies on.
    Trace { pieces: Pieces<'a>, first_tally: usize, tallies_count: usize },
}

/// A request that is due at an instant.
#[derive(Clone, Copy, Debug)]
struct Head {
    at: Instant,
    tally: usize,
    action: Action,
}

/// One source.
pub(crate) struct RequestSource<'a> {
    feed: Feed<'a>,
    pace: SourcePace,
    head: Option<Head>,
    /// Time stamp of the head, for the pauses of a closed loop.
    stamp: Instant,
    outstanding: u32,
    limit: u32,
    /// The head is due and waits for room.
    is_blocked: bool,
}

/// A request of a source on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    source: usize,
    head: Head,
    /// What latency counts from.
    since: Instant,
}

/// What could not be submitted when it was due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) late_count: u64,
    pub(crate) late_max: Nanos,
}

impl<'a> RequestSource<'a> {
    pub(crate) fn new(feed: Feed<'a>, pace: SourcePace, limit: u32) -> RequestSource<'a> {
        RequestSource {
            feed,
            pace,
            head: None,
            stamp: Instant::ZERO,
            outstanding: 0,
            limit: limit.max(1),
            is_blocked: false,
        }
    }

    /// Takes the next request to hand.
    fn fetch(&mut self, now: Instant) -> Result<(), InputError> {
        self.head = match &mut self.feed {
            Feed::Task { task, clock, workload, begin } => {
                let at = *begin + clock.tick();
                Some(Head { at, tally: *task, action: workload.next() })
            }
            Feed::Trace { pieces, first_tally, tallies_count } => {
                let piece = pieces.next().transpose()?;
                piece.map(|Piece { at, op, extent, fua, stream }| {
                    let stream = (stream as usize).min(*tallies_count - 1);
                    let (think, buffered, payload) = (Nanos::ZERO, false, true);
                    let action = Action { think, op, extent, fua, buffered, payload };
                    Head { at: Instant::ZERO + at, tally: *first_tally + stream, action }
                })
            }
        };
        if let (Some(head), SourcePace::Closed { keeps_pauses }) = (&mut self.head, self.pace) {
            let pause = head.at.since(self.stamp);
            self.stamp = head.at;
            head.at = if keeps_pauses { now + pause } else { now };
        }
        Ok(())
    }
}

impl<'a> World<'a> {
    /// Adds a source; its first request is fetched.
    pub(crate) fn attach(&mut self, source: RequestSource<'a>) {
        self.sources.push(source);
        let index = self.sources.len() - 1;
        self.fetch(index);
        let at = self.sources[index].head.as_ref().map_or(self.now, |head| head.at);
        self.due.add(at.max(self.now), Due::Source(index));
    }

    fn fetch(&mut self, index: usize) {
        if let Err(error) = self.sources[index].fetch(self.now) {
            self.sources[index].head = None;
            self.failed.get_or_insert(error);
        }
    }

    /// Submits what is due.
    pub(super) fn arrive(&mut self, index: usize) {
        self.sources[index].is_blocked = false;
        let task = match self.sources[index].feed {
            Feed::Task { task, .. } => Some(task),
            Feed::Trace { .. } => None,
        };
        if task.is_some_and(|task| self.parks(task, Due::Source(index))) {
            return;
        }
        while let Some(head) = self.sources[index].head {
            if task.is_some_and(|task| self.has_ended(task)) {
                self.sources[index].head = None;
                break;
            }
            if head.at > self.now {
                self.due.add(head.at, Due::Source(index));
                return;
            }
            if self.sources[index].outstanding >= self.sources[index].limit {
                self.sources[index].is_blocked = true;
                return;
            }
            self.send(index, head);
            self.fetch(index);
        }
        if self.sources[index].outstanding == 0 {
            self.source_ended(index);
        }
    }

    /// Lets the clock of a source go on from now: what is at hand is due.
    pub(super) fn shift(&mut self, index: usize) {
        let (now, source) = (self.now, &mut self.sources[index]);
        if let (Some(head), Feed::Task { begin, .. }) = (&mut source.head, &mut source.feed) {
            *begin = *begin + now.since(head.at);
            head.at = head.at.max(now);
        }
    }

    fn source_ended(&mut self, index: usize) {
        match self.sources[index].feed {
            Feed::Task { task, .. } => self.lane_ended(task),
            Feed::Trace { .. } => self.unfinished_count -= 1,
        }
    }

    fn send(&mut self, index: usize, head: Head) {
        let source = &mut self.sources[index];
        source.outstanding += 1;
        let lag = self.now.since(head.at);
        if source.pace == SourcePace::Open && lag > Nanos::ZERO {
            self.backlog.late_count += 1;
            self.backlog.late_max = self.backlog.late_max.max(lag);
        }
        let since = if source.pace == SourcePace::Open { head.at } else { self.now };
        let group = match source.feed {
            Feed::Task { task, .. } => self.turns[task].group,
            Feed::Trace { .. } => GroupId::ROOT,
        };
        if let Feed::Task { task, .. } = source.feed {
            self.take(task, head.action.extent.len());
        }
        let sent = Sent { source: index, head, since };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.sent[slot] = Some(sent);
                slot
            }
            None => {
                self.sent.push(Some(sent));
                self.sent.len() - 1
            }
        };
        self.waiting_count += 1;
        self.requests_count += 1;
        self.begun(head.tally);
        let Action { op, extent, fua, buffered, .. } = head.action;
        let (tag, task) = (Tag(SOURCE_TAG | slot as u64), task_id(head.tally));
        let submit = Submit { tag, task, group, op, extent, fua, sync: true };
        self.machine.submit(self.now, Io { submit, buffered }, &mut self.ended);
    }

    /// Books a finished request if it is one of a source.
    pub(super) fn book_sent(&mut self, tag: Tag, end: &End) -> bool {
        if tag.0 & SOURCE_TAG == 0 {
            return false;
        }
        let slot = usize::try_from(tag.0 & !SOURCE_TAG).expect("a place of the table");
        let Sent { source, head, since } = self.sent[slot].take().expect("finished once");
        self.free.push(slot);
        self.waiting_count -= 1;
        self.count(head.tally, &head.action, since, end);
        let ours = &mut self.sources[source];
        ours.outstanding -= 1;
        if ours.is_blocked {
            ours.is_blocked = false;
            let now = self.now;
            self.due.add(now, Due::Source(source));
        } else if ours.head.is_none() && ours.outstanding == 0 {
            self.source_ended(source);
        }
        true
    }

    /// Counts what a source still waits for at the end.
    pub(super) fn book_unfinished_sent(&mut self, end: Instant) {
        for sent in self.sent.iter().flatten() {
            let (tally, so_far) = (sent.head.tally, end.since(sent.since));
            self.tallies[tally].wait(so_far);
            self.trace.iter_mut().for_each(|trace| trace.unfinished(tally, so_far));
        }
    }

    /// Bytes of a task's total that are used up by one of its requests.
    pub(super) fn take(&mut self, task: usize, len: Bytes) {
        if let Some(left) = &mut self.turns[task].left {
            *left = *left - len;
        }
    }
}
