//! A world around an engine: closed-loop clients, a disk with a volatile cache, and an oracle that
//! knows what must be durable when.

use crate::random::Random;
use iopace_core::admit::Mode;
use iopace_core::engine::{Config, Control, Engine, Input, Output, Start};
use iopace_core::request::{DiskError, Extent, GroupId, Op, Outcome, Submit, Tag, TaskId};
use iopace_core::sched::Algorithm;
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::{Event, Fault};
use iopace_core::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// After which a host gives a command up: the time-out of SCSI disks under Linux.
const LOST_AFTER: Nanos = Nanos::from_secs(30);

/// How a world behaves.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Draws all that is left to chance.
    pub seed: u64,
    /// Requests of all clients in the run.
    pub requests: u64,
    /// Clients, each of which submits when all of its own requests are done.
    pub clients: u64,
    /// Most requests at the disk.
    pub window_depth: u32,
    /// Slots for requests, see [`Config::nr_requests`].
    pub nr_requests: u32,
    /// Of 1000 commands, how many fail.
    pub fail_permille: u64,
    /// Of 1000 commands, how many the disk loses: they fail when the host gives them up.
    pub lose_permille: u64,
    /// Most bytes of a command of several requests; then the first two clients ask for one piece
    /// after the other.
    pub merge_max: Bytes,
    /// The device says that a flush is done without having flushed.
    pub lies: bool,
}

impl Setup {
    /// Six clients; window, slots, errors and losses follow from the seed.
    pub fn new(seed: u64) -> Setup {
        Setup {
            seed,
            requests: 1_500,
            clients: 6,
            window_depth: [1, 2, 8, 64][(seed % 4) as usize],
            nr_requests: [8, 128][(seed % 2) as usize],
            fail_permille: [0, 30][(seed / 2 % 2) as usize],
            lose_permille: [0, 2][(seed / 4 % 2) as usize],
            merge_max: Bytes::ZERO,
            lies: false,
        }
    }

    /// The same with merging.
    pub fn merging(seed: u64) -> Setup {
        Setup { merge_max: Bytes(512 << 10), ..Setup::new(seed) }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { seed, window_depth, nr_requests, fail_permille, lose_permille, .. } = self;
        write!(f, "seed {seed} (window {window_depth}, {nr_requests} slots")?;
        if *fail_permille > 0 {
            write!(f, ", {fail_permille} of 1,000 commands fail")?;
        }
        if *lose_permille > 0 {
            write!(f, ", {lose_permille} of 1,000 get lost")?;
        }
        if self.merge_max > Bytes::ZERO {
            write!(f, ", merging")?;
        }
        write!(f, ")")
    }
}

/// The findings of the oracle.
#[derive(Debug, Default)]
pub struct Report {
    /// Requests that have finished.
    pub finished: u64,
    /// The faults that the engine found in schedulers, each of which fifo replaced.
    pub faults: Vec<Fault>,
    /// The state of each of these when it was replaced, as text.
    pub dumps: Vec<String>,
    /// Sentences; empty when all is well.
    pub violations: Vec<String>,
    /// Longest time from submission to start.
    pub longest_wait: Nanos,
}

#[derive(Debug)]
struct Open {
    submit: Submit,
    at: Instant,
    started: Instant,
    /// For a flush: the writes that it must cover.
    covers: Vec<u64>,
}

/// A disk with a volatile cache: a write is in the cache when it is done, and durable after a flush
/// that was started later, or at once with FUA.
#[derive(Debug, Default)]
struct Volatile {
    pending: BTreeMap<(Instant, u64), Start>,
    /// Writes done, by tag, and whether they are durable.
    done: BTreeMap<u64, bool>,
    /// For each flush under way: what it will make durable.
    flushing: BTreeMap<u64, Vec<u64>>,
}

/// An engine with its clients, its disk and the oracle.
#[derive(Debug)]
pub struct World {
    /// The engine, for tests that drive it themselves.
    pub engine: Engine,
    /// The time.
    pub now: Instant,
    setup: Setup,
    random: Random,
    disk: Volatile,
    open: BTreeMap<u64, Open>,
    /// When each client submits next.
    due: Vec<Instant>,
    next_tag: u64,
    /// Where the first two clients go on.
    ahead: [u64; 2],
    /// Writes whose finish was given out with success.
    acknowledged: BTreeSet<u64>,
    /// The findings so far.
    pub report: Report,
}

impl World {
    /// Nothing has been submitted yet; `base` schedules until another one is inserted.
    pub fn new(base: &'static Algorithm, setup: Setup) -> World {
        let config = Config {
            base,
            nr_requests: setup.nr_requests,
            window_depth: setup.window_depth,
            slots: Mode::default(),
            merge_max: setup.merge_max,
            ..Config::default()
        };
        World {
            engine: Engine::new(config),
            now: Instant::ZERO,
            setup,
            random: Random(setup.seed),
            disk: Volatile::default(),
            open: BTreeMap::new(),
            due: vec![Instant::ZERO; setup.clients as usize],
            next_tag: 0,
            ahead: [0, 1 << 36],
            acknowledged: BTreeSet::new(),
            report: Report::default(),
        }
    }

    /// Inserts the scheduler under test.
    pub fn insert(&mut self, algorithm: &'static Algorithm) {
        let control = Control::Insert(algorithm, algorithm.defaults());
        self.engine.control(self.now, control).expect("none is inserted");
        self.drain();
    }

    /// Runs until every request has finished; `meddle` is called before each step.
    pub fn run(&mut self, mut meddle: impl FnMut(&mut World)) {
        let mut wake = self.now;
        let limit = Instant(3_600 * 1_000_000_000);
        while self.report.finished < self.setup.requests {
            if self.now >= limit {
                let open = self.open.len();
                return self.violated(format!("{open} requests are not finished after an hour"));
            }
            meddle(self);
            let submitted = self.submit_due();
            let completed = self.complete_due();
            if submitted || completed || wake <= self.now {
                wake = self.drain();
                continue;
            }
            let all_submitted = self.next_tag >= self.setup.requests;
            let due = self.due.iter().copied().min().filter(|_| !all_submitted);
            let done = self.disk.pending.first_key_value().map(|((at, _), _)| *at);
            self.now = [Some(wake), due, done].into_iter().flatten().fold(limit, Instant::min);
        }
        if self.engine.live_count() > 0 {
            self.violated("the engine still holds requests".into());
        }
    }

    /// The oracle finds this.
    pub fn violated(&mut self, what: String) {
        self.report.violations.push(what);
    }

    fn submit_due(&mut self) -> bool {
        let mut any = false;
        for client in 0..self.due.len() {
            if self.due[client] > self.now {
                continue;
            }
            self.due[client] = Instant::NEVER;
            if self.next_tag >= self.setup.requests {
                continue;
            }
            let burst = 1 + self.random.below(4);
            for _ in 0..burst.min(self.setup.requests - self.next_tag) {
                let submit = self.draw(client as u64);
                self.enter(submit);
                any = true;
            }
        }
        any
    }

    /// A request: two of the clients go in sequence, the others anywhere.
    fn draw(&mut self, client: u64) -> Submit {
        let op = match self.random.below(20) {
            0 => Op::Flush,
            1 => Op::Trim,
            2..=8 => Op::Write,
            _ => Op::Read,
        };
        let offset = if client < 2 {
            (client << 36) + self.next_tag * 65_536
        } else {
            self.random.below(1 << 28) * 512
        };
        let mut extent = match op {
            Op::Flush => Extent::EMPTY,
            _ => Extent::new(Bytes(offset), Bytes(512 << self.random.below(8))).expect("small"),
        };
        if self.setup.merge_max > Bytes::ZERO && client < 2 {
            let ahead = &mut self.ahead[client as usize];
            extent = Extent::new(Bytes(*ahead), extent.len()).expect("small");
            *ahead += extent.len().get();
        }
        Submit {
            tag: Tag(self.next_tag),
            task: TaskId(client),
            group: GroupId::ROOT,
            op,
            extent,
            fua: op == Op::Write && self.random.below(6) == 0,
            sync: self.random.below(4) > 0,
        }
    }

    fn enter(&mut self, submit: Submit) {
        self.next_tag += 1;
        let covers = match submit.op {
            Op::Flush => self.acknowledged.iter().copied().collect(),
            _ => Vec::new(),
        };
        let open = Open { submit, at: self.now, started: Instant::NEVER, covers };
        self.open.insert(submit.tag.0, open);
        self.engine.handle(self.now, Input::Submit(submit));
    }

    fn complete_due(&mut self) -> bool {
        let mut any = false;
        while let Some(entry) = self.disk.pending.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let start = entry.remove();
            any = true;
            let is_lost = self.now.since(self.open[&start.tag.0].started) >= LOST_AFTER;
            let fails = is_lost || self.random.below(1000) < self.setup.fail_permille;
            let outcome = if fails { Outcome::Failed(DiskError::Io) } else { Outcome::Ok };
            if !fails {
                self.disk_done(&start);
            }
            self.engine.handle(self.now, Input::Done { id: start.id, outcome });
        }
        any
    }

    fn disk_done(&mut self, start: &Start) {
        match start.op {
            Op::Write => {
                self.disk.done.insert(start.tag.0, start.fua);
            }
            Op::Flush if !self.setup.lies => {
                for tag in self.disk.flushing.remove(&start.tag.0).unwrap_or_default() {
                    self.disk.done.insert(tag, true);
                }
            }
            _ => {}
        }
    }

    /// Carries out all that the engine asks for now. Until when there is nothing more.
    pub fn drain(&mut self) -> Instant {
        loop {
            match self.engine.poll(self.now) {
                Output::Start(start) => self.started(start),
                Output::Finish(finish) => {
                    let total = finish.times.total();
                    self.finished(finish.tag.0, finish.outcome, total);
                }
                Output::Resume(_) | Output::Cleaned(_) => {}
                Output::Event(event) => {
                    if let Event::SchedulerFailed { fault, dump, .. } = *event {
                        self.report.faults.push(fault);
                        self.report.dumps.push(dump);
                    }
                }
                Output::Wait(at, _) => return at,
            }
        }
    }

    fn started(&mut self, start: Start) {
        let Some(open) = self.open.get_mut(&start.tag.0) else {
            return self.violated(format!("{:?} started but is not open", start.tag));
        };
        let same = open.submit.op == start.op
            && open.submit.extent == start.extent
            && open.submit.fua == start.fua;
        open.started = self.now;
        let waited = self.now.since(open.at);
        self.report.longest_wait = self.report.longest_wait.max(waited);
        if !same {
            self.violated(format!("{:?} started as something else", start.tag));
        }
        if start.op == Op::Flush {
            let written = self.disk.done.keys().copied().collect();
            self.disk.flushing.insert(start.tag.0, written);
        }
        let is_lost = self.random.below(1000) < self.setup.lose_permille;
        let service = match is_lost {
            true => LOST_AFTER,
            false => Nanos(100_000 + self.random.below(8_000_000)),
        };
        let twice = self.disk.pending.insert((self.now + service, start.tag.0), start);
        if twice.is_some() {
            self.violated("a request started twice".into());
        }
    }

    fn finished(&mut self, tag: u64, outcome: Outcome, total: Nanos) {
        let Some(open) = self.open.remove(&tag) else {
            return self.violated(format!("request {tag} finished twice, or never was"));
        };
        self.report.finished += 1;
        if total != self.now.since(open.at) {
            self.violated(format!("the stages of request {tag} do not sum to its total"));
        }
        let client = open.submit.task.0 as usize;
        let is_idle = self.open.values().all(|open| open.submit.task.0 as usize != client);
        if is_idle {
            self.due[client] = self.now + Nanos(self.random.below(4_000_000));
        }
        if outcome != Outcome::Ok {
            return;
        }
        let is_durable = |tag: &u64| self.disk.done.get(tag) == Some(&true);
        match open.submit.op {
            Op::Write if open.submit.fua && !is_durable(&tag) => {
                self.violated(format!("FUA write {tag} finished before it was durable"));
            }
            Op::Flush => {
                let missing = open.covers.iter().filter(|tag| !is_durable(tag)).count();
                if missing > 0 {
                    self.violated(format!("flush {tag} left {missing} writes volatile"));
                }
            }
            _ => {}
        }
        if open.submit.op == Op::Write {
            self.acknowledged.insert(tag);
        }
    }
}
