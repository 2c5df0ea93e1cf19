//! What a look says, in sentences.

use crate::api::{BelowReport, KernelReport, TaskTime, TimePart, TriedSetting};
use crate::figures::{percent, permille, reason_word, size, time};
use iopace_core::time::Nanos;
use iopace_core::verdict::Reason;

/// Parts below this, in thousandths, are not told.
const TOLD_PERMILLE: u32 = 10;

/// The answer: where the time of the first task goes, what others have past iopace, and what helps
/// as far as it was replayed.
pub(super) fn text(report: &BelowReport) -> String {
    let loses = report.loses_to_others;
    let Some(first) = report.tasks.first() else { return String::new() };
    let parts: Vec<String> =
        first.parts.iter().filter(|part| part.share_permille >= TOLD_PERMILLE).map(part).collect();
    let TaskTime { task, kind, each_ns, .. } = first;
    let lead = match loses {
        true => format!("{task} loses most to others: its {kind} take {} each", time(*each_ns)),
        false => format!(
            "No task loses much of its time to others. {task} for one: its {kind} take {} each",
            time(*each_ns)
        ),
    };
    let mut sentences = vec![format!("{lead}, of which {}.", joined(&parts))];
    sentences.extend(alone(first));
    sentences.extend(report.kernel.as_ref().and_then(past));
    if loses {
        sentences.push(remedies(report));
    }
    sentences.join(" ")
}

/// `a`, `a and b`, or `a, b and c`.
fn joined(parts: &[String]) -> String {
    match parts {
        [] => "nothing is known".into(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

fn part(TimePart { part, of, each_ns, share_permille }: &TimePart) -> String {
    let share = format!("{} ({})", percent(*share_permille), time(*each_ns));
    match (&**part, &**of) {
        ("held", of) => {
            let word = match Reason::ALL.into_iter().find(|reason| reason.name() == of) {
                Some(reason) => reason_word(reason),
                None => of,
            };
            format!("{share} held by iopace ('{word}')")
        }
        ("behind", "own") => format!("{share} at the disk behind its own other requests"),
        ("behind", of) => {
            format!("{share} at the disk behind requests of {of} that iopace had let through")
        }
        ("past", _) => format!("{share} at the disk behind others who use it past iopace"),
        _ => format!("{share} the disk itself"),
    }
}

/// What the disk's own time is taken from.
fn alone(TaskTime { kind, alone_ns, alone_seen, .. }: &TaskTime) -> Option<String> {
    let each = time(*alone_ns);
    match (alone_ns, alone_seen) {
        (0, _) => None,
        (_, true) => Some(format!("Alone at the disk such {kind} take {each}.")),
        (_, false) => Some(format!(
            "None of its {kind} was alone at the disk: the shortest took {each}, so its own time \
             there may be less than is told."
        )),
    }
}

/// Who else uses the disk, if the kernel tells.
fn past(kernel: &KernelReport) -> Option<String> {
    let KernelReport { disk, scheduler, bytes, own_bytes, queue_ns, own_queue_ns, .. } = kernel;
    let others = bytes.saturating_sub(*own_bytes);
    let of_time = permille(queue_ns.saturating_sub(*own_queue_ns).into(), (*queue_ns).into());
    let below = match &**scheduler {
        "" | "none" => String::new(),
        name => format!(
            " What iopace has let through, the kernel's scheduler for {disk} ({name}) puts in \
             another order."
        ),
    };
    match others > bytes / 20 && kernel.past_queue_ns() > 0 {
        true => Some(format!(
            "Of what {disk} moved, {} did not come from iopace ({} of {}), nor did {} of the time \
             of its requests: others use it past iopace, which no setting of iopace \
             changes.{below}",
            percent(permille(others.into(), (*bytes).into())),
            size(others),
            size(*bytes),
            percent(of_time),
        )),
        false => Some(below.trim().to_owned()).filter(|below| !below.is_empty()),
    }
}

/// The default scheduler is not at work, and would help.
const WORSE: &str = "The scheduler that was set explicitly is worse than the default.";

/// What the default scheduler makes of the time, where another setting helps more.
fn in_place(TriedSetting { setting, each_ns, measured_ns, .. }: &TriedSetting) -> String {
    format!("With {setting} it is {} in place of {}", time(*each_ns), time(*measured_ns))
}

/// What helps of what was tried; what was tried, if nothing does.
fn remedies(report: &BelowReport) -> String {
    let helps: Vec<&TriedSetting> = report.tried.iter().filter(|one| one.helps).collect();
    match (&*helps, &*report.tried) {
        ([best, rest @ ..], _) => {
            let best_text = format!("A setting of iopace would help: {}.", best.text);
            let default = rest.iter().find(|one| one.default);
            match default {
                _ if best.default => format!("{best_text} {WORSE}"),
                Some(default) => format!("{best_text} {WORSE} {}.", in_place(default)),
                None => best_text,
            }
        }
        (_, []) => "No other setting was tried.".into(),
        (_, all) => {
            let all: Vec<String> = all.iter().map(|one| one.setting.clone()).collect();
            format!(
                "Nothing that was tried helps ({} replayed under each of: {}).",
                time(report.over_ns),
                all.join(", ")
            )
        }
    }
}

/// One setting that was tried.
pub(super) fn tried(one: &TriedSetting, kind: &str, over: Nanos) -> String {
    let TriedSetting { setting, each_ns, measured_ns, present_ns, payer, .. } = one;
    let over = time(over.as_nanos());
    let replayed = match is_near(*present_ns, *measured_ns) {
        true => format!("{over} replayed"),
        false => format!(
            "{over} replayed; under the present settings the replay says {}",
            time(*present_ns)
        ),
    };
    let verb = if one.helps { "would have served" } else { "would serve" };
    let pays = payer.as_ref().map_or(String::new(), |payer| {
        format!(
            "; {} has {} of its requests in the same time, each {} instead of {}",
            payer.task,
            percent(payer.served_permille.min(1_000)),
            time(payer.each_ns),
            time(payer.present_ns)
        )
    });
    let believed = match one.serial {
        true => ", by a disk that works on one after the other, as it was seen to do",
        false => "",
    };
    format!(
        "{setting} {verb} these {kind} in {} instead of {} ({replayed}{believed}){pays}",
        time(*each_ns),
        time(*measured_ns)
    )
}

/// Whether two times differ by less than a fifth.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one.max(other) / 5
}
