//! A scenario as plain numbers, drawn at random, so that it can be shrunk.

use crate::random::Random;
use iopace_core::{pace, sched, window};

/// The disks, each with the length of a run in milliseconds: a quarter of it is enough for all
/// that waits at once, and the whole is some hundred thousand requests at most.
const DISKS: [(&str, u64); 7] = [
    ("hdd-sata-250g", 24_000),
    ("hdd-sata-250g-ncq", 24_000),
    ("hdd-nearline-6t", 24_000),
    // Below the thresholds of before 2011 a writer waits for up to ten seconds here.
    ("usb-key", 80_000),
    ("nfs-gigabit", 16_000),
    // rr gives six tasks 119 ms each.
    ("ssd-sata", 3_200),
    ("ssd-nvme", 3_200),
];

/// A run on a disk that loses commands: each is given up after half a minute, and a quarter of the
/// run has to be longer.
const LOST_MS: u64 = 160_000;

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// What its tasks draw from.
    pub seed: u64,
    /// Its length in milliseconds.
    pub duration_ms: u64,
    /// The preset of its disk.
    pub disk: &'static str,
    /// Requests at the disk, if less than it takes.
    pub depth: Option<u64>,
    /// Slots of the device, if not the usual number.
    pub nr_requests: Option<u64>,
    /// The policy of stage window.
    pub window: &'static str,
    /// The policy of stage pace.
    pub pace: &'static str,
    /// Of 1000 commands: errors, stalls, losses.
    pub faults: [u64; 3],
    /// How long a stall is, in milliseconds.
    pub stall_ms: u64,
    /// MiB that may be dirty; without it there is no page cache.
    pub dirty_mib: Option<u64>,
    /// The scheduler; `None` is the plain elevator.
    pub scheduler: Option<&'static str>,
    /// The groups.
    pub groups: Vec<GroupDraft>,
    /// The tasks.
    pub tasks: Vec<TaskDraft>,
    /// When, in milliseconds, which scheduler is put in; `None` takes it out.
    pub steps: Vec<(u64, Option<&'static str>)>,
}

/// A group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDraft {
    /// The group it is in, by place: one before it.
    pub parent: Option<usize>,
    /// Lines of its files: file and text.
    pub lines: Vec<(&'static str, String)>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDraft {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its group, by place.
    pub group: Option<usize>,
    /// When it begins, in milliseconds.
    pub start_ms: u64,
    /// Where it is, in GiB; it has one.
    pub place_gib: u64,
    /// Requests at once.
    pub depth: u64,
    /// Size of a request in KiB.
    pub block_kib: u64,
    /// Time to think, in microseconds.
    pub think_us: u64,
    /// Of 100 requests, how many write.
    pub write_percent: u64,
    /// Writes are durable before they end.
    pub fua: bool,
    /// After so many writes it flushes; 0: never.
    pub flush_every: u64,
    /// Through the page cache.
    pub buffered: bool,
    /// It sleeps until its request has a slot.
    pub blocking: bool,
    /// It begins when all of the waves before have ended.
    pub wave: u64,
    /// When it ends, in milliseconds from the beginning of its wave.
    pub stop_ms: Option<u64>,
    /// What it moves at most, in MiB.
    pub total_mib: Option<u64>,
    /// Requests come by the clock.
    pub rate: Option<RateDraft>,
}

/// Requests by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateDraft {
    /// So many a second.
    pub per_second: u64,
    /// Drawn at random, not at equal distances.
    pub is_poisson: bool,
    /// It waits for its own as a program does.
    pub is_ceiling: bool,
}

impl TaskDraft {
    /// Whether its kind takes settings.
    pub fn is_plain(&self) -> bool {
        ["sequential", "random"].contains(&self.kind)
    }

    /// Whether it needs the page cache.
    pub fn needs_memory(&self) -> bool {
        self.buffered || ["dd-write", "append", "rewrite"].contains(&self.kind)
    }
}

/// One of a list.
fn one<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}

/// Once in `times`.
fn once_in(random: &mut Random, times: u64) -> bool {
    random.below(times) == 0
}

fn scheduler(random: &mut Random) -> Option<&'static str> {
    let place = random.below(sched::REGISTRY.len() as u64 + 1) as usize;
    sched::REGISTRY.get(place).map(|algorithm| algorithm.name)
}

impl Draft {
    /// One drawn at random.
    pub fn draw(seed: u64, random: &mut Random) -> Draft {
        let (disk, mut duration_ms) = one(random, &DISKS);
        let (is_slow, is_hdd) = (duration_ms > 3_200, disk.starts_with("hdd"));
        let mut faults = [0; 3];
        if once_in(random, 2) {
            faults = [random.below(20), random.below(20), 0];
        }
        let dirty_mib = once_in(random, 2).then(|| 2 + random.below(7));
        if dirty_mib.is_none() && is_hdd && once_in(random, 6) {
            faults[2] = 1 + random.below(2);
            duration_ms = LOST_MS;
        }
        let mut draft = Draft {
            seed,
            duration_ms,
            disk,
            depth: once_in(random, 3).then(|| 1 + random.below(8)),
            nr_requests: once_in(random, 4).then(|| 4 + random.below(60)),
            window: one(random, window::REGISTRY).name,
            pace: one(random, pace::REGISTRY).name,
            faults,
            stall_ms: if is_slow { 500 } else { 20 },
            dirty_mib,
            scheduler: scheduler(random),
            groups: Vec::new(),
            tasks: Vec::new(),
            steps: Vec::new(),
        };
        for _ in 0..random.below(5) {
            let mut group = GroupDraft::draw(random, is_slow);
            let parents = draft.groups.len() as u64;
            if parents > 0 && once_in(random, 2) {
                group.parent = Some(random.below(parents) as usize);
            }
            draft.groups.push(group);
        }
        for number in 0..1 + random.below(6) {
            let task = TaskDraft::draw(random, number, &draft);
            draft.tasks.push(task);
        }
        if once_in(random, 5) {
            draft.divide_into_waves(random);
        }
        if once_in(random, 3) {
            for _ in 0..1 + random.below(4) {
                let at = 1 + random.below(duration_ms / 2);
                let wanted = scheduler(random);
                draft.steps.push((at, wanted));
            }
            draft.steps.sort_unstable();
        }
        draft.settle();
        draft
    }

    /// Takes out what no scenario may have: a bound within a group that has one of the same kind,
    /// as it could be the larger one, and a task that sleeps for slots in a group not its own.
    pub fn settle(&mut self) {
        const BOUNDS: [&str; 3] = ["io.max", "io.min", "io.nr_group_requests"];
        // What is bounded: "disk riops", or the slots.
        fn kind<'a>((file, text): &(&'a str, String)) -> (&'a str, String) {
            (*file, text.split_once('=').map_or(String::new(), |(kind, _)| kind.into()))
        }
        for place in 0..self.groups.len() {
            let (mut bounded, mut above) = (Vec::new(), self.groups[place].parent);
            while let Some(parent) = above {
                bounded.extend(self.groups[parent].lines.iter().map(kind));
                above = self.groups[parent].parent;
            }
            let is_free =
                |line: &(&str, String)| !BOUNDS.contains(&line.0) || !bounded.contains(&kind(line));
            self.groups[place].lines.retain(is_free);
        }
        let groups: Vec<Option<usize>> = self.tasks.iter().map(|task| task.group).collect();
        for task in &mut self.tasks {
            let sharing = groups.iter().filter(|group| **group == task.group).count();
            task.blocking &= task.group.is_some() && sharing == 1;
        }
    }

    /// Some tasks begin when the others have ended, before half of the run.
    fn divide_into_waves(&mut self, random: &mut Random) {
        let end = self.duration_ms / 4;
        for task in &mut self.tasks {
            task.start_ms %= end;
            match random.below(2) {
                0 => task.stop_ms = Some(end),
                _ => task.wave = 1,
            }
        }
    }

    /// The path of a group.
    pub fn path(&self, group: usize) -> String {
        let parent = self.groups[group].parent.map(|parent| self.path(parent));
        format!("{}/g{group}", parent.unwrap_or_default())
    }
}

impl GroupDraft {
    fn draw(random: &mut Random, is_slow: bool) -> GroupDraft {
        let mut lines = Vec::new();
        let scale = if is_slow { 1 } else { 20 };
        if once_in(random, 2) {
            lines.push(("io.weight", one(random, &["1", "20", "300", "10000"]).to_string()));
        }
        if once_in(random, 3) {
            lines.push(("io.ioprio_class", one(random, &["RT", "BE", "IDLE"]).to_string()));
        }
        if once_in(random, 3) {
            let key = one(random, &["rbps", "wbps", "bps", "riops", "wiops", "iops"]);
            let (least, most) = if key.ends_with("bps") { (1 << 20, 20 << 20) } else { (40, 400) };
            let value = random.between(least, most) * scale;
            lines.push(("io.max", format!("disk {key}={value}")));
        }
        if once_in(random, 5) {
            let value = random.between(5, 20) * scale;
            lines.push(("io.min", format!("disk riops={value}")));
        }
        if once_in(random, 4) {
            lines.push(("io.nr_group_requests", (2 + random.below(30)).to_string()));
        }
        if once_in(random, 8) {
            let target = if is_slow { 30_000 } else { 500 };
            lines.push(("io.latency", format!("disk target={target}us")));
        }
        GroupDraft { parent: None, lines }
    }
}

impl TaskDraft {
    fn draw(random: &mut Random, number: u64, draft: &Draft) -> TaskDraft {
        let dry = ["random", "random", "sequential", "sequential", "dd-read", "cvs"];
        let wet = ["random", "sequential", "dd-write", "append", "rewrite", "cvs"];
        let kind = one(random, if draft.dirty_mib.is_some() { &wet } else { &dry });
        let group = match draft.groups.len() as u64 {
            0 => None,
            count => usize::try_from(random.below(count + 1)).ok().filter(|n| *n as u64 != count),
        };
        let is_slow = draft.duration_ms > 3_200;
        // Whether a task sleeps is read off its group: it is the only one there.
        let is_alone = |task: &TaskDraft| task.group != group;
        let may_block = group.is_some() && draft.tasks.iter().all(is_alone);
        let is_taken = draft.tasks.iter().any(|task| task.blocking && task.group == group);
        let group = if is_taken { None } else { group };
        let start_ms = if once_in(random, 3) { random.below(draft.duration_ms / 2) } else { 0 };
        TaskDraft {
            name: format!("t{number}"),
            kind,
            group,
            start_ms,
            place_gib: random.below(10),
            depth: one(random, &[1, 1, 2, 4, 8]),
            block_kib: one(random, &[4, 4, 16, 64, 256]),
            think_us: one(random, &[0, 0, 200, 5_000]),
            write_percent: one(random, &[0, 0, 30, 100]),
            fua: once_in(random, 6),
            flush_every: if once_in(random, 4) { 1 + random.below(20) } else { 0 },
            buffered: draft.dirty_mib.is_some() && once_in(random, 2),
            blocking: may_block && once_in(random, 2),
            wave: 0,
            stop_ms: None,
            total_mib: once_in(random, 8).then(|| 1 + random.below(8)),
            rate: once_in(random, 6).then(|| RateDraft::draw(random, is_slow)),
        }
        .plain()
    }

    /// Without what its kind does not take, so that nothing is there to be shrunk in vain.
    fn plain(mut self) -> TaskDraft {
        if self.is_plain() {
            if self.rate.is_some() {
                (self.think_us, self.blocking) = (0, false);
            }
            return self;
        }
        let TaskDraft { name, kind, group, start_ms, place_gib, .. } = self;
        TaskDraft {
            name,
            kind,
            group,
            start_ms,
            place_gib,
            depth: 1,
            block_kib: 4,
            think_us: 0,
            write_percent: 0,
            fua: false,
            flush_every: 0,
            buffered: false,
            blocking: false,
            wave: 0,
            stop_ms: None,
            total_mib: None,
            rate: None,
        }
    }
}

impl RateDraft {
    /// What comes whether or not the last is done must be less than the slowest disk does.
    fn draw(random: &mut Random, is_slow: bool) -> RateDraft {
        let is_ceiling = once_in(random, 2);
        let most = if is_ceiling { 100 } else { 4 };
        let per_second = random.between(1, most) * if is_slow { 1 } else { 20 };
        RateDraft { per_second, is_poisson: once_in(random, 2), is_ceiling }
    }
}
