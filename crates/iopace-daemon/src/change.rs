//! A change of a device's scheduler, or of its policy of stage pace or window: checked whole, then
//! applied whole, or refused with nothing changed.

pub mod recommend;
mod replaced;

pub(crate) use replaced::exchange_policy;

use crate::api::{Action, Change, PaceChange, WindowChange};
use crate::device::Device;
use iopace_core::engine::{Control, ControlError, Status};
use iopace_core::limits::{TASK_CAP_MIN, WINDOW_DEPTH_MAX};
use iopace_core::pace::CapError;
use iopace_core::sched::{self, AUTO, Algorithm, Changes, ParamError, Params};
use iopace_core::time::Nanos;
use iopace_core::{pace, window};
use std::fmt;
use std::sync::Arc;

/// Why a change was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The change is not a legal one, whatever the device is doing.
    Illegal {
        /// What was asked and what is wrong.
        error: String,
        /// What would be right.
        hint: String,
    },
    /// The change is legal, but not in the state that the device is in.
    Conflict {
        /// What was asked and what is wrong.
        error: String,
        /// What would be right.
        hint: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::Illegal { error, hint } | Refusal::Conflict { error, hint }) = self;
        write!(f, "{error}; {hint}")
    }
}

impl std::error::Error for Refusal {}

/// Carries out a change of the device's scheduler.
///
/// # Errors
/// The reason, with what would be right.
pub fn apply(device: &dyn Device, change: &Change) -> Result<(), Refusal> {
    if change.algorithm.as_deref() == Some(AUTO) && change.action != Action::Destroy {
        return to_auto(device, change);
    }
    let status = device.status().engine;
    // Said before anything else; the engine looks again when it changes.
    let control = match change.action {
        Action::Configure if !status.inserted => configured_base(device, &status, change)?,
        _ => control(change)?,
    };
    device.control(control).map_err(|error| conflict(device, &error))
}

/// The device's own scheduler with settings, which make it an inserted one: taken out, it is the
/// device's own without settings.
fn configured_base(
    device: &dyn Device,
    status: &Status,
    change: &Change,
) -> Result<Control, Refusal> {
    let (present, named) = (status.algorithm, change.algorithm.as_deref());
    let is_base =
        present.name == device.info().base && named.is_none_or(|name| name == present.name);
    if !is_base || present.params.is_empty() {
        return Err(conflict(device, &ControlError::NotInserted));
    }
    Ok(Control::Insert(present, with(present, status.params.clone(), &change.set)?))
}

/// Back to the device's own scheduler, whatever is inserted or stands in for one that failed.
fn to_auto(device: &dyn Device, change: &Change) -> Result<(), Refusal> {
    if !change.set.is_empty() {
        return Err(auto_has_no_settings());
    }
    let status = device.status().engine;
    let refused = |error| conflict(device, &error);
    if !status.inserted {
        let base = sched::find(device.info().base).unwrap_or(sched::recommended());
        if std::ptr::eq(status.algorithm, base) {
            return Ok(());
        }
        device.control(Control::Insert(base, base.defaults())).map_err(refused)?;
    } else if change.action == Action::Insert {
        return Err(refused(ControlError::AlreadyInserted(status.algorithm.name)));
    }
    device.control(Control::Destroy).map_err(refused)
}

/// Carries out a change of the device's policy of stage pace.
///
/// # Errors
/// The reason, with what would be right.
pub fn apply_pace(device: &dyn Device, change: &PaceChange) -> Result<(), Refusal> {
    let policy = change.policy.as_deref().map(find_pace).transpose()?;
    let status = device.status();
    if policy.is_none() && change.pause_target_ns.is_none() {
        return Err(Refusal::Illegal {
            error: "the change says neither a policy nor a pause target".into(),
            hint: "name a policy with -a ('policy'), a pause with --pause-target \
                   ('pause_target_ns'), or both"
                .into(),
        });
    }
    if status.memory.is_none() {
        return Err(nothing_to_pace(device));
    }
    let refused = |error| conflict(device, &error);
    if let Some(pause) = change.pause_target_ns {
        let pause = Nanos(pause);
        let in_force = policy.unwrap_or(status.engine.pace);
        pace::check_pause_target(in_force, pause).map_err(|error| Refusal::Illegal {
            error,
            hint: "'iopace pace list' says what the policies do".into(),
        })?;
        device.control(Control::PauseTarget(pause)).map_err(refused)?;
    }
    match policy.filter(|policy| !std::ptr::eq(*policy, status.engine.pace)) {
        Some(policy) => device.control(Control::Pace(policy)).map_err(refused),
        None => Ok(()),
    }
}

/// A device whose writes are not buffered.
pub(crate) fn nothing_to_pace(device: &dyn Device) -> Refusal {
    let name = &device.info().name;
    Refusal::Conflict {
        error: format!("device '{name}' bypasses the page cache (direct)"),
        hint: "no write of it is buffered, so there is nothing to pace".into(),
    }
}

/// Carries out a change of the device's policy of stage window, of its depth, or of both.
///
/// # Errors
/// The reason, with what would be right.
pub fn apply_window(device: &dyn Device, change: &WindowChange) -> Result<(), Refusal> {
    let policy = match change.policy.as_deref() {
        None => None,
        Some(name) => Some(find_window(name)?),
    };
    if let Some(depth) = change.depth.filter(|depth| !(1..=WINDOW_DEPTH_MAX).contains(depth)) {
        return Err(Refusal::Illegal {
            error: format!("depth {depth} is out of bounds"),
            hint: format!("it is 1 to {WINDOW_DEPTH_MAX}"),
        });
    }
    if policy.is_none() && change.depth.is_none() {
        return Err(Refusal::Illegal {
            error: "the change says neither a policy nor a depth".into(),
            hint: "name a policy with -a ('policy'), a depth with --depth ('depth'), or both"
                .into(),
        });
    }
    let refused = |error| conflict(device, &error);
    if let Some(depth) = change.depth {
        device.control(Control::Window(depth)).map_err(refused)?;
    }
    let present = device.status().engine.window;
    match policy.filter(|policy| !std::ptr::eq(*policy, present)) {
        Some(policy) => device.control(Control::WindowPolicy(policy)).map_err(refused),
        None => Ok(()),
    }
}

fn control(change: &Change) -> Result<Control, Refusal> {
    let Change { action, algorithm, set } = change;
    match (action, algorithm) {
        (Action::Insert, Some(name)) => {
            let algorithm = find(name)?;
            Ok(Control::Insert(algorithm, with(algorithm, algorithm.defaults(), set)?))
        }
        (Action::Insert, None) => Err(Refusal::Illegal {
            error: "insert does not say which scheduler".into(),
            hint: format!("name one with -a ('algorithm'): {}", all()),
        }),
        (Action::Configure, name) => {
            let algorithm = name.as_deref().map(find).transpose()?;
            Ok(Control::Configure(algorithm, set.clone()))
        }
        (Action::Destroy, None) if set.is_empty() => Ok(Control::Destroy),
        (Action::Destroy, _) => Err(Refusal::Illegal {
            error: "destroy takes no scheduler and no settings".into(),
            hint: "it takes out whatever is inserted; to exchange it, use configure -a".into(),
        }),
    }
}

/// The settings on top of what there is.
pub(crate) fn with(
    algorithm: &Algorithm,
    mut params: Params,
    set: &Changes,
) -> Result<Params, Refusal> {
    params.merge(set).map_err(|error| illegal(algorithm.name, &error))?;
    Ok(params)
}

/// A setting that the scheduler cannot have.
fn illegal(scheduler: &str, error: &ParamError) -> Refusal {
    Refusal::Illegal {
        error: format!("scheduler '{scheduler}': {error}"),
        hint: "see 'iopace sched list' for all parameters with their bounds".into(),
    }
}

/// A cap below the least one.
fn cap_too_low(error: &CapError) -> Refusal {
    Refusal::Illegal {
        error: error.to_string(),
        hint: format!(
            "type {}K or more ('bytes_s': {TASK_CAP_MIN} or more), or 'max' to lift the cap",
            TASK_CAP_MIN >> 10
        ),
    }
}

/// The default scheduler is named with settings.
pub(crate) fn auto_has_no_settings() -> Refusal {
    Refusal::Illegal {
        error: format!("scheduler '{AUTO}' has no settings"),
        hint: format!("name the scheduler that they are for: {}", all()),
    }
}

pub(crate) fn find(name: &str) -> Result<&'static Algorithm, Refusal> {
    let all = || sched::all().into_iter().map(|algorithm| algorithm.name);
    sched::find(name).ok_or_else(|| unknown("scheduler", name, all()))
}

pub(crate) fn find_pace(name: &str) -> Result<&'static pace::PacePolicy, Refusal> {
    let all = pace::REGISTRY.iter().map(|policy| policy.name);
    pace::find(name).ok_or_else(|| unknown("pacing policy", name, all))
}

pub(crate) fn find_window(name: &str) -> Result<&'static window::WindowPolicy, Refusal> {
    let all = window::REGISTRY.iter().map(|policy| policy.name);
    window::find(name).ok_or_else(|| unknown("window policy", name, all))
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> Refusal {
    let known: Vec<&str> = known.collect();
    Refusal::Illegal {
        error: format!("there is no {what} '{name}'"),
        hint: format!("there are: {}", known.join(", ")),
    }
}

fn all() -> String {
    let names: Vec<&str> = sched::all().iter().map(|algorithm| algorithm.name).collect();
    names.join(", ")
}

/// Whether the scheduler of that name is free to go.
///
/// # Errors
/// The devices that have it, or that it is tried beside.
pub(crate) fn check_unused(devices: &[Arc<dyn Device>], scheduler: &str) -> Result<(), Refusal> {
    let has_it = |device: &&Arc<dyn Device>| device.status().engine.algorithm.name == scheduler;
    let having = devices.iter().filter(has_it).map(|device| device.info().name.clone());
    let having: Vec<String> = having.collect();
    if let Some(first) = having.first() {
        return Err(Refusal::Conflict {
            error: format!("policy '{scheduler}' is at work on {}", having.join(", ")),
            hint: format!("take it out first ('iopace sched destroy {first}')"),
        });
    }
    check_untried(devices, scheduler, None)
}

/// Whether no scheduler of that name, but for one, is tried beside a device.
///
/// # Errors
/// The devices that it is tried beside.
fn check_untried(
    devices: &[Arc<dyn Device>],
    scheduler: &str,
    but: Option<&'static Algorithm>,
) -> Result<(), Refusal> {
    let is_but = |tried| but.is_some_and(|but| std::ptr::eq(but, tried));
    let is_tried = |device: &&Arc<dyn Device>| {
        let mut is_tried = false;
        device.look(&mut |engine, _| {
            let plan = engine.recommendation().and_then(|view| view.plan.scheduler.as_ref());
            is_tried = plan
                .is_some_and(|(algorithm, _)| algorithm.name == scheduler && !is_but(*algorithm));
        });
        is_tried
    };
    let trying = devices.iter().filter(is_tried).map(|device| device.info().name.clone());
    let trying: Vec<String> = trying.collect();
    match trying.first() {
        None => Ok(()),
        Some(first) => Err(Refusal::Conflict {
            error: format!("policy '{scheduler}' is tried beside {}", trying.join(", ")),
            hint: format!("end that first ('iopace recommend off {first}')"),
        }),
    }
}

pub(crate) fn conflict(device: &dyn Device, error: &ControlError) -> Refusal {
    let name = &device.info().name;
    let (error, hint) = match error {
        ControlError::AlreadyInserted(present) => (
            format!("device '{name}' has scheduler '{present}' inserted already"),
            "use 'configure -a' to exchange it, or 'destroy' to take it out first",
        ),
        ControlError::NotInserted => {
            (format!("device '{name}' has no scheduler inserted"), "use 'insert -a' to put one in")
        }
        ControlError::BuildFailed(broken) => (
            format!("scheduler '{broken}' failed to start; device '{name}' goes on as it was"),
            "see the daemon's log, and choose another one",
        ),
        ControlError::Param(scheduler, error) => return illegal(scheduler, error),
        ControlError::Cap(error @ CapError::TooLow(_)) => return cap_too_low(error),
        ControlError::Cap(error @ CapError::NotHeld(_)) => {
            (error.to_string(), "exchange the policy with 'iopace pace configure -a'")
        }
        ControlError::TooManyCaps => {
            (format!("device '{name}': {error}"), "lift those that are not needed any more")
        }
    };
    Refusal::Conflict { error, hint: hint.into() }
}
