//! The report for people.

use super::{DirectoryReport, DoctorReport};
use crate::storage::Layer;
use iopace_daemon::printable;
use std::fmt::Write as _;

/// All of it: what there is, then each finding with its command.
pub fn text(report: &DoctorReport) -> String {
    let mut text = String::new();
    for directory in &report.directories {
        text.push_str(&of_directory(directory));
    }
    match (report.directories.is_empty(), report.findings.len()) {
        (true, 0) => text.push_str(
            "nothing is mounted by iopace, and nothing is missing; 'iopace doctor DIR' looks at a \
             directory\n",
        ),
        (false, 0) => text.push_str("nothing was found\n"),
        (_, 1) => text.push_str("1 finding:\n"),
        (_, count) => drop(writeln!(text, "{count} findings:")),
    }
    for finding in &report.findings {
        // One line each: a name of others may have line ends in it.
        let _ = writeln!(text, "\n{}", printable::name(&finding.text));
        let _ = writeln!(text, "    {}", printable::name(&finding.command));
    }
    text
}

fn of_directory(directory: &DirectoryReport) -> String {
    let mut text = String::new();
    let path = directory.directory.display().to_string();
    let state = |state: &super::MountState| match state.mountpoint == directory.directory {
        true => format!("mounted, {}", state.state),
        false => format!("mounted at {}, {}", state.mountpoint.display(), state.state),
    };
    let mounts: Vec<String> = directory.mounts.iter().map(state).collect();
    let mounts = if mounts.is_empty() { "not mounted".into() } else { mounts.join("; ") };
    let _ = writeln!(text, "{}: {}", printable::name(&path), printable::name(&mounts));
    let at = directory.file_system_at.display().to_string();
    let _ = writeln!(
        text,
        "  {} at {} ({})",
        printable::name(&directory.file_system),
        printable::name(&at),
        printable::name(&directory.options)
    );
    for layer in &directory.layers {
        let _ = writeln!(text, "  {}", printable::name(&of_layer(layer)));
    }
    if directory.layers.is_empty() {
        text.push_str("  on no disk that the kernel knows\n");
    }
    text.push('\n');
    text
}

/// A block device in a line.
pub fn of_layer(layer: &Layer) -> String {
    let mut facts = vec![match layer.kind == "disk" {
        true => layer.detail.clone().unwrap_or_else(|| "disk".into()),
        false => {
            let detail = layer.detail.as_ref().map_or(String::new(), |detail| format!(" {detail}"));
            format!("{}{detail} on {}", layer.kind, layer.below.join(", "))
        }
    }];
    if layer.is_disk() {
        facts.extend(layer.rotational.map(|rotational| match rotational {
            true => "rotational as the kernel has it".to_owned(),
            false => "not rotational".to_owned(),
        }));
        facts.extend(layer.scheduler.as_ref().map(|name| format!("scheduler {name}")));
        facts.extend(layer.nr_requests.map(|count| format!("{count} requests queued")));
        facts.extend(layer.queue_depth.map(|depth| format!("depth {depth}")));
        facts.extend(layer.write_cache.as_ref().map(|cache| format!("cache {cache}")));
    }
    format!("{}: {}", layer.name, facts.join(", "))
}
