//! Whether a shadow tells the truth: what it says beside a live engine without a policy is compared
//! with what the policy does when it is live, on the disk models, in an open loop.
//!
//! `cargo test -p iopace-disk --test shadow -- --nocapture` prints the figures.

use iopace_core::engine::{Config, Control};
use iopace_core::group::{Limits, Rates, Settings};
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::shadow::{Clients, Plan};
use iopace_core::stats::Histogram;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_core::{sched, window};
use iopace_disk::modelled::{Io, Machine, Modelled};
use iopace_disk::page_cache::PageCacheConfig;
use iopace_disk::presets;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// Readers and writers have a group each.
const READERS: GroupId = GroupId(1);
const WRITERS: GroupId = GroupId(2);
const SECONDS: u64 = 30;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((u128::from(self.0 >> 11) * u128::from(bound)) >> 53) as u64
    }
}

/// What comes, and when: the same for the shadow and for the truth.
fn arrivals(reads: u64, writes: u64, write_len: u64) -> Vec<(u64, Submit)> {
    let mut numbers = Numbers(11);
    let mut all = Vec::new();
    for (group, per_second, len) in [(READERS, reads, 4096), (WRITERS, writes, write_len)] {
        let mut at = 0;
        while per_second > 0 && at < SECONDS * 1_000_000_000 {
            at += numbers.below(2_000_000_000 / per_second);
            let offset = numbers.below(1 << 26) * 4096 % (60 << 30);
            let op = if group == READERS { Op::Read } else { Op::Write };
            let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
            let task = TaskId(u64::from(group.0) * 10 + numbers.below(4));
            let (tag, fua, sync) = (Tag(0), false, true);
            all.push((at, Submit { tag, task, group, op, extent, fua, sync }));
        }
    }
    all.sort_by_key(|(at, submit)| (*at, submit.group));
    all
}

struct Run {
    machine: Machine,
    latencies: BTreeMap<GroupId, Histogram>,
}

impl Run {
    fn of(model: &str, buffered: bool, controls: Vec<Control>, arrivals: &[(u64, Submit)]) -> Run {
        let disk = (presets::find(model).expect("a preset").build)();
        let limit = Bytes::from_mib(32);
        let memory = Thresholds { background: Bytes(limit.get() / 2), limit };
        let size = Bytes::from_mib(256);
        let cache = buffered.then_some(PageCacheConfig { memory: size, drop_behind: false });
        let config = Config { memory, ..Config::default() };
        let mut run =
            Run { machine: Modelled::pump(config, cache, disk), latencies: BTreeMap::new() };
        for group in [READERS, WRITERS] {
            let set = Control::SetGroup(group, GroupId::ROOT, Settings::default());
            run.control(set);
        }
        controls.into_iter().for_each(|control| run.control(control));
        run.through(arrivals, buffered);
        run
    }

    fn control(&mut self, control: Control) {
        self.machine.control(Instant::ZERO, control).expect("legal");
        self.machine.drain(Instant::ZERO, &mut Vec::new(), |_| {});
    }

    fn through(&mut self, arrivals: &[(u64, Submit)], buffered: bool) {
        let (mut next, mut ended) = (0, 0);
        let (mut again, mut done) = (Instant::NEVER, Vec::new());
        while ended < arrivals.len() {
            let arrival = arrivals.get(next).map_or(Instant::NEVER, |(at, _)| Instant(*at));
            let now = arrival.min(again);
            assert!(!now.is_never(), "it goes on");
            if arrival == now {
                let submit = Submit { tag: Tag(next as u64), ..arrivals[next].1 };
                self.machine.submit(now, Io { submit, buffered }, &mut done);
                next += 1;
            }
            again = self.machine.drain(now, &mut done, |_| {});
            for (io, end) in done.drain(..) {
                self.latencies.entry(io.submit.group).or_default().record(end.times.total());
                ended += 1;
            }
        }
    }

    /// What the shadow says of the mean latency of a group, in microseconds.
    fn told(&self, group: GroupId) -> u64 {
        let view = self.machine.engine().recommendation().expect("a shadow");
        assert_eq!((view.failed, view.report.missed_count), (None, 0));
        view.report.groups[&group].shadow.mean().0 / 1000
    }

    fn was(&self, group: GroupId) -> u64 {
        self.latencies[&group].mean().0 / 1000
    }
}

/// Mean latencies in microseconds of a group: without the policy, with it as the shadow says, and
/// with it.
fn compared(
    what: &str,
    model: &str,
    buffered: bool,
    (plan, limits): (Plan, Option<Settings>),
    arrivals: &[(u64, Submit)],
    group: GroupId,
) -> (u64, u64, u64) {
    let mut live = Vec::new();
    if let Some((algorithm, params)) = &plan.scheduler {
        live.push(Control::Insert(algorithm, params.clone()));
    }
    live.extend(plan.pace.map(Control::Pace));
    live.extend(plan.window.map(Control::WindowPolicy));
    live.extend(plan.window_depth.map(Control::Window));
    live.extend(limits.map(|limits| Control::SetGroup(WRITERS, GroupId::ROOT, limits)));
    let mut shadow =
        vec![Control::Recommend(Some(Plan { clients: Clients::Open, ..plan.clone() }))];
    shadow.extend(limits.map(|limits| Control::RecommendGroup(WRITERS, Some(limits))));
    let told = Run::of(model, buffered, shadow, arrivals);
    let truth = Run::of(model, buffered, live, arrivals);
    let figures = (told.was(group), told.told(group), truth.was(group));
    println!("{what}, {group:?}: without {}, told {}, was {} us", figures.0, figures.1, figures.2);
    figures
}

fn off_permille(told: u64, was: u64) -> u64 {
    told.abs_diff(was) * 1000 / was.max(1)
}

#[test]
fn a_limit_of_direct_writes() {
    let all = arrivals(20, 20, 65_536);
    let sustained = Rates { wbps: NonZeroU64::new(1_500_000), ..Rates::default() };
    let limits = Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() };
    for model in ["hdd-sata-250g", "ssd-nvme"] {
        let (without, told, was) =
            compared(model, model, false, (Plan::default(), Some(limits)), &all, WRITERS);
        assert!(was > 2 * without && off_permille(told, was) < 50);
    }
}

#[test]
fn a_limit_of_buffered_writes() {
    let all = arrivals(5, 20, 65_536);
    let sustained = Rates { wbps: NonZeroU64::new(1_500_000), ..Rates::default() };
    let limits = Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() };
    let rate = pace::find("rate");
    let plan = Plan { pace: rate, ..Plan::default() };
    let (without, told, was) =
        compared("limit", "hdd-sata-250g", true, (plan, Some(limits)), &all, WRITERS);
    assert!(was > 2 * without && off_permille(told, was) < 50);
}

#[test]
fn a_policy_of_stage_pace() {
    let all = arrivals(5, 60, 262_144);
    let plan = Plan { pace: pace::find("rate"), ..Plan::default() };
    let (without, told, was) = compared("rate", "hdd-sata-250g", true, (plan, None), &all, WRITERS);
    // It delays nobody here; the shadow, which does not know write-back yet, some at first.
    assert!(without == 0 && was == 0 && told < 5_000);
}

#[test]
fn a_scheduler_and_a_window() {
    let all = arrivals(40, 40, 65_536);
    let deadline = sched::find("deadline").map(|found| (found, found.defaults()));
    let plan = Plan { scheduler: deadline, window_depth: Some(1), ..Plan::default() };
    for group in [READERS, WRITERS] {
        let (_, told, was) =
            compared("deadline", "hdd-sata-250g", false, (plan.clone(), None), &all, group);
        // Which seeks another order saves is not told.
        assert!(off_permille(told, was) < 250);
    }
    let plan = Plan { window: window::find("latency"), ..Plan::default() };
    let all = arrivals(20, 20, 65_536);
    let (without, told, was) =
        compared("latency", "hdd-sata-250g", true, (plan, None), &all, READERS);
    assert!(told > without && was > without && off_permille(told, was) < 200);
}
