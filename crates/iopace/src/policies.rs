//! The policies of stages pace and window, as `list` prints them.

use crate::cli::TargetArgs;
use crate::output::{Failure, finish, table};
use crate::target::{asks_daemon, done, find};
use comfy_table::Cell;
use iopace_daemon::api::{DeviceReport, PolicyList, PolicySpec};
use iopace_daemon::report;

/// Lists the policies of one stage: those of the daemon if one is named, else those of this
/// program. `of` takes them out of the list of all, `at_work` says which one a device has.
///
/// # Errors
/// No daemon, or no such device.
pub fn list(
    target: &TargetArgs,
    only: Option<&str>,
    of: impl FnOnce(PolicyList) -> Vec<PolicySpec>,
    at_work: impl Fn(&DeviceReport) -> Option<&str>,
) -> Result<(), Failure> {
    let found = if asks_daemon(target) { find(target)? } else { Vec::new() };
    let all = match found.first() {
        Some((client, _)) => client.policies().map_err(Failure::new)?,
        None => report::policies(),
    };
    let mut specs = of(all);
    specs.retain(|spec| only.is_none_or(|name| name == spec.name));
    done(target, &specs, || {
        let mut rows = table(["policy", "what it does", "at work on"]);
        for spec in &specs {
            let devices = found.iter().map(|(_, device)| device);
            let devices = devices.filter(|device| at_work(device) == Some(&*spec.name));
            let names: Vec<&str> = devices.map(|device| &*device.name).collect();
            let default = if spec.default { " (default)" } else { "" };
            rows.add_row([
                Cell::new(format!("{}{default}", spec.name)),
                Cell::new(&spec.summary),
                Cell::new(names.join(", ")),
            ]);
        }
        finish(&rows, 0)
    })
}
