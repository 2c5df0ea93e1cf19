//! The table of request slots per group: the fio job of 2009, two groups on one disk.
//!
//! # Model
//! Two groups of weight 500, each with fio: random reads of 4 KiB, direct, `iodepth` 500, in a file
//! of 128 MB, 30 s; `g2` begins 10 s after `g1`. The disk is `hdd-sata-250g-ncq` with `nr_requests`
//! 500; the scheduler is the recommended one ([`recommended`]). What changes from row to row is
//! `nr_group_requests` and, in the last, the class of `g2`.
//!
//! *plain* has the slots of 2009 and fio as it was there: asleep in `io_submit` until its request
//! has a slot, looking for completions only when all 500 are out. *guaranteed* has the slots of
//! [`iopace_core::admit::guaranteed`], which keep what waits, so that nobody sleeps.
//!
//! *Rise* is the time from the start of `g2` to the start of the first 100 ms (in steps of 10 ms)
//! in which it has 80 % of its steady rate, as its program sees it. The steady rate and the shares
//! are those from 3 s after its start to the end of `g1`.
//!
//! # Sources
//! Mail of 4 Aug 2009 on the per-cgroup request limit of the io-controller, with fio's bandwidth
//! logs. It thought the second row a bug. It is not one of the kernel: `g2` may have 100 requests
//! in the kernel, but fio counts nothing before all of its 500 are submitted, which takes until
//! 400 of them are done.
//!
//! The text of the patch is not on record. That a newcomer takes half as many slots again as the
//! pool has (see [`iopace_core::admit::plain`]) follows from the logs: 250 slots at once, and 250
//! more of its own completions at half the disk's rate, are the 970 ms of the first row; at the
//! whole rate they are the 480 ms of the last.

use super::{Bound, Row};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, DEVICE, Scenario};
use crate::tally::BIN;
use crate::task::{Kind, Task};
use iopace_core::admit::Mode;
use iopace_core::request::Extent;
use iopace_core::sched::{find, recommended};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;

/// The name of the table.
pub const TABLE: &str = "slots";

/// The disk of every row.
pub const DISK: &str = "hdd-sata-250g-ncq";

/// `nr_requests`, and fio's `iodepth`.
pub const NR_REQUESTS: u32 = 500;

/// When `g2` begins, and how long each of the two runs.
const G2_START: Nanos = Nanos::from_secs(10);
const RUNTIME: Nanos = Nanos::from_secs(30);

/// From the start of `g2` on until its rate counts as steady.
const SETTLING: Nanos = Nanos::from_secs(3);

/// The rows: name, `nr_group_requests` of both groups, class of `g2`.
pub const ROWS: [(&str, u32, u32, &str); 4] = [
    ("condition-1", 500, 500, "BE"),
    ("condition-2", 100, 100, "BE"),
    ("condition-3", 100, 500, "BE"),
    ("condition-4", 500, 500, "RT"),
];

/// The variants and how slots are given in them.
pub const VARIANTS: [(&str, Mode); 2] = [("plain", Mode::Plain), ("guaranteed", Mode::Guaranteed)];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 4] = [
    ("g2_rise_ms", "ms"),
    ("g2_kib_s", "KiB/s"),
    ("g2_share", "of both"),
    ("total_vs_fifo", "of fifo"),
];

/// What came out of one row under one variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
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
pub fn scenario(caps: (u32, u32), class: &str, mode: Mode, scheduler: &str, seed: u64) -> Scenario {
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
        blocking: mode == Mode::Plain,
        ..Task::new(
            name,
            Kind::Random,
            Extent::new(Bytes(place * file.0), file).expect("far below 2^64"),
        )
    };
    let chosen = Chosen::defaults(find(scheduler).expect("a scheduler of the registry"));
    Scenario {
        seed,
        duration: G2_START + RUNTIME,
        warmup: Nanos::ZERO,
        nr_requests: NR_REQUESTS,
        slots: mode,
        groups,
        scheduler: Some(chosen),
        // Two files of one file system, not far apart.
        tasks: vec![task("g1", 8, ids[0], Nanos::ZERO), task("g2", 24, ids[1], G2_START)],
        keeps_timeline: true,
        ..Scenario::new("the fio job of 2009", DISK)
    }
}

/// The figures of a run.
pub fn outcome(report: &RunReport) -> Outcome {
    let sum = |name: &str, from: Nanos, to: Nanos| -> u64 {
        let bins = &report.tasks[name].timeline;
        let place = |at: Nanos| ((at.0 / BIN.0) as usize).min(bins.len());
        bins[place(from)..place(to)].iter().sum()
    };
    let kib_s = |bytes: u64, time: Nanos| {
        let kib = u128::from(bytes) * 1_000_000_000;
        Milli::ratio(kib, u128::from(time.0) << 10).unwrap_or_default()
    };
    let (begin, end) = (G2_START + SETTLING, RUNTIME);
    let steady = end.saturating_sub(begin);
    let (g1, g2) = (sum("g1", begin, end), sum("g2", begin, end));
    let window = Nanos(10 * BIN.0);
    let enough = |from: Nanos| {
        let bytes = u128::from(sum("g2", from, from + window));
        bytes * u128::from(steady.0) * 10 >= 8 * u128::from(g2) * u128::from(window.0)
    };
    let steps = (0..).map(|step| Nanos(step * BIN.0));
    let rise =
        steps.take_while(|rise| G2_START + *rise < end).find(|rise| enough(G2_START + *rise));
    Outcome {
        g2_rise_ms: rise.map(crate::tally::ms),
        g2_kib_s: kib_s(sum("g2", G2_START, end), end.saturating_sub(G2_START)),
        g2_share: Milli::ratio(u128::from(g2), u128::from(g1 + g2)).unwrap_or_default(),
        total_kib_s: kib_s(g1 + g2, steady),
    }
}

/// What the source measured: rise (the middle of what it states) and mean rate of `g2`.
pub fn source(row: &str, figure: &str) -> Option<Milli> {
    let (rise_ms, kib_s) = match row {
        "condition-1" => (1_100, 1_063),
        "condition-2" => (1_900, 998),
        "condition-3" => (300, 1_048),
        _ => (600, 2_132),
    };
    match figure {
        "g2_rise_ms" => Some(Milli(rise_ms * 1_000)),
        "g2_kib_s" => Some(Milli(kib_s * 1_000)),
        _ => None,
    }
}

/// What a figure has to meet.
pub fn bound(row: &str, variant: &str, figure: &str) -> Option<Bound> {
    let bound = match (variant, row, figure) {
        ("plain", "condition-1", "g2_rise_ms") => Bound::Within(Milli(1_100_000), Milli(300_000)),
        ("plain", "condition-4", "g2_rise_ms") => Bound::Within(Milli(600_000), Milli(200_000)),
        ("plain", _, "g2_rise_ms") => Bound::AtMost(Milli(400_000)),
        ("guaranteed", _, "g2_rise_ms") => Bound::AtMost(Milli(100_000)),
        ("guaranteed", "condition-4", "g2_share") => Bound::AtLeast(Milli(970)),
        ("guaranteed", _, "g2_share") => Bound::Within(Milli(500), Milli(10)),
        (_, _, "total_vs_fifo") => Bound::AtLeast(Milli(980)),
        _ => return None,
    };
    Some(bound)
}

/// The whole table: one entry per figure.
pub fn slots(seed: u64) -> Vec<Row> {
    let mut jobs = Vec::new();
    for (_, g1, g2, class) in ROWS {
        for (_, mode) in VARIANTS {
            jobs.push(scenario((g1, g2), class, mode, recommended().name, seed));
        }
    }
    // The same load with fifo and no caps, for each kind of program.
    for (_, mode) in VARIANTS {
        jobs.push(scenario((NR_REQUESTS, NR_REQUESTS), "BE", mode, "fifo", seed));
    }
    let outcomes = parallel::map(&jobs, |scenario| outcome(&run(scenario)));
    let (cells, fifo) = outcomes.split_at(ROWS.len() * VARIANTS.len());
    let mut rows = Vec::new();
    for (index, outcome) in cells.iter().enumerate() {
        let (row, ..) = ROWS[index / VARIANTS.len()];
        let variant = index % VARIANTS.len();
        rows.extend(figures(row, VARIANTS[variant].0, outcome, &fifo[variant]));
    }
    rows
}

fn figures(
    row: &'static str,
    variant: &'static str,
    outcome: &Outcome,
    fifo: &Outcome,
) -> Vec<Row> {
    let ratio = |part: Milli, of: Milli| {
        let magnitude = |n: Milli| u128::from(n.0.unsigned_abs());
        Milli::ratio(magnitude(part), magnitude(of)).unwrap_or_default()
    };
    let entries = FIGURES.iter().filter_map(|(figure, unit)| {
        let value = match *figure {
            "g2_rise_ms" => outcome.g2_rise_ms?,
            "g2_kib_s" => outcome.g2_kib_s,
            "g2_share" => outcome.g2_share,
            _ => ratio(outcome.total_kib_s, fifo.total_kib_s),
        };
        let bound = bound(row, variant, figure);
        Some(Row {
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
