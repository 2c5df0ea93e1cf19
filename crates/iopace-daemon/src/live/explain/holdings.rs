//! Who holds what there is only so much of.

use super::super::limits::SettingsOf;
use super::super::span::{Span, is_within};
use super::dues::Dues;
use crate::api::{Holding, HoldingPart};
use crate::figures::permille;
use iopace_core::sched;
use std::collections::BTreeMap;

/// So many holders are told of each.
const PARTS_MAX: usize = 8;

/// The policy of stage pace that divides what writers get by weight.
const RATE: &str = "rate";

/// What each group holds by itself: found once for all that is asked.
pub(super) struct Held<'a> {
    /// Slots, at the end.
    pub(super) slots: Holders<'a>,
    /// The disk's time.
    pub(super) disk_time: Holders<'a>,
    /// Dirty memory, at the end.
    pub(super) dirty: Holders<'a>,
}

/// Who holds something.
pub(super) struct Holders<'a> {
    /// By group, the largest part first.
    pub(super) parts: Vec<(&'a str, u128)>,
    /// What is due to each, where it is divided by weight.
    dues: Option<Dues<'a>>,
}

impl<'a> Held<'a> {
    pub(super) fn of(span: &Span<'a>, settings: &'a SettingsOf) -> Held<'a> {
        let slots = |path: &str| span.now(path).map_or(0, |now| now.slots_taken_count.into());
        let slots = span.own(slots);
        let disk_time = span.own(|path| span.sums(path).disk_ns());
        let dirty = dirty(span);
        // For stages admit and pace, what a group has itself is one more of the groups below it.
        let as_one = |parts: &[(&'a str, u128)]| Dues::of(settings, parts, false, |_| 1);
        let tasks = tasks(span);
        let count = |path: &str| tasks.get(path).copied().unwrap_or(1);
        // A scheduler that divides the disk's time does so within classes; the tasks of a group are
        // its children as the groups below it are, each with the default weight.
        let by_task = |parts: &[(&'a str, u128)]| Dues::of(settings, parts, true, count);
        let divides = sched::divides(&span.last.scheduler);
        let is_rate = span.last.pace.as_ref().is_some_and(|pace| pace.policy == RATE);
        Held {
            slots: Holders { dues: Some(as_one(&slots)), parts: slots },
            disk_time: Holders { dues: divides.then(|| by_task(&disk_time)), parts: disk_time },
            dirty: Holders { dues: is_rate.then(|| as_one(&dirty)), parts: dirty },
        }
    }
}

impl<'a> Holders<'a> {
    /// What all hold together.
    pub(super) fn all(&self) -> u128 {
        self.parts.iter().map(|(_, part)| part).sum()
    }

    /// The part that a group and those below it have of what all have, in thousandths.
    pub(super) fn permille_of(&self, group: &str) -> u32 {
        let ours = self.parts.iter().filter(|(path, _)| is_within(path, group));
        match self.all() {
            // Nobody else has any.
            0 => 1_000,
            all => permille(ours.map(|(_, part)| part).sum(), all),
        }
    }

    /// The largest holder of those that are asked about, and its part in thousandths.
    pub(super) fn largest(&self, is_asked: impl Fn(&str) -> bool) -> Option<(&'a str, u32)> {
        let (path, part) = self.parts.iter().find(|(path, _)| is_asked(path))?;
        Some((path, permille(*part, self.all())))
    }

    /// The part that is due to a group and those below it, in thousandths: by weight, or an equal
    /// part for each that has some.
    pub(super) fn due_permille(&self, group: &str) -> u32 {
        match &self.dues {
            Some(dues) => dues.permille(group),
            None => {
                let is_own = |(path, _): &&(&str, u128)| is_within(path, group);
                let own_count = self.parts.iter().filter(is_own).count();
                let others_count = self.parts.len() - own_count;
                // One that has none would share with those that have.
                let own_count = own_count.max(1);
                permille(own_count as u128, (own_count + others_count) as u128)
            }
        }
    }
}

/// Slots, the disk's time and dirty memory; what nobody holds is left out.
pub(super) fn all(span: &Span<'_>, held: &Held<'_>) -> Vec<Holding> {
    let last = span.last;
    let memory = last.pace.as_ref().map_or(0, |pace| pace.picture.limit_bytes);
    let all = [
        ("slots", u64::from(last.queue.nr_requests), &held.slots.parts),
        ("disk time", 0, &held.disk_time.parts),
        ("dirty memory", memory, &held.dirty.parts),
    ];
    let held = all.into_iter().filter(|(.., parts)| !parts.is_empty());
    held.map(|(what, of, parts)| holding(what, of, parts)).collect()
}

fn holding(what: &str, of: u64, parts: &[(&str, u128)]) -> Holding {
    let held: u128 = parts.iter().map(|(_, part)| part).sum();
    let number = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
    let part = |(group, amount): &(&str, u128)| HoldingPart {
        group: (*group).into(),
        held: number(*amount),
        share_permille: permille(*amount, held),
    };
    let parts = parts.iter().take(PARTS_MAX).map(part).collect();
    Holding { what: what.into(), held: number(held), of, parts }
}

/// How many tasks of each group have something to do at the end: those of the report, which lists
/// the ones that move most or wait longest.
fn tasks<'a>(span: &Span<'a>) -> BTreeMap<&'a str, u64> {
    let mut tasks = BTreeMap::new();
    for task in &span.last.tasks {
        if task.live_count > 0 || task.activity.waits.disk_ns > 0 {
            *tasks.entry(&*task.group).or_default() += 1;
        }
    }
    tasks
}

/// Dirty memory is counted for each group alone.
fn dirty<'a>(span: &Span<'a>) -> Vec<(&'a str, u128)> {
    let of = |path: &'a str| (path, span.now(path).map_or(0, |now| u128::from(now.dirty_bytes)));
    let mut all: Vec<_> = span.paths().map(of).filter(|(_, part)| *part > 0).collect();
    all.sort_by_key(|(path, part)| (std::cmp::Reverse(*part), *path));
    all
}
