//! Changes and questions, on a thread of their own: the picture goes on meanwhile.

use super::app::{Ask, Told};
use crate::sched::listed;
use iopace_daemon::api::{Action, Change, SchedulerWarning, WriteFile};
use iopace_daemon::control::{Client, ClientError};

/// Asks, and says what came of it.
pub fn carry_out(client: &Client, ask: Ask) -> Told {
    let told = match ask {
        Ask::Weight { device, group, weight } => set_weight(client, &device, &group, &weight),
        Ask::Schedulers(device) => client.schedulers().map(|list| Told::Schedulers(device, list)),
        Ask::Exchange { device, algorithm } => exchange(client, &device, algorithm),
    };
    told.unwrap_or_else(|error| Told::Failed(error.to_string()))
}

/// Sets a weight and reads back what holds then.
fn set_weight(
    client: &Client,
    device: &str,
    group: &str,
    weight: &str,
) -> Result<Told, ClientError> {
    let file = "io.weight".to_owned();
    let text = format!("{device} {weight}");
    let write = WriteFile { group: group.into(), file: file.clone(), text };
    let warnings = client.write_group(&write)?.warnings;
    let files = client.group_files(group, Some(&file), Some(device))?;
    let holds = files.iter().flat_map(|file| &file.effective).find(|one| one.device == device);
    Ok(match holds {
        Some(holds) => {
            let warning = warnings.iter().find(|one| one.device == device);
            let warning = warning.map_or(String::new(), |one| format!("; but {}", one.text));
            Told::Done(format!("{group} has weight {} on {device} now{warning}", holds.value))
        }
        None => Told::Failed(format!("{group}: the daemon does not say what holds on {device}")),
    })
}

fn exchange(client: &Client, device: &str, algorithm: Option<String>) -> Result<Told, ClientError> {
    let is_inserted = client.device(device)?.scheduler.inserted;
    let action = match (&algorithm, is_inserted) {
        (None, false) => return Ok(Told::Done(format!("{device}: nothing is inserted"))),
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
    Ok(Told::Done(format!("{device} has scheduler {} now ({how}){but}", now.algorithm)))
}
