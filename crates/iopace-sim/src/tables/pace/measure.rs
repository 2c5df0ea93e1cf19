//! The arithmetic of the table: from timelines, looks and pauses to figures.

use crate::milli::Milli;
use crate::report::{RunReport, TaskReport};
use crate::tally::{BIN, ms};
use iopace_core::stats::Histogram;
use iopace_core::time::Nanos;

/// `part / whole` in thousandths, rounded down.
pub fn down(part: u128, whole: u128) -> Milli {
    Milli(i64::try_from(part * 1_000 / whole.max(1)).unwrap_or(i64::MAX))
}

/// `part / whole` in thousandths, rounded up.
pub fn up(part: u128, whole: u128) -> Milli {
    Milli(i64::try_from((part * 1_000).div_ceil(whole.max(1))).unwrap_or(i64::MAX))
}

/// The 99th percentile of pauses.
pub fn p99_ms(pauses: &Histogram) -> Milli {
    ms(pauses.quantile(990))
}

/// The longest of pauses.
pub fn max_ms(pauses: &Histogram) -> Milli {
    ms(pauses.max())
}

/// What a task has finished by the end of each [`BIN`], from nothing.
fn sums(task: &TaskReport, end: Nanos) -> Vec<u64> {
    let bins = place(end);
    let mut sums = Vec::with_capacity(bins + 1);
    let mut sum = 0;
    sums.push(sum);
    for bin in 0..bins {
        sum += task.timeline.get(bin).copied().unwrap_or(0);
        sums.push(sum);
    }
    sums
}

fn place(at: Nanos) -> usize {
    (at.0 / BIN.0) as usize
}

/// What a task has finished from one instant to another.
pub fn bytes_of(task: &TaskReport, from: Nanos, to: Nanos) -> u64 {
    let sums = sums(task, to);
    sums[place(to)] - sums[place(from)]
}

/// Jain's index of the tasks' bytes in the least fair window of that length, sliding by [`BIN`].
pub fn jain_min(tasks: &[&TaskReport], from: Nanos, to: Nanos, window: Nanos) -> Milli {
    let all: Vec<Vec<u64>> = tasks.iter().map(|task| sums(task, to)).collect();
    let starts = place(from)..=place(to) - place(window);
    let index = |start: usize| {
        let got = all.iter().map(|sums| u128::from(sums[start + place(window)] - sums[start]));
        let (sum, squares) = got.fold((0, 0), |(sum, squares), n| (sum + n, squares + n * n));
        down(sum * sum, squares * tasks.len() as u128)
    };
    starts.map(index).min().unwrap_or_default()
}

/// Largest less smallest of the tasks' bytes, over their mean.
pub fn spread(tasks: &[&TaskReport], from: Nanos, to: Nanos) -> Milli {
    let got: Vec<u128> = tasks.iter().map(|task| u128::from(bytes_of(task, from, to))).collect();
    let (most, least) = (got.iter().max().unwrap_or(&0), got.iter().min().unwrap_or(&0));
    up((most - least) * got.len() as u128, got.iter().sum())
}

/// Coefficient of variation of a task's bytes in windows of that length, one after the other; of
/// the least steady task.
pub fn cov_max(tasks: &[&TaskReport], from: Nanos, to: Nanos, window: Nanos) -> Milli {
    let cov = |task: &&TaskReport| {
        let sums = sums(task, to);
        let ends = (place(from)..=place(to)).step_by(place(window));
        let marks: Vec<u64> = ends.map(|end| sums[end]).collect();
        let got = marks.windows(2).map(|two| u128::from(two[1] - two[0]));
        let (sum, squares) = got.fold((0, 0), |(sum, squares), n| (sum + n, squares + n * n));
        let count = marks.len() as u128 - 1;
        // The deviation times the number of windows, times 1000.
        let deviation = ((squares * count - sum * sum) * 1_000_000).isqrt();
        Milli(i64::try_from(deviation.div_ceil(sum.max(1))).unwrap_or(i64::MAX))
    };
    tasks.iter().map(cov).max().unwrap_or_default()
}

/// Seconds in which a task has finished less than `least`, out of so many.
pub fn empty_seconds(task: &TaskReport, from: Nanos, to: Nanos, least: u64, of: u64) -> Milli {
    let (sums, second) = (sums(task, to), place(Nanos::from_secs(1)));
    let marks: Vec<u64> = (place(from)..=place(to)).step_by(second).map(|at| sums[at]).collect();
    let empty = marks.windows(2).filter(|two| two[1] - two[0] < least).count();
    down(empty as u128 * u128::from(of), marks.len() as u128 - 1)
}

/// How many tasks have finished less than half of what all have on average.
pub fn starved(tasks: &[&TaskReport], from: Nanos, to: Nanos) -> Milli {
    let got: Vec<u64> = tasks.iter().map(|task| bytes_of(task, from, to)).collect();
    let all: u128 = got.iter().copied().map(u128::from).sum();
    let is_starved = |n: &&u64| u128::from(**n) * 2 * (got.len() as u128) < all;
    Milli(got.iter().filter(is_starved).count() as i64 * 1_000)
}

/// The largest error of a limit in bytes per second, in either direction, over all windows of one
/// second sliding by [`BIN`].
pub fn cap_error(tasks: &[&TaskReport], from: Nanos, to: Nanos, limit: u64) -> Milli {
    let all: Vec<Vec<u64>> = tasks.iter().map(|task| sums(task, to)).collect();
    let second = place(Nanos::from_secs(1));
    let error = |start: usize| {
        let got: u64 = all.iter().map(|sums| sums[start + second] - sums[start]).sum();
        up(u128::from(got.abs_diff(limit)), u128::from(limit))
    };
    (place(from)..=place(to) - second).map(error).max().unwrap_or_default()
}

/// The tasks whose names begin like that.
pub fn of<'a>(report: &'a RunReport, name: &str) -> Vec<&'a TaskReport> {
    let tasks = report.tasks.iter().filter(|(task, _)| task.starts_with(name));
    tasks.map(|(_, task)| task).collect()
}

/// The smallest and the largest of numbers.
pub fn range(numbers: impl Iterator<Item = u64>) -> (u64, u64) {
    numbers.fold((u64::MAX, 0), |(least, most), n| (least.min(n), most.max(n)))
}

/// A time in seconds, rounded up.
pub fn seconds(time: Nanos) -> Milli {
    up(u128::from(time.0), 1_000_000_000)
}

/// The measured time of a run, in seconds.
pub fn measured(report: &RunReport) -> u64 {
    report.measured_ms.0.unsigned_abs() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{LatencyReport, StageReport};

    const SECOND: Nanos = Nanos::from_secs(1);

    fn task(timeline: Vec<u64>) -> TaskReport {
        TaskReport {
            kind: "dd-write",
            timeline,
            ops: 0,
            bytes: 0,
            failed: 0,
            cached: 0,
            mb_s: Milli(0),
            ops_s: Milli(0),
            latency: LatencyReport::default(),
            commits: None,
            stages: StageReport::default(),
            share: None,
        }
    }

    /// So many bytes in every bin of each second.
    fn seconds(rates: &[u64]) -> TaskReport {
        task(rates.iter().flat_map(|rate| vec![*rate; 100]).collect())
    }

    #[test]
    fn figures_are_rounded_against_themselves() {
        assert_eq!((down(9_989, 10_000), up(9_981, 10_000)), (Milli(998), Milli(999)));
        assert_eq!((down(0, 0), up(0, 0)), (Milli(0), Milli(0)));
    }

    #[test]
    fn the_least_fair_window_counts() {
        let (even, gap) = (seconds(&[10; 4]), seconds(&[10, 0, 20, 10]));
        let end = Nanos::from_secs(4);
        assert_eq!(jain_min(&[&even, &even], Nanos::ZERO, end, SECOND), Milli(1_000));
        assert_eq!(jain_min(&[&even, &gap], Nanos::ZERO, end, SECOND), Milli(500));
        assert_eq!(jain_min(&[&even, &gap], Nanos::ZERO, end, end), Milli(1_000));
        assert_eq!(jain_min(&[&even, &gap], Nanos::from_secs(3), end, SECOND), Milli(1_000));
    }

    #[test]
    fn empty_seconds_are_counted_out_of_so_many() {
        let some = seconds(&[10, 0, 0, 10]);
        let end = Nanos::from_secs(4);
        assert_eq!(empty_seconds(&some, Nanos::ZERO, end, 1_000, 23), Milli(11_500));
        assert_eq!(empty_seconds(&some, Nanos::ZERO, end, 1_001, 4), Milli(4_000));
        assert_eq!(empty_seconds(&some, SECOND, Nanos::from_secs(3), 1, 2), Milli(2_000));
    }

    #[test]
    fn spread_and_steadiness_are_of_the_worst_task() {
        let (even, more, gap) = (seconds(&[10; 4]), seconds(&[11; 4]), seconds(&[10, 0, 20, 10]));
        let end = Nanos::from_secs(4);
        assert_eq!(spread(&[&even, &gap], Nanos::ZERO, end), Milli(0));
        assert_eq!(spread(&[&even, &more], Nanos::ZERO, end), Milli(96));
        assert_eq!(cov_max(&[&even, &more], Nanos::ZERO, end, SECOND), Milli(0));
        // 1000, 0, 2000, 1000: a mean of 1000 and a deviation of 707.
        assert_eq!(cov_max(&[&even, &gap], Nanos::ZERO, end, SECOND), Milli(708));
    }

    #[test]
    fn who_has_less_than_half_of_the_mean_starves() {
        let tasks = [seconds(&[10]), seconds(&[10]), seconds(&[4]), task(Vec::new())];
        let tasks: Vec<&TaskReport> = tasks.iter().collect();
        assert_eq!(starved(&tasks, Nanos::ZERO, SECOND), Milli(1_000));
        assert_eq!(starved(&tasks[..2], Nanos::ZERO, SECOND), Milli(0));
    }

    #[test]
    fn a_limit_is_missed_from_both_sides() {
        let end = Nanos::from_secs(3);
        let error = |rates: &[u64]| cap_error(&[&seconds(rates)], Nanos::ZERO, end, 10_000);
        assert_eq!(error(&[100, 100, 100]), Milli(0));
        assert_eq!(error(&[100, 101, 100]), Milli(10));
        assert_eq!(error(&[100, 95, 100]), Milli(50));
        let two = [seconds(&[40; 3]), seconds(&[60; 3])];
        assert_eq!(cap_error(&[&two[0], &two[1]], Nanos::ZERO, end, 10_000), Milli(0));
    }
}
