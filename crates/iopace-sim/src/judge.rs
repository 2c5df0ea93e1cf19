//! A scenario carried out whole: the run, the same tasks alone where shares are asked for, and the
//! checks.

use crate::figure::Figure;
use crate::milli::Milli;
use crate::report::{CheckReport, RunReport};
use crate::run::run;
use crate::scenario::{Check, Scenario};
use crate::{parallel, task::Task};

/// Carries out a scenario and its checks.
pub fn judge(scenario: &Scenario) -> RunReport {
    if !scenario.needs_alone() {
        let mut report = run(scenario);
        check_all(scenario, &mut report);
        return report;
    }
    let mut jobs = vec![scenario.clone()];
    jobs.extend(scenario.tasks.iter().map(|task| scenario.alone(task)));
    let mut reports = parallel::map(&jobs, run);
    let alone = reports.split_off(1);
    let mut report = reports.remove(0);
    let alone = scenario.tasks.iter().zip(&alone);
    set_shares(&mut report, &alone.collect::<Vec<_>>());
    check_all(scenario, &mut report);
    report
}

/// Enters into the report of a mix what each task got of what it gets alone.
pub(crate) fn set_shares(report: &mut RunReport, alone: &[(&Task, &RunReport)]) {
    let mut sum = Some(Milli(0));
    for (task, alone) in alone {
        let Some(mixed) = report.tasks.get_mut(&task.name) else {
            continue;
        };
        // Requests of one task have one size on average, whoever is beside it.
        let share = alone.tasks.get(&task.name).and_then(|alone| mixed.ops_s.over(alone.ops_s));
        mixed.share = share;
        sum = sum.zip(share).map(|(sum, share)| Milli(sum.0 + share.0));
    }
    report.efficiency = sum;
}

/// The value of a figure in a report.
pub fn value(report: &RunReport, figure: Figure, task: Option<&str>) -> Option<Milli> {
    let whole = |n: u64| i64::try_from(n).ok()?.checked_mul(1_000).map(Milli);
    let task = task.and_then(|name| report.tasks.get(name));
    match figure {
        Figure::MbS => task.map(|task| task.mb_s),
        Figure::OpsS => task.map(|task| task.ops_s),
        Figure::MeanMs => task.map(|task| task.latency.mean_ms),
        Figure::P50Ms => task.map(|task| task.latency.p50_ms),
        Figure::P90Ms => task.map(|task| task.latency.p90_ms),
        Figure::P99Ms => task.map(|task| task.latency.p99_ms),
        Figure::MaxMs => task.map(|task| task.latency.max_ms),
        Figure::Ops => task.and_then(|task| whole(task.ops)),
        Figure::Failed => task.and_then(|task| whole(task.failed)),
        Figure::Share => task.and_then(|task| task.share),
        Figure::Part => {
            let all: u64 = report.tasks.values().map(|task| task.ops).sum();
            task.and_then(|task| Milli::ratio(u128::from(task.ops), u128::from(all)))
        }
        Figure::CommitsS => task.and_then(|task| Some(task.commits?.per_s)),
        Figure::CommitP50Ms => task.and_then(|task| Some(task.commits?.latency.p50_ms)),
        Figure::CommitP99Ms => task.and_then(|task| Some(task.commits?.latency.p99_ms)),
        Figure::CommitMaxMs => task.and_then(|task| Some(task.commits?.latency.max_ms)),
        Figure::Efficiency => report.efficiency,
        Figure::Jain => jain(report),
        Figure::PauseP99Ms => report.memory.map(|memory| memory.pause_p99_ms),
        Figure::PauseMaxMs => report.memory.map(|memory| memory.pause_max_ms),
        Figure::DirtyMaxMib => report.memory.map(|memory| memory.dirty_max_mib),
        Figure::OverLimitMib => report.memory.map(|memory| memory.over_limit_mib),
        Figure::DiskBusy => Some(report.disk_use.busy),
        Figure::Unfinished => whole(report.unfinished),
        Figure::Exchanged => whole(report.exchanged),
        Figure::FailedOver => whole(report.failed_over),
    }
}

/// The value of a figure of a group.
pub fn group_value(report: &RunReport, figure: Figure, group: &str) -> Option<Milli> {
    let group = report.groups.get(group)?;
    match figure {
        Figure::MbS => Some(group.mb_s),
        Figure::Part => group.part,
        _ => None,
    }
}

/// Jain's index: the square of the sum over n times the sum of squares.
fn jain(report: &RunReport) -> Option<Milli> {
    let all = || report.tasks.values().map(|task| u128::try_from(task.mb_s.0).unwrap_or(0));
    let (sum, squares): (u128, u128) = (all().sum(), all().map(|rate| rate * rate).sum());
    Milli::ratio(sum * sum, squares * all().count() as u128)
}

pub(crate) fn check_all(scenario: &Scenario, report: &mut RunReport) {
    let checks = scenario.checks.iter();
    report.checks = checks.map(|check| check_one(check, report)).collect();
}

fn check_one(check: &Check, report: &RunReport) -> CheckReport {
    let value = match &check.group {
        Some(group) => group_value(report, check.figure, group),
        None => value(report, check.figure, check.task.as_deref()),
    };
    let holds = value.is_some_and(|value| {
        check.at_least.is_none_or(|bound| value >= bound)
            && check.at_most.is_none_or(|bound| value <= bound)
    });
    CheckReport {
        figure: check.figure.name(),
        task: check.task.clone(),
        group: check.group.clone(),
        value,
        at_least: check.at_least,
        at_most: check.at_most,
        holds,
    }
}
