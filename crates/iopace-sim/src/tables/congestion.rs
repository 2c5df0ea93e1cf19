//! The table of write congestion control: Postmark's reads beside dd, in more than fifty scenarios.
//!
//! # Model
//! A reader, and one or more `dd` that write files through the page cache. What changes from
//! scenario to scenario: how many dd and with what block, how much memory, what the reader does (a
//! pool of small files that does not fit into memory, one that does, random reads with a depth of
//! 4), and the disk (with and without NCQ). The pool is in memory as far as it fits when the run
//! begins, as after Postmark's set-up. Memory has the usual thresholds of 10 and 20 percent.
//!
//! | variant | stage pace | stage window | memory |
//! |---|---|---|---|
//! | none | none | fixed | one list, as in the system of 2006 |
//! | cca-2006 | counting | fixed | one list |
//! | fixed | rate | fixed | what was only written leaves first |
//! | latency | rate | latency | what was only written leaves first |
//!
//! The scheduler is `deadline` in all of them: reads before writes, in batches, as the strategy
//! `readprio` of the source's system. *kept* is a rate beside the others over the same rate alone;
//! the first half minute, in which the dd fill the memory that they may dirty and stage pace gives
//! most of it back to the reader, does not count.
//!
//! # Sources
//! tech-kern, 21 August 2006 (A. Kundu): 42 % fewer transactions with a dd beside Postmark; with
//! the control, reads were slower in more than 90 % of about 50 scenarios, and the best of the
//! others gained 16 %. The mail says neither the scenarios nor the machine.

use super::{Bound, Row};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, Memory, Scenario};
use crate::task::{Kind, Task};
use iopace_core::request::Extent;
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::{pace, window};

/// The name of the table, and of its row.
pub const TABLE: &str = "congestion";
/// See [`TABLE`].
pub const ROW: &str = "postmark+dd";

/// Length of a run, and what of it does not count.
pub const DURATION: Nanos = Nanos::from_secs(60);
const WARMUP: Nanos = Nanos::from_secs(30);

/// The variants: name, stage pace, stage window, and whether what was only written leaves first.
pub const VARIANTS: [(&str, &str, &str, bool); 4] = [
    ("none", "none", "fixed", false),
    ("cca-2006", "counting", "fixed", false),
    ("fixed", "rate", "fixed", true),
    ("latency", "rate", "latency", true),
];

/// Who reads.
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
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// Who reads.
    pub reader: Reader,
    /// The disk.
    pub disk: &'static str,
}

/// The scenario of the source: one dd with blocks of 1 MiB. How much memory there was and how large
/// the pool is not on record; with a pool of many times memory the reader loses to the dd what the
/// source says, and that is the disk's time alone. With smaller pools it loses its frames as well,
/// and nearly everything.
pub const SOURCE: Case = Case {
    writers: 1,
    block_kib: 1_024,
    memory_mib: 512,
    reader: Reader::Postmark(2_000),
    disk: "hdd-sata-250g",
};

/// All scenarios, that of the source first.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![SOURCE];
    for disk in ["hdd-sata-250g", "hdd-sata-250g-ncq"] {
        for reader in [Reader::Postmark(200), Reader::Postmark(50), Reader::Random] {
            for memory_mib in [128, 512, 2_048] {
                for (writers, block_kib) in [(1, 64), (5, 128), (10, 1_024)] {
                    cases.push(Case { writers, block_kib, memory_mib, reader, disk });
                }
            }
        }
    }
    cases
}

/// The scenario of a case under a variant.
pub fn scenario(case: &Case, variant: &str, length: Nanos, seed: u64) -> Scenario {
    let entry = VARIANTS.iter().find(|(name, ..)| *name == variant);
    let (_, pace, window, drop_behind) = entry.expect("a variant of the table");
    let memory = Bytes::from_mib(case.memory_mib);
    let mut tasks = vec![reader(case)];
    for number in 0..case.writers {
        let region = piece(40 + number * 16, Bytes::from_mib(16 << 10));
        let name = format!("dd{number}");
        let block = Bytes::from_kib(case.block_kib);
        tasks.push(Task { block, ..Task::new(&name, Kind::DdWrite, region) });
    }
    let deadline = find("deadline").expect("a scheduler of the registry");
    Scenario {
        seed,
        duration: length,
        warmup: Nanos(length.0 / 2).min(WARMUP),
        memory: Some(Memory {
            size: memory,
            dirty_background: Bytes(memory.0 / 10),
            dirty_limit: Bytes(memory.0 / 5),
            drop_behind: *drop_behind,
            ..Memory::default()
        }),
        scheduler: Some(Chosen::defaults(deadline)),
        pace: pace::find(pace).expect("a policy of the registry"),
        window: window::find(window).expect("a policy of the registry"),
        tasks,
        ..Scenario::new("Postmark beside dd", case.disk)
    }
}

fn reader(case: &Case) -> Task {
    let region = piece(4, Bytes::from_mib(16 << 10));
    match case.reader {
        Reader::Postmark(percent) => {
            let mut task = Task::new("reader", Kind::Postmark, region);
            // A file has two pages on average.
            let pages = (case.memory_mib << 8) * percent / 100;
            task.files.count = u32::try_from(pages / 2).expect("some hundred thousand files");
            task.warm = true;
            task
        }
        Reader::Random => {
            let block = Bytes::from_kib(8);
            let task = Task::new("reader", Kind::Random, region);
            Task { block, depth: 4, buffered: true, ..task }
        }
    }
}

fn piece(at_gib: u64, len: Bytes) -> Extent {
    Extent::new(Bytes::from_mib(at_gib << 10), len).expect("far below 2^64")
}

/// What came out of one scenario, as rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Transactions per second of the reader.
    pub tps: Milli,
    /// MB/s of all dd.
    pub dd_mb_s: Milli,
}

fn outcome(report: &RunReport) -> Outcome {
    let dd = report.tasks.iter().filter(|(name, _)| *name != "reader");
    Outcome {
        tps: report.tasks.get("reader").map_or(Milli(0), |task| task.ops_s),
        dd_mb_s: Milli(dd.map(|(_, task)| task.mb_s.0).sum()),
    }
}

/// All runs of one scenario.
#[derive(Clone, Debug)]
pub struct Result {
    /// Which one.
    pub case: Case,
    /// The reader alone.
    pub reader_alone: Milli,
    /// The dd alone, with a fixed window and with the controlled one.
    pub dd_alone: [Milli; 2],
    /// Both, under each of [`VARIANTS`].
    pub beside: [Outcome; VARIANTS.len()],
}

impl Result {
    /// Part of its rate alone that the reader keeps under a variant.
    pub fn reads_kept(&self, variant: usize) -> Milli {
        ratio(self.beside[variant].tps, self.reader_alone)
    }

    /// Part of their rate alone that the dd keep.
    pub fn writes_kept(&self, variant: usize) -> Milli {
        ratio(self.beside[variant].dd_mb_s, self.dd_alone[0])
    }
}

fn ratio(part: Milli, of: Milli) -> Milli {
    let magnitude = |n: Milli| u128::from(n.0.unsigned_abs());
    Milli::ratio(magnitude(part), magnitude(of)).unwrap_or_default()
}

/// Runs scenarios, each alone and under every variant.
pub fn results(cases: &[Case], length: Nanos, seed: u64) -> Vec<Result> {
    let mut jobs = Vec::new();
    for case in cases {
        let both = |variant| scenario(case, variant, length, seed);
        let only = |variant, keep: fn(&Task) -> bool| {
            let mut scenario = both(variant);
            scenario.tasks.retain(keep);
            scenario
        };
        jobs.push(only("fixed", |task| task.name == "reader"));
        jobs.push(only("fixed", |task| task.name != "reader"));
        jobs.push(only("latency", |task| task.name != "reader"));
        jobs.extend(VARIANTS.iter().map(|(name, ..)| both(*name)));
    }
    let outcomes = parallel::map(&jobs, |scenario| outcome(&run(scenario)));
    let per_case = outcomes.chunks(3 + VARIANTS.len());
    let results = cases.iter().zip(per_case).map(|(case, runs)| Result {
        case: *case,
        reader_alone: runs[0].tps,
        dd_alone: [runs[1].dd_mb_s, runs[2].dd_mb_s],
        beside: [runs[3], runs[4], runs[5], runs[6]],
    });
    results.collect()
}

/// The whole table.
pub fn congestion(seed: u64) -> Vec<Row> {
    rows(&results(&cases(), DURATION, seed))
}

/// A figure of the table.
fn entry(
    variant: &'static str,
    (figure, unit): (&'static str, &'static str),
    source: Option<Milli>,
    value: Milli,
    bound: Option<Bound>,
) -> Row {
    Row {
        table: TABLE,
        row: ROW,
        variant,
        figure,
        unit,
        source,
        value,
        bound: bound.map(Bound::text),
        holds: bound.map(|bound| bound.holds(value, value)),
    }
}

/// The figures of some scenarios, that of the source first.
pub fn rows(results: &[Result]) -> Vec<Row> {
    let mut rows = of_the_source(results);
    rows.extend(of_pacing(results, 2, false));
    rows.extend(of_pacing(results, 3, true));
    rows
}

/// What the source measured, without a control and with that of 2006.
fn of_the_source(results: &[Result]) -> Vec<Row> {
    let (loss, gain) = (Milli(420), Milli(160));
    let most = Milli(900);
    let lost = Milli(1_000 - results[0].reads_kept(0).0);
    let change = |result: &Result| ratio(result.beside[1].tps, result.beside[0].tps);
    let worse = results.iter().filter(|result| change(result) < Milli(1_000)).count();
    let worse_of = Milli::ratio(worse as u128, results.len() as u128).unwrap_or_default();
    let best = results.iter().map(change).max().unwrap_or_default();
    let best = Milli((best.0 - 1_000).max(0));
    let near = Some(Bound::Within(loss, Milli(100)));
    vec![
        entry("none", ("tps_lost", "of alone"), Some(loss), lost, near),
        entry(
            "cca-2006",
            ("worse_of", "of scenarios"),
            Some(most),
            worse_of,
            Some(Bound::AtLeast(most)),
        ),
        entry("cca-2006", ("best_gain", "of none"), Some(gain), best, Some(Bound::AtMost(gain))),
    ]
}

/// What pacing keeps; the bounds are those of the controlled window.
fn of_pacing(results: &[Result], variant: usize, is_ours: bool) -> Vec<Row> {
    let least =
        |value: &dyn Fn(&Result) -> Milli| results.iter().map(value).min().unwrap_or_default();
    let name = VARIANTS[variant].0;
    let scenarios = Milli(results.len() as i64 * 1_000);
    let kept = least(&|result| result.reads_kept(variant));
    let sum = |result: &Result| Milli(result.reads_kept(variant).0 + result.writes_kept(variant).0);
    let dd = |result: &Result| ratio(result.dd_alone[usize::from(is_ours)], result.dd_alone[0]);
    let figures = [
        (("scenarios", ""), scenarios, Milli(50_000)),
        (("reads_kept_min", "of alone"), kept, Milli(900)),
        (("efficiency_min", "sum of parts"), least(&sum), Milli(900)),
        (("dd_alone_kept", "of fixed"), least(&dd), Milli(970)),
    ];
    let rows = figures.map(|(figure, value, bound)| {
        entry(name, figure, None, value, Some(Bound::AtLeast(bound)).filter(|_| is_ours))
    });
    rows.into()
}
