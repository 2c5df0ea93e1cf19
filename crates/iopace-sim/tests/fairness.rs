//! Random trees of groups under random loads: everybody has what its weight entitles it to, and the
//! disk does no less than without groups.

use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;
use iopace_sim::random::Random;
use iopace_sim::report::RunReport;
use iopace_sim::run::run;
use iopace_sim::scenario::{Chosen, DEVICE, Scenario};
use iopace_sim::task::{Task, TaskKind};

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
        Task {
            depth: 48,
            group: *group,
            ..Task::new(&format!("t{index}"), TaskKind::Random, region)
        }
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

/// Groups side by side with weights of 1 to 4, each with one task of this kind, on a disk and with
/// slots for which nobody has said anything.
fn side_by_side(
    disk: &'static str,
    (kind, kib, depth): (TaskKind, u64, u32),
    count: u64,
) -> RunReport {
    // Some four goes of each at least, after as many that do not count.
    let (seconds, len) = if disk.starts_with("hdd") { (40 + count, 100) } else { (1, 100) };
    let mut scenario = Scenario {
        duration: Nanos::from_secs(2 * seconds),
        warmup: Nanos::from_secs(seconds),
        scheduler: Some(Chosen::defaults(find("fair").expect("a scheduler of the registry"))),
        ..Scenario::new("groups side by side", disk)
    };
    for index in 0..count {
        let group = scenario.groups.create(&format!("/g{index}")).expect("a new name");
        let weight = (100 * (1 + index % 4)).to_string();
        scenario.groups.write(group, "io.weight", &weight, &[DEVICE]).expect("a legal weight");
        let place = Bytes::from_mib(index * (51_200 / count));
        let region = Extent::new(place, Bytes::from_mib(len)).expect("small");
        let task = Task::new(&format!("t{index}"), kind, region);
        scenario.tasks.push(Task { group, block: Bytes::from_kib(kib), depth, ..task });
    }
    run(&scenario)
}

/// Jain's index of the rates over the weights: 1 when each has what its weight entitles it to (Jain
/// et al., DEC-TR-301, 1984; weighted as in isol-bench, IISWC 2025).
fn weighted_jain(report: &RunReport, count: u64) -> f64 {
    let rate = |index: u64| report.tasks[&format!("t{index}")].ops as f64 / (1 + index % 4) as f64;
    let (sum, squares) = (0..count).map(rate).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    sum * sum / (count as f64 * squares)
}

#[test]
fn weights_hold_among_two_to_256_groups_with_nothing_else_set() {
    let (random, stream) = ((TaskKind::Random, 4, 32), (TaskKind::Sequential, 64, 4));
    for (disk, load, least) in [
        ("hdd-sata-250g-ncq", random, 0.98),
        ("hdd-sata-250g-ncq", stream, 0.98),
        ("hdd-sata-250g", random, 0.98),
        ("ssd-sata", random, 0.98),
    ] {
        let mut whole = None;
        for count in [2, 16, 64, 256] {
            let report = side_by_side(disk, load, count);
            let jain = weighted_jain(&report, count);
            let rate = ops(&report) / report.measured_ms.0 as f64;
            let kept = rate / *whole.get_or_insert(rate);
            println!("{disk} {load:?} {count}: {jain:.3}, rate {kept:.2} of that of two");
            assert!(kept >= 0.8, "{disk}, {load:?}, {count} groups: {kept:.2} of the rate of two");
            assert!(jain >= least, "{disk}, {load:?}, {count} groups: {jain:.3}");
        }
    }
}

#[test]
fn streams_lose_nothing_by_a_disk_that_orders_their_requests() {
    let stream = (TaskKind::Sequential, 64, 4);
    for count in [2, 16] {
        let [ncq, plain] = ["hdd-sata-250g-ncq", "hdd-sata-250g"]
            .map(|disk| ops(&side_by_side(disk, stream, count)));
        assert!(ncq >= 0.9 * plain, "{count} streams: {ncq} of {plain} requests");
    }
}
