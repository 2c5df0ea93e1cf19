//! Does what was planned: all of it, or nothing.

use super::plan::SetupPlan;
use super::record::{MadeFile, SetupRecord};
use super::root::SetupRoot;
use super::systemd::Systemd;
use crate::output::{Failure, note};
use std::path::{Path, PathBuf};

/// A step that can be taken back.
enum MadeStep {
    Folder(PathBuf),
    File(PathBuf),
}

/// Does it. The record comes first, so that `--undo` knows also of what a power cut has left half
/// done.
///
/// # Errors
/// The first step that failed; those before it were taken back.
pub(super) fn apply(plan: &SetupPlan, root: &SetupRoot, systemd: &Systemd) -> Result<(), Failure> {
    let mut done = Vec::new();
    let mut reloaded = false;
    let result = make_all(plan, root, &mut done).and_then(|()| {
        reloaded = true;
        systemd.reload()?;
        match (plan.starts, &plan.record.unit) {
            (true, Some(unit)) => systemd.start(unit),
            _ => Ok(()),
        }
    });
    let Err(failure) = result else { return Ok(()) };
    if let (true, true, Some(unit)) = (reloaded, plan.starts, &plan.record.unit) {
        // One that goes on trying would try what is gone.
        let _ = systemd.stop(unit);
    }
    let left: Vec<String> = done.iter().rev().filter_map(|step| take_back(step, root)).collect();
    if reloaded && let Err(failure) = systemd.reload() {
        note(format_args!("warning: {}", failure.message));
    }
    Err(match left.is_empty() {
        true => failure.but("nothing of it was left"),
        false => failure.but(&format!("left, as it cannot be removed: {}", left.join(", "))),
    })
}

fn make_all(plan: &SetupPlan, root: &SetupRoot, done: &mut Vec<MadeStep>) -> Result<(), Failure> {
    let record = &plan.record;
    let own = SetupRecord::path_of(&record.directory);
    let (homes, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        plan.missing.iter().partition(|folder| own.starts_with(folder));
    for folder in homes {
        root.make_folder(folder)?;
        done.push(MadeStep::Folder(folder.clone()));
    }
    root.make_file(&own, &record.text())?;
    done.push(MadeStep::File(own));
    for folder in others {
        root.make_folder(folder)?;
        done.push(MadeStep::Folder(folder.clone()));
    }
    for (path, made) in &record.files {
        match made {
            MadeFile::Text(text) => root.make_file(path, text)?,
            MadeFile::Link(to) => root.make_link(path, to)?,
        }
        done.push(MadeStep::File(path.clone()));
    }
    Ok(())
}

/// Takes a step back; the path of what stays.
fn take_back(step: &MadeStep, root: &SetupRoot) -> Option<String> {
    let (path, taken): (&Path, _) = match step {
        MadeStep::Folder(path) => (path, root.remove_folder(path)),
        MadeStep::File(path) => (path, root.remove(path)),
    };
    taken.err().map(|_| root.shown(path).display().to_string())
}
