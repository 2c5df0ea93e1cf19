//! The outcome of a run: what each group had on each host, in steps of time.

use super::store::StoreTraffic;
use iopace_core::cluster::cost;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::collections::BTreeMap;

/// The length of a step.
pub const STEP: Nanos = Nanos::from_millis(250);

/// A group on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// The host.
    pub host: usize,
    /// The group, by its number.
    pub group: u32,
}

/// A step of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct CellStep {
    /// Its cost in requests of no bytes, in 256ths.
    cost: u64,
    done_count: u64,
    at_disk: Nanos,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct HostsOutcome {
    cells: BTreeMap<Cell, Vec<CellStep>>,
    /// In a run with a limit: when requests went to the array, and their bytes.
    pub(super) starts: Vec<(Nanos, u64)>,
    /// Of each store: those of cells, and the upper one.
    pub(super) traffic: Vec<StoreTraffic>,
}

impl HostsOutcome {
    pub(super) fn done(&mut self, now: Instant, cell: Cell, size: Bytes, at_disk: Nanos) {
        let steps = self.cells.entry(cell).or_default();
        let place = (now.since(Instant::ZERO).0 / STEP.0) as usize;
        if steps.len() <= place {
            steps.resize(place + 1, CellStep::default());
        }
        let step = &mut steps[place];
        step.cost += cost(1, size).0;
        step.done_count += 1;
        step.at_disk += at_disk;
    }

    /// The traffic of each store over the whole run: those of cells, and the upper one.
    pub fn traffic(&self) -> &[StoreTraffic] {
        &self.traffic
    }

    fn sum(&self, cell: Cell, from: Nanos, until: Nanos) -> CellStep {
        let places = (from.0 / STEP.0) as usize..(until.0 / STEP.0) as usize;
        let steps = self.cells.get(&cell).map(Vec::as_slice).unwrap_or_default();
        let within = steps.iter().skip(places.start).take(places.len());
        within.fold(CellStep::default(), |sum, step| CellStep {
            cost: sum.cost + step.cost,
            done_count: sum.done_count + step.done_count,
            at_disk: sum.at_disk + step.at_disk,
        })
    }

    /// The cost of what a group had on a host between two instants, which are whole steps.
    pub fn cost(&self, cell: Cell, from: Nanos, until: Nanos) -> u64 {
        self.sum(cell, from, until).cost
    }

    /// The cost of all.
    pub fn total(&self, from: Nanos, until: Nanos) -> u64 {
        self.cells.keys().map(|cell| self.cost(*cell, from, until)).sum()
    }

    /// The mean latency at the array.
    pub fn latency(&self, from: Nanos, until: Nanos) -> Nanos {
        let sums: Vec<CellStep> =
            self.cells.keys().map(|cell| self.sum(*cell, from, until)).collect();
        let done_count: u64 = sums.iter().map(|sum| sum.done_count).sum();
        let at_disk: u64 = sums.iter().map(|sum| sum.at_disk.0).sum();
        Nanos(at_disk / done_count.max(1))
    }

    /// The part of all that others had of what was due to each, in thousandths: nothing if each has
    /// its due. `dues` are in any unit; cells without one are not looked at.
    pub fn misplaced(&self, dues: &[(Cell, u64)], from: Nanos, until: Nanos) -> u64 {
        let due_all: u64 = dues.iter().map(|(_, due)| *due).sum();
        let had: Vec<u64> = dues.iter().map(|(cell, _)| self.cost(*cell, from, until)).collect();
        let had_all: u64 = had.iter().sum();
        if due_all == 0 || had_all == 0 {
            return 0;
        }
        let missed = |(had, (_, due)): (&u64, &(Cell, u64))| {
            (had * 1_000_000 / had_all).abs_diff(due * 1_000_000 / due_all)
        };
        let sum: u64 = had.iter().zip(dues).map(missed).sum();
        sum / 2_000
    }

    /// The largest error of a cell against its due, in thousandths of the due.
    pub fn worst(&self, dues: &[(Cell, u64)], from: Nanos, until: Nanos) -> u64 {
        let due_all: u64 = dues.iter().map(|(_, due)| *due).sum();
        let had_all: u64 = dues.iter().map(|(cell, _)| self.cost(*cell, from, until)).sum();
        let error = |(cell, due): &(Cell, u64)| {
            let had = u128::from(self.cost(*cell, from, until)) * u128::from(due_all);
            let due = u128::from(*due) * u128::from(had_all);
            u64::try_from(had.abs_diff(due) * 1_000 / due.max(1)).unwrap_or(u64::MAX)
        };
        dues.iter().map(error).max().unwrap_or_default()
    }

    /// How long after `from` at most `most` thousandths are misplaced in each window of that length
    /// until `until`; `None` if they are in the last window still.
    pub fn settled(
        &self,
        dues: &[(Cell, u64)],
        (from, until): (Nanos, Nanos),
        window: Nanos,
        most: u64,
    ) -> Option<Nanos> {
        let mut begin = Nanos((until.0 - window.0) / STEP.0 * STEP.0);
        let mut settled = None;
        while begin >= from {
            if self.misplaced(dues, begin, begin + window) > most {
                return settled;
            }
            settled = Some(begin.saturating_sub(from));
            let Some(before) = begin.0.checked_sub(STEP.0) else { return settled };
            begin = Nanos(before);
        }
        settled
    }
}
