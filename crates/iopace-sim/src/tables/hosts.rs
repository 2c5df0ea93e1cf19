//! Hosts that share a volume: shares by weight, how soon they are right, and what they cost.
//!
//! # Model
//! See [`crate::hosts`]. In most rows each host has a group of its own, of weight 100, 200, 300 or
//! 400, and a program that reads anywhere, 64 requests at a time. Each second host reads in the
//! middle third of the time only: the *burst*. Variants: a fixed window of 256 for each host;
//! windows that follow the latency alone; and windows and weights by the records of all hosts.
//!
//! *begins* and *ends*: how long after the burst begins, or ends, not more than 5 % of all is in
//! the wrong hands in any window from then on. *error*: the largest error of a host or group
//! against its due, from 5 s after the burst begins until it ends. *conserved*: all that is done
//! while the burst lasts, as a part of the same with fixed windows; where another share is another
//! mix of requests, with fixed windows that bring about the same mix (variant *same mix*).
//! *latency*: at the array, meanwhile. *written* and *read*: on the store that has most of it.
//!
//! Rows with a limit have other figures, see `hosts/limits.rs`.

mod limits;
mod stories;

use super::{Bound, TableRow};
use crate::hosts::{Coordination, HostsOutcome, HostsSetup, StoreTraffic, run};
use crate::milli::Milli;
use crate::parallel;
use iopace_core::time::Nanos;
use limits::{LIMITS, LimitStory, limit_rows};
use stories::{HostsStory, STORIES};

/// The name of the table.
pub const TABLE: &str = "hosts";

/// The figures: name and unit.
const FIGURES: [(&str, &str); 7] = [
    ("begins", "s until within 5 %"),
    ("ends", "s until within 5 %"),
    ("error", "% of due"),
    ("conserved", "of fixed"),
    ("latency", "ms"),
    ("written", "kB/s"),
    ("read", "kB/s"),
];

/// The variant that the others are compared with, and that which the bounds are for.
const FIXED: &str = "fixed";
const RECORDS: &str = "records";

/// The variants of a story.
fn variants(story: &HostsStory, seed: u64) -> Vec<(&'static str, HostsSetup)> {
    let setup = |coordination| HostsSetup { coordination, seed, ..story.setup.clone() };
    let mut variants = vec![(FIXED, setup(Coordination::Fixed))];
    if let Some(programs) = &story.same_mix {
        let programs = programs.clone();
        variants.push(("same mix", HostsSetup { programs, ..setup(Coordination::Fixed) }));
    }
    if story.setup.cell_size.is_none() {
        variants.push(("latency", setup(Coordination::Latency)));
    }
    variants.push((RECORDS, setup(Coordination::Together)));
    variants
}

/// So many thousandths may be in the wrong hands.
const MISPLACED_MOST: u64 = 50;

/// Shares are right so long after a change.
const SOON: Nanos = Nanos::from_secs(5);

/// The figures of a run, in the order of [`FIGURES`]; none where shares are never right.
fn figures(story: &HostsStory, outcome: &HostsOutcome, base: &HostsOutcome) -> [Option<Milli>; 7] {
    let [begins, ends] = &story.phases;
    let settled = |phase: &stories::Phase| {
        let (dues, span) = (&phase.dues, (phase.from, phase.until));
        outcome.settled(dues, span, story.window, MISPLACED_MOST).map(millis)
    };
    let late = begins.from + SOON;
    let error = i64::try_from(outcome.worst(&begins.dues, late, begins.until)).unwrap_or(i64::MAX);
    let [all, before] = [outcome, base].map(|of| u128::from(of.total(begins.from, begins.until)));
    let most = |of: fn(&StoreTraffic) -> u64| {
        let most = outcome.traffic().iter().map(of).max().unwrap_or_default();
        Milli::ratio(u128::from(most) * 1_000_000, u128::from(story.setup.length.0))
    };
    [
        settled(begins),
        settled(ends),
        Some(Milli(error.saturating_mul(100))),
        Milli::ratio(all, before),
        Some(millis(Nanos(outcome.latency(begins.from, begins.until).0.saturating_mul(1_000)))),
        most(|traffic| traffic.written_bytes),
        most(|traffic| traffic.read_bytes),
    ]
}

/// A time in seconds.
fn millis(time: Nanos) -> Milli {
    Milli(i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX))
}

/// The bound of a figure, if it has one: those of the variant that knows all hosts.
fn bound(story: &HostsStory, variant: &str, figure: &str) -> Option<Bound> {
    let (bound, is_bound) = match figure {
        "begins" | "ends" => (Bound::AtMost(Milli(5_000)), story.has_dues),
        "error" => (Bound::AtMost(Milli(5_000)), story.has_dues),
        "conserved" => (Bound::AtLeast(Milli(950)), true),
        _ => return None,
    };
    (variant == RECORDS && is_bound).then_some(bound)
}

/// The whole table.
pub fn hosts(seed: u64) -> Vec<TableRow> {
    rows(seed, |_| true)
}

/// The rows of those names.
pub fn rows(seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<TableRow> {
    let stories = STORIES.iter().filter(|(name, _)| is_wanted(name));
    let stories: Vec<HostsStory> = stories.map(|(name, story)| story(name)).collect();
    let jobs = stories.iter().flat_map(|story| variants(story, seed));
    let jobs: Vec<(&str, HostsSetup)> = jobs.collect();
    let mut outcomes = parallel::map(&jobs, |(_, setup)| run(setup)).into_iter();
    let mut rows = Vec::new();
    for story in &stories {
        let of_story = variants(story, seed).into_iter().map(|(name, _)| name).zip(&mut outcomes);
        let of_story: Vec<(&str, HostsOutcome)> = of_story.collect();
        for (variant, outcome) in &of_story {
            // The fixed windows come first, and then those that bring about the same mix.
            let is_compared = *variant == RECORDS && story.same_mix.is_some();
            let (_, base) = &of_story[usize::from(is_compared)];
            rows.extend(story_rows(story, variant, figures(story, outcome, base)));
        }
    }
    rows.extend(rows_of_limits(seed, is_wanted));
    rows
}

/// The rows with a limit.
fn rows_of_limits(seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<TableRow> {
    let stories = LIMITS.iter().filter(|(name, _)| is_wanted(name));
    let mut stories: Vec<LimitStory> = stories.map(|(name, story)| story(name)).collect();
    stories.iter_mut().for_each(|story| story.setup.seed = seed);
    let outcomes = parallel::map(&stories, |story| run(&story.setup));
    let rows = stories.iter().zip(&outcomes);
    rows.flat_map(|(story, outcome)| limit_rows(story, outcome)).collect()
}

/// The rows of a story and a variant. Shares that are never right are said to be so at the end.
fn story_rows(
    story: &HostsStory,
    variant: &'static str,
    values: [Option<Milli>; 7],
) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for ((figure, unit), value) in FIGURES.into_iter().zip(values) {
        let phase = &story.phases[usize::from(figure == "ends")];
        let value = value.unwrap_or(millis(phase.until.saturating_sub(phase.from)));
        let bound = bound(story, variant, figure);
        let holds = bound.map(|bound| bound.holds(value, value));
        let (table, row, source) = (TABLE, story.name, None);
        let bound = bound.map(Bound::text);
        rows.push(TableRow { table, row, variant, figure, unit, source, value, bound, holds });
    }
    rows
}
