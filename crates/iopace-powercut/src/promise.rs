//! The promises made to a caller, and whether a disk after a power cut keeps them.

use crate::cut::{Cutter, Event, Names, Sync};
use crate::node::{Change, Node, NodeId, Nodes, Random, SECTOR};
use std::collections::BTreeMap;

/// A call that a caller has made.
#[derive(Clone, Debug)]
pub struct Act {
    /// The change or the sync that was asked for.
    pub event: Event,
    /// How many events had arrived at the disk when it began and when it returned.
    pub during: (usize, usize),
    /// A file whose time of modification is durable since, up to the event of that number.
    pub stamp: Option<(NodeId, u64)>,
}

/// All calls of one caller, in their order.
#[derive(Clone, Debug, Default)]
pub struct Calls(pub Vec<Act>);

impl Calls {
    /// A change.
    pub fn changed(&mut self, change: Change, during: (usize, usize)) {
        self.0.push(Act { event: Event::Change(change), during, stamp: None });
    }

    /// A sync, of which the file had been modified last by the event of that number.
    pub fn synced(&mut self, sync: Sync, during: (usize, usize), stamp: u64) {
        let stamp = (!sync.data_only).then_some((sync.node, stamp));
        self.0.push(Act { event: Event::Sync(sync), during, stamp });
    }

    /// The trees that may be there after a cut at a moment, with whole changes.
    fn candidates(&self, base: &Nodes, moment: usize, names: Names) -> Vec<Nodes> {
        let mut cutter = Cutter::new(base.clone(), names);
        for act in &self.0 {
            let counts = match act.event {
                Event::Change(_) => act.during.0 <= moment,
                Event::Sync(_) | Event::Lost(..) => act.during.1 <= moment,
            };
            if counts {
                cutter.push(&act.event);
            }
        }
        let choices = cutter.choices(0, &mut Random(0));
        choices.iter().map(|choice| cutter.state(choice)).collect()
    }
}

/// The conditions that hold of a disk after a cut at one moment.
pub struct Promise {
    candidates: Vec<Nodes>,
    stamps: BTreeMap<NodeId, u64>,
}

impl Promise {
    /// After these calls on these nodes.
    pub fn new(calls: &Calls, base: &Nodes, moment: usize, names: Names) -> Promise {
        let candidates = calls.candidates(base, moment, names);
        let returned = calls.0.iter().filter(|act| act.during.1 <= moment);
        let mut stamps = BTreeMap::new();
        for (node, stamp) in returned.filter_map(|act| act.stamp) {
            let least = stamps.entry(node).or_insert(0);
            *least = stamp.max(*least);
        }
        Promise { candidates, stamps }
    }

    /// Whether the disk keeps it.
    ///
    /// # Errors
    /// The promise that is not kept.
    pub fn check(&self, disk: &Nodes) -> Result<(), String> {
        let directories = |nodes: &Nodes| -> Vec<_> {
            let all = nodes.iter().filter(|(_, node)| node.is_directory());
            all.map(|(id, node)| (*id, node.entries.clone())).collect()
        };
        let names = directories(disk);
        if !self.candidates.iter().any(|one| directories(one) == names) {
            return Err(format!("names: {names:?}"));
        }
        for (id, node) in disk {
            let all: Vec<&Node> =
                self.candidates.iter().filter_map(|one| Some(&**one.get(id)?)).collect();
            content(node, &all).map_err(|error| format!("node {id}: {error}"))?;
            let is_one = |same: &dyn Fn(&Node) -> bool| all.iter().any(|one| same(one));
            if !is_one(&|one| one.mode == node.mode && one.owner == node.owner) {
                return Err(format!("node {id}: mode {:o}, owner {:?}", node.mode, node.owner));
            }
            if !is_one(&|one| one.xattrs == node.xattrs) {
                return Err(format!("node {id}: attributes {:?}", node.xattrs));
            }
        }
        for (id, stamp) in &self.stamps {
            let found = disk.get(id).map_or(0, |node| node.stamp);
            if found < *stamp {
                return Err(format!("node {id}: modified at {found}, {stamp} was durable"));
            }
        }
        Ok(())
    }
}

/// The content of a file is that of the candidates, sector by sector.
fn content(node: &Node, candidates: &[&Node]) -> Result<(), String> {
    let len = node.data.len();
    let sizes = || candidates.iter().map(|one| one.data.len());
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    if len < least || len > most {
        return Err(format!("{len} bytes, not {least} to {most}"));
    }
    for (place, sector) in node.data.chunks(SECTOR).enumerate() {
        let at = place * SECTOR;
        let is_same = |one: &&Node| {
            let from = one.data.len().min(at);
            let found = &one.data[from..one.data.len().min(at + sector.len())];
            sector[..found.len()] == *found && sector[found.len()..].iter().all(|byte| *byte == 0)
        };
        // A file that grows has zeroes where its new content is missing.
        let is_new = at >= least && sector.iter().all(|byte| *byte == 0);
        if !is_new && !candidates.iter().any(is_same) {
            let first = sector[0];
            return Err(format!("sector {place} begins with {first:#x}, which nobody wrote there"));
        }
    }
    Ok(())
}
