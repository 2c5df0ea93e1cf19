//! Crowds: single tasks of one group have filled the slots when another group comes.
//!
//! # Model
//! 256 tasks of `g1`, each with one random read of 4 KiB at a time, ask for 128 slots (the default
//! of the kernel's `nr_requests`). Tasks of `g2` of the same kind come later. A task with one
//! request at a time waits for its slot whatever the program, so there are two variants only.
//!
//! In the pool of 2009 a group of single tasks is woken by its own completions only, one task each,
//! so a newcomer keeps the one slot that it began with, however many tasks it has. Where a
//! scheduler divides the disk's time among groups (`fair` on a disk with a head) this does not
//! matter; where requests are served as they come (`fifo`, flash) the shares of the slots are
//! the shares of the disk.
//!
//! # Sources
//! Linux 3.7, commit a051661ca6d1 (a pool for each group): with one pool, weights stop to matter
//! once it is exhausted, because whoever takes the next free request wins.

use super::{SlotOutcome, Span, figures, measure};
use crate::milli::Milli;
use crate::parallel;
use crate::run::run;
use crate::scenario::{Chosen, Scenario};
use crate::tables::{Bound, TableRow};
use crate::task::{Task, TaskKind};
use iopace_core::admit::Mode;
use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::find;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Its name.
    pub name: &'static str,
    disk: &'static str,
    scheduler: &'static str,
    /// Tasks of `g2`.
    newcomers: u64,
    span: Span,
}

/// Request slots: the default of the Linux block layer.
const NR_REQUESTS: u32 = 128;

/// Tasks of `g1`: twice as many as there are slots, so that some always wait for one.
const OLD: u64 = 256;

/// A disk with a head, some 300 requests per second.
const HDD: (&str, Span) = (
    super::DISK,
    Span { start: Nanos::from_secs(5), settling: Nanos::from_secs(3), end: Nanos::from_secs(25) },
);

/// Flash, a thousand times as fast: a second and a half is enough.
const FLASH: (&str, Span) = (
    "ssd-nvme",
    Span {
        start: Nanos::from_secs(1),
        settling: Nanos::from_millis(500),
        end: Nanos::from_millis(2_500),
    },
);

/// The rows.
pub const ROWS: [Crowd; 4] = [
    row("crowd-fifo", HDD, "fifo", 64),
    row("crowd-flash", FLASH, "fair", 64),
    row("crowd-fair", HDD, "fair", 64),
    row("crowd-fair-1", HDD, "fair", 1),
];

const fn row(
    name: &'static str,
    (disk, span): (&'static str, Span),
    scheduler: &'static str,
    newcomers: u64,
) -> Crowd {
    Crowd { name, disk, scheduler, newcomers, span }
}

/// The ways to give slots.
pub const VARIANTS: [(&str, Mode); 2] = [("plain", Mode::Plain), ("guaranteed", Mode::Guaranteed)];

/// The scenario of a row.
pub fn scenario(crowd: &Crowd, mode: Mode, scheduler: &str, seed: u64) -> Scenario {
    let mut groups = Tree::new();
    let g1 = groups.create("/g1").expect("a new name");
    let g2 = groups.create("/g2").expect("a new name");
    let part = Bytes::from_mib(64);
    let task = |group: (&str, GroupId), place: u64, number: u64, times: (Nanos, Nanos)| Task {
        start: Instant::ZERO + times.0,
        stop: Instant::ZERO + times.1,
        group: group.1,
        ..Task::new(
            &format!("{}-{number:03}", group.0),
            TaskKind::Random,
            Extent::new(Bytes((place + number) * part.0), part).expect("far below 2^64"),
        )
    };
    let Span { start, end, .. } = crowd.span;
    let old = (0..OLD).map(|number| task(("g1", g1), 0, number, (Nanos::ZERO, end)));
    // The tasks of g2 have the part behind those of g1.
    let new = (0..crowd.newcomers).map(|number| task(("g2", g2), 2 * OLD, number, (start, end)));
    Scenario {
        seed,
        duration: end,
        warmup: Nanos::ZERO,
        nr_requests: NR_REQUESTS,
        slots: mode,
        groups,
        scheduler: Some(Chosen::defaults(find(scheduler).expect("one of the registry"))),
        tasks: old.chain(new).collect(),
        keeps_timeline: true,
        ..Scenario::new("a crowd of single tasks", crowd.disk)
    }
}

/// The bound of a figure: slots are guaranteed, so the newcomers have what they are due where
/// slots are what divides.
fn bound(row: &str, variant: &str, figure: &str) -> Option<Bound> {
    match (row, variant, figure) {
        ("crowd-fifo" | "crowd-flash" | "crowd-fair", "guaranteed", "g2_share") => {
            Some(Bound::AtLeast(Milli(450)))
        }
        _ => None,
    }
}

/// The rows: one entry per figure.
pub fn crowds(seed: u64) -> Vec<TableRow> {
    let mut jobs = Vec::new();
    for crowd in ROWS {
        let modes = VARIANTS.map(|(_, mode)| (mode, crowd.scheduler));
        let all = modes.into_iter().chain([(Mode::Plain, "fifo")]);
        jobs.extend(all.map(|(mode, name)| (scenario(&crowd, mode, name, seed), crowd.span)));
    }
    let outcomes = parallel::map(&jobs, |(scenario, span)| measure(&run(scenario), *span));
    let mut rows = Vec::new();
    for (crowd, outcomes) in ROWS.iter().zip(outcomes.chunks(VARIANTS.len() + 1)) {
        let fifo: &SlotOutcome = outcomes.last().expect("fifo is the last");
        for ((variant, _), outcome) in VARIANTS.iter().zip(outcomes) {
            rows.extend(figures((crowd.name, variant), outcome, fifo, bound));
        }
    }
    rows
}
