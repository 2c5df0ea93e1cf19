//! A running daemon: which device a group is looked at on, how it is reached, and who else uses it.

use super::Verify;
use super::outcome::Outcome;
use super::scratch::Scratch;
use super::target::{Target, Way, failed};
use crate::cli::VerifyArgs;
use crate::output::{Failure, nearest};
use crate::paths::controls;
use crate::running::{Sought, daemon};
use crate::units::shell_word;
use iopace_daemon::api::{
    DaemonReport, DeviceReport, ExportReport, MountReport, Move, SOURCE_CLUSTER,
};
use iopace_daemon::control::Client;
use std::path::{Path, PathBuf};

/// The files that promise something that can be driven.
const PROMISES: [&str; 5] = ["io.max", "io.weight", "io.min", "io.ioprio_class", "io.latency"];

/// What a group of the running daemon was promised, over NBD.
///
/// # Errors
/// Nothing is set, or it may not be tested: who uses it is named.
pub fn group(verify: &Verify<'_>, args: &VerifyArgs, group: &str) -> Result<Vec<Outcome>, Failure> {
    let export = args.export.as_deref().or(args.scratch.as_deref());
    let device = args.device.as_deref();
    let sought = Sought { device, group: Some(group), export, ..Sought::default() };
    let client = daemon(control(args).as_deref(), sought)?;
    let status = client.status().map_err(failed)?;
    let wanted = wanted_device(args, &status)?;
    let mut targets = Vec::new();
    for device in devices_with_promises(&client, group)? {
        if wanted.as_ref().is_some_and(|wanted| *wanted != device) {
            continue;
        }
        let report = client.device(&device).map_err(failed)?;
        let mounts = client.mounts().map_err(failed)?;
        if let Some(mount) = mounts.iter().find(|mount| mount.device == device) {
            return Err(is_mount(group, mount));
        }
        let way = nbd_way(args, &status, &device)?;
        if !args.yes {
            check_idle(&client, &status, &device)?;
        }
        let group = group.to_owned();
        targets.push(Target { client: client.clone(), group, device: report, way });
    }
    if targets.is_empty() {
        let on = wanted.map_or(String::new(), |device| format!(" on {device}"));
        if !crate::cluster::set_for_all(&client, group).is_empty() {
            return Err(failed(format!(
                "what is set for {group} is for all hosts of a volume together, and 'iopace \
                 verify' drives what holds on this host alone: 'iopace cluster hosts' shows who \
                 uses how much"
            )));
        }
        return Err(failed(format!(
            "nothing is set for {group}{on} that could be verified: set a limit or a weight with \
             'iopace group set {group} io.max ...'"
        )));
    }
    let mut outcomes = Vec::new();
    for target in &targets {
        outcomes.extend(verify.group(target)?);
    }
    Ok(outcomes)
}

/// The control socket that is named, in the environment too.
fn control(args: &VerifyArgs) -> Option<PathBuf> {
    args.control.clone().or_else(|| std::env::var_os("IOPACE_CONTROL").map(PathBuf::from))
}

/// The device that is meant, if one is: by its name, or by that of an export.
fn wanted_device(args: &VerifyArgs, status: &DaemonReport) -> Result<Option<String>, Failure> {
    let mut wanted = args.device.clone();
    for name in [&args.export, &args.scratch].into_iter().flatten() {
        let device = &export(status, name)?.device;
        match &wanted {
            Some(other) if other != device => {
                return Err(failed(format!(
                    "the export '{name}' is of the device '{device}' and not of '{other}': name \
                     exports of one device"
                )));
            }
            _ => wanted = Some(device.clone()),
        }
    }
    Ok(wanted)
}

fn export<'a>(status: &'a DaemonReport, name: &str) -> Result<&'a ExportReport, Failure> {
    let found = status.exports.iter().find(|export| export.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = status.exports.iter().map(|export| &*export.name).collect();
        let remedy = match nearest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean '{meant}'?"),
            None => format!("there are: {}", known.join(", ")),
        };
        failed(format!("there is no export '{name}'; {remedy}"))
    })
}

/// The devices on which something was set for a group.
fn devices_with_promises(client: &Client, group: &str) -> Result<Vec<String>, Failure> {
    let files = client.group_files(group, None, None).map_err(failed)?;
    let promises = files.into_iter().filter(|file| PROMISES.contains(&&*file.file));
    let set = promises.flat_map(|file| file.effective).filter(|one| {
        // What holds for all hosts is not driven from one.
        ![SOURCE_CLUSTER, "built in"].contains(&&*one.source)
    });
    let mut devices: Vec<String> = set.map(|one| one.device).collect();
    devices.sort_unstable();
    devices.dedup();
    Ok(devices)
}

/// A mount is no export: limits there are for processes.
fn is_mount(group: &str, mount: &MountReport) -> Failure {
    let [place, group] = [&*mount.mountpoint.to_string_lossy(), group].map(shell_word);
    let device = &mount.device;
    failed(format!("the device '{device}' is a mount: iopace verify --mount {place} {group}"))
}

/// How a device is reached over NBD.
fn nbd_way(args: &VerifyArgs, status: &DaemonReport, device: &str) -> Result<Way, Failure> {
    let mut exports = status.exports.iter().filter(|export| export.device == device);
    let Some(first) = exports.next() else {
        return Err(failed(format!("the device '{device}' has no export: nobody gets at it")));
    };
    if let Some(scratch) = &args.scratch
        && export(status, scratch)?.read_only
    {
        return Err(failed(format!(
            "--scratch {scratch}: the export is read-only: name one that may be written over"
        )));
    }
    let socket = status.uris.iter().find_map(|uri| unix_socket(uri));
    let socket = socket.ok_or_else(|| {
        failed("the daemon has no Unix socket, and only there a client may say as whom it pays")
    })?;
    let export = args.export.clone().unwrap_or_else(|| first.name.clone());
    Ok(Way::Nbd { socket, export, scratch: args.scratch.clone() })
}

/// The socket of a URI, if it is a Unix socket.
fn unix_socket(uri: &str) -> Option<PathBuf> {
    let (_, encoded) = uri.strip_prefix("nbd+unix:///")?.split_once("?socket=")?;
    let mut bytes = Vec::new();
    let mut rest = encoded.as_bytes().iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [*rest.next()?, *rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Nobody else may be held up, unless the user says so.
fn check_idle(client: &Client, status: &DaemonReport, device: &str) -> Result<(), Failure> {
    let of_device = |name: &str| {
        status.exports.iter().any(|export| export.name == name && export.device == device)
    };
    let connections = client.connections().map_err(failed)?;
    let connections: Vec<String> = connections
        .iter()
        .filter(|one| of_device(&one.export))
        .map(|one| format!("{} ({}, as {})", one.connection, one.export, one.group))
        .collect();
    if !connections.is_empty() {
        return Err(in_use(device, &format!("connections {}", connections.join(", "))));
    }
    // Exports that are shown as files have processes, and nobody says of which device.
    let processes = client.processes().map_err(failed)?.processes;
    if client.mounts().map_err(failed)?.is_empty() && !processes.is_empty() {
        let names: Vec<String> =
            processes.iter().take(5).map(|one| format!("{} ({})", one.program, one.pid)).collect();
        return Err(in_use(device, &format!("processes {}", names.join(", "))));
    }
    Ok(())
}

fn in_use(device: &str, who: &str) -> Failure {
    failed(format!(
        "the device '{device}' is in use: {who}; they would be held up for some seconds: wait for \
         them, or say --yes"
    ))
}

/// What holds for a process of ours in a mount.
///
/// # Errors
/// There is no mount, nothing is set, or it may not be tested.
pub fn mount(
    verify: &Verify<'_>,
    args: &VerifyArgs,
    directory: &Path,
) -> Result<Vec<Outcome>, Failure> {
    let directory = std::fs::canonicalize(directory)
        .map_err(|error| failed(format!("{}: {error}", directory.display())))?;
    let (client, mount) = find_mount(args, &directory)?;
    if mount.open_count > 0 && !args.yes {
        let files = if mount.open_count == 1 { "file is" } else { "files are" };
        let place = mount.mountpoint.display();
        let who = format!("{} {files} open below {place}", mount.open_count);
        return Err(in_use(&mount.device, &who));
    }
    let device: DeviceReport = client.device(&mount.device).map_err(failed)?;
    let scratch = Scratch::make(&directory)?;
    let group = payer(&client, args.group.as_deref())?;
    if !devices_with_promises(&client, &group)?.contains(&mount.device) {
        let name = &mount.device;
        return Err(failed(format!(
            "processes of this user pay as {group} here, and nothing is set for it on {name} that \
             could be verified: name a GROUP, or set a limit with 'iopace group set {group} io.max \
             \"{name} ...\"'"
        )));
    }
    let way = Way::Mount(scratch.path().to_owned());
    verify.group(&Target { client, group, device, way })
}

/// The daemon of the mount that a directory is in.
fn find_mount(args: &VerifyArgs, directory: &Path) -> Result<(Client, MountReport), Failure> {
    let mut found: Option<(Client, MountReport)> = None;
    for path in controls(control(args).as_deref()) {
        let client = Client::new(path);
        let Ok(mounts) = client.mounts() else { continue };
        for mount in mounts {
            let depth = mount.mountpoint.components().count();
            let is_deeper = found
                .as_ref()
                .is_none_or(|(_, other)| depth > other.mountpoint.components().count());
            if directory.starts_with(&mount.mountpoint) && is_deeper {
                found = Some((client.clone(), mount));
            }
        }
    }
    found.ok_or_else(|| {
        failed(format!(
            "{} is in no mount of a running daemon: 'iopace mount' lists those there are",
            directory.display()
        ))
    })
}

/// The group that this process pays as, after it was moved if one is named. That ends with us.
fn payer(client: &Client, named: Option<&str>) -> Result<String, Failure> {
    let pid = std::process::id();
    if let Some(group) = named {
        let change =
            Move { export: None, connection: None, pid: Some(pid), group: group.to_owned() };
        return Ok(client.move_to_group(&change).map_err(failed)?.group);
    }
    let processes = client.processes().map_err(failed)?.processes;
    let own = processes.into_iter().find(|process| process.pid == pid);
    own.map(|process| process.group).ok_or_else(|| {
        failed(format!("the daemon does not know this process ({pid}): name a GROUP"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_read_off_its_uri() {
        let socket = |uri: &str| unix_socket(uri).map(|path| path.display().to_string());
        assert_eq!(
            socket("nbd+unix:///a?socket=/run/a%20b.sock").as_deref(),
            Some("/run/a b.sock")
        );
        assert_eq!(socket("nbd://127.0.0.1:10809/a"), None);
        assert_eq!(socket("nbd+unix:///a?socket=/run/%2"), None);
    }
}
