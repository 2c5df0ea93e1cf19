//! One host: its engine, its programs and its clock.

use super::agent::{HostAgent, StoreKind};
use super::setup::{Coordination, HostsSetup, Program};
use super::store::{HostNews, StoreAnswer, StoreQuestion};
use super::wishes::LimitWishes;
use crate::random::Random;
use iopace_core::cluster::{
    Allowance, ClusterGroup, DemandMeter, Holder, HostGroup, HostRecord, QueueTerms, look_period,
    own_part,
};
use iopace_core::engine::{Config, Control, Engine, Input, Output, Start};
use iopace_core::group::{Limits, LimitsEnd, Rates, Settings, Weight};
use iopace_core::request::{Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId};
use iopace_core::sched;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::window::{self, HostShare};
use std::mem::replace;
use std::num::NonZeroU64;

/// Most requests of a host at the array, whatever its window.
const DEPTH_MAX: u32 = 256;

/// A clock that goes wrong, with an origin of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostClock {
    origin: u64,
    /// Its nanoseconds in a million of real ones.
    rate: u64,
}

impl HostClock {
    /// Of that rate, with any origin; or wrong by up to a thousandth, as no crystal is.
    pub(super) fn draw(random: &mut Random, rate: Option<u64>) -> HostClock {
        let (origin, drawn) = (random.below(1 << 40), random.between(999_000, 1_001_000));
        HostClock { origin, rate: rate.unwrap_or(drawn) }
    }

    pub(super) fn at(self, now: Instant) -> Instant {
        let since = u128::from(now.0) * u128::from(self.rate) / 1_000_000;
        Instant(self.origin + u64::try_from(since).unwrap_or(u64::MAX >> 1))
    }

    /// The first real instant at which the clock shows `at` or later.
    pub(super) fn real(self, at: Instant) -> Instant {
        if at.is_never() {
            return at;
        }
        let since = u128::from(at.0.saturating_sub(self.origin)) * 1_000_000;
        Instant(u64::try_from(since.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX))
    }
}

/// A program of the host at work.
#[derive(Debug)]
struct Runner {
    program: Program,
    random: Random,
    is_on: bool,
}

/// A request that is done: whose it was, and how long the array took.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostDone {
    pub(super) group: u32,
    pub(super) size: Bytes,
    pub(super) at_disk: Nanos,
}

/// The outputs of one turn of the engine.
#[derive(Debug, Default)]
pub(super) struct HostTurn {
    pub(super) starts: Vec<Start>,
    pub(super) done: Vec<HostDone>,
    /// Programs that go on after a while, by their numbers.
    pub(super) thinking: Vec<(Nanos, usize)>,
    /// When to come back.
    pub(super) again: Option<Instant>,
}

/// The host.
#[derive(Debug)]
pub(super) struct SimHost {
    pub(super) clock: HostClock,
    engine: Engine,
    meter: DemandMeter,
    runners: Vec<Runner>,
    /// The groups that it has, by number, with the weight of each for its scheduler.
    groups: Vec<(u32, Weight, Weight)>,
    region: Extent,
    target: Option<Nanos>,
    /// Its part in the stores, if it has one.
    agent: Option<HostAgent>,
    /// What the limit lets its groups have at present.
    limits: Limits,
    wishes: LimitWishes,
}

impl SimHost {
    /// The host of that number, whose programs read anywhere in that region.
    pub(super) fn new(setup: &HostsSetup, number: usize, region: Extent, seed: u64) -> SimHost {
        let clock = HostClock::draw(
            &mut Random::new(seed, &format!("clock {number}")),
            setup.clock_rates.map(|rates| rates.of_hosts),
        );
        let runner = |(at, program): (usize, &Program)| Runner {
            program: program.clone(),
            random: Random::new(seed, &format!("program {number} {at}")),
            is_on: false,
        };
        let programs = setup.programs.iter().filter(|program| program.host == number);
        let runners: Vec<Runner> = programs.enumerate().map(runner).collect();
        let mut groups: Vec<u32> = runners.iter().map(|runner| runner.program.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let weight = |group: u32| Weight::new(setup.weights[group as usize]).unwrap_or_default();
        let has_groups = groups.len() > 1;
        let agent = || HostAgent::new(number, setup.cell_of(number), setup.limit_terms());
        let groups = groups.into_iter().map(|at| (at, weight(at), weight(at))).collect();
        let mut host = SimHost {
            clock,
            engine: engine(setup, has_groups),
            meter: DemandMeter::default(),
            runners,
            groups,
            region,
            target: setup.target,
            agent: (setup.coordination == Coordination::Together).then(agent),
            limits: Limits::default(),
            wishes: LimitWishes::default(),
        };
        host.begin(setup);
        host
    }

    /// The engine is told of groups, and of other hosts.
    fn begin(&mut self, setup: &HostsSetup) {
        let now = self.clock.at(Instant::ZERO);
        self.engine.handle(now, Input::Tick);
        self.hold_limit(now);
        for (group, weight, _) in self.groups.clone() {
            self.set_weight(now, group, weight);
        }
        if setup.coordination != Coordination::Fixed {
            let sum: u32 = self.groups.iter().map(|(_, weight, _)| weight.get()).sum();
            let weight = Weight::new(sum.clamp(1, 10_000)).unwrap_or_default();
            let share = HostShare::uncoordinated(weight, setup.target);
            self.control(now, Control::HostShare(Some(share)));
        }
        self.turn(now);
    }

    fn control(&mut self, now: Instant, control: Control) {
        self.engine.control(now, control).expect("such a change is never refused");
    }

    fn set_weight(&mut self, now: Instant, group: u32, weight: Weight) {
        let settings = Settings { weight, max: self.limits, ..Settings::default() };
        self.control(now, Control::SetGroup(GroupId(group + 1), GroupId::ROOT, settings));
    }

    /// Programs begin or end, by their numbers on this host.
    pub(super) fn switch(&mut self, now: Instant, runner: usize, is_on: bool) {
        self.runners[runner].is_on = is_on;
        if is_on {
            (0..self.runners[runner].program.depth).for_each(|_| self.submit(now, runner));
        }
    }

    /// The programs of the host.
    pub(super) fn programs(&self) -> impl Iterator<Item = &Program> {
        self.runners.iter().map(|runner| &runner.program)
    }

    /// One more request of a program, unless it has ended.
    pub(super) fn submit(&mut self, now: Instant, at: usize) {
        let Runner { program, random, is_on } = &mut self.runners[at];
        if !*is_on {
            return;
        }
        let blocks = self.region.len().get() / program.block.get();
        let offset = self.region.offset() + Bytes(random.below(blocks) * program.block.get());
        let submit = Submit {
            tag: Tag(at as u64),
            task: TaskId(at as u64 + 1),
            group: GroupId(program.group + 1),
            op: Op::Read,
            extent: Extent::new(offset, program.block).expect("within the volume"),
            fua: false,
            sync: true,
        };
        self.engine.handle(now, Input::Submit(submit));
    }

    /// The array has completed a request.
    pub(super) fn complete(&mut self, now: Instant, id: RequestId) {
        self.engine.handle(now, Input::Done { id, outcome: Outcome::Ok });
    }

    /// Does all that there is to do now.
    pub(super) fn turn(&mut self, now: Instant) -> HostTurn {
        let mut turn = HostTurn::default();
        loop {
            match self.engine.poll(now) {
                Output::Start(start) => turn.starts.push(start),
                Output::Finish(finish) => {
                    let at = finish.tag.0 as usize;
                    let Program { group, block, think, .. } = self.runners[at].program;
                    let at_disk = finish.times.disk;
                    turn.done.push(HostDone { group, size: block, at_disk });
                    self.wishes.had += block;
                    match think {
                        Nanos::ZERO => self.submit(now, at),
                        Nanos(mean) => {
                            let think = self.runners[at].random.between(mean / 2, mean * 3 / 2);
                            turn.thinking.push((Nanos(think), at));
                        }
                    }
                }
                Output::Wait(at, _) => {
                    turn.again = Some(at).filter(|at| !at.is_never());
                    return turn;
                }
                _ => {}
            }
        }
    }

    /// A turn of the host's agent begins with this question; none without a part in a store, and
    /// without a window that knows of others.
    pub(super) fn look(&mut self, now: Instant) -> Option<(StoreKind, StoreQuestion)> {
        self.agent.as_ref()?;
        let record = self.record(now)?;
        let news = HostNews { record, wanted: self.wishes.wanted };
        Some(self.agent.as_mut()?.begin(now, news))
    }

    /// The host's record as of now.
    fn record(&mut self, now: Instant) -> Option<HostRecord> {
        let totals = self.engine.queue_totals()?;
        if let Some(holder) = self.holder() {
            let (allowed, limit) = (holder.allowed(now), holder.terms().limit);
            self.wishes.look(now, allowed, limit);
        }
        let runners = &self.runners;
        let group = |(number, weight, _): &(u32, Weight, Weight)| {
            let is_of = |runner: &&Runner| runner.is_on && runner.program.group == *number;
            HostGroup {
                group: ClusterGroup(*number),
                weight: *weight,
                tasks_count: runners.iter().filter(is_of).count() as u32,
                most: None,
                least: Allowance(0),
                since_start: self.engine.group_use(now, GroupId(number + 1)).unwrap_or_default(),
            }
        };
        let groups: Vec<HostGroup> = self.groups.iter().map(group).collect();
        let mut record = self.meter.look(now, &totals, &groups);
        // A group that a limit holds back would not use more if others had less.
        if self.wishes.is_pressed {
            record.groups.iter_mut().for_each(|group| group.wanted = group.used);
        }
        Some(record)
    }

    /// The store has answered: the next question of the turn; none: it is over.
    pub(super) fn heard(
        &mut self,
        now: Instant,
        answer: StoreAnswer,
    ) -> Option<(StoreKind, StoreQuestion)> {
        let next = self.agent.as_mut()?.heard(now, answer);
        // Less is used before the store knows of it: its answer may take seconds.
        self.hold_limit(now);
        if next.is_none() {
            self.told(now);
        }
        next
    }

    /// The store has not answered: the turn is over.
    pub(super) fn gave_up(&mut self, now: Instant) {
        self.agent.iter_mut().for_each(HostAgent::gave_up);
        self.hold_limit(now);
    }

    fn holder(&self) -> Option<&Holder> {
        self.agent.as_ref()?.holder()
    }

    /// The time until the next turn.
    pub(super) fn period(&self) -> Nanos {
        self.agent.as_ref().map_or(look_period(0), HostAgent::period)
    }

    /// A turn is over: its share by the records of all.
    fn told(&mut self, now: Instant) {
        let Some((records, own)) = self.agent.as_ref().and_then(HostAgent::records) else {
            return;
        };
        let look = look_period(records.len() as u64);
        let terms = QueueTerms { target: self.target, look };
        let part = own_part(&records, own, &terms);
        self.control(now, Control::HostShare(Some(part.share)));
        for new in part.weights {
            let is_new = |(number, _, weight): &&mut (u32, Weight, Weight)| {
                *number == new.group.0 && *weight != new.weight
            };
            if let Some((number, _, weight)) = self.groups.iter_mut().find(is_new) {
                *weight = new.weight;
                let number = *number;
                self.set_weight(now, number, new.weight);
            }
        }
    }

    /// Has the engine go by what the limit lets the host have, and by the end of that.
    fn hold_limit(&mut self, now: Instant) {
        let Some(holder) = self.holder() else { return };
        let rates = |part: Allowance| Rates { bps: NonZeroU64::new(part.0), ..Rates::default() };
        let end = holder.until().filter(|_| holder.has_session(now));
        let then = rates(holder.terms().static_part());
        let limits = Limits {
            sustained: rates(holder.allowed(now)),
            end: end.map(|at| LimitsEnd { at, then }),
            ..Limits::default()
        };
        if replace(&mut self.limits, limits) != limits {
            for (group, _, weight) in self.groups.clone() {
                self.set_weight(now, group, weight);
            }
        }
    }
}

/// The engine of a host; with several groups it has a scheduler that knows weights.
fn engine(setup: &HostsSetup, has_groups: bool) -> Engine {
    let window = match setup.coordination {
        Coordination::Fixed => &window::fixed::POLICY,
        _ => &window::latency::POLICY,
    };
    let fair = sched::find("fair").expect("a scheduler");
    let base = if has_groups { fair } else { &sched::fifo::ALGORITHM };
    Engine::new(Config { base, window, window_depth: DEPTH_MAX, ..Config::default() })
}
