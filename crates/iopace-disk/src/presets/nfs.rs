//! File servers.

use super::{CLASS, Parameter, Preset};
use crate::nfs::{Nfs, NfsConfig};
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// The parameters of a configuration with the source of each, in the order of [`NfsConfig`].
const fn parameters(config: &NfsConfig, sources: [&'static str; 13]) -> [Parameter; 13] {
    const fn parameter(
        name: &'static str,
        value: u64,
        unit: &'static str,
        source: &'static str,
    ) -> Parameter {
        Parameter { name, value, unit, source }
    }
    let s = sources;
    [
        parameter("capacity", config.capacity.0, "B", s[0]),
        parameter("round_trip", config.round_trip.0, "ns", s[1]),
        parameter("rate_link", config.rate_link.0, "B/s", s[2]),
        parameter("rate_write", config.rate_write.0, "B/s", s[3]),
        parameter("rate_read", config.rate_read.0, "B/s", s[4]),
        parameter("read_time", config.read_time.0, "ns", s[5]),
        parameter("spindles", config.spindles as u64, "", s[6]),
        parameter("memory", config.memory.0, "B", s[7]),
        parameter("commit_time", config.commit_time.0, "ns", s[8]),
        parameter("commit_bytes", config.commit_bytes.0, "B", s[9]),
        parameter("commit_interval", config.commit_interval.0, "ns", s[10]),
        parameter("commit_idle", config.commit_idle.0, "ns", s[11]),
        parameter("depth", config.depth as u64, "", s[12]),
    ]
}

/// A small file server of about 2010 behind gigabit Ethernet. Its rate of writing and its memory
/// make the rhythm: 64 MiB at 35 MB/s is a burst every 1.9 s.
const GIGABIT_CONFIG: NfsConfig = NfsConfig {
    capacity: Bytes(1_000_000_000_000),
    round_trip: Nanos::from_micros(200),
    rate_link: BytesPerSec(117_000_000),
    rate_write: BytesPerSec(35_000_000),
    rate_read: BytesPerSec(80_000_000),
    read_time: Nanos::from_micros(13_000),
    spindles: 2,
    memory: Bytes(64 << 20),
    commit_time: Nanos::from_millis(10),
    commit_bytes: Bytes(64 << 20),
    commit_interval: Nanos::from_secs(2),
    commit_idle: Nanos::from_millis(50),
    depth: 1024,
};

pub(super) const GIGABIT: Preset = Preset {
    name: "nfs-gigabit",
    summary: "file server behind gigabit Ethernet: writes end together, 64 MiB every 1.9 s",
    model: "nfs",
    parameters: &parameters(
        &GIGABIT_CONFIG,
        [
            "two disks of 500 GB",
            "typical of the class: two switches and the server's kernel",
            "1 Gb/s less the headers of Ethernet, IP and TCP: 1448 of 1538 bytes",
            "typical of the class: servers of 2010 with two disks and a small processor wrote 30 \
             to 60 MB/s",
            "typical of the class: such servers read 60 to 100 MB/s",
            "8.5 ms to seek and 4.2 ms for half a turn, as `hdd-sata-250g`, rounded up",
            "two disks",
            "typical of the class: a fifth to a quarter of 256 to 512 MB may be dirty there",
            "typical of the class: a write of the journal, a seek and a turn",
            "chosen: with `memory` equal to it the next burst is on its way while one is committed",
            "chosen: about as long as a full burst takes at `rate_write`, so that slow writers get \
             the same rhythm",
            CLASS,
            "the deepest window of the core: 128 MiB in commands of 128 KiB, one burst that is \
             committed and one that is sent",
        ],
    ),
    build: || Box::new(Nfs::new(GIGABIT_CONFIG)),
};
