//! A program that is to be done in time beside others, in a thousand nights: `iopace nice --by`.
//!
//! # Model
//! The nights are those of [`crate::night`]. *in_time* is the part of the nights that could be met
//! at all (the program with all weight from the start is in time) in which it was in time.
//! *others_p99* is the p99 of the others over that of the same ticks without the program, until it
//! is done, of all nights together; *others_p99_slack* the same of the ticks with class idle: while
//! there was slack. *eta* is the part of the forecasts of the last half of a run that are within a
//! tenth of its length.
//!
//! Rows beside `nice`: everybody equal (`none`), and class idle all night (`idle`), which is what
//! the kernel's means give at best.

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::night::{Rule, Spent, spend};
use crate::parallel;
use iopace_core::stats::Histogram;

/// The name of the table.
pub const TABLE: &str = "nights";

/// Nights of the table.
pub const NIGHTS: u64 = 1_000;

/// The rows, with their rules; the last one says what could be met.
const RULES: [(&str, Rule); 5] = [
    ("none", Rule::None),
    ("idle", Rule::Idle),
    ("nice --by", Rule::By),
    ("nice --by --keep-p99", Rule::ByAndP99),
    ("all", Rule::All),
];

/// The figures: name and unit.
const FIGURES: [(&str, &str); 5] = [
    ("in_time", "of those that could be"),
    ("done", "of the time until the deadline"),
    ("others_p99", "of alone"),
    ("others_p99_slack", "of alone"),
    ("eta", "within 10 %"),
];

/// The bound of a figure, if it has one.
fn bound(variant: &str, figure: &str) -> Option<Bound> {
    let bound = match figure {
        "in_time" => Bound::AtLeast(Milli(990)),
        "others_p99_slack" => Bound::AtMost(Milli(1_200)),
        "eta" => Bound::AtLeast(Milli(900)),
        _ => return None,
    };
    variant.starts_with("nice").then_some(bound)
}

/// The table of so many nights, from this seed on.
pub fn nights(seed: u64, count: u64) -> Vec<TableRow> {
    let seeds: Vec<u64> = (0..count).map(|night| seed.wrapping_mul(1_000_003) + night).collect();
    let spent = parallel::map(&seeds, |seed| spend(*seed, &RULES.map(|(_, rule)| rule)));
    let could: Vec<&Vec<Spent>> =
        spent.iter().filter(|night| night.iter().any(Spent::is_in_time)).collect();
    let mut rows = Vec::new();
    for (place, (variant, _)) in RULES.into_iter().enumerate() {
        let nights: Vec<&Spent> = could.iter().map(|night| &night[place]).collect();
        for ((figure, unit), value) in FIGURES.into_iter().zip(figures(&nights)) {
            let Some(value) = value else { continue };
            let bound = bound(variant, figure);
            let holds = bound.map(|bound| bound.holds(value, value));
            let (row, source, bound) = ("a program beside users", None, bound.map(Bound::text));
            let table = TABLE;
            rows.push(TableRow { table, row, variant, figure, unit, source, value, bound, holds });
        }
    }
    rows
}

/// In the order of [`FIGURES`]; what there was nothing of is left out.
fn figures(nights: &[&Spent]) -> [Option<Milli>; 5] {
    let in_time = nights.iter().filter(|night| night.is_in_time()).count();
    let done = nights.iter().filter_map(|night| night.done).map(|done| u128::from(done.0));
    let whole = nights.iter().filter(|night| night.done.is_some()).count() as u128;
    let (judged, near) = nights.iter().fold((0, 0), |(judged, near), night| {
        (judged + night.forecasts.0, near + night.forecasts.1)
    });
    let p99 = |of: &dyn Fn(&Spent) -> (&Histogram, &Histogram)| {
        let (mut beside, mut alone) = (Histogram::default(), Histogram::default());
        for night in nights {
            beside.merge(of(night).0);
            alone.merge(of(night).1);
        }
        let [beside, alone] = [beside, alone].map(|of| u128::from(of.quantile(990).0));
        Milli::ratio(beside, alone)
    };
    [
        Milli::ratio(in_time as u128, nights.len() as u128),
        Milli::ratio(done.sum(), whole * u128::from(crate::night::DEADLINE.0)),
        p99(&|night| (&night.others.0, &night.alone.0)),
        p99(&|night| (&night.others.1, &night.alone.1)),
        Milli::ratio(near.into(), judged.into()),
    ]
}
