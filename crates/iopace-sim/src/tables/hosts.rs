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
//! while the burst lasts, as a part of the same with fixed windows. *latency*: at the array,
//! meanwhile.

mod stories;

use super::{Bound, TableRow};
use crate::hosts::{Coordination, HostsOutcome, run};
use crate::milli::Milli;
use crate::parallel;
use iopace_core::time::Nanos;
use stories::{HostsStory, STORIES};

/// The name of the table.
pub const TABLE: &str = "hosts";

/// The variants.
const VARIANTS: [(&str, Coordination); 3] = [
    ("fixed", Coordination::Fixed),
    ("latency", Coordination::Latency),
    ("records", Coordination::Together),
];

/// The figures: name and unit.
const FIGURES: [(&str, &str); 5] = [
    ("begins", "s until within 5 %"),
    ("ends", "s until within 5 %"),
    ("error", "% of due"),
    ("conserved", "of fixed"),
    ("latency", "ms"),
];

/// So many thousandths may be in the wrong hands.
const MISPLACED_MOST: u64 = 50;

/// Shares are right so long after a change.
const SOON: Nanos = Nanos::from_secs(5);

/// The figures of a run, in the order of [`FIGURES`]; none where shares are never right.
fn figures(story: &HostsStory, outcome: &HostsOutcome, fixed: &HostsOutcome) -> [Option<Milli>; 5] {
    let [begins, ends] = &story.phases;
    let settled = |phase: &stories::Phase| {
        let (dues, span) = (&phase.dues, (phase.from, phase.until));
        outcome.settled(dues, span, story.window, MISPLACED_MOST).map(millis)
    };
    let late = begins.from + SOON;
    let error = i64::try_from(outcome.worst(&begins.dues, late, begins.until)).unwrap_or(i64::MAX);
    let [all, before] = [outcome, fixed].map(|of| u128::from(of.total(begins.from, begins.until)));
    [
        settled(begins),
        settled(ends),
        Some(Milli(error.saturating_mul(100))),
        Milli::ratio(all, before),
        Some(millis(Nanos(outcome.latency(begins.from, begins.until).0.saturating_mul(1_000)))),
    ]
}

/// A time in seconds.
fn millis(time: Nanos) -> Milli {
    Milli(i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX))
}

/// The bound of a figure, if it has one: those of the variant that knows all hosts.
fn bound(story: &HostsStory, variant: &str, figure: &str) -> Option<Bound> {
    let (bound, is_bound) = match figure {
        "begins" | "ends" => (Bound::AtMost(Milli(5_000)), story.is_bound.shares),
        "error" => (Bound::AtMost(Milli(5_000)), story.is_bound.shares),
        "conserved" => (Bound::AtLeast(Milli(950)), story.is_bound.sum),
        _ => return None,
    };
    (variant == "records" && is_bound).then_some(bound)
}

/// The whole table.
pub fn hosts(seed: u64) -> Vec<TableRow> {
    rows(seed, |_| true)
}

/// The rows of those names.
pub fn rows(seed: u64, is_wanted: impl Fn(&str) -> bool) -> Vec<TableRow> {
    let stories = STORIES.iter().filter(|(name, _)| is_wanted(name));
    let stories: Vec<HostsStory> = stories.map(|(name, story)| story(name)).collect();
    let mut jobs = Vec::new();
    for story in &stories {
        jobs.extend(VARIANTS.map(|(_, coordination)| crate::hosts::HostsSetup {
            coordination,
            seed,
            ..story.setup.clone()
        }));
    }
    let outcomes = parallel::map(&jobs, run);
    let mut rows = Vec::new();
    for (story, outcomes) in stories.iter().zip(outcomes.chunks(VARIANTS.len())) {
        for ((variant, _), outcome) in VARIANTS.iter().zip(outcomes) {
            rows.extend(story_rows(story, variant, figures(story, outcome, &outcomes[0])));
        }
    }
    rows
}

/// The rows of a story and a variant. Shares that are never right are said to be so at the end.
fn story_rows(
    story: &HostsStory,
    variant: &'static str,
    values: [Option<Milli>; 5],
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
