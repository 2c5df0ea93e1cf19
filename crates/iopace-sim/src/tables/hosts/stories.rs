//! The rows of the table: hosts, programs, troubles, and what is due to whom.

use crate::hosts::{Cell, Coordination, HostsSetup, Program, Trouble};
use iopace_core::cluster::cost;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// A part of a run and what is due to whom in it, in any unit.
pub(super) struct Phase {
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    pub(super) dues: Vec<(Cell, u64)>,
}

/// A row.
pub(super) struct HostsStory {
    pub(super) name: &'static str,
    pub(super) setup: HostsSetup,
    /// The burst begins, and it has ended; or other changes.
    pub(super) phases: [Phase; 2],
    /// Shares are looked at in windows of this length: as many requests as show 5 %.
    pub(super) window: Nanos,
    /// Shares have bounds: not where hosts are in the dark, want less than is due to them, or the
    /// store is too slow.
    pub(super) has_dues: bool,
    /// Another share is another mix of requests, of which the array does more or less: with fixed
    /// windows these programs have what is due to them.
    pub(super) same_mix: Option<Vec<Program>>,
}

/// Makes a row of that name.
type StoryMaker = fn(&'static str) -> HostsStory;

/// The rows, in the order in which they are made.
pub(super) const STORIES: [(&str, StoryMaker); 17] = [
    ("2 hosts, flash", |name| flash(name, 2)),
    ("8 hosts, flash", |name| flash(name, 8)),
    ("64 hosts, flash", |name| flash(name, 64)),
    ("256 hosts, flash", |name| flash(name, 256)),
    ("8 hosts, disk with a head", |name| head(name, 8)),
    ("groups on several hosts", groups),
    ("requests of 4 and 64 KiB", sizes),
    ("ways of 0 to 2 ms", |name| with(flash(name, 8), |setup| setup.way_most = ms(2))),
    ("one host of eight is busy", busy),
    ("a host is cut off", |name| in_the_dark(name, Trouble::Cut(3))),
    ("the store is lost", |name| in_the_dark(name, Trouble::StoreLost)),
    ("a host is killed, one stands", killed),
    ("store of 50 ms", |name| slow(name, ms(50))),
    ("store of 500 ms", |name| HostsStory { has_dues: false, ..slow(name, ms(500)) }),
    ("256 hosts in 16 cells", |name| cells(name, "ssd-sata", 256, 16)),
    ("256 in 16, one's first is killed", first_killed),
    ("1024 hosts in 16 cells", |name| cells(name, "ssd-nvme", 1_024, 64)),
];

pub(super) const fn ms(count: u64) -> Nanos {
    Nanos::from_millis(count)
}

pub(super) const fn secs(count: u64) -> Nanos {
    Nanos::from_secs(count)
}

fn with(mut story: HostsStory, change: impl FnOnce(&mut HostsSetup)) -> HostsStory {
    change(&mut story.setup);
    story
}

/// The weight of a host with a group of its own.
fn weight(host: usize) -> u32 {
    100 * (host as u32 % 4 + 1)
}

/// A program of a host's own group.
pub(super) fn reader(host: usize, from: Nanos, until: Nanos) -> Program {
    let (group, block) = (host as u32, Bytes::from_kib(16));
    Program { host, group, depth: 64, think: Nanos::ZERO, block, from, until }
}

/// The dues of hosts with groups of their own.
fn dues(hosts: impl Iterator<Item = usize>) -> Vec<(Cell, u64)> {
    hosts.map(|host| (Cell { host, group: host as u32 }, u64::from(weight(host)))).collect()
}

/// So many hosts at a flash disk: each second one reads in the middle third.
fn flash(name: &'static str, hosts_count: usize) -> HostsStory {
    let third = if hosts_count > 64 { secs(25) } else { secs(15) };
    bursts(name, "ssd-sata", hosts_count, third, ms(2), secs(1))
}

/// The same at a disk with a head, which does a two-hundredth: so shares show in longer windows.
fn head(name: &'static str, hosts_count: usize) -> HostsStory {
    let mut story = bursts(name, "hdd-sata-250g-ncq", hosts_count, secs(120), ms(300), secs(20));
    story.setup.programs.iter_mut().for_each(|program| program.block = Bytes::from_kib(4));
    story
}

fn bursts(
    name: &'static str,
    disk: &'static str,
    hosts_count: usize,
    third: Nanos,
    target: Nanos,
    window: Nanos,
) -> HostsStory {
    let (begins, ends, length) = (third, third.times(2), third.times(3));
    let program = |host: usize| match host % 2 {
        0 => reader(host, Nanos::ZERO, length),
        _ => reader(host, begins, ends),
    };
    let setup = HostsSetup {
        disk,
        hosts_count,
        weights: (0..hosts_count).map(weight).collect(),
        programs: (0..hosts_count).map(program).collect(),
        coordination: Coordination::Fixed,
        target: Some(target),
        way_most: Nanos::ZERO,
        limit: None,
        cell_size: None,
        clock_rates: None,
        troubles: Vec::new(),
        length,
        seed: 1,
    };
    let phases = [
        Phase { from: begins, until: ends, dues: dues(0..hosts_count) },
        Phase { from: ends, until: length, dues: dues((0..hosts_count).step_by(2)) },
    ];
    HostsStory { name, setup, phases, window, has_dues: true, same_mix: None }
}

/// Four groups, each on four of eight hosts, with one to four programs there; half of them come
/// with the burst.
fn groups(name: &'static str) -> HostsStory {
    let mut story = flash(name, 8);
    let weights = [100, 200, 300, 400];
    let [from, until] = [0, 1].map(|at| story.phases[at].from);
    let mut programs = Vec::new();
    let mut tasks = Vec::new();
    for host in 0..8usize {
        for group in [host % 4, (host + 1) % 4] {
            let count = host / 4 + 1;
            let is_burst = group == host % 4;
            let (from, until) =
                if is_burst { (from, until) } else { (Nanos::ZERO, story.setup.length) };
            let program = Program { group: group as u32, depth: 32, ..reader(host, from, until) };
            programs.extend(vec![program; count]);
            tasks.push((Cell { host, group: group as u32 }, count as u64, is_burst));
        }
    }
    let dues = |with_burst: bool| {
        let there = |(_, _, is_burst): &&(Cell, u64, bool)| with_burst || !is_burst;
        let all = |group: u32| -> u64 {
            let is_of = |(cell, ..): &&(Cell, u64, bool)| cell.group == group;
            tasks.iter().filter(there).filter(is_of).map(|(_, count, _)| count).sum()
        };
        let due = |(cell, count, _): &(Cell, u64, bool)| {
            (*cell, u64::from(weights[cell.group as usize]) * 1_000 * count / all(cell.group))
        };
        tasks.iter().filter(there).map(due).collect::<Vec<(Cell, u64)>>()
    };
    (story.phases[0].dues, story.phases[1].dues) = (dues(true), dues(false));
    story.setup.weights = weights.to_vec();
    story.setup.programs = programs;
    story
}

/// Hosts with small requests beside hosts with large ones. An array that serves in order of arrival
/// gives each host in proportion to its requests there, so that programs with as many requests as
/// their due by the cost of one have what is due to them.
fn sizes(name: &'static str) -> HostsStory {
    let mut story = with(flash(name, 8), |setup| {
        for program in &mut setup.programs {
            program.block =
                if program.host % 4 < 2 { Bytes::from_kib(4) } else { Bytes::from_kib(64) };
        }
    });
    let mut programs = story.setup.programs.clone();
    for program in &mut programs {
        let due = u64::from(weight(program.host)) * SAME_MIX_PER_WEIGHT;
        program.depth = (due / cost(1, program.block).0) as u32;
    }
    story.same_mix = Some(programs);
    story
}

/// So much of cost that all programs have as many requests as 64 for each host, all in all.
const SAME_MIX_PER_WEIGHT: u64 = 104;

/// Seven hosts have two requests at a time and get what they ask for; the eighth, of the least
/// weight, has the rest.
fn busy(name: &'static str) -> HostsStory {
    let mut story = with(flash(name, 8), |setup| {
        for program in &mut setup.programs {
            (program.depth, program.from, program.until) = (2, Nanos::ZERO, setup.length);
        }
        setup.programs[0].depth = 128;
    });
    // The rest is no share: only what all together get is looked at.
    story.has_dues = false;
    story
}

/// A host, or all of them, in the dark from before the burst until 3 s after it.
fn in_the_dark(name: &'static str, trouble: Trouble) -> HostsStory {
    let mut story = flash(name, 8);
    let (from, until) = (secs(5), story.phases[1].from + secs(3));
    story.setup.troubles = vec![(from, until, trouble)];
    story.has_dues = false;
    story
}

/// Four groups, each on a quarter of the hosts, of which every second one reads in the burst only;
/// hosts in cells of that size.
fn cells(
    name: &'static str,
    disk: &'static str,
    hosts_count: usize,
    cell_size: usize,
) -> HostsStory {
    let mut story = bursts(name, disk, hosts_count, secs(15), ms(2), secs(1));
    let group = |host: usize| (host / 2 % 4) as u32;
    let weight = |group: u32| 100 * (group + 1);
    story.setup.cell_size = Some(cell_size);
    story.setup.weights = (0..4).map(weight).collect();
    story.setup.programs.iter_mut().for_each(|program| program.group = group(program.host));
    // Each group has as many hosts as any other.
    for (cell, due) in story.phases.iter_mut().flat_map(|phase| &mut phase.dues) {
        cell.group = group(cell.host);
        *due = weight(cell.group).into();
    }
    story
}

/// The host that stands for the first cell is killed before the burst. Its group has a host less.
fn first_killed(name: &'static str) -> HostsStory {
    let mut story = cells(name, "ssd-sata", 256, 16);
    story.setup.troubles = vec![(secs(8), story.setup.length, Trouble::Killed(0))];
    for phase in &mut story.phases {
        let of_group = phase.dues.len() as u64 / 4;
        phase.dues.retain(|(cell, _)| cell.host != 0);
        for (cell, due) in &mut phase.dues {
            *due *= if cell.group == 0 { of_group } else { of_group - 1 };
        }
    }
    story
}

/// The store takes so long for each answer.
fn slow(name: &'static str, time: Nanos) -> HostsStory {
    let change = |setup: &mut HostsSetup| {
        setup.troubles = vec![(Nanos::ZERO, setup.length, Trouble::StoreSlow(time))];
    };
    with(flash(name, 8), change)
}

/// All hosts read; one is killed, and another stands still for a while and goes on.
fn killed(name: &'static str) -> HostsStory {
    let mut story = flash(name, 8);
    let length = story.setup.length;
    story.setup.programs = (0..8).map(|host| reader(host, Nanos::ZERO, length)).collect();
    let [stands, goes_on] = [0, 1].map(|at| story.phases[at].from);
    story.setup.troubles =
        vec![(secs(8), length, Trouble::Killed(2)), (stands, goes_on, Trouble::Stopped(3))];
    story.phases[0].dues = dues((0..8).filter(|host| ![2, 3].contains(host)));
    story.phases[1].dues = dues((0..8).filter(|host| *host != 2));
    story
}
