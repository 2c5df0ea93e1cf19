//! `iopace config`: the configuration file beside what holds now.

mod document;
mod exports;
mod loaded;
mod rules;
mod save;
mod skeleton;

pub use document::Document;
pub use save::Saver;

use crate::cli::ConfigCommand;
use crate::config;
use crate::machine::{Machine, Member};
use crate::output::{Failure, note, print, warn};
use crate::running::Sought;
use iopace_daemon::api::{DeviceReport, ExportReport, GroupReport, LoadedPolicy, MountReport};
use iopace_daemon::control::{Client, ClientError};
use iopace_daemon::runtime_files::read_config;
use similar::TextDiff;
use std::path::{Path, PathBuf};

/// The head of a file for a daemon that was started without one.
const LEFT_OUT: &str = "\
# Made from what the daemon tells. It does not tell, so add what you need: sockets (socket, listen,
# control, http), tls-... and [[rule]], fuse, io-engine, connections, memory; of devices and mounts
# raw, nr-requests, nr-group-requests, dirty-limit and what else belongs to a mount; of exports
# require-tls, vhost-user.
";

/// Carries out a command.
///
/// # Errors
/// No daemon, or a file that cannot be read or is wrong.
pub fn run(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Show { control } => show(control.as_deref()),
        ConfigCommand::Diff { control } => diff(control.as_deref()),
    }
}

/// Says whether a file is right.
///
/// # Errors
/// The first mistake, with its place.
pub fn check(file: &Path) -> Result<(), Failure> {
    let settings = config::parse(file, &read_text(file)?).map_err(Failure::usage)?;
    let mounted = settings.mounts.iter().map(|mount| &mount.device);
    for device in settings.devices.iter().chain(mounted) {
        if let Some(volume) =
            device.volume.as_ref().filter(|_| !config::is_shared_window(device.window.name))
        {
            warn(&device.name, &config::blind_window(volume), "leave `window-policy` out", None);
        }
    }
    let counts = [
        (settings.policies.len(), "policy", "policies"),
        (settings.devices.len(), "device", "devices"),
        (settings.mounts.len(), "mount", "mounts"),
        (settings.exports.len(), "export", "exports"),
        (settings.groups.len(), "group", "groups"),
    ];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    print(&format!("{}: right ({})\n", file.display(), counts.join(", ")))
}

/// The part of a configuration that a running daemon tells.
pub struct Holds {
    devices: Vec<DeviceReport>,
    mounts: Vec<MountReport>,
    exports: Vec<ExportReport>,
    groups: Vec<GroupReport>,
    /// The policies that are loaded.
    loaded: Vec<LoadedPolicy>,
    /// The file that it was started with.
    file: Option<PathBuf>,
}

impl Holds {
    fn ask(client: &Client) -> Result<Holds, ClientError> {
        let status = client.status()?;
        let mut groups = client.groups("/")?;
        // A group that goes by itself is in no file.
        groups.retain(|group| !group.made);
        Ok(Holds {
            devices: client.devices()?,
            mounts: client.mounts()?,
            exports: status.exports,
            groups,
            loaded: client.policies()?.loaded,
            file: status.config.map(PathBuf::from),
        })
    }

    /// The file, if there is one, and what it would say if it said what holds.
    fn documents(&self) -> Result<(Option<(PathBuf, String)>, String), Failure> {
        let (read, mut document) = match &self.file {
            Some(path) => {
                let text = read_text(path)?;
                let document = Document::parse(path, &text)?;
                (Some((path.clone(), text)), document)
            }
            None => (None, skeleton::of(self)?),
        };
        document.policies(&self.loaded)?;
        for device in &self.devices {
            document.device(device, None)?;
        }
        document.exports(&self.exports)?;
        for group in &self.groups {
            document.group(group, None)?;
            let below = format!("{}/", group.group);
            // One that is above another is made with that.
            if self.groups.iter().all(|other| !other.group.starts_with(&below)) {
                document.name_group(&group.group)?;
            }
        }
        let paths: Vec<&str> = self.groups.iter().map(|group| &*group.group).collect();
        document.keep_groups(&paths);
        Ok((read, document.finish()?))
    }
}

/// The text of a configuration file.
fn read_text(path: &Path) -> Result<String, Failure> {
    read_config(path)
        .map_err(|error| Failure::new(format!("{} cannot be read: {error}", path.display())))
}

fn each(
    control: Option<&Path>,
    told: impl Fn(&Member, &Holds) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let machine = Machine::find(control, Sought::default())?;
    let mut texts = Vec::new();
    for (member, holds) in machine.ask(Holds::ask)? {
        let text = told(member, &holds)?;
        texts.push(match machine.is_one() {
            true => text,
            false => format!("# {}\n{text}", member.client.path().display()),
        });
    }
    print(&texts.join("\n"))
}

fn show(control: Option<&Path>) -> Result<(), Failure> {
    each(control, |_, holds| match holds.documents()? {
        (Some(_), text) => Ok(text),
        (None, text) => Ok(format!("{LEFT_OUT}{text}")),
    })
}

fn diff(control: Option<&Path>) -> Result<(), Failure> {
    each(control, |member, holds| {
        let (Some((path, text)), now) = holds.documents()? else {
            note(format_args!(
                "{}: was started without a configuration file; 'iopace config show' prints one",
                member.client.path().display()
            ));
            return Ok(String::new());
        };
        if text == now {
            return Ok(format!("{}: says what holds\n", path.display()));
        }
        let diff = TextDiff::from_lines(&text, &now);
        let head = (path.display().to_string(), "what holds now".to_owned());
        Ok(diff.unified_diff().header(&head.0, &head.1).to_string())
    })
}
