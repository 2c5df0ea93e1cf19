//! The story of a run: hosts, programs, and what goes wrong.

use iopace_core::cluster::{Allowance, Revision, Terms};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// How hosts come to their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordination {
    /// Not at all: a fixed window each.
    Fixed,
    /// By the latency of the array alone.
    Latency,
    /// By the records of all as well.
    Together,
}

/// A program that reads anywhere in the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// On which host.
    pub host: usize,
    /// Of which group.
    pub group: u32,
    /// So many requests at a time.
    pub depth: u32,
    /// From the end of a request to the next, as a mean.
    pub think: Nanos,
    /// The size of a request.
    pub block: Bytes,
    /// It begins then.
    pub from: Nanos,
    /// And ends then.
    pub until: Nanos,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The host does not reach the store.
    Cut(usize),
    /// Nobody reaches the store.
    StoreLost,
    /// The store takes so long for each answer: half of it until the question is carried out.
    StoreSlow(Nanos),
    /// Answers to the host take so much longer.
    HearsLate(usize, Nanos),
    /// The host stands still (`SIGSTOP`).
    Stopped(usize),
    /// The host is gone, and its requests are nobody's.
    Killed(usize),
}

/// The rates of clocks: their nanoseconds in a million of real ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRates {
    /// Those of all hosts.
    pub of_hosts: u64,
    /// Those of stores.
    pub of_stores: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsSetup {
    /// The preset of the disk behind the array's queue.
    pub disk: &'static str,
    /// So many hosts.
    pub hosts_count: usize,
    /// The weight of each group, by its number.
    pub weights: Vec<u32>,
    /// All programs of all hosts.
    pub programs: Vec<Program>,
    /// How hosts come to their shares.
    pub coordination: Coordination,
    /// The target of the queue that is set for all.
    pub target: Option<Nanos>,
    /// The longest way of a request to the array and back; the first host has none.
    pub way_most: Nanos,
    /// All hosts together may have so many bytes a second: a limit for each of their groups, so
    /// that there is one group in a run with a limit.
    pub limit: Option<Allowance>,
    /// Hosts are in cells of so many, each with a store; none: one store has all.
    pub cell_size: Option<usize>,
    /// The rates of all clocks; none: each is wrong by up to a thousandth.
    pub clock_rates: Option<ClockRates>,
    /// What goes wrong, from when until when.
    pub troubles: Vec<(Nanos, Nanos, Trouble)>,
    /// The length of the run.
    pub length: Nanos,
    /// What reproduces it.
    pub seed: u64,
}

impl HostsSetup {
    /// The cell of a host, if there are cells.
    pub(super) fn cell_of(&self, host: usize) -> Option<usize> {
        self.cell_size.map(|size| host / size.max(1))
    }

    /// The number of cells.
    pub(super) fn cells_count(&self) -> usize {
        self.cell_size.map_or(1, |size| self.hosts_count.div_ceil(size.max(1)))
    }

    /// The limit as all hosts know it from the beginning.
    pub(super) fn limit_terms(&self) -> Option<Terms> {
        let hosts_max = u32::try_from(self.hosts_count).unwrap_or(u32::MAX);
        Terms::new(self.limit?, hosts_max, Revision(0))
    }

    /// How much longer a message is under way between a host and a store: a question, or an answer.
    pub(super) fn delay(&self, now: Nanos, host: usize, is_answer: bool) -> Nanos {
        let is_now = |(from, until, _): &&(Nanos, Nanos, Trouble)| (*from..*until).contains(&now);
        let delay = |(_, _, trouble): &(Nanos, Nanos, Trouble)| match *trouble {
            Trouble::StoreSlow(time) => Nanos(time.0 / 2),
            Trouble::HearsLate(late, time) if late == host && is_answer => time,
            _ => Nanos::ZERO,
        };
        self.troubles.iter().filter(is_now).map(delay).max().unwrap_or_default()
    }

    /// Whether something goes wrong at that instant.
    pub(super) fn is_in(&self, now: Nanos, trouble: Trouble) -> bool {
        let is_now = |(from, until, what): &(Nanos, Nanos, Trouble)| {
            *what == trouble && (*from..*until).contains(&now)
        };
        self.troubles.iter().any(is_now)
    }

    /// When the host goes on, if it stands still.
    pub(super) fn stopped_until(&self, now: Nanos, host: usize) -> Option<Nanos> {
        let stops = |(from, until, what): &(Nanos, Nanos, Trouble)| {
            *what == Trouble::Stopped(host) && (*from..*until).contains(&now)
        };
        self.troubles.iter().find(|trouble| stops(trouble)).map(|(_, until, _)| *until)
    }
}
