//! Records in the order of their times.
//!
//! Traces are written by several processors at once, so neighbours may stand in the wrong order. A
//! window of [`WINDOW`] records puts them right; a trace that is out of order by more is refused.

use super::{Format, InputError, InputPlace, InputTrace, Record};
use iopace_core::time::Nanos;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// Records that are looked at at once: some 300 KiB. The buffers of blktrace hold 10 922 events of
/// one processor, of which a twentieth are requests being queued.
pub const WINDOW: usize = 4_096;

/// A record that is ordered by time, then by its place in the file.
#[derive(Debug)]
struct Timed(u64, Record);

impl Timed {
    fn key(&self) -> (Nanos, u64) {
        (self.1.at, self.0)
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Timed) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Timed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Timed) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// A trace in order.
#[derive(Debug)]
pub struct Ordered<'a> {
    trace: InputTrace<'a>,
    /// Whether places are bytes.
    is_binary: bool,
    /// The records of the window that came in order: nearly all of them, and no heap is needed.
    run: VecDeque<Timed>,
    /// The others.
    late: BinaryHeap<Reverse<Timed>>,
    sequence: u64,
    last: Nanos,
    /// A mistake in the file: told once everything before it is out.
    failed: Option<InputError>,
    ended: bool,
}

impl<'a> Ordered<'a> {
    /// Orders a trace of that format.
    pub fn new(trace: InputTrace<'a>, format: Format) -> Ordered<'a> {
        Ordered {
            trace,
            is_binary: format == Format::Blktrace,
            run: VecDeque::new(),
            late: BinaryHeap::new(),
            sequence: 0,
            last: Nanos::ZERO,
            failed: None,
            ended: false,
        }
    }

    /// The trace behind it.
    pub fn trace(&self) -> &InputTrace<'a> {
        &self.trace
    }

    /// Where a record stands in the file.
    pub(super) fn place(&self, record: &Record) -> InputPlace {
        match self.is_binary {
            true => InputPlace::Byte(record.place),
            false => InputPlace::Line(record.place),
        }
    }

    fn fill(&mut self) {
        while !self.ended && self.run.len() + self.late.len() < WINDOW {
            match self.trace.next() {
                Some(Ok(record)) => {
                    self.sequence += 1;
                    let timed = Timed(self.sequence, record);
                    match self.run.back().is_none_or(|last| *last <= timed) {
                        true => self.run.push_back(timed),
                        false => self.late.push(Reverse(timed)),
                    }
                }
                Some(Err(error)) => {
                    self.failed = Some(error);
                    self.ended = true;
                }
                None => self.ended = true,
            }
        }
    }
}

impl Ordered<'_> {
    /// Takes the first record of the window.
    fn take(&mut self) -> Option<Timed> {
        let is_late = match (self.run.front(), self.late.peek()) {
            (Some(first), Some(Reverse(late))) => late < first,
            (first, _) => first.is_none(),
        };
        if is_late { self.late.pop().map(|Reverse(timed)| timed) } else { self.run.pop_front() }
    }
}

impl Iterator for Ordered<'_> {
    type Item = Result<Record, InputError>;

    fn next(&mut self) -> Option<Result<Record, InputError>> {
        self.fill();
        let Some(Timed(_, record)) = self.take() else {
            return self.failed.take().map(Err);
        };
        if record.at < self.last {
            let place = self.place(&record);
            let back = Nanos(self.last.0 - record.at.0);
            let message = format!(
                "time runs back by {back}, by more than {WINDOW} requests: sort the trace by time \
                 first (text: sort -s -n -k on its time; blktrace: blkparse -d)"
            );
            self.run.clear();
            self.late.clear();
            (self.ended, self.failed) = (true, None);
            return Some(Err(self.trace.error(place, message)));
        }
        self.last = record.at;
        Some(Ok(record))
    }
}
