//! The parameters of a flash disk.

use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// The parameters of a flash disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SsdConfig {
    /// Size.
    pub capacity: Bytes,
    /// Units that work at once.
    pub units: usize,
    /// Bytes that lie together on one unit, and are programmed together.
    pub stripe: Bytes,
    /// Time of the controller per command, one after the other: limits commands per second.
    pub command_time: Nanos,
    /// Further time per command, side by side with others.
    pub overhead: Nanos,
    /// Time of a unit to read a piece of up to one stripe.
    pub read_time: Nanos,
    /// Time of a unit to program one stripe.
    pub program_time: Nanos,
    /// Rate of the interface.
    pub rate_bus: BytesPerSec,
    /// Size of the write cache.
    pub write_cache: Bytes,
    /// Erased bytes of a disk at rest.
    pub spare: Bytes,
    /// Cost of the programs of a random write when nothing is erased, in thousandths.
    pub gc_permille: u64,
    /// How fast an idle disk erases.
    pub clean_rate: BytesPerSec,
    /// Bytes that are mapped, and erased, together; zero: every page is mapped by itself.
    pub block: Bytes,
    /// Blocks that can be written into without closing one.
    pub open_blocks: usize,
    /// Time to close a block.
    pub merge_time: Nanos,
    /// Time of a flush after its programs: tables and journals. Nothing if nothing was written
    /// since the last one.
    pub flush_time: Nanos,
    /// Commands held at once.
    pub depth: u32,
}
