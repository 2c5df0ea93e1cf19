//! Counts, latencies and pressure of every group of random trees, and of the device, beside a plain
//! model that counts each request at every level; groups come and go meanwhile.

use iopace_core::engine::{Config, Control, Engine, Finish, Input, Output};
use iopace_core::group::Settings;
use iopace_core::request::{
    DiskError, Extent, GroupId, Op, Outcome, RequestId, Stage, StageTimes, Submit, Tag, TaskId,
};
use iopace_core::sched::REGISTRY;
use iopace_core::stats::{DirectionStats, Histogram, LogHistogram, OpCounts, SmallHistogram};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_suites::random::Random;
use std::collections::BTreeMap;

/// A group as the model sees it, or the device if it is the root.
#[derive(Default)]
struct Node {
    parent: Option<u32>,
    is_dying: bool,
    counts: OpCounts,
    latency: Histogram,
    by_stage: [SmallHistogram; 5],
    waiting_count: u32,
    flying_count: u32,
    live_count: u32,
    some: Nanos,
    full: Nanos,
}

impl Node {
    fn finish(&mut self, (finish, sync): (&Finish, bool)) {
        self.live_count -= 1;
        let (counts, size) = (&mut self.counts, finish.extent.len());
        let (ios, bytes) = match finish.op {
            Op::Read | Op::Cache => (&mut counts.reads_count, &mut counts.read),
            Op::Write | Op::WriteZeroes => (&mut counts.writes_count, &mut counts.written),
            Op::Trim => (&mut counts.discards_count, &mut counts.discarded),
            Op::Flush => (&mut counts.flushes_count, &mut counts.written),
        };
        *ios += 1;
        match finish.outcome {
            Outcome::Ok => *bytes += size,
            _ => counts.failed_count += 1,
        }
        counts.stages.add(&finish.times);
        if sync {
            self.flying_count -= 1;
            self.latency.record(finish.times.total());
        } else {
            counts.unawaited.add(&finish.times);
        }
        for stage in Stage::ALL {
            let time = finish.times.by_stage(stage);
            if time > Nanos::ZERO {
                self.by_stage[stage as usize].record(time);
            }
        }
    }
}

/// All that a histogram tells.
fn figures<const SUB: usize>(times: Option<&LogHistogram<SUB>>) -> String {
    let Some(times) = times.filter(|times| times.count() > 0) else { return "none".into() };
    let quantiles = [1, 500, 990, 1000].map(|permille| times.quantile(permille));
    format!("{times:?} {} {quantiles:?} {:?}", times.sum(), times.below_powers(1..40))
}

struct World {
    random: Random,
    engine: Engine,
    now: Instant,
    tag: u64,
    nodes: BTreeMap<u32, Node>,
    /// Who pays for a request, and whether a task waits for it.
    live: BTreeMap<u64, (u32, bool)>,
    flying: Vec<RequestId>,
    /// Of the device: reads, writes and flushes.
    directions: [DirectionStats; 3],
    removed_count: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random(seed);
        let base = REGISTRY[random.below(REGISTRY.len() as u64) as usize];
        let (nr_requests, window_depth) = (4 + random.below(40) as u32, 1 + random.below(6) as u32);
        let config = Config { base, nr_requests, window_depth, ..Config::default() };
        let (engine, now, live) = (Engine::new(config), Instant(1), BTreeMap::new());
        let (nodes, flying, directions) =
            (BTreeMap::from([(0, Node::default())]), vec![], <_>::default());
        let (tag, removed_count) = (0, 0);
        World { random, engine, now, tag, nodes, live, flying, directions, removed_count }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 => self.make_group(),
            1 => self.remove_group(),
            2..8 => self.submit(),
            8 => self.write(),
            9..16 => self.complete(),
            _ => self.pass_time(),
        }
        self.drain();
        self.forget();
    }

    /// Calls `each` for a group and all above it.
    fn up(&mut self, id: u32, mut each: impl FnMut(&mut Node)) {
        let mut at = Some(id);
        while let Some(id) = at {
            let node = self.nodes.get_mut(&id).expect("those above are there");
            each(node);
            at = node.parent;
        }
    }

    fn choose(&mut self, may: impl Fn(u32, &Node) -> bool) -> Option<u32> {
        let all = self.nodes.iter().filter(|(id, node)| !node.is_dying && may(**id, node));
        let all: Vec<u32> = all.map(|(id, _)| *id).collect();
        let place = self.random.below(all.len().max(1) as u64) as usize;
        all.get(place).copied()
    }

    fn make_group(&mut self) {
        let parent = self.choose(|_, _| true).expect("the root is there");
        let id = (1..).find(|id| !self.nodes.contains_key(id)).expect("one is free");
        if id > 12 {
            return;
        }
        self.nodes.insert(id, Node { parent: Some(parent), ..Node::default() });
        let control = Control::SetGroup(GroupId(id), GroupId(parent), Settings::default());
        self.engine.control(self.now, control).expect("a group");
    }

    /// One without groups below it, as the daemon does.
    fn remove_group(&mut self) {
        let parents: Vec<u32> = self.nodes.values().filter_map(|node| node.parent).collect();
        let Some(id) = self.choose(|id, _| id > 0 && !parents.contains(&id)) else { return };
        self.nodes.get_mut(&id).expect("chosen").is_dying = true;
        self.removed_count += 1;
        self.engine.control(self.now, Control::RemoveGroup(GroupId(id))).expect("removed");
    }

    fn forget(&mut self) {
        let engine = &self.engine;
        self.nodes.retain(|id, node| {
            let is_over = node.is_dying && node.live_count == 0;
            assert_eq!(engine.is_group_forgotten(GroupId(*id)), is_over, "group {id}");
            !is_over
        });
    }

    fn come(&mut self, sync: bool) -> (Tag, GroupId) {
        let group = self.choose(|_, _| true).expect("the root is there");
        self.up(group, |node| {
            node.live_count += 1;
            node.waiting_count += u32::from(sync);
        });
        self.tag += 1;
        self.live.insert(self.tag, (group, sync));
        (Tag(self.tag), GroupId(group))
    }

    fn extent(&mut self) -> Extent {
        let offset = self.random.below(1 << 14) << 12;
        Extent::new(Bytes(offset), Bytes(4096 << self.random.below(6))).expect("small")
    }

    fn submit(&mut self) {
        const OPS: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Cache, Op::WriteZeroes];
        for _ in 0..=self.random.below(4) {
            let sync = self.random.below(4) > 0;
            let ((tag, group), task) = (self.come(sync), TaskId(self.random.below(5)));
            let op = OPS[self.random.below(6) as usize];
            let extent = if op == Op::Flush { Extent::EMPTY } else { self.extent() };
            let submit = Submit { tag, task, group, op, extent, fua: false, sync };
            self.engine.handle(self.now, Input::Submit(submit));
        }
    }

    /// A buffered write whose pages are void at once: nobody can tell of its write-back.
    fn write(&mut self) {
        let ((tag, group), extent) = (self.come(true), self.extent());
        let dirtied = Input::Dirtied { tag, task: TaskId(7), group, area: extent.into() };
        self.engine.handle(self.now, dirtied);
        self.drain();
        self.engine.handle(self.now, Input::Void(extent.into()));
    }

    fn complete(&mut self) {
        for _ in 0..=self.random.below(3) {
            if self.flying.is_empty() {
                return;
            }
            let place = self.random.below(self.flying.len() as u64) as usize;
            let id = self.flying.swap_remove(place);
            let is_lost = self.random.below(10) == 0;
            let outcome = if is_lost { Outcome::Failed(DiskError::Io) } else { Outcome::Ok };
            self.engine.handle(self.now, Input::Done { id, outcome });
        }
    }

    fn pass_time(&mut self) {
        let power = 10 + self.random.below(24);
        let passed = Nanos(self.random.below(1 << power));
        self.now = self.now + passed;
        for node in self.nodes.values_mut().filter(|node| node.waiting_count > 0) {
            node.some += passed;
            node.full += if node.flying_count == 0 { passed } else { Nanos::ZERO };
        }
        self.engine.handle(self.now, Input::Tick);
    }

    fn starts(&mut self, tag: u64) {
        let (group, sync) = self.live[&tag];
        self.up(group, |node| {
            node.waiting_count -= u32::from(sync);
            node.flying_count += u32::from(sync);
        });
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Start(start) => {
                    self.flying.push(start.id);
                    self.starts(start.tag.0);
                }
                Output::Finish(finish) => self.finished(&finish),
                Output::Resume(resume) => {
                    assert!(resume.last && resume.waited == StageTimes::default());
                    self.starts(resume.tag.0);
                    let (group, _) = self.live.remove(&resume.tag.0).expect("it came");
                    self.up(group, |node| {
                        node.counts.paced_count += 1;
                        node.counts.buffered += resume.extent.len();
                        node.flying_count -= 1;
                        node.live_count -= 1;
                    });
                    self.engine.handle(self.now, Input::Wrote { id: resume.id, ok: true });
                }
                Output::Cleaned(_) | Output::Event(_) => {}
                Output::Wait(..) => return,
            }
        }
    }

    fn finished(&mut self, finish: &Finish) {
        let (group, sync) = self.live.remove(&finish.tag.0).expect("it finishes once");
        self.up(group, |node| node.finish((finish, sync)));
        let place = match finish.op {
            Op::Read | Op::Cache => 0,
            Op::Write | Op::Trim | Op::WriteZeroes => 1,
            Op::Flush => 2,
        };
        let direction = &mut self.directions[place];
        direction.finished_count += 1;
        match finish.outcome {
            Outcome::Ok => direction.bytes += finish.extent.len(),
            _ => direction.failed_count += 1,
        }
        direction.latency.record(finish.times.total());
    }

    fn check(&self) {
        for (id, node) in &self.nodes {
            let (account, _) = self.engine.group(GroupId(*id)).expect("it is known");
            assert_eq!(format!("{:?}", account.counts), format!("{:?}", node.counts), "group {id}");
            assert_eq!(figures(account.latency.as_deref()), figures(Some(&node.latency)));
            for stage in Stage::ALL {
                let mine = figures(Some(&node.by_stage[stage as usize]));
                assert_eq!(figures(account.by_stage.get(stage)), mine, "group {id}: {stage:?}");
            }
            assert_eq!(account.below_count(), node.live_count, "group {id}");
            let pressure = account.pressure.to_string();
            let totals = [node.some, node.full].map(|time| format!("total={}", time.0 / 1_000));
            let told: Vec<&str> =
                pressure.split_whitespace().filter(|word| word.starts_with("t")).collect();
            assert_eq!(told, totals, "group {id}");
        }
        let stats = self.engine.stats();
        let told = [&stats.read, &stats.write, &stats.flush];
        for (told, mine) in told.into_iter().zip(&self.directions) {
            let of = |one: &DirectionStats| (one.finished_count, one.failed_count, one.bytes);
            assert_eq!(of(told), of(mine));
            assert_eq!(figures(Some(&told.latency)), figures(Some(&mine.latency)));
        }
        let root = &self.nodes[&0].counts;
        assert_eq!((stats.stages, stats.paced_count), (root.stages, root.paced_count));
    }
}

#[test]
fn sums_are_those_of_a_model_that_counts_at_every_level() {
    let mut removed_count = 0;
    for seed in 0..30 {
        let mut world = World::new(seed);
        for step in 0..1_500 {
            world.step();
            if step % 16 == 0 {
                world.check();
            }
        }
        world.check();
        removed_count += world.removed_count;
    }
    assert!(removed_count > 1_000, "{removed_count} groups came and went");
}
