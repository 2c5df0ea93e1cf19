//! The groups as this stage sees them: who waits, who may go on, and who is first.
//!
//! Every node keeps, for each lane, the set of its children that could be served now, ordered by
//! [`ServiceOrder`]; a node is in its parent's set exactly while something below it waits, its cap
//! is not reached and its limits are open. So the next request is found by walking down the first
//! entries, and every change costs the walk up: O(depth x log siblings). A group has a node once
//! something of it, or below it, waits, or something is metered for it.

use super::node::{GuaranteeNode, ServiceOrder, cost};
use super::{Admit, GuaranteedSlots};
use crate::group::rates::{GroupRate, Total};
use crate::group::table::{Groups, SettingKind};
use crate::ordered::Ordered;
use crate::request::{GroupId, Lane};
use crate::time::Instant;
use crate::units::Bytes;

impl GuaranteedSlots {
    pub(super) fn node(&mut self, id: GroupId) -> &mut GuaranteeNode {
        self.nodes[id].get_or_insert_default()
    }

    /// Charges a request to its group, and to every group on the way up as a child of its parent.
    /// The root group competes with nobody.
    #[inline(always)]
    pub(super) fn charge(&mut self, bytes: Bytes, group: GroupId, groups: &Groups) {
        let (mut id, mut row) = (group, &mut self.rows[group]);
        row.charge_own(bytes);
        while id != GroupId::ROOT {
            row.taken += 1;
            let (weight, service, parent) = (groups.weight(id), row.service, groups.parent(id));
            let above = &mut self.rows[parent];
            let begin = above.begin(service);
            self.rows[id].service = begin.saturating_add(cost(bytes, weight));
            (id, row) = (parent, &mut self.rows[parent]);
        }
        row.taken += 1;
    }

    /// Looks again at everybody whose time has come.
    pub(super) fn wake(&mut self, now: Instant, groups: &Groups) {
        while let Some((at, id)) = self.alarms.first() {
            if at > now {
                return;
            }
            self.alarms.pop_first();
            self.node(id).alarm = None;
            self.refresh_up(now, id, groups);
        }
    }

    /// From when on no limit of the group or of one above it is closed for the lane.
    pub(super) fn opens(&self, id: GroupId, lane: Lane, groups: &Groups) -> Instant {
        let limited =
            groups.chain(id, SettingKind::Limit).filter_map(|id| self.nodes[id].as_deref());
        limited.map(|node| node.opens(lane)).max().unwrap_or(Instant::ZERO)
    }

    /// When the limits on the way of a group open, and when slots were missing last for it: of the
    /// device, its own, or those of a group above.
    pub(super) fn way(&self, id: GroupId, lane: Lane, groups: &Groups) -> (Instant, Instant) {
        let all = groups.up(id).chain([GroupId::ROOT]).map(|id| self.rows[id].short_until);
        (self.opens(id, lane, groups), all.fold(self.short_until, Instant::max))
    }

    /// The first request of a group and lane goes on and is charged to all groups above.
    pub(super) fn take(
        &mut self,
        now: Instant,
        group: GroupId,
        lane: Lane,
        groups: &Groups,
    ) -> Admit {
        self.waiting_count -= 1;
        let way = self.way(group, lane, groups);
        let line = &mut self.node(group).lines[lane as usize];
        let (ask, budget) = line.pop(now, way).expect("its own requests are ready");
        let (mut reserved, mut totals, bytes) = (false, Vec::new(), ask.bytes.get());
        for id in groups.chain(group, SettingKind::Guarantee) {
            let node = self.node(id);
            reserved |= node.owed(lane) <= now;
            node.guarantees.iter_mut().for_each(|rate| rate.serve(now, lane, bytes));
        }
        for id in groups.chain(group, SettingKind::Limit) {
            let limits = &mut self.node(id).limits;
            if !ask.sync && matches!(lane, Lane::Write | Lane::WriteBack) {
                limits.iter_mut().filter(|rate| rate.counts(lane)).for_each(GroupRate::turn);
            }
            let iops_size = groups.settings(id).max.iops_size;
            let mut total = Total::default();
            for rate in limits {
                let amount = rate.charge(now, lane, bytes, iops_size);
                rate.note(amount, &mut total);
            }
            if total.is_any() {
                totals.push((id, total));
            }
        }
        self.charge(ask.bytes, group, groups);
        self.refresh_up(now, group, groups);
        Admit::Ready { id: ask.id, reserved, budget, totals }
    }

    /// The group and lane that are next: down the first entries of all lanes at once, so that lanes
    /// of one group are served in the order in which its requests arrived.
    pub(super) fn next(&mut self) -> Option<(GroupId, Lane)> {
        let mut id = GroupId::ROOT;
        let mut lanes = self.node(id).listed.map(|key| key.is_some());
        loop {
            let node = self.node(id);
            let first = |lane: Lane| {
                let listed = lanes[lane as usize].then(|| node.ready[lane as usize].first());
                listed.flatten()
            };
            let best = Lane::ALL.into_iter().filter_map(first).min()?;
            lanes = Lane::ALL.map(|lane| first(lane).is_some_and(|key| key.id == best.id));
            if best.id == id {
                let own = Lane::ALL.into_iter().filter(|lane| lanes[*lane as usize]);
                let head = |lane: &Lane| node.lines[*lane as usize].front().map(|ask| ask.id);
                return own.min_by_key(|lane| head(lane).map(|id| id.sequence)).map(|l| (id, l));
            }
            id = best.id;
        }
    }

    /// Puts a node and its ancestors into their right places.
    pub(super) fn refresh_up(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        if self.waiting_count == 0 && self.nodes[id].is_none() {
            return;
        }
        for id in groups.up(id).chain([GroupId::ROOT]) {
            self.refresh_own(id);
            self.refresh_in_parent(now, id, groups);
        }
    }

    fn refresh_own(&mut self, id: GroupId) {
        let row = self.rows[id];
        let node = self.node(id);
        for lane in Lane::ALL {
            let key = node.own_key(&row, lane, id);
            relist(&mut node.ready[lane as usize], &mut node.own_listed[lane as usize], key);
        }
    }

    fn refresh_in_parent(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        let (row, parent) = (self.rows[id], groups.parent(id));
        let is_root = id == GroupId::ROOT;
        let floor = if is_root { 0 } else { self.rows[parent].floor };
        let node = self.node(id);
        let (mut keys, mut alarm) = ([None; Lane::ALL.len()], None::<Instant>);
        for lane in Lane::ALL {
            let (key, again) = node.key(now, &row, lane, (id, floor, groups));
            keys[lane as usize] = key;
            alarm = match (alarm, again) {
                (Some(at), Some(again)) => Some(at.min(again)),
                (at, again) => at.or(again),
            };
        }
        let mut listed = std::mem::replace(&mut node.listed, keys);
        let old_alarm = std::mem::replace(&mut node.alarm, alarm);
        if listed != keys && !is_root {
            let parent = self.node(parent);
            for lane in Lane::ALL {
                let place = lane as usize;
                relist(&mut parent.ready[place], &mut listed[place], keys[place]);
            }
        }
        if alarm != old_alarm {
            if let Some(at) = old_alarm {
                self.alarms.take((at, id));
            }
            if let Some(at) = alarm {
                self.alarms.insert((at, id));
            }
        }
    }
}

/// Exchanges an entry of an ordered set.
fn relist(
    set: &mut Ordered<ServiceOrder>,
    listed: &mut Option<ServiceOrder>,
    key: Option<ServiceOrder>,
) {
    if *listed == key {
        return;
    }
    if let Some(old) = listed {
        set.take(*old);
    }
    if let Some(new) = key {
        set.insert(new);
    }
    *listed = key;
}
