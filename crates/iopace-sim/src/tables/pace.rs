//! The table of dirty throttling: buffered writers paced by rate, beside the threshold of before.
//!
//! # Model
//! Every row is a load of buffered writers; every variant is a policy of stage pace. *legacy* is
//! `threshold` with the `fixed` window, the scheme that the source replaced; *rate* is the rate of
//! the source with the `latency` window. Memory is that of the source where it states one, with its
//! thresholds of 10 and 20 percent. The loads are in [`setups`], the arithmetic is in [`measure`].
//!
//! A *pause* is one wait of a writer before a portion of its write, from the first question until
//! the portion goes into memory, as one sleep in `balance_dirty_pages` is one in the source. All
//! pauses of a run count, from its first instant to the end of the last write.
//!
//! Figures with a lower bound are rounded down and those with an upper bound up: none looks better
//! than it is.
//!
//! A row of dirty memory *within its share* or *at its set point* is one of the device's own marks,
//! as stage pace has them; *starved* is who has finished less than half of what all have on
//! average. Ten thousand writers are on a flash disk: with a page each per 200 ms, the longest
//! pause that is allowed, they need 205 MB/s.
//!
//! Under *legacy* several disks do not divide memory (`Undivided` of [`crate::fleet`]): before 2011
//! each had what it could get, up to its part of a common limit, learned from what it completed.
//! Under *rate* they divide it as the daemon's devices do.
//!
//! The row `rsync` is the mean of several runs: whom the old scheme stops is luck.
//!
//! # Limits
//! The source also measured a third kernel (Jan Kara's, with completions shared out among those
//! that wait): rsync had 612 853 B/s with pauses up to 300 ms. Its rules are not known here well
//! enough to be modelled without guessing, so it has no column.
//!
//! Stalls of 30 s on NFS and of 200 s until memory is full belong to machines that are not on
//! record: `legacy` has them where the rule of then brings them about on our disks, and shorter.
//!
//! # Sources
//! Wu Fengguang, "IO-less dirty throttling" (LinuxCon Japan 2011), with the curves and the figures
//! of the kernels 2.6.38 and 2.6.39; the change logs of the series that was merged in 2011. Where
//! it states a range, the table has the worse end.

pub mod decisions;
pub mod groups;
pub mod measure;
pub mod setups;

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;
use core::cmp::Reverse;

/// The name of the table.
pub const TABLE: &str = "pace";

/// The rows.
pub const ROWS: [&str; 17] = [
    "rsync",
    "writers-10",
    "writers-1000",
    "writers-10000",
    "write-cost",
    "pause-5ms",
    "ramp",
    "jbod",
    "disks-10",
    "nfs",
    "usb-beside-disk",
    "low-ratio",
    "writers-count",
    "rewrite",
    "group-cap",
    "group-weights",
    "reader-frames",
];

/// The variants: name, stage pace, stage window.
pub const VARIANTS: [(&str, &str, &str); 2] =
    [("legacy", "threshold", "fixed"), ("rate", "rate", "latency")];

/// The figures of a row: name and unit.
///
/// # Panics
/// If there is no such row.
pub fn figures(row: &str) -> &'static [(&'static str, &'static str)] {
    match row {
        "rsync" => &[
            ("bytes_s", "B/s"),
            ("ratio_to_legacy", "of legacy"),
            ("empty_s", "of 23 s"),
            ("cov_1s", "of mean"),
            ("pause_p99_ms", "ms"),
            ("pause_max_ms", "ms"),
        ],
        "writers-10" => &[
            ("pause_p99_ms", "ms"),
            ("jain_5s_min", "of equal"),
            ("spread_60s", "of mean"),
            ("cov_1s", "of mean"),
        ],
        "writers-1000" | "writers-10000" => &[("pause_max_ms", "ms"), ("starved", "tasks")],
        "write-cost" => {
            &[("cost_1000", "of 1 dd"), ("cost_10000", "of 1 dd"), ("cost_1000_hdd", "of 1 dd")]
        }
        "pause-5ms" => &[("pause_p99_ms", "ms")],
        "ramp" => &[("ramp_s", "s")],
        "jbod" => &[("busy_min", "of time")],
        "disks-10" => &[("busy_min", "of time"), ("pause_max_ms", "ms")],
        "nfs" => &[("pause_max_ms", "ms")],
        "usb-beside-disk" => {
            &[("disk_share", "of alone"), ("key_settle_s", "s"), ("over_limit_bytes", "B")]
        }
        "low-ratio" => &[("busy", "of time"), ("fluctuation_s", "s")],
        "writers-count" => {
            &[("fluctuation_1_s", "s"), ("fluctuation_10_s", "s"), ("fluctuation_100_s", "s")]
        }
        "rewrite" => &[("count_factor", "of written")],
        "group-cap" => &[("cap_error_max", "of limit"), ("rest_taken", "of rest")],
        "group-weights" => &[("share_error", "of share")],
        "reader-frames" => &[("hit_rate_ratio", "of alone")],
        _ => panic!("no row '{row}' in the table {TABLE}"),
    }
}

/// What the source states.
pub fn source(row: &str, variant: &str, figure: &str) -> Option<Milli> {
    let thousandths = match (variant, row, figure) {
        ("legacy", "rsync", "bytes_s") => 545_098_791,
        ("rate", "rsync", "bytes_s") => 891_014_654,
        ("rate", "rsync", "ratio_to_legacy") => 1_635,
        ("legacy", "rsync", "empty_s") => 15_000,
        ("rate", "rsync", "empty_s") => 0,
        ("legacy", "rsync", "cov_1s") => 2_260,
        ("rate", "rsync", "cov_1s") => 148,
        ("legacy", "rsync", "pause_max_ms") => 3_000_000,
        ("rate", "rsync", "pause_max_ms") => 70_000,
        ("legacy", "writers-10", "pause_p99_ms") => 2_500_000,
        ("rate", "writers-10", "pause_p99_ms") => 10_000,
        ("legacy", "ramp", "ramp_s") => 200_000,
        ("rate", "ramp", "ramp_s") => 2_000,
        ("legacy", "disks-10", "pause_max_ms") => 2_500_000,
        ("legacy", "nfs", "pause_max_ms") => 30_000_000,
        ("rate", "nfs", "pause_max_ms") => 80_000,
        ("legacy", "usb-beside-disk", "key_settle_s") => 200_000,
        ("rate", "low-ratio", "fluctuation_s") => 1_000,
        _ => return None,
    };
    Some(Milli(thousandths))
}

/// The source's words, or its range.
pub fn words(row: &str, variant: &str, figure: &str) -> Option<&'static str> {
    Some(match (variant, row, figure) {
        ("legacy", "rsync", "pause_p99_ms" | "pause_max_ms") => "up to 3000",
        ("rate", "rsync", "pause_p99_ms" | "pause_max_ms") => "60 to 70",
        ("legacy", "writers-10", "pause_p99_ms") => "up to 2500",
        ("rate", "writers-10", "pause_p99_ms") => "below 10",
        ("legacy", "writers-10", "jain_5s_min") => "uneven",
        ("rate", "writers-10", "jain_5s_min") => "lines superposed",
        ("legacy", "writers-10", "cov_1s") => "bumps of seconds",
        ("rate", "writers-10", "cov_1s") => "straight",
        ("legacy", "jbod", "busy_min") => "disks idle",
        ("rate", "jbod", "busy_min") => "smooth",
        ("legacy", "usb-beside-disk", "disk_share") => "global stall",
        ("rate", "writers-count", "fluctuation_100_s") => "hardly more",
        ("rate", "pause-5ms", "pause_p99_ms") => "5 at will",
        ("rate", "write-cost", _) => "O(1)",
        ("rate", "rewrite", "count_factor") => "drift, then held",
        ("rate", "writers-1000" | "writers-10000", "pause_max_ms") => "works",
        _ => return None,
    })
}

/// Why a figure is not that of the source, or does not meet its bound.
pub fn reason(row: &str, variant: &str, figure: &str) -> Option<&'static str> {
    Some(match (variant, row, figure) {
        ("legacy", "rsync", "empty_s") => {
            "the tasks that the rule stops are a matter of luck: 6.9 s and 12 s with the first two \
             seeds"
        }
        ("legacy", "rsync", "pause_p99_ms") => {
            "longer than in the source: 51 tasks share the disk while they wait, so that a duty of \
             1.5 looks takes seconds"
        }
        ("rate", "write-cost", "cost_10000" | "cost_1000_hdd") => {
            "a write that has to wait is decided twice, before and after its pause, and with so \
             little for each task every write waits; no decision takes more work for it"
        }
        ("rate", "rsync", "cov_1s") => "steadier than in the source",
        ("rate", "rsync", "pause_max_ms") => "shorter than in the source",
        ("legacy", "ramp", "ramp_s") => "sooner than in the source, whose machine is not on record",
        ("legacy", "jbod", "busy_min") => {
            "not reproduced: write-back does not run out of dirty pages of any disk here"
        }
        ("legacy", "disks-10", "pause_max_ms") => {
            "longer than in the source: 32 tasks share each disk while they wait, and the source's \
             disks are not on record"
        }
        ("legacy", "nfs", "pause_max_ms") => {
            "not reproduced: the source's server and network are not on record"
        }
        ("legacy", "usb-beside-disk", "disk_share") => {
            "not reproduced: the stick's part of the limit is its own, and the disk's writer does \
             not wait for it"
        }
        _ => return None,
    })
}

/// The bound of a figure. The old scheme has to be as bad as the source's where ours is compared
/// with it.
pub fn bound(row: &str, variant: &str, figure: &str) -> Option<Bound> {
    if variant != "rate" {
        return match (row, figure) {
            ("rsync", "empty_s") => Some(Bound::AtLeast(Milli(10_000))),
            ("rsync", "pause_max_ms") => Some(Bound::AtLeast(Milli(1_000_000))),
            _ => None,
        };
    }
    let bound = match (row, figure) {
        ("rsync", "ratio_to_legacy") => Bound::AtLeast(Milli(1_600)),
        ("rsync", "empty_s") => Bound::AtMost(Milli(0)),
        ("rsync", "pause_p99_ms") => Bound::AtMost(Milli(50_000)),
        ("writers-10", "pause_p99_ms") => Bound::AtMost(Milli(10_000)),
        ("writers-10", "jain_5s_min") => Bound::AtLeast(Milli(999)),
        ("writers-10", "spread_60s") => Bound::AtMost(Milli(10)),
        ("writers-10", "cov_1s") => Bound::AtMost(Milli(50)),
        ("writers-1000" | "writers-10000", "pause_max_ms") => Bound::AtMost(Milli(200_000)),
        ("writers-1000" | "writers-10000", "starved") => Bound::AtMost(Milli(0)),
        ("write-cost", _) => Bound::Within(Milli(1_000), Milli(200)),
        ("pause-5ms", "pause_p99_ms") => Bound::AtMost(Milli(5_000)),
        ("ramp", "ramp_s") => Bound::AtMost(Milli(1_000)),
        ("jbod" | "disks-10", "busy_min") => Bound::AtLeast(Milli(970)),
        ("nfs", "pause_max_ms") => Bound::AtMost(Milli(80_000)),
        ("usb-beside-disk", "disk_share") => Bound::AtLeast(Milli(950)),
        ("usb-beside-disk", "key_settle_s") => Bound::AtMost(Milli(10_000)),
        ("usb-beside-disk", "over_limit_bytes") => Bound::AtMost(Milli(0)),
        ("low-ratio", "busy") => Bound::AtLeast(Milli(970)),
        ("low-ratio", "fluctuation_s") => Bound::AtMost(Milli(1_000)),
        ("writers-count", _) => Bound::AtMost(Milli(1_000)),
        ("rewrite", "count_factor") => Bound::Within(Milli(1_000), Milli(10)),
        ("group-cap", "cap_error_max") => Bound::AtMost(Milli(10)),
        ("group-cap", "rest_taken") => Bound::AtLeast(Milli(970)),
        ("group-weights", "share_error") => Bound::AtMost(Milli(20)),
        ("reader-frames", "hit_rate_ratio") => Bound::AtLeast(Milli(950)),
        _ => return None,
    };
    Some(bound)
}

/// The whole table: one entry per figure that there is.
pub fn pace(seed: u64) -> Vec<TableRow> {
    // The longest first, so that no processor is idle at the end.
    let mut jobs: Vec<(&'static str, usize)> =
        ROWS.iter().flat_map(|row| [(*row, 0), (*row, 1)]).collect();
    jobs.sort_by_key(|(row, _)| Reverse(setups::effort(row)));
    let outcomes = parallel::map(&jobs, |(row, variant)| setups::outcome(row, *variant, seed));
    let of = |row: &str, variant: usize, figure: &str| -> Option<Milli> {
        let place = jobs.iter().position(|job| *job == (row, variant))?;
        outcomes[place].iter().find(|(name, _)| *name == figure).map(|(_, value)| *value)
    };
    let mut rows = Vec::new();
    for row in ROWS {
        for (variant, (name, ..)) in VARIANTS.iter().enumerate() {
            for (figure, unit) in figures(row) {
                let value = match *figure {
                    "ratio_to_legacy" if variant == 0 => None,
                    "ratio_to_legacy" => {
                        let rate = of(row, 1, "bytes_s").unwrap_or_default();
                        rate.over(of(row, 0, "bytes_s").unwrap_or_default())
                    }
                    _ => of(row, variant, figure),
                };
                rows.extend(value.map(|value| entry(row, name, (figure, unit), value)));
            }
        }
    }
    rows
}

fn entry(
    row: &'static str,
    variant: &'static str,
    (figure, unit): (&'static str, &'static str),
    value: Milli,
) -> TableRow {
    let bound = bound(row, variant, figure);
    TableRow {
        table: TABLE,
        row,
        variant,
        figure,
        unit,
        source: source(row, variant, figure),
        value,
        bound: bound.map(Bound::text),
        holds: bound.map(|bound| bound.holds(value, value)),
    }
}
