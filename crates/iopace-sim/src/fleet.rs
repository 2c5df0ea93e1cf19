//! Several disks with one memory: each is a world of its own, and they meet every
//! [`STEP`] to divide the dirty memory anew, as the daemon's devices do; or more often, and nobody
//! divides it: whoever is first has it, as in a kernel before 2011.

use crate::report::RunReport;
use crate::run::World;
use crate::scenario::Scenario;
use crate::trace::{RunTrace, Tracing};
use iopace_core::pace::domain::Domain;
use iopace_core::pace::{Budget, Thresholds};
use iopace_core::request::GroupId;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

/// How often memory is divided: the interval of the bandwidth estimate.
pub const STEP: Nanos = Nanos::from_millis(200);

/// How often devices of undivided memory learn of each other: what a kernel knows at once.
pub const UNDIVIDED_STEP: Nanos = Nanos::from_millis(5);

/// How memory is divided among the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// By what each has lately written.
    Domain,
    /// Each may have what the others have not dirtied.
    Undivided,
}

/// What came out of several disks with one memory.
#[derive(Debug)]
pub struct FleetReport {
    /// Of each disk.
    pub members: Vec<(RunReport, RunTrace)>,
    /// Dirty memory of all of them together, at the end of each step.
    pub dirty: Vec<Bytes>,
}

/// Carries out scenarios of one duration, each with a disk of its own, which together may have
/// `all` of memory dirty. Looks at the devices every so often, if asked to.
///
/// # Panics
/// If a scenario has no memory, or they are not of one length.
pub fn run(
    scenarios: &[Scenario],
    all: Thresholds,
    division: Division,
    every: Option<Nanos>,
) -> FleetReport {
    let is_undivided = division == Division::Undivided;
    let step = if is_undivided { UNDIVIDED_STEP } else { STEP };
    let mut domain = Domain::at_rest(all, scenarios.len());
    let mut worlds: Vec<(usize, World<'_>, Bytes)> = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        assert!(scenario.memory.is_some(), "a member of a fleet has memory");
        assert_eq!(scenario.duration, scenarios[0].duration, "members run equally long");
        let mut world = World::new(scenario);
        world.trace = every.map(Tracing::new);
        worlds.push((index, world, Bytes::ZERO));
    }
    for (index, world, _) in &mut worlds {
        let budget = domain.budget(*index);
        world.set_budget(Instant::ZERO, if is_undivided { undivided(budget) } else { budget });
        world.begin();
    }
    let end = Instant::ZERO + scenarios[0].duration;
    let (mut now, mut dirty) = (Instant::ZERO, Vec::new());
    while now < end {
        now = (now + step).min(end);
        let mut sum = Bytes::ZERO;
        for (index, world, seen) in &mut worlds {
            world.advance(now);
            let written = world.machine().backend().disk().stats().written;
            let own = world.machine().engine().dirty(GroupId::ROOT).device;
            sum += own;
            let budget = domain.report(now, *index, own, written - *seen);
            *seen = written;
            if now < end {
                world.set_budget(now, if is_undivided { undivided(budget) } else { budget });
            }
        }
        dirty.push(sum);
    }
    let members = worlds.into_iter().map(|(_, world, _)| world.end()).collect();
    FleetReport { members, dirty }
}

/// The same budget where nobody divides the memory.
fn undivided(budget: Budget) -> Budget {
    let rest = |all: Bytes| all - all.min(budget.dirty_elsewhere);
    let Thresholds { background, limit } = budget.all;
    Budget { device: Thresholds { background: rest(background), limit: rest(limit) }, ..budget }
}
