//! Time accounting over random histories: limits, groups, all schedulers and their exchanges,
//! flushes, buffered writes of several portions, write-back, failures, and a clock that leaps.

use iopace_core::engine::{
    Config, Control, Engine, Finish, Input, Output, Resume, WaitingNow, WriteId,
};
use iopace_core::group::{Settings, Weight};
use iopace_core::pace::{self, Budget, Thresholds};
use iopace_core::request::{
    Cover, DiskError, Extent, GroupId, Op, Outcome, RequestId, Stage, StageTimes, Submit, Tag,
    TaskId,
};
use iopace_core::sched::REGISTRY;
use iopace_core::stats::{OpCounts, TaskAccount};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;
use iopace_suites::chaos;
use iopace_suites::random::Random;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

const GROUPS: u64 = 5;
const TASKS: u64 = 9;

/// A buffered write at the door.
struct Paced {
    arrived: Instant,
    /// What its portions took until they were in memory.
    writing: Nanos,
    resumed: Instant,
}

struct World {
    seed: u64,
    random: Random,
    engine: Engine,
    now: Instant,
    wake: Instant,
    tag: u64,
    /// When it came, and whether its task waits for it.
    requests: BTreeMap<u64, (Instant, bool)>,
    writes: BTreeMap<u64, Paced>,
    flying: Vec<RequestId>,
    portions: Vec<(WriteId, u64, bool, Bytes)>,
    /// What was said of all that ended, by what the world saw.
    finished: StageTimes,
    /// The same of those that tasks waited for, and how many these are.
    awaited: StageTimes,
    awaited_count: u64,
    paced_count: u64,
    buffered: Bytes,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        (0..4).for_each(|_| _ = random.below(2));
        let base = REGISTRY[random.below(REGISTRY.len() as u64) as usize];
        let memory = Thresholds { background: Bytes(1 << 20), limit: Bytes(4 << 20) };
        let config = Config {
            base,
            nr_requests: [4, 16, 128][random.below(3) as usize],
            window_depth: [1, 2, 8, 64][random.below(4) as usize],
            pace: pace::REGISTRY[random.below(pace::REGISTRY.len() as u64) as usize],
            memory,
            merge_max: Bytes([0, 512 << 10][(seed / 2 % 2) as usize]),
            ..Config::default()
        };
        let mut world = World {
            seed,
            random,
            engine: Engine::new(config),
            now: Instant(1),
            wake: Instant::NEVER,
            tag: 0,
            requests: BTreeMap::new(),
            writes: BTreeMap::new(),
            flying: Vec::new(),
            portions: Vec::new(),
            finished: StageTimes::default(),
            awaited: StageTimes::default(),
            awaited_count: 0,
            paced_count: 0,
            buffered: Bytes::ZERO,
        };
        (1..GROUPS).for_each(|id| world.set_group(id as u32));
        world.drain();
        world
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..30 => self.submit(),
            30..45 => self.write(),
            45..65 => self.complete(),
            65..75 => self.written(),
            75..77 => {
                let id = 1 + self.random.below(GROUPS - 1) as u32;
                self.set_group(id);
            }
            77..79 => self.change(),
            _ => self.pass_time(),
        }
        self.drain();
        self.check_now();
    }

    fn who(&mut self) -> (TaskId, GroupId) {
        (TaskId(self.random.below(TASKS)), GroupId(self.random.below(GROUPS) as u32))
    }

    fn extent(&mut self) -> Extent {
        let offset = self.random.below(1 << 14) << 12;
        Extent::new(Bytes(offset), Bytes(4096 << self.random.below(10))).expect("small")
    }

    /// Whether syncs are of all there is: then no write-back goes before other for one of them.
    fn is_flushed_whole(&self) -> bool {
        self.seed.is_multiple_of(4)
    }

    fn submit(&mut self) {
        for _ in 0..=self.random.below(8) {
            let ((task, group), extent) = (self.who(), self.extent());
            let op =
                [Op::Read, Op::Read, Op::Write, Op::Flush, Op::Trim][self.random.below(5) as usize];
            let (extent, cover) = match op {
                Op::Flush if self.random.below(2) == 0 || self.is_flushed_whole() => {
                    (Extent::EMPTY, Cover::All)
                }
                Op::Flush => (Extent::EMPTY, Cover::Piece(extent.into())),
                _ => (extent, Cover::All),
            };
            let (tag, sync) = (Tag(self.tag), self.random.below(4) > 0);
            self.tag += 1;
            self.requests.insert(tag.0, (self.now, sync));
            let submit = Submit { tag, task, group, op, extent, fua: false, sync };
            let is_flush = op == Op::Flush;
            let input = if is_flush { Input::Flush(submit, cover) } else { Input::Submit(submit) };
            self.engine.handle(self.now, input);
        }
    }

    fn write(&mut self) {
        for _ in 0..=self.random.below(4) {
            let ((task, group), extent) = (self.who(), self.extent());
            let paced = Paced { arrived: self.now, writing: Nanos::ZERO, resumed: self.now };
            self.writes.insert(self.tag, paced);
            let tag = Tag(self.tag);
            self.tag += 1;
            self.engine.handle(self.now, Input::Dirtied { tag, task, group, area: extent.into() });
        }
    }

    fn complete(&mut self) {
        for _ in 0..=self.random.below(6) {
            if self.flying.is_empty() {
                return;
            }
            let place = self.random.below(self.flying.len() as u64) as usize;
            let id = self.flying.swap_remove(place);
            let outcome = match self.random.below(20) {
                0 => Outcome::Failed(DiskError::Io),
                _ => Outcome::Ok,
            };
            self.engine.handle(self.now, Input::Done { id, outcome });
        }
    }

    /// Portions are in memory, or could not be written there.
    fn written(&mut self) {
        let ok = self.random.below(20) > 0;
        for (id, tag, last, size) in std::mem::take(&mut self.portions) {
            let write = self.writes.get_mut(&tag).expect("it was resumed");
            write.writing += self.now.since(write.resumed);
            if last || !ok {
                self.writes.remove(&tag);
                self.paced_count += 1;
            }
            if ok {
                self.buffered += size;
            }
            self.engine.handle(self.now, Input::Wrote { id, ok });
        }
    }

    fn set_group(&mut self, id: u32) {
        let mut settings = Settings::default();
        if self.random.below(2) == 0 {
            let bound = if self.random.below(2) == 0 { 200 } else { 20 };
            settings.max.sustained.iops = NonZeroU64::new(1 + self.random.below(bound));
        }
        if self.random.below(4) == 0 {
            settings.max.sustained.wbps = NonZeroU64::new(1 << (16 + self.random.below(8)));
        }
        settings.weight = Weight::new(1 + self.random.below(500) as u32).expect("legal");
        // Every second one is below the one before it.
        let parent = GroupId(if id.is_multiple_of(2) { id - 1 } else { 0 });
        let control = Control::SetGroup(GroupId(id), parent, settings);
        self.engine.control(self.now, control).expect("legal");
    }

    fn change(&mut self) {
        let algorithm = REGISTRY[self.random.below(REGISTRY.len() as u64) as usize];
        let policy = pace::REGISTRY[self.random.below(pace::REGISTRY.len() as u64) as usize];
        let limit = Bytes(1 << (20 + self.random.below(4)));
        let device = Thresholds { background: Bytes(limit.0 / 2), limit };
        let budget = Budget::alone(device);
        let params = chaos::params(algorithm, &mut self.random, 8);
        let control = match self.random.below(5) {
            0 => Control::Pace(policy),
            1 => Control::Memory(budget),
            2 => Control::Window(1 + self.random.below(16) as u32),
            _ if self.engine.status().inserted => {
                Control::Configure(Some(algorithm), params.changes())
            }
            _ => Control::Insert(algorithm, params),
        };
        self.engine.control(self.now, control).expect("legal");
    }

    fn pass_time(&mut self) {
        let until_wake = self.wake.since(self.now);
        let passed = match self.random.below(8) {
            0 => Nanos::from_millis(self.random.below(2_000)),
            1..4 if until_wake < Nanos::from_secs(60) => until_wake,
            _ => Nanos(self.random.below(4_000_000)),
        };
        self.now = self.now + passed;
        self.engine.handle(self.now, Input::Tick);
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Start(start) => self.flying.push(start.id),
                Output::Finish(finish) => self.finish(&finish),
                Output::Resume(resume) => self.resume(&resume),
                Output::Cleaned(_) | Output::Event(_) => {}
                Output::Wait(at, _) => {
                    self.wake = at;
                    return;
                }
            }
        }
    }

    fn finish(&mut self, finish: &Finish) {
        let (at, sync) = self.requests.remove(&finish.tag.0).expect("it finishes once");
        let (times, seed) = (&finish.times, self.seed);
        let reasons = Reason::ALL.into_iter().map(|reason| times.by_reason(reason).0);
        assert_eq!(reasons.sum::<u64>(), self.now.since(at).0, "seed {seed}: {finish:?}");
        assert_eq!(times.pace(), Nanos::ZERO);
        self.finished.add(times);
        if sync {
            self.awaited.add(times);
            self.awaited_count += 1;
        }
    }

    fn resume(&mut self, resume: &Resume) {
        let write = self.writes.get_mut(&resume.tag.0).expect("it is at the door");
        write.resumed = self.now;
        let waited = self.now.since(write.arrived).saturating_sub(write.writing);
        assert_eq!(resume.waited.total(), waited, "seed {}: {resume:?}", self.seed);
        assert_eq!((resume.paused, resume.waited.pace()), (waited, waited));
        let size = resume.extent.len();
        self.portions.push((resume.id, resume.tag.0, resume.last, size));
    }

    /// Everything stands somewhere, and as many at the disk as there are.
    fn check_now(&mut self) {
        let mut now = WaitingNow::default();
        self.engine.waiting_now(self.now, &mut now);
        let all = now.all();
        let by_reason: u32 = Reason::ALL.into_iter().map(|reason| all.count(reason)).sum();
        assert_eq!((all.total(), by_reason as usize), (by_reason, self.engine.live_count()));
        assert_eq!(all.count(Reason::Idle) as usize, self.portions.len());
        assert!(all.count(Reason::Disk) as usize >= self.flying.len());
        let requests = self.requests.values().map(|(at, _)| *at);
        let times = requests.chain(self.writes.values().map(|write| write.arrived));
        let oldest = times.map(|at| self.now.since(at)).max().unwrap_or(Nanos::ZERO);
        assert!(all.oldest >= oldest, "seed {}: {:?} {oldest}", self.seed, all.oldest);
    }

    /// Nothing more comes: everything ends.
    fn end(&mut self) {
        for _ in 0..100_000 {
            if self.requests.is_empty() && self.writes.is_empty() {
                break;
            }
            match (self.flying.is_empty(), self.portions.is_empty()) {
                (true, true) => {
                    self.now = self.wake.max(self.now);
                    self.engine.handle(self.now, Input::Tick);
                }
                (false, _) => {
                    self.now = self.now + Nanos(self.random.below(2_000_000));
                    self.complete();
                }
                (true, false) => self.written(),
            }
            self.drain();
        }
        assert!(self.requests.is_empty() && self.writes.is_empty(), "seed {}", self.seed);
        while !self.flying.is_empty() {
            self.complete();
            self.drain();
        }
    }

    /// Device, groups and tasks have counted the same, and histograms as much as sums.
    fn check_accounts(&self) -> StageTimes {
        let stats = self.engine.stats();
        let (root, _) = self.engine.group(GroupId::ROOT).expect("the root stays");
        assert_eq!(root.counts.stages, stats.stages);
        let mut tasks = Vec::new();
        self.engine.tasks(Instant::ZERO, &mut tasks);
        let mut sum = StageTimes::default();
        tasks.iter().for_each(|task| sum.add(&task.counts.stages));
        assert_eq!(sum, stats.stages, "seed {}", self.seed);
        let writes = [stats.paced_count, root.counts.paced_count];
        let by_tasks = tasks.iter().map(|task| task.counts.paced_count).sum::<u64>();
        assert_eq!((writes, by_tasks), ([self.paced_count; 2], self.paced_count));
        let buffered = [stats.buffered, root.counts.buffered];
        let by_tasks = tasks.iter().map(|task| task.counts.buffered.get()).sum::<u64>();
        assert_eq!((buffered, by_tasks), ([self.buffered; 2], self.buffered.get()));
        for stage in Stage::ALL {
            let time = stats.stages.by_stage(stage);
            let exact = stats.by_stage.get(stage).map_or(Nanos::ZERO, |times| times.sum());
            let small = root.by_stage.get(stage).map_or(Nanos::ZERO, |times| times.sum());
            assert_eq!((exact, small), (time, time), "seed {}: {stage:?}", self.seed);
        }
        // The rest is write-back, which nobody is told of.
        for reason in Reason::ALL {
            assert!(stats.stages.by_reason(reason) >= self.finished.by_reason(reason));
        }
        self.check_unawaited(&tasks);
        stats.stages
    }

    /// What tasks waited for and what nobody did is all that there is, for every group and task;
    /// and the former is what the latencies and stage pace add up to.
    fn check_unawaited(&self, tasks: &[TaskAccount]) {
        let check = |counts: &OpCounts, latency: Nanos| {
            let awaited = counts.stages.since(&counts.unawaited);
            let mut both = awaited;
            both.add(&counts.unawaited);
            assert_eq!(both, counts.stages, "seed {}: no part is more than the whole", self.seed);
            assert_eq!(awaited.total(), latency + counts.stages.pace(), "seed {}", self.seed);
        };
        for id in 0..GROUPS {
            let Some(account) = self.engine.account(GroupId(id as u32)) else { continue };
            let latency = account.latency.as_ref().map_or(Nanos::ZERO, |latency| latency.sum());
            check(&account.counts, latency);
        }
        let mut unawaited = StageTimes::default();
        for task in tasks {
            check(&task.counts, task.latency.sum());
            unawaited.add(&task.counts.unawaited);
        }
        let root = self.engine.account(GroupId::ROOT).expect("the root stays");
        assert_eq!(unawaited, root.counts.unawaited, "seed {}", self.seed);
        // Beside what was seen to finish there is write-back that a sync waits for.
        let latency_count = root.latency.as_ref().map_or(0, |latency| latency.count());
        let urgent_count = latency_count - self.awaited_count;
        assert_eq!(urgent_count == 0, self.is_flushed_whole(), "seed {}", self.seed);
        let OpCounts { stages, unawaited, .. } = &root.counts;
        let mut seen = self.awaited;
        (seen.dirty, seen.memory) = (stages.dirty, stages.memory);
        seen.pace_budget = stages.pace_budget;
        for reason in Reason::ALL {
            let awaited = stages.by_reason(reason).saturating_sub(unawaited.by_reason(reason));
            let told = seen.by_reason(reason);
            assert!(awaited >= told, "seed {}: {reason:?}", self.seed);
            assert!(awaited == told || urgent_count > 0, "seed {}: {reason:?}", self.seed);
        }
    }
}

#[test]
fn times_sum_exactly_whatever_happens() {
    let mut all = StageTimes::default();
    for seed in 0..60 {
        let mut world = World::new(seed);
        for _ in 0..1_200 {
            world.step();
        }
        world.end();
        all.add(&world.check_accounts());
    }
    for reason in Reason::ALL.into_iter().filter(|reason| *reason != Reason::Idle) {
        assert!(all.by_reason(reason) > Nanos::ZERO, "{reason:?} never happened");
    }
}
