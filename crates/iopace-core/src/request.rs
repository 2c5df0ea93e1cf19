//! One I/O from a frontend, and what becomes of it.
//!
//! Inside the engine a request is a slot of the table ([`crate::table`]), and everybody else holds
//! its name: a [`RequestId`] tells a slot that is used again from its former holder, so what is
//! lost or done twice is found out by the table.

use crate::time::Instant;
use crate::units::Bytes;
use core::fmt;

mod times;

pub(crate) use times::Queued;
pub use times::{Stage, StageTimes};

/// What limits tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Reads.
    Read = 0,
    /// Writes, and trims and zeroes, which change data as well.
    Write = 1,
    /// Flushes: they take a slot, and no limit holds them up, so that what was acknowledged becomes
    /// durable whatever else the group still has to wait for.
    Flush = 2,
    /// Write-back: as writes, but for what was charged when it passed the door.
    WriteBack = 3,
}

impl Lane {
    /// All of them, in the order of their numbers.
    pub const ALL: [Lane; 4] = [Lane::Read, Lane::Write, Lane::Flush, Lane::WriteBack];

    /// The lane of an operation that is not write-back.
    pub const fn of(op: Op) -> Lane {
        match op {
            Op::Read | Op::Cache => Lane::Read,
            Op::Write | Op::WriteZeroes | Op::Trim => Lane::Write,
            Op::Flush => Lane::Flush,
        }
    }
}

/// Who calls: a connection or a process. Given by the frontend, unique within a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId(pub u64);

/// Who pays. Group 0 is the root of the group tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupId(pub u32);

impl GroupId {
    /// The root of the group tree: who pays when nothing else is said.
    pub const ROOT: GroupId = GroupId(0);
}

/// The engine's name for one request: unique for the life of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId {
    /// Its slot in the engine's table.
    pub(crate) slot: u32,
    /// Arrival number; tells a slot that is used again from its former holder.
    pub(crate) sequence: u64,
}

impl RequestId {
    /// A made-up id, for tests of schedulers outside an engine.
    pub fn forge(sequence: u64) -> RequestId {
        RequestId { slot: u32::MAX, sequence }
    }

    /// The name of the request with this arrival number in that slot: for a loaded policy, which is
    /// told both as numbers.
    pub const fn at(slot: u32, sequence: u64) -> RequestId {
        RequestId { slot, sequence }
    }

    /// Its slot in the engine's table, which is used again when the request has ended.
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// The arrival number: smaller came earlier.
    pub fn sequence(self) -> u64 {
        self.sequence
    }
}

/// What a request asks the device to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// Read the extent.
    Read,
    /// Write the extent.
    Write,
    /// Make writes finished before it arrived durable: those that it covers ([`Cover`]).
    Flush,
    /// The extent's content is no longer needed.
    Trim,
    /// Make the extent read as zeroes.
    WriteZeroes,
    /// Read the extent into the cache; no data goes back.
    Cache,
}

impl Op {
    /// Whether the device changes: write, trim, write-zeroes.
    pub const fn is_write(self) -> bool {
        matches!(self, Op::Write | Op::Trim | Op::WriteZeroes)
    }
}

/// A piece of a device: offset and size, known not to wrap around 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    offset: Bytes,
    len: Bytes,
}

impl Extent {
    /// No bytes at offset zero: what a flush carries, and what is nothing for the disk.
    pub const EMPTY: Extent = Extent { offset: Bytes::ZERO, len: Bytes::ZERO };

    /// The extent of `len` bytes at `offset`, or `None` if its end would pass 2^64 - 1.
    pub const fn new(offset: Bytes, len: Bytes) -> Option<Extent> {
        if offset.0.checked_add(len.0).is_none() {
            return None;
        }
        Some(Extent { offset, len })
    }

    /// The first byte.
    pub const fn offset(self) -> Bytes {
        self.offset
    }

    /// The number of bytes.
    pub const fn len(self) -> Bytes {
        self.len
    }

    /// Whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.len.0 == 0
    }

    /// One past the last byte.
    pub const fn end(self) -> Bytes {
        Bytes(self.offset.0 + self.len.0)
    }

    /// Whether the two share a byte.
    pub const fn overlaps(self, other: Extent) -> bool {
        self.offset.0 < other.end().0 && other.offset.0 < self.end().0
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.offset.0, self.len.0)
    }
}

/// The owner of pages: the disk itself, or a file above it, whose pages have no place on the disk
/// before they are written back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Space(pub u32);

impl Space {
    /// The disk itself.
    pub const DISK: Space = Space(0);
}

/// An extent of a space: a piece of the disk, or of a file above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Area {
    /// Of what.
    pub space: Space,
    /// Where in it.
    pub extent: Extent,
}

impl Area {
    /// The position of the first byte.
    #[inline]
    pub const fn begin(self) -> Position {
        Position { space: self.space, offset: self.extent.offset }
    }

    /// The position one past the last byte.
    #[inline]
    pub const fn end(self) -> Position {
        Position { space: self.space, offset: self.extent.end() }
    }
}

impl From<Extent> for Area {
    /// A piece of the disk.
    fn from(extent: Extent) -> Area {
        Area { space: Space::DISK, extent }
    }
}

/// A position in the order that schedulers go by: the disk first, behind it one file after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Of what.
    pub space: Space,
    /// Where in it.
    pub offset: Bytes,
}

impl Position {
    /// The distance to another position: between two spaces it is more than any other.
    #[inline]
    pub const fn distance(self, other: Position) -> Bytes {
        match self.space.0 == other.space.0 {
            true => self.offset.distance(other.offset),
            false => Bytes(u64::MAX),
        }
    }
}

/// What a flush waits for: the write-back of what is dirty there when it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cover {
    /// Everything.
    #[default]
    All,
    /// This alone.
    Piece(Area),
    /// Nothing: it goes to the disk at once.
    Nothing,
}

/// What a frontend asks for. Copied into the engine's table on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submit {
    /// The frontend's own name for the request, handed back with every output about it.
    pub tag: Tag,
    /// Who calls.
    pub task: TaskId,
    /// Who pays.
    pub group: GroupId,
    /// What to do.
    pub op: Op,
    /// Where; [`Extent::EMPTY`] for a flush. Anything else without bytes ends when it is admitted.
    pub extent: Extent,
    /// Force unit access: the data must be durable before the request finishes.
    pub fua: bool,
    /// Whether the task waits for this request (a read, a direct or synchronous write) or not
    /// (write-back of dirty memory).
    pub sync: bool,
}

impl Submit {
    /// The bytes it counts for in limits and guarantees: its size, whatever the device makes of it;
    /// a trim, which moves nothing, counts as an operation only.
    pub fn limit_bytes(&self) -> Bytes {
        if self.op == Op::Trim { Bytes::ZERO } else { self.extent.len() }
    }
}

/// The frontend's own name for a request. The engine only hands it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(pub u64);

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Ok,
    /// The device said no.
    Failed(DiskError),
    /// The engine refused it at the door: its tables are full. Nothing was done.
    Refused,
}

/// Why a device failed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// The medium or the path to it failed (EIO).
    Io,
    /// No space is left (ENOSPC).
    NoSpace,
    /// The device went away (ENXIO).
    Gone,
    /// Not permitted, for example a write to a read-only file (EPERM).
    NotPermitted,
    /// The device cannot do this operation (ENOTSUP).
    Unsupported,
}

/// A request that the device has completed, as windows see it.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The engine's name for it.
    pub id: RequestId,
    /// Who called.
    pub task: TaskId,
    /// Who paid.
    pub group: GroupId,
    /// What was done.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// When it was given to the device.
    pub started: Instant,
    /// Whether a task waits for it; write-back is what nobody waits for.
    pub sync: bool,
    /// Whether it was carried out.
    pub ok: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_cannot_wrap() {
        assert!(Extent::new(Bytes(u64::MAX), Bytes(1)).is_none());
        let last = Extent::new(Bytes(u64::MAX - 1), Bytes(1)).expect("fits");
        assert_eq!(last.end(), Bytes(u64::MAX));
    }

    #[test]
    fn files_stand_in_order_behind_the_disk() {
        let extent = |offset: u64| Extent::new(Bytes(offset), Bytes(4096)).expect("small");
        let area = |space, offset| Area { space: Space(space), extent: extent(offset) };
        let end_of_disk = Extent::new(Bytes(u64::MAX), Bytes(0)).expect("fits");
        let places = [end_of_disk.into(), area(1, 0), area(1, 1 << 62), area(2, 0), area(3, 0)];
        assert!(places.map(Area::begin).is_sorted());
        assert_eq!(area(1, 4096).begin(), area(1, 0).end());
        assert_eq!(area(1, 4096).begin().distance(area(1, 0).begin()), Bytes(4096));
        assert!(area(1, 0).begin().distance(area(2, 0).begin()) > Bytes(1 << 63));
    }

    #[test]
    fn extents_that_touch_do_not_overlap() {
        let a = Extent::new(Bytes(0), Bytes(10)).expect("fits");
        let b = Extent::new(Bytes(10), Bytes(10)).expect("fits");
        let c = Extent::new(Bytes(9), Bytes(2)).expect("fits");
        assert!(!a.overlaps(b));
        assert!(a.overlaps(c) && b.overlaps(c));
    }
}
