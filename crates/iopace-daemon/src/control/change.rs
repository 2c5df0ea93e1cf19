//! A change of a device's scheduler: checked whole, then applied whole, or refused with nothing
//! changed.

use super::api::{Action, Change};
use crate::device::Device;
use iopace_core::engine::{Control, ControlError};
use iopace_core::sched::{self, Algorithm, Params, REGISTRY};
use std::collections::BTreeMap;
use std::fmt;

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
    let control = control(device, change)?;
    device.control(control).map_err(|error| conflict(device, &error))
}

fn control(device: &dyn Device, change: &Change) -> Result<Control, Refusal> {
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
            let status = device.status().engine;
            if !status.inserted {
                return Err(conflict(device, &ControlError::NotInserted));
            }
            let algorithm = name.as_deref().map_or(Ok(status.algorithm), find)?;
            let same = algorithm.name == status.algorithm.name;
            let start = if same { status.params } else { algorithm.defaults() };
            Ok(Control::Configure(algorithm, with(algorithm, start, set)?))
        }
        (Action::Destroy, None) if set.is_empty() => Ok(Control::Destroy),
        (Action::Destroy, _) => Err(Refusal::Illegal {
            error: "destroy takes no scheduler and no settings".into(),
            hint: "it takes out whatever is inserted; to exchange it, use configure -a".into(),
        }),
    }
}

/// The settings on top of what there is.
fn with(
    algorithm: &Algorithm,
    mut params: Params,
    set: &BTreeMap<String, u64>,
) -> Result<Params, Refusal> {
    for (name, value) in set {
        params.set(name, *value).map_err(|error| Refusal::Illegal {
            error: format!("scheduler '{}': {error}", algorithm.name),
            hint: "see 'iopace sched list' for all parameters with their bounds".into(),
        })?;
    }
    Ok(params)
}

fn find(name: &str) -> Result<&'static Algorithm, Refusal> {
    sched::find(name).ok_or_else(|| Refusal::Illegal {
        error: format!("there is no scheduler '{name}'"),
        hint: format!("there are: {}", all()),
    })
}

fn all() -> String {
    let names: Vec<&str> = REGISTRY.iter().map(|algorithm| algorithm.name).collect();
    names.join(", ")
}

fn conflict(device: &dyn Device, error: &ControlError) -> Refusal {
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
    };
    Refusal::Conflict { error, hint: hint.into() }
}
