//! `iopace group`: who pays, in a running daemon.

mod show;

use crate::cli::{
    CreateArgs, DaemonArgs, GetArgs, GroupCommand, GroupPathArgs, ListGroupsArgs, MoveArgs,
    RemoveArgs, SetArgs,
};
use crate::output::{Failure, Format, print, print_json, warn};
use crate::running::{Sought, daemon};
use iopace_daemon::api::{FileReport, Move, SettingWarning, WriteFile};
use iopace_daemon::control::Client;
use iopace_groups::limits::GROUP_FILE_BYTES_MAX;
use std::io::Read;

/// Carries out a command.
///
/// # Errors
/// No daemon, or a refusal, with what would be right.
pub fn run(command: &GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::List(args) => list(args),
        GroupCommand::Tree(args) => tree(args),
        GroupCommand::Create(CreateArgs { group, parents, daemon }) => {
            // What is above it is there, or is made too.
            let above = group.rsplit_once('/').map(|(above, _)| above);
            let above = above.filter(|above| !parents && !above.is_empty());
            let client = find(daemon, Sought { group: above, ..Sought::default() })?;
            let made = client.create_group(group, *parents).map_err(Failure::new)?;
            done(daemon, &made, || format!("{} is there\n", made.group))
        }
        GroupCommand::Remove(RemoveArgs { group, daemon }) => {
            let removed = client(daemon, group)?.remove_group(group).map_err(Failure::new)?;
            done(daemon, &removed, || format!("{} is removed\n", removed.group))
        }
        GroupCommand::Set(args) => set(args),
        GroupCommand::Get(args) => get(args),
        GroupCommand::Move(args) => move_to(args),
        GroupCommand::Stat(args) => stat(args),
    }
}

/// Prints a result in the format that was asked for.
fn done(
    daemon: &DaemonArgs,
    result: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match daemon.format.format {
        Format::Json => print_json(result),
        Format::Table => print(&text()),
    }
}

/// The daemon that has a group.
///
/// # Errors
/// As of [`daemon`].
pub fn client(args: &DaemonArgs, group: &str) -> Result<Client, Failure> {
    find(args, Sought { group: Some(group), ..Sought::default() })
}

fn find(args: &DaemonArgs, sought: Sought<'_>) -> Result<Client, Failure> {
    daemon(args.control.as_deref(), sought)
}

fn list(args: &ListGroupsArgs) -> Result<(), Failure> {
    let client = client(&args.daemon, &args.group)?;
    if args.connections {
        let all = client.connections().map_err(Failure::new)?;
        return done(&args.daemon, &all, || show::connections(&all));
    }
    if args.processes {
        let all = client.processes().map_err(Failure::new)?;
        return done(&args.daemon, &all, || show::processes(&all));
    }
    let all = client.groups(&args.group).map_err(Failure::new)?;
    done(&args.daemon, &all, || show::list(&all))
}

fn tree(args: &GroupPathArgs) -> Result<(), Failure> {
    let all = client(&args.daemon, &args.group)?.groups(&args.group).map_err(Failure::new)?;
    done(&args.daemon, &all, || show::tree(&all))
}

fn stat(args: &GroupPathArgs) -> Result<(), Failure> {
    let report =
        client(&args.daemon, &args.group)?.group_stat(&args.group).map_err(Failure::new)?;
    done(&args.daemon, &report, || show::stat(&report))
}

fn set(args: &SetArgs) -> Result<(), Failure> {
    let SetArgs { group, file, lines, daemon } = args;
    let text = match &**lines {
        [one] if one == "-" => standard_input()?,
        lines => lines.join("\n"),
    };
    let sought = Sought { device: named_device(&text), group: Some(group), ..Sought::default() };
    let client = find(daemon, sought)?;
    let write = WriteFile { group: group.clone(), file: file.clone(), text };
    let written = client.write_group(&write).map_err(Failure::new)?;
    for SettingWarning { device, text, command } in &written.warnings {
        warn(device, text, command, daemon.control.as_deref());
    }
    done(daemon, &written, || show::written(&written))
}

/// The device that the first line is of, as `disk rbps=10M`; none for all devices.
fn named_device(text: &str) -> Option<&str> {
    let (first, _) = text.lines().next()?.trim().split_once(char::is_whitespace)?;
    let is_value = first == "default" || first == "max" || first.contains('=');
    (!is_value && !first.bytes().all(|byte| byte.is_ascii_digit())).then_some(first)
}

/// At most as much as a file takes, and a byte more: the daemon says what is wrong with it then.
fn standard_input() -> Result<String, Failure> {
    let mut text = String::new();
    let most = GROUP_FILE_BYTES_MAX as u64 + 1;
    let read = std::io::stdin().lock().take(most).read_to_string(&mut text);
    read.map_err(|error| Failure::new(format!("standard input cannot be read: {error}")))?;
    if text.len() > GROUP_FILE_BYTES_MAX {
        return Err(Failure::usage(format!(
            "standard input has more than {GROUP_FILE_BYTES_MAX} bytes, which is all that a file \
             takes at once: write it in pieces"
        )));
    }
    Ok(text)
}

fn get(args: &GetArgs) -> Result<(), Failure> {
    let GetArgs { group, file, device, daemon } = args;
    let (file, device) = (file.as_deref(), device.as_deref());
    let client = find(daemon, Sought { device, group: Some(group), ..Sought::default() })?;
    let mut files = client.group_files(group, file, device).map_err(Failure::new)?;
    match (file, &mut *files) {
        // What may be written back, or what it says of itself.
        (Some(_), [one]) if device.is_none() || !one.writable => {
            done(daemon, one, || one.text.clone())
        }
        (Some(_), [one]) => done(daemon, one, || show::effective(one)),
        (_, files) => {
            let settings: Vec<&FileReport> = files.iter().filter(|file| file.writable).collect();
            done(daemon, &files, || show::files(&settings))
        }
    }
}

fn move_to(args: &MoveArgs) -> Result<(), Failure> {
    let MoveArgs { export, connection, pid, group, daemon } = args;
    let sought = Sought {
        export: export.as_deref(),
        connection: *connection,
        process: *pid,
        group: Some(group),
        ..Sought::default()
    };
    let client = find(daemon, sought)?;
    let (export, group) = (export.clone(), group.clone());
    let change = Move { export, connection: *connection, pid: *pid, group };
    let to = client.move_to_group(&change).map_err(Failure::new)?;
    done(daemon, &to, || show::list(std::slice::from_ref(&to)))
}
