//! The disk of a scenario file: a preset, a preset with parameters changed, a model with all of its
//! parameters, or a model file.
//!
//! ```toml
//! [disk]
//! preset = "hdd-sata-250g"            # `iopace models` lists them, with their parameters
//! set = { seek_average = "6ms" }      # optional: parameters that differ
//! ```
//! With `kind = "null"` instead of a preset, `set` has every parameter of the kind; with
//! `model = "scratch.toml"` they are in a model file beside the scenario, see
//! [`iopace_disk::model_file`].

use super::error::Mistake;
use super::shape::{DiskTable, FaultsTable};
use crate::disks;
use crate::spelling;
use iopace_core::limits::{
    MERGE_MAX_MAX, NR_REQUESTS_MAX, NR_REQUESTS_MIN, PAUSE_TARGET_DEFAULT, WINDOW_DEPTH_MAX,
};
use iopace_core::pace;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_disk::faulty::FaultRates;
use iopace_disk::model::Model;
use iopace_disk::model_file::{self, Given, ModelFile};
use std::fs;
use std::path::Path;
use toml::Spanned;

/// Checks the disk and gives its name, its parameters if they are not those of its preset, and its
/// capacity. `file` is the scenario's path.
pub(super) fn resolve(
    file: &str,
    table: &Spanned<DiskTable>,
) -> Result<(String, Option<Model>, Bytes), Mistake> {
    let disk = table.get_ref();
    bounds(&disk.depth, 1, WINDOW_DEPTH_MAX, "the depth")?;
    bounds(&disk.nr_requests, NR_REQUESTS_MIN, NR_REQUESTS_MAX, "nr_requests")?;
    bounds(&disk.nr_group_requests, 1, NR_REQUESTS_MAX, "nr_group_requests")?;
    let none = Given::new();
    let set = disk.set.as_ref().unwrap_or(&none);
    let (name, model) = match (&disk.preset, &disk.kind, &disk.model) {
        (Some(preset), None, None) => {
            let found = disks::preset(preset.get_ref()).map_err(|error| (preset.span(), error))?;
            (preset.get_ref().clone(), model_file::change(&found.config, set)?)
        }
        (None, Some(kind), None) => (kind.get_ref().clone(), model_file::complete(kind, set)?),
        (None, None, Some(path)) => {
            let ModelFile { name, model, .. } = read(file, path)?;
            let name = name.unwrap_or_else(|| path.get_ref().clone());
            (name, model_file::change(&model, set)?)
        }
        _ => {
            let message = "a disk is one of preset = \"NAME\" (`iopace models` lists them), kind = \
                           \"hdd\" with all its parameters in [disk.set], or model = \"FILE\"";
            return Err((table.span(), message.into()));
        }
    };
    let is_preset = disk.preset.is_some() && set.is_empty();
    let capacity = model.build().capacity();
    Ok((name, (!is_preset).then_some(model), capacity))
}

/// Reads a model file beside the scenario.
fn read(file: &str, path: &Spanned<String>) -> Result<ModelFile, Mistake> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let place = folder.join(path.get_ref());
    let text = fs::read_to_string(&place).map_err(|error| {
        let place = place.display();
        let message = format!(
            "the model {place} cannot be read: {error}; the path is taken from \
                               the scenario's folder"
        );
        (path.span(), message)
    })?;
    let model = ModelFile::parse(&place.display().to_string(), &text);
    model.map_err(|error| (path.span(), error.to_string()))
}

fn bounds(value: &Option<Spanned<u32>>, min: u32, max: u32, what: &str) -> Result<(), Mistake> {
    match value {
        Some(n) if !(min..=max).contains(n.get_ref()) => {
            Err((n.span(), format!("{what} is {min} to {max}")))
        }
        _ => Ok(()),
    }
}

fn unknown(what: &str, name: &Spanned<String>, known: &[&str]) -> Mistake {
    let message = spelling::unknown(what, name.get_ref(), known);
    (name.span(), message)
}

/// The window policy of that name.
pub(super) fn window_policy(
    name: &Spanned<String>,
) -> Result<&'static window::WindowPolicy, Mistake> {
    let known = || window::REGISTRY.iter().map(|policy| policy.name).collect::<Vec<_>>();
    window::find(name.get_ref()).ok_or_else(|| unknown("window", name, &known()))
}

/// The pace policy of that name.
pub(super) fn pace_policy(name: &Spanned<String>) -> Result<&'static pace::PacePolicy, Mistake> {
    let known = || pace::REGISTRY.iter().map(|policy| policy.name).collect::<Vec<_>>();
    pace::find(name.get_ref()).ok_or_else(|| unknown("pace", name, &known()))
}

/// The policies of the stages window and pace.
pub(super) fn policies(
    disk: &DiskTable,
) -> Result<(&'static window::WindowPolicy, &'static pace::PacePolicy), Mistake> {
    let window = disk.window.as_ref().map_or(Ok(&window::fixed::POLICY), window_policy)?;
    let pace = disk.pace.as_ref().map_or(Ok(&pace::none::POLICY), pace_policy)?;
    Ok((window, pace))
}

/// The pause that stage pace aims at.
pub(super) fn pause_target(
    disk: &DiskTable,
    policy: &'static pace::PacePolicy,
) -> Result<Nanos, Mistake> {
    let Some(given) = &disk.pause_target else {
        return Ok(Nanos::from_millis(PAUSE_TARGET_DEFAULT));
    };
    let pause = given.get_ref().0;
    pace::check_pause_target(policy, pause).map_err(|message| (given.span(), message))?;
    Ok(pause)
}

/// Most bytes of a command of several requests.
pub(super) fn merge(disk: &DiskTable) -> Result<Bytes, Mistake> {
    match &disk.merge {
        Some(max) if max.get_ref().0 > MERGE_MAX_MAX => {
            Err((max.span(), format!("merge is 0B (no merging) to {MERGE_MAX_MAX}")))
        }
        max => Ok(max.as_ref().map_or(Bytes::ZERO, |max| max.get_ref().0)),
    }
}

/// What goes wrong on the disk.
pub(super) fn faults(table: &Spanned<FaultsTable>) -> Result<FaultRates, Mistake> {
    let FaultsTable { error_permille, stall_permille, lost_permille, stall } = *table.get_ref();
    let sum = u64::from(error_permille) + u64::from(stall_permille) + u64::from(lost_permille);
    if sum > 1_000 {
        return Err((table.span(), "the rates sum to more than 1000 of 1000 commands".into()));
    }
    if (stall_permille > 0) != stall.is_some() {
        let message = "`stall_permille` and `stall` belong together: how many, and how late";
        return Err((table.span(), message.into()));
    }
    let stall = stall.map_or(Nanos::ZERO, |time| time.0);
    Ok(FaultRates { error_permille, stall_permille, stall, lost_permille })
}
