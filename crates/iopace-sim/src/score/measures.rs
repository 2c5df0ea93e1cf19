//! From reports to scores.
//!
//! | measure | of which mixes | formula |
//! |---|---|---|
//! | isolation | those with the reader | min(1, rate / rate alone) |
//! | latency | the same | min(1, mean latency alone / mean latency) |
//! | conservation | lone, lone-idle | min(1, rate / rate without groups and scheduler) |
//! | efficiency | those with the reader | min(1, share of the reader + share of the others) |
//! | fairness | equal, weights, sizes | Jain's index of (byte rate / weight) |
//! | rise | newcomer | min(1, 100 ms / rise) |
//!
//! - *isolation* and *latency* are resctl-bench's, where latency impact is (latency - baseline) /
//!   baseline: an impact of 25 % is a score of 80 here, so that more is better in every column; the
//!   impact is among the figures. resctl-bench takes both every second; here the whole run is one
//!   interval, as it lasts some seconds.
//! - *conservation* is its work conservation: what the device still does while control is on. It
//!   measures that beside a load that is being protected; here nobody is there to be protected, so
//!   that what is lost is lost for nothing. What protection costs is in *efficiency*.
//! - *efficiency* is that of geom_sched's README: rates in the mix over rates alone, summed. On
//!   disks without a head it may reach more than 1, as nobody alone needs the whole disk; that
//!   counts as 1.
//! - *fairness* is isol-bench's (R. Jain et al., DEC-TR-301, 1984): (sum x)^2 / (n sum x^2). With
//!   two tasks of which one gets nothing it is 50, with four 25.
//! - *rise* is the time after its start in which the newcomer has 80 % of its later rate. 100 ms
//!   is what a person takes for at once (R. Miller, 1968); one that never has it scores 0.

use super::mixes::{BASES, Baseline, MIXES, READER, ScoreMix};
use super::{Bench, Policy, Raw, Score};
use crate::milli::Milli;
use crate::report::RunReport;
use crate::tally::{BIN, ms};
use iopace_core::time::Nanos;

/// A rise within this time is at once.
const AT_ONCE: Nanos = Nanos::from_millis(100);

/// All of a part, in thousandths of a per cent.
const ALL: u64 = 100_000;

/// The score of one policy on one disk, from the reports of [`BASES`] and [`MIXES`].
pub(super) fn score(
    policy: &Policy,
    bench: &Bench,
    alone: &[RunReport],
    mixed: &[RunReport],
) -> Score {
    let mut sums = Sums { alone, raw: Vec::new(), parts: [const { Vec::new() }; 6] };
    for (mix, report) in MIXES.iter().zip(mixed) {
        match mix {
            ScoreMix::Lone | ScoreMix::LoneIdle => sums.conserved(*mix, report),
            ScoreMix::Equal => sums.fair(*mix, report, &[1, 1, 1, 1]),
            ScoreMix::Weights => sums.fair(*mix, report, &[1, 2, 4]),
            ScoreMix::Sizes => sums.fair(*mix, report, &[1, 1]),
            ScoreMix::Newcomer => sums.risen(*mix, report, bench),
            _ => sums.isolated(*mix, report),
        }
    }
    let [isolation, latency, conservation, efficiency, fairness, rise] = sums.parts.map(mean);
    Score {
        sched: policy.name(),
        window: policy.window.name,
        pace: policy.pace.name,
        disk: bench.disk,
        isolation,
        latency,
        conservation,
        efficiency,
        fairness,
        rise,
        raw: sums.raw,
    }
}

fn mean(parts: Vec<u64>) -> Milli {
    let (sum, count) = (parts.iter().sum::<u64>(), parts.len() as u64);
    Milli(((sum + count / 2) / count.max(1)) as i64)
}

/// `part / whole` in thousandths of a per cent, at most all; all of nothing is nothing.
fn percent(part: u128, whole: u128) -> u64 {
    let part = (part * u128::from(ALL) + whole / 2).checked_div(whole).unwrap_or(0);
    part.min(u128::from(ALL)) as u64
}

/// Jain's index in thousandths of a per cent; nothing for nobody.
fn jain(rates: &[u128]) -> u64 {
    let sum: u128 = rates.iter().sum();
    let squares: u128 = rates.iter().map(|rate| rate * rate).sum();
    percent(sum * sum, squares * rates.len() as u128)
}

/// A figure that is not negative, as a count of thousandths.
fn count(figure: Milli) -> u128 {
    u128::try_from(figure.0).unwrap_or(0)
}

/// The rate of all tasks but the reader, in thousandths of a MB/s.
fn others(report: &RunReport) -> u128 {
    let tasks = report.tasks.iter().filter(|(name, _)| *name != READER);
    tasks.map(|(_, task)| count(task.mb_s)).sum()
}

struct Sums<'a> {
    alone: &'a [RunReport],
    raw: Vec<Raw>,
    /// Of each measure in the order of the table, one for each of its mixes.
    parts: [Vec<u64>; 6],
}

impl Sums<'_> {
    fn base(&self, base: Baseline) -> &RunReport {
        let place = BASES.iter().position(|one| *one == base).expect("a base of the list");
        &self.alone[place]
    }

    fn note(
        &mut self,
        mix: ScoreMix,
        figure: &'static str,
        unit: &'static str,
        value: Option<Milli>,
    ) {
        self.raw.push(Raw { mix: mix.name(), figure, unit, value });
    }

    fn isolated(&mut self, mix: ScoreMix, report: &RunReport) {
        let reader = &self.base(Baseline::Reader).tasks[READER];
        let (rate, latency) = (reader.ops_s, reader.latency.mean_ms);
        let bulk = others(self.base(Baseline::Others(mix)));
        let mixed = &report.tasks[READER];
        let share = percent(count(mixed.ops_s), count(rate));
        let kept = percent(count(latency), count(mixed.latency.mean_ms));
        let others = others(report);
        self.parts[0].push(share);
        self.parts[1].push(kept);
        self.parts[3].push((share + percent(others, bulk)).min(ALL));
        let impact = count(mixed.latency.mean_ms).saturating_sub(count(latency));
        let impact = Milli::ratio(impact * 100, count(latency));
        self.note(mix, "reader_ops_s", "1/s", Some(mixed.ops_s));
        self.note(mix, "reader_alone_ops_s", "1/s", Some(rate));
        self.note(mix, "reader_mean_ms", "ms", Some(mixed.latency.mean_ms));
        self.note(mix, "reader_p99_ms", "ms", Some(mixed.latency.p99_ms));
        self.note(mix, "latency_impact", "%", impact);
        self.note(mix, "others_mb_s", "MB/s", Some(Milli(others as i64)));
        self.note(mix, "others_alone_mb_s", "MB/s", Some(Milli(bulk as i64)));
    }

    fn conserved(&mut self, mix: ScoreMix, report: &RunReport) {
        let (alone, now) = (others(self.base(Baseline::Others(mix))), others(report));
        self.parts[2].push(percent(now, alone));
        self.note(mix, "mb_s", "MB/s", Some(Milli(now as i64)));
        self.note(mix, "plain_mb_s", "MB/s", Some(Milli(alone as i64)));
    }

    fn fair(&mut self, mix: ScoreMix, report: &RunReport, weights: &[u128]) {
        // The names of these tasks ascend with their weights; large comes before small.
        let tasks = report.tasks.values().zip(weights);
        // A common multiple of the weights keeps the digits.
        let rates: Vec<u128> = tasks.map(|(t, weight)| u128::from(t.bytes) * 4 / weight).collect();
        let index = jain(&rates);
        self.parts[4].push(index);
        self.note(mix, "jain", "%", Some(Milli(index as i64)));
        self.note(mix, "all_mb_s", "MB/s", Some(Milli(others(report) as i64)));
    }

    fn risen(&mut self, mix: ScoreMix, report: &RunReport, bench: &Bench) {
        let rise = rise(&report.tasks["second"].timeline, bench);
        self.parts[5].push(
            rise.map_or(0, |time| percent(u128::from(AT_ONCE.0), u128::from(time.max(AT_ONCE).0))),
        );
        self.note(mix, "rise_ms", "ms", rise.map(ms));
    }
}

/// How long after its start the newcomer first has, over a window, 80 % of its rate of the last
/// half of its time.
fn rise(timeline: &[u64], bench: &Bench) -> Option<Nanos> {
    let place = |time: Nanos| usize::try_from(time.0 / BIN.0).expect("a short run");
    let (start, end) = (place(bench.duration) / 2, place(bench.duration));
    let window = place(bench.window);
    let sum = |from: usize, to: usize| -> u128 {
        let bins = timeline.get(from.min(timeline.len())..to.min(timeline.len()));
        bins.map_or(0, |bins| bins.iter().map(|n| u128::from(*n)).sum())
    };
    let half = start + (end - start) / 2;
    let (steady, bins) = (sum(half, end), (end - half) as u128);
    if steady == 0 {
        return None;
    }
    let is_there = |at: usize| sum(at, at + window) * bins * 10 >= steady * window as u128 * 8;
    let risen = (start..=end.saturating_sub(window)).find(|at| is_there(*at));
    risen.map(|at| Nanos((at - start) as u64 * BIN.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_as_published() {
        assert_eq!(jain(&[5, 5, 5, 5]), ALL);
        assert_eq!(jain(&[9, 0]), ALL / 2);
        assert_eq!(jain(&[0, 0, 0, 7]), ALL / 4);
        // (1 + 2)^2 / (2 * (1 + 4))
        assert_eq!(jain(&[1, 2]), 90_000);
        assert_eq!(jain(&[0, 0]), 0);
    }

    #[test]
    fn a_rise_is_found_where_the_rate_comes() {
        let bench = Bench { window: Nanos::from_millis(50), ..super::super::BENCHES[2] };
        let bins = (bench.duration.0 / BIN.0) as usize;
        let stairs = |delay: usize| -> Vec<u64> {
            (0..bins).map(|bin| if bin < bins / 2 + delay { 0 } else { 1_000 }).collect()
        };
        assert_eq!(rise(&stairs(0), &bench), Some(Nanos::ZERO));
        // Four of the five bins of a window are enough.
        assert_eq!(rise(&stairs(10), &bench), Some(Nanos::from_millis(90)));
        assert_eq!(rise(&vec![0; bins], &bench), None);
        assert_eq!(rise(&[], &bench), None);
    }

    #[test]
    fn parts_are_at_most_all() {
        assert_eq!(percent(3, 2), ALL);
        assert_eq!(percent(1, 3), 33_333);
        assert_eq!(percent(1, 0), 0);
        assert_eq!(mean(vec![ALL, 0]), Milli(50_000));
    }
}
