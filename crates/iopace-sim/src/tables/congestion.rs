//! The table of write congestion control: Postmark's reads beside dd, in more than fifty scenarios.
//!
//! # Model
//! A reader, and one or more `dd` that write files through the page cache. What changes from
//! scenario to scenario: how many dd and with what block, how much memory, what the reader does (a
//! pool of small files that does not fit into memory, one that does, random reads with a depth of
//! 4), and the disk (with and without NCQ). The pool is in memory as far as it fits when the run
//! begins, as after Postmark's set-up. Memory has the usual thresholds of 10 and 20 percent.
//!
//! | variant | stage pace | window | scheduler, longest write-back | memory |
//! |---|---|---|---|---|
//! | none | none | fixed | `readprio`, 64 KiB | one list, as in the system of 2006 |
//! | cca-2006 | counting clusters of 64 KiB | fixed | `readprio`, 64 KiB | one list |
//! | cca-2006-calls | counting calls | fixed | `readprio`, 64 KiB | one list |
//! | cca-2006-starter | clusters, and reads for frames | fixed | `readprio`, 64 KiB | one list |
//! | fixed | rate | fixed | `deadline`, 128 KiB | what was only written leaves first |
//! | latency | rate | latency | `deadline`, 128 KiB | what was only written leaves first |
//!
//! *kept* is a rate beside the others over the same rate alone; the first half minute, in which the
//! dd fill the memory that they may dirty and stage pace gives most of it back to the reader, does
//! not count. What the control of 2006 did is judged on the disk of that time, without NCQ; the
//! figures that end in *ncq* are of the other one.
//!
//! # Sources
//! tech-kern, 21 August 2006 (S. K. Kundu): 42 % fewer transactions with a dd beside Postmark; with
//! the control, reads were slower in more than 90 % of about 50 scenarios, and the best of the
//! others gained 16 %. The mail says neither the scenarios nor the machine, nor what was counted.

pub mod cases;

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::Scenario;
use crate::task::Task;
use cases::{Case, CongestionVariant, DISK, VARIANTS, scenario, steps};
use iopace_core::time::Nanos;

/// The name of the table, and of its row.
pub const TABLE: &str = "congestion";
/// See [`TABLE`].
pub const ROW: &str = "postmark+dd";

/// Length of a run.
pub const DURATION: Nanos = Nanos::from_secs(60);

/// The figures of one scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionOutcome {
    /// Transactions per second of the reader.
    pub tps: Milli,
    /// MB/s of all dd.
    pub dd_mb_s: Milli,
    /// Data that the disk moved in the measured time, in MB.
    pub disk_mb: Milli,
    /// Movements of its head in that time.
    pub seeks: u64,
    /// Part of the reader's transactions that needed no disk.
    pub hit_rate: Milli,
    /// The longest wait of the reader, at the 99th percentile.
    pub p99_ms: Milli,
}

fn outcome(report: &RunReport) -> CongestionOutcome {
    let dd = report.tasks.iter().filter(|(name, _)| *name != "reader");
    let reader = report.tasks.get("reader");
    let hits = reader.and_then(|task| Milli::ratio(task.cached.into(), task.ops.into()));
    CongestionOutcome {
        tps: reader.map_or(Milli(0), |task| task.ops_s),
        dd_mb_s: Milli(dd.map(|(_, task)| task.mb_s.0).sum()),
        disk_mb: Milli(report.disk_use.mb_s.0 * report.measured_ms.0 / 1_000_000),
        seeks: report.disk_use.seeks,
        hit_rate: hits.unwrap_or_default(),
        p99_ms: reader.map_or(Milli(0), |task| task.latency.p99_ms),
    }
}

/// All runs of one scenario.
#[derive(Clone, Debug)]
pub struct Result {
    /// Which one.
    pub case: Case,
    /// The reader alone, on the system of 2006 and on ours.
    pub reader_alone: [Milli; 2],
    /// The dd alone, with a fixed window and with the controlled one.
    pub dd_alone: [Milli; 2],
    /// Both, under each of [`VARIANTS`].
    pub beside: [CongestionOutcome; VARIANTS.len()],
}

impl Result {
    /// The figures under a variant.
    pub fn of(&self, variant: &str) -> &CongestionOutcome {
        let place = VARIANTS.iter().position(|other| other.name == variant);
        &self.beside[place.expect("a variant of the table")]
    }

    /// Part of its rate alone that the reader keeps under a variant.
    pub fn reads_kept(&self, variant: &str) -> Milli {
        let alone = self.reader_alone[usize::from(!CongestionVariant::named(variant).is_old)];
        ratio(self.of(variant).tps, alone)
    }

    /// Part of their rate alone that the dd keep.
    pub fn writes_kept(&self, variant: &str) -> Milli {
        ratio(self.of(variant).dd_mb_s, self.dd_alone[0])
    }

    /// The reader's rate under a control, over the rate without any.
    pub fn change(&self, variant: &str) -> Milli {
        ratio(self.of(variant).tps, self.of("none").tps)
    }
}

fn ratio(part: Milli, of: Milli) -> Milli {
    let magnitude = |n: Milli| u128::from(n.0.unsigned_abs());
    Milli::ratio(magnitude(part), magnitude(of)).unwrap_or_default()
}

/// A scenario with the tasks that are kept.
fn only(mut scenario: Scenario, keep: fn(&Task) -> bool) -> Scenario {
    scenario.tasks.retain(keep);
    scenario
}

fn is_reader(task: &Task) -> bool {
    task.name == "reader"
}

/// Runs scenarios, each alone and under every variant.
pub fn results(cases: &[Case], length: Nanos, seed: u64) -> Vec<Result> {
    let mut jobs = Vec::new();
    for case in cases {
        let both = |name| scenario(case, CongestionVariant::named(name), length, seed);
        jobs.push(only(both("none"), is_reader));
        jobs.push(only(both("fixed"), is_reader));
        jobs.push(only(both("fixed"), |task| !is_reader(task)));
        jobs.push(only(both("latency"), |task| !is_reader(task)));
        jobs.extend(VARIANTS.iter().map(|variant| both(variant.name)));
    }
    let outcomes = parallel::map(&jobs, |scenario| outcome(&run(scenario)));
    let per_case = outcomes.chunks(4 + VARIANTS.len());
    let results = cases.iter().zip(per_case).map(|(case, runs)| Result {
        case: *case,
        reader_alone: [runs[0].tps, runs[1].tps],
        dd_alone: [runs[2].dd_mb_s, runs[3].dd_mb_s],
        beside: std::array::from_fn(|variant| runs[4 + variant]),
    });
    results.collect()
}

/// The reader's losses without a control on the way to the source's system: see [`steps`].
pub fn losses(length: Nanos, seed: u64) -> Vec<(&'static str, Milli)> {
    let steps = steps(length, seed);
    let runs = steps.iter().flat_map(|(_, both)| [only(both.clone(), is_reader), both.clone()]);
    let tps = parallel::map(&runs.collect::<Vec<_>>(), |scenario| outcome(&run(scenario)).tps);
    let lost = steps.iter().zip(tps.chunks(2));
    lost.map(|((name, _), tps)| (*name, Milli(1_000 - ratio(tps[1], tps[0]).0))).collect()
}

/// The whole table.
pub fn congestion(seed: u64) -> Vec<TableRow> {
    rows(&results(&cases::cases(), DURATION, seed), &losses(DURATION, seed))
}

/// A figure of the table.
fn entry(
    variant: &'static str,
    (figure, unit): (&'static str, &'static str),
    source: Option<Milli>,
    value: Milli,
    bound: Option<Bound>,
) -> TableRow {
    TableRow {
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

/// Why a figure is not that of the source, or does not meet its bound.
pub fn reason(variant: &str, figure: &str) -> Option<&'static str> {
    match (variant, figure) {
        ("cca-2006", "worse_of") => Some(
            "reads gain where a dd that sleeps leaves them their pages; elsewhere memory is at its \
             dirty limit whether or not dd sleeps, and they change by some percent either way",
        ),
        ("cca-2006", "best_gain") => Some(
            "without the control one dd pushes out a pool that fits into memory, with it the pool \
             stays; with larger pools the most is 17 %",
        ),
        (_, "scenarios") => Some("a part of the scenarios was run"),
        _ => None,
    }
}

/// The figures of some scenarios, that of the source first.
pub fn rows(results: &[Result], losses: &[(&'static str, Milli)]) -> Vec<TableRow> {
    let mut rows = uncontrolled(results, losses);
    for variant in VARIANTS.iter().filter(|variant| variant.is_old).skip(1) {
        rows.extend(of_the_control(results, variant.name));
    }
    rows.extend(of_pacing(results, "fixed", false));
    rows.extend(of_pacing(results, "latency", true));
    rows
}

/// The source's figure without a control, and how it comes about.
fn uncontrolled(results: &[Result], losses: &[(&'static str, Milli)]) -> Vec<TableRow> {
    let loss = Milli(420);
    let lost = Milli(1_000 - results[0].reads_kept("none").0);
    let near = Some(Bound::Within(loss, Milli(100)));
    let step = |(figure, lost): &(&'static str, Milli)| {
        entry("none", (figure, "of alone"), None, *lost, None)
    };
    let mut rows: Vec<TableRow> = losses.iter().map(step).collect();
    rows.push(entry("none", ("tps_lost", "of alone"), Some(loss), lost, near));
    rows.extend(counters(results, "none"));
    rows
}

/// The work of disk and page cache for the reader, on the disk of 2006: where the control's effect
/// comes from.
fn counters(results: &[Result], variant: &'static str) -> [TableRow; 2] {
    let of = || results.iter().filter(|one| one.case.disk == DISK).map(|one| one.of(variant));
    let seeks: u128 = of().map(|one| u128::from(one.seeks)).sum();
    let moved: u128 = of().map(|one| u128::from(one.disk_mb.0.unsigned_abs())).sum();
    let hits: u128 = of().map(|one| u128::from(one.hit_rate.0.unsigned_abs())).sum();
    let seeks = Milli::ratio(seeks * 1_000, moved).unwrap_or_default();
    let hits = Milli::ratio(hits, of().count() as u128 * 1_000).unwrap_or_default();
    [
        entry(variant, ("seeks_mb", "per MB"), None, seeks, None),
        entry(variant, ("hit_rate", "of reads"), None, hits, None),
    ]
}

/// The effect of the control of 2006 on reads, as it is counted in a variant. Only the variant that
/// is closest to what is known of the source has to meet its figures.
fn of_the_control(results: &[Result], variant: &'static str) -> Vec<TableRow> {
    let (is_source, most, gain) = (variant == "cca-2006", Milli(900), Milli(160));
    let of = |is_old: bool| results.iter().filter(move |one| (one.case.disk == DISK) == is_old);
    let part = |is_old: bool, is_so: &dyn Fn(Milli) -> bool| {
        let count = of(is_old).filter(|one| is_so(one.change(variant))).count();
        Milli::ratio(count as u128, of(is_old).count() as u128).unwrap_or_default()
    };
    let is_worse = |change: Milli| change < Milli(1_000);
    let best = of(true).map(|one| one.change(variant)).max().unwrap_or_default();
    let best = Milli((best.0 - 1_000).max(0));
    let bounds = [Bound::AtLeast(most), Bound::AtMost(gain)].map(|b| Some(b).filter(|_| is_source));
    let [seeks, hits] = counters(results, variant);
    let sources = [most, gain].map(|source| Some(source).filter(|_| is_source));
    let kinds = "of scenarios";
    vec![
        entry(variant, ("worse_of", kinds), sources[0], part(true, &is_worse), bounds[0]),
        entry(variant, ("equal_of", kinds), None, part(true, &|c| c == Milli(1_000)), None),
        entry(variant, ("best_gain", "of none"), sources[1], best, bounds[1]),
        entry(variant, ("worse_of_ncq", kinds), None, part(false, &is_worse), None),
        seeks,
        hits,
    ]
}

/// What pacing keeps; the bounds are those of the controlled window.
fn of_pacing(results: &[Result], variant: &'static str, is_ours: bool) -> Vec<TableRow> {
    let least =
        |value: &dyn Fn(&Result) -> Milli| results.iter().map(value).min().unwrap_or_default();
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
        entry(variant, figure, None, value, Some(Bound::AtLeast(bound)).filter(|_| is_ours))
    });
    rows.into()
}
