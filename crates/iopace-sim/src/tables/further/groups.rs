//! Groups: three weights, one client of depth 1 beside one of depth 64, limits of children, and one
//! group on two devices.

use super::FurtherOutcome;
use crate::milli::Milli;
use crate::parallel;
use crate::report::{RunReport, TaskReport};
use crate::run::{World, run};
use crate::scenario::{Chosen, DEVICE, Scenario};
use crate::tables::pace::measure::{cap_error, down, of, up};
use crate::task::{Task, TaskKind};
use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::recommended;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;

/// The disks of the weights and of the depths, each the name of its variant.
pub const DISKS: [&str; 4] = ["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata", "ssd-nvme"];

/// The variant below a limit that two groups share.
pub const SHARED: &str = "shared limit";

/// The limit that both share: requests per second.
const SHARED_IOPS: u64 = 2_000;

/// Weights, and the names of their groups.
const WEIGHTS: [(&str, u64); 3] = [("w100", 100), ("w200", 200), ("w400", 400)];

/// `nr_requests` and `iodepth` of the fio job.
const NR_REQUESTS: u32 = 500;

/// Limits of the group on the first device and on the second: slots, and bytes read per second.
const SLOTS: [u32; 2] = [4, 12];
const RATES: [u64; 2] = [10_000_000, 30_000_000];

/// The second device.
const OTHER: &str = "other";

/// How often slots are looked at.
const LOOK: Nanos = Nanos::from_millis(1);

fn group(tree: &mut Tree, path: &str, lines: &[(&str, String)], devices: &[&str]) -> GroupId {
    let id = tree.create(path).expect("a new name");
    for (file, line) in lines {
        tree.write(id, file, line, devices).expect("a legal line");
    }
    id
}

/// A random reader of 4 KiB in an eighth of the disk.
fn reader(name: &str, disk: &str, place: u64, depth: u32, group: GroupId) -> Task {
    let capacity = crate::disks::build(disk).expect("a preset").capacity();
    let part = Bytes(capacity.0 / 8 / 4_096 * 4_096);
    let region = Extent::new(Bytes(place * part.0), part).expect("within the disk");
    Task { depth, group, ..Task::new(name, TaskKind::Random, region) }
}

fn story(disk: &'static str, duration: Nanos, seed: u64) -> Scenario {
    Scenario {
        seed,
        duration,
        warmup: Nanos(duration.0 / 8),
        scheduler: Some(Chosen::defaults(recommended())),
        ..Scenario::new("groups", disk)
    }
}

/// How long a run is to be on this disk: as many requests as make shares exact, no more.
fn length(disk: &str) -> Nanos {
    Nanos::from_millis(match disk {
        "ssd-sata" => 1_500,
        "ssd-nvme" => 300,
        _ => 60_000,
    })
}

/// Three groups of weights 100, 200 and 400 with the fio job each: the largest error of a share of
/// the requests; and of a share of the disk's time, where it takes one request at a time.
pub fn weights(disk: &'static str, seed: u64) -> FurtherOutcome {
    let mut scenario = story(disk, Nanos(2 * length(disk).0), seed);
    scenario.nr_requests = NR_REQUESTS;
    for (place, (name, weight)) in WEIGHTS.into_iter().enumerate() {
        let lines = [("io.weight", weight.to_string())];
        let id = group(&mut scenario.groups, &format!("/{name}"), &lines, &[DEVICE]);
        scenario.tasks.push(reader(name, disk, place as u64, NR_REQUESTS, id));
    }
    let report = run(&scenario);
    let error = |got: fn(&TaskReport) -> u128| {
        let shares = WEIGHTS.map(|(name, weight)| (got(&report.tasks[name]), u128::from(weight)));
        let (sum, weights) = shares.iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let error = |(got, weight)| up(u128::abs_diff(got * weights, sum * weight), sum * weight);
        shares.into_iter().map(error).max().unwrap_or_default()
    };
    let mut outcome = vec![("share_error", error(|task| u128::from(task.ops)))];
    if disk == DISKS[0] {
        let time = |task: &TaskReport| u128::from(task.stages.disk_ms.0.unsigned_abs());
        outcome.push(("time_error", error(time)));
    }
    outcome
}

/// A group with one request at a time beside one with 64, of equal weight: what the first has of
/// what it has alone; below a shared limit, what it has of both.
pub fn depths(variant: &'static str, seed: u64) -> FurtherOutcome {
    let disk = if variant == SHARED { "ssd-sata" } else { variant };
    // The depth is found, and turns are tried, within the first second.
    let longer = if disk.starts_with("ssd") { 4 } else { 1 };
    let mut scenario = story(disk, Nanos(longer * length(disk).0), seed);
    let top = if variant == SHARED {
        let lines = [("io.max", format!("{DEVICE} iops={SHARED_IOPS}"))];
        group(&mut scenario.groups, "/both", &lines, &[DEVICE]);
        scenario.scheduler = None;
        "/both"
    } else {
        ""
    };
    let one = group(&mut scenario.groups, &format!("{top}/one"), &[], &[DEVICE]);
    let many = group(&mut scenario.groups, &format!("{top}/many"), &[], &[DEVICE]);
    scenario.tasks = vec![reader("one", disk, 0, 1, one), reader("many", disk, 2, 64, many)];
    let both = run(&scenario);
    let bytes = |report: &RunReport, name: &str| u128::from(report.tasks[name].bytes);
    if variant == SHARED {
        let all = bytes(&both, "one") + bytes(&both, "many");
        return vec![("one_share", down(bytes(&both, "one"), all))];
    }
    let alone = |name: &str| {
        let task = scenario.tasks.iter().find(|task| task.name == name).expect("one of two");
        bytes(&run(&scenario.alone(task)), name)
    };
    vec![
        ("one_kept", down(bytes(&both, "one"), alone("one"))),
        ("many_kept", down(bytes(&both, "many"), alone("many"))),
    ]
}

/// Every limit of a child that is above its parent's, and what the message has to name.
const ABOVE: [(&str, &str, &str, [&str; 2]); 8] = [
    ("io.nr_group_requests", "disk 100", "disk 200", ["200 slots", "100 slots"]),
    ("io.nr_group_requests", "100", "101", ["101 slots", "100 slots"]),
    ("io.max", "disk rbps=1000000", "disk rbps=2000000", ["2000000", "1000000"]),
    ("io.max", "disk wbps=1000000", "disk wbps=2000000", ["2000000", "1000000"]),
    ("io.max", "disk bps=1000000", "disk bps=2000000", ["2000000", "1000000"]),
    ("io.max", "disk riops=100", "disk riops=300", ["300", "100"]),
    ("io.max", "disk wiops=100", "disk wiops=300", ["300", "100"]),
    ("io.max", "disk iops=100", "disk iops=300", ["300", "100"]),
];

/// A child's limit above its parent's: how many of these are refused with both figures and the
/// parent named, and leave all as it was; set in either order.
pub fn children() -> FurtherOutcome {
    let is_refused = |(file, parent, child, names): &(&str, &str, &str, [&str; 2])| {
        let mut tree = Tree::new();
        let vms = group(&mut tree, "/vms", &[], &[DEVICE]);
        let web = group(&mut tree, "/vms/web", &[], &[DEVICE]);
        let mut first = tree.clone();
        first.write(vms, file, parent, &[DEVICE]).expect("a legal line");
        tree.write(web, file, child, &[DEVICE]).expect("a legal line");
        [(first, web, *child, "/vms"), (tree, vms, *parent, "/vms/web")].into_iter().all(
            |(mut tree, id, line, other)| {
                let before = tree.clone();
                let refused = tree.write(id, file, line, &[DEVICE]).err();
                let text = refused.map(|error| error.to_string()).unwrap_or_default();
                let names = names.iter().chain([&other]).all(|name| text.contains(name));
                names && tree == before
            },
        )
    };
    let refused = ABOVE.iter().filter(|case| is_refused(case)).count();
    vec![("refused", down(refused as u128, ABOVE.len() as u128))]
}

/// One group on two devices, with other limits on each, 64 random readers of it on both: the most
/// slots that it has on each, over its limit there, and the error of its limits of bytes.
pub fn devices(seed: u64) -> FurtherOutcome {
    let (one, two) = (DEVICE, OTHER);
    let mut tree = Tree::new();
    let slots = [one, two].into_iter().zip(SLOTS);
    let slots: Vec<_> =
        slots.map(|(name, n)| ("io.nr_group_requests", format!("{name} {n}"))).collect();
    let slotted = group(&mut tree, "/slots", &slots, &[one, two]);
    let rates = [one, two].into_iter().zip(RATES);
    let rates: Vec<_> =
        rates.map(|(name, rate)| ("io.max", format!("{name} rbps={rate}"))).collect();
    let rated = group(&mut tree, "/rates", &rates, &[one, two]);
    let jobs = [(one, 0), (two, 1)];
    let outcomes = parallel::map(&jobs, |(device, index)| {
        let mut scenario = story("ssd-sata", Nanos::from_secs(3), seed);
        scenario.device = device;
        scenario.groups = tree.clone();
        scenario.scheduler = None;
        scenario.keeps_timeline = true;
        let tasks = |id| {
            [
                reader("of-group", "ssd-sata", 0, 64, id),
                reader("free", "ssd-sata", 2, 64, GroupId::ROOT),
            ]
        };
        scenario.tasks = tasks(slotted).to_vec();
        let taken = taken_max(&scenario, slotted);
        scenario.tasks = tasks(rated).to_vec();
        let (report, from) = (run(&scenario), scenario.warmup);
        let error = cap_error(&of(&report, "of-group"), from, scenario.duration, RATES[*index]);
        (down(u128::from(taken), u128::from(SLOTS[*index])), error)
    });
    vec![
        ("slots_1", outcomes[0].0),
        ("slots_2", outcomes[1].0),
        ("rate_error_1", outcomes[0].1),
        ("rate_error_2", outcomes[1].1),
    ]
}

/// The most slots that a group had.
fn taken_max(scenario: &Scenario, group: GroupId) -> u32 {
    let mut world = World::new(scenario);
    world.begin();
    let (mut now, mut most) = (Instant::ZERO, 0);
    let end = now + scenario.duration;
    while now < end {
        now = (now + LOOK).min(end);
        world.advance(now);
        most = most.max(world.machine().engine().group_slots(group).taken_count);
    }
    world.end();
    most
}

/// Milli as a count.
pub fn count(n: u64) -> Milli {
    Milli(i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(1_000))
}
