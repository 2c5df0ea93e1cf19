//! The story of a run: hosts, programs, and what goes wrong.

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
    /// The host stands still (`SIGSTOP`).
    Stopped(usize),
    /// The host is gone, and its requests are nobody's.
    Killed(usize),
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
    /// What goes wrong, from when until when.
    pub troubles: Vec<(Nanos, Nanos, Trouble)>,
    /// The length of the run.
    pub length: Nanos,
    /// What reproduces it.
    pub seed: u64,
}

/// Shortest time between two looks of a host at the records of all.
const LOOK_LEAST: Nanos = Nanos::from_millis(250);

/// And so much for each host: all hosts together write and read 125 times a second.
const LOOK_PER_HOST: Nanos = Nanos::from_millis(8);

impl HostsSetup {
    /// Each host looks at the records of all so often.
    pub fn look(&self) -> Nanos {
        LOOK_LEAST.max(LOOK_PER_HOST.times(self.hosts_count as u64))
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
