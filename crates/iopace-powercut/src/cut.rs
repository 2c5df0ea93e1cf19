//! The states that a power cut may leave of a record of changes and syncs.
//!
//! # Model
//! A change that a sync covers is there in every state. Any subset of all others may be there, each
//! whole or, if it is one of content, any sectors of it; later ones overwrite earlier ones.
//!
//! - `fsync` of a file covers its content, size and attributes; `fdatasync` content and size; a
//!   write with `O_DSYNC` or `O_SYNC` covers its own range of the content, and the latter the
//!   attributes as well.
//! - A sync of a directory covers the names in it. A rename has all its names changed or none.
//! - A sync of a file covers no name ([`Names::Apart`], as POSIX has it). With [`Names::Journal`],
//!   as ext4 has it, names reach the disk in their order, and a sync of a file or directory covers
//!   all names up to the last change of it.
//! - A write-back that fails leaves any of the open changes of its file, whole, and no later sync
//!   brings the others back.

use crate::node::{Change, NodeId, Nodes, Random, Reach, apply};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Up to so many open changes have each of their subsets tried.
const SUBSETS_MAX: usize = 6;

/// An arrival at a disk, or a call of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A change.
    Change(Change),
    /// A sync.
    Sync(Sync),
    /// A write-back of the file has failed; which of its changes are lost follows from the number.
    Lost(NodeId, u64),
}

/// A sync that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The file or directory.
    pub node: NodeId,
    /// Content and size only.
    pub data_only: bool,
    /// The piece of the content that it covers; `None`: all of it.
    pub range: Option<Range<u64>>,
}

impl Sync {
    /// Of the whole file or directory.
    pub fn all(node: NodeId, data_only: bool) -> Sync {
        Sync { node, data_only, range: None }
    }

    fn covers(&self, change: &Change) -> bool {
        match change {
            Change::Fill { node, offset, fill } if *node == self.node => {
                let end = offset + fill.len();
                self.range.as_ref().is_none_or(|range| range.start <= *offset && end <= range.end)
            }
            Change::Truncate { node, .. } => *node == self.node,
            Change::Names(names) => names.iter().any(|(directory, ..)| *directory == self.node),
            other => other.node() == Some(self.node) && !self.data_only,
        }
    }

    /// Whether the journal has to be written for it, if that change is in there.
    fn commits(&self, change: &Change) -> bool {
        match change {
            Change::Names(names) => names
                .iter()
                .any(|(directory, _, node)| [Some(*directory), *node].contains(&Some(self.node))),
            other => other.node() == Some(self.node) && (other.is_data() || !self.data_only),
        }
    }
}

/// In what order names reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Each by itself.
    Apart,
    /// In the order of a journal.
    Journal,
}

/// How much of each open change is there; a last element for times of modification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    changes: Vec<Option<Reach>>,
    has_stamps: bool,
}

struct Open {
    change: Change,
    is_durable: bool,
}

/// A record up to some moment: what is durable, and what is open.
pub struct Cutter {
    names: Names,
    /// With everything up to the first open change.
    settled: Nodes,
    tail: VecDeque<Open>,
    /// For each node with an open time of modification, the latest one.
    stamps: BTreeMap<NodeId, u64>,
    count: u64,
}

impl Cutter {
    /// Begins with these nodes, all of which are durable.
    pub fn new(base: Nodes, names: Names) -> Cutter {
        let (tail, stamps) = (VecDeque::new(), BTreeMap::new());
        Cutter { names, settled: base, tail, stamps, count: 0 }
    }

    /// The next event.
    pub fn push(&mut self, event: &Event) {
        self.count += 1;
        match event {
            Event::Change(change) => {
                for node in change.touched() {
                    self.stamps.insert(node, self.count);
                }
                self.tail.push_back(Open { change: change.clone(), is_durable: false });
            }
            Event::Sync(sync) => self.sync(sync),
            Event::Lost(node, seed) => self.lose(*node, Random(*seed)),
        }
        while self.tail.front().is_some_and(|open| open.is_durable) {
            let open = self.tail.pop_front().expect("there is one");
            apply(&mut self.settled, &open.change, Reach::Whole);
        }
    }

    fn sync(&mut self, sync: &Sync) {
        if !sync.data_only
            && let Some(stamp) = self.stamps.remove(&sync.node)
            && let Some(node) = self.settled.get_mut(&sync.node)
        {
            Arc::make_mut(node).stamp = stamp;
        }
        let last = self.tail.iter().rposition(|open| sync.commits(&open.change));
        for (at, open) in self.tail.iter_mut().enumerate() {
            let in_journal = self.names == Names::Journal
                && matches!(open.change, Change::Names(_))
                && last.is_some_and(|last| at <= last);
            open.is_durable |= in_journal || sync.covers(&open.change);
        }
    }

    /// Half of the failures lose all that is open, the others some of it.
    fn lose(&mut self, node: NodeId, mut random: Random) {
        let all = random.toss();
        self.tail.retain(|open| {
            let is_open = !open.is_durable && open.change.node() == Some(node);
            !(is_open && (all || random.toss()))
        });
    }

    /// The node came into being; that it has a name is another matter.
    pub fn born(&mut self, node: NodeId, found: &Arc<crate::node::Node>) {
        self.settled.insert(node, Arc::clone(found));
    }

    /// How many changes are open.
    pub fn open_count(&self) -> usize {
        self.tail.iter().filter(|open| !open.is_durable).count()
    }

    /// States to be tried: none of the open changes, all, each but one, only one; every subset
    /// where there are few; and `samples` at random, torn.
    pub fn choices(&self, samples: usize, random: &mut Random) -> Vec<Choice> {
        let count = self.open_count();
        let mut chosen: Vec<Vec<bool>> = vec![vec![false; count], vec![true; count]];
        if count <= SUBSETS_MAX {
            chosen.clear();
            chosen.extend(
                (0..1_u32 << count).map(|set| {
                    (0..count).map(|place| set >> place & 1 == 1).collect::<Vec<bool>>()
                }),
            );
        } else {
            for one in 0..count {
                chosen.push((0..count).map(|place| place == one).collect());
                chosen.push((0..count).map(|place| place != one).collect());
            }
        }
        let whole = |is_there: bool| is_there.then_some(Reach::Whole);
        let mut choices: Vec<Choice> = chosen
            .into_iter()
            .map(|set| Choice {
                has_stamps: count > 0 && set.iter().all(|there| *there),
                changes: set.into_iter().map(whole).collect(),
            })
            .collect();
        for _ in 0..if count == 0 { 0 } else { samples } {
            choices.push(self.sample(random));
        }
        choices
    }

    /// One state: of the open changes those whose place is chosen are there, whole.
    pub fn only(&self, is_there: impl Fn(usize) -> bool) -> Choice {
        let whole = |place| is_there(place).then_some(Reach::Whole);
        Choice { changes: (0..self.open_count()).map(whole).collect(), has_stamps: false }
    }

    /// One state at random, torn.
    pub fn sample(&self, random: &mut Random) -> Choice {
        let some = |random: &mut Random| match random.below(4) {
            0 => None,
            1 => Some(Reach::Whole),
            _ => Some(Reach::Torn(random.number())),
        };
        let changes = (0..self.open_count()).map(|_| some(random)).collect();
        Choice { changes, has_stamps: random.toss() }
    }

    /// The nodes as the disk has them then.
    pub fn state(&self, choice: &Choice) -> Nodes {
        let mut nodes = self.settled.clone();
        let mut chosen = choice.changes.iter();
        let mut is_torn_off = false;
        for open in &self.tail {
            let reach = if open.is_durable {
                Some(Reach::Whole)
            } else {
                *chosen.next().expect("one for each")
            };
            let is_name = matches!(open.change, Change::Names(_));
            // A journal ends somewhere.
            is_torn_off |= is_name && reach.is_none() && self.names == Names::Journal;
            if let Some(reach) = reach.filter(|_| open.is_durable || !(is_name && is_torn_off)) {
                apply(&mut nodes, &open.change, reach);
            }
        }
        for (node, stamp) in self.stamps.iter().filter(|_| choice.has_stamps) {
            if let Some(node) = nodes.get_mut(node) {
                Arc::make_mut(node).stamp = *stamp;
            }
        }
        nodes
    }
}

#[cfg(test)]
mod tests;
