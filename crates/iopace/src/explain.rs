//! `iopace explain`: why requests wait, and what would change it.

use crate::cli::ExplainArgs;
use crate::machine::{DaemonAnswer, Machine};
use crate::output::{self, Failure, Format, finish, print, print_json, right, table};
use crate::running::Sought;
use crate::units::{percent, shell_word, size, time};
use comfy_table::Cell;
use iopace_daemon::api::{
    BelowReport, Cause, ExplainReport, Explained, ExplainedDevice, Holding, Remedy, TaskTime,
    TimePart, WaitingGroup, scheduler_words,
};
use serde::Serialize;
use std::fmt::Write as _;

/// Causes below this part, in thousandths, are named in the table and not explained.
const EXPLAINED_PERMILLE: u32 = 50;

/// So many settings that help are shown.
const HELPS_MAX: usize = 2;

/// Carries out the command.
///
/// # Errors
/// No daemon, or no such group or device, with those that there are.
pub fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let ExplainArgs { subject, over, look, device, daemon } = args;
    let (group, named) = match subject.as_deref() {
        Some(subject) if subject.starts_with('/') => (Some(subject), None),
        other => (None, other),
    };
    if let (Some(_), Some(_)) = (named, device) {
        let message =
            "the device is named twice: leave --device away, or name a group, as /vms/web";
        return Err(Failure::usage(message));
    }
    let device = named.or(device.as_deref());
    let sought = Sought { device, group, ..Sought::default() };
    let machine = Machine::find(daemon.control.as_deref(), sought)?;
    let device = machine.device();
    let answers = machine.ask(|client| client.explain(group, device, (*over, *look)))?;
    let (mut over_ns, mut devices) = (0, Vec::new());
    for (member, ExplainReport { over_ns: over, devices: of_one }) in answers {
        over_ns = over_ns.max(over);
        devices.extend(of_one.into_iter().map(|mut device| {
            let control = match (&daemon.control, machine.is_one()) {
                // A command to be pasted goes to the daemon that it is about.
                (None, false) => Some(member.client.path().display().to_string()),
                (control, _) => control.as_ref().map(|path| path.display().to_string()),
            };
            device.device = member.shown(&device.device);
            (machine.told(member, device), control)
        }));
    }
    match daemon.format.format {
        Format::Json => {
            let devices = devices.into_iter().map(|(told, _)| told).collect();
            print_json(&Explanation { over_ns, devices })
        }
        Format::Table => {
            let each = devices.iter();
            let each =
                each.map(|(told, control)| one(&told.report, group.is_some(), control.as_deref()));
            print(&each.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The answers of all daemons, for programs.
#[derive(Serialize)]
struct Explanation {
    over_ns: u64,
    devices: Vec<DaemonAnswer<ExplainedDevice>>,
}

fn one(told: &ExplainedDevice, of_group: bool, control: Option<&str>) -> String {
    let explained = &told.explained;
    let mut text = match &told.worst {
        Some(worst) => worst_first(told, worst, control),
        None => in_full(explained, "", control),
    };
    if !explained.causes.is_empty() && (explained.held_up || !of_group) {
        text.push_str(&holdings(&told.holdings));
    }
    if let Some(below) = &told.below {
        text.push_str(&below_iopace(below, &explained.summary, control));
    }
    text.push_str(&scheduler(told));
    text.push_str(&window(told));
    text
}

/// Where the time of tasks goes, the disk included, and what helps as far as it was replayed.
fn below_iopace(below: &BelowReport, summary: &str, control: Option<&str>) -> String {
    let BelowReport { over_ns, recorded_count, left_out_count, .. } = below;
    let left_out = match left_out_count {
        0 => String::new(),
        count => format!(", {count} more left out"),
    };
    let over = time(*over_ns);
    let mut text = format!(
        "\nWhere time goes, the disk included ({over}, {recorded_count} ended{left_out}):\n"
    );
    text.push_str(&tasks(&below.tasks));
    if !summary.contains(&*below.text) {
        text.push_str(&wrapped(&below.text, "  "));
    }
    for tried in below.tried.iter().filter(|tried| tried.helps).take(HELPS_MAX) {
        let effect = tried.text.clone();
        let price = match &tried.payer {
            Some(payer) => format!(
                "{}, as told; what the disk loses by another order is not in a replay",
                payer.task
            ),
            None => "what the disk loses by another order is not in a replay".into(),
        };
        text.push_str(&shown(&tried.command, [&effect, &price], control));
    }
    text
}

fn tasks(all: &[TaskTime]) -> String {
    let columns = [
        "task",
        "group",
        "waits for",
        "each",
        "held",
        "disk itself",
        "behind own",
        "behind others",
        "past iopace",
    ];
    let mut rows = table(columns);
    for task in all {
        let share = |of: &dyn Fn(&TimePart) -> bool| {
            let parts = task.parts.iter().filter(|part| of(part));
            let share = parts.map(|part| part.share_permille).sum::<u32>();
            right(if share == 0 { "-".into() } else { percent(share) })
        };
        rows.add_row([
            Cell::new(&task.task),
            Cell::new(&task.group),
            Cell::new(&task.kind),
            right(time(task.each_ns)),
            share(&|part| part.part == "held"),
            share(&|part| part.part == "service"),
            share(&|part| part.part == "behind" && part.of == "own"),
            share(&|part| part.part == "behind" && part.of != "own"),
            share(&|part| part.part == "past"),
        ]);
    }
    finish(&rows, 2)
}

/// How many requests the disk may hold, if these are fewer than was set.
fn window(told: &ExplainedDevice) -> String {
    let Some(window) = &told.window else { return String::new() };
    let Some(why) = window.narrowed_words() else { return String::new() };
    let (device, policy, depth) = (&told.device, &window.policy, window.depth);
    format!("Window of {device}: {policy}, depth {depth}, less than was set: {why}\n")
}

/// The scheduler at work, how it came to be, and its opinion about the disk.
fn scheduler(told: &ExplainedDevice) -> String {
    let words = match told.failure {
        Some(_) => String::new(),
        None => scheduler_words(told.inserted, told.auto, told.disk.as_ref()),
    };
    let words = if words.is_empty() { words } else { format!(" ({words})") };
    let mut text = format!("\nScheduler of {}: {}{words}\n", told.device, told.scheduler);
    if let Some(failure) = &told.failure {
        let why = format!("It stands in for one that failed: {failure}.");
        text.push_str(&wrapped(&why, "  "));
    }
    text
}

/// Who is worst off, the others that wait, and the device in a few lines: its sum says most of who
/// asks most.
fn worst_first(told: &ExplainedDevice, worst: &Explained, control: Option<&str>) -> String {
    let lead = format!("Worst off is {} on {}. ", worst.group, told.device);
    let mut text = in_full(worst, &lead, control);
    let others: Vec<&WaitingGroup> =
        told.groups.iter().filter(|group| group.group != worst.group).collect();
    if !others.is_empty() {
        text.push_str("\nOthers that wait:\n");
        text.push_str(&groups(&others, told.groups_left_out_count));
    }
    let device = &told.explained;
    text.push_str("\nAll together:\n");
    text.push_str(&wrapped(&device.summary, "  "));
    if !device.causes.is_empty() {
        text.push('\n');
        text.push_str(&causes(&device.causes));
    }
    text
}

/// All that is to be said about a group or a device, with what would change it.
fn in_full(explained: &Explained, lead: &str, control: Option<&str>) -> String {
    let mut text = wrapped(&format!("{lead}{}", explained.summary), "");
    if explained.causes.is_empty() {
        return text;
    }
    text.push('\n');
    text.push_str(&causes(&explained.causes));
    let is_told = |cause: &&Cause| cause.share_permille >= EXPLAINED_PERMILLE;
    for cause in explained.causes.iter().filter(is_told) {
        text.push('\n');
        let told = format!("{}: {}", cause.word, cause.text);
        text.push_str(wrapped(&told, "  ").trim_start());
        for remedy in &cause.remedies {
            let Remedy { command, effect, price, .. } = remedy;
            text.push_str(&shown(command, [effect, price], control));
        }
    }
    text
}

fn shown(command: &str, [effect, price]: [&str; 2], control: Option<&str>) -> String {
    let control = control.filter(|_| !command.contains("iopace serve"));
    let control = control.map(|path| format!(" --control {}", shell_word(path)));
    let effect = wrapped(effect, "      ");
    let price = wrapped(&format!("price: {price}"), "      ");
    format!("    {command}{}\n{effect}{price}", control.unwrap_or_default())
}

fn causes(causes: &[Cause]) -> String {
    let each = |each: u64| right(if each == 0 { "-".into() } else { time(each) });
    // One has a column of its own where there is any.
    let has_writes = causes.iter().any(|cause| cause.per_buffered_write_ns > 0);
    let has_requests = !has_writes || causes.iter().any(|cause| cause.per_request_ns > 0);
    let requests = has_requests.then_some("each request");
    let writes = has_writes.then_some("each write");
    let columns = ["why", "share"].into_iter().chain(requests).chain(writes).chain(["now"]);
    let mut rows = table(columns);
    for cause in causes {
        let requests = has_requests.then(|| each(cause.per_request_ns));
        let writes = has_writes.then(|| each(cause.per_buffered_write_ns));
        let first = [Cell::new(&cause.word), right(percent(cause.share_permille))];
        let now = [right(cause.now_count)];
        rows.add_row(first.into_iter().chain(requests).chain(writes).chain(now));
    }
    finish(&rows, 2)
}

fn groups(groups: &[&WaitingGroup], left_out_count: usize) -> String {
    let mut rows = table(["group", "why", "share", "each waits", "now", "what it means"]);
    for group in groups {
        let word = match &*group.kind {
            "" => group.word.clone(),
            kind => format!("{kind}: {}", group.word),
        };
        rows.add_row([
            Cell::new(&group.group),
            Cell::new(word),
            right(percent(group.share_permille)),
            right(time(group.each_waits_ns)),
            right(group.waiting_count),
            Cell::new(&group.text),
        ]);
    }
    let mut text = finish(&rows, 2);
    if left_out_count > 0 {
        let _ = writeln!(text, "  {left_out_count} more groups wait: name one to see why");
    }
    text
}

fn holdings(all: &[Holding]) -> String {
    let mut text = String::from("\nWho holds what:\n");
    for Holding { what, held, of, parts } in all {
        let amount = |amount: u64| match &**what {
            "disk time" => time(amount),
            "dirty memory" => size(amount),
            _ => amount.to_string(),
        };
        let of = match of {
            0 => String::new(),
            of => format!(" of {}", amount(*of)),
        };
        let parts = parts.iter().map(|part| {
            format!("{} {} ({})", part.group, amount(part.held), percent(part.share_permille))
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        text.push_str(&wrapped(&format!("{what}, {}{of}: {parts}", amount(*held)), "  "));
    }
    if all.is_empty() { String::new() } else { text }
}

/// Running text in lines, each after `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    output::wrapped(text, indent, output::text_width())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_text_is_broken_between_words() {
        let text = "word ".repeat(30);
        for (columns, count) in [(100, 2), (80, 2), (60, 3)] {
            let lines = output::wrapped(text.trim(), "  ", columns);
            let fits = |line: &str| line.len() <= columns.into() && line.starts_with("  word");
            assert!(lines.lines().all(fits), "{columns}: {lines}");
            assert_eq!(lines.lines().count(), count, "{columns}: {lines}");
        }
    }
}
