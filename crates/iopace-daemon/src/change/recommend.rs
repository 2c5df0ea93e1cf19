//! A change of what is tried beside a device.

use super::Refusal;
use crate::api::{ClientsWord, RecommendChange};
use crate::device::Device;
use iopace_core::engine::{Control, Status};
use iopace_core::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN, WINDOW_DEPTH_MAX};
use iopace_core::sched::{self, AUTO};
use iopace_core::shadow::{Clients, Plan};

/// Tries what a change says on a device.
///
/// # Errors
/// The reason, with what would be right.
pub(crate) fn apply(device: &dyn Device, change: &RecommendChange) -> Result<(), Refusal> {
    let plan = plan(change)?;
    device.control(Control::Recommend(Some(plan))).map_err(|error| super::conflict(device, &error))
}

/// What a change asks for.
///
/// # Errors
/// The reason, with what would be right.
pub fn plan(change: &RecommendChange) -> Result<Plan, Refusal> {
    let scheduler = match &change.scheduler {
        None if !change.set.is_empty() => {
            return Err(Refusal::Illegal {
                error: "parameters are set, but no scheduler is named".into(),
                hint: "name the scheduler that they are for ('scheduler')".into(),
            });
        }
        None => None,
        Some(name) if name == AUTO => {
            if !change.set.is_empty() {
                return Err(super::auto_has_no_settings());
            }
            let algorithm = sched::recommended();
            Some((algorithm, algorithm.defaults()))
        }
        Some(name) => {
            let algorithm = super::find(name)?;
            Some((algorithm, super::with(algorithm, algorithm.defaults(), &change.set)?))
        }
    };
    Ok(Plan {
        scheduler,
        pace: change.pace.as_deref().map(super::find_pace).transpose()?,
        window: change.window.as_deref().map(super::find_window).transpose()?,
        window_depth: bounded("depth", change.depth, 1, WINDOW_DEPTH_MAX)?,
        nr_requests: bounded("nr_requests", change.nr_requests, NR_REQUESTS_MIN, NR_REQUESTS_MAX)?,
        clients: match change.clients {
            ClientsWord::Closed => Clients::Closed,
            ClientsWord::Open => Clients::Open,
        },
    })
}

fn bounded(what: &str, value: Option<u32>, least: u32, most: u32) -> Result<Option<u32>, Refusal> {
    match value.filter(|value| !(least..=most).contains(value)) {
        Some(value) => Err(Refusal::Illegal {
            error: format!("{what} {value} is out of bounds"),
            hint: format!("it is {least} to {most}"),
        }),
        None => Ok(value),
    }
}

/// Whether the scheduler at work was named by somebody, and is not the default.
pub(crate) fn is_set_explicitly(status: &Status) -> bool {
    let default = sched::recommended();
    let is_same = status.algorithm.name == default.name && status.params == default.defaults();
    status.inserted && !is_same
}
