//! What `iopace group` prints for people.

use crate::output::{finish, right, table};
use crate::units::{size, time};
use comfy_table::Cell;
use iopace_daemon::api::{
    ConnectionReport, EffectiveReport, FileReport, GroupReport, ProcessesReport, StatReport,
    Written,
};
use std::fmt::Write as _;

/// Connections named in a table; `--connections` and `--format json` have all.
const CONNECTIONS_SHOWN: usize = 8;

/// Groups with who pays as them and what is set.
pub fn list(groups: &[GroupReport]) -> String {
    let mut rows = table(["group", "exports", "connections", "processes", "settings"]);
    for group in groups {
        let processes = match group.processes_count {
            0 => String::new(),
            count => count.to_string(),
        };
        let cells = [group.exports.join(", "), numbers(group), processes, settings(group)];
        rows.add_row([group.group.clone()].into_iter().chain(cells));
    }
    finish(&rows, 0)
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
    let files = group.files.iter().map(|(file, text)| {
        let lines: Vec<&str> = text.lines().collect();
        format!("{file}: {}", lines.join(", "))
    });
    files.collect::<Vec<_>>().join("; ")
}

/// The groups as a tree; the first is the top.
pub fn tree(groups: &[GroupReport]) -> String {
    let mut text = String::new();
    let depth = |path: &str| if path == "/" { 0 } else { path.matches('/').count() };
    let top = groups.first().map_or(0, |group| depth(&group.group));
    for (at, group) in groups.iter().enumerate() {
        let level = depth(&group.group) - top;
        for above in 1..level {
            let goes_on = continues(&groups[at + 1..], top + above, depth);
            text.push_str(if goes_on { "│  " } else { "   " });
        }
        if level == 0 {
            text.push_str(&group.group);
        } else {
            let goes_on = continues(&groups[at + 1..], top + level, depth);
            let name = group.group.rsplit('/').next().unwrap_or_default();
            let _ = write!(text, "{} {name}", if goes_on { "├─" } else { "└─" });
        }
        let connections = counted(group.connections.len(), "connection", "connections");
        let processes = counted(group.processes_count, "process", "processes");
        let notes = [exports(group), connections, processes, settings(group)];
        let notes: Vec<String> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        if !notes.is_empty() {
            let _ = write!(text, "  ({})", notes.join("; "));
        }
        text.push('\n');
    }
    text
}

/// Whether another group of this depth comes before one that is less deep.
fn continues(rest: &[GroupReport], level: usize, depth: impl Fn(&str) -> usize) -> bool {
    let next = rest.iter().map(|group| depth(&group.group)).find(|found| *found <= level);
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
pub fn connections(all: &[ConnectionReport]) -> String {
    let mut rows = table(["connection", "export", "group", "follows"]);
    for one in all {
        let follows = if one.moved { "nothing: moved or named" } else { "its export" };
        let cells = [&*one.export, &one.group, follows].map(Cell::new);
        rows.add_row([right(one.connection)].into_iter().chain(cells));
    }
    finish(&rows, 0)
}

/// Processes with their groups.
pub fn processes(report: &ProcessesReport) -> String {
    let mut rows = table(["pid", "program", "group", "why"]);
    for one in &report.processes {
        let why = if one.moved { "moved, or its parent was" } else { "a rule, or the default" };
        let cells = [&*one.program, &one.group, why].map(Cell::new);
        rows.add_row([right(one.pid)].into_iter().chain(cells));
    }
    let mut text = finish(&rows, 0);
    if report.left_out_count > 0 {
        let _ = writeln!(text, "{} more processes", report.left_out_count);
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
        for one in &file.effective {
            rows.add_row([&*file.file, &one.device, &one.value, source(one)]);
        }
    }
    finish(&rows, 0)
}

/// What holds on the devices that were asked for.
pub fn effective(file: &FileReport) -> String {
    let lines = file.effective.iter();
    lines.map(|one| format!("{} {} ({})\n", one.device, one.value, source(one))).collect()
}

fn source(effective: &EffectiveReport) -> &'static str {
    match &*effective.source {
        "device" => "line of the device",
        "group" => "default of the group",
        "device default" => "default of the device",
        _ => "built in",
    }
}

/// What groups did on each device.
pub fn stat(report: &StatReport) -> String {
    let mut rows = table([
        "group", "device", "reads", "read", "writes", "written", "buffered", "failed", "mean",
        "p99", "waiting", "waited",
    ]);
    for group in &report.groups {
        for on in &group.devices {
            rows.add_row([
                Cell::new(&group.group),
                Cell::new(&on.device),
                right(on.rios),
                right(size(on.rbytes)),
                right(on.wios),
                right(size(on.wbytes)),
                right(size(on.buffered_bytes)),
                right(on.failed),
                right(time(on.latency.mean_ns)),
                right(time(on.latency.p99_ns)),
                right(on.waiting_count),
                right(waited(&on.pressure)),
            ]);
        }
    }
    let mut text = finish(&rows, 0);
    if report.left_out_count > 0 {
        let _ =
            writeln!(text, "{} more groups: name one to see those below it", report.left_out_count);
    }
    text
}

/// `avg10` of the line `some`.
fn waited(pressure: &str) -> String {
    let first = pressure.lines().next().unwrap_or_default();
    let share = first.split(' ').find_map(|word| word.strip_prefix("avg10="));
    format!("{} %", share.unwrap_or("0.00"))
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
            files: Default::default(),
        };
        let mut all = ["/", "/a", "/a/b", "/a/b/c", "/a/d", "/e"].map(group);
        all[2].exports.push("disk".into());
        all[2].connections.push(7);
        all[2].processes_count = 2;
        all[5].files.insert("io.weight".into(), "default 50\ndisk 200\n".into());
        assert_eq!(
            tree(&all),
            "/\n\
             ├─ a\n\
             │  ├─ b  (exports disk; 1 connection; 2 processes)\n\
             │  │  └─ c\n\
             │  └─ d\n\
             └─ e  (io.weight: default 50, disk 200)\n"
        );
        assert_eq!(
            tree(&all[1..5]),
            "/a\n├─ b  (exports disk; 1 connection; 2 processes)\n│  └─ c\n└─ d\n"
        );
    }
}
