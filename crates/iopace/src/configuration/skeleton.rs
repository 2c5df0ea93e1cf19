//! A configuration file for a daemon that was started without one.

use super::Holds;
use super::document::{Document, time};
use crate::output::Failure;
use iopace_daemon::CgroupLimits;
use iopace_daemon::api::{DeviceReport, MountReport};
use std::path::Path;
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// The devices and mounts; their settings are written by [`Document`].
///
/// # Errors
/// A name that a file cannot have.
pub(super) fn of(holds: &Holds) -> Result<Document, Failure> {
    let mut text = DocumentMut::new();
    let (mut devices, mut mounts) = (ArrayOfTables::new(), ArrayOfTables::new());
    let mut groups = Table::new();
    groups.set_implicit(true);
    for device in &holds.devices {
        match holds.mounts.iter().find(|mount| mount.device == device.name) {
            Some(of_it) => {
                mounts.push(mount(of_it, device));
                for group in of_it.rules.iter().filter_map(|rule| group_of(rule)) {
                    groups.entry(group).or_insert_with(|| Item::Table(Table::new()));
                }
                let default = of_it.group.as_str();
                if default != "/" {
                    groups.entry(default).or_insert_with(|| Item::Table(Table::new()));
                }
            }
            None => devices.push(served(device)),
        }
    }
    for (key, tables) in [("device", devices), ("mount", mounts)] {
        if !tables.is_empty() {
            text.insert(key, Item::ArrayOfTables(tables));
        }
    }
    groups.remove("/");
    if !groups.is_empty() {
        text.insert("group", Item::Table(groups));
    }
    Document::parse(Path::new("iopace.toml"), &text.to_string())
}

fn served(device: &DeviceReport) -> Table {
    let mut table = Table::new();
    table.insert("name", value(&device.name));
    if let Some(path) = &device.path {
        table.insert("file", value(path));
    }
    if let Some(model) = &device.model {
        table.insert("emulate", value(model));
        if let Some(size) = device.size_bytes {
            table.insert("size", value(size.to_string()));
        }
    }
    if let Some(remote) = &device.remote {
        table.insert("nbd", value(&remote.uri));
        if let Some(patience) = remote.patience_ns {
            table.insert("reconnect-patience", value(time(patience)));
        }
    }
    flags(&mut table, device);
    if device.direct && device.remote.is_none() {
        table.insert("direct", value(true));
    }
    table
}

fn mount(mount: &MountReport, device: &DeviceReport) -> Table {
    let mut table = Table::new();
    table.insert("name", value(&device.name));
    let mountpoint = mount.mountpoint.display().to_string();
    let directory = device.path.as_ref().unwrap_or(&mountpoint);
    table.insert("dir", value(directory));
    if *directory != mountpoint {
        table.insert("mountpoint", value(mountpoint));
    }
    if let Some(model) = &device.model {
        table.insert("emulate", value(model));
    }
    flags(&mut table, device);
    if mount.group != "/" {
        table.insert("group", value(&mount.group));
    }
    if mount.cgroup_limits == CgroupLimits::Ignore.word() {
        table.insert("cgroup-limits", value(&mount.cgroup_limits));
    }
    let mut rules = ArrayOfTables::new();
    for rule in &mount.rules {
        let Some((word, rest)) = rule.split_once('=') else { continue };
        let mut one = Table::new();
        match rest.split_once(":/") {
            Some((who, group)) => {
                one.insert(word, value(who));
                one.insert("group", value(format!("/{group}")));
            }
            None => _ = one.insert(word, value(rest)),
        }
        rules.push(one);
    }
    if !rules.is_empty() {
        table.insert("rule", Item::ArrayOfTables(rules));
    }
    table
}

fn flags(table: &mut Table, device: &DeviceReport) {
    if device.read_only {
        table.insert("read-only", value(true));
    }
}

/// The group that a rule names, as in `program=rsync:/backup`.
fn group_of(rule: &str) -> Option<&str> {
    rule.find(":/").map(|at| &rule[at + 1..])
}
