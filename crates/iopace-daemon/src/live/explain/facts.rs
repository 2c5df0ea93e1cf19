//! What the sentences of a cause say of bounds and of who has most, in figures.

use super::super::limits::Rate;
use super::holdings::Holders;
use super::words::{SlotCause, limits, slot_cause};
use super::{Case, is_within};
use crate::api::{CauseBound, CauseHolder};
use iopace_core::verdict::Reason;

/// The bound that requests have come up against, if the reason has one.
pub(super) fn bound(case: &Case<'_>, reason: Reason) -> Option<CauseBound> {
    let last = case.span.last;
    let of = |what: &str, group: &str, set: u64, used: u64| CauseBound {
        what: what.into(),
        group: group.into(),
        set,
        used,
    };
    match reason {
        Reason::Memory => last.pace.as_ref().map(|pace| {
            let picture = &pace.picture;
            of("dirty memory", "/", picture.limit_bytes, picture.dirty_bytes)
        }),
        Reason::Slot => Some(match slot_cause(case) {
            SlotCause::Max(path, max) => {
                let taken = case.span.now(path).map_or(0, |now| now.slots_taken_count);
                of("io.nr_group_requests", path, max.into(), taken.into())
            }
            SlotCause::Target(path, target) => {
                let had = case.span.now(&path).map_or(0, |now| now.activity.latency.p99_ns);
                of("io.latency", &path, target, had)
            }
            SlotCause::Own | SlotCause::Others => {
                let taken = case.span.now("/").map_or(0, |root| root.slots_taken_count);
                of("slots", "/", last.queue.nr_requests.into(), taken.into())
            }
        }),
        Reason::Budget => limits(case, "").first().map(|&(path, rate)| {
            let Rate { key, set, had_milli, .. } = rate;
            of(&format!("io.max {key}"), path, set, had_milli.saturating_add(500) / 1_000)
        }),
        Reason::Window => {
            let held = last.queue.in_flight_count;
            Some(of("window", "/", last.window.depth.into(), held as u64))
        }
        Reason::Idle | Reason::Dirty | Reason::Turn | Reason::Anticipation | Reason::Disk => None,
    }
}

/// Who has most of what is short, and what the group has of it.
pub(super) fn holder(case: &Case<'_>, reason: Reason) -> Option<CauseHolder> {
    let (what, holders): (&str, &Holders<'_>) = match reason {
        Reason::Dirty | Reason::Memory => ("dirty memory", &case.held.dirty),
        Reason::Slot => ("slots", &case.held.slots),
        Reason::Turn | Reason::Window | Reason::Disk => ("disk time", &case.held.disk_time),
        Reason::Idle | Reason::Budget | Reason::Anticipation => return None,
    };
    let is_other = |path: &str| case.group == "/" || !is_within(path, case.group);
    let other = holders.largest(is_other);
    let (group, share_permille) = other.unzip();
    (!holders.parts.is_empty()).then(|| CauseHolder {
        what: what.into(),
        group: group.unwrap_or_default().into(),
        share_permille: share_permille.unwrap_or_default(),
        own_permille: case.own_permille(holders),
        due_permille: holders.due_permille(case.group),
    })
}
