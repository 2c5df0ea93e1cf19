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
use super::table::{Groups, Kind};
use crate::request::GroupId;
use crate::time::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// Windows are this many targets long, within the bounds below (BLKIOLATENCY_MIN_WIN_SIZE, _MAX_).
const WINDOW_TARGETS: u64 = 16;
const WINDOW_MIN: Nanos = Nanos::from_millis(100);
const WINDOW_MAX: Nanos = Nanos::from_secs(1);

/// A window is missed if more than one request in so many was late.
const LATE_PART: u32 = 10;

/// A group with a target.
#[derive(Clone, Copy, Debug)]
struct Target {
    target: Nanos,
    window: Nanos,
    ends: Instant,
    count: u32,
    late_count: u32,
    /// How its last window went.
    verdict: Verdict,
}

/// How a window went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// No request of the group.
    Quiet,
    Met,
    Missed,
}

/// A change of a group's cap, for stage admit.
pub(crate) type Narrow = (GroupId, Option<u32>);

/// All targets of a device.
#[derive(Debug)]
pub(crate) struct Targets {
    targets: BTreeMap<GroupId, Target>,
    narrowed: BTreeMap<GroupId, u32>,
    /// When a window ends that may change something: every drain of the engine asks.
    next: Instant,
}

impl Default for Targets {
    fn default() -> Targets {
        let (targets, narrowed) = (BTreeMap::new(), BTreeMap::new());
        Targets { targets, narrowed, next: Instant::NEVER }
    }
}

impl Targets {
    /// Sets or lifts the target of a group. Caps that it asked for end with its next window.
    pub(crate) fn set(&mut self, now: Instant, id: GroupId, target: Option<Nanos>) {
        // The root has no siblings, though it stands as its own parent.
        let target = target.filter(|_| id != GroupId::ROOT);
        let Some(target) = target else {
            if self.targets.remove(&id).is_some() {
                self.plan();
            }
            return;
        };
        if self.targets.get(&id).is_some_and(|old| old.target == target) {
            return;
        }
        let window =
            Nanos(target.0.saturating_mul(WINDOW_TARGETS).clamp(WINDOW_MIN.0, WINDOW_MAX.0));
        let ends = now + window;
        self.targets.insert(
            id,
            Target { target, window, ends, count: 0, late_count: 0, verdict: Verdict::Quiet },
        );
        self.plan();
    }

    /// Whether no group has one.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Forgets a group.
    pub(crate) fn remove(&mut self, id: GroupId) {
        let had_target = self.targets.remove(&id).is_some();
        if self.narrowed.remove(&id).is_some() || had_target {
            self.plan();
        }
    }

    /// A request of the group, or of one below it, has taken so long.
    pub(crate) fn finished(&mut self, groups: &Groups, id: GroupId, total: Nanos) {
        for id in groups.chain(id, Kind::Target) {
            if let Some(target) = self.targets.get_mut(&id) {
                target.count += 1;
                self.next = self.next.min(target.ends);
                target.late_count += u32::from(total > target.target);
            }
        }
    }

    /// When a window ends that may change something.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Finds out when that is.
    fn plan(&mut self) {
        if self.targets.is_empty() {
            // What is still narrowed is widened at once: nobody asks for it any more.
            self.next = if self.narrowed.is_empty() { Instant::NEVER } else { Instant::ZERO };
            return;
        }
        let matters = |target: &&Target| target.count > 0 || !self.narrowed.is_empty();
        let ends = self.targets.values().filter(matters).map(|target| target.ends);
        self.next = ends.min().unwrap_or(Instant::NEVER);
    }

    /// Judges the windows that have ended; the caps that change.
    pub(crate) fn judge(&mut self, now: Instant, accounts: &Accounts) -> Vec<Narrow> {
        if now < self.next {
            return Vec::new();
        }
        let mut changes = Vec::new();
        if self.targets.is_empty() {
            changes.extend(std::mem::take(&mut self.narrowed).into_keys().map(|id| (id, None)));
            self.plan();
            return changes;
        }
        let mut concerned = BTreeSet::new();
        for (id, target) in self.targets.iter_mut().filter(|(_, target)| target.ends <= now) {
            target.verdict = match (target.count, target.late_count * LATE_PART) {
                (0, _) => Verdict::Quiet,
                (count, late) if late > count => Verdict::Missed,
                _ => Verdict::Met,
            };
            (target.count, target.late_count) = (0, 0);
            target.ends = now + target.window;
            let siblings = accounts.table.children(accounts.table.parent(*id));
            concerned.extend(siblings.filter(|sibling| sibling != id));
        }
        let among = self.among_siblings(&accounts.table);
        for id in concerned {
            let siblings = among.get(&accounts.table.parent(id)).map_or(&[][..], Vec::as_slice);
            changes.extend(self.change(now, id, siblings, accounts));
        }
        changes.extend(self.lift_orphans(&among, &accounts.table));
        self.plan();
        changes
    }

    /// What the windows of its siblings ask of a group: to be narrowed by one that was missed, to
    /// be widened when none was.
    fn change(
        &mut self,
        now: Instant,
        id: GroupId,
        siblings: &[Target],
        accounts: &Accounts,
    ) -> Option<Narrow> {
        let own = self.targets.get(&id).map_or(Nanos(u64::MAX), |target| target.target);
        let all = siblings.iter();
        let tighter: Vec<&Target> = all.filter(|target| target.target < own).collect();
        let worst = tighter.iter().map(|target| target.verdict).max()?;
        let is_new = |target: &&Target| target.ends == now + target.window;
        let missed_now =
            tighter.into_iter().filter(is_new).any(|target| target.verdict == Verdict::Missed);
        match worst {
            Verdict::Missed if missed_now => self.narrow(id, accounts.live_below(id)),
            Verdict::Missed => None,
            Verdict::Met => self.widen(id, false),
            Verdict::Quiet => self.widen(id, true),
        }
    }

    /// The targets among the children of each group.
    fn among_siblings(&self, groups: &Groups) -> BTreeMap<GroupId, Vec<Target>> {
        let mut among = BTreeMap::<GroupId, Vec<Target>>::new();
        for (id, target) in &self.targets {
            among.entry(groups.parent(*id)).or_default().push(*target);
        }
        among
    }

    /// Frees those that nobody asks to be narrow any more: a target was removed or loosened, or
    /// they have a tighter one themselves.
    fn lift_orphans(
        &mut self,
        among: &BTreeMap<GroupId, Vec<Target>>,
        groups: &Groups,
    ) -> Vec<Narrow> {
        let is_asked_for = |id: &GroupId| {
            let own = self.targets.get(id).map_or(Nanos(u64::MAX), |target| target.target);
            let siblings = among.get(&groups.parent(*id));
            siblings.is_some_and(|all| all.iter().any(|target| target.target < own))
        };
        let narrowed = self.narrowed.keys().copied();
        let orphans: Vec<GroupId> = narrowed.filter(|id| !is_asked_for(id)).collect();
        orphans.iter().for_each(|id| _ = self.narrowed.remove(id));
        orphans.into_iter().map(|id| (id, None)).collect()
    }

    /// Half of what it may hold, or of what it holds if it was free until now.
    fn narrow(&mut self, id: GroupId, live_count: u32) -> Option<Narrow> {
        let cap = (self.narrowed.get(&id).copied().unwrap_or(live_count) / 2).max(1);
        if live_count == 0 || self.narrowed.insert(id, cap) == Some(cap) {
            return None;
        }
        Some((id, Some(cap)))
    }

    /// Twice of what it might hold; free if that is beyond all slots, or if the group that asked
    /// for it is quiet.
    fn widen(&mut self, id: GroupId, is_quiet: bool) -> Option<Narrow> {
        let cap = self.narrowed.get(&id)?.saturating_mul(2);
        if is_quiet || cap >= crate::limits::NR_REQUESTS_MAX {
            self.narrowed.remove(&id);
            return Some((id, None));
        }
        self.narrowed.insert(id, cap);
        Some((id, Some(cap)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Settings;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Sets the target of a group, in ms.
    fn set(targets: &mut Targets, accounts: &mut Accounts, ms: u64, id: u32, target: Option<u64>) {
        let latency = target.map(Nanos::from_millis);
        let (id, settings) = (GroupId(id), Settings { latency, ..Settings::default() });
        accounts.table.set(id, accounts.table.parent(id), &settings);
        targets.set(at(ms), id, latency);
    }

    /// Groups 1 (target 5 ms), 2 (none), 3 (target 1 ms) and 4 (none, below 2); 2 has 64 requests.
    fn world() -> (Targets, Accounts) {
        let (mut targets, mut accounts) = (Targets::default(), Accounts::default());
        for (id, parent) in [(1, 0), (2, 0), (3, 0), (4, 2)] {
            accounts.table.set(GroupId(id), GroupId(parent), &Settings::default());
        }
        set(&mut targets, &mut accounts, 0, 1, Some(5));
        set(&mut targets, &mut accounts, 0, 3, Some(1));
        for _ in 0..64 {
            accounts.arrived(at(0), GroupId(4), true);
        }
        (targets, accounts)
    }

    /// What one missed window of group 1 makes of group 2.
    const NARROWED: Narrow = (GroupId(2), Some(32));

    fn window(
        targets: &mut Targets,
        accounts: &Accounts,
        end_ms: u64,
        count: u32,
        ms: u64,
    ) -> Vec<Narrow> {
        for _ in 0..count {
            targets.finished(&accounts.table, GroupId(1), Nanos::from_millis(ms));
        }
        targets.judge(at(end_ms), accounts)
    }

    #[test]
    fn p1_a_miss_narrows_who_has_no_target_or_a_looser_one() {
        let (mut targets, accounts) = world();
        assert_eq!(window(&mut targets, &accounts, 50, 20, 9), [], "the window has not ended");
        assert_eq!(window(&mut targets, &accounts, 100, 0, 0), [(GroupId(2), Some(32))]);
        let mut caps = Vec::new();
        for round in 2..12 {
            caps.extend(window(&mut targets, &accounts, round * 100, 20, 9));
        }
        let caps: Vec<Option<u32>> = caps.into_iter().map(|(_, cap)| cap).collect();
        assert_eq!(caps, [Some(16), Some(8), Some(4), Some(2), Some(1)]);
    }

    #[test]
    fn p1_a_tenth_may_be_late() {
        let (mut targets, accounts) = world();
        targets.finished(&accounts.table, GroupId(1), Nanos::from_millis(9));
        assert_eq!(window(&mut targets, &accounts, 100, 9, 2), []);
    }

    #[test]
    fn p2_a_quiet_group_holds_nobody_narrow() {
        let (mut targets, accounts) = world();
        window(&mut targets, &accounts, 100, 20, 9);
        assert_eq!(targets.next(), at(200));
        assert_eq!(targets.judge(at(200), &accounts), [(GroupId(2), None)]);
        assert_eq!(targets.next(), Instant::NEVER);
    }

    #[test]
    fn p2_a_target_that_is_taken_away_lifts_at_once() {
        let (mut targets, mut accounts) = world();
        window(&mut targets, &accounts, 100, 20, 9);
        set(&mut targets, &mut accounts, 110, 1, None);
        set(&mut targets, &mut accounts, 110, 3, None);
        assert_eq!(targets.judge(at(110), &accounts), [(GroupId(2), None)]);
    }

    #[test]
    fn p2_so_does_one_that_is_taken_away_beside_others_that_stay() {
        let (mut targets, mut accounts) = world();
        accounts.table.set(GroupId(5), GroupId(4), &Settings::default());
        set(&mut targets, &mut accounts, 0, 5, Some(5));
        set(&mut targets, &mut accounts, 0, 3, None);
        assert_eq!(window(&mut targets, &accounts, 100, 20, 9).first(), Some(&NARROWED));
        set(&mut targets, &mut accounts, 110, 1, None);
        // Nobody beside group 2 has a target any more; one elsewhere is no reason to go on.
        let lifted = targets.judge(at(200), &accounts);
        assert!(lifted.contains(&(GroupId(2), None)), "{lifted:?}");
        assert_eq!(targets.next(), Instant::NEVER, "and nothing is left to look at");
    }

    #[test]
    fn p2_so_does_one_that_is_looser_than_that_of_the_narrowed() {
        let (mut targets, mut accounts) = world();
        set(&mut targets, &mut accounts, 0, 3, None);
        assert_eq!(window(&mut targets, &accounts, 100, 20, 9).first(), Some(&NARROWED));
        set(&mut targets, &mut accounts, 110, 2, Some(1));
        assert_eq!(window(&mut targets, &accounts, 200, 20, 9), [(GroupId(2), None)]);
    }

    #[test]
    fn a_target_of_the_root_concerns_nobody() {
        let (mut targets, mut accounts) = world();
        set(&mut targets, &mut accounts, 0, 0, Some(0));
        assert_eq!(window(&mut targets, &accounts, 100, 20, 9).first(), Some(&NARROWED));
        assert_eq!(window(&mut targets, &accounts, 200, 20, 9), [(GroupId(2), Some(16))]);
    }

    #[test]
    fn p3_a_met_target_widens() {
        let (mut targets, accounts) = world();
        window(&mut targets, &accounts, 100, 20, 9);
        window(&mut targets, &accounts, 200, 20, 9);
        assert_eq!(window(&mut targets, &accounts, 300, 20, 2), [(GroupId(2), Some(32))]);
        let mut last = Vec::new();
        for round in 4..20 {
            last.extend(window(&mut targets, &accounts, round * 100, 20, 2));
        }
        assert_eq!(last.last(), Some(&(GroupId(2), None)));
    }
}
