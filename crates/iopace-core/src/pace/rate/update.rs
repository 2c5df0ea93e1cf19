//! What the rate policy learns every 200 ms: bandwidth, who gets which part of it, base rates.

use super::Rate;
use super::base::IntervalFigures;
use super::groups::PacedGroup;
use super::pause::Tempo;
use super::position::{ONE, ratio, scale};
use crate::group::table::Groups;
use crate::request::GroupId;
use crate::time::Nanos;
use crate::units::{BytesPerSec, scaled};

/// After so long without a call nothing can be learned from the interval.
const STALE: Nanos = Nanos::from_secs(1);

/// A group that did nothing for so many intervals does not share any more: one second.
const IDLE_INTERVALS: u32 = 5;

/// A base rate is trimmed by this part of the group's error per interval: about as fast as the
/// average of the bandwidth moves.
const TRIM_STEPS: u64 = 16;

/// Part of the new value in smoothed ones.
const SMOOTH: u64 = 4;

/// Deepest tree that is divided: deeper groups count as children of that level.
const DEPTH_MAX: usize = 64;

/// The alarm: a group's tasks dirtied this part of a second's bandwidth in an interval, that is
/// twice what the interval is good for. Then there are more than its base rate was made for.
const ALARM: (u128, u128) = (2, 5);

/// While tasks surge, this part of the way from set point to limit is enough for the alarm.
const ALARM_ROOM: u64 = 8;

impl Rate {
    /// An interval is over.
    pub(super) fn update(&mut self, dirty: u64, groups: &Groups) {
        let elapsed = self.now.since(self.began.unwrap_or(self.now)).0.max(1);
        let is_stale = elapsed > STALE.0;
        let bandwidth = self.bandwidth.average();
        self.place.set_bandwidth(bandwidth, self.bandwidth.gap());
        self.began = Some(self.now);
        self.interval = self.interval.wrapping_add(1).max(1);
        self.state = self.state.wrapping_add(1).max(1);
        let mut active = std::mem::take(&mut self.groups.active);
        active.retain(|&id| self.groups.get_mut(id).is_some_and(|group| count(group, elapsed)));
        self.groups.active = active;
        self.share_out(bandwidth, groups);
        self.trim();
        for index in 0..self.groups.active.len() {
            self.learn(self.groups.active[index], dirty, is_stale);
        }
    }

    /// Divides the bandwidth among the active groups.
    fn share_out(&mut self, bandwidth: BytesPerSec, groups: &Groups) {
        if let [only] = self.groups.active[..] {
            if let Some(group) = self.groups.get_mut(only) {
                group.bandwidth = bandwidth;
                set_fraction(group, ONE);
                group.share = ONE;
            }
            return;
        }
        self.shares.clear();
        let mut leaves = Vec::with_capacity(self.groups.active.len());
        for index in 0..self.groups.active.len() {
            let id = self.groups.active[index];
            let node = self.node(id, 0, groups);
            let Some(group) = self.groups.get(id) else { continue };
            let hungry = group.waited || group.was_hungry || group.held_above;
            leaves.push((id, self.shares.tasks(node, group.dirty_rate, hungry)));
        }
        self.shares.divide(bandwidth.0);
        for (id, leaf) in leaves {
            let share = self.shares.share(leaf);
            let Some(group) = self.groups.get_mut(id) else { continue };
            group.bandwidth = BytesPerSec(share.max(1));
            set_fraction(group, ratio(share, bandwidth.0).clamp(1, ONE));
            group.share = group.share - group.share / SMOOTH + group.fraction / SMOOTH;
        }
    }

    /// The group's node in the division of this interval.
    fn node(&mut self, id: GroupId, depth: usize, groups: &Groups) -> usize {
        let Some(group) = self.groups.get(id).filter(|_| id != GroupId::ROOT) else { return 0 };
        if group.node.0 == self.state {
            return group.node.1;
        }
        let (parent, cap) = (groups.parent(id), group.caps.bytes_s());
        let above = if depth < DEPTH_MAX { self.node(parent, depth + 1, groups) } else { 0 };
        let node = self.shares.group(above, groups.weight(id), cap);
        if let Some(group) = self.groups.get_mut(id) {
            group.node = (self.state, node);
        }
        node
    }

    /// Compares what the groups that wanted all they could get have got with their shares, and
    /// corrects their base rates, which position and estimate alone leave off by some per cent.
    fn trim(&mut self) {
        let (mut shares, mut rates) = (0u64, 0u64);
        for group in self.groups.active.iter().filter_map(|&id| self.groups.get(id)) {
            if is_compared(group) {
                shares = shares.saturating_add(group.bandwidth.0);
                rates = rates.saturating_add(group.dirty_rate_smooth);
            }
        }
        for index in 0..self.groups.active.len() {
            let id = self.groups.active[index];
            let Some(group) = self.groups.get_mut(id).filter(|group| is_compared(group)) else {
                continue;
            };
            let due = ratio(group.bandwidth.0, shares).max(1);
            let got = ratio(group.dirty_rate_smooth, rates);
            let error = ratio(got.abs_diff(due).min(due / 2), due) / TRIM_STEPS;
            let step = scale(group.base.rate, error);
            group.base.rate =
                if got < due { group.base.rate + step } else { group.base.rate - step };
        }
    }

    /// The base rate of a group moves.
    fn learn(&mut self, id: GroupId, dirty: u64, is_stale: bool) {
        let Some(group) = self.groups.get(id) else { return };
        let shown = IntervalFigures {
            position: self.position(group, dirty),
            dirty_rate: BytesPerSec(group.dirty_rate),
            bandwidth: group.bandwidth,
            tasks_count: group.tasks_count.max(group.tasks_last_count),
        };
        let Some(group) = self.groups.get_mut(id) else { return };
        // What ran free makes the estimate too low, with which a rate may still rise: else one task
        // that runs free at the mark now and then would keep the rate of all others as it is.
        let is_rated = !group.ran_free || (group.waited && shown.position > ONE);
        if !is_stale && is_rated && group.dirtied > 0 && group.tasks_count > 0 {
            group.base.update(&shown);
        }
        group.tasks_last_count = group.tasks_count;
        group.was_hungry = group.waited;
        (group.dirtied, group.passed, group.tasks_count) = (0, 0, 0);
        (group.waited, group.ran_free, group.held_above) = (false, false, false);
    }

    /// Counts the bytes that passed at a rate; many tasks that start at once are noticed by them.
    pub(super) fn passed(&mut self, id: GroupId, size: u64, tempo: &Tempo) {
        let Some(group) = self.groups.get_mut(id) else { return };
        group.passed = group.passed.saturating_add(size);
        let (rate, base) = (tempo.rate.max(group.base.rate), group.base.rate);
        // 128 bits: a bandwidth has 56 and a rate 64.
        let due = u128::from(group.bandwidth.0 / base.max(1)) * u128::from(rate);
        let room = self.place.device.limit - self.place.device.setpoint;
        let is_surge = group.is_surging() && group.passed > room / ALARM_ROOM;
        if is_surge || u128::from(group.passed) * ALARM.1 > due * ALARM.0 {
            group.passed = 0;
            group.base.brake(group.bandwidth, group.tasks_count.max(group.tasks_last_count));
            group.tempo_of.0 = 0;
        }
    }
}

/// Takes stock of a group's interval. False if it does not take part any more.
fn count(group: &mut PacedGroup, elapsed: u64) -> bool {
    group.dirty_rate = scaled(group.dirtied, 1_000_000_000, elapsed).min(1 << 56);
    let smooth = group.dirty_rate_smooth;
    group.dirty_rate_smooth = smooth - smooth / SMOOTH + group.dirty_rate / SMOOTH;
    let is_idle = group.dirtied == 0 && group.tasks_count == 0;
    group.idle_count = if is_idle { group.idle_count + 1 } else { 0 };
    if group.idle_count >= IDLE_INTERVALS {
        (group.idle_count, group.is_active) = (0, false);
    }
    group.is_active
}

/// Whether its rate says something about how it is treated.
fn is_compared(group: &PacedGroup) -> bool {
    group.waited && group.was_hungry && group.dirty_rate_smooth > 0
}

/// With another part of the bandwidth for the same tasks the base rate is another at once.
fn set_fraction(group: &mut PacedGroup, fraction: u64) {
    if group.fraction != fraction {
        group.base.rate = scale(group.base.rate, ratio(fraction, group.fraction)).max(1);
        group.fraction = fraction;
    }
}
