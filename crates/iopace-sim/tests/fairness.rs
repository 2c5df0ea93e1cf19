//! Random trees of groups under random loads: everybody has what its weight entitles it to, and the
//! disk does no less than without groups.

use iopace_core::group::tree::Tree;
use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_sim::random::Random;
use iopace_sim::report::RunReport;
use iopace_sim::run::run;
use iopace_sim::scenario::{Chosen, DEVICE, Scenario};
use iopace_sim::task::{Kind, Task};

const WEIGHTS: [u32; 5] = [50, 100, 200, 400, 1_000];

/// A tree with its leaves and what part of the disk each is entitled to while all want it.
struct Grown {
    tree: Tree,
    leaves: Vec<(GroupId, f64)>,
}

/// Two to four groups at each node, up to three levels, up to nine leaves.
fn grow(random: &mut Random) -> Grown {
    let mut grown = Grown { tree: Tree::new(), leaves: Vec::new() };
    branch(&mut grown, random, "", 1.0, 1);
    grown
}

fn branch(grown: &mut Grown, random: &mut Random, path: &str, part: f64, level: u32) {
    let count = random.between(2, if level == 1 { 3 } else { 2 });
    let weights: Vec<u32> =
        (0..count).map(|_| WEIGHTS[random.below(WEIGHTS.len() as u64) as usize]).collect();
    let sum: u32 = weights.iter().sum();
    for (index, weight) in weights.into_iter().enumerate() {
        let path = format!("{path}/g{index}");
        let id = grown.tree.create(&path).expect("a new name");
        let text = weight.to_string();
        grown.tree.write(id, "io.weight", &text, &[DEVICE]).expect("a legal weight");
        let part = part * f64::from(weight) / f64::from(sum);
        if level < 3 && random.below(2) == 0 {
            branch(grown, random, &path, part, level + 1);
        } else {
            grown.leaves.push((id, part));
        }
    }
}

fn scenario(grown: &Grown, scheduler: &str, seed: u64) -> Scenario {
    let region = Bytes::from_mib(1024);
    let tasks = grown.leaves.iter().enumerate().map(|(index, (group, _))| {
        let offset = Bytes(index as u64 * region.0);
        let region = Extent::new(offset, region).expect("small");
        Task { depth: 48, group: *group, ..Task::new(&format!("t{index}"), Kind::Random, region) }
    });
    let chosen = Chosen::defaults(find(scheduler).expect("a scheduler of the registry"));
    Scenario {
        seed,
        duration: Nanos::from_secs(65),
        nr_requests: 512,
        scheduler: Some(chosen),
        tasks: tasks.collect(),
        groups: grown.tree.clone(),
        ..Scenario::new("a random tree", "hdd-sata-250g-ncq")
    }
}

fn ops(report: &RunReport) -> f64 {
    report.tasks.values().map(|task| task.ops as f64).sum()
}

#[test]
fn every_group_has_its_part_and_the_disk_loses_nothing() {
    for seed in 1..=12 {
        let grown = grow(&mut Random::new(seed, "trees"));
        let report = run(&scenario(&grown, "fair", seed));
        let all = ops(&report);
        for (index, (id, part)) in grown.leaves.iter().enumerate() {
            let got = report.tasks[&format!("t{index}")].ops as f64 / all;
            // Two hundredths of the part, and one go of 100 ms in the minute that is measured.
            let slack = 0.02 * part + 0.1 / 60.0;
            let path = grown.tree.path(*id);
            assert!(got >= part - slack, "seed {seed} {path}: {got:.4} of {part:.4}");
        }
        let fifo = ops(&run(&scenario(&grown, "fifo", seed)));
        assert!(all >= 0.98 * fifo, "seed {seed}: {all} of {fifo} requests");
        assert_eq!((report.unfinished, report.failed_over), (0, 0), "seed {seed}");
    }
}
