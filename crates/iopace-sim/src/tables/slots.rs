//! The table of request slots per group: the fio job of 2009, two groups on one disk; and crowds of
//! single tasks, where it matters how slots are given.
//!
//! # Model
//! Two groups of weight 500, each with fio: random reads of 4 KiB, direct, `iodepth` 500, in a file
//! of 128 MB, 30 s; `g2` begins 10 s after `g1`. The disk is `hdd-sata-250g-ncq` with `nr_requests`
//! 500; the scheduler is the recommended one ([`recommended`]). Rows differ in `nr_group_requests`
//! and, the last, in the class of `g2`.
//!
//! There are two ways to give slots and two programs, each program with each way:
//!
//! - *plain*: the pool of 2009 ([`iopace_core::admit::plain`]); *guaranteed*: slots by weight
//!   ([`iopace_core::admit::guaranteed`]).
//! - *blocking*: fio as it was in 2009. It sleeps in `io_submit` until its request has a slot, and
//!   takes one completion a submission once all 500 are out. *nonblocking*: the same load, and
//!   nobody sleeps: requests without a slot wait in line. So it is for every client of the daemon.
//!
//! *First* is the time from the start of `g2` to its first completion, as its program sees it, in
//! steps of 10 ms. *Rise*, the older measure, is the time to the start of the first 100 ms (in
//! steps of 10 ms) in which it has 80 % of its steady rate. The steady rate and the shares are
//! those from 3 s after its start to the end of `g1`.
//!
//! [`crowds`] has the rows of single tasks.
//!
//! # Sources
//! Mail of 4 Aug 2009 on the per-cgroup request limit of the io-controller, with fio's bandwidth
//! logs. The first line of each log is one request of 4 KiB: 969, 1498, 244 and 476 ms after the
//! start. In words the mail has 1.0 to 1.2, 1.8 to 2.0, 0.3 and 0.5 to 0.7 s.
//!
//! The mail thought the second row a bug of the kernel. It follows from the program: `g2` may have
//! 100 requests in the kernel, but fio counts nothing before all of its 500 are submitted, which
//! takes until 400 of them are done. At half of the 533 requests per second that the log has for
//! the whole disk this takes 1.50 s, the first line of the log. The 1.8 to 2.0 s of the words would
//! take 210 requests per second, where the log has 266.
//!
//! The text of the patch is not on record. That a newcomer takes half as many slots again as the
//! pool has (see [`iopace_core::admit::plain`]) follows from the logs: 250 slots at once, and 250
//! more of its own completions at half the disk's rate, are the 970 ms of the first row; at the
//! whole rate they are the 480 ms of the last.

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, DEVICE, Scenario};
use crate::tally::{BIN, ms};
use crate::task::{Task, TaskKind};
use iopace_core::admit::Mode;
use iopace_core::request::Extent;
use iopace_core::sched::{find, recommended};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;

pub mod caps;
pub mod crowds;

/// The name of the table.
pub const TABLE: &str = "slots";

/// The disk of every row of the fio job.
pub const DISK: &str = "hdd-sata-250g-ncq";

/// `nr_requests`, and fio's `iodepth`.
pub const NR_REQUESTS: u32 = 500;

/// When which group runs, and from when on rates count.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// The start of `g2`.
    start: Nanos,
    /// From then on until its rate counts as steady.
    settling: Nanos,
    /// The end of `g1`.
    end: Nanos,
}

/// Of the fio job: each of the two runs for 30 s.
const SPAN: Span =
    Span { start: Nanos::from_secs(10), settling: Nanos::from_secs(3), end: RUNTIME };
const RUNTIME: Nanos = Nanos::from_secs(30);

/// The rows: name, `nr_group_requests` of both groups, class of `g2`.
pub const ROWS: [(&str, u32, u32, &str); 4] = [
    ("condition-1", 500, 500, "BE"),
    ("condition-2", 100, 100, "BE"),
    ("condition-3", 100, 500, "BE"),
    ("condition-4", 500, 500, "RT"),
];

/// A way to give slots, and a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotVariant {
    /// Its name.
    pub name: &'static str,
    /// How slots are given.
    pub mode: Mode,
    /// Whether the program sleeps until its request has a slot.
    pub blocking: bool,
}

/// Each program with each way.
pub const VARIANTS: [SlotVariant; 4] = [
    SlotVariant { name: "plain-blocking", mode: Mode::Plain, blocking: true },
    SlotVariant { name: "plain-nonblocking", mode: Mode::Plain, blocking: false },
    SlotVariant { name: "guaranteed-blocking", mode: Mode::Guaranteed, blocking: true },
    SlotVariant { name: "guaranteed-nonblocking", mode: Mode::Guaranteed, blocking: false },
];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 5] = [
    ("g2_first_ms", "ms"),
    ("g2_rise_ms", "ms"),
    ("g2_kib_s", "KiB/s"),
    ("g2_share", "of both"),
    ("total_vs_fifo", "of fifo"),
];

/// The measurements of one row under one variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotOutcome {
    /// Time until the first completion of `g2`; `None` if it had none.
    pub g2_first_ms: Option<Milli>,
    /// Time until `g2` has 80 % of its steady rate; `None` if it never had.
    pub g2_rise_ms: Option<Milli>,
    /// Mean rate of `g2` from its start until `g1` ends.
    pub g2_kib_s: Milli,
    /// Steady rate of `g2` over that of both.
    pub g2_share: Milli,
    /// Steady rate of both, in KiB/s.
    pub total_kib_s: Milli,
}

/// The scenario of two groups with these slots.
pub fn scenario(
    caps: (u32, u32),
    class: &str,
    variant: &SlotVariant,
    scheduler: &str,
    seed: u64,
) -> Scenario {
    let mut groups = Tree::new();
    let mut ids = Vec::new();
    for (path, cap, class) in [("/g1", caps.0, "BE"), ("/g2", caps.1, class)] {
        let id = groups.create(path).expect("a new name");
        let lines = [
            ("io.weight", "500".to_string()),
            ("io.nr_group_requests", cap.to_string()),
            ("io.ioprio_class", class.to_string()),
        ];
        for (file, text) in lines {
            groups.write(id, file, &text, &[DEVICE]).expect("legal lines");
        }
        ids.push(id);
    }
    let file = Bytes::from_mib(128);
    let task = |name, place: u64, group, start: Nanos| Task {
        start: Instant::ZERO + start,
        stop: Instant::ZERO + start + RUNTIME,
        depth: NR_REQUESTS,
        group,
        blocking: variant.blocking,
        ..Task::new(
            name,
            TaskKind::Random,
            Extent::new(Bytes(place * file.0), file).expect("far below 2^64"),
        )
    };
    let chosen = Chosen::defaults(find(scheduler).expect("a scheduler of the registry"));
    Scenario {
        seed,
        duration: SPAN.start + RUNTIME,
        warmup: Nanos::ZERO,
        nr_requests: NR_REQUESTS,
        slots: variant.mode,
        groups,
        scheduler: Some(chosen),
        // Two files of one file system, not far apart.
        tasks: vec![task("g1", 8, ids[0], Nanos::ZERO), task("g2", 24, ids[1], SPAN.start)],
        keeps_timeline: true,
        ..Scenario::new("the fio job of 2009", DISK)
    }
}

/// The figures of a run of the fio job.
pub fn outcome(report: &RunReport) -> SlotOutcome {
    measure(report, SPAN)
}

/// The figures of a run whose tasks are called after their groups.
fn measure(report: &RunReport, span: Span) -> SlotOutcome {
    let sum = |group: &str, from: Nanos, to: Nanos| -> u64 {
        let of_group = report.tasks.iter().filter(|(name, _)| name.starts_with(group));
        let sums = of_group.map(|(_, task)| {
            let place = |at: Nanos| ((at.0 / BIN.0) as usize).min(task.timeline.len());
            task.timeline[place(from)..place(to)].iter().sum::<u64>()
        });
        sums.sum()
    };
    let kib_s = |bytes: u64, time: Nanos| {
        let kib = u128::from(bytes) * 1_000_000_000;
        Milli::ratio(kib, u128::from(time.0) << 10).unwrap_or_default()
    };
    let Span { start, settling, end } = span;
    let begin = start + settling;
    let steady = end.saturating_sub(begin);
    let (g1, g2) = (sum("g1", begin, end), sum("g2", begin, end));
    let window = Nanos(10 * BIN.0);
    let enough = |from: Nanos| {
        let bytes = u128::from(sum("g2", from, from + window));
        bytes * u128::from(steady.0) * 10 >= 8 * u128::from(g2) * u128::from(window.0)
    };
    let steps = || (0..).map(|step| Nanos(step * BIN.0)).take_while(|step| start + *step < end);
    let first = steps().find(|step| sum("g2", start + *step, start + *step + BIN) > 0);
    let rise = steps().find(|step| enough(start + *step));
    SlotOutcome {
        g2_first_ms: first.map(ms),
        g2_rise_ms: rise.map(ms),
        g2_kib_s: kib_s(sum("g2", start, end), end.saturating_sub(start)),
        g2_share: Milli::ratio(u128::from(g2), u128::from(g1 + g2)).unwrap_or_default(),
        total_kib_s: kib_s(g1 + g2, steady),
    }
}

/// The figures of the source: the first line of each log, the rise in the mail's words (the
/// middle), and the mean rate of `g2`.
pub fn source(row: &str, figure: &str) -> Option<Milli> {
    let (first_ms, rise_ms, kib_s) = match row {
        "condition-1" => (969, 1_100, 1_063),
        "condition-2" => (1_498, 1_900, 998),
        "condition-3" => (244, 300, 1_048),
        "condition-4" => (476, 600, 2_132),
        _ => return None,
    };
    match figure {
        "g2_first_ms" => Some(Milli(first_ms * 1_000)),
        "g2_rise_ms" => Some(Milli(rise_ms * 1_000)),
        "g2_kib_s" => Some(Milli(kib_s * 1_000)),
        _ => None,
    }
}

/// The source's range, where it states one.
pub fn words(row: &str, figure: &str) -> Option<&'static str> {
    match (row, figure) {
        ("condition-1", "g2_rise_ms") => Some("1000 to 1200"),
        ("condition-2", "g2_rise_ms") => Some("1800 to 2000"),
        ("condition-4", "g2_rise_ms") => Some("500 to 700"),
        _ => None,
    }
}

/// Why a figure is not that of the source, or does not meet its bound.
pub fn reason(row: &str, variant: &str, figure: &str) -> Option<&'static str> {
    Some(match (variant, row, figure) {
        ("plain-blocking", "condition-2", "g2_first_ms") => {
            "the bound is the mail's words, which its own log contradicts: 500 requests with 100 \
             slots are out when 400 of them are done, at half of the disk"
        }
        ("plain-blocking", "condition-3", "g2_rise_ms") => {
            "the source's kernel gave its slots in batches, and its disk had no NCQ"
        }
        ("plain-nonblocking", _, "g2_first_ms" | "g2_rise_ms") => {
            "the program does not sleep until its requests have slots, as fio of 2009 did"
        }
        ("guaranteed-blocking", "condition-4", "g2_first_ms" | "g2_rise_ms") => {
            "guaranteed slots lend a newcomer none beyond its own; the pool of 2009 lent it half \
             as many again"
        }
        _ => return None,
    })
}

/// The bound of a figure of the fio job. The first completion of the program of 2009 on the slots
/// of 2009 is bound by the mail's words; that of the daemon's clients by what a user notices.
pub fn bound(row: &str, variant: &str, figure: &str) -> Option<Bound> {
    let bound = match (variant, row, figure) {
        ("plain-blocking", "condition-1", "g2_first_ms") => {
            Bound::Within(Milli(1_100_000), Milli(300_000))
        }
        ("plain-blocking", "condition-2", "g2_first_ms") => {
            Bound::Within(Milli(1_900_000), Milli(100_000))
        }
        ("plain-blocking", "condition-3", "g2_first_ms") => Bound::AtMost(Milli(400_000)),
        ("plain-blocking", "condition-4", "g2_first_ms") => {
            Bound::Within(Milli(600_000), Milli(200_000))
        }
        ("guaranteed-nonblocking", _, "g2_first_ms" | "g2_rise_ms") => {
            Bound::AtMost(Milli(100_000))
        }
        ("guaranteed-nonblocking", "condition-4", "g2_share") => Bound::AtLeast(Milli(970)),
        ("guaranteed-nonblocking", _, "g2_share") => Bound::Within(Milli(500), Milli(10)),
        (_, _, "total_vs_fifo") => Bound::AtLeast(Milli(980)),
        _ => return None,
    };
    Some(bound)
}

/// The whole table: one entry per figure.
pub fn slots(seed: u64) -> Vec<TableRow> {
    let mut rows = fio(seed);
    rows.extend(crowds::crowds(seed));
    rows
}

fn fio(seed: u64) -> Vec<TableRow> {
    let mut jobs = Vec::new();
    for (_, g1, g2, class) in ROWS {
        let scheduler = recommended().name;
        jobs.extend(VARIANTS.map(|variant| scenario((g1, g2), class, &variant, scheduler, seed)));
    }
    // The same load with fifo and no caps, for each variant.
    let caps = (NR_REQUESTS, NR_REQUESTS);
    jobs.extend(VARIANTS.map(|variant| scenario(caps, "BE", &variant, "fifo", seed)));
    let outcomes = parallel::map(&jobs, |scenario| outcome(&run(scenario)));
    let (cells, fifo) = outcomes.split_at(ROWS.len() * VARIANTS.len());
    let mut rows = Vec::new();
    for (index, outcome) in cells.iter().enumerate() {
        let (row, ..) = ROWS[index / VARIANTS.len()];
        let variant = index % VARIANTS.len();
        rows.extend(figures((row, VARIANTS[variant].name), outcome, &fifo[variant], bound));
    }
    rows
}

/// The entries of a row under a variant.
fn figures(
    (row, variant): (&'static str, &'static str),
    outcome: &SlotOutcome,
    fifo: &SlotOutcome,
    bound: fn(&str, &str, &str) -> Option<Bound>,
) -> Vec<TableRow> {
    let ratio = |part: Milli, of: Milli| {
        let magnitude = |n: Milli| u128::from(n.0.unsigned_abs());
        Milli::ratio(magnitude(part), magnitude(of)).unwrap_or_default()
    };
    let entries = FIGURES.iter().filter_map(|(figure, unit)| {
        let value = match *figure {
            "g2_first_ms" => outcome.g2_first_ms?,
            "g2_rise_ms" => outcome.g2_rise_ms?,
            "g2_kib_s" => outcome.g2_kib_s,
            "g2_share" => outcome.g2_share,
            _ => ratio(outcome.total_kib_s, fifo.total_kib_s),
        };
        let bound = bound(row, variant, figure);
        Some(TableRow {
            table: TABLE,
            row,
            variant,
            figure,
            unit,
            source: source(row, figure),
            value,
            bound: bound.map(Bound::text),
            holds: bound.map(|bound| bound.holds(value, value)),
        })
    });
    entries.collect()
}
