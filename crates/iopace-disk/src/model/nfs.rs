//! The parameters of a file server.

use super::{DEPTH_MAX, GIB, HOUR, MIB, MS, PIB, RATE_MAX, RATE_MIN, TEN_SECONDS};
use super::{ParameterUnit, Spec};
use crate::nfs::NfsConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// The parameters of [`NfsConfig`], in its order.
pub const SPECS: [Spec; 13] = [
    Spec::new("capacity", ParameterUnit::Size, MIB, PIB, "its size, a multiple of 512 B"),
    Spec::new("round_trip", ParameterUnit::Time, 0, TEN_SECONDS, "from a message to its answer"),
    Spec::new(
        "rate_link",
        ParameterUnit::Rate,
        RATE_MIN,
        RATE_MAX,
        "rate of the link, in each direction",
    ),
    Spec::new(
        "rate_write",
        ParameterUnit::Rate,
        RATE_MIN,
        RATE_MAX,
        "rate at which the server's disks take writes",
    ),
    Spec::new(
        "rate_read",
        ParameterUnit::Rate,
        RATE_MIN,
        RATE_MAX,
        "rate at which the server's disks give reads",
    ),
    Spec::new(
        "read_time",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time of a disk for a read not read ahead",
    ),
    Spec::new(
        "spindles",
        ParameterUnit::Count,
        1,
        4_096,
        "disks of the server that position at once",
    ),
    Spec::new(
        "memory",
        ParameterUnit::Size,
        64 << 10,
        64 * GIB,
        "most bytes that the server holds unwritten",
    ),
    Spec::new(
        "commit_time",
        ParameterUnit::Time,
        0,
        TEN_SECONDS,
        "time of the server to commit, beside the data",
    ),
    Spec::new(
        "commit_bytes",
        ParameterUnit::Size,
        512,
        64 * GIB,
        "unstable bytes at which the client commits",
    ),
    Spec::new(
        "commit_interval",
        ParameterUnit::Time,
        MS,
        HOUR,
        "longest time that a write stays unstable",
    ),
    Spec::new(
        "commit_idle",
        ParameterUnit::Time,
        0,
        HOUR,
        "quiet time after which the client commits",
    ),
    Spec::new("depth", ParameterUnit::Count, 1, DEPTH_MAX, "commands held at once"),
];

/// The values of a configuration, in the order of [`SPECS`].
pub const fn values(config: &NfsConfig) -> [u64; 13] {
    [
        config.capacity.0,
        config.round_trip.0,
        config.rate_link.0,
        config.rate_write.0,
        config.rate_read.0,
        config.read_time.0,
        config.spindles as u64,
        config.memory.0,
        config.commit_time.0,
        config.commit_bytes.0,
        config.commit_interval.0,
        config.commit_idle.0,
        config.depth as u64,
    ]
}

/// The configuration with these values, which are within the bounds of [`SPECS`].
pub(super) fn config(values: [u64; 13]) -> NfsConfig {
    let [
        capacity,
        round_trip,
        rate_link,
        rate_write,
        rate_read,
        read_time,
        spindles,
        memory,
        commit_time,
        commit_bytes,
        commit_interval,
        commit_idle,
        depth,
    ] = values;
    NfsConfig {
        capacity: Bytes(capacity),
        round_trip: Nanos(round_trip),
        rate_link: BytesPerSec(rate_link),
        rate_write: BytesPerSec(rate_write),
        rate_read: BytesPerSec(rate_read),
        read_time: Nanos(read_time),
        spindles: spindles as usize,
        memory: Bytes(memory),
        commit_time: Nanos(commit_time),
        commit_bytes: Bytes(commit_bytes),
        commit_interval: Nanos(commit_interval),
        commit_idle: Nanos(commit_idle),
        depth: depth as u32,
    }
}
