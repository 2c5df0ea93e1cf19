//! The machine of a scenario: its engine, its page cache and its disk.

use crate::disks;
use crate::scenario::{Change, Memory, Scenario, Step};
use iopace_core::engine::Config;
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::pace::Thresholds;
use iopace_disk::faulty::{FaultSwitch, Faulty};
use iopace_disk::modelled::{Machine, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::slowed::{Brake, Slowed};

/// A machine, and the handles on its disk that a run needs.
pub(crate) struct Made {
    pub(crate) machine: Machine,
    /// If a step slows or stalls the disk.
    pub(crate) brake: Option<Brake>,
    /// If the disk has faults.
    pub(crate) switch: Option<FaultSwitch>,
}

/// The machine of a scenario.
///
/// # Panics
/// If its disk does not exist: a parsed scenario's does.
pub(crate) fn of(scenario: &Scenario) -> Made {
    let mut disk = match scenario.model {
        Some(model) => model.build(),
        None => disks::build(&scenario.disk).unwrap_or_else(|error| panic!("{error}")),
    };
    let mut brake = None;
    let slows = |step: &Step| matches!(step.change, Change::Slow(_) | Change::Stall(_));
    if scenario.steps.iter().any(slows) {
        let (slowed, ours) = Slowed::new(disk);
        (disk, brake) = (Box::new(slowed), Some(ours));
    }
    let mut switch = None;
    if let Some(rates) = scenario.faults {
        let faulty = Faulty::new(disk, rates, scenario.seed);
        switch = Some(faulty.switch());
        disk = Box::new(faulty);
    }
    let mut config = Config {
        base: scenario.base,
        nr_requests: scenario.nr_requests,
        // The machine never goes deeper than the disk.
        window_depth: scenario.window_depth.unwrap_or(WINDOW_DEPTH_MAX),
        slots: scenario.slots,
        merge_max: scenario.merge_max,
        window: scenario.window,
        pace: scenario.pace,
        pause_target: scenario.pause_target,
        ..Config::default()
    };
    if let Some(memory) = scenario.memory {
        let Memory { dirty_background: background, dirty_limit: limit, .. } = memory;
        config.memory = Thresholds { background, limit };
        config.write_back_len = memory.write_back_len;
    }
    let cache = scenario
        .memory
        .map(|memory| PageCacheConfig { memory: memory.size, drop_behind: memory.drop_behind });
    Made { machine: Modelled::pump(config, cache, disk), brake, switch }
}
