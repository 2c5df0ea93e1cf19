//! One file, directory or link as a disk holds it, and the changes that can be made to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

/// A disk never tears a write inside of one of these.
pub const SECTOR: usize = 512;

/// The number of a node, which is its inode number as well.
pub type NodeId = u64;

/// The root directory.
pub const ROOT: NodeId = 1;

/// All nodes by number. Cloning copies no content.
pub type Nodes = BTreeMap<NodeId, Arc<Node>>;

/// The kind of a node, which never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with its target.
    Link(OsString),
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Extended attributes.
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    /// Number of the event that changed it last: its time of modification.
    pub stamp: u64,
    /// Content of a file.
    pub data: Vec<u8>,
    /// Names in a directory.
    pub entries: BTreeMap<OsString, NodeId>,
}

impl Node {
    /// An empty one.
    pub fn new(kind: NodeKind, mode: u32) -> Node {
        let (xattrs, entries) = (BTreeMap::new(), BTreeMap::new());
        Node { kind, mode, owner: (0, 0), xattrs, stamp: 0, data: Vec::new(), entries }
    }

    /// A file with that content.
    pub fn file(data: impl Into<Vec<u8>>) -> Node {
        Node { data: data.into(), ..Node::new(NodeKind::File, 0o644) }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == NodeKind::Directory
    }
}

/// The new content of a piece of a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Fill {
    /// These bytes; the file grows if they reach beyond its end.
    Data(Arc<[u8]>),
    /// So many zeroes, as by a punched hole; the file does not grow.
    Zeroes(u64),
    /// So many zeroes where the file has no bytes yet: space is allocated, and the file grows.
    Room(u64),
}

impl Fill {
    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a change of nothing is none")]
    pub fn len(&self) -> u64 {
        match self {
            Fill::Data(data) => data.len() as u64,
            Fill::Zeroes(len) | Fill::Room(len) => *len,
        }
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fill::Data(data) => {
                write!(f, "{} bytes from {:#x} on", data.len(), data.first().unwrap_or(&0))
            }
            Fill::Zeroes(len) => write!(f, "{len} zeroes"),
            Fill::Room(len) => write!(f, "room for {len} bytes"),
        }
    }
}

/// A change of one node, or of the names in one or two directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A piece of a file's content.
    Fill {
        /// The file.
        node: NodeId,
        /// First byte.
        offset: u64,
        /// New content.
        fill: Fill,
    },
    /// The size of a file.
    Truncate {
        /// The file.
        node: NodeId,
        /// Its new size.
        size: u64,
    },
    /// Attributes; `None` stays.
    Attributes {
        /// Whose.
        node: NodeId,
        /// Permission bits.
        mode: Option<u32>,
        /// Owner and group.
        owner: (Option<u32>, Option<u32>),
    },
    /// An extended attribute.
    Xattr {
        /// Whose.
        node: NodeId,
        /// Its name.
        name: OsString,
        /// Its value; `None`: removed.
        value: Option<Vec<u8>>,
    },
    /// Names, all of them or none: `None` is no entry any more.
    Names(Vec<(NodeId, OsString, Option<NodeId>)>),
}

impl Change {
    /// The node whose content or attributes change.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Change::Fill { node, .. }
            | Change::Truncate { node, .. }
            | Change::Attributes { node, .. }
            | Change::Xattr { node, .. } => Some(*node),
            Change::Names(_) => None,
        }
    }

    /// Whether it is one of content or size, for which `fdatasync` is enough.
    pub fn is_data(&self) -> bool {
        matches!(self, Change::Fill { .. } | Change::Truncate { .. })
    }

    /// All nodes that look different with it.
    pub fn touched(&self) -> Vec<NodeId> {
        match self {
            Change::Names(names) => names.iter().map(|(directory, ..)| *directory).collect(),
            other => other.node().into_iter().collect(),
        }
    }
}

/// How much of a change has reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of it.
    Whole,
    /// Of a change of content, any sectors: which of them follows from the number.
    Torn(u64),
}

/// Makes a change to the nodes that are there.
pub fn apply(nodes: &mut Nodes, change: &Change, reach: Reach) {
    match change {
        Change::Fill { node, offset, fill } => {
            if let Some(node) = nodes.get_mut(node) {
                let data = &mut Arc::make_mut(node).data;
                match reach {
                    Reach::Whole => whole(data, *offset as usize, fill),
                    Reach::Torn(seed) => torn(data, *offset as usize, fill, seed),
                }
            }
        }
        Change::Truncate { node, size } => {
            if let Some(node) = nodes.get_mut(node) {
                Arc::make_mut(node).data.resize(*size as usize, 0);
            }
        }
        Change::Attributes { node, mode, owner } => {
            let Some(node) = nodes.get_mut(node).map(Arc::make_mut) else { return };
            node.mode = mode.unwrap_or(node.mode);
            node.owner = (owner.0.unwrap_or(node.owner.0), owner.1.unwrap_or(node.owner.1));
        }
        Change::Xattr { node, name, value } => {
            let Some(node) = nodes.get_mut(node).map(Arc::make_mut) else { return };
            match value {
                Some(value) => node.xattrs.insert(name.clone(), value.clone()),
                None => node.xattrs.remove(name),
            };
        }
        Change::Names(names) => {
            for (directory, name, node) in names {
                let Some(found) = nodes.get_mut(directory).map(Arc::make_mut) else { continue };
                match node {
                    Some(node) => found.entries.insert(name.clone(), *node),
                    None => found.entries.remove(name),
                };
            }
        }
    }
}

fn whole(data: &mut Vec<u8>, offset: usize, fill: &Fill) {
    let end = offset + fill.len() as usize;
    if !matches!(fill, Fill::Zeroes(_)) && data.len() < end {
        data.resize(end, 0);
    }
    match fill {
        Fill::Data(new) => data[offset..end].copy_from_slice(new),
        Fill::Zeroes(_) => {
            let end = end.min(data.len());
            data[offset.min(end)..end].fill(0);
        }
        Fill::Room(_) => {}
    }
}

/// Any sectors of it; the file ends behind the last of them, or where it would end with all.
fn torn(data: &mut Vec<u8>, offset: usize, fill: &Fill, seed: u64) {
    let end = offset + fill.len() as usize;
    let mut coins = Random(seed);
    let (mut at, mut last) = (offset, 0);
    let old = data.len();
    let mut pieces = Vec::new();
    while at < end {
        let next = (at / SECTOR + 1).saturating_mul(SECTOR).min(end);
        if coins.toss() {
            pieces.push(at..next);
            last = next;
        }
        at = next;
    }
    let grown = if coins.toss() { end } else { last };
    if !matches!(fill, Fill::Zeroes(_)) && grown > old {
        data.resize(grown, 0);
    }
    if let Fill::Data(new) = fill {
        for piece in pieces {
            data[piece.clone()].copy_from_slice(&new[piece.start - offset..piece.end - offset]);
        }
    } else if matches!(fill, Fill::Zeroes(_)) {
        for piece in pieces {
            let to = piece.end.min(data.len());
            data[piece.start.min(to)..to].fill(0);
        }
    }
}

/// Numbers from a seed (splitmix64).
#[derive(Clone, Debug, Default)]
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `bound` numbers from 0 on.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Heads or tails.
    pub fn toss(&mut self) -> bool {
        self.number() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(offset: u64, fill: Fill) -> Change {
        Change::Fill { node: 2, offset, fill }
    }

    fn after(start: &[u8], change: &Change, reach: Reach) -> Vec<u8> {
        let mut nodes = Nodes::from([(2, Arc::new(Node::file(start)))]);
        apply(&mut nodes, change, reach);
        nodes[&2].data.clone()
    }

    #[test]
    fn a_write_grows_a_file_and_a_hole_does_not() {
        let data = Fill::Data(Arc::from([7; 4]));
        assert_eq!(after(&[1; 3], &fill(2, data), Reach::Whole), [1, 1, 7, 7, 7, 7]);
        assert_eq!(after(&[1; 3], &fill(1, Fill::Zeroes(9)), Reach::Whole), [1, 0, 0]);
        assert_eq!(after(&[1; 3], &fill(1, Fill::Room(4)), Reach::Whole), [1, 1, 1, 0, 0]);
        let cut = Change::Truncate { node: 2, size: 1 };
        assert_eq!(after(&[1; 3], &cut, Reach::Whole), [1]);
    }

    #[test]
    fn a_torn_write_is_torn_at_sectors_and_every_pattern_comes() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let data = Fill::Data(Arc::from([7; 3 * SECTOR]));
            let found = after(&[1; 3 * SECTOR], &fill(0, data), Reach::Torn(seed));
            let sectors: Vec<u8> = found.chunks(SECTOR).map(|sector| sector[0]).collect();
            for (sector, first) in found.chunks(SECTOR).zip(&sectors) {
                assert!(sector.iter().all(|byte| byte == first), "a sector is never torn");
            }
            seen.insert(sectors);
        }
        assert_eq!(seen.len(), 8, "{seen:?}");
    }
}
