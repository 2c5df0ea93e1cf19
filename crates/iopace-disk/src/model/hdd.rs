//! The parameters of a disk with a head.

use super::{DEPTH_MAX, GIB, HOUR, MIB, MS, PIB, RATE_MAX, RATE_MIN, SECOND, TEN_SECONDS};
use super::{ParameterUnit, Spec};
use crate::hdd::HddConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// The parameters of [`HddConfig`], in its order.
pub const SPECS: [Spec; 17] = [
    Spec::new("capacity", ParameterUnit::Size, MIB, PIB, "its size, a multiple of 512 B"),
    Spec::new("rotation", ParameterUnit::Time, MS, SECOND, "time of one turn"),
    Spec::new("seek_track", ParameterUnit::Time, 0, TEN_SECONDS, "seek to the next track"),
    Spec::new(
        "seek_average",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "seek over a third of the stroke",
    ),
    Spec::new("seek_full", ParameterUnit::Time, 0, TEN_SECONDS, "seek over the full stroke"),
    Spec::new(
        "write_settle",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "additional settling before a write",
    ),
    Spec::new(
        "rate_outer",
        ParameterUnit::Rate,
        RATE_MIN,
        RATE_MAX,
        "sustained rate at the outer edge",
    ),
    Spec::new(
        "rate_inner",
        ParameterUnit::Rate,
        RATE_MIN,
        RATE_MAX,
        "sustained rate at the inner edge",
    ),
    Spec::new(
        "write_permille",
        ParameterUnit::Permille,
        10,
        1_000,
        "what sequential writes reach of these rates",
    ),
    Spec::new("rate_bus", ParameterUnit::Rate, RATE_MIN, RATE_MAX, "rate of the interface"),
    Spec::new(
        "overhead",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time per command outside the mechanics",
    ),
    Spec::new("read_ahead", ParameterUnit::Size, 0, GIB, "how far ahead it reads"),
    Spec::new("segments", ParameterUnit::Count, 0, 1_024, "segments of read-ahead that are kept"),
    Spec::new(
        "write_cache",
        ParameterUnit::Size,
        0,
        64 * GIB,
        "size of the write cache; 0 B: none",
    ),
    Spec::new(
        "destage_idle",
        ParameterUnit::Time,
        0,
        HOUR,
        "quiet time before the cache is written out",
    ),
    Spec::new("depth", ParameterUnit::Count, 1, DEPTH_MAX, "commands held at once"),
    Spec::new(
        "ncq_age_max",
        ParameterUnit::Time,
        0,
        HOUR,
        "with NCQ: a command older than this goes first",
    ),
];

/// The values of a configuration, in the order of [`SPECS`].
pub const fn values(config: &HddConfig) -> [u64; 17] {
    [
        config.capacity.0,
        config.rotation.0,
        config.seek_track.0,
        config.seek_average.0,
        config.seek_full.0,
        config.write_settle.0,
        config.rate_outer.0,
        config.rate_inner.0,
        config.write_permille,
        config.rate_bus.0,
        config.overhead.0,
        config.read_ahead.0,
        config.segments as u64,
        config.write_cache.0,
        config.destage_idle.0,
        config.depth as u64,
        config.ncq_age_max.0,
    ]
}

/// The configuration with these values, which are within the bounds of [`SPECS`].
pub(super) fn config(values: [u64; 17]) -> HddConfig {
    let [
        capacity,
        rotation,
        seek_track,
        seek_average,
        seek_full,
        write_settle,
        rate_outer,
        rate_inner,
        write_permille,
        rate_bus,
        overhead,
        read_ahead,
        segments,
        write_cache,
        destage_idle,
        depth,
        ncq_age_max,
    ] = values;
    HddConfig {
        capacity: Bytes(capacity),
        rotation: Nanos(rotation),
        seek_track: Nanos(seek_track),
        seek_average: Nanos(seek_average),
        seek_full: Nanos(seek_full),
        write_settle: Nanos(write_settle),
        rate_outer: BytesPerSec(rate_outer),
        rate_inner: BytesPerSec(rate_inner),
        write_permille,
        rate_bus: BytesPerSec(rate_bus),
        overhead: Nanos(overhead),
        read_ahead: Bytes(read_ahead),
        segments: segments as usize,
        write_cache: Bytes(write_cache),
        destage_idle: Nanos(destage_idle),
        depth: depth as u32,
        ncq_age_max: Nanos(ncq_age_max),
    }
}
