//! The rows of groups: one with a limit beside others, and two of unequal weight.

use super::measure::{cap_error, down, measured, of, up};
use super::setups::{HDD, Setup, SetupOutcome, WARMUP, tasks, thresholds};
use crate::run::run_traced as run;
use crate::scenario::{DEVICE, Scenario};
use crate::task::TaskKind;
use iopace_core::request::GroupId;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;

/// The limit of the row `group-cap`.
pub const CAP: u64 = 10_000_000;

impl Setup {
    /// A group with `io.max` of 10 MB/s and 4 writers of 4 KiB at a time beside 2 dd, 4 GiB; and
    /// what these have of all that the limit leaves of the disk, where they are alone.
    pub(super) fn group_cap(&self) -> SetupOutcome {
        let mut groups = Tree::new();
        let capped = group(&mut groups, "/capped", "io.max", &format!("{DEVICE} wbps={CAP}"));
        let free = group(&mut groups, "/free", "io.weight", "100");
        let mut all = tasks(TaskKind::DdWrite, 6, 0, 4_096);
        for (index, task) in all.iter_mut().enumerate() {
            if index < 4 {
                (task.group, task.block) = (capped, Bytes::from_kib(4));
                task.name = format!("capped-{index}");
            } else {
                task.group = free;
            }
        }
        let scenario = Scenario { groups, ..self.scenario(HDD, thresholds(4), 30, all) };
        let (report, _) = run(&scenario, None);
        let error = cap_error(&of(&report, "capped"), WARMUP, Nanos::from_secs(30), CAP);
        let mut alone = scenario.clone();
        alone.tasks.retain(|task| task.group == free);
        let (alone, _) = run(&alone, None);
        let sum = |report| of(report, "dd").iter().map(|task| u128::from(task.bytes)).sum::<u128>();
        let rest = sum(&alone) - u128::from(CAP) * u128::from(measured(&report));
        vec![("cap_error_max", error), ("rest_taken", down(sum(&report), rest))]
    }

    /// Two groups of weights 100 and 200, one of them with a single dd and the other with 10, and
    /// the other way round, 4 GiB: the larger error.
    pub(super) fn group_weights(&self) -> SetupOutcome {
        let error = |light: usize, heavy: usize| {
            let mut groups = Tree::new();
            let one = group(&mut groups, "/one", "io.weight", "100");
            let two = group(&mut groups, "/two", "io.weight", "200");
            let mut all = tasks(TaskKind::DdWrite, (light + heavy) as u64, 0, 4_096);
            for (index, task) in all.iter_mut().enumerate() {
                let (name, id) = if index < light { ("one", one) } else { ("two", two) };
                (task.name, task.group) = (format!("{name}-{index}"), id);
            }
            let scenario = Scenario { groups, ..self.scenario(HDD, thresholds(4), 60, all) };
            let (report, _) = run(&scenario, None);
            let sum = |name| of(&report, name).iter().map(|task| u128::from(task.bytes)).sum();
            let (one, two): (u128, u128) = (sum("one"), sum("two"));
            // Shares of 1/3 and 2/3; the lighter one's error is the larger part of its share.
            up((3 * one).abs_diff(one + two), one + two)
        };
        vec![("share_error", error(10, 1).max(error(1, 10)))]
    }
}

fn group(groups: &mut Tree, path: &str, file: &str, line: &str) -> GroupId {
    let id = groups.create(path).expect("a new name");
    groups.write(id, file, line, &[DEVICE]).expect("a legal line");
    id
}
