//! Writers, a machine and a disk in virtual time, with the promises of stage pace checked at every
//! instant.

use crate::checked::checked;
use crate::disk::{Changing, Skew};
use iopace_core::engine::{Config, Control};
use iopace_core::pace::{self, Budget, Thresholds};
use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, PAGE};
use iopace_core::window;
use iopace_disk::modelled::{Io, Machine, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::pump::{End, Turned};
use std::collections::{BTreeMap, BTreeSet};

/// What of the device a task writes in, one behind the other, over and over.
const REGION: u64 = 256 << 20;

/// Bytes per nanosecond that a task copies into memory.
const COPY: u64 = 4;

/// A write of so much is in several portions, and long by itself.
const LARGE: u64 = 1 << 20;

/// A task that reads 8 KiB here and there, and thinks for 10 ms between.
const READER: TaskId = TaskId(1 << 40);
const THINK: u64 = 10_000_000;

/// A task that writes.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub group: GroupId,
    /// Size of a write.
    pub block: u64,
    /// From the end of a write to the next, beside the time to copy.
    pub gap: Nanos,
    pub is_running: bool,
    cursor: u64,
    pub outstanding: u32,
    /// When it last finished a write, or began.
    pub finished: Instant,
    pub bytes: u64,
}

/// What is on the disk, what is dirty, and the longest pause since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub written: u64,
    pub dirty: u64,
    pub limit: u64,
    pub pause: Nanos,
}

pub struct World {
    pub machine: Machine,
    ended: Vec<(Io, End)>,
    pub disk: Changing,
    /// True time.
    pub now: Instant,
    pub skew: Skew,
    /// When the machine wants to be turned again, by its clock.
    wait: Instant,
    pub writers: Vec<Writer>,
    /// When tasks write next; the number tells writes of one task apart.
    wakes: BTreeSet<(Instant, u64, usize)>,
    wakes_count: u64,
    /// When the reader reads next.
    readings: BTreeSet<Instant>,
    reads_count: u64,
    open: BTreeMap<u64, Submit>,
    next_tag: u64,
    pub limit: u64,
    dirty: u64,
    /// Longest pause of a write since it was asked last.
    pause: Nanos,
    /// Longest time without a finished write of a task since then.
    gap: Nanos,
    gap_from: Instant,
    pub submitted: u64,
    pub finished: u64,
    /// All that finished, folded: the same seed gives the same.
    pub digest: u64,
}

pub fn thresholds(limit: u64) -> Thresholds {
    Thresholds { background: Bytes(limit / 2), limit: Bytes(limit) }
}

impl World {
    pub fn new(pace: &str, window: &str, rate: u64, limit: u64) -> World {
        let disk = Changing::new(rate);
        let config = Config {
            pace: checked(pace::find(pace).expect("a policy")),
            window: window::find(window).expect("a policy"),
            memory: thresholds(limit),
            ..Config::default()
        };
        let cache = PageCacheConfig { memory: Bytes(limit), drop_behind: true };
        World {
            machine: Modelled::pump(config, Some(cache), Box::new(disk.clone())),
            ended: Vec::new(),
            disk,
            now: Instant::ZERO,
            skew: Skew::default(),
            wait: Instant::NEVER,
            writers: Vec::new(),
            wakes: BTreeSet::new(),
            wakes_count: 0,
            readings: BTreeSet::new(),
            reads_count: 0,
            open: BTreeMap::new(),
            next_tag: 0,
            limit,
            dirty: 0,
            pause: Nanos::ZERO,
            gap: Nanos::ZERO,
            gap_from: Instant::ZERO,
            submitted: 0,
            finished: 0,
            digest: 0,
        }
    }

    /// A task begins now that has `depth` writes on their way at once.
    pub fn start(&mut self, group: GroupId, block: u64, depth: u32, gap: Nanos) -> usize {
        let index = self.writers.len();
        self.writers.push(Writer {
            group,
            block,
            gap,
            is_running: true,
            cursor: 0,
            outstanding: 0,
            finished: self.now,
            bytes: 0,
        });
        (0..depth).for_each(|_| self.wake(self.now, index));
        index
    }

    /// A task begins now that reads until everything ends.
    pub fn start_reader(&mut self) {
        self.readings.insert(self.now);
    }

    fn read(&mut self) {
        self.reads_count += 1;
        let place = self.reads_count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
        let extent = Extent::new(Bytes(place / 4096 * 4096), Bytes(8 << 10)).expect("below 2^41");
        let (task, group) = (READER, GroupId::ROOT);
        let tag = Tag(0);
        let submit = Submit { tag, task, group, op: Op::Read, extent, fua: false, sync: true };
        self.send(submit, false);
    }

    /// Changes the machine.
    pub fn control(&mut self, control: Control) {
        self.drain();
        let clock = self.skew.clock(self.now);
        self.machine.control(clock, control).expect("a legal change");
        self.drain();
    }

    /// So much may be dirty from now on.
    pub fn set_limit(&mut self, limit: u64, elsewhere: u64) {
        let (device, dirty_elsewhere) = (thresholds(limit), Bytes(elsewhere));
        let all = thresholds(limit.saturating_add(elsewhere));
        self.drain();
        self.limit = limit;
        self.control(Control::Memory(Budget { all, dirty_elsewhere, ..Budget::alone(device) }));
    }

    /// The machine's clock jumps.
    pub fn set_skew(&mut self, skew: Skew) {
        self.drain();
        self.skew = skew;
        self.disk.set_skew(skew);
        self.drain();
    }

    /// Sends a request that is not a writer's.
    pub fn send(&mut self, submit: Submit, buffered: bool) {
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        let submit = Submit { tag, ..submit };
        self.open.insert(tag.0, submit);
        self.submitted += submit.extent.len().0;
        let (clock, io) = (self.skew.clock(self.now), Io { submit, buffered });
        self.machine.submit(clock, io, &mut self.ended);
    }

    fn wake(&mut self, at: Instant, index: usize) {
        self.wakes_count += 1;
        self.wakes.insert((at, self.wakes_count, index));
    }

    fn write(&mut self, index: usize) {
        let writer = &mut self.writers[index];
        if !writer.is_running {
            return;
        }
        let offset = index as u64 * REGION + writer.cursor % (REGION - writer.block % REGION);
        writer.cursor += writer.block;
        writer.outstanding += 1;
        let extent = Extent::new(Bytes(offset), Bytes(writer.block)).expect("far below 2^64");
        let (tag, task, group) = (Tag(0), TaskId(index as u64), writer.group);
        let submit = Submit { tag, task, group, op: Op::Write, extent, fua: false, sync: true };
        self.send(submit, true);
        self.check();
    }

    /// Lives through everything up to a true time.
    pub fn run(&mut self, end: Instant) {
        loop {
            let wake = self.wakes.first().map_or(Instant::NEVER, |(at, ..)| *at);
            let reading = self.readings.first().copied().unwrap_or(Instant::NEVER);
            let next = self.skew.time(self.wait).min(wake).min(reading);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            while self.wakes.first().is_some_and(|(at, ..)| *at <= self.now) {
                let (.., index) = self.wakes.pop_first().expect("the first");
                self.write(index);
            }
            while self.readings.first().is_some_and(|at| *at <= self.now) {
                self.readings.pop_first();
                self.read();
            }
            self.drain();
        }
        self.now = self.now.max(end);
        self.drain();
    }

    /// Lives on until nothing is left to do; says whether that was before a true time.
    pub fn run_until_idle(&mut self, by: Instant) -> bool {
        while self.now < by {
            self.readings.clear();
            if self.open.is_empty() && self.wakes.is_empty() {
                return true;
            }
            self.run((self.now + Nanos::from_millis(100)).min(by));
        }
        false
    }

    /// Takes what the machine has to say.
    pub fn drain(&mut self) {
        let clock = self.skew.clock(self.now);
        loop {
            let turned = self.machine.turn(clock, &mut self.ended);
            self.check();
            for (io, end) in std::mem::take(&mut self.ended) {
                self.done(io.submit.tag, &end);
            }
            if let Turned::Wait(at) = turned {
                assert!(at > clock, "it must not ask to come back at once");
                self.wait = at;
                break;
            }
        }
        let cached = self.machine.backend().cache().expect("there is one").dirty();
        let dirty = self.machine.engine().dirty(GroupId::ROOT).device;
        assert_eq!(cached, dirty, "engine and page cache count the same");
    }

    /// The hard limit holds; above a new one, dirty memory only falls.
    fn check(&mut self) {
        let dirty = self.machine.engine().dirty(GroupId::ROOT).device.0;
        // With less memory than a portion touches, one goes in alone.
        let alone = 3 * PAGE;
        let most = self.limit.max(self.dirty).max(alone);
        assert!(dirty <= most, "{dirty} dirty of {} at {:?}", self.limit, self.now);
        self.dirty = dirty;
    }

    fn done(&mut self, tag: Tag, one: &End) {
        let submit = self.open.remove(&tag.0).expect("finished once");
        let len = submit.extent.len().0;
        self.finished += len;
        for word in [self.now.0, tag.0, one.times.pace().0] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
        }
        if submit.task == READER {
            self.readings.insert(self.now + Nanos(THINK));
        }
        let index = submit.task.0 as usize;
        let Some(writer) = self.writers.get_mut(index).filter(|_| submit.op == Op::Write) else {
            return;
        };
        writer.outstanding -= 1;
        writer.bytes += len;
        if writer.block < LARGE {
            self.gap = self.gap.max(self.now.since(writer.finished.max(self.gap_from)));
            self.pause = self.pause.max(one.times.pace());
        }
        writer.finished = self.now;
        if writer.is_running {
            let at = self.now + writer.gap + Nanos(1 + len / COPY);
            self.wake(at, index);
        }
    }

    /// Looks at the world.
    pub fn sample(&mut self) -> Sample {
        let pause = std::mem::take(&mut self.pause);
        let written = self.disk.written(self.now);
        Sample { written, dirty: self.dirty, limit: self.limit, pause }
    }

    /// The longest time without a finished write of a task that writes, from the last call on. Who
    /// writes a lot at once is not looked at.
    pub fn take_gap(&mut self) -> Nanos {
        let running = self.writers.iter().filter(|one| one.is_running && one.block < LARGE);
        let since = |writer: &Writer| self.now.since(writer.finished.max(self.gap_from));
        let open = running.map(since).max().unwrap_or_default();
        self.gap_from = self.now;
        std::mem::take(&mut self.gap).max(open)
    }

    /// Stops all tasks and waits until nothing is left to do and nothing is dirty.
    pub fn end(&mut self, within: Nanos) {
        self.writers.iter_mut().for_each(|writer| writer.is_running = false);
        let by = self.now + within;
        assert!(self.run_until_idle(by), "{} requests do not end", self.open.len());
        assert_eq!(self.submitted, self.finished, "bytes that came and went");
        assert_eq!(self.machine.engine().status().paced_count, 0);
        // What is dirty is due after 30 s.
        let flush_by = self.now + Nanos::from_secs(90);
        self.readings.clear();
        while self.dirty > 0 && self.now < flush_by {
            self.run(self.now + Nanos::from_secs(1));
        }
        assert_eq!(self.dirty, 0, "everything is written back in the end");
        assert_eq!(self.machine.engine().live_count(), 0);
    }
}
