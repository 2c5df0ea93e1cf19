//! Changes and questions, on a thread of their own: the picture goes on meanwhile.

use super::app::{Ask, Told};
use crate::machine::Machine;
use crate::sched::listed;
use iopace_daemon::api::{Action, Change, SchedulerWarning, WriteFile};
use iopace_daemon::control::{Client, ClientError};

/// Asks, and says what came of it.
pub fn carry_out(machine: &Machine, ask: Ask) -> Told {
    let told = match ask {
        Ask::Weight { device, group, weight } => {
            set_weight(machine.owner(&device), &device, &group, &weight)
        }
        Ask::Schedulers(device) => {
            let list = machine.owner(&device).0.schedulers();
            list.map(|list| Told::Schedulers(device, list))
        }
        Ask::Exchange { device, algorithm } => exchange(machine.owner(&device), &device, algorithm),
    };
    told.unwrap_or_else(|error| Told::Failed(error.to_string()))
}

/// Sets a weight and reads back what holds then.
fn set_weight(
    (client, device): (&Client, &str),
    shown: &str,
    group: &str,
    weight: &str,
) -> Result<Told, ClientError> {
    let file = "io.weight".to_owned();
    let text = format!("{device} {weight}");
    let write = WriteFile { group: group.into(), file: file.clone(), text, parents: false };
    let warnings = client.write_group(&write)?.warnings;
    let files = client.group_files(group, Some(&file), Some(device))?;
    let holds = files.iter().flat_map(|file| &file.effective).find(|one| one.device == device);
    Ok(match holds {
        Some(holds) => {
            let warning = warnings.iter().find(|one| one.device == device);
            let warning = warning.map_or(String::new(), |one| format!("; but {}", one.text));
            Told::Done(format!("{group} has weight {} on {shown} now{warning}", holds.value))
        }
        None => Told::Failed(format!("{group}: the daemon does not say what holds on {shown}")),
    })
}

fn exchange(
    (client, device): (&Client, &str),
    shown: &str,
    algorithm: Option<String>,
) -> Result<Told, ClientError> {
    let is_inserted = client.device(device)?.scheduler.inserted;
    let action = match (&algorithm, is_inserted) {
        (None, false) => return Ok(Told::Done(format!("{shown}: nothing is inserted"))),
        (None, true) => Action::Destroy,
        (Some(_), true) => Action::Configure,
        (Some(_), false) => Action::Insert,
    };
    let change = Change { action, algorithm, set: Default::default() };
    let report = client.change(device, &change)?;
    let now = report.scheduler;
    let how = if now.inserted { "inserted" } else { "its base, nothing is inserted" };
    let but =
        report.warnings.first().map(|SchedulerWarning { groups, groups_count, text, .. }| {
            format!("; but for {}: {text}", listed(groups, *groups_count))
        });
    let but = but.unwrap_or_default();
    Ok(Told::Done(format!("{shown} has scheduler {} now ({how}){but}", now.algorithm)))
}
