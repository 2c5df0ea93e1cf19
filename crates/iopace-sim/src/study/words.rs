//! What came out, in sentences.

use super::family::family;
use super::idle::warnings;
use super::interval::are_apart;
use super::print::interval;
use super::replay;
use super::summary::{Summary, TaskRow};
use crate::milli::Milli;
use std::collections::BTreeSet;

/// Most sentences about tasks.
const SENTENCES_MAX: usize = 6;

/// Shares nearer to each other than this are the same to a user: a twentieth.
const ALIKE: i64 = 50;

/// The findings: one sentence each, the largest difference first.
pub(super) fn findings(all: &[Summary]) -> Vec<String> {
    let Some(first) = all.first() else { return Vec::new() };
    if first.whole.replay.is_some() {
        return replay::findings(all);
    }
    let mut families = BTreeSet::new();
    let mut found: Vec<(i64, String)> = first
        .tasks
        .iter()
        .filter(|row| families.insert(family(&row.task)))
        .map(|row| match all.len() {
            1 => (0, alone(row)),
            _ => beside(all, &row.task),
        })
        .collect();
    found.sort_by_key(|(difference, _)| -difference);
    let mut sentences: Vec<String> = found.into_iter().map(|(_, sentence)| sentence).collect();
    sentences.truncate(SENTENCES_MAX);
    sentences.extend(warnings(all).into_iter().map(|warning| format!("Warning: {warning}.")));
    sentences.extend(efficiency(all));
    if all.len() <= SENTENCES_MAX {
        sentences.extend(all.iter().filter_map(checks));
    } else if all.iter().any(|summary| summary.whole.checks > 0) {
        let good = all.iter().filter(|one| one.whole.checks_held == one.whole.checks).count();
        sentences.push(format!("All checks hold in {good} of {} variants.", all.len()));
    }
    sentences
}

/// The finding about the only run.
fn alone(row: &TaskRow) -> String {
    let of = |half: Option<Milli>| interval(half, 2);
    let ci95 = row.ci95.as_ref();
    let share = row.share.map_or(String::new(), |share| {
        let half = of(ci95.and_then(|ci95| ci95.share));
        format!(", {share:.2}{half} of what it gets alone")
    });
    format!(
        "{} gets {:.2}{} MB/s{share}; half of its requests take {:.2}{} ms or less, 99 % {:.2}{} \
         ms or less.",
        row.task,
        row.mb_s,
        of(ci95.map(|ci95| ci95.mb_s)),
        row.p50_ms,
        of(ci95.map(|ci95| ci95.p50_ms)),
        row.p99_ms,
        of(ci95.map(|ci95| ci95.p99_ms)),
    )
}

/// A figure of a variant with half the width of its interval.
type Known<'a> = (&'a Summary, (Milli, Option<Milli>));

/// The finding about a task in several variants, with the size of the difference.
fn beside(all: &[Summary], task: &str) -> (i64, String) {
    let rows = all.iter().filter_map(|summary| Some((summary, summary.task(task)?)));
    let of_share =
        |row: &TaskRow| Some((row.share?, row.ci95.as_ref().and_then(|ci95| ci95.share)));
    let of_rate = |row: &TaskRow| (row.mb_s, row.ci95.as_ref().map(|ci95| ci95.mb_s));
    let shares: Option<Vec<Known<'_>>> =
        rows.clone().map(|(summary, row)| Some((summary, of_share(row)?))).collect();
    let is_share = shares.is_some();
    let values = shares.unwrap_or_else(|| rows.map(|(s, row)| (s, of_rate(row))).collect());
    let best = values.iter().max_by_key(|(_, value)| value.0).expect("there are several");
    let worst = values.iter().min_by_key(|(_, value)| value.0).expect("there are several");
    let text = |(value, half): (Milli, Option<Milli>)| format!("{value:.2}{}", interval(half, 2));
    let (least, most) = (text(worst.1), text(best.1));
    let (high, low) = (&best.0.variant, &worst.0.variant);
    let difference = worst.1.0.over(best.1.0).map_or(0, |ratio| 1_000 - ratio.0);
    let unit = if is_share { "of what it gets alone" } else { "MB/s" };
    if difference <= ALIKE {
        let text = format!("{task}: {least} to {most} {unit}, whichever it is.");
        return (difference, text);
    }
    if !are_apart(best.1, worst.1) {
        let text = format!(
            "{task}: {least} to {most} {unit}; these seeds do not tell the variants apart."
        );
        return (0, text);
    }
    let sentence = match is_share {
        true => format!("{high} keeps {task} at {most} {unit}; {low} at {least}."),
        false => format!("{task} gets {most} {unit} under {high}; {least} under {low}."),
    };
    (difference, sentence)
}

/// What all get together.
fn efficiency(all: &[Summary]) -> Option<String> {
    let mut sums: Vec<Known<'_>> = Vec::new();
    for summary in all {
        let half = summary.whole.ci95.as_ref().and_then(|ci95| ci95.efficiency);
        sums.push((summary, (summary.whole.efficiency?, half)));
    }
    let (best, most) = sums.iter().max_by_key(|(_, sum)| sum.0)?;
    let (worst, least) = sums.iter().min_by_key(|(_, sum)| sum.0)?;
    let text = |(value, half): (Milli, Option<Milli>)| format!("{value:.2}{}", interval(half, 2));
    Some(match all.len() {
        1 => format!("The shares of all tasks sum to {}.", text(*most)),
        _ => format!(
            "The shares of all tasks sum to {} with {}, to {} with {}.",
            text(*most),
            best.variant,
            text(*least),
            worst.variant
        ),
    })
}

/// What of the scenario's checks does not hold.
fn checks(summary: &Summary) -> Option<String> {
    let (held, all) = (summary.whole.checks_held, summary.whole.checks);
    if all == 0 {
        return None;
    }
    Some(match all - held {
        0 => format!("{}: all {all} checks hold.", summary.variant),
        missed => format!("{}: {missed} of {all} checks do not hold.", summary.variant),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::starters::STARTERS;
    use crate::study::compare::{Choices, variants};
    use crate::study::outcomes;

    #[test]
    fn findings_name_the_best_and_the_worst() {
        let scenario = Scenario::parse("a", STARTERS[0].text).expect("sound");
        let schedulers = vec![None, iopace_core::sched::find("fair")];
        let choices = Choices { schedulers, ..Choices::default() };
        let all = outcomes(&variants(&scenario, &choices), &|_, _| ());
        let all: Vec<Summary> = all.into_iter().map(|outcome| outcome.summary).collect();
        let found = findings(&all);
        assert!(found[0].starts_with("fair keeps service at 0."), "{found:?}");
        assert!(found[0].ends_with("none at 0.00."), "{found:?}");
        assert!(found.contains(&"none: 1 of 1 checks do not hold.".into()), "{found:?}");
        assert!(findings(&all[..1])[0].starts_with("service gets 0.00 MB/s"), "{found:?}");
    }
}
