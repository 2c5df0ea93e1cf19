//! `iopace export`: exports that come and go in a running daemon.

use crate::cli::{DaemonArgs, ExportAddArgs, ExportCommand, ExportRemoveArgs, ExportResizeArgs};
use crate::configuration::Saver;
use crate::machine::{DaemonAnswer, Machine};
use crate::output::{Failure, Format, finish, note, print, print_json, right, table};
use crate::running::{Sought, daemon};
use crate::units;
use comfy_table::Cell;
use iopace_daemon::api::{AddExport, ExportSize, ExportState, RemovedExportReport};
use iopace_daemon::control::Client;
use serde::Serialize;
use std::path::Path;

/// Carries out a command.
///
/// # Errors
/// No daemon, or a refusal, with what would be right.
pub fn run(command: &ExportCommand) -> Result<(), Failure> {
    match command {
        ExportCommand::List(args) => list(args),
        ExportCommand::Add(args) => add(args),
        ExportCommand::Remove(args) => remove(args),
        ExportCommand::Resize(args) => resize(args),
    }
}

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

fn list(daemon: &DaemonArgs) -> Result<(), Failure> {
    let machine = Machine::find(daemon.control.as_deref(), Sought::default())?;
    let answers = machine.ask(Client::exports)?.into_iter();
    let all = answers.flat_map(|(member, told)| {
        let machine = &machine;
        told.into_iter().map(move |export| machine.told(member, export))
    });
    let all: Vec<DaemonAnswer<ExportState>> = all.collect();
    done(daemon, &all, || show(&all))
}

fn show(all: &[DaemonAnswer<ExportState>]) -> String {
    if all.is_empty() {
        return "there are no exports\n".into();
    }
    let mut table = table(["export", "device", "behind it", "size", "group", "clients", ""]);
    for DaemonAnswer { report, .. } in all {
        let words = [
            (report.read_only, "read-only"),
            (report.require_tls, "TLS only"),
            (report.opened, "added"),
        ];
        let words: Vec<&str> = words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
        table.add_row([
            Cell::new(&report.name),
            Cell::new(&report.device),
            Cell::new(report.path.as_deref().unwrap_or("memory")),
            right(units::size(report.size_bytes)),
            Cell::new(&report.group),
            right(report.connections_count),
            Cell::new(words.join(", ")),
        ]);
    }
    finish(&table, 0)
}

fn add(args: &ExportAddArgs) -> Result<(), Failure> {
    let ExportAddArgs { name, device, path, group, daemon: of, keep, .. } = args;
    let absolute = |path: &Path| {
        let path = std::path::absolute(path)
            .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
        path.into_os_string().into_string().map_err(|path| {
            Failure::usage(format!("{}: the path is no UTF-8", path.to_string_lossy()))
        })
    };
    let export = AddExport {
        name: name.clone(),
        device: device.clone(),
        path: path.as_deref().map(absolute).transpose()?,
        group: group.clone(),
        read_only: args.read_only,
        require_tls: args.require_tls,
        raw: args.raw,
        direct: args.direct,
    };
    let (device, group) = (device.as_deref(), group.as_deref());
    let sought = Sought { device, group, ..Sought::default() };
    let client = daemon(of.control.as_deref(), sought)?;
    let saver = Saver::open(&client, keep.save)?;
    if let Some(saver) = &saver {
        saver.check(|document| document.add_export(&export))?;
    }
    let added = client.add_export(&export).map_err(Failure::new)?;
    if let Some(saver) = saver {
        saver.save(|document| document.add_export(&export))?;
    }
    done(of, &added, || {
        let ExportState { name, device, path, size_bytes, read_only, .. } = &added;
        let behind = path.as_deref().map_or(String::new(), |path| format!(" ({path})"));
        let read_only = if *read_only { ", read-only" } else { "" };
        format!("{name}: device {device}{behind}, {}{read_only}\n", units::size(*size_bytes))
    })
}

fn remove(args: &ExportRemoveArgs) -> Result<(), Failure> {
    let ExportRemoveArgs { name, disconnect, daemon: of, keep } = args;
    let sought = Sought { export: Some(name), ..Sought::default() };
    let client = daemon(of.control.as_deref(), sought)?;
    let saver = Saver::open(&client, keep.save)?;
    if let Some(saver) = &saver {
        let all = client.exports().map_err(Failure::new)?;
        if let Some(export) = all.iter().find(|export| export.name == *name) {
            let others = all.iter().filter(|other| other.device == export.device).count() - 1;
            let closed = (export.opened && others == 0).then_some(&*export.device);
            saver.check(|document| document.remove_export(name, closed))?;
        }
    }
    let removed = client.remove_export(name, *disconnect).map_err(Failure::new)?;
    if let Some(saver) = saver {
        let closed = removed.device_closed.then_some(&*removed.device);
        saver.save(|document| document.remove_export(name, closed))?;
    }
    done(of, &removed, || {
        let RemovedExportReport { name, device, ended_count, .. } = &removed;
        let ended = match ended_count {
            0 => String::new(),
            1 => ", 1 client was ended".into(),
            count => format!(", {count} clients were ended"),
        };
        let became = match (removed.device_closed, removed.file_open) {
            (true, _) if removed.may_be_lost => format!(
                "; device {device} is closed, and some of what was written may be lost: the disk \
                 refused it before"
            ),
            (false, _) => format!("; device {device} stays open"),
            (true, false) => format!("; device {device} is closed, and all of it durable"),
            (true, true) => format!(
                "; device {device} is durable, and its file is closed when nobody looks at it any \
                 more"
            ),
        };
        format!("{name}: removed{ended}{became}\n")
    })
}

fn resize(args: &ExportResizeArgs) -> Result<(), Failure> {
    let ExportResizeArgs { name, size, daemon: of } = args;
    let sought = Sought { export: Some(name), ..Sought::default() };
    let client = daemon(of.control.as_deref(), sought)?;
    let resized = client.resize_export(name, size.map(|size| size.get()));
    let resized = resized.map_err(Failure::new)?;
    let ExportSize { export, before_bytes, size_bytes, connections_count, .. } = &resized;
    if before_bytes != size_bytes && *connections_count > 0 {
        note(format_args!(
            "warning: clients that are connected ({connections_count}) go on with the size that \
             they were told: they have to connect again"
        ));
    }
    done(of, &resized, || match before_bytes == size_bytes {
        true => format!("{export}: {} as before\n", units::size(*size_bytes)),
        false => {
            format!("{export}: {}, was {}\n", units::size(*size_bytes), units::size(*before_bytes))
        }
    })
}
