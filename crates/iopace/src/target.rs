//! The devices that a command is about, in all running daemons.

use crate::cli::{SaveArg, TargetArgs};
use crate::configuration::Saver;
use crate::output::{Failure, Format, nearest, note, print, print_json};
use crate::paths::controls;
use crate::running::ask_all;
use iopace_daemon::api::DeviceReport;
use iopace_daemon::control::{Client, ClientError};
use serde::Serialize;
use std::path::Path;

/// Whether a daemon is to be asked where that is not needed.
pub fn asks_daemon(target: &TargetArgs) -> bool {
    target.device.is_some() || target.control.is_some()
}

/// Prints a result in the format that was asked for.
///
/// # Errors
/// Standard output cannot be written.
pub fn done(
    target: &TargetArgs,
    result: &impl Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match target.format.format {
        Format::Json => print_json(result),
        Format::Table => print(&text()),
    }
}

/// The devices that are meant: the named one, or all.
///
/// # Errors
/// No daemon, or no such device.
pub fn devices(target: &TargetArgs) -> Result<Vec<DeviceReport>, Failure> {
    Ok(find(target)?.into_iter().map(|(_, device)| device).collect())
}

/// Changes one device, and these keys of its configuration file if that is to be kept; how it
/// stands then.
///
/// # Errors
/// No daemon, no such device, several of them, or a refusal, with what would be right; or it holds
/// and cannot be kept.
pub fn change(
    target: &TargetArgs,
    (keep, keys): (SaveArg, &[&str]),
    change: impl FnOnce(&Client, &str) -> Result<DeviceReport, ClientError>,
) -> Result<DeviceReport, Failure> {
    let (client, device) = only(target.control.as_deref(), target.device.as_deref())?;
    let saver = Saver::open(&client, keep.save)?;
    let report = change(&client, &device.name).map_err(Failure::new)?;
    if let Some(saver) = saver {
        let loaded = client.policies().map_err(Failure::new)?.loaded;
        saver.save(|document| {
            document.policy_of(&report, &loaded)?;
            document.device(&report, Some(keys))
        })?;
    }
    Ok(report)
}

/// The keys of a configuration file for what a command names.
pub fn named<'a>(keys: &[(&'a str, bool)]) -> Vec<&'a str> {
    keys.iter().filter(|(_, is_named)| *is_named).map(|(key, _)| *key).collect()
}

/// Devices, each with its daemon, and why another daemon did not answer.
type Found = (Vec<(Client, DeviceReport)>, Option<ClientError>);

/// The one device that is meant, with its daemon.
///
/// # Errors
/// No daemon, no such device, or several of them, with what would be right.
pub fn only(
    control: Option<&Path>,
    device: Option<&str>,
) -> Result<(Client, DeviceReport), Failure> {
    let (mut found, refusal) = find_by(control, device)?;
    if let (Some(error), None) = (refusal, device) {
        // One that does not answer may have others.
        return Err(Failure::new(error));
    }
    if found.len() > 1 {
        let names: Vec<&str> = found.iter().map(|(_, device)| &*device.name).collect();
        return Err(Failure::usage(match device {
            Some(name) => format!(
                "several daemons have a device '{name}': name one of them with --control: {}",
                sockets(&found).join(", ")
            ),
            None => {
                format!("there are several devices, name one of them: {}", names.join(", "))
            }
        }));
    }
    found.pop().ok_or_else(|| Failure::new("the daemon has no device"))
}

fn sockets(found: &[(Client, DeviceReport)]) -> Vec<String> {
    found.iter().map(|(client, _)| client.path().display().to_string()).collect()
}

/// The devices that are meant, each with its daemon: the named one, or all.
///
/// # Errors
/// No daemon, or no such device.
pub fn find(target: &TargetArgs) -> Result<Vec<(Client, DeviceReport)>, Failure> {
    Ok(find_by(target.control.as_deref(), target.device.as_deref())?.0)
}

/// The devices, and why a daemon did not answer, which is told where others do.
fn find_by(control: Option<&Path>, device: Option<&str>) -> Result<Found, Failure> {
    let mut found = Vec::new();
    let (mut nobody, mut refusal) = (None, None);
    let asked = ask_all(&controls(control), |path| {
        let client = Client::new(path);
        client.devices().map(|devices| (client, devices))
    });
    for answer in asked {
        match answer {
            Ok((client, devices)) => {
                found.extend(devices.into_iter().map(|device| (client.clone(), device)));
            }
            // What a killed daemon left behind does not hide the others.
            Err(error @ ClientError::NoDaemon(_)) => nobody = nobody.or(Some(error)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    match (refusal, nobody) {
        (Some(error), _) | (None, Some(error)) if found.is_empty() => {
            return Err(Failure::new(error));
        }
        (Some(error), _) => {
            note(format_args!("warning: {error}; it is left out"));
            refusal = Some(error);
        }
        (none, _) => refusal = none,
    }
    let Some(name) = device else { return Ok((found, refusal)) };
    let known: Vec<String> = found.iter().map(|(_, device)| device.name.clone()).collect();
    found.retain(|(_, device)| device.name == name);
    if found.is_empty() {
        let known = known.iter().map(String::as_str);
        let remedy = match nearest(name, known.clone()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("there are: {}", known.collect::<Vec<_>>().join(", ")),
        };
        return Err(Failure::new(format!("there is no device '{name}'; {remedy}")));
    }
    Ok((found, refusal))
}
