//! Divides the device's write bandwidth among the groups that dirty, by weight at each level of the
//! tree. A group that takes less than its share leaves the rest to its siblings (water-filling).
//!
//! ```text
//!   root 100 MB/s ── A weight 100, wants all ──────────── 45
//!                 ├─ B weight 100, capped at 10 MB/s ──── 10, and could have 33
//!                 └─ C weight 100 ─┬─ C's own tasks 100 ─ 22.5
//!                                  └─ D weight 100 ────── 22.5
//! ```
//! Tasks of a group that has groups below it weigh as one child of the default weight.
//!
//! 1. The shares of those that want all they can get are as their weights.
//! 2. Nothing is left over while somebody wants more.
//! 3. Who takes less may have at least what he would have if he wanted all.
//! 4. Groups below one with a limit share the limit likewise.

use crate::group::Weight;
use crate::units::scaled;

/// A group or, as a leaf, the tasks of one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShareNode {
    /// Place of the parent in the list; the root is its own.
    parent: usize,
    weight: u64,
    /// The limit of all below it, in bytes/s.
    cap: u64,
    /// What it took lately.
    demand: u64,
    /// Whether it wants all that it can get.
    hungry: bool,
    /// What it may take.
    pub(super) share: u64,
    first_child: usize,
    next: usize,
}

/// So much more than a limit is divided among those below it, so that rates do not come short of
/// what its meter lets pass: 3 %.
const CAP_ROOM: u64 = 32;

/// No node.
const NONE: usize = usize::MAX;

/// The tree of one division. Parents stand before their children.
#[derive(Debug, Default)]
pub(super) struct Shares {
    nodes: Vec<ShareNode>,
    order: Vec<usize>,
}

impl Shares {
    /// Begins anew, with the root only.
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.push(0, 0, u64::MAX);
    }

    fn push(&mut self, parent: usize, weight: u64, cap: u64) -> usize {
        let (first_child, next) = (NONE, NONE);
        self.nodes.push(ShareNode {
            parent,
            weight,
            cap,
            first_child,
            next,
            ..ShareNode::default()
        });
        self.nodes.len() - 1
    }

    /// A group below another, with a limit of `cap` bytes/s or none ([`u64::MAX`]).
    pub(super) fn group(&mut self, parent: usize, weight: Weight, cap: u64) -> usize {
        let place = self.push(parent, u64::from(weight.get()), cap);
        self.nodes[place].next = self.nodes[parent].first_child;
        self.nodes[parent].first_child = place;
        place
    }

    /// The tasks of a group, that take `demand` bytes/s, or want all they can get.
    pub(super) fn tasks(&mut self, group: usize, demand: u64, hungry: bool) -> usize {
        let place = self.group(group, Weight::DEFAULT, u64::MAX);
        (self.nodes[place].demand, self.nodes[place].hungry) = (demand, hungry);
        place
    }

    /// What a node may take.
    pub(super) fn share(&self, place: usize) -> u64 {
        self.nodes[place].share
    }

    /// Divides.
    pub(super) fn divide(&mut self, bandwidth: u64) {
        for place in (1..self.nodes.len()).rev() {
            let node = &mut self.nodes[place];
            if node.cap < u64::MAX && (node.hungry || node.demand > node.cap) {
                (node.demand, node.hungry) = (node.cap, false);
            }
            let ShareNode { parent, demand, hungry, .. } = self.nodes[place];
            let parent = &mut self.nodes[parent];
            parent.demand = parent.demand.saturating_add(demand);
            parent.hungry |= hungry;
        }
        self.nodes[0].share = bandwidth;
        for place in 0..self.nodes.len() {
            self.divide_below(place);
        }
    }

    fn divide_below(&mut self, place: usize) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let mut child = self.nodes[place].first_child;
        while child != NONE {
            order.push(child);
            child = self.nodes[child].next;
        }
        let ShareNode { share, cap, .. } = self.nodes[place];
        // Who is alone below a limit is held by its meter, and needs no rate.
        let is_shared = order.len() > 1 && cap < u64::MAX;
        let whole = if is_shared { share.min(cap.saturating_add(cap / CAP_ROOM)) } else { share };
        let all: u64 = order.iter().map(|&child| self.nodes[child].weight).sum();
        // Those that want least for their weight first.
        order.sort_by(|&a, &b| {
            let (a, b) = (&self.nodes[a], &self.nodes[b]);
            let wants = |node: &ShareNode, other: &ShareNode| {
                (node.hungry, u128::from(node.demand) * u128::from(other.weight))
            };
            wants(a, b).cmp(&wants(b, a))
        });
        let (mut rest, mut weights) = (whole, all);
        let mut satisfied = 0;
        for &child in &order {
            let node = &self.nodes[child];
            if node.hungry || node.demand > scaled(rest, node.weight, weights) {
                break;
            }
            rest -= node.demand;
            weights -= node.weight;
            satisfied += 1;
        }
        for (index, &child) in order.iter().enumerate() {
            let node = &mut self.nodes[child];
            node.share = if index >= satisfied {
                scaled(rest, node.weight, weights)
            } else if weights > 0 {
                scaled(rest + node.demand, node.weight, weights + node.weight)
            } else {
                node.demand.max(scaled(whole, node.weight, all))
            };
        }
        self.order = order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::rate::tests::Random;

    const MAX: u64 = u64::MAX;

    fn weight(weight: u32) -> Weight {
        Weight::new(weight).expect("legal")
    }

    #[test]
    fn p1_shares_are_as_weights_at_each_level() {
        let mut shares = Shares::default();
        shares.clear();
        let (a, b) = (shares.group(0, weight(100), MAX), shares.group(0, weight(200), MAX));
        let c = shares.group(b, weight(300), MAX);
        let tasks = [(a, 0, true), (b, 0, true), (c, 0, true)];
        let tasks = tasks.map(|(group, demand, hungry)| shares.tasks(group, demand, hungry));
        shares.divide(120);
        assert_eq!(tasks.map(|place| shares.share(place)), [40, 20, 60]);
    }

    #[test]
    fn p2_what_one_leaves_the_others_get() {
        let mut shares = Shares::default();
        shares.clear();
        let groups = [100, 100, 100].map(|w| shares.group(0, weight(w), MAX));
        let wants = [(0, true), (10, false), (0, true)];
        let tasks = [0, 1, 2].map(|i| shares.tasks(groups[i], wants[i].0, wants[i].1));
        shares.divide(100);
        assert_eq!(tasks.map(|place| shares.share(place)), [45, 33, 45]);
    }

    #[test]
    fn p4_a_limit_is_shared_by_those_below_it() {
        let mut shares = Shares::default();
        shares.clear();
        let (limited, free) = (shares.group(0, weight(100), 20), shares.group(0, weight(100), MAX));
        let (a, b) =
            (shares.group(limited, weight(100), MAX), shares.group(limited, weight(300), MAX));
        let tasks = [a, b, free].map(|group| shares.tasks(group, 0, true));
        shares.divide(100);
        assert_eq!(tasks.map(|place| shares.share(place)), [5, 15, 80]);
    }

    #[test]
    fn p3_who_takes_less_may_have_his_share_and_nothing_is_left() {
        let mut random = Random(3);
        for _ in 0..2_000 {
            let mut shares = Shares::default();
            shares.clear();
            let count = 1 + random.below(8) as usize;
            let wants: Vec<(u32, u64, bool)> = (0..count)
                .map(|_| {
                    let weight = 1 + random.below(1_000) as u32;
                    (weight, random.below(1_000_000), random.below(2) == 0)
                })
                .collect();
            let places: Vec<usize> = wants
                .iter()
                .map(|&(w, demand, hungry)| {
                    let group = shares.group(0, weight(w), MAX);
                    shares.tasks(group, demand, hungry)
                })
                .collect();
            shares.divide(1_000_000);
            let all: u64 = wants.iter().map(|&(w, ..)| u64::from(w)).sum();
            let mut taken = 0;
            for (&(w, demand, hungry), &place) in wants.iter().zip(&places) {
                let share = shares.share(place);
                assert!(share + 1 >= 1_000_000 * u64::from(w) / all || demand < share, "{wants:?}");
                taken += if hungry { share } else { demand.min(share) };
            }
            let wanted: u64 = wants.iter().map(|&(_, demand, _)| demand).sum();
            let is_full = wants.iter().any(|want| want.2) || wanted >= 1_000_000;
            assert!(taken <= 1_000_000 && (!is_full || taken + 10 > 1_000_000), "{wants:?}");
        }
    }
}
