//! The groups that wait on a device, the worst off first.
//!
//! Worst off is the group whose requests wait longest each, on average, for anything but the disk;
//! if too little came through to tell, the age of its oldest request counts. Two things come before
//! that time. Of a group with a few requests the mean is chance. And a group that has its part of
//! what is short (by weight, where that is divided by weight) waits behind its own requests, one
//! that has used up a limit of its own is where it was put: whoever waits for others is worse off,
//! however long the queue of the first is. A group is as badly off as its requests or its buffered
//! writes are, whichever is worse.

use super::super::limits::SettingsOf;
use super::super::span::below;
use super::holdings::Holders;
use super::shares::{Shares, Split};
use super::words::{SlotCause, limits, slot_cause};
use super::{About, Case, OWN_PERMILLE, counts, finished_count, is_within, nanos, words};
use crate::api::{Basis, WaitingGroup};
use crate::figures::{permille, reason_word};
use iopace_core::group::Class;
use iopace_core::verdict::Reason;
use std::cmp::Reverse;

/// So many waiting groups are listed for a device.
const GROUPS_MAX: usize = 64;

/// Requests that finished, or wait, from which on a group counts: a mean of fewer is chance.
const ENOUGH_COUNT: u64 = 8;

/// How badly off a group is; the greater, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Plight {
    /// What it waits for most is of others.
    is_from_others: bool,
    /// There are enough requests to tell.
    is_known: bool,
    /// What each waits.
    each_ns: u64,
}

/// The requests or the buffered writes of a group that has both, or all that it waits for.
struct Waiting {
    /// The name of the kind; empty for all.
    kind: &'static str,
    split: Split,
    basis: Basis,
    finished_count: u64,
}

/// The groups of a device that iopace holds up, the worst off first, and how many more there are
/// than are told of. Words are found for those only.
pub(super) fn waiting(about: &About<'_>) -> (Vec<WaitingGroup>, usize) {
    let span = &about.span;
    let shares = |path| Shares::of(&span.sums(path), &span.standing(path));
    let all: Vec<(&str, Shares)> = span.paths().map(|path| (path, shares(path))).collect();
    let waited: Vec<_> = all.iter().map(|(path, shares)| (*path, shares.all.waited())).collect();
    let below = below(&waited);
    let says_something = |(path, shares): &(&str, Shares)| {
        let below = below.get(path).copied().unwrap_or_default();
        // A group whose waiting is nearly all that of those below it says nothing new.
        let is_below = permille(below, shares.all.waited()) >= OWN_PERMILLE;
        *path != "/" && !is_below && shares.is_felt()
    };
    let held_up = all.into_iter().filter(says_something);
    let worst = held_up.filter_map(|(path, shares)| {
        let (plight, waiting) = worst_of(about, path, &shares)?;
        Some((plight, path, waiting))
    });
    let mut all: Vec<(Plight, &str, Waiting)> = worst.collect();
    all.sort_by_key(|(plight, path, _)| (Reverse(*plight), *path));
    let left_out_count = all.len().saturating_sub(GROUPS_MAX);
    all.truncate(GROUPS_MAX);
    let told = all
        .iter()
        .filter_map(|(plight, path, waiting)| waiting_group(about, path, waiting, plight.each_ns));
    (told.collect(), left_out_count)
}

/// What of a group is worst off, and how badly.
fn worst_of(about: &About<'_>, group: &str, shares: &Shares) -> Option<(Plight, Waiting)> {
    let case = Case::new(about, group);
    let apart = shares.apart().into_iter().map(|kind| Waiting {
        kind: kind.name,
        split: kind.split,
        basis: shares.basis,
        finished_count: kind.finished_count,
    });
    let mut all: Vec<Waiting> = apart.collect();
    if all.is_empty() {
        let finished_count = finished_count(&case.sums);
        all.push(Waiting { kind: "", split: shares.all, basis: shares.basis, finished_count });
    }
    let all = all.into_iter().map(|waiting| (plight(&case, &waiting), waiting));
    all.max_by_key(|(plight, _)| *plight)
}

fn plight(case: &Case<'_>, waiting: &Waiting) -> Plight {
    let now = case.span.standing(case.group);
    let here_count: u32 = counts(&now).iter().sum();
    let Waiting { split, basis, finished_count, .. } = waiting;
    let is_from_others = split.main_wait().is_some_and(|(reason, _)| is_from_others(case, reason));
    let each_ns = match basis {
        Basis::Finished => nanos(split.waited() / u128::from(*finished_count).max(1)),
        Basis::Standing => now.oldest_ns,
        Basis::Nothing => 0,
    };
    let is_known =
        *basis == Basis::Standing || finished_count + u64::from(here_count) >= ENOUGH_COUNT;
    Plight { is_from_others, is_known, each_ns }
}

/// Whether others are why it waits: not its own requests, and no setting of its own.
fn is_from_others(case: &Case<'_>, reason: Reason) -> bool {
    // What is due to it of what is short, or nearly: more than that is missing to the others.
    let is_own = |holders: &Holders<'_>| {
        let due = holders.due_permille(case.group);
        case.own_permille(holders) * 1_000 >= due * OWN_PERMILLE
    };
    match reason {
        Reason::Idle => false,
        Reason::Dirty | Reason::Memory => !is_own(&case.held.dirty),
        Reason::Slot => match slot_cause(case) {
            SlotCause::Max(path, _) => !is_within(path, case.group),
            SlotCause::Target(..) => true,
            SlotCause::Own | SlotCause::Others => !is_own(&case.held.slots),
        },
        // One of a group above that others have used up.
        Reason::Budget => limits(case, "").first().is_some_and(|&(path, _)| {
            let moved = |path: &str| {
                let sums = case.span.sums(path);
                u128::from(sums.read_bytes) + u128::from(sums.written().0)
            };
            let share = permille(moved(case.group), moved(path));
            !is_within(path, case.group) && share < OWN_PERMILLE
        }),
        Reason::Turn if is_idle(case.settings, case.group) => false,
        Reason::Turn | Reason::Anticipation | Reason::Window | Reason::Disk => {
            !is_own(&case.held.disk_time)
        }
    }
}

fn is_idle(settings: &SettingsOf, group: &str) -> bool {
    settings.get(group).is_some_and(|of| of.class == Class::Idle)
}

fn waiting_group(
    about: &About<'_>,
    group: &str,
    waiting: &Waiting,
    each_waits_ns: u64,
) -> Option<WaitingGroup> {
    let case = Case::new(about, group);
    let (reason, time) = waiting.split.main_wait()?;
    let now = about.span.standing(group);
    Some(WaitingGroup {
        group: group.into(),
        kind: waiting.kind.into(),
        reason: reason.name().into(),
        word: reason_word(reason).into(),
        share_permille: permille(time, waiting.split.total),
        per_request_ns: match waiting.basis {
            Basis::Finished => nanos(time / u128::from(waiting.finished_count).max(1)),
            Basis::Standing | Basis::Nothing => 0,
        },
        each_waits_ns,
        waiting_count: counts(&now).iter().sum::<u32>() - now.disk_count,
        text: words::cause(&case, reason, waiting.kind),
    })
}
