//! Figures that are to be met beside those of the source systems' own tables: what their authors
//! asked, promised or left open, and what a user would try first.
//!
//! # Model
//! - `weights 1:2:4`: three groups with the fio job of the table `slots` each, on each disk; the
//!   largest error of a share of the requests, over that share, and of the disk's time where the
//!   disk takes one request at a time.
//! - `depth 1 beside 64`: two groups of equal weight, random reads of 4 KiB, one at a time in the
//!   first and 64 in the other, under the recommended scheduler: what each has of what it has alone
//!   under `none`. `shared limit`: no scheduler, both groups below a limit of 2000 requests per
//!   second; what the first has of both.
//! - `slots 4` to `slots 500`: `nr_group_requests` of both groups of the fio job, with slots and
//!   program of 2009 and with ours. "Are 25 to 30 slots enough?" For throughput they are (from 25
//!   on >= 0.98 of fifo without caps), for shares nearly (0.485); a newcomer rises in 0.1 s only
//!   from 64 on, twice of what the disk takes. Curves: `iopace sim sweep slots`.
//! - `child above parent`: lines for a child that are above its parent's, and for a parent below
//!   its child's; the part of them that is refused, names both figures and the other group, and
//!   changes nothing.
//! - `two devices`: one group with 4 slots on one disk and 12 on another, and one with 10 and 30
//!   MB/s: the most slots that it had over its limit there, and the largest error of bytes over a
//!   second.
//! - `swaps`: [`swaps`].
//! - `trade-off`: the mixes of the table `geom` under `rr` over slice and wait, each with the other
//!   at its default. Curves: `iopace sim sweep geom`.
//!
//! # Sources
//! The mails on io-controller (2009) expect 25 to 30 slots per group to be enough. The 0.24 are
//! QEMU's throttle group (`docs/benchmarks.md`, `iopace verify`). The other figures are ours.

pub mod curves;
pub mod groups;
pub mod swaps;

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;

/// The name of the table.
pub const TABLE: &str = "further";

/// Figures of one row under one variant.
pub type FurtherOutcome = Vec<(&'static str, Milli)>;

/// The disks of the row `swaps`, and whether the requests go through a page cache.
const SWAPS: [(&str, &str, bool); 3] = [
    ("ssd-sata", "ssd-sata", false),
    ("ssd-sata, page cache", "ssd-sata", true),
    ("hdd-sata-250g-ncq", "hdd-sata-250g-ncq", false),
];

/// The unit of a figure.
fn unit(figure: &str) -> &'static str {
    match figure {
        "share_error" | "time_error" => "of share",
        "one_share" | "g2_share" => "of both",
        "total_vs_fifo" => "of fifo",
        "g2_rise_ms" | "cvs_p99_ms" => "ms",
        "refused" => "of cases",
        "slots_1" | "slots_2" | "rate_error_1" | "rate_error_2" => "of limit",
        "swaps" => "exchanges",
        "lost" | "doubled" => "requests",
        "moved" => "writes",
        "failed_over" => "schedulers",
        _ => "of alone",
    }
}

/// The words or the figure of a source for it.
pub fn words(row: &str, variant: &str, figure: &str) -> Option<&'static str> {
    Some(match (row, variant, figure) {
        ("depth 1 beside 64", groups::SHARED, "one_share") => "0.24 (QEMU)",
        ("slots 25" | "slots 32", _, "g2_share") => "25 to 30 are enough",
        _ => return None,
    })
}

/// The bound of a figure, if it has one.
pub fn bound(row: &str, variant: &str, figure: &str) -> Option<Bound> {
    let ours = variant == "guaranteed-nonblocking";
    Some(match (row, figure) {
        (_, "share_error" | "time_error") => Bound::AtMost(Milli(20)),
        (_, "one_share" | "one_kept") => Bound::AtLeast(Milli(450)),
        ("slots 25" | "slots 32", "g2_share") if ours => Bound::Within(Milli(500), Milli(10)),
        ("slots 25" | "slots 32", "total_vs_fifo") if ours => Bound::AtLeast(Milli(980)),
        ("slots 25" | "slots 32", "g2_rise_ms") if ours => Bound::AtMost(Milli(100_000)),
        (_, "refused") => Bound::AtLeast(Milli(1_000)),
        (_, "slots_1" | "slots_2") => Bound::Within(Milli(1_000), Milli(0)),
        (_, "rate_error_1" | "rate_error_2") => Bound::AtMost(Milli(10)),
        (_, "swaps") => Bound::AtLeast(groups::count(swaps::SWAPS)),
        ("swaps", _) => Bound::AtMost(Milli(0)),
        _ => return None,
    })
}

/// Why a figure does not meet its bound.
pub fn reason(row: &str, variant: &str, figure: &str) -> Option<&'static str> {
    Some(match (row, variant, figure) {
        ("weights 1:2:4", "hdd-sata-250g", "share_error") => {
            "the disk's time is shared to 0.2 %, requests are not: each go begins with a seek to \
             the group's place, and goes of the heavier group follow each other"
        }
        ("slots 25" | "slots 32", _, "g2_rise_ms" | "g2_share") => {
            "in its go a group has all of its requests at the disk, which takes 31 and orders \
             them by itself; from 64 slots on a newcomer rises in 0.1 s"
        }
        _ => return None,
    })
}

/// A part of the table.
type Part = Box<dyn Fn(u64) -> Vec<(&'static str, &'static str, FurtherOutcome)> + Send + Sync>;

fn parts() -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for disk in groups::DISKS {
        parts
            .push(Box::new(move |seed| vec![("weights 1:2:4", disk, groups::weights(disk, seed))]));
    }
    for variant in [groups::SHARED].into_iter().chain(groups::DISKS) {
        parts.push(Box::new(move |seed| {
            vec![("depth 1 beside 64", variant, groups::depths(variant, seed))]
        }));
    }
    parts.push(Box::new(curves::limits));
    parts.push(Box::new(|_| vec![("child above parent", "groups", groups::children())]));
    parts.push(Box::new(|seed| vec![("two devices", "one group", groups::devices(seed))]));
    for (variant, disk, buffered) in SWAPS {
        parts.push(Box::new(move |seed| {
            vec![("swaps", variant, of_swaps(&swaps::run(disk, buffered, seed)))]
        }));
    }
    parts.push(Box::new(curves::trades));
    parts
}

fn of_swaps(outcomes: &swaps::Outcomes) -> FurtherOutcome {
    let swaps::Outcomes { swaps, lost, doubled, moved, failed_over } = *outcomes;
    let named = [
        ("swaps", swaps),
        ("lost", lost),
        ("doubled", doubled),
        ("moved", moved),
        ("failed_over", failed_over),
    ];
    named.map(|(name, count)| (name, groups::count(count))).to_vec()
}

/// The whole table: one entry per figure.
pub fn further(seed: u64) -> Vec<TableRow> {
    let done = parallel::map(&parts(), |part| part(seed));
    let mut rows = Vec::new();
    for (row, variant, outcome) in done.into_iter().flatten() {
        rows.extend(outcome.into_iter().map(|(figure, value)| {
            let bound = bound(row, variant, figure);
            TableRow {
                table: TABLE,
                row,
                variant,
                figure,
                unit: unit(figure),
                source: None,
                value,
                bound: bound.map(Bound::text),
                holds: bound.map(|bound| bound.holds(value, value)),
            }
        }));
    }
    rows
}
