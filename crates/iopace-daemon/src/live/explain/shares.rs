//! Where the time of a group went: all together, and of requests and buffered writes apart.

use super::super::span::{REASONS, Sums, Times, counts, place};
use super::{FELT_PERMILLE, TOLD_PERMILLE};
use crate::api::{Basis, WaitCounts};
use crate::figures::permille;
use iopace_core::verdict::Reason;
use std::cmp::Reverse;

/// Time, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Split {
    pub(super) times: Times,
    pub(super) total: u128,
}

impl Split {
    fn new(times: Times) -> Split {
        Split { times, total: times.iter().sum() }
    }

    /// The reasons with their time, the longest first; of equals, the earlier stage.
    pub(super) fn ordered(&self) -> Vec<(Reason, u128)> {
        let mut all: Vec<_> = REASONS.into_iter().zip(self.times).collect();
        all.retain(|(_, time)| permille(*time, self.total) >= TOLD_PERMILLE);
        all.sort_by_key(|(_, time)| Reverse(*time));
        all
    }

    /// What is waited for most; the disk is no waiting.
    pub(super) fn main_wait(&self) -> Option<(Reason, u128)> {
        self.ordered().into_iter().find(|(reason, _)| *reason != Reason::Disk)
    }

    /// The time that was not the disk's.
    pub(super) fn waited(&self) -> u128 {
        self.total - self.times[place(Reason::Disk)]
    }

    /// The part of the time that was not the disk's, in thousandths.
    pub(super) fn waited_permille(&self) -> u32 {
        permille(self.waited(), self.total)
    }
}

/// What programs wait for: requests have another way than buffered writes, and so other waits.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// As it is told.
    pub(super) name: &'static str,
    /// Whether these are buffered writes.
    pub(super) is_buffered: bool,
    pub(super) split: Split,
    /// So many finished; not none.
    pub(super) finished_count: u64,
}

impl Kind {
    /// So much of a time is that of each.
    pub(super) fn each(&self, time: u128) -> u128 {
        time / u128::from(self.finished_count)
    }
}

/// Where the time went.
pub(super) struct Shares {
    pub(super) basis: Basis,
    pub(super) all: Split,
    /// Requests and buffered writes, if anything is known of what finished: those of which some
    /// did.
    pub(super) kinds: Vec<Kind>,
}

impl Shares {
    pub(super) fn of(sums: &Sums, now: &WaitCounts) -> Shares {
        let finished = sums.of_tasks();
        let (came, stood): (u128, u128) = (sums.waits.iter().sum(), sums.standing.iter().sum());
        let (basis, times) = match () {
            () if stood > came * 2 => (Basis::Standing, sums.standing),
            () if finished.iter().sum::<u128>() > 0 => (Basis::Finished, finished),
            () => (Basis::Nothing, Times::default()),
        };
        let is_empty = basis == Basis::Standing && counts(now).iter().all(|count| *count == 0);
        let (basis, times) = match is_empty && came > 0 {
            // It is over.
            true => (Basis::Finished, finished),
            false => (basis, times),
        };
        let kinds = if basis == Basis::Finished { kinds(sums) } else { Vec::new() };
        Shares { basis, all: Split::new(times), kinds }
    }

    /// Requests and buffered writes, where there are both; those that wait longer each are first.
    pub(super) fn apart(&self) -> Vec<&Kind> {
        let mut apart: Vec<&Kind> = match &*self.kinds {
            [requests, writes] => vec![requests, writes],
            _ => Vec::new(),
        };
        apart.sort_by_key(|kind| Reverse(kind.each(kind.split.waited())));
        apart
    }

    /// Whether something of iopace is felt: in all the time, or in that of buffered writes, which
    /// may be little beside requests that are long at the disk.
    pub(super) fn is_felt(&self) -> bool {
        let is_of_writes = match &*self.kinds {
            [requests, writes] => {
                let felt = requests.each(requests.split.total) * u128::from(FELT_PERMILLE) / 1_000;
                writes.each(writes.split.waited()) > felt
            }
            _ => false,
        };
        self.all.waited_permille() >= FELT_PERMILLE || is_of_writes
    }

    /// The time of each request, or each buffered write, for a reason: none if nothing is known.
    pub(super) fn each(&self, is_buffered: bool, reason: Reason) -> u128 {
        let kind = self.kinds.iter().find(|kind| kind.is_buffered == is_buffered);
        kind.map_or(0, |kind| kind.each(kind.split.times[place(reason)]))
    }
}

fn kinds(sums: &Sums) -> Vec<Kind> {
    let kind = |name, is_buffered, times, finished_count| Kind {
        name,
        is_buffered,
        split: Split::new(times),
        finished_count,
    };
    // Reads are told as such where nearly all are: nine of ten.
    let is_reads = sums.read_ops_milli / 900 >= sums.sync_count;
    let requests = if is_reads { "reads" } else { "requests" };
    let all = [
        kind(requests, false, sums.of_requests(), sums.sync_count),
        kind("buffered writes", true, sums.of_buffered(), sums.buffered_count()),
    ];
    all.into_iter().filter(|kind| kind.finished_count > 0).collect()
}
