//! The scenarios of the table and their variants: who reads, who writes, and on which system.

use crate::readprio;
use crate::scenario::{Chosen, Memory, Scenario};
use crate::task::{Task, TaskKind};
use iopace_core::pace::counting::Counting;
use iopace_core::request::Extent;
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::{pace, window};

/// The part of a run that does not count.
const WARMUP: Nanos = Nanos::from_secs(30);

/// The most that the page cache of the source's system writes at once: MAXPHYS.
pub const CLUSTER: Bytes = Bytes::from_kib(64);

/// The control of 2006 as it counts most likely: clusters, where they leave the page cache.
static CLUSTERS: pace::PacePolicy = pace::PacePolicy {
    name: "counting-clusters",
    summary: "a task that writes too many clusters of 64 KiB in 100 ms sleeps (2006)",
    build: || Box::new(Counting::new(CLUSTERS_MAX, CLUSTER)),
};

/// X of [`CLUSTERS`].
const CLUSTERS_MAX: u32 = 8;

/// One system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionVariant {
    /// Its name in the table.
    pub name: &'static str,
    /// Stage pace and stage window; see [`CongestionVariant::pace`].
    pace: &'static str,
    window: &'static str,
    /// Whether it is that of 2006: read priority, clusters of 64 KiB, one list of frames.
    pub is_old: bool,
    /// Whether who starts write-back is counted, so that a reader in need of frames is.
    counts_reads: bool,
}

const fn old(name: &'static str, pace: &'static str, counts_reads: bool) -> CongestionVariant {
    CongestionVariant { name, pace, window: "fixed", is_old: true, counts_reads }
}

const fn new(name: &'static str, window: &'static str) -> CongestionVariant {
    CongestionVariant { name, pace: "rate", window, is_old: false, counts_reads: false }
}

/// All of them.
pub const VARIANTS: [CongestionVariant; 6] = [
    old("none", "none", false),
    old("cca-2006", "counting-clusters", false),
    old("cca-2006-calls", "counting", false),
    old("cca-2006-starter", "counting-clusters", true),
    new("fixed", "fixed"),
    new("latency", "latency"),
];

impl CongestionVariant {
    /// The variant of that name.
    ///
    /// # Panics
    /// If there is none.
    pub fn named(name: &str) -> &'static CongestionVariant {
        VARIANTS.iter().find(|variant| variant.name == name).expect("a variant of the table")
    }

    fn pace(&self) -> &'static pace::PacePolicy {
        if self.pace == CLUSTERS.name {
            return &CLUSTERS;
        }
        pace::find(self.pace).expect("a policy of the registry")
    }
}

/// The program that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Postmark, with a pool of so many percent of memory.
    Postmark(u64),
    /// Random reads of 8 KiB, four at a time, far more than memory.
    Random,
}

/// One scenario of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// How many dd write.
    pub writers: u64,
    /// Their block, in KiB.
    pub block_kib: u64,
    /// Where their files begin, in GiB; the reader's end at 20.
    pub writers_at_gib: u64,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// The program that reads.
    pub reader: Reader,
    /// The disk.
    pub disk: &'static str,
}

/// The disk of a system of 2006: without NCQ.
pub const DISK: &str = "hdd-sata-250g";

/// Where the files of dd begin when they lie apart from the reader's.
const APART_GIB: u64 = 40;

/// The scenario of the source: one dd with blocks of 1 MiB, whose file is behind the pool, as a new
/// file on a file system that the pool has filled. How much memory there was and how large the pool
/// is not on record; with a pool of many times memory the reader loses to the dd what the source
/// says, and that is the disk's time alone. With smaller pools it loses its frames as well, and
/// nearly everything.
pub const SOURCE: Case = Case {
    writers: 1,
    block_kib: 1_024,
    writers_at_gib: 20,
    memory_mib: 512,
    reader: Reader::Postmark(2_000),
    disk: DISK,
};

/// All scenarios, that of the source first.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![SOURCE];
    for disk in [DISK, "hdd-sata-250g-ncq"] {
        for reader in [Reader::Postmark(200), Reader::Postmark(50), Reader::Random] {
            for memory_mib in [128, 512, 2_048] {
                for (writers, block_kib) in [(1, 64), (5, 128), (10, 1_024)] {
                    let writers_at_gib = APART_GIB;
                    let case =
                        Case { writers, block_kib, writers_at_gib, memory_mib, reader, disk };
                    cases.push(case);
                }
            }
        }
    }
    cases
}

/// The way from a usual elevator of today to the system of the source, without control: name of the
/// figure, and what differs from `none` in the scenario of the source.
pub fn steps(length: Nanos, seed: u64) -> [(&'static str, Scenario); 3] {
    let apart = Case { writers_at_gib: APART_GIB, ..SOURCE };
    let none = CongestionVariant::named("none");
    let far = scenario(&apart, none, length, seed);
    let mut long = far.clone();
    long.memory.as_mut().expect("it has").write_back_len = Memory::default().write_back_len;
    let mut deadline = long.clone();
    deadline.scheduler = Some(reads_first());
    [("tps_lost_deadline", deadline), ("tps_lost_128k", long), ("tps_lost_apart", far)]
}

fn reads_first() -> Chosen {
    Chosen::defaults(find("deadline").expect("a scheduler of the registry"))
}

/// The scenario of a case under a variant.
pub fn scenario(case: &Case, variant: &CongestionVariant, length: Nanos, seed: u64) -> Scenario {
    let memory = Bytes::from_mib(case.memory_mib);
    let mut tasks = vec![reader(case)];
    for number in 0..case.writers {
        let region = piece(case.writers_at_gib + number * 16, Bytes::from_mib(16 << 10));
        let name = format!("dd{number}");
        let block = Bytes::from_kib(case.block_kib);
        tasks.push(Task { block, ..Task::new(&name, TaskKind::DdWrite, region) });
    }
    let usual = Memory::default();
    Scenario {
        seed,
        duration: length,
        warmup: Nanos(length.0 / 2).min(WARMUP),
        memory: Some(Memory {
            size: memory,
            dirty_background: Bytes(memory.0 / 10),
            dirty_limit: Bytes(memory.0 / 5),
            drop_behind: !variant.is_old,
            write_back_len: if variant.is_old { CLUSTER } else { usual.write_back_len },
        }),
        scheduler: Some(match variant.is_old {
            true => Chosen::defaults(&readprio::ALGORITHM),
            false => reads_first(),
        }),
        pace: variant.pace(),
        window: window::find(variant.window).expect("a policy of the registry"),
        counts_reads: variant.counts_reads,
        tasks,
        ..Scenario::new("Postmark beside dd", case.disk)
    }
}

fn reader(case: &Case) -> Task {
    let region = piece(4, Bytes::from_mib(16 << 10));
    match case.reader {
        Reader::Postmark(percent) => {
            let mut task = Task::new("reader", TaskKind::Postmark, region);
            // A file has two pages on average.
            let pages = (case.memory_mib << 8) * percent / 100;
            task.files.count = u32::try_from(pages / 2).expect("some hundred thousand files");
            task.warm = true;
            task
        }
        Reader::Random => {
            let block = Bytes::from_kib(8);
            let task = Task::new("reader", TaskKind::Random, region);
            Task { block, depth: 4, buffered: true, ..task }
        }
    }
}

fn piece(at_gib: u64, len: Bytes) -> Extent {
    Extent::new(Bytes::from_mib(at_gib << 10), len).expect("far below 2^64")
}
