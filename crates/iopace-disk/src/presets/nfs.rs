//! File servers.

use super::{CLASS, Preset, parameters};
use crate::model::Model;
use crate::model::nfs::{SPECS, values};
use crate::nfs::NfsConfig;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

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
        &SPECS,
        values(&GIGABIT_CONFIG),
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
    config: Model::Nfs(GIGABIT_CONFIG),
    build: || Model::Nfs(GIGABIT_CONFIG).build(),
};
