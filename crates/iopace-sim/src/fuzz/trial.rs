//! One scenario put to the test.
//!
//! # Model
//! - *Safety*, over the whole run: nothing panics; every request ends exactly once; no scheduler
//!   fails, and no exchange of one is refused; without faults of the disk no request fails; dirty
//!   memory is never above its limit; no group gets more of the disk than its `io.max`, but for 1 %
//!   and a tenth of a second's worth.
//! - *Liveness*: faults are off from half of the run on. In its last quarter every task gets
//!   something; then nobody submits any more, and what is outstanding ends within five
//!   minutes ([`crate::run::GIVE_UP`]).
//!
//! # Limits
//! Who may starve by design is not looked at in the last quarter: everybody under a scheduler
//! that promises no bound beside a stream, as the plain elevator, which never turns back to leave
//! one; while there is a group of class RT, those that are not in one; and everybody on a disk with
//! a head that chooses among several requests itself. The model of those has no age limit: beside a
//! stream of two requests at once a third may stay in the disk for as long as the stream lasts,
//! whatever the scheduler does. Nor who has an end, and so may have come to it, nor, under one that
//! divides the disk by weight, who has next to none. Limits are checked for what passes the page
//! cache by.

use crate::report::RunReport;
use crate::run::{World, machine};
use crate::scenario::{Change, DEVICE, Scenario};
use crate::tally::BIN;
use crate::task::Task;
use core::num::NonZeroU64;
use iopace_core::group::Class;
use iopace_core::request::GroupId;
use iopace_core::sched::Profile;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::presets;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Looks at dirty memory in a run.
const LOOKS: u64 = 400;

/// The law that everybody who asks gets something.
pub const STARVES: &str = "starves";

/// Where the disk is divided by weight, who is due less than one part in so many may wait for a go
/// longer than a quarter of a run: that is 60 goes on a disk with a head.
const LIGHT: u128 = 40;

/// With less memory than a portion touches, one goes in alone: three pages.
const DIRTY_ALONE: Bytes = Bytes::from_kib(12);

/// What does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which law, in a word; shrinking keeps it.
    pub law: &'static str,
    /// What happened.
    pub text: String,
}

impl Fault {
    fn new(law: &'static str, text: String) -> Fault {
        Fault { law, text }
    }
}

/// Runs a scenario in both phases.
///
/// # Errors
/// The first law that does not hold.
pub fn put(scenario: &Scenario) -> Result<(), Fault> {
    let scenario = Scenario { keeps_timeline: true, ..scenario.clone() };
    let run = AssertUnwindSafe(|| both_phases(&scenario));
    catch_unwind(run).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Fault::new("panic", format!("It panics: {text}")))
    })
}

fn both_phases(scenario: &Scenario) -> Result<(), Fault> {
    let mut made = machine::of(scenario);
    let switch = made.switch.take();
    let mut world = World::on(scenario, made);
    world.begin();
    let end = scenario.duration.0;
    for look in 1..=LOOKS {
        if look == LOOKS / 2 + 1 {
            switch.iter().for_each(|switch| switch.set(false));
        }
        let now = Instant(end / LOOKS * look);
        world.advance(if look == LOOKS { Instant(end) } else { now });
        dirty_is_bounded(scenario, &world, now)?;
    }
    let (report, _) = world.end();
    ends_well(scenario, &report)?;
    limits_hold(scenario, &report)?;
    nobody_starves(scenario, &report)
}

fn dirty_is_bounded(scenario: &Scenario, world: &World<'_>, now: Instant) -> Result<(), Fault> {
    let Some(memory) = scenario.memory else { return Ok(()) };
    let dirty = world.machine().engine().dirty(GroupId::ROOT).device;
    if dirty <= memory.dirty_limit.max(DIRTY_ALONE) {
        return Ok(());
    }
    let (at, limit) = (now.since(Instant::ZERO), memory.dirty_limit);
    Err(Fault::new("dirty", format!("After {at} {dirty} are dirty, the limit is {limit}.")))
}

fn ends_well(scenario: &Scenario, report: &RunReport) -> Result<(), Fault> {
    if report.unfinished > 0 {
        let text = format!("{} requests never ended.", report.unfinished);
        return Err(Fault::new("unfinished", text));
    }
    if report.failed_over > 0 {
        let last = report.events.last().map_or("nothing was said", |event| event.text.as_str());
        return Err(Fault::new("failed-over", format!("A scheduler failed: {last}.")));
    }
    if let Some(event) = report.events.iter().find(|event| event.text.contains(" refused: ")) {
        return Err(Fault::new("refused", format!("{}.", event.text)));
    }
    let failed = report.tasks.iter().find(|(_, task)| task.failed > 0);
    match failed.filter(|_| scenario.faults.is_none()) {
        Some((name, task)) => {
            let text = format!("{} requests of {name} failed on a sound disk.", task.failed);
            Err(Fault::new("failed", text))
        }
        None => Ok(()),
    }
}

/// `(reads, writes)` of a task as far as they pass the cache by: requests, and bytes.
fn moved(task: &Task, report: &RunReport) -> Option<[u64; 2]> {
    let is_known = !task.buffered && task.write_percent.is_multiple_of(100);
    let done = report.tasks.get(&task.name).filter(|_| is_known)?;
    Some([done.ops, done.bytes])
}

fn limits_hold(scenario: &Scenario, report: &RunReport) -> Result<(), Fault> {
    for id in scenario.groups.iter() {
        let rates = scenario.groups.effective(id, DEVICE).max.sustained;
        let tasks: Vec<&Task> = scenario.tasks.iter().filter(|task| task.group == id).collect();
        let sum = |is_wanted: &dyn Fn(&Task) -> bool, which: usize| -> u64 {
            let all = tasks.iter().filter(|task| is_wanted(task));
            all.filter_map(|task| moved(task, report)).map(|moved| moved[which]).sum()
        };
        let (reads, writes) = (|t: &Task| t.write_percent == 0, |t: &Task| t.write_percent == 100);
        let laws = [
            ("riops", rates.riops, sum(&reads, 0)),
            ("wiops", rates.wiops, sum(&writes, 0)),
            ("iops", rates.iops, sum(&|_| true, 0)),
            ("rbps", rates.rbps, sum(&reads, 1)),
            ("wbps", rates.wbps, sum(&writes, 1)),
            ("bps", rates.bps, sum(&|_| true, 1)),
        ];
        let one = tasks.iter().map(|task| task.block.0).max().unwrap_or(0);
        for (key, limit, got) in laws {
            let most = limit.map(|limit| most(limit, scenario.duration, key.ends_with("bps"), one));
            if most.is_some_and(|most| got > most) {
                let (path, time) = (scenario.groups.path(id), scenario.duration);
                let limit = limit.map_or(0, NonZeroU64::get);
                let text = format!("{path} got {got} in {time} with {key}={limit}.");
                return Err(Fault::new("limit", text));
            }
        }
    }
    Ok(())
}

/// What a limit lets pass in that time, with its tolerance and one request more.
fn most(limit: NonZeroU64, time: Nanos, is_bytes: bool, one: u64) -> u64 {
    let limit = u128::from(limit.get());
    let long = limit * u128::from(time.0) * 101 / 100 / 1_000_000_000;
    let one = if is_bytes { one } else { 1 };
    u64::try_from(long + limit / 10).unwrap_or(u64::MAX).saturating_add(one)
}

fn nobody_starves(scenario: &Scenario, report: &RunReport) -> Result<(), Fault> {
    let last = at_the_end(scenario);
    if last.stream_wait.is_none() || chooses_itself(scenario) {
        return Ok(());
    }
    // At its level of the tree a group of that class goes before its siblings, with all below it.
    let is_rt = |group| {
        let groups = &scenario.groups;
        let all = std::iter::successors(Some(group), |id| groups.parent(*id));
        { all }.any(|id| groups.effective(id, DEVICE).class == Class::RealTime)
    };
    let has_rt = scenario.tasks.iter().any(|task| is_rt(task.group));
    let from = scenario.duration.0 / 4 * 3;
    let first = usize::try_from(from / BIN.0).expect("a short run");
    for task in &scenario.tasks {
        let is_asking = task.start.0 <= from && task.stop.0 >= scenario.duration.0;
        let is_asking = is_asking && task.total.is_none();
        let is_light = last.divides && is_light(scenario, task.group);
        if !is_asking || is_light || (has_rt && !is_rt(task.group)) {
            continue;
        }
        let timeline = report.tasks.get(&task.name).map(|task| task.timeline.as_slice());
        let got: u64 = timeline.unwrap_or(&[]).iter().skip(first).sum();
        if got == 0 {
            let (name, time) = (&task.name, Nanos(scenario.duration.0 - from));
            let text = format!("{name} gets nothing for the last {time}, on a sound disk.");
            return Err(Fault::new(STARVES, text));
        }
    }
    Ok(())
}

/// Whether the disk has a head and more than one request to choose from.
fn chooses_itself(scenario: &Scenario) -> bool {
    let Some(preset) = presets::find(&scenario.disk) else { return false };
    let depth = scenario.window_depth.unwrap_or(u32::MAX).min((preset.build)().depth());
    preset.model == "hdd" && depth > 1
}

/// Whether the weights of a group and of those above it give it so little that a go of 100 ms on a
/// disk with a head is not due to each of its tasks in a quarter of the run.
fn is_light(scenario: &Scenario, group: GroupId) -> bool {
    let groups = &scenario.groups;
    let weight = |id: GroupId| u64::from(groups.effective(id, DEVICE).weight.get());
    let tasks = |id: GroupId| scenario.tasks.iter().filter(|task| task.group == id).count() as u64;
    let below = |id: GroupId| -> u64 {
        let children = groups.iter().filter(|&child| groups.parent(child) == Some(id));
        children.map(weight).sum::<u64>() + 100 * tasks(id)
    };
    let (mut part, mut all, mut at) = (100, u128::from(below(group)), group);
    while let Some(parent) = groups.parent(at) {
        part *= u128::from(weight(at));
        all *= u128::from(below(parent));
        at = parent;
    }
    part * LIGHT < all
}

/// What the scheduler promises that is in at the end of a scenario.
fn at_the_end(scenario: &Scenario) -> Profile {
    let mut last = scenario.scheduler.as_ref().map_or(scenario.base, |chosen| chosen.algorithm);
    for step in &scenario.steps {
        last = match &step.change {
            Change::Insert(chosen) | Change::Configure(chosen) => chosen.algorithm,
            Change::Destroy => scenario.base,
            _ => continue,
        };
    }
    last.profile
}
