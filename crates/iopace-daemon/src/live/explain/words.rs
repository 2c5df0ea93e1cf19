//! What a reason means for this group on this device.

use super::super::limits::{Rate, tightest};
use super::super::span::{chain, is_within, place};
use super::holdings::Holders;
use super::shares::Shares;
use super::{Case, OWN_PERMILLE};
use crate::api::{Basis, NARROWED_BY_HOSTS};
use crate::figures::{percent, permille, size, time};
use iopace_core::group::Class;
use iopace_core::verdict::Reason;
use iopace_core::{pace, sched};

/// A group on a device, or the device.
pub(super) fn who(group: &str, device: &str) -> String {
    match group {
        "/" => format!("device {device}"),
        _ => format!("{group} on {device}"),
    }
}

/// What a reason means here; for reads, or buffered writes, alone if that is `kind`.
pub(super) fn cause(case: &Case<'_>, reason: Reason, kind: &str) -> String {
    match reason {
        Reason::Idle => String::new(),
        Reason::Dirty => dirty(case),
        Reason::Memory => memory(case),
        Reason::Slot => slot(case),
        Reason::Budget => budget(case, kind),
        Reason::Turn => turn(case),
        Reason::Anticipation => anticipation(case),
        Reason::Window => window(case),
        Reason::Disk => disk(case),
    }
}

/// Who of the others has most of something, as `/vms/db has 70 % of ...`.
fn top_other(case: &Case<'_>, holders: &Holders<'_>, what: &str) -> String {
    let is_other = |path: &str| case.group == "/" || !is_within(path, case.group);
    match holders.largest(is_other) {
        Some((path, share)) => {
            let path = if path == "/" { "what pays as the root" } else { path };
            format!("{path} has {} of {what}", percent(share))
        }
        None => format!("nobody else has any of {what}"),
    }
}

/// Whether the group itself has nearly all of something. All that there is on a device is its own,
/// and says nothing: then it is told who of the groups has most.
fn is_own(case: &Case<'_>, holders: &Holders<'_>) -> bool {
    let has_groups = holders.parts.iter().any(|(path, _)| *path != "/");
    (case.group != "/" || !has_groups) && case.own_permille(holders) >= OWN_PERMILLE
}

fn whose_dirty(case: &Case<'_>) -> String {
    match is_own(case, &case.held.dirty) {
        true => "it is its own".into(),
        false => top_other(case, &case.held.dirty, "it"),
    }
}

fn dirty(case: &Case<'_>) -> String {
    let Some(pace) = &case.span.last.pace else {
        return "its writers are slowed down to a rate".into();
    };
    let picture = &pace.picture;
    let cleaned = match picture.write_bandwidth_bytes_s {
        0 => String::new(),
        rate => format!(", {}/s", size(rate)),
    };
    let whose = whose_dirty(case);
    format!(
        "its writers dirty memory faster than the disk cleans it{cleaned}, and stage pace \
         ({}) slows them down to that; {} is dirty, {whose}",
        pace.policy,
        size(picture.dirty_bytes),
    )
}

fn memory(case: &Case<'_>) -> String {
    let Some(pace) = &case.span.last.pace else {
        return "as much memory is dirty as may be".into();
    };
    let whose = whose_dirty(case);
    let picture = &pace.picture;
    format!(
        "as much memory is dirty as may be, {} of {}, and writers wait until the disk has cleaned \
         some; {whose}",
        size(picture.dirty_bytes),
        size(picture.limit_bytes),
    )
}

/// Why no slot is free for a group.
pub(super) enum SlotCause<'a> {
    /// This group, it or one above it, has all that it may have.
    Max(&'a str, u32),
    /// The device has free ones: another group's target narrows it.
    Target(String, u64),
    /// It has nearly all itself.
    Own,
    /// Others have them.
    Others,
}

pub(super) fn slot_cause<'a>(case: &Case<'a>) -> SlotCause<'a> {
    let (span, group) = (case.span, case.group);
    let full = chain(group).find_map(|path| {
        let max = case.settings.get(path)?.slots.max?;
        (span.now(path)?.slots_taken_count >= max).then_some((path, max))
    });
    if let Some((path, max)) = full {
        return SlotCause::Max(path, max);
    }
    let taken = span.now("/").map_or(0, |root| root.slots_taken_count);
    if taken < span.last.queue.nr_requests {
        let target = case.settings.iter().filter(|(path, _)| !is_within(path, group));
        let target = target.filter(|(path, _)| !is_within(group, path));
        let target = target.filter_map(|(path, of)| Some((path, of.latency?.as_nanos())));
        if let Some((path, target)) = target.min_by_key(|(_, target)| *target) {
            return SlotCause::Target(path.clone(), target);
        }
    }
    match is_own(case, &case.held.slots) {
        true => SlotCause::Own,
        false => SlotCause::Others,
    }
}

fn slot(case: &Case<'_>) -> String {
    let nr_requests = case.span.last.queue.nr_requests;
    match slot_cause(case) {
        SlotCause::Max(path, max) => {
            format!("{path} has all {max} slots that it may have (io.nr_group_requests)")
        }
        SlotCause::Target(path, target) => format!(
            "it is narrowed so that {path} has its latency of {} (io.latency)",
            time(target)
        ),
        SlotCause::Own => format!(
            "all {nr_requests} slots of the device are taken by its own requests: it submits more \
             at once than the device takes"
        ),
        SlotCause::Others => {
            let holders = &case.held.slots;
            let whose = top_other(case, holders, "those taken");
            format!("all {nr_requests} slots of the device are taken; {whose}")
        }
    }
}

/// The limits that requests wait for, the tightest first, each with the group that has it. `kind`:
/// as of [`cause`]. None if they wait for the cap of a process rather than for a limit.
pub(super) fn limits<'a>(case: &Case<'a>, kind: &str) -> Vec<(&'a str, Rate)> {
    let basis = Shares::of(&case.sums, &case.span.standing(case.group)).basis;
    let waits = |path: &str| {
        let sums = case.span.sums(path);
        let times = if basis == Basis::Standing { sums.standing } else { sums.of_tasks() };
        times[place(Reason::Budget)]
    };
    let mut owner = case.group;
    // Down to where most of that time is.
    while let Some(child) =
        case.span.children(owner).find(|child| waits(child) * 2 > waits(case.group))
    {
        owner = child;
    }
    let limits = tightest(case.span, case.settings, owner, |rate| match kind {
        "reads" => !rate.is_write(),
        "buffered writes" => !rate.is_read(),
        _ => true,
    });
    let is_used_up = limits.iter().any(|(_, rate)| rate.is_used_up());
    let may_be_cap = held_caps_count(case) > 0 && wait_at_the_door(case, kind);
    if may_be_cap && !is_used_up { Vec::new() } else { limits }
}

/// Processes whose caps are held on the device.
fn held_caps_count(case: &Case<'_>) -> usize {
    let Some(paced) = &case.span.last.pace else { return 0 };
    let is_held = pace::find(&paced.policy).is_some_and(pace::holds_caps);
    if is_held { paced.caps_count } else { 0 }
}

/// Whether most of the time for limits and caps is that of buffered writes: caps hold up only them.
fn wait_at_the_door(case: &Case<'_>, kind: &str) -> bool {
    let all = case.sums.waits[place(Reason::Budget)];
    kind == "buffered writes" || (kind.is_empty() && case.sums.budget_pace_ns * 2 > all)
}

fn budget(case: &Case<'_>, kind: &str) -> String {
    let limits = limits(case, kind);
    let caps_count = held_caps_count(case);
    if limits.is_empty() && caps_count > 0 && wait_at_the_door(case, kind) {
        let (those, listed) = match caps_count {
            1 => ("1 process on the device has one".to_string(), "it"),
            count => (format!("{count} processes on the device have one"), "them"),
        };
        return format!(
            "no limit of a group is used up, so it is probably the cap of a process: {those} \
             ('iopace pace limit' lists {listed})"
        );
    }
    if limits.is_empty() {
        return "a limit (io.max) held it up, which is not set any more".into();
    }
    let all: Vec<String> = limits.iter().map(|(path, rate)| used_up(case, path, rate)).collect();
    all.join("; ")
}

/// From this part of a limit on, in thousandths, a rate is told as one that is above it. Below, it
/// is the coarseness of a second that a few requests fall into or not.
const WELL_OVER_PERMILLE: u32 = 1_100;

/// What is to be said of one limit.
fn used_up(case: &Case<'_>, path: &str, rate: &Rate) -> String {
    let had = match rate.over_ns < case.span.over_ns {
        true => format!("{} in the {} in which it held", rate.print_had(), time(rate.over_ns)),
        false => rate.print_had(),
    };
    let (set, key) = (rate.print_set(), rate.key);
    // Short bursts wait for a limit that is far from used up over the whole time.
    let (state, had) = match rate.is_used_up() {
        true if rate.permille() > WELL_OVER_PERMILLE => {
            ("is used up", had + " (more: it was lowered meanwhile, or a burst was saved up)")
        }
        true => ("is used up", had),
        false => {
            let state = "is reached at times, by requests that come many at once";
            (state, format!("on average {had}"))
        }
    };
    let of_host = match (case.is_part(path, rate), case.dark_for()) {
        (false, _) => String::new(),
        (true, None) => "; this host's share of the limit of all hosts".into(),
        (true, Some(dark)) => format!(
            "; this host's share of the limit of all hosts while etcd is not reached, for {} now",
            time(dark.0)
        ),
    };
    let limit = format!("the limit of {path}, {set} (io.max {key}{of_host}), {state}");
    if path == case.group || is_within(path, case.group) {
        return format!("{limit}: it had {had}");
    }
    // A limit above it: of it, it has only a part.
    let used = |path: &str| {
        let sums = case.span.sums(path);
        let written = sums.written();
        match (rate.is_bytes(), rate.is_read(), rate.is_write()) {
            (true, true, _) => sums.read_bytes,
            (true, _, true) => written.0,
            (true, ..) => sums.read_bytes + written.0,
            (_, true, _) => sums.read_ops_milli,
            (_, _, true) => written.1,
            _ => sums.read_ops_milli + written.1,
        }
    };
    let share = permille(u128::from(used(case.group)), u128::from(used(path)));
    format!("{limit} for all in it: they had {had}, of which it has {}", percent(share))
}

fn turn(case: &Case<'_>) -> String {
    let scheduler = &case.span.last.scheduler;
    let holders = &case.held.disk_time;
    if is_own(case, holders) {
        return format!(
            "its own requests wait for each other (scheduler {scheduler}): it has {} of the \
             disk's time itself",
            percent(case.own_permille(holders))
        );
    }
    let class = |path: &str| case.settings.get(path).map(|of| of.class).unwrap_or_default();
    let rank = match class(case.group) {
        Class::Idle if sched::divides(scheduler) => ", and it is of class idle",
        _ => "",
    };
    let whose = top_other(case, holders, "the disk's time");
    format!("others have their turn (scheduler {scheduler}){rank}; {whose}")
}

fn anticipation(case: &Case<'_>) -> String {
    format!(
        "scheduler {} keeps the disk idle for the next request of the task in service, so that \
         the head need not go away and come back",
        case.span.last.scheduler
    )
}

fn window(case: &Case<'_>) -> String {
    let window = &case.span.last.window;
    let holders = &case.held.disk_time;
    let whose = match is_own(case, holders) {
        true => "they are its own: it submits more at once than the disk takes".into(),
        false => top_other(case, holders, "the disk's time"),
    };
    let why = match (case.subject.shared, window.narrowed.as_deref()) {
        (Some(shared), Some(NARROWED_BY_HOSTS)) => {
            format!(": this host's share of the queue of volume {}", shared.volume)
        }
        _ => window.narrowed_words().map_or(String::new(), |why| format!(": {why}")),
    };
    format!(
        "the disk holds as many requests as it may, {} (window {}{why}); {whose}",
        window.depth, window.policy
    )
}

fn disk(case: &Case<'_>) -> String {
    let holders = &case.held.disk_time;
    let sums = &case.sums;
    // Of what is waited for, where there is any: write-back is in longer requests.
    let (time_ns, count) = match sums.sync_count {
        0 => (sums.disk_ns(), sums.ops_count),
        count => (sums.of_requests()[place(Reason::Disk)], count),
    };
    let Some(each) = time_ns.checked_div(u128::from(count)) else {
        return "nothing finishes at the disk".into();
    };
    let each = format!("the disk takes {} for a request", time(super::nanos(each)));
    match is_own(case, holders) {
        true => {
            let own = percent(case.own_permille(holders));
            format!("{each}, and {own} of its time is its own")
        }
        false => format!("{each}; {}", top_other(case, holders, "its time")),
    }
}
