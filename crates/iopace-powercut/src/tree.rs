//! The file system in memory: its nodes now, and the record of everything since a start.

use crate::cut::{Event, Sync};
use crate::faults::{self, Failed, Faults};
use crate::node::{Change, Node, NodeId, NodeKind, Nodes, ROOT, Reach, apply};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A sync that the disk answers and does not carry out: each must be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Broken {
    /// None: the disk keeps its word.
    #[default]
    Nothing,
    /// `fsync` of files.
    Fsync,
    /// `fdatasync`, which is what a FLUSH becomes.
    Fdatasync,
    /// Syncs of directories.
    Directories,
    /// Durable writes (`O_DSYNC`, `RWF_DSYNC`), which is what FUA becomes.
    DurableWrites,
    /// Of durable writes, the attributes (`O_SYNC` is taken for `O_DSYNC`).
    Attributes,
}

/// The knowledge of a recorder.
pub struct Tree {
    /// The nodes as whoever looks sees them.
    pub nodes: Nodes,
    /// The nodes when the record began, and those that came into being since, as they did.
    pub base: Nodes,
    /// The arrivals since.
    pub events: Vec<Event>,
    /// The duty that the disk neglects.
    pub broken: Broken,
    /// The errors that it tells.
    pub faults: Faults,
    last: NodeId,
    /// Syncs that the kernel sends after a durable write: of which open file, by which thread.
    following: BTreeSet<(u64, u32)>,
}

/// A tree that several threads use.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Tree>>);

impl Default for Shared {
    fn default() -> Shared {
        let root = Node::new(NodeKind::Directory, 0o777);
        let nodes = Nodes::from([(ROOT, Arc::new(root))]);
        Shared(Arc::new(Mutex::new(Tree {
            base: nodes.clone(),
            nodes,
            events: Vec::new(),
            broken: Broken::Nothing,
            faults: Faults::default(),
            last: ROOT,
            following: BTreeSet::new(),
        })))
    }
}

impl Shared {
    /// The tree, for a moment.
    pub fn lock(&self) -> MutexGuard<'_, Tree> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many events have arrived.
    pub fn moment(&self) -> usize {
        self.lock().events.len()
    }
}

impl Tree {
    /// A new node, which has no name yet.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.last += 1;
        let node = Arc::new(node);
        self.base.insert(self.last, Arc::clone(&node));
        self.nodes.insert(self.last, node);
        self.last
    }

    /// Makes a change.
    pub fn change(&mut self, change: Change) {
        apply(&mut self.nodes, &change, Reach::Whole);
        let touched = change.touched();
        self.events.push(Event::Change(change));
        for node in touched {
            if let Some(node) = self.nodes.get_mut(&node) {
                Arc::make_mut(node).stamp = self.events.len() as u64;
            }
        }
    }

    /// Makes a change of content, unless that fails; then it may have been made all the same.
    ///
    /// # Errors
    /// It failed.
    pub fn try_change(&mut self, change: Change) -> Result<(), Failed> {
        let Some(number) = self.faults.strike() else {
            self.change(change);
            return Ok(());
        };
        let is_made = number & 1 == 1;
        self.faults.failed(self.events.len(), 0, faults::FaultKind::Write(is_made));
        if is_made {
            self.change(change);
        }
        Err(Failed)
    }

    /// A sync has arrived.
    ///
    /// # Errors
    /// It failed, or an earlier one of the same file has, of which this open file was not told.
    pub fn sync(&mut self, node: NodeId, data_only: bool, from: (u64, u32)) -> Result<(), Failed> {
        if self.following.remove(&from) {
            return Ok(());
        }
        if self.faults.tells(node, from.0) {
            self.faults.failed(self.events.len(), from.0, faults::FaultKind::Told);
            return Err(Failed);
        }
        self.write_back(node, from.0)?;
        let is_directory = self.nodes.get(&node).is_some_and(|node| node.is_directory());
        let kind = match data_only {
            _ if is_directory => Broken::Directories,
            true => Broken::Fdatasync,
            false => Broken::Fsync,
        };
        if self.broken != kind {
            self.events.push(Event::Sync(Sync::all(node, data_only)));
        }
        Ok(())
    }

    /// Fails now and then.
    fn write_back(&mut self, node: NodeId, handle: u64) -> Result<(), Failed> {
        let Some(seed) = self.faults.strike() else { return Ok(()) };
        if self.faults.hides && seed & 1 == 1 {
            self.events.push(Event::Lost(node, seed));
            return Ok(());
        }
        self.faults.lost(node, handle);
        self.faults.failed(self.events.len(), handle, faults::FaultKind::WriteBack);
        self.events.push(Event::Lost(node, seed));
        Err(Failed)
    }

    /// A durable write was carried out; the kernel sends a sync after it, which is part of it.
    ///
    /// # Errors
    /// It was written, and the write-back failed; the kernel sends no sync then.
    pub fn written(
        &mut self,
        node: NodeId,
        range: (u64, u64),
        full: bool,
        from: (u64, u32),
    ) -> Result<(), Failed> {
        self.write_back(node, from.0)?;
        self.following.insert(from);
        if self.broken != Broken::DurableWrites {
            let data_only = !full || self.broken == Broken::Attributes;
            let range = Some(range.0..range.1);
            self.events.push(Event::Sync(Sync { node, data_only, range }));
        }
        Ok(())
    }

    /// The node with that name.
    pub fn child(&self, directory: NodeId, name: &OsStr) -> Option<NodeId> {
        self.nodes.get(&directory)?.entries.get(name).copied()
    }

    /// The node at a path below the root.
    pub fn find(&self, path: &Path) -> Option<NodeId> {
        path.iter().try_fold(ROOT, |at, name| self.child(at, name))
    }

    /// How many names a node has.
    pub fn links(&self, node: NodeId) -> u32 {
        let names = self.nodes.values().flat_map(|found| found.entries.values());
        names.filter(|named| **named == node).count() as u32
    }

    /// All there is becomes durable and the record begins anew; nothing but what is in `keep`
    /// (names in the root) is left.
    pub fn begin(&mut self, keep: &[&OsStr]) {
        let mut root = Node::clone(&self.nodes[&ROOT]);
        root.entries.retain(|name, _| keep.contains(&name.as_os_str()));
        self.nodes.insert(ROOT, Arc::new(root));
        let (mut reached, mut left) = (Nodes::new(), vec![ROOT]);
        while let Some(id) = left.pop() {
            if let Some(node) = self.nodes.get(&id)
                && reached.insert(id, Arc::clone(node)).is_none()
            {
                left.extend(node.entries.values());
            }
        }
        for node in reached.values_mut() {
            Arc::make_mut(node).stamp = 0;
        }
        (self.base, self.nodes) = (reached.clone(), reached);
        self.events.clear();
    }

    /// Gives a directory a name for a new node, as if it had always been there.
    pub fn preset(&mut self, directory: NodeId, name: &str, node: Node) -> NodeId {
        let id = self.add(node);
        if let Some(found) = self.nodes.get_mut(&directory) {
            Arc::make_mut(found).entries.insert(name.into(), id);
        }
        id
    }
}
