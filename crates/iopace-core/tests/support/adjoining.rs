//! A device whose clients ask for pieces beside each other, upwards, downwards and anywhere, and
//! what commands of several requests have to be.

use iopace_core::engine::{Config, Control, Engine, Finish, Input, Output, Start};
use iopace_core::limits::MERGE_PARTS_MAX;
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::{
    DiskError, Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId,
};
use iopace_core::sched::{Algorithm, REGISTRY};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_suites::random::Random;
use std::collections::BTreeMap;

pub const BLOCK: u64 = 4096;
pub const MAX: Bytes = Bytes(64 << 10);

/// A device whose clients ask for pieces beside each other, upwards, downwards and anywhere.
pub struct World {
    pub engine: Engine,
    random: Random,
    pub now: Instant,
    wake: Instant,
    /// The requests that were submitted and have not finished.
    open: BTreeMap<u64, Submit>,
    tag: u64,
    ahead: [u64; 6],
    /// The command whose parts are being told.
    parts: Vec<Start>,
    /// Commands at the disk.
    commands: Vec<Vec<RequestId>>,
    /// By tag, how each part is to end; write-back has none.
    expected: BTreeMap<u64, Outcome>,
    depth: u32,
    /// How many parts each command of several had.
    pub told: String,
    pub merged_count: u64,
    pub front_count: u64,
    /// The tags of requests that have started.
    started_tags: BTreeMap<RequestId, u64>,
    pub written_back_count: u64,
}

impl World {
    pub fn new(base: &'static Algorithm, seed: u64, merge_max: Bytes) -> World {
        let mut random = Random(seed);
        (0..4).for_each(|_| _ = random.below(2));
        let depth = [1, 2, 8][random.below(3) as usize];
        let memory = Thresholds { background: Bytes(1 << 18), limit: Bytes(1 << 20) };
        let engine = Engine::new(Config {
            base,
            nr_requests: [16, 1024][random.below(2) as usize],
            window_depth: depth,
            window: window::REGISTRY[random.below(3) as usize],
            pace: pace::find("rate").expect("in the registry"),
            memory,
            merge_max,
            rotational: [None, Some(true), Some(false)][random.below(3) as usize],
            ..Config::default()
        });
        World {
            engine,
            random,
            now: Instant(1),
            wake: Instant::NEVER,
            open: BTreeMap::new(),
            tag: 0,
            ahead: [0, 1 << 30, 2 << 30, 3 << 30, 4 << 30, 5 << 30],
            parts: Vec::new(),
            commands: Vec::new(),
            expected: BTreeMap::new(),
            depth,
            told: String::new(),
            merged_count: 0,
            front_count: 0,
            started_tags: BTreeMap::new(),
            written_back_count: 0,
        }
    }

    pub fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.submit(),
            40..45 => self.write(),
            45..80 => self.complete(),
            80..82 => self.exchange(),
            82..83 => {
                let policy = window::REGISTRY[self.random.below(3) as usize];
                self.control(Control::WindowPolicy(policy));
            }
            _ => {
                self.now = self.now + Nanos(self.random.below(3_000_000));
                self.engine.handle(self.now, Input::Tick);
            }
        }
        self.drain();
    }

    fn control(&mut self, control: Control) {
        self.engine.control(self.now, control).expect("legal");
    }

    fn exchange(&mut self) {
        let algorithm = REGISTRY[self.random.below(REGISTRY.len() as u64) as usize];
        let control = match self.engine.status().inserted {
            false => Control::Insert(algorithm, algorithm.defaults()),
            true => Control::Configure(Some(algorithm), algorithm.defaults().changes()),
        };
        self.control(control);
    }

    /// Some requests of one task at one instant.
    fn submit(&mut self) {
        let task = self.random.below(6);
        for _ in 0..=self.random.below(12) {
            if self.open.len() > 400 {
                return;
            }
            let len = BLOCK << self.random.below(3);
            let ahead = &mut self.ahead[task as usize];
            // Two go upwards, two downwards from far away, two anywhere.
            let offset = match task {
                0 | 1 => std::mem::replace(ahead, *ahead + len),
                2 | 3 => {
                    *ahead -= len;
                    *ahead
                }
                _ => self.random.below(64) * BLOCK,
            };
            let op = match self.random.below(40) {
                0 => Op::Flush,
                1 => Op::Trim,
                2..12 => Op::Write,
                _ => Op::Read,
            };
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
            let submit = Submit {
                tag: Tag(self.tag),
                task: TaskId(task),
                group: GroupId::ROOT,
                op,
                extent,
                fua: op == Op::Write && self.random.below(10) == 0,
                sync: self.random.below(10) > 0,
            };
            self.open.insert(self.tag, submit);
            self.tag += 1;
            self.engine.handle(self.now, Input::Submit(submit));
        }
    }

    fn write(&mut self) {
        let (tag, task) = (Tag(u64::MAX - self.tag), TaskId(7));
        self.tag += 1;
        let extent = Extent::new(Bytes((6 << 30) + self.tag * BLOCK), Bytes(16 * BLOCK));
        let area = extent.expect("small").into();
        self.engine.handle(self.now, Input::Dirtied { tag, task, group: GroupId::ROOT, area });
    }

    /// Some commands end; parts of one may end each in its way, as one that is given up alone.
    fn complete(&mut self) {
        for _ in 0..=self.random.below(3) {
            if self.commands.is_empty() {
                return;
            }
            let place = self.random.below(self.commands.len() as u64) as usize;
            let mut parts = self.commands.swap_remove(place);
            let by = self.random.below(parts.len() as u64) as usize;
            parts.rotate_left(by);
            for id in parts {
                let outcome = match self.random.below(10) {
                    0 => Outcome::Failed(DiskError::Io),
                    _ => Outcome::Ok,
                };
                if let Some(tag) = self.started_tags.remove(&id) {
                    self.expected.insert(tag, outcome);
                }
                self.engine.handle(self.now, Input::Done { id, outcome });
            }
        }
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Start(start) => self.started(start),
                Output::Finish(finish) => self.finished(&finish),
                Output::Resume(resume) => {
                    self.engine.handle(self.now, Input::Wrote { id: resume.id, ok: true });
                }
                Output::Cleaned(_) => {}
                Output::Event(event) => {
                    assert!(!format!("{event:?}").contains("Failed"), "{event:?}");
                }
                Output::Wait(at, _) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    fn started(&mut self, start: Start) {
        if !start.write_back {
            let submit = &self.open[&start.tag.0];
            assert_eq!((submit.op, submit.extent), (start.op, start.extent));
            let twice = self.started_tags.insert(start.id, start.tag.0);
            assert_eq!(twice, None, "it starts once");
        }
        self.parts.push(start);
        if !start.more {
            let parts = std::mem::take(&mut self.parts);
            self.check_command(&parts);
            self.commands.push(parts.iter().map(|part| part.id).collect());
        }
    }

    fn check_command(&mut self, parts: &[Start]) {
        let size: u64 = parts.iter().map(|part| part.extent.len().get()).sum();
        if parts.len() == 1 {
            return;
        }
        self.merged_count += parts.len() as u64 - 1;
        self.written_back_count += u64::from(parts[0].write_back);
        assert!(size <= MAX.get() && parts.len() <= MERGE_PARTS_MAX, "{parts:?}");
        for pair in parts.windows(2) {
            let kind = |part: &Start| {
                let sync = self.open.get(&part.tag.0).map(|submit| submit.sync);
                (part.task, part.op, part.write_back, part.space, part.class, sync)
            };
            assert_eq!(kind(&pair[0]), kind(&pair[1]));
            assert_eq!(pair[0].extent.end(), pair[1].extent.offset(), "{parts:?}");
            assert!(matches!(pair[0].op, Op::Read | Op::Write) && !pair[0].fua && !pair[1].fua);
            // A later one before an earlier one.
            self.front_count += u64::from(pair[0].tag > pair[1].tag);
        }
        self.told += &format!("{} ", parts.len());
    }

    fn finished(&mut self, finish: &Finish) {
        if finish.tag.0 > u64::MAX / 2 {
            return;
        }
        let submit = self.open.remove(&finish.tag.0).expect("it finishes once");
        let expected = self.expected.remove(&finish.tag.0).expect("the disk has said so");
        assert_eq!(submit.extent, finish.extent);
        // A flush fails with what it covers, too.
        if submit.op != Op::Flush {
            assert_eq!(finish.outcome, expected);
        }
    }

    /// Nothing more comes: everything ends.
    pub fn end(&mut self) {
        for _ in 0..100_000 {
            if self.open.is_empty() && self.engine.live_count() == 0 {
                return;
            }
            if self.commands.is_empty() {
                self.now = self.wake.max(self.now);
                self.engine.handle(self.now, Input::Tick);
            } else {
                self.complete();
            }
            self.drain();
        }
        panic!("{} are left", self.open.len());
    }

    /// Commands at the disk are within the window, whatever is in them.
    pub fn check_window(&self) {
        let at_disk: usize = self.commands.iter().map(Vec::len).sum();
        assert_eq!(self.engine.status().in_flight_count, at_disk);
        // Flushes are let through one by one as well.
        assert!(self.commands.len() <= self.depth as usize, "{} at the disk", self.commands.len());
    }
}
