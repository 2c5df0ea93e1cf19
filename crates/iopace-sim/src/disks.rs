//! Joins a scenario with the disk models.

use crate::milli::Milli;
use crate::report::DiskReport;
use crate::scenario::{Change, Memory, Scenario, Step};
use crate::spelling;
use iopace_core::engine::Config;
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::pace::Thresholds;
use iopace_core::time::Nanos;
use iopace_disk::faulty::{FaultSwitch, Faulty};
use iopace_disk::model_file::ModelFile;
use iopace_disk::modelled::{Machine, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::presets::{self, Preset};
use iopace_disk::slowed::{Brake, Slowed};
use iopace_disk::{Disk, DiskStats};
use std::fs;

/// The preset of that name.
///
/// # Errors
/// There is none; the message says which there are.
pub(crate) fn preset(name: &str) -> Result<&'static Preset, String> {
    presets::find(name).ok_or_else(|| {
        let names: Vec<&str> = presets::PRESETS.iter().map(|preset| preset.name).collect();
        spelling::unknown("disk", name, &names)
    })
}

/// The disk of that name, or of the model file of that name (`*.toml`).
///
/// # Errors
/// As [`preset`], or the file is wrong.
pub(crate) fn build(name: &str) -> Result<Box<dyn Disk>, String> {
    if presets::find(name).is_none() && name.ends_with(".toml") {
        let text = fs::read_to_string(name);
        let text = text.map_err(|error| format!("the model {name} cannot be read: {error}"))?;
        let file = ModelFile::parse(name, &text).map_err(|error| error.to_string())?;
        return Ok(file.model.build());
    }
    preset(name).map(|preset| (preset.build)())
}

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
pub(crate) fn machine(scenario: &Scenario) -> Made {
    let mut disk = match scenario.model {
        Some(model) => model.build(),
        None => build(&scenario.disk).unwrap_or_else(|error| panic!("{error}")),
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

/// What the disk did between two looks at its counters.
pub(crate) fn report(begin: &DiskStats, end: &DiskStats, measured: Nanos) -> DiskReport {
    let time = u128::from(measured.0);
    let bytes = (end.read + end.written) - (begin.read + begin.written);
    // The counter may run ahead of the clock by the command at the disk.
    let busy = end.busy.saturating_sub(begin.busy).min(measured);
    DiskReport {
        busy: Milli::ratio(u128::from(busy.0), time).unwrap_or_default(),
        mb_s: Milli::ratio(u128::from(bytes.0) * 1_000, time).unwrap_or_default(),
        commands: end.commands_count - begin.commands_count,
        seeks: end.seeks_count - begin.seeks_count,
        buffer_hits: end.buffer_hits_count - begin.buffer_hits_count,
    }
}
