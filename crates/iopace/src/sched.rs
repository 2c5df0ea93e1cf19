//! `iopace sched`: the schedulers of a running daemon.

mod show;

use crate::cli::{ConfigureArgs, InsertArgs, ListArgs, SchedCommand, TargetArgs};
use crate::output::{Failure, Format, nearest, print, print_json};
use crate::paths::controls;
use iopace_daemon::control::api::{Action, Change, DeviceReport};
use iopace_daemon::control::{Client, ClientError, report};

/// Carries out a command.
///
/// # Errors
/// No daemon, no such device, or a refusal, with what would be right.
pub fn run(command: &SchedCommand) -> Result<(), Failure> {
    match command {
        SchedCommand::List(args) => list(args),
        SchedCommand::Insert(InsertArgs { algorithm, set, target }) => {
            let set = set.iter().cloned().collect();
            let algorithm = Some(algorithm.clone());
            change(target, &Change { action: Action::Insert, algorithm, set })
        }
        SchedCommand::Configure(ConfigureArgs { algorithm, set, target }) => {
            let (algorithm, set) = (algorithm.clone(), set.iter().cloned().collect());
            change(target, &Change { action: Action::Configure, algorithm, set })
        }
        SchedCommand::Destroy(target) => {
            let change_ =
                Change { action: Action::Destroy, algorithm: None, set: Default::default() };
            change(target, &change_)
        }
        SchedCommand::Status(target) => status(target),
    }
}

/// The schedulers: those of the daemon if one is named, else those of this program.
fn list(args: &ListArgs) -> Result<(), Failure> {
    let target = &args.target;
    let (mut specs, devices) = if target.device.is_some() || target.control.is_some() {
        let found = find(target)?;
        let specs = match found.first() {
            Some((client, _)) => client.schedulers().map_err(Failure::new)?,
            None => Vec::new(),
        };
        (specs, found.into_iter().map(|(_, device)| device).collect())
    } else {
        (report::schedulers(), Vec::new())
    };
    specs.retain(|spec| args.algorithm.as_deref().is_none_or(|name| name == spec.name));
    match target.format.format {
        Format::Json => print_json(&specs),
        Format::Table => print(&show::schedulers(&specs, &devices)),
    }
}

fn status(target: &TargetArgs) -> Result<(), Failure> {
    let devices: Vec<DeviceReport> = find(target)?.into_iter().map(|(_, device)| device).collect();
    match target.format.format {
        Format::Json => print_json(&devices),
        Format::Table => {
            let texts: Vec<String> = devices.iter().map(show::device).collect();
            print(&texts.join("\n"))
        }
    }
}

/// Changes one device and shows what is in force then.
fn change(target: &TargetArgs, change: &Change) -> Result<(), Failure> {
    let found = find(target)?;
    let (client, device) = match &*found {
        [one] => one,
        [] => return Err(Failure::new("the daemon has no device")),
        several => {
            let names: Vec<&str> = several.iter().map(|(_, device)| &*device.name).collect();
            let all = names.join(", ");
            return Err(Failure::usage(match &target.device {
                Some(name) => format!(
                    "several daemons have a device '{name}': name one of them with --control: {}",
                    sockets(several).join(", ")
                ),
                None => format!("there are several devices, name one of them: {all}"),
            }));
        }
    };
    let device = client.change(&device.name, change).map_err(Failure::new)?;
    match target.format.format {
        Format::Json => print_json(&device),
        Format::Table => print(&show::in_force(&device)),
    }
}

fn sockets(found: &[(Client, DeviceReport)]) -> Vec<String> {
    found.iter().map(|(client, _)| client.path().display().to_string()).collect()
}

/// The devices that are meant, each with its daemon: the named one, or all.
fn find(target: &TargetArgs) -> Result<Vec<(Client, DeviceReport)>, Failure> {
    let mut found = Vec::new();
    let mut nobody = None;
    let paths = controls(target.control.as_deref());
    for path in &paths {
        let client = Client::new(path);
        match client.devices() {
            Ok(devices) => {
                found.extend(devices.into_iter().map(|device| (client.clone(), device)));
            }
            // What a killed daemon left behind does not hide the others.
            Err(error @ ClientError::NoDaemon(_)) => nobody = nobody.or(Some(error)),
            Err(error) => return Err(Failure::new(error)),
        }
    }
    if let (Some(error), true) = (nobody, found.is_empty()) {
        return Err(Failure::new(error));
    }
    let Some(name) = &target.device else { return Ok(found) };
    let known: Vec<String> = found.iter().map(|(_, device)| device.name.clone()).collect();
    found.retain(|(_, device)| device.name == *name);
    if found.is_empty() {
        let known = known.iter().map(String::as_str);
        let remedy = match nearest(name, known.clone()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::new(format!("there is no device '{name}'; {remedy}")));
    }
    Ok(found)
}
