//! A small world: a disk with some servers, and tasks in an open or a closed loop.

use crate::engine::{Config, Control, Engine, Input, Output};
use crate::request::{Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId};
use crate::shadow::Clients;
use crate::stats::Histogram;
use crate::time::Instant;
use crate::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Who asks, and when.
pub(super) struct Load {
    seed: u64,
    count: u64,
    pub(super) servers: usize,
    closed: bool,
    /// The longest time between two requests of an open loop.
    pub(super) gap: u64,
    /// Everything of one group, at an even rate.
    only: Option<GroupId>,
    /// In a closed loop: requests at a time of the task of the root, and that of the group.
    depths: [usize; 2],
}

impl Load {
    pub(super) fn open(seed: u64, count: u64, servers: usize) -> Load {
        Load { seed, count, servers, closed: false, gap: 20_000_000, only: None, depths: [1, 1] }
    }

    pub(super) fn closed(seed: u64, count: u64, servers: usize) -> Load {
        Load { closed: true, ..Load::open(seed, count, servers) }
    }

    /// A closed loop on one server, in which tasks have so many requests at a time.
    pub(super) fn deep(seed: u64, count: u64, depths: [usize; 2]) -> Load {
        Load { depths, ..Load::closed(seed, count, 1) }
    }

    pub(super) fn many(count: u64, group: GroupId) -> Load {
        Load { only: Some(group), ..Load::open(1, count, 1) }
    }

    pub(super) fn clients(&self) -> Clients {
        if self.closed { Clients::Closed } else { Clients::Open }
    }
}

/// The task of a group.
pub(super) fn group_task(group: GroupId) -> TaskId {
    TaskId(u64::from(group.0) * 2 + 1)
}

/// An engine with its disk.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) now: Instant,
    /// All that the engine has said.
    pub(super) log: Vec<String>,
    /// What is told of besides.
    pub(super) events: Vec<String>,
    servers: usize,
    free: Vec<Instant>,
    due: BTreeSet<(Instant, RequestId)>,
    latencies: BTreeMap<GroupId, Histogram>,
    groups: BTreeMap<Tag, (GroupId, TaskId)>,
    finished: Vec<TaskId>,
    stalls: bool,
    /// From this instant on it records, if so.
    pub(super) record_from: Option<Instant>,
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl World {
    pub(super) fn new(servers: usize) -> World {
        let mut engine = Engine::new(Config { window_depth: 8, ..Config::default() });
        let group = Control::SetGroup(GroupId(1), GroupId::ROOT, crate::group::Settings::default());
        engine.control(Instant::ZERO, group).expect("a group");
        while !matches!(engine.poll(Instant::ZERO), Output::Wait(..)) {}
        World {
            engine,
            now: Instant::ZERO,
            log: Vec::new(),
            events: Vec::new(),
            servers,
            free: vec![Instant::ZERO; servers],
            due: BTreeSet::new(),
            latencies: BTreeMap::new(),
            groups: BTreeMap::new(),
            finished: Vec::new(),
            stalls: false,
            record_from: None,
        }
    }

    /// The disk never answers the next request that it gets.
    pub(super) fn stall_first(&mut self) {
        self.stalls = true;
    }

    pub(super) fn control(&mut self, control: Control) {
        self.engine.control(self.now, control).expect("legal");
        let _ = self.drain();
        self.log.clear();
    }

    /// Latencies of a group, live.
    pub(super) fn latency(&self, group: GroupId) -> &Histogram {
        &self.latencies[&group]
    }

    /// Until all is asked for and answered.
    pub(super) fn run(&mut self, load: &Load) {
        let begin = self.now.0;
        let mut arrivals: BTreeSet<(Instant, TaskId, GroupId)> = BTreeSet::new();
        let groups = [GroupId::ROOT, GroupId(1)];
        for (group, depth) in groups.iter().zip(load.depths).filter(|_| load.closed) {
            let first = |number| (Instant(begin + number as u64), group_task(*group), *group);
            arrivals.extend((0..depth).map(first));
        }
        let mut at = begin;
        for number in (0..load.count).filter(|_| !load.closed) {
            // As many for each group, in bursts.
            let group = load.only.unwrap_or(groups[(mixed(number * 3 + load.seed) % 2) as usize]);
            let even = load.only.is_some();
            at += if even { 1_000_000 } else { mixed(number + load.seed) % load.gap };
            arrivals.insert((Instant(at), group_task(group), group));
        }
        let mut asked = 0;
        let mut again = Instant::NEVER;
        loop {
            let due = self.due.first().map_or(Instant::NEVER, |(at, _)| *at);
            let arrival = arrivals.first().map_or(Instant::NEVER, |(at, ..)| *at);
            let next = due.min(arrival).min(again);
            if next.is_never() || (arrivals.is_empty() && self.groups.is_empty()) {
                return;
            }
            self.now = next.max(self.now);
            if self.record_from.take_if(|from| *from <= self.now).is_some() {
                self.engine.control(self.now, Control::Record(Some(4_000))).expect("legal");
            }
            if due == next {
                let (_, id) = self.due.pop_first().expect("it is due");
                self.engine.handle(self.now, Input::Done { id, outcome: Outcome::Ok });
            } else if arrival == next {
                let (_, task, group) = arrivals.pop_first().expect("it comes");
                asked += 1;
                self.submit(asked + load.seed * 1_000_000, task, group);
            }
            again = self.drain();
            for task in std::mem::take(&mut self.finished).into_iter().filter(|_| load.closed) {
                if asked + (arrivals.len() as u64) < load.count {
                    let group = GroupId(u32::try_from((task.0 - 1) / 2).expect("small"));
                    let think = mixed(asked * 7 + task.0) % 2_000_000;
                    arrivals.insert((Instant(self.now.0 + think), task, group));
                }
            }
        }
    }

    /// A request comes.
    pub(super) fn ask(&mut self, number: u64, group: GroupId) {
        self.submit(number, group_task(group), group);
        let _ = self.drain();
    }

    /// That request comes; its task is told of nothing.
    pub(super) fn submit_one(&mut self, submit: Submit) {
        self.groups.insert(submit.tag, (submit.group, submit.task));
        self.engine.handle(self.now, Input::Submit(submit));
        let _ = self.drain();
    }

    /// The disk completes the next of those that it has.
    pub(super) fn answer(&mut self) {
        let (at, id) = self.due.pop_first().expect("it has one");
        self.now = at;
        self.engine.handle(self.now, Input::Done { id, outcome: Outcome::Ok });
        let _ = self.drain();
    }

    fn submit(&mut self, number: u64, task: TaskId, group: GroupId) {
        let extent = Extent::new(Bytes(mixed(number) % (1 << 30)), Bytes(4096)).expect("small");
        let (tag, op) = (Tag(number), Op::Read);
        self.groups.insert(tag, (group, task));
        let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
        self.engine.handle(self.now, Input::Submit(submit));
    }

    fn drain(&mut self) -> Instant {
        loop {
            let output = self.engine.poll(self.now);
            if let Output::Event(event) = &output {
                self.events.push(event.to_string());
            } else {
                self.log.push(format!("{} {output:?}", self.now.0));
            }
            match output {
                Output::Start(start) => {
                    if std::mem::take(&mut self.stalls) {
                        self.groups.remove(&start.tag);
                        continue;
                    }
                    let place = (0..self.servers).min_by_key(|place| self.free[*place]);
                    let place = place.expect("a server");
                    // From 1 to 7 ms, whatever the order.
                    let service = 1_000_000 + mixed(start.extent.offset().get()) % 6_000_000;
                    let at = Instant(self.free[place].max(self.now).0 + service);
                    self.free[place] = at;
                    self.due.insert((at, start.id));
                }
                Output::Finish(finish) => {
                    let (group, task) = self.groups.remove(&finish.tag).expect("it was asked for");
                    let latency = self.latencies.entry(group).or_default();
                    latency.record(finish.times.total());
                    self.finished.push(task);
                }
                Output::Wait(at, _) => return at,
                Output::Resume(_) | Output::Cleaned(_) | Output::Event(_) => {}
            }
        }
    }
}
