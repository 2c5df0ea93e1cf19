//! The parameters of a flash disk.

use super::{DEPTH_MAX, GIB, MIB, PIB, RATE_MAX, RATE_MIN, TEN_SECONDS};
use super::{ParameterUnit, Spec};
use crate::ssd::SsdConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// The parameters of [`SsdConfig`], in its order.
pub const SPECS: [Spec; 17] = [
    Spec::new("capacity", ParameterUnit::Size, MIB, PIB, "its size, a multiple of 512 B"),
    Spec::new("units", ParameterUnit::Count, 1, 4_096, "units that work at once"),
    Spec::new("stripe", ParameterUnit::Size, 512, 16 * MIB, "bytes that lie together on one unit"),
    Spec::new(
        "command_time",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time of the controller per command, one by one",
    ),
    Spec::new(
        "overhead",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "further time per command, side by side",
    ),
    Spec::new(
        "read_time",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time of a unit to read a piece of a stripe",
    ),
    Spec::new(
        "program_time",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time of a unit to program one stripe",
    ),
    Spec::new("rate_bus", ParameterUnit::Rate, RATE_MIN, RATE_MAX, "rate of the interface"),
    Spec::new("write_cache", ParameterUnit::Size, 0, 64 * GIB, "size of the write cache"),
    Spec::new("spare", ParameterUnit::Size, 0, PIB, "erased bytes of a disk at rest"),
    Spec::new(
        "gc_permille",
        ParameterUnit::Permille,
        1_000,
        100_000,
        "cost of a random write when nothing is erased",
    ),
    Spec::new("clean_rate", ParameterUnit::Rate, 0, RATE_MAX, "how fast an idle disk erases"),
    Spec::new(
        "block",
        ParameterUnit::Size,
        0,
        GIB,
        "bytes that are mapped together; 0 B: single pages",
    ),
    Spec::new(
        "open_blocks",
        ParameterUnit::Count,
        0,
        4_096,
        "blocks written into without closing one",
    ),
    Spec::new("merge_time", ParameterUnit::Time, 0, TEN_SECONDS, "time to close a block"),
    Spec::new(
        "flush_time",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time of a flush after its programs",
    )
    .or(0),
    Spec::new("depth", ParameterUnit::Count, 1, DEPTH_MAX, "commands held at once"),
];

/// The values of a configuration, in the order of [`SPECS`].
pub const fn values(config: &SsdConfig) -> [u64; 17] {
    [
        config.capacity.0,
        config.units as u64,
        config.stripe.0,
        config.command_time.0,
        config.overhead.0,
        config.read_time.0,
        config.program_time.0,
        config.rate_bus.0,
        config.write_cache.0,
        config.spare.0,
        config.gc_permille,
        config.clean_rate.0,
        config.block.0,
        config.open_blocks as u64,
        config.merge_time.0,
        config.flush_time.0,
        config.depth as u64,
    ]
}

/// The configuration with these values, which are within the bounds of [`SPECS`].
pub(super) fn config(values: [u64; 17]) -> SsdConfig {
    let [
        capacity,
        units,
        stripe,
        command_time,
        overhead,
        read_time,
        program_time,
        rate_bus,
        write_cache,
        spare,
        gc_permille,
        clean_rate,
        block,
        open_blocks,
        merge_time,
        flush_time,
        depth,
    ] = values;
    SsdConfig {
        capacity: Bytes(capacity),
        units: units as usize,
        stripe: Bytes(stripe),
        command_time: Nanos(command_time),
        overhead: Nanos(overhead),
        read_time: Nanos(read_time),
        program_time: Nanos(program_time),
        rate_bus: BytesPerSec(rate_bus),
        write_cache: Bytes(write_cache),
        spare: Bytes(spare),
        gc_permille,
        clean_rate: BytesPerSec(clean_rate),
        block: Bytes(block),
        open_blocks: open_blocks as usize,
        merge_time: Nanos(merge_time),
        flush_time: Nanos(flush_time),
        depth: depth as u32,
    }
}
