//! The rows of the table: hosts, programs, troubles, and what is due to whom.

use crate::hosts::{Cell, Coordination, HostsSetup, Program, Trouble};
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
    /// The figures that have to hold.
    pub(super) is_bound: StoryBounds,
}

/// The figures of a row that have to hold.
#[derive(Clone, Copy)]
pub(super) struct StoryBounds {
    /// Shares: not where hosts are in the dark, or want less than is due to them.
    pub(super) shares: bool,
    /// The sum of all: not where another share is another mix of requests.
    pub(super) sum: bool,
}

/// Makes a row of that name.
type StoryMaker = fn(&'static str) -> HostsStory;

/// The rows, in the order in which they are made.
pub(super) const STORIES: [(&str, StoryMaker); 12] = [
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
];

const fn ms(count: u64) -> Nanos {
    Nanos::from_millis(count)
}

const fn secs(count: u64) -> Nanos {
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
fn reader(host: usize, from: Nanos, until: Nanos) -> Program {
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
        troubles: Vec::new(),
        length,
        seed: 1,
    };
    let phases = [
        Phase { from: begins, until: ends, dues: dues(0..hosts_count) },
        Phase { from: ends, until: length, dues: dues((0..hosts_count).step_by(2)) },
    ];
    HostsStory { name, setup, phases, window, is_bound: StoryBounds { shares: true, sum: true } }
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

/// Hosts with small requests beside hosts with large ones. Another share is another mix, of which a
/// disk does more or less.
fn sizes(name: &'static str) -> HostsStory {
    let mut story = with(flash(name, 8), |setup| {
        for program in &mut setup.programs {
            program.block =
                if program.host % 4 < 2 { Bytes::from_kib(4) } else { Bytes::from_kib(64) };
        }
    });
    story.is_bound.sum = false;
    story
}

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
    story.is_bound.shares = false;
    story
}

/// A host, or all of them, in the dark from before the burst until 3 s after it.
fn in_the_dark(name: &'static str, trouble: Trouble) -> HostsStory {
    let mut story = flash(name, 8);
    let (from, until) = (secs(5), story.phases[1].from + secs(3));
    story.setup.troubles = vec![(from, until, trouble)];
    story.is_bound.shares = false;
    story
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
