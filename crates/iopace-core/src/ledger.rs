//! The engine's own table of requests: the authority on what exists and where it stands.
//!
//! A scheduler holds tokens; the ledger holds the truth. Whatever a scheduler loses, invents or
//! takes down with it in a panic, the requests are recovered from here, in arrival order.
//!
//! The conservation law, checked after every step in debug builds:
//! `submitted = waiting + queued + held + in flight + finished`.

use crate::flush::Run;
use crate::request::{Op, Request, RequestId, StageTimes, Submit};
use crate::stats::TaskPlace;
use crate::time::{Instant, Nanos};

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for a slot.
    Waiting,
    /// In the scheduler.
    Queued,
    /// A flush that has its slot and waits for the window; schedulers never see it.
    Held,
    /// At the device.
    InFlight,
}

/// One request: a place of the table, which is filled in and read where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its arrival number; [`VACANT`] while there is none.
    sequence: u64,
    pub(crate) state: State,
    pub(crate) submit: Submit,
    pub(crate) arrived: Instant,
    pub(crate) admitted: Instant,
    pub(crate) started: Instant,
    /// Its task's account, if there are accounts.
    pub(crate) task: TaskPlace,
    /// How much of the time until admission was for a limit.
    pub(crate) budget: Nanos,
    /// Readings of the clocks of queued time at admission, then what has passed on them at start.
    pub(crate) queued: Queued,
    /// Whether a guarantee pays for it.
    pub(crate) reserved: bool,
    /// Which scheduler popped it.
    pub(crate) epoch: u64,
    /// The pages that it writes back, if it does.
    pub(crate) run: Option<Run>,
    /// For how long it had to wait for write-back, before it arrived here, and whether that failed:
    /// flushes only.
    pub(crate) written: (Nanos, bool),
    /// Its number in the shadow's line; 0 for none.
    pub(crate) followed: u64,
    /// How many the device had when it started, with itself.
    pub(crate) beside: u32,
}

/// Readings of the engine's clocks of queued time, or what has passed on them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// The window was full.
    pub(crate) full: Nanos,
    /// The window was full until a request of the same task started.
    pub(crate) own: Nanos,
    /// A task was anticipated.
    pub(crate) anticipation: Nanos,
}

impl Entry {
    /// What a scheduler holds for it.
    #[inline]
    pub(crate) fn token(&self, id: RequestId) -> Request {
        Request::new(id, self.submit, self.arrived).reserved(self.reserved)
    }

    /// Where it stands with its slot: in the scheduler, or, if it is a flush, held.
    #[inline]
    pub(crate) fn stand(&self) -> State {
        if self.submit.op == Op::Flush { State::Held } else { State::Queued }
    }

    /// Whether it moves no bytes and is no flush: an operation that only limits count.
    #[inline]
    pub(crate) fn is_nothing_for_the_disk(&self) -> bool {
        let Submit { op, extent, .. } = self.submit;
        extent.is_empty() && op != Op::Flush && self.run.is_none()
    }

    /// Time by reason if it finishes at `now`; the parts sum to the total exactly.
    pub(crate) fn times(&self, now: Instant) -> StageTimes {
        let queued = self.started.since(self.admitted);
        let window = self.queued.own.min(self.queued.full).min(queued);
        let rest = queued.saturating_sub(window);
        let anticipation = self.queued.anticipation.min(rest);
        let admit = self.admitted.since(self.arrived);
        let budget = self.budget.min(admit);
        StageTimes {
            slot: admit.saturating_sub(budget),
            budget,
            turn: rest.saturating_sub(anticipation),
            anticipation,
            window,
            // Waiting for write-back is waiting for the disk.
            disk: now.since(self.started) + self.written.0,
            ..StageTimes::default()
        }
    }
}

/// The arrival number of a place without a request.
const VACANT: u64 = u64::MAX;

/// Release builds look at the conservation law once for so many requests.
const CHECKED_EVERY: u64 = 64;

/// All requests that exist in the engine.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Vec<Entry>,
    free: Vec<u32>,
    submitted_count: u64,
    finished_count: u64,
    /// How many stand where, by `State as usize`.
    counts: [u64; 4],
}

impl Ledger {
    /// Takes a new request in; it waits for a slot.
    #[inline]
    pub(crate) fn enter(&mut self, now: Instant, submit: Submit) -> (RequestId, &mut Entry) {
        let sequence = self.submitted_count;
        self.submitted_count += 1;
        self.counts[State::Waiting as usize] += 1;
        let entry = Entry {
            sequence,
            state: State::Waiting,
            submit,
            arrived: now,
            admitted: now,
            started: now,
            task: TaskPlace::default(),
            budget: Nanos::ZERO,
            queued: Queued::default(),
            reserved: false,
            epoch: 0,
            run: None,
            written: (Nanos::ZERO, false),
            followed: 0,
            beside: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("bounded by DEVICE_REQUESTS_MAX")
            }
        };
        (RequestId { slot, sequence }, &mut self.entries[slot as usize])
    }

    /// Whether the request waits for a slot.
    pub(crate) fn is_waiting(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|entry| entry.state == State::Waiting)
    }

    /// A request that was refused: it exists only in the counts.
    pub(crate) fn refuse(&mut self) {
        self.submitted_count += 1;
        self.finished_count += 1;
    }

    /// The entry, or `None` if no such request exists (any more).
    #[inline]
    pub(crate) fn get(&self, id: RequestId) -> Option<&Entry> {
        let entry = self.entries.get(id.slot as usize)?;
        (entry.sequence == id.sequence).then_some(entry)
    }

    /// Moves a request on and gives its entry for the rest of the bookkeeping.
    #[inline]
    pub(crate) fn advance(&mut self, id: RequestId, to: State) -> &mut Entry {
        let entry = &mut self.entries[id.slot as usize];
        assert_eq!(entry.sequence, id.sequence, "a request of the past was moved");
        self.counts[entry.state as usize] -= 1;
        self.counts[to as usize] += 1;
        entry.state = to;
        entry
    }

    /// Takes a finished request out of where it stands. Its entry can be read until the next one
    /// enters.
    #[inline]
    pub(crate) fn leave(&mut self, id: RequestId, from: State) -> &Entry {
        let entry = self.entries.get_mut(id.slot as usize);
        let entry = entry.filter(|entry| entry.sequence == id.sequence && entry.state == from);
        let entry = entry.unwrap_or_else(|| match from {
            State::InFlight => panic!("completed {id:?}, which is not in flight"),
            _ => panic!("ended {id:?}, which is not {from:?}"),
        });
        self.counts[from as usize] -= 1;
        self.finished_count += 1;
        entry.sequence = VACANT;
        self.free.push(id.slot);
        entry
    }

    /// The entry of a request that left last.
    pub(crate) fn left(&self, id: RequestId) -> &Entry {
        &self.entries[id.slot as usize]
    }

    /// Tokens for all that should be in the scheduler, in arrival order.
    pub(crate) fn queued_tokens(&self) -> Vec<Request> {
        let mut queued: Vec<(RequestId, &Entry)> = (0u32..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.sequence != VACANT && entry.state == State::Queued)
            .map(|(slot, entry)| (RequestId { slot, sequence: entry.sequence }, entry))
            .collect();
        queued.sort_unstable_by_key(|(id, _)| id.sequence);
        queued.into_iter().map(|(id, entry)| entry.token(id)).collect()
    }

    /// Everything that is not finished.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.sequence != VACANT)
    }

    /// How many requests stand there.
    pub(crate) fn count(&self, state: State) -> usize {
        self.counts[state as usize] as usize
    }

    /// How many requests exist: submitted and not finished.
    pub(crate) fn live(&self) -> usize {
        (self.submitted_count - self.finished_count) as usize
    }

    /// Submitted and finished since the beginning.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.submitted_count, self.finished_count)
    }

    /// Looks at the conservation law: after every step in debug builds, now and then in others, as
    /// once broken it stays broken.
    #[inline]
    pub(crate) fn check_conserved(&self) {
        if cfg!(debug_assertions) || self.finished_count.is_multiple_of(CHECKED_EVERY) {
            self.assert_conserved();
        }
    }

    #[inline(never)]
    fn assert_conserved(&self) {
        let standing: u64 = self.counts.iter().sum();
        assert_eq!(
            self.submitted_count,
            standing + self.finished_count,
            "conservation law: submitted = waiting + queued + held + in flight + finished"
        );
        assert_eq!(standing as usize, self.entries.len() - self.free.len());
    }
}
