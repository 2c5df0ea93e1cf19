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
        Figure::Efficiency => report.efficiency,
        Figure::DiskBusy => Some(report.disk_use.busy),
        Figure::Unfinished => whole(report.unfinished),
        Figure::Exchanged => whole(report.exchanged),
        Figure::FailedOver => whole(report.failed_over),
    }
}

pub(crate) fn check_all(scenario: &Scenario, report: &mut RunReport) {
    let checks = scenario.checks.iter();
    report.checks = checks.map(|check| check_one(check, report)).collect();
}

fn check_one(check: &Check, report: &RunReport) -> CheckReport {
    let value = value(report, check.figure, check.task.as_deref());
    let holds = value.is_some_and(|value| {
        check.at_least.is_none_or(|bound| value >= bound)
            && check.at_most.is_none_or(|bound| value <= bound)
    });
    CheckReport {
        figure: check.figure.name(),
        task: check.task.clone(),
        value,
        at_least: check.at_least,
        at_most: check.at_most,
        holds,
    }
}
