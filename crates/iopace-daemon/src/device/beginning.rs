//! How the engine of a device starts out.

use crate::config::DeviceConfig;
use iopace_core::engine::Config;
use iopace_core::limits::NR_REQUESTS_DEFAULT;
use iopace_core::pace::Thresholds;
use iopace_core::sched;

/// How the engine of a device starts out: its disk holds `depth` requests unless something else is
/// set.
pub(super) fn engine_config(config: &DeviceConfig, depth: u32, memory: Thresholds) -> Config {
    let default = Config::default();
    Config {
        base: sched::recommended(),
        nr_requests: config.nr_requests.unwrap_or(NR_REQUESTS_DEFAULT),
        window_depth: config.window_depth.unwrap_or(depth),
        window: config.window,
        pace: config.pace,
        pause_target: config.pause_target.unwrap_or(default.pause_target),
        accounting: config.accounting,
        memory,
        ..default
    }
}
