//! What a host asks of the stores, one question after the other: its cell's store, and for one host
//! of each cell the upper one.
//!
//! ```text
//!   every host of a cell ── reads and writes ─► store of the cell: a record for each host,
//!                                                │       ▲         and the sum of other cells
//!          the host with the lowest number: their sum    the sum of all others
//!                                                ▼       │
//!                                               upper store: a record for each cell
//! ```

use super::member::StoreMember;
use super::store::{HostNews, StoreAnswer, StoreQuestion};
use iopace_core::cluster::{Allowance, Holder, HostRecord, Terms, look_period, merged};
use iopace_core::time::{Instant, Nanos};

/// The upper store is asked within a turn of the cell's: with the last one before it is due.
const EARLIER: Nanos = Nanos::from_millis(125);

/// The store that a question goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// That of the host's cell; of all hosts, if there are no cells.
    Cell,
    /// That of the sums of cells.
    Upper,
}

/// The part of the host in its stores.
#[derive(Debug)]
pub(super) struct HostAgent {
    own: usize,
    cell: StoreMember,
    /// There are cells: the part of this one in the upper store, and when it is due.
    upper: Option<(StoreMember, Instant)>,
    /// Whose answer is waited for.
    at: StoreKind,
    /// Whether the present turn has read all of its cell.
    is_told: bool,
}

impl HostAgent {
    /// The host of that number, in a cell of that number if there are cells.
    pub(super) fn new(own: usize, cell: Option<usize>, terms: Option<Terms>) -> HostAgent {
        HostAgent {
            own,
            cell: StoreMember::new(own, terms),
            upper: cell.map(|cell| (StoreMember::of_cell(cell), Instant::ZERO)),
            at: StoreKind::Cell,
            is_told: false,
        }
    }

    /// The part of the host in the limit.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.cell.holder.as_ref()
    }

    /// A turn begins with this question.
    pub(super) fn begin(&mut self, now: Instant, news: HostNews) -> (StoreKind, StoreQuestion) {
        (self.at, self.is_told) = (StoreKind::Cell, false);
        (StoreKind::Cell, self.cell.begin(now, news))
    }

    /// The next question of the turn; none: it is over.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        answer: StoreAnswer,
    ) -> Option<(StoreKind, StoreQuestion)> {
        match (self.at, &mut self.upper) {
            (StoreKind::Upper, Some((upper, due))) => {
                if let Some(question) = upper.heard(now, answer) {
                    return Some((StoreKind::Upper, question));
                }
                self.at = StoreKind::Cell;
                if !upper.has_joined {
                    return None;
                }
                *due = now + look_period(upper.view.hosts.len() as u64).saturating_sub(EARLIER);
                let sum = upper.others();
                Some((StoreKind::Cell, self.cell.publish_others(sum)?))
            }
            _ => {
                if let Some(question) = self.cell.heard(now, answer) {
                    return Some((StoreKind::Cell, question));
                }
                if self.is_told || !self.cell.has_joined {
                    return None;
                }
                self.is_told = true;
                self.stand_for_cell(now)
            }
        }
    }

    /// The host that stands for its cell asks the upper store.
    fn stand_for_cell(&mut self, now: Instant) -> Option<(StoreKind, StoreQuestion)> {
        if !self.stands_for_cell() {
            return None;
        }
        let hosts = &self.cell.view.hosts;
        let (upper, due) = self.upper.as_mut()?;
        if now < *due {
            return None;
        }
        let records: Vec<HostRecord> =
            hosts.values().map(|(_, news)| news.record.clone()).collect();
        self.at = StoreKind::Upper;
        let news = HostNews { record: merged(&records), wanted: Allowance(0) };
        Some((StoreKind::Upper, upper.begin(now, news)))
    }

    /// A question was not answered in time: the turn is over.
    pub(super) fn gave_up(&mut self) {
        match (self.at, &mut self.upper) {
            (StoreKind::Upper, Some((upper, _))) => upper.gave_up(),
            _ => self.cell.gave_up(),
        }
    }

    /// The records of all after a turn, and the place of the host's own; none if it did not go
    /// through, or nobody has told of other cells.
    pub(super) fn records(&self) -> Option<(Vec<HostRecord>, usize)> {
        let view = &self.cell.view;
        let place = view.hosts.keys().position(|host| *host == self.own)?;
        let others = view.others.iter().map(|(_, record)| record);
        let is_whole = self.upper.is_none() || view.others.is_some();
        let hosts = view.hosts.values().map(|(_, news)| &news.record);
        let records = hosts.chain(others).cloned().collect();
        (self.is_told && is_whole).then_some((records, place))
    }

    /// The time until the next turn. The host that stands for its cell looks as often as it may:
    /// all other cells wait for it.
    pub(super) fn period(&self) -> Nanos {
        let records_count = self.cell.view.hosts.len() as u64;
        look_period(if self.stands_for_cell() { 1 } else { records_count })
    }

    /// Whether it has the lowest number of the hosts of its cell that have a session.
    fn stands_for_cell(&self) -> bool {
        self.upper.is_some() && self.cell.view.hosts.keys().next() == Some(&self.own)
    }
}
