//! The tree of groups as this stage sees it: who waits, who may go on, and who is first.
//!
//! Every node keeps, for each lane, the set of its children that could be served now, ordered by
//! [`Key`]; a node is in its parent's set exactly while something below it waits, its cap is not
//! reached and its limits are open. So the next request is found by walking down the first entries,
//! and every change costs the walk up: O(depth x log siblings).

use super::node::{Key, Line, Node, Row};
use super::total::totals;
use super::{Ask, GroupSlots};
use crate::group::Settings;
use crate::group::rates::{Rate, Total, guarantee_rates, limit_rates, set_rates};
use crate::request::{GroupId, Lane};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::BTreeSet;

/// Where the root group stands: node 0 is the device, so that the root group can be limited too.
const ROOT: u32 = 1;

/// Where a group stands.
pub(super) fn place(id: GroupId) -> u32 {
    id.0 + ROOT
}

/// What [`Tree::take`] has taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) ask: Ask,
    pub(super) reserved: bool,
    pub(super) budget: Nanos,
    pub(super) totals: Vec<(GroupId, Total)>,
}

/// All groups of a device.
#[derive(Debug)]
pub(super) struct Tree {
    /// By place, as `nodes`; [`Row::VACANT`] where there is no group.
    rows: Vec<Row>,
    pub(super) nodes: Vec<Option<Box<Node>>>,
    /// When which node has to be looked at again.
    alarms: BTreeSet<(Instant, u32)>,
    pub(super) waiting_count: usize,
    /// Limits of reads and writes together, of all groups.
    pub(super) totals_count: usize,
}

impl Tree {
    pub(super) fn new() -> Tree {
        let (rows, nodes, alarms) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut tree = Tree { rows, nodes, alarms, waiting_count: 0, totals_count: 0 };
        tree.ensure(ROOT);
        tree.ensure(0);
        tree
    }

    pub(super) fn node(&mut self, index: u32) -> &mut Node {
        self.nodes[index as usize].as_mut().expect("a group that is used exists")
    }

    fn row(&mut self, index: u32) -> &mut Row {
        &mut self.rows[index as usize]
    }

    pub(super) fn parent(&self, index: u32) -> u32 {
        self.rows[index as usize].parent
    }

    /// A group that nobody told us of is a child of the root group with default settings.
    #[inline]
    pub(super) fn ensure(&mut self, index: u32) {
        if !self.nodes.get(index as usize).is_some_and(Option::is_some) {
            self.make(index);
        }
    }

    #[cold]
    fn make(&mut self, index: u32) {
        let at = index as usize;
        if self.nodes.len() <= at {
            self.nodes.resize_with(at + 1, || None);
            self.rows.resize(at + 1, Row::VACANT);
        }
        self.rows[at].parent = if index <= ROOT { 0 } else { ROOT };
        self.nodes[at] = Some(Box::default());
        self.tell(index);
    }

    /// Puts what follows from the settings of a group into its row.
    fn tell(&mut self, index: u32) {
        if let Some(node) = &self.nodes[index as usize] {
            node.tell(&mut self.rows[index as usize]);
        }
    }

    pub(super) fn set(&mut self, now: Instant, id: GroupId, parent: GroupId, new: &Settings) {
        self.ensure(place(parent));
        self.ensure(place(id));
        if id != GroupId::ROOT {
            let row = self.row(place(id));
            debug_assert!(row.taken == 0 || row.parent == place(parent), "groups do not move");
            row.parent = place(parent);
        }
        let node = self.node(place(id));
        let before = totals(&node.limits);
        set_rates(now, &mut node.limits, limit_rates(now, &new.max));
        let after = totals(&node.limits);
        set_rates(now, &mut node.guarantees, guarantee_rates(now, &new.min));
        node.settings = *new;
        self.totals_count = self.totals_count + after - before;
        self.tell(place(id));
        self.refresh_up(now, place(id));
    }

    pub(super) fn narrow(&mut self, now: Instant, id: GroupId, cap: Option<u32>) {
        self.ensure(place(id));
        self.node(place(id)).narrowed = cap;
        self.tell(place(id));
        self.refresh_up(now, place(id));
    }

    pub(super) fn remove(&mut self, id: GroupId) {
        let Some(node) = self.nodes.get_mut(place(id) as usize).and_then(Option::take) else {
            return;
        };
        let row = std::mem::replace(self.row(place(id)), Row::VACANT);
        assert_eq!(row.taken, 0, "a group with requests was removed");
        self.totals_count -= totals(&node.limits);
        if let Some(at) = node.alarm {
            self.alarms.remove(&(at, place(id)));
        }
        while self.nodes.last().is_some_and(Option::is_none) {
            self.nodes.pop();
            self.rows.pop();
        }
    }

    pub(super) fn taken(&self) -> u32 {
        self.rows[0].taken
    }

    pub(super) fn group(&self, id: GroupId) -> GroupSlots {
        let Some(Some(node)) = self.nodes.get(place(id) as usize) else {
            return GroupSlots::default();
        };
        let waiting = node.lines.iter().map(Line::len).sum::<usize>();
        let waiting_count = u32::try_from(waiting).unwrap_or(u32::MAX);
        GroupSlots { taken_count: self.rows[place(id) as usize].taken, waiting_count }
    }

    pub(super) fn enqueue(&mut self, now: Instant, ask: Ask) {
        self.ensure(place(ask.group));
        let way = (self.opens(ask.group, ask.lane), self.short_until(place(ask.group)));
        let is_first = self.node(place(ask.group)).lines[ask.lane as usize].push(now, ask, way);
        self.waiting_count += 1;
        if is_first {
            self.refresh_up(now, place(ask.group));
        }
    }

    /// Charges a request of a group that nothing can hold up, as long as nobody waits: the short
    /// way for a device with slots to spare. False if it has to ask like everybody.
    #[inline(always)]
    pub(super) fn pass(&mut self, group: GroupId, bytes: Bytes) -> bool {
        if self.waiting_count > 0 {
            return false;
        }
        self.ensure(place(group));
        let mut index = place(group);
        while index != 0 {
            let row = &self.rows[index as usize];
            if row.taken >= row.free_cap {
                return false;
            }
            index = row.parent;
        }
        self.row(place(group)).charge_own(bytes);
        index = place(group);
        while index != 0 {
            index = self.charge(bytes, index);
        }
        self.rows[0].taken += 1;
        true
    }

    /// Charges a request to a group as a child of its parent, which is returned. The root group is
    /// the only child of the device: it competes with nobody.
    #[inline]
    fn charge(&mut self, bytes: Bytes, index: u32) -> u32 {
        let parent = self.parent(index);
        if index == ROOT {
            self.row(index).taken += 1;
            return parent;
        }
        let floor = self.row(parent).floor;
        let floor = self.row(index).charge(bytes, floor);
        self.row(parent).floor = floor;
        parent
    }

    /// The next instant at which somebody may go on by time alone.
    pub(super) fn next_alarm(&self) -> Instant {
        self.alarms.first().map_or(Instant::NEVER, |(at, _)| *at)
    }

    /// Looks again at everybody whose time has come.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some(&(at, index)) = self.alarms.first() {
            if at > now {
                return;
            }
            self.alarms.pop_first();
            self.node(index).alarm = None;
            self.refresh_up(now, index);
        }
    }

    /// From when on no limit of the group or of one above it is closed for the lane.
    pub(super) fn opens(&self, id: GroupId, lane: Lane) -> Instant {
        let (mut index, mut opens) = (place(id), Instant::ZERO);
        while index != 0 {
            let Some(Some(node)) = self.nodes.get(index as usize) else { break };
            opens = opens.max(node.opens(lane));
            index = self.parent(index);
        }
        opens
    }

    /// Whether anybody could go on, were there a slot.
    pub(super) fn has_ready(&mut self) -> bool {
        self.node(0).ready.iter().any(|set| !set.is_empty())
    }

    /// Takes the request that is next, if any may go on, and charges it to all its ancestors. With
    /// it: whether a guarantee pays for it, how long it waited for limits, and what those of reads
    /// and writes together were charged.
    pub(super) fn take(&mut self, now: Instant) -> Option<Taken> {
        let (mut index, lane) = self.next()?;
        self.waiting_count -= 1;
        let way = (self.opens(GroupId(index - ROOT), lane), self.short_until(index));
        let line = &mut self.node(index).lines[lane as usize];
        let (ask, unpaid) = line.pop(now, way).expect("its own requests are ready");
        self.row(index).charge_own(ask.bytes);
        let (mut reserved, mut totals, bytes) = (false, Vec::new(), ask.bytes.get());
        while index != 0 {
            let node = self.node(index);
            reserved |= node.owed(lane) <= now;
            if !ask.sync && matches!(lane, Lane::Write | Lane::WriteBack) {
                let limits = node.limits.iter_mut().filter(|rate| rate.counts(lane));
                limits.for_each(Rate::turn);
            }
            let iops_size = node.settings.max.iops_size;
            let mut total = Total::default();
            for rate in &mut node.limits {
                let amount = rate.charge(now, lane, bytes, iops_size);
                rate.note(amount, &mut total);
            }
            for rate in &mut node.guarantees {
                rate.charge(now, lane, bytes, None);
            }
            if total.is_any() {
                totals.push((GroupId(index - ROOT), total));
            }
            index = self.charge(ask.bytes, index);
        }
        self.rows[0].taken += 1;
        self.refresh_up(now, place(ask.group));
        Some(Taken { ask, reserved, budget: unpaid, totals })
    }

    /// When slots were missing last for a group, its own or those of one above.
    fn short_until(&self, mut index: u32) -> Instant {
        let mut short = self.rows[0].short_until;
        while let Some(row) = self.rows.get(index as usize).filter(|_| index != 0) {
            short = short.max(row.short_until);
            index = row.parent;
        }
        short
    }

    /// A slot comes back; `is_full`: the device had no other.
    #[inline(always)]
    pub(super) fn release(&mut self, now: Instant, id: GroupId, is_full: bool) {
        let mut index = place(id);
        let row = self.row(index);
        assert!(row.own_taken > 0, "a slot was given back that nobody took");
        row.own_taken -= 1;
        while index != 0 {
            let row = self.row(index);
            if row.taken >= row.cap {
                row.short_until = now;
            }
            row.taken -= 1;
            index = row.parent;
        }
        let device = self.row(0);
        if is_full {
            device.short_until = now;
        }
        device.taken -= 1;
        if self.waiting_count > 0 {
            self.refresh_up(now, place(id));
        }
    }

    /// The group and lane that are next: down the first entries of all lanes at once, so that lanes
    /// of one group are served in the order in which its requests arrived.
    fn next(&mut self) -> Option<(u32, Lane)> {
        let (mut index, mut lanes) = (0, [true; Lane::ALL.len()]);
        loop {
            let node = self.node(index);
            let first = |lane: Lane| {
                let listed = lanes[lane as usize].then(|| node.ready[lane as usize].first());
                listed.flatten().copied()
            };
            let best = Lane::ALL.into_iter().filter_map(first).min()?;
            lanes = Lane::ALL.map(|lane| first(lane).is_some_and(|key| key.index == best.index));
            if best.index == index {
                let own = Lane::ALL.into_iter().filter(|lane| lanes[*lane as usize]);
                let head = |lane: &Lane| node.lines[*lane as usize].front().map(|ask| ask.id);
                return own.min_by_key(|lane| head(lane).map(|id| id.sequence)).map(|l| (index, l));
            }
            index = best.index;
        }
    }

    /// Puts a node and its ancestors into their right places.
    pub(super) fn refresh_up(&mut self, now: Instant, mut index: u32) {
        loop {
            self.refresh_own(index);
            if index == 0 {
                return;
            }
            self.refresh_in_parent(now, index);
            index = self.parent(index);
        }
    }

    fn refresh_own(&mut self, index: u32) {
        let row = self.rows[index as usize];
        let node = self.node(index);
        for lane in Lane::ALL {
            let key = node.own_key(&row, lane, index);
            relist(&mut node.ready[lane as usize], &mut node.own_listed[lane as usize], key);
        }
    }

    fn refresh_in_parent(&mut self, now: Instant, index: u32) {
        let row = self.rows[index as usize];
        let floor = self.row(row.parent).floor;
        let node = self.node(index);
        let (mut keys, mut alarm) = ([None; Lane::ALL.len()], None::<Instant>);
        for lane in Lane::ALL {
            let (key, again) = node.key(now, &row, lane, (floor, index));
            keys[lane as usize] = key;
            alarm = match (alarm, again) {
                (Some(at), Some(again)) => Some(at.min(again)),
                (at, again) => at.or(again),
            };
        }
        let mut listed = node.listed;
        let old_alarm = node.alarm;
        node.alarm = alarm;
        if listed != keys {
            node.listed = keys;
            let parent = self.node(row.parent);
            for lane in Lane::ALL {
                let place = lane as usize;
                relist(&mut parent.ready[place], &mut listed[place], keys[place]);
            }
        }
        if alarm != old_alarm {
            if let Some(at) = old_alarm {
                self.alarms.remove(&(at, index));
            }
            if let Some(at) = alarm {
                self.alarms.insert((at, index));
            }
        }
    }
}

/// Exchanges an entry of an ordered set.
fn relist(set: &mut BTreeSet<Key>, listed: &mut Option<Key>, key: Option<Key>) {
    if *listed == key {
        return;
    }
    if let Some(old) = listed {
        set.remove(old);
    }
    if let Some(new) = key {
        set.insert(new);
    }
    *listed = key;
}
