//! `iopace group`: who pays, in a running daemon.

mod show;
mod stat;

use crate::cli::{
    CreateArgs, DaemonArgs, GetArgs, GroupCommand, GroupPathArgs, ListGroupsArgs, MoveArgs,
    RemoveArgs, SetArgs,
};
use crate::configuration::Saver;
use crate::machine::{DaemonAnswer, Machine, Member};
use crate::output::{Failure, Format, print, print_json, seen_width, warn};
use crate::running::{Sought, daemon};
use iopace_daemon::api::{
    FileReport, GroupReport, Move, ProcessReport, SetShared, SettingWarning, StatReport, WriteFile,
};
use iopace_daemon::control::Client;
use iopace_groups::limits::GROUP_FILE_BYTES_MAX;
use serde::Serialize;
use show::Row;
use std::cmp::Ordering;
use std::io::Read;

/// Carries out a command.
///
/// # Errors
/// No daemon, or a refusal, with what would be right.
pub fn run(command: &GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::List(args) => list(args),
        GroupCommand::Tree(args) => tree(args),
        GroupCommand::Create(CreateArgs { group, parents, daemon, keep }) => {
            // What is above it is there, or is made too.
            let above = group.rsplit_once('/').map(|(above, _)| above);
            let above = above.filter(|above| !parents && !above.is_empty());
            let client = find(daemon, Sought { group: above, ..Sought::default() })?;
            let saver = Saver::open(&client, keep.save)?;
            let made = client.create_group(group, *parents).map_err(Failure::new)?;
            if let Some(saver) = saver {
                saver.save(|document| document.name_group(group))?;
            }
            done(daemon, &made, || format!("{} is there\n", made.group))
        }
        GroupCommand::Remove(RemoveArgs { group, daemon, keep }) => {
            let client = client(daemon, group)?;
            let saver = Saver::open(&client, keep.save)?;
            let removed = client.remove_group(group).map_err(Failure::new)?;
            if let Some(saver) = saver {
                saver.save(|document| {
                    document.remove_group(group);
                    Ok(())
                })?;
            }
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
    result: &impl Serialize,
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

/// The daemons that have a group; all have the root.
fn machine(args: &DaemonArgs, group: &str) -> Result<Machine, Failure> {
    let sought = Sought { group: Some(group), ..Sought::default() };
    Machine::find(args.control.as_deref(), sought)
}

fn list(args: &ListGroupsArgs) -> Result<(), Failure> {
    let machine = machine(&args.daemon, &args.group)?;
    if args.connections {
        let all = gathered(&machine, machine.ask(Client::connections)?);
        return done(&args.daemon, &reports(&all), || show::connections(&all));
    }
    if args.processes {
        let answers = machine.ask(Client::processes)?;
        let left_out_count = answers.iter().map(|(_, told)| told.left_out_count).sum();
        let processes = answers.into_iter().map(|(member, told)| (member, told.processes));
        let all = gathered(&machine, processes.collect());
        let result = Processes { processes: reports(&all), left_out_count };
        return done(&args.daemon, &result, || show::processes(&all, left_out_count));
    }
    let all = groups(&machine, &args.group)?;
    done(&args.daemon, &reports(&all), || show::list(&all))
}

/// As [`ProcessesReport`](iopace_daemon::api::ProcessesReport), of all daemons.
#[derive(Serialize)]
struct Processes<'a> {
    processes: Vec<&'a DaemonAnswer<ProcessReport>>,
    left_out_count: usize,
}

/// The groups of all daemons as one tree, depth first.
fn groups(machine: &Machine, group: &str) -> Result<Vec<Row<GroupReport>>, Failure> {
    let mut all = gathered(machine, machine.ask(|client| client.groups(group))?);
    all.sort_by(|one, other| depth_first(&one.told.report.group, &other.told.report.group));
    Ok(all)
}

/// As a tree is written down; what is equal stays in its order.
fn depth_first(one: &str, other: &str) -> Ordering {
    let names = |path: &str| {
        path.split('/').filter(|name| !name.is_empty()).map(String::from).collect::<Vec<_>>()
    };
    names(one).cmp(&names(other))
}

/// The answers of all daemons, each with its devices if there are several.
fn gathered<T: Serialize>(machine: &Machine, answers: Vec<(&Member, Vec<T>)>) -> Vec<Row<T>> {
    let all = answers.into_iter().flat_map(|(member, told)| {
        let devices = (!machine.is_one()).then(|| member.devices());
        told.into_iter()
            .map(move |one| Row { devices: devices.clone(), told: machine.told(member, one) })
    });
    all.collect()
}

fn reports<T: Serialize>(rows: &[Row<T>]) -> Vec<&DaemonAnswer<T>> {
    rows.iter().map(|row| &row.told).collect()
}

fn tree(args: &GroupPathArgs) -> Result<(), Failure> {
    let all = groups(&machine(&args.daemon, &args.group)?, &args.group)?;
    done(&args.daemon, &reports(&all), || show::tree(&all))
}

fn stat(args: &GroupPathArgs) -> Result<(), Failure> {
    let machine = machine(&args.daemon, &args.group)?;
    let mut all = StatReport { groups: Vec::new(), left_out_count: 0 };
    for (member, told) in machine.ask(|client| client.group_stat(&args.group))? {
        all.left_out_count += told.left_out_count;
        for mut group in told.groups {
            for device in &mut group.devices {
                device.device = member.shown(&device.device);
            }
            match all.groups.iter_mut().find(|known| known.group == group.group) {
                Some(known) => known.devices.append(&mut group.devices),
                None => all.groups.push(group),
            }
        }
    }
    all.groups.sort_by(|one, other| depth_first(&one.group, &other.group));
    done(&args.daemon, &all, || stat::stat(&all, seen_width().unwrap_or(u16::MAX)))
}

fn set(args: &SetArgs) -> Result<(), Failure> {
    let SetArgs { group, file, lines, parents, daemon, keep, cluster, volume } = args;
    let text = match &**lines {
        [one] if one == "-" => standard_input()?,
        lines => lines.join("\n"),
    };
    if *cluster {
        let volume = volume.clone();
        let set = SetShared { volume, group: group.clone(), file: file.clone(), lines: text };
        return crate::cluster::set(daemon, &set);
    }
    let device = named_device(&text);
    let sought = Sought { device, group: Some(group), ..Sought::default() };
    let client = match find(daemon, sought) {
        // Where it is nowhere it is made.
        Err(_) if *parents => find(daemon, Sought { device, ..Sought::default() }),
        found => found,
    };
    let client = client.map_err(|failure| with_parents(failure, group))?;
    let write = WriteFile { group: group.clone(), file: file.clone(), text, parents: *parents };
    let saver = Saver::open(&client, keep.save)?;
    let written = client.write_group(&write).map_err(Failure::new);
    let written = written.map_err(|failure| with_parents(failure, group))?;
    save_group(saver, &client, (group, file))?;
    for SettingWarning { device, text, command } in &written.warnings {
        warn(device, text, command, daemon.control.as_deref());
    }
    done(daemon, &written, || show::written(&written))
}

/// Says how a group that is missing is made with its setting.
fn with_parents(mut failure: Failure, group: &str) -> Failure {
    if failure.message.contains(&format!("no group '{group}'"))
        || failure.message.contains(&format!("has group '{group}'"))
    {
        failure.message.push_str("; with -p it is made");
    }
    failure
}

/// Keeps what a file of a group says, if it is to be kept.
fn save_group(
    saver: Option<Saver>,
    client: &Client,
    (group, file): (&str, &str),
) -> Result<(), Failure> {
    let Some(saver) = saver else { return Ok(()) };
    let all = client.groups(group).map_err(Failure::new)?;
    saver.save(|document| match all.first() {
        Some(report) => document.group(report, Some(file)),
        None => Ok(()),
    })
}

/// The device that the first line is of, as `disk rbps=10M`; none for all devices.
fn named_device(text: &str) -> Option<&str> {
    let (first, _) = text.lines().next()?.trim().split_once(char::is_whitespace)?;
    let is_value = first == "default" || first == "max" || first.contains('=');
    // As well as the kernel's number of a disk.
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    (!is_value && !is_number).then_some(first)
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
            done(daemon, &files, || {
                show::files(&settings) + &crate::cluster::set_for_all(&client, group)
            })
        }
    }
}

fn move_to(args: &MoveArgs) -> Result<(), Failure> {
    let MoveArgs { export, connection, pid, group, daemon, keep } = args;
    if keep.save && export.is_none() {
        return Err(Failure::usage(
            "--save: connections and processes are in no file: move an export, or write a rule",
        ));
    }
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
    let saver = Saver::open(&client, keep.save)?;
    let to = client.move_to_group(&change).map_err(Failure::new)?;
    if let Some(saver) = saver {
        let exports = client.status().map_err(Failure::new)?.exports;
        // It names its group, which has to be in the file as well.
        saver.save(|document| {
            document.name_group(&to.group)?;
            document.exports(&exports)
        })?;
    }
    done(daemon, &to, || show::one(&to))
}
