//! Trade-off curves: slots per group, and what a slice and a wait buy under `rr`.

use super::FurtherOutcome;
use crate::tables::geom::{self, slices};
use crate::tables::slots::VARIANTS;
use crate::tables::slots::caps::{CAPS, CapPoint, of_variants};
use iopace_core::time::Nanos;

/// Slices of the curve, at the default wait; and the variants that they are.
pub const SLICES: [(&str, u64); 5] = [
    ("slice 10 ms", 10),
    ("slice 25 ms", 25),
    ("slice 50 ms", 50),
    ("slice 100 ms", 100),
    ("slice 250 ms", 250),
];

/// Waits of the curve, at the default slice.
pub const WAITS: [(&str, u64); 5] =
    [("wait 1 ms", 1), ("wait 2 ms", 2), ("wait 5 ms", 5), ("wait 10 ms", 10), ("wait 30 ms", 30)];

/// Defaults of `rr`: slice and wait.
const DEFAULTS: (u64, u64) = (100, 10);

/// The rows of the curve, in the order of [`slices::MIXES`].
pub const TRADES: [&str; 2] = ["trade-off dd-read+cvs", "trade-off dd-write+cvs"];

/// Length of a run of the curve: a third of the published one.
const DURATION: Nanos = Nanos::from_secs(20);

/// The rows of slots per group, in the order of [`CAPS`].
pub const LIMITS: [&str; 9] = [
    "slots 4",
    "slots 8",
    "slots 16",
    "slots 25",
    "slots 32",
    "slots 64",
    "slots 100",
    "slots 250",
    "slots 500",
];

/// All slots per group: row, variant, figures.
pub fn limits(seed: u64) -> Vec<(&'static str, &'static str, FurtherOutcome)> {
    // The program and the slots of 2009, and ours.
    let points = of_variants(seed, &[VARIANTS[0], VARIANTS[3]]);
    let of = |row: usize| {
        let of_cap = points.iter().filter(move |point| point.cap == CAPS[row]);
        of_cap.map(move |point| (LIMITS[row], point.variant, figures(point)))
    };
    (0..LIMITS.len()).flat_map(of).collect()
}

fn figures(point: &CapPoint) -> FurtherOutcome {
    let rise = point.outcome.g2_rise_ms.map(|rise| ("g2_rise_ms", rise));
    let rest = [("g2_share", point.outcome.g2_share), ("total_vs_fifo", point.total_vs_fifo)];
    rise.into_iter().chain(rest).collect()
}

/// The trade-off curve: row, variant, figures.
pub fn trades(seed: u64) -> Vec<(&'static str, &'static str, FurtherOutcome)> {
    let slices = SLICES.map(|(name, slice)| (name, slice, DEFAULTS.1));
    let waits = WAITS.map(|(name, wait)| (name, DEFAULTS.0, wait));
    let pairs: Vec<_> = slices.into_iter().chain(waits).collect();
    let plain: Vec<(u64, u64)> = pairs.iter().map(|(_, slice, wait)| (*slice, *wait)).collect();
    let points = slices::pairs(&plain, seed, DURATION);
    let names = TRADES.iter().flat_map(|row| pairs.iter().map(|(name, ..)| (*row, *name)));
    let outcome = |outcome: &geom::GeomOutcome| -> FurtherOutcome {
        let wanted = ["dd_share", "cvs_share", "efficiency", "cvs_p99_ms"];
        wanted.into_iter().filter_map(|name| Some((name, outcome.figure(name)?))).collect()
    };
    names.zip(&points).map(|((row, name), point)| (row, name, outcome(&point.outcome))).collect()
}
