//! Properties of the shadow, beside a small disk.

mod replays;
mod world;

use super::*;
use crate::group::{Limits, Rates, Weight};
use crate::limits::{SHADOW_GROUPS_STEP, SHADOW_OPEN_MAX};
use crate::request::RequestId;
use crate::sched::{self, Scheduler};
use crate::table::Table;
use core::num::NonZeroU64;
use world::{Load, World, group_task};

const LIMITED: GroupId = GroupId(1);

fn riops(iops: u64) -> Settings {
    let sustained = Rates { riops: NonZeroU64::new(iops), ..Rates::default() };
    Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() }
}

fn tried(settings: Settings, load: &Load) -> World {
    let mut world = World::new(load.servers);
    world.control(Control::Recommend(Some(Plan { clients: load.clients(), ..Plan::default() })));
    world.control(Control::RecommendGroup(LIMITED, Some(settings)));
    world.run(load);
    world
}

fn live(settings: Settings, load: &Load) -> World {
    let mut world = World::new(load.servers);
    world.control(Control::SetGroup(LIMITED, GroupId::ROOT, settings));
    world.run(load);
    world
}

/// What the shadow says of a group: requests served, mean and p99 of their latency.
fn told(world: &World, id: GroupId) -> (u64, u64, u64) {
    let view = world.engine.recommendation().expect("a shadow");
    assert_eq!(view.failed, None);
    let group = &view.report.groups[&id];
    (group.served_count, group.shadow.mean().0, group.shadow.quantile(990).0)
}

fn off_permille(is: u64, was: u64) -> u64 {
    is.abs_diff(was) * 1000 / was.max(1)
}

#[test]
fn p1_the_live_engine_says_the_same() {
    for servers in [1, 4] {
        for load in [Load::open(7, 4_000, servers), Load::closed(5, 4_000, servers)] {
            let mut alone = World::new(servers);
            alone.run(&load);
            let mut beside = World::new(servers);
            let scheduler = sched::find("rr").map(|rr| (rr, rr.defaults()));
            let plan = Plan { scheduler, window_depth: Some(1), ..Plan::default() };
            beside.control(Control::Recommend(Some(plan)));
            beside.control(Control::RecommendGroup(LIMITED, Some(riops(20))));
            beside.run(&load);
            assert!(beside.engine.recommendation().expect("one").report.all.served_count > 100);
            assert!(alone.log == beside.log, "the shadow was noticed");
        }
    }
}

#[test]
fn p2_the_same_settings_delay_nothing() {
    for servers in [1, 4] {
        for load in [Load::open(3, 4_000, servers), Load::closed(11, 4_000, servers)] {
            let world = tried(Settings::default(), &load);
            let view = world.engine.recommendation().expect("a shadow");
            let all = &view.report.all;
            assert_eq!(all.live_count, 4_000);
            assert!(all.served_count >= 3_999 && view.report.missed_count == 0, "{servers}");
            let (late, early) = (all.delays.count(), all.hastened_count);
            assert!(late == 0 && early == 0, "{servers}: {late} late, {early} early");
        }
    }
}

#[test]
fn p3_a_limit_is_told_as_it_is() {
    for (servers, iops) in [(1, 60), (1, 90), (4, 60)] {
        let load = Load::open(9, 6_000, servers);
        let shadow = tried(riops(iops), &load);
        let truth = live(riops(iops), &load);
        let (count, mean, p99) = told(&shadow, LIMITED);
        let was = truth.latency(LIMITED);
        assert_eq!(count, was.count());
        let without = shadow.latency(LIMITED).mean().0;
        assert!(2 * was.mean().0 > 3 * without, "the limit does something");
        assert!(off_permille(mean, was.mean().0) < 20, "{mean} {}", was.mean().0);
        // The histogram itself is exact to a quarter.
        assert!(off_permille(p99, was.quantile(990).0) < 250);
        // The others are not delayed by it.
        let (_, mean, _) = told(&shadow, GroupId::ROOT);
        let was = truth.latency(GroupId::ROOT).mean().0;
        // A disk that serves several at once is not seen to: a little too slow, never too quick.
        let most = if servers == 1 { 20 } else { 100 };
        assert!(off_permille(mean, was) < most, "{servers}: {mean} {was}");
    }
}

#[test]
fn p3_a_scheduler_and_a_weight_are_told_as_they_are() {
    // It keeps the disk busy for nine tenths of the time.
    let mut load = Load::open(4, 6_000, 1);
    load.gap = 8_900_000;
    let scheduler = || sched::find("fair").map(|fair| (fair, fair.defaults()));
    let heavy = Settings { weight: Weight::new(1000).expect("legal"), ..Settings::default() };
    let mut shadow = World::new(1);
    let plan = Plan { scheduler: scheduler(), window_depth: Some(1), ..Plan::default() };
    shadow.control(Control::Recommend(Some(Plan { clients: Clients::Open, ..plan })));
    shadow.control(Control::RecommendGroup(LIMITED, Some(heavy)));
    shadow.run(&load);
    let mut truth = World::new(1);
    let (fair, params) = scheduler().expect("it is there");
    truth.control(Control::Insert(fair, params));
    truth.control(Control::Window(1));
    truth.control(Control::SetGroup(LIMITED, GroupId::ROOT, heavy));
    truth.run(&load);
    for id in [LIMITED, GroupId::ROOT] {
        let (_, mean, _) = told(&shadow, id);
        let (was, without) = (truth.latency(id).mean().0, shadow.latency(id).mean().0);
        assert!(off_permille(mean, was) < 50, "{id:?}: {mean} {was}");
        assert_ne!(was, without, "the scheduler does something");
    }
}

#[test]
fn p4_a_task_that_waits_is_delayed_by_its_own_requests() {
    // It asks for some 250 a second, and may have 50.
    let load = Load::closed(1, 20_000, 1);
    let shadow = tried(riops(50), &load);
    let truth = live(riops(50), &load);
    let (count, mean, _) = told(&shadow, LIMITED);
    let was = truth.latency(LIMITED).mean().0;
    // Live it asks once in so many nanoseconds; a request of the shadow is early by that at most.
    let cycle = shadow.now.0 / 10_000;
    assert!(mean <= was && mean + cycle > was, "{count}: {mean} of {was}, cycle {cycle}");
    let view = shadow.engine.recommendation().expect("a shadow");
    let group = &view.report.groups[&LIMITED];
    let seconds = shadow.now.0 / 1_000_000_000;
    let rate = group.served_count / seconds;
    assert!((45..=55).contains(&rate), "{rate} a second");
    assert!(group.live_count > 2 * group.served_count);
    assert!(view.waiting_count <= 4, "no more than it ever had");
}

/// Panics with the fifth request.
#[derive(Debug, Default)]
struct Broken(sched::fifo::Fifo, u64);

impl Scheduler for Broken {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.1 += 1;
        assert!(self.1 < 5, "broken");
        self.0.push(now, id, table);
    }
    fn pop(&mut self, now: Instant, table: &Table) -> sched::Pop {
        self.0.pop(now, table)
    }
}

static BROKEN: Algorithm =
    Algorithm { name: "broken", build: &|_| Box::new(Broken::default()), ..sched::fifo::ALGORITHM };

static UNBORN: Algorithm = Algorithm {
    name: "unborn",
    build: &|_| panic!("it cannot be built"),
    ..sched::fifo::ALGORITHM
};

static UNBORN_PACE: pace::PacePolicy = pace::PacePolicy {
    name: "unborn",
    build: || panic!("it cannot be built"),
    ..pace::none::POLICY
};

#[test]
fn p5_a_policy_that_fails_ends_the_shadow_only() {
    let load = Load::open(7, 1_000, 1);
    let mut alone = World::new(1);
    alone.run(&load);
    let scheduler = |algorithm: &'static Algorithm| Some((algorithm, algorithm.defaults()));
    let plans = [
        Plan { scheduler: scheduler(&BROKEN), ..Plan::default() },
        Plan { scheduler: scheduler(&UNBORN), ..Plan::default() },
        Plan { pace: Some(&UNBORN_PACE), ..Plan::default() },
    ];
    for plan in plans {
        let mut world = World::new(1);
        world.control(Control::Recommend(Some(plan)));
        world.run(&load);
        let view = world.engine.recommendation().expect("it says why");
        assert!(view.failed.is_some());
        assert!(alone.log == world.log, "the live engine has noticed");
        let why = view.failed.unwrap_or_default();
        let event = format!("recommend mode: what is tried has ended, it {why}");
        assert_eq!(world.events, [event], "told once");
        // And it can be tried again with something else.
        world.control(Control::Recommend(Some(Plan::default())));
        world.run(&load);
        let view = world.engine.recommendation().expect("a shadow");
        assert!(view.failed.is_none() && view.report.all.served_count > 900);
        world.control(Control::Recommend(None));
        assert!(world.engine.recommendation().is_none());
    }
}

#[test]
fn p6_memory_is_bounded() {
    let mut world = World::new(1);
    let plan = Plan { clients: Clients::Open, ..Plan::default() };
    world.control(Control::Recommend(Some(plan)));
    world.control(Control::RecommendGroup(LIMITED, Some(riops(1))));
    // The first request is not answered for an hour; a thousand others a second are.
    world.stall_first();
    let load = Load::many(60_000, LIMITED);
    world.run(&load);
    let shadow = world.engine.shadow().expect("a shadow");
    assert!(shadow.line.len() <= crate::limits::SHADOW_LINE_MAX);
    assert!(shadow.report.missed_count > 0, "left out, and said so");
    assert!(shadow.waiting_count() <= SHADOW_OPEN_MAX);
    assert!(shadow.depths.len() <= 4);
    assert_eq!(group_task(LIMITED).0 % 2, 1);
}

#[test]
fn what_a_former_shadow_followed_is_not_taken_for_ones_own() {
    let mut world = World::new(2);
    let try_it = |world: &mut World| world.control(Control::Recommend(Some(Plan::default())));
    try_it(&mut world);
    world.ask(1, LIMITED);
    world.control(Control::Recommend(None));
    try_it(&mut world);
    world.ask(2, LIMITED);
    world.answer();
    world.answer();
    let view = world.engine.recommendation().expect("a shadow");
    assert_eq!((view.report.all.live_count, view.report.groups[&LIMITED].live_count), (1, 1));
    assert!(world.engine.shadow().expect("a shadow").line.len() <= 1);
}

#[test]
fn many_groups_are_told_a_few_at_a_time() {
    const COUNT: u32 = 1_000;
    let mut world = World::new(1);
    // Each below the one after it, or in the root: a parent may have the larger number.
    for id in (2..COUNT).rev() {
        let parent = if id % 3 == 0 || id + 1 == COUNT { GroupId::ROOT } else { GroupId(id + 1) };
        world.control(Control::SetGroup(GroupId(id), parent, riops(u64::from(id))));
    }
    world.control(Control::Recommend(Some(Plan::default())));
    let known = |world: &World| {
        let shadow = world.engine.shadow().expect("a shadow");
        let engine = shadow.engine.as_ref().expect("it has not failed");
        (0..COUNT).filter(|id| engine.account(GroupId(*id)).is_some()).count()
    };
    let mut last = known(&world);
    let step = SHADOW_GROUPS_STEP as usize;
    assert!(last <= 3 * step, "{last} at once");
    // What changes meanwhile is changed there too.
    world.control(Control::SetGroup(GroupId(COUNT), GroupId(500), riops(7)));
    world.control(Control::RemoveGroup(GroupId(300)));
    for number in 0..40 {
        world.ask(number, LIMITED);
        world.answer();
        assert!(known(&world) <= last + 5 * step, "{} after {last}", known(&world));
        last = known(&world);
    }
    let shadow = world.engine.shadow().expect("a shadow");
    let engine = shadow.engine.as_ref().expect("it has not failed");
    for id in (0..=COUNT).map(GroupId) {
        let of = |engine: &Engine| {
            let groups = engine.groups();
            groups.knows(id).then(|| (groups.parent(id), *groups.settings(id)))
        };
        assert_eq!(of(engine), of(&world.engine), "{id:?}");
    }
    let report = &shadow.report;
    assert!(report.missed_count > 0, "it says what it has not followed");
    assert!(report.all.live_count > 10 && report.all.live_count + report.missed_count == 40);
}

#[test]
fn a_shadow_that_tries_nothing_any_more_ends() {
    let mut world = World::new(1);
    world.control(Control::RecommendGroup(LIMITED, Some(riops(1))));
    assert!(world.engine.recommendation().is_some());
    world.control(Control::RemoveGroup(LIMITED));
    assert!(world.engine.recommendation().is_none(), "its only group is gone");
    let event = "recommend mode: what is tried has ended, it was of a group that is removed";
    assert_eq!(std::mem::take(&mut world.events), [event]);
    world.control(Control::SetGroup(LIMITED, GroupId::ROOT, Settings::default()));
    let plan = Plan { window_depth: Some(1), ..Plan::default() };
    world.control(Control::Recommend(Some(plan)));
    world.control(Control::RecommendGroup(LIMITED, Some(riops(1))));
    world.control(Control::RemoveGroup(LIMITED));
    let view = world.engine.recommendation().expect("the depth is still tried");
    assert!(view.groups.is_empty() && world.events.is_empty());
    // Whoever ends it himself knows.
    world.control(Control::Recommend(None));
    assert!(world.engine.recommendation().is_none() && world.events.is_empty());
}
