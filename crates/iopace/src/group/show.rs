//! What `iopace group` prints for people.

use crate::machine::DaemonAnswer;
use crate::output::{finish, line_width, right, table, wrapped};
use comfy_table::Cell;
use iopace_daemon::api::{
    ConnectionReport, EffectiveReport, FileReport, GroupReport, ProcessReport, SOURCE_CLUSTER,
    Written,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Connections named in a table; `--connections` and `--format json` have all.
const CONNECTIONS_SHOWN: usize = 8;

/// An answer of a daemon, with its devices if there are several daemons.
#[derive(Debug)]
pub struct Row<T: Serialize> {
    /// The devices.
    pub devices: Option<String>,
    /// The answer.
    pub told: DaemonAnswer<T>,
}

/// The title of the column of devices, if there is one.
fn devices_title<T: Serialize>(rows: &[Row<T>]) -> Option<&'static str> {
    rows.iter().any(|row| row.devices.is_some()).then_some("devices")
}

/// Groups with who pays as them and what is set.
pub fn list(groups: &[Row<GroupReport>]) -> String {
    let titles = ["group"].into_iter().chain(devices_title(groups));
    let mut rows = table(titles.chain(["exports", "connections", "processes", "settings"]));
    for Row { devices, told } in groups {
        let first = [told.report.group.clone()].into_iter().chain(devices.clone());
        rows.add_row(first.chain(payers(&told.report)));
    }
    finish(&rows, 0)
}

/// One of them.
pub fn one(group: &GroupReport) -> String {
    let mut rows = table(["group", "exports", "connections", "processes", "settings"]);
    rows.add_row([group.group.clone()].into_iter().chain(payers(group)));
    finish(&rows, 0)
}

/// The payers of a group, and its settings.
fn payers(group: &GroupReport) -> [String; 4] {
    let processes = match group.processes_count {
        0 => String::new(),
        count => count.to_string(),
    };
    [group.exports.join(", "), numbers(group), processes, settings(group)]
}

fn numbers(group: &GroupReport) -> String {
    let shown = group.connections.iter().take(CONNECTIONS_SHOWN);
    let mut text = shown.map(u64::to_string).collect::<Vec<_>>().join(", ");
    let more = group.connections.len().saturating_sub(CONNECTIONS_SHOWN);
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// What is set, on one line.
fn settings(group: &GroupReport) -> String {
    let told = |of: &str, files: &BTreeMap<String, String>| -> Vec<String> {
        let told = |(file, text): (&String, &String)| {
            let lines: Vec<&str> = text.lines().collect();
            format!("{of}{file}: {}", lines.join(", "))
        };
        files.iter().map(told).collect()
    };
    let mut all = told("", &group.files);
    all.extend(told("of the cgroup: ", &group.cgroup_files));
    all.extend(told("for all hosts: ", &group.cluster_files));
    all.join("; ")
}

/// The groups as a tree; the first is the top. A group of several daemons is one.
pub fn tree(groups: &[Row<GroupReport>]) -> String {
    tree_within(groups, line_width())
}

/// The same in so many columns: what has no room behind a group goes below it.
fn tree_within(groups: &[Row<GroupReport>], columns: u16) -> String {
    let mut nodes: Vec<(&str, Vec<String>)> = Vec::new();
    for Row { devices, told } in groups {
        let (group, notes) = (&*told.report.group, notes(&told.report));
        let notes = match devices {
            Some(devices) if !notes.is_empty() => format!("{devices}: {notes}"),
            _ => notes,
        };
        match nodes.last_mut().filter(|(last, _)| *last == group) {
            Some((_, all)) => all.push(notes),
            None => nodes.push((group, vec![notes])),
        }
    }
    let mut text = String::new();
    let depth = |path: &str| if path == "/" { 0 } else { path.matches('/').count() };
    let top = nodes.first().map_or(0, |(group, _)| depth(group));
    for (at, (group, notes)) in nodes.iter().enumerate() {
        let level = depth(group) - top;
        let goes_on = |level: usize| continues(&nodes[at + 1..], top + level, depth);
        let bar = |level: usize| if goes_on(level) { "│  " } else { "   " };
        let bars: String = (1..level).map(bar).collect();
        let name = group.rsplit('/').next().unwrap_or_default();
        let line = match level {
            0 => (*group).to_owned(),
            _ => format!("{bars}{} {name}", if goes_on(level) { "├─" } else { "└─" }),
        };
        let notes: Vec<&str> =
            notes.iter().map(|note| &**note).filter(|note| !note.is_empty()).collect();
        let notes = format!("({})", notes.join(" | "));
        let _ = match (&*notes, line.chars().count() + 2 + notes.chars().count()) {
            ("()", _) => writeln!(text, "{line}"),
            (_, length) if length <= usize::from(columns) => writeln!(text, "{line}  {notes}"),
            _ => {
                let bars = if level == 0 { bars } else { bars + bar(level) };
                let below = wrapped(&notes, &format!("{bars}  "), columns);
                write!(text, "{line}\n{below}")
            }
        };
    }
    text
}

/// The same on one line.
fn notes(group: &GroupReport) -> String {
    let connections = counted(group.connections.len(), "connection", "connections");
    let processes = counted(group.processes_count, "process", "processes");
    let notes = [exports(group), connections, processes, settings(group)];
    let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
    notes.join("; ")
}

/// Whether another group of this depth comes before one that is less deep.
fn continues<T>(rest: &[(&str, T)], level: usize, depth: impl Fn(&str) -> usize) -> bool {
    let next = rest.iter().map(|(group, _)| depth(group)).find(|found| *found <= level);
    next == Some(level)
}

fn exports(group: &GroupReport) -> String {
    match &*group.exports {
        [] => String::new(),
        all => format!("exports {}", all.join(", ")),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    }
}

/// Connections with their groups.
pub fn connections(all: &[Row<ConnectionReport>]) -> String {
    let titles = ["connection"].into_iter().chain(devices_title(all));
    let is_certified = all.iter().any(|row| row.told.report.certificate.is_some());
    let last = is_certified.then_some("certificate");
    let mut rows = table(titles.chain(["export", "group", "follows"]).chain(last));
    for Row { devices, told } in all {
        let one = &told.report;
        let follows = match (one.moved, &one.certificate) {
            (false, _) => "its export",
            (true, None) => "nothing: moved or named",
            (true, Some(_)) => "nothing: moved or by its certificate",
        };
        let certificate = is_certified.then(|| one.certificate.as_deref().unwrap_or_default());
        let cells = [&*one.export, &one.group, follows].into_iter().chain(certificate);
        let cells = cells.map(Cell::new);
        let first = [right(one.connection)].into_iter().chain(devices.as_ref().map(Cell::new));
        rows.add_row(first.chain(cells));
    }
    finish(&rows, 0)
}

/// Processes with their groups; so many more are not listed.
pub fn processes(all: &[Row<ProcessReport>], left_out_count: usize) -> String {
    let titles = ["pid", "program"].into_iter().chain(devices_title(all));
    let mut rows = table(titles.chain(["group", "why"]));
    for Row { devices, told } in all {
        let one = &told.report;
        let why = if one.moved { "moved, or its parent was" } else { "a rule, or the default" };
        let first = [right(one.pid), Cell::new(&one.program)].into_iter();
        let first = first.chain(devices.as_ref().map(Cell::new));
        rows.add_row(first.chain([&*one.group, why].map(Cell::new)));
    }
    let mut text = finish(&rows, 0);
    if left_out_count > 0 {
        let _ = writeln!(text, "{left_out_count} more processes");
    }
    text
}

/// What a write did.
pub fn written(written: &Written) -> String {
    let Written { group, file, text, changed_devices, .. } = written;
    let changed = match &**changed_devices {
        [] => "nothing else holds than before".into(),
        devices => format!("changed on {}", devices.join(", ")),
    };
    let mut told = format!("{group} {file}: {changed}\n");
    for line in text.lines() {
        let _ = writeln!(told, "  {line}");
    }
    told
}

/// All settings of a group, with where they come from.
pub fn files(files: &[&FileReport]) -> String {
    let mut rows = table(["file", "device", "value", "set by"]);
    for file in files {
        for one in shown(file) {
            rows.add_row([&*file.file, &one.device, &one.value, source(one)]);
        }
    }
    finish(&rows, 0)
}

/// What holds on the devices that were asked for.
pub fn effective(file: &FileReport) -> String {
    shown(file).map(|one| format!("{} {} ({})\n", one.device, one.value, source(one))).collect()
}

/// The values that say something: of a device for which one is set on all hosts, not that there is
/// none of this host.
fn shown(file: &FileReport) -> impl Iterator<Item = &EffectiveReport> {
    let of_cluster = |device: &str| {
        file.effective.iter().any(|one| one.device == device && one.source == SOURCE_CLUSTER)
    };
    file.effective.iter().filter(move |one| one.source != "built in" || !of_cluster(&one.device))
}

fn source(effective: &EffectiveReport) -> &'static str {
    match &*effective.source {
        SOURCE_CLUSTER => "for all hosts of the volume",
        "device" => "line of the device",
        "group" => "default of the group",
        "cgroup" => "cgroup of the kernel",
        "device default" => "default of the device",
        _ => "built in",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_drawn_with_its_branches() {
        let group = |path: &str| GroupReport {
            group: path.into(),
            exports: Vec::new(),
            connections: Vec::new(),
            processes_count: 0,
            made: false,
            files: Default::default(),
            cgroup_files: Default::default(),
            cluster_files: Default::default(),
        };
        let mut all = ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/e"].map(group);
        all[2].exports.push("disk".into());
        all[2].connections.push(7);
        all[2].processes_count = 2;
        all[5].files.insert("io.weight".into(), "default 50\ndisk 200\n".into());
        all[5].cgroup_files.insert("io.max".into(), "disk wbps=7\n".into());
        let rows = |all: &[GroupReport], devices: Option<&str>| -> Vec<Row<GroupReport>> {
            let row = |report: &GroupReport| Row {
                devices: devices.map(str::to_owned),
                told: DaemonAnswer { control: None, report: report.clone() },
            };
            all.iter().map(row).collect()
        };
        assert_eq!(
            tree(&rows(&all, None)),
            "/\n\
             ├─ a\n\
             │  ├─ b  (exports disk; 1 connection; 2 processes)\n\
             │  │  └─ c\n\
             │  └─ d\n\
             └─ e  (io.weight: default 50, disk 200; of the cgroup: io.max: disk wbps=7)\n"
        );
        assert_eq!(
            tree(&rows(&all[1..5], None)),
            "/a\n├─ b  (exports disk; 1 connection; 2 processes)\n│  └─ c\n└─ d\n"
        );
        // On a narrow terminal.
        assert_eq!(
            tree_within(&rows(&all[1..], None), 40),
            "/a\n\
             ├─ b\n\
             │    (exports disk; 1 connection; 2\n\
             │    processes)\n\
             │  └─ c\n\
             └─ d\n\
             /e\n  (io.weight: default 50, disk 200; of\n  the cgroup: io.max: disk wbps=7)\n"
        );
        // Of two daemons: one tree.
        let mut both = rows(&all[1..3], Some("x"));
        both.extend(rows(&all[2..3], Some("y")));
        assert_eq!(
            tree(&both),
            "/a\n└─ b  (x: exports disk; 1 connection; 2 processes | y: exports disk; 1 \
             connection; 2 processes)\n"
        );
    }
}
