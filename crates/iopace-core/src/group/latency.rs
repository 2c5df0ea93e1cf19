//! Latency targets: while a group misses its own, the siblings that nobody promised anything (or
//! less) may hold fewer requests.
//!
//! # Model
//! ```text
//!   window of 16 targets, 100 ms to 1 s         missed: more than a tenth of requests were late
//!   slots of a  ▲‾‾‾‾\                          halved at every window that misses
//!   sibling     │     \__     ___/‾‾‾‾ lifted   doubled at every window that does not; lifted when
//!               │        \___/                  that is enough, or when the group has gone quiet
//!               └──────────────────────► time
//! ```
//! What is narrowed is the number of requests in the scheduler and at the disk, so that the disk's
//! queue gets shorter; no rate is set, and with the target met everybody has the whole disk.
//!
//! # Properties
//! 1. A miss narrows siblings without a target or with a looser one, never others, never below one.
//! 2. A group that has gone quiet holds nobody narrow for longer than two windows.
//! 3. A met target widens at every window, until nothing is held back.
//!
//! # When it does not know
//! A window without a request of the group says nothing is wrong.
//!
//! # Limits
//! A target that the disk cannot meet for one request alone narrows the siblings to one request
//! each and no further: nobody is stopped.
//!
//! # Sources
//! io.latency of Linux 4.19 (block/blk-iolatency.c): window, the tenth of late requests, halving.
//! There, recovery adds a sixteenth at a time and takes minutes; doubling is ours.

use super::accounts::Accounts;
use super::table::{Column, GroupSet, Groups, SettingKind};
use crate::request::GroupId;
use crate::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// Windows are this many targets long, within the bounds below (BLKIOLATENCY_MIN_WIN_SIZE, _MAX_).
const WINDOW_TARGETS: u64 = 16;
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
const WINDOW_MAX: Nanos = Nanos::from_secs(1);

/// A window is missed if more than one request in so many was late.
const LATE_PART: u32 = 10;

/// The window of a group with a target.
#[derive(Clone, Copy, Debug)]
struct TargetWindow {
    len: Nanos,
    ends: Instant,
    count: u32,
    late_count: u32,
    /// How the last one went.
    verdict: WindowVerdict,
}

impl TargetWindow {
    /// The first one of a group with that target.
    fn new(now: Instant, target: Nanos) -> TargetWindow {
        let len = target.0.saturating_mul(WINDOW_TARGETS).clamp(WINDOW_MIN.0, WINDOW_MAX.0);
        let (len, ends) = (Nanos(len), now + Nanos(len));
        TargetWindow { len, ends, count: 0, late_count: 0, verdict: WindowVerdict::Quiet }
    }

    /// It ends, and the next one begins.
    fn end(&mut self, now: Instant) {
        self.verdict = match (self.count, self.late_count * LATE_PART) {
            (0, _) => WindowVerdict::Quiet,
            (count, late) if late > count => WindowVerdict::Missed,
            _ => WindowVerdict::Met,
        };
        (self.count, self.late_count) = (0, 0);
        self.ends = now + self.len;
    }
}

/// How a window went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WindowVerdict {
    /// No request of the group.
    Quiet,
    Met,
    Missed,
}

/// A change of a group's cap, for stage admit.
pub(crate) type Narrow = (GroupId, Option<u32>);

/// The state of a group: the target itself is in the table.
#[derive(Debug, Default)]
struct TargetState {
    /// Its present window, if it has a target.
    window: Option<TargetWindow>,
    /// The most requests that it may hold while it is narrowed.
    cap: Option<u32>,
}

/// All targets of a device.
#[derive(Debug)]
pub(crate) struct Targets {
    states: Column<TargetState>,
    /// The groups that have a target, and those that are narrowed, by number.
    targeted: GroupSet,
    narrowed: GroupSet,
    /// When a window ends that may change something: every drain of the engine asks.
    next: Instant,
}

impl Default for Targets {
    fn default() -> Targets {
        let (targeted, narrowed) = (GroupSet::default(), GroupSet::default());
        Targets { states: Column::default(), targeted, narrowed, next: Instant::NEVER }
    }
}

impl Targets {
    /// The target of a group is another one, or none. Caps that it asked for end with its next
    /// window.
    pub(crate) fn set(&mut self, now: Instant, id: GroupId, target: Option<Nanos>) {
        // The root has no siblings, though it stands as its own parent.
        let target = target.filter(|_| id != GroupId::ROOT);
        if target.is_some() || self.states[id].window.is_some() {
            self.states[id].window = target.map(|target| TargetWindow::new(now, target));
            self.targeted.set(id, target.is_some());
            self.plan();
        }
    }

    /// Whether no group has one.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.targeted.is_empty()
    }

    /// Forgets a group.
    pub(crate) fn remove(&mut self, id: GroupId) {
        let TargetState { window, cap } = self.states.take(id);
        if window.is_some() || cap.is_some() {
            self.targeted.set(id, false);
            self.narrowed.set(id, false);
            self.plan();
        }
    }

    /// A request of the group, or of one below it, has taken so long.
    pub(crate) fn finished(&mut self, groups: &Groups, id: GroupId, total: Nanos) {
        for id in groups.chain(id, SettingKind::Target) {
            if let Some(window) = &mut self.states[id].window {
                window.count += 1;
                self.next = self.next.min(window.ends);
                window.late_count += u32::from(total > target_of(groups, id));
            }
        }
    }

    /// When a window ends that may change something.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// The windows by group.
    fn windows(&self) -> impl Iterator<Item = (GroupId, TargetWindow)> + '_ {
        self.targeted.iter().filter_map(|id| Some((id, self.states[id].window?)))
    }

    /// Finds out when that is.
    fn plan(&mut self) {
        let is_any_narrowed = !self.narrowed.is_empty();
        self.next = match self.is_empty() && is_any_narrowed {
            // What is still narrowed is widened at once: nobody asks for it any more.
            true => Instant::ZERO,
            false => {
                let matters = |(_, window): &(_, TargetWindow)| window.count > 0 || is_any_narrowed;
                let ends = self.windows().filter(matters).map(|(_, window)| window.ends);
                ends.min().unwrap_or(Instant::NEVER)
            }
        };
    }

    /// Judges the windows that have ended; the caps that change.
    pub(crate) fn judge(&mut self, now: Instant, accounts: &Accounts) -> Vec<Narrow> {
        if now < self.next {
            return Vec::new();
        }
        let groups = &accounts.table;
        // The parents of those whose windows have ended: with the only one of them, if it is one.
        let mut ended = BTreeMap::<GroupId, Option<GroupId>>::new();
        for id in self.targeted.iter() {
            if let Some(window) = self.states[id].window.as_mut().filter(|of| of.ends <= now) {
                window.end(now);
                let only = ended.entry(groups.parent(id));
                only.and_modify(|only| *only = None).or_insert(Some(id));
            }
        }
        let among = self.among_siblings(groups);
        let mut changes = Vec::new();
        if !ended.is_empty() {
            for id in (1..groups.end()).map(GroupId).filter(|id| groups.knows(*id)) {
                let parent = groups.parent(id);
                if ended.get(&parent).is_some_and(|only| *only != Some(id)) {
                    let siblings = among.get(&parent).map_or(&[][..], Vec::as_slice);
                    changes.extend(self.change(now, id, siblings, accounts));
                }
            }
        }
        changes.extend(self.lift_orphans(&among, groups));
        self.plan();
        changes
    }

    /// What the windows of its siblings ask of a group: to be narrowed by one that was missed, to
    /// be widened when none was.
    fn change(
        &mut self,
        now: Instant,
        id: GroupId,
        siblings: &[(Nanos, TargetWindow)],
        accounts: &Accounts,
    ) -> Option<Narrow> {
        let own = target_of(&accounts.table, id);
        let tighter = || siblings.iter().filter(|(target, _)| *target < own).map(|of| of.1);
        let missed_now =
            tighter().any(|of| of.ends == now + of.len && of.verdict == WindowVerdict::Missed);
        match tighter().map(|window| window.verdict).max()? {
            WindowVerdict::Missed if missed_now => self.narrow(id, accounts.live_below(id)),
            WindowVerdict::Missed => None,
            WindowVerdict::Met => self.widen(id, false),
            WindowVerdict::Quiet => self.widen(id, true),
        }
    }

    /// The targets among the children of each group.
    fn among_siblings(&self, groups: &Groups) -> BTreeMap<GroupId, Vec<(Nanos, TargetWindow)>> {
        let mut among = BTreeMap::<GroupId, Vec<(Nanos, TargetWindow)>>::new();
        for (id, window) in self.windows() {
            among.entry(groups.parent(id)).or_default().push((target_of(groups, id), window));
        }
        among
    }

    /// Frees those that nobody asks to be narrow any more: a target was removed or loosened, or
    /// they have a tighter one themselves.
    fn lift_orphans(
        &mut self,
        among: &BTreeMap<GroupId, Vec<(Nanos, TargetWindow)>>,
        groups: &Groups,
    ) -> Vec<Narrow> {
        let is_orphan = |id: &GroupId| {
            let (own, siblings) = (target_of(groups, *id), among.get(&groups.parent(*id)));
            siblings.is_none_or(|all| all.iter().all(|(target, _)| *target >= own))
        };
        let orphans: Vec<GroupId> = self.narrowed.iter().filter(is_orphan).collect();
        orphans.into_iter().map(|id| self.hold(id, None)).collect()
    }

    /// Half of what it may hold, or of what it holds if it was free until now.
    fn narrow(&mut self, id: GroupId, live_count: u32) -> Option<Narrow> {
        let cap = (self.states[id].cap.unwrap_or(live_count) / 2).max(1);
        if live_count == 0 || self.states[id].cap == Some(cap) {
            return None;
        }
        Some(self.hold(id, Some(cap)))
    }

    /// Twice of what it might hold; free if that is beyond all slots, or if the group that asked
    /// for it is quiet.
    fn widen(&mut self, id: GroupId, is_quiet: bool) -> Option<Narrow> {
        let cap = self.states[id].cap?.saturating_mul(2);
        let is_free = is_quiet || cap >= crate::limits::NR_REQUESTS_MAX;
        Some(self.hold(id, (!is_free).then_some(cap)))
    }

    /// Notes what a group may hold.
    fn hold(&mut self, id: GroupId, cap: Option<u32>) -> Narrow {
        self.states[id].cap = cap;
        self.narrowed.set(id, cap.is_some());
        (id, cap)
    }
}

/// The target of a group; one without has the loosest.
fn target_of(groups: &Groups, id: GroupId) -> Nanos {
    groups.settings(id).latency.unwrap_or(Nanos(u64::MAX))
}

#[cfg(test)]
mod tests;
