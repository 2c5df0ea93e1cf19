//! A night: a program that is to be done in time, others who come and go, and the controller of
//! [`iopace_core::goal`] between them.
//!
//! # Model
//! A night lasts a hundred seconds here, with 800 ticks until the deadline: the controller counts
//! in ticks, so that a night of eight hours with as many is the same to it. The *program* reads a
//! file of 256 KiB at a time, or small files of 64 KiB anywhere; how much is drawn, from a fifth to
//! more than all of what the disk can read until the deadline, and the controller is told of it
//! with an error of up to 5 %, and of its best rate, as earlier runs would. *Others* are one to
//! four users, each with up to four spells of random reads that come by the clock, and in a third
//! of the nights another job that reads as much as it can for a while.
//!
//! A night is spent with several [`Rule`]s, and once by the others alone. *Slack* is there from the
//! start until more than half of the program's best rate is needed, for a sixteenth more than is
//! expected: nobody knows its size better.

use crate::random::Random;
use crate::run::World;
use crate::scenario::{Chosen, Scenario};
use crate::task::{Arrivals, Process, Task, TaskKind};
use iopace_core::goal::{Controller, Goals, OthersTimes, Push, Seen};
use iopace_core::group::{Class, Limits, Rates, Settings, Weight};
use iopace_core::limits::GROUP_WEIGHT_MAX;
use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::recommended;
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use std::num::NonZeroU64;

/// Length of a tick, and when the deadline is.
const TICK: Nanos = Nanos::from_millis(125);
pub(crate) const DEADLINE: Nanos = Nanos::from_secs(100);

/// Ticks until a program that is late is given up.
const TICKS: u64 = 1_000;

/// The disk, what it reads in sequence, and random reads of 64 KiB a second.
const DISK: &str = "hdd-sata-250g-ncq";
const STREAM: u64 = 70_000_000;
const SMALL_FILES: u64 = 5_000_000;

/// Random reads a second that the disk can do.
const READS_S: u64 = 90;

/// How the program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As everybody else.
    None,
    /// Class idle for all of the night: `ionice -c3`.
    Idle,
    /// With all weight for all of the night: what can be done at all.
    All,
    /// `iopace nice --by`: it finds out what others have alone.
    By,
    /// The same with `--keep-p99`, 1.15 times the others' p99 of the night alone.
    ByAndP99,
}

/// How a night went under a rule.
#[derive(Clone, Debug)]
pub struct Spent {
    /// When the program was done; none if it was given up.
    pub done: Option<Nanos>,
    /// Ticks of the last half of the run, and those with a forecast within a tenth of the run.
    pub forecasts: (u64, u64),
    /// Latency of others until it was done: all of it, and while there was slack.
    pub others: (Box<Histogram>, Box<Histogram>),
    /// The same of others alone at the same ticks.
    pub alone: (Box<Histogram>, Box<Histogram>),
}

impl Spent {
    /// Whether the program was done by the deadline.
    pub fn is_in_time(&self) -> bool {
        self.done.is_some_and(|done| done <= DEADLINE)
    }
}

/// A night as it was drawn.
struct Night {
    scenario: Scenario,
    program: GroupId,
    others: GroupId,
    size: Bytes,
    expected: Bytes,
    /// What the program moves in a second when nobody else is there.
    best: BytesPerSec,
}

/// Spends the night of a seed under each rule.
pub fn spend(seed: u64, rules: &[Rule]) -> Vec<Spent> {
    let night = Night::draw(seed);
    let alone = night.alone();
    let mut all = Histogram::default();
    alone.iter().for_each(|tick| all.merge(tick));
    let p99 = all.quantile(990);
    rules.iter().map(|rule| night.under(*rule, p99, &alone)).collect()
}

impl Night {
    fn draw(seed: u64) -> Night {
        let mut random = Random::new(seed, "night");
        let mut scenario = Scenario::new("a night", DISK);
        scenario.seed = seed;
        (scenario.duration, scenario.warmup) = (TICK.times(TICKS), Nanos::ZERO);
        scenario.scheduler = Some(Chosen::defaults(recommended()));
        let program = scenario.groups.create("/program").expect("a new name");
        let others = scenario.groups.create("/others").expect("a new name");
        let gib = |at: u64| Extent::new(Bytes(at << 30), Bytes(50 << 30)).expect("small");
        let is_stream = random.below(2) == 0;
        let (kind, block, rate) = match is_stream {
            true => (TaskKind::Sequential, Bytes::from_kib(256), STREAM),
            false => (TaskKind::Random, Bytes::from_kib(64), SMALL_FILES),
        };
        let size = Bytes(random.between(rate / 100 * 20, rate / 100 * 110) * 100);
        let expected = Bytes(size.0 * random.between(95, 105) / 100);
        let task = Task::new("program", kind, gib(0));
        scenario.tasks.push(Task { group: program, block, total: Some(size), ..task });
        for user in 0..random.between(1, 4) {
            for spell in 0..random.between(1, 4) {
                let (start, stop) = spell_of(&mut random);
                let name = format!("user-{user}-{spell}");
                let process = Process::Poisson;
                let requests = random.between(2, READS_S / 6);
                let time = Nanos::from_secs(1);
                let arrivals = Some(Arrivals { requests, time, process, is_ceiling: false });
                let task = Task::new(&name, TaskKind::Random, gib(60 + 50 * (user % 2)));
                let block = Bytes::from_kib(random.between(1, 4) * 4);
                let task = Task { group: others, block, arrivals, start, stop, ..task };
                scenario.tasks.push(task);
            }
        }
        if random.below(3) == 0 {
            let (start, stop) = spell_of(&mut random);
            let task = Task::new("job", TaskKind::Sequential, gib(160));
            let block = Bytes::from_kib(256);
            scenario.tasks.push(Task { group: others, block, start, stop, ..task });
        }
        let mut night = Night { scenario, program, others, size, expected, best: BytesPerSec(0) };
        night.best = night.measured();
        night
    }

    /// What the program does alone.
    fn measured(&self) -> BytesPerSec {
        let task = Task { total: None, ..self.scenario.tasks[0].clone() };
        let scenario = Scenario { tasks: vec![task], ..self.scenario.clone() };
        let mut world = World::new(&scenario);
        world.begin();
        world.advance(Instant::ZERO + Nanos::from_secs(4));
        BytesPerSec(self.moved(&world).0 / 4)
    }

    /// What others have when the program is not there: their latency in each tick.
    fn alone(&self) -> Vec<Histogram> {
        let tasks = self.scenario.tasks[1..].to_vec();
        let scenario = Scenario { tasks, ..self.scenario.clone() };
        let mut world = World::new(&scenario);
        world.begin();
        let (mut before, mut ticks) = (Histogram::default(), Vec::new());
        for tick in 1..=TICKS {
            world.advance(Instant::ZERO + TICK.times(tick));
            let latency = self.latency(&world);
            ticks.push(latency.since(&before));
            before = latency;
        }
        ticks
    }

    fn latency(&self, world: &World<'_>) -> Histogram {
        let account = world.machine().engine().group(self.others);
        let latency = account.and_then(|(account, _)| account.latency);
        latency.map_or_else(Histogram::default, |latency| *latency)
    }

    fn moved(&self, world: &World<'_>) -> Bytes {
        let account = world.machine().engine().group(self.program);
        account.map_or(Bytes::ZERO, |(account, _)| account.counts.read)
    }

    fn under(&self, rule: Rule, p99: Nanos, alone: &[Histogram]) -> Spent {
        let goal = Nanos(p99.0 * 115 / 100);
        let by = Some(Instant::ZERO + DEADLINE);
        let mut controller = Controller::new(Goals {
            by,
            limit: None,
            guarded: rule == Rule::ByAndP99,
            best: self.best,
        });
        let mut world = World::new(&self.scenario);
        let mut push = first(rule);
        world.begin();
        world.set_group(Instant::ZERO, self.program, settings(&push));
        let mut spent = Spent {
            done: None,
            forecasts: (0, 0),
            others: Default::default(),
            alone: Default::default(),
        };
        let (mut before, mut left, mut has_slack) = (Histogram::default(), Vec::new(), true);
        for tick in 0..TICKS {
            let now = Instant::ZERO + TICK.times(tick + 1);
            world.advance(now);
            let latency = self.latency(&world);
            let new = latency.since(&before);
            before = latency;
            // Half of what it can do is enough, as far as anybody knows, and was up to now.
            let time_left = DEADLINE.saturating_sub(TICK.times(tick));
            let planned = self.expected + Bytes(self.expected.0 / 16);
            let rest = planned - self.moved(&world);
            has_slack &= self.best.time_for(Bytes(rest.0 * 2)) <= time_left;
            let both = [(&mut spent.others, &new), (&mut spent.alone, &alone[tick as usize])];
            for ((all, slack), of_tick) in both {
                all.merge(of_tick);
                if has_slack {
                    slack.merge(of_tick);
                }
            }
            let moved = self.moved(&world);
            if moved >= self.size {
                spent.done = Some(now.since(Instant::ZERO));
                break;
            }
            if let Rule::By | Rule::ByAndP99 = rule {
                let late_count = if rule == Rule::By { 0 } else { late_count(&new, goal) };
                let (expected, others_count) = (Some(self.expected), new.count());
                let times = &[times(&new)];
                let seen =
                    Seen { moved, expected, others_count, late_count, times, is_blind: false };
                let course = controller.tick(now, &seen);
                left.push(course.left.map(|left| now + left));
                if course.push != push {
                    push = course.push;
                    world.set_group(now, self.program, settings(&push));
                }
            }
        }
        spent.forecasts = judged(&left, spent.done);
        spent
    }
}

/// When somebody is there: from five seconds on, up to half of the night.
fn spell_of(random: &mut Random) -> (Instant, Instant) {
    let seconds = TICK.times(TICKS).0 / 1_000_000_000;
    let start = random.below(seconds - 5);
    let stop = start + random.between(5, seconds / 2);
    (Instant::ZERO + Nanos::from_secs(start), Instant::ZERO + Nanos::from_secs(stop))
}

/// What the program begins with.
fn first(rule: Rule) -> Push {
    let (class, weight) = match rule {
        Rule::None => (Class::BestEffort, Weight::DEFAULT),
        Rule::All => {
            (Class::BestEffort, Weight::new(GROUP_WEIGHT_MAX).expect("the most that is legal"))
        }
        Rule::Idle | Rule::By | Rule::ByAndP99 => (Class::Idle, Weight::DEFAULT),
    };
    Push { class, weight, rate: None }
}

/// The same as the settings of a group.
fn settings(push: &Push) -> Settings {
    let bps = push.rate.and_then(|BytesPerSec(rate)| NonZeroU64::new(rate));
    let sustained = Rates { bps, ..Rates::default() };
    let max = Limits { sustained, ..Limits::default() };
    Settings { class: push.class, weight: push.weight, max, ..Settings::default() }
}

/// What a daemon would tell of them: two quantiles and the longest.
fn times(latency: &Histogram) -> OthersTimes {
    let [p50, p99, max] = [500, 990, 1_000].map(|permille| latency.quantile(permille));
    OthersTimes { count: latency.count(), p50, p99, max }
}

/// Requests that took longer than the goal, to a sixteenth of it.
fn late_count(latency: &Histogram, goal: Nanos) -> u64 {
    let count = latency.count();
    let in_time = (0..=1_000).rev().find(|permille| latency.quantile(*permille) <= goal);
    in_time.map_or(count, |permille| count - count * permille / 1_000)
}

/// Forecasts of the last half of a run, and those within a tenth of its length.
fn judged(forecasts: &[Option<Instant>], done: Option<Nanos>) -> (u64, u64) {
    let Some(done) = done else { return (0, 0) };
    let last = &forecasts[forecasts.len() / 2..];
    let is_near = |end: &Instant| end.since(Instant::ZERO).0.abs_diff(done.0) <= done.0 / 10;
    let near = last.iter().filter(|end| end.as_ref().is_some_and(is_near)).count();
    (last.len() as u64, near as u64)
}
