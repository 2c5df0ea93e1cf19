//! An engine that is told nonsense in a legal order: groups come, change and go, requests of all
//! sizes come and end in any order, schedulers are exchanged, and the clock stands still or leaps.

mod draw;
mod groups;
mod oracle;

use iopace_core::admit::Mode;
use iopace_core::engine::{Config, Control, Engine, Finish, Input, Output, Start};
use iopace_core::group::{Limits, Settings};
use iopace_core::request::{DiskError, GroupId, Lane, Op, Outcome, RequestId, Submit, TaskId};
use iopace_core::sched::REGISTRY;
use iopace_core::time::{Instant, Nanos};
use iopace_suites::chaos;
use iopace_suites::random::Random;
use oracle::Admission;
use std::collections::BTreeMap;

/// Groups that are there at most, removed ones that have requests included.
const GROUPS_MAX: usize = 40;

/// Requests that are not finished, at most: far below what an engine refuses.
const LIVE_MAX: usize = 600;

/// One life of a group: ids are given again, places in the list of lives are not.
struct Life {
    parent: Option<usize>,
    depth: usize,
    children: usize,
    is_dying: bool,
    /// Its requests and those of all below it that are not finished.
    live: u32,
    settings: Settings,
    /// Slots that it may have: a lower cap revokes nothing.
    allowed: u32,
    history: Vec<(Instant, Limits)>,
    admissions: Vec<Admission>,
}

struct Open {
    submit: Submit,
    life: usize,
    at: Instant,
    is_started: bool,
}

/// What a run did, so that a test that does nothing is seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Did {
    pub finished: u64,
    pub failed: u64,
    pub exchanged: u64,
    pub removed: u64,
    pub removed_busy: u64,
    pub reused: u64,
    pub deepest: usize,
    pub capped: u64,
    pub limited: u64,
}

pub struct Stress {
    seed: u64,
    pub engine: Engine,
    now: Instant,
    /// When the engine wants to be called.
    wake: Instant,
    mode: Mode,
    random: Random,
    lives: Vec<Life>,
    /// Lives by id.
    groups: BTreeMap<u32, usize>,
    open: BTreeMap<u64, Open>,
    flying: Vec<(RequestId, u64)>,
    window_depth: u32,
    slots_allowed: u32,
    tag: u64,
    pub did: Did,
}

impl Stress {
    pub fn new(seed: u64) -> Stress {
        let mut random = Random(seed);
        // The first numbers of a congruence follow the seed.
        (0..4).for_each(|_| _ = random.below(2));
        let mode = if seed % 4 == 3 { Mode::Plain } else { Mode::Guaranteed };
        let (nr_requests, window_depth) =
            (draw::nr_requests(&mut random), draw::depth(&mut random));
        let base = REGISTRY[random.below(REGISTRY.len() as u64) as usize];
        let config = Config { base, nr_requests, window_depth, slots: mode, ..Config::default() };
        let mut stress = Stress {
            seed,
            engine: Engine::new(config),
            now: Instant::ZERO,
            wake: Instant::NEVER,
            mode,
            random,
            lives: Vec::new(),
            groups: BTreeMap::new(),
            open: BTreeMap::new(),
            flying: Vec::new(),
            window_depth,
            slots_allowed: nr_requests,
            tag: 0,
            did: Did::default(),
        };
        stress.enter_group(0, None);
        stress.drain();
        stress
    }

    fn fail(&self, what: &str) -> ! {
        panic!("seed {}, {:?} slots, at {:?}: {what}", self.seed, self.mode, self.now)
    }

    fn check(&self, holds: bool, what: &str) {
        if !holds {
            self.fail(what);
        }
    }

    /// One thing happens, or several at the same instant; then the engine is drained.
    pub fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.submit_some(),
            45..75 => self.complete_some(),
            75..80 => self.set_some_group(),
            80..84 => self.make_group(),
            84..87 => self.remove_group(),
            87..89 => self.exchange(),
            89..90 => self.resize(),
            _ => self.pass_time(),
        }
        self.drain();
        self.forget();
        if self.random.below(8) == 0 {
            self.check_slots();
        }
    }

    // Requests.

    fn submit_some(&mut self) {
        for _ in 0..=self.random.below(12) {
            let live: Vec<u32> = self.alive().map(|(id, _)| id).collect();
            if self.open.len() >= LIVE_MAX {
                return;
            }
            let group = live[self.random.below(live.len() as u64) as usize];
            let task = TaskId(self.random.below(6));
            let submit = draw::submit(&mut self.random, self.tag, task, GroupId(group));
            self.tag += 1;
            let life = self.groups[&group];
            self.up(life, |life| life.live += 1);
            let open = Open { submit, life, at: self.now, is_started: false };
            self.open.insert(submit.tag.0, open);
            self.engine.handle(self.now, Input::Submit(submit));
        }
    }

    fn complete_some(&mut self) {
        for _ in 0..=self.random.below(12) {
            if self.flying.is_empty() {
                return;
            }
            let place = self.random.below(self.flying.len() as u64) as usize;
            let (id, _) = self.flying.swap_remove(place);
            let outcome = match self.random.below(10) {
                0 => Outcome::Failed(DiskError::Io),
                _ => Outcome::Ok,
            };
            self.engine.handle(self.now, Input::Done { id, outcome });
        }
    }

    fn drain(&mut self) {
        loop {
            match self.engine.poll(self.now) {
                Output::Start(start) => self.started(&start),
                Output::Finish(finish) => self.finished(&finish),
                Output::Wait(at, _) => {
                    self.wake = at;
                    break;
                }
                _ => {}
            }
        }
        self.check(self.wake > self.now, "it waits for the past");
        let status = self.engine.status();
        let stands = status.waiting_count + status.queued_count;
        let nobody_calls = self.wake.is_never() && self.flying.is_empty();
        self.check(!(nobody_calls && stands > 0), "something waits and nothing will wake it");
        self.check(self.engine.stats().failed_over_count == 0, "a scheduler has failed");
        self.check(self.engine.live_count() == self.open.len(), "it lost count");
        self.check(status.in_flight_count == self.flying.len(), "it lost count at the disk");
    }

    fn started(&mut self, start: &Start) {
        let Some(open) = self.open.get_mut(&start.tag.0) else {
            self.fail("something was started that is not open");
        };
        let first = !std::mem::replace(&mut open.is_started, true);
        let Submit { op, extent, fua, .. } = open.submit;
        let same = (op, extent, fua) == (start.op, start.extent, start.fua);
        self.check(first && same, "started twice, or as something else");
        self.flying.push((start.id, start.tag.0));
        let fits = self.flying.len() <= self.window_depth as usize;
        self.check(fits, "more at the disk than the window holds");
    }

    fn finished(&mut self, finish: &Finish) {
        let Some(open) = self.open.remove(&finish.tag.0) else {
            self.fail("finished twice, or never submitted");
        };
        self.check(finish.outcome != Outcome::Refused, "refused with room to spare");
        let is_nothing = open.submit.extent.is_empty() && open.submit.op != Op::Flush;
        self.check(open.is_started != is_nothing, "finished, but never started; or for nothing");
        let in_all = finish.times.total() == self.now.since(open.at);
        self.check(in_all, "the stages do not sum to the total");
        let (at, lane) = (open.at + finish.times.admit(), Lane::of(open.submit.op));
        let (bytes, sync) = (open.submit.limit_bytes().get(), open.submit.sync);
        let admission = Admission { at, lane, bytes, sync };
        self.up(open.life, |life| {
            life.live -= 1;
            life.admissions.push(admission);
        });
        self.did.finished += 1;
        self.did.failed += u64::from(finish.outcome != Outcome::Ok);
    }

    // The device.

    fn exchange(&mut self) {
        let algorithm = REGISTRY[self.random.below(REGISTRY.len() as u64) as usize];
        let params = chaos::params(algorithm, &mut self.random, 8);
        let control = match (self.engine.status().inserted, self.random.below(4)) {
            (false, _) => Control::Insert(algorithm, params),
            (true, 0) => Control::Destroy,
            (true, _) => Control::Configure(Some(algorithm), params.changes()),
        };
        self.engine.control(self.now, control).expect("a legal change");
        self.did.exchanged += 1;
    }

    fn resize(&mut self) {
        let (nr_requests, depth) =
            (draw::nr_requests(&mut self.random), draw::depth(&mut self.random));
        self.slots_allowed = nr_requests.max(self.engine.group_slots(GroupId::ROOT).taken_count);
        self.window_depth = depth;
        for control in [Control::Slots(nr_requests), Control::Window(depth)] {
            self.engine.control(self.now, control).expect("a legal change");
        }
    }

    fn pass_time(&mut self) {
        let late = Nanos(self.random.below(2) * self.random.below(50_000_000));
        let until_wake = self.wake.since(self.now);
        let passed = match self.random.below(40) {
            0 => Nanos::from_secs(self.random.below(3 * 3600)),
            1..4 => Nanos::from_millis(self.random.below(10_000)),
            // In time, or late.
            4..24 if until_wake < Nanos::from_secs(3600) => until_wake + late,
            // Too early.
            _ => Nanos(self.random.below(3_000_000)),
        };
        self.now = self.now + passed;
        self.engine.handle(self.now, Input::Tick);
    }

    // What holds.

    fn check_slots(&mut self) {
        let all: Vec<(u32, usize)> = self.groups.iter().map(|(id, life)| (*id, *life)).collect();
        let mut waiting = vec![0; self.lives.len()];
        for (id, life) in &all {
            let own = self.engine.group_slots(GroupId(*id)).waiting_count;
            let mut at = Some(*life);
            while let Some(place) = at {
                waiting[place] += own;
                at = self.lives[place].parent;
            }
        }
        for (id, life) in all {
            let taken = self.engine.group_slots(GroupId(id)).taken_count;
            let Life { live, allowed, settings, .. } = &mut self.lives[life];
            let (fits, adds_up) = (taken <= *allowed, taken + waiting[life] == *live);
            let (before, cap) = (*allowed, settings.slots.max);
            *allowed = before.min(groups::allowed(self.mode, taken, cap));
            if !fits {
                self.fail(&format!("group {id} has {taken} slots, not {before}; cap {cap:?}"));
            }
            if self.mode == Mode::Guaranteed {
                self.check(adds_up, "slots of a group and its waiting do not add up");
            }
        }
        let taken = self.engine.group_slots(GroupId::ROOT).taken_count;
        if self.mode == Mode::Guaranteed {
            self.check(taken <= self.slots_allowed, "more slots are taken than there are");
            self.slots_allowed = taken.max(self.engine.status().nr_requests);
        }
    }

    /// Nothing more is submitted: everything ends, and the engine wants nothing any more.
    pub fn end(&mut self) {
        let (live, groups) = (self.open.len(), self.groups.len());
        let bound = 20 * (live + groups) + 2_000;
        let mut steps = 0;
        while !self.open.is_empty() || !self.wake.is_never() {
            if self.flying.is_empty() {
                self.check(!self.wake.is_never(), "it waits for nothing");
                self.now = self.wake;
                self.engine.handle(self.now, Input::Tick);
            } else {
                self.now = self.now + Nanos(self.random.below(2_000_000));
                self.complete_some();
            }
            self.drain();
            self.forget();
            steps += 1;
            if steps >= bound {
                let (open, wake) = (self.open.len(), self.wake.since(self.now));
                self.fail(&format!("no rest: {live} requests, {open} left, calls in {wake}"));
            }
        }
        self.check_slots();
        self.check(self.engine.group_slots(GroupId::ROOT).taken_count == 0, "slots are left");
        while let Some(&(id, life)) = self.leaves().first() {
            self.lives[life].is_dying = true;
            self.remove(id);
            self.drain();
            self.forget();
            self.check(self.engine.is_group_forgotten(GroupId(id)), "an idle group is kept");
        }
        self.check(self.groups.len() == 1, "a group is left");
        self.check_limits();
    }

    fn check_limits(&mut self) {
        if self.mode == Mode::Plain {
            return;
        }
        for place in 0..self.lives.len() {
            let Life { history, admissions, .. } = &mut self.lives[place];
            // Which of one instant was first is not known; the largest was let in by what is left.
            admissions.sort_by_key(|admission| (admission.at, admission.bytes));
            if let Some(what) = oracle::exceeded(history, admissions) {
                self.fail(&what);
            }
        }
    }
}
