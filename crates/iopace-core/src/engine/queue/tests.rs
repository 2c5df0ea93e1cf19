//! The queue without an engine, and without memory.

use super::*;
use crate::engine::touched::Touched;
use crate::flush::Owner;
use crate::group::{Limits, Rates, Settings};
use crate::request::{Extent, Tag, TaskId};
use crate::sched::deadline;
use core::num::NonZeroU64;

const LIMITED: GroupId = GroupId(1);

struct World {
    queue: Queue,
    cx: Context,
}

impl World {
    fn new(window_depth: u32) -> World {
        let config = Config { window_depth, ..Config::default() };
        World { queue: Queue::new(&config), cx: Context::new(true) }
    }

    /// One request a second may go on, and its group's bucket is empty after the first.
    fn limited(mut self) -> World {
        let sustained = Rates { wiops: NonZeroU64::new(1), ..Rates::default() };
        let max = Limits { sustained, ..Limits::default() };
        let settings = Settings { max, ..Settings::default() };
        self.cx.groups.table.set(LIMITED, GroupId::ROOT, &settings);
        let touched = Touched { pace: true, admit: true, sched: true, target: true };
        self.queue.set_group(&mut self.cx, &touched, LIMITED);
        self
    }

    fn enter(&mut self, submit: &Submit) -> RequestId {
        self.queue.enter(&mut self.cx, submit, |_| {})
    }

    fn enter_run(&mut self, offset: u64) -> (RequestId, Run) {
        let submit = Submit { sync: false, ..submit(LIMITED, Op::Write, offset) };
        let owner = Owner { task: submit.task, group: LIMITED };
        let run = Run { owner, area: submit.extent.into(), is_urgent: false };
        (self.queue.enter(&mut self.cx, &submit, |entry| entry.run = Some(run)), run)
    }

    /// The request that goes to the device next, if one does.
    fn start(&mut self) -> Option<Start> {
        match self.queue.dispatch(&mut self.cx) {
            Some(Dispatch::Start(id)) => Some(self.queue.start(&mut self.cx, id)),
            _ => None,
        }
    }

    /// Why nothing does.
    fn reason(&mut self) -> Reason {
        match self.queue.dispatch(&mut self.cx) {
            Some(Dispatch::Wait(_, reason)) => reason,
            _ => panic!("something goes"),
        }
    }

    fn complete(&mut self, id: RequestId) -> Option<(Run, bool)> {
        self.queue.complete(&mut self.cx, id, Outcome::Ok)
    }

    fn admit(&mut self) -> Vec<Admitted> {
        let mut told = Vec::new();
        self.queue.admit_waiting(&mut self.cx, &mut |admitted| told.push(admitted));
        told
    }
}

fn submit(group: GroupId, op: Op, offset: u64) -> Submit {
    let len = if op == Op::Flush { 0 } else { 4096 };
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
    Submit { tag: Tag(offset), task: TaskId(1), group, op, extent, fua: false, sync: true }
}

#[test]
fn a_request_goes_through_and_its_times_sum_to_its_total() {
    let mut world = World::new(1);
    let id = world.enter(&submit(GroupId::ROOT, Op::Read, 0));
    assert_eq!(world.start().map(|start| start.id), Some(id));
    world.enter(&submit(GroupId::ROOT, Op::Read, 4096));
    assert_eq!(world.reason(), Reason::Window);
    assert!(world.queue.rests(&mut world.cx, Reason::Window));
    world.cx.now = Instant(70);
    world.queue.passed(Nanos(70));
    assert_eq!(world.complete(id), None, "no write-back has ended");
    let second = world.start().expect("there is room");
    world.cx.now = Instant(100);
    world.complete(second.id);
    let times = std::iter::from_fn(|| world.queue.take_finish(&mut world.cx))
        .map(|finish| (finish.times.window.0, finish.times.total().0));
    assert_eq!(times.collect::<Vec<_>>(), [(0, 70), (70, 100)]);
    assert_eq!((world.queue.live_count(), world.reason()), (0, Reason::Idle));
}

#[test]
fn a_flush_starts_before_all_that_is_queued() {
    let mut world = World::new(1);
    let first = world.enter(&submit(GroupId::ROOT, Op::Read, 0));
    assert!(world.start().is_some());
    world.enter(&submit(GroupId::ROOT, Op::Read, 4096));
    let flush = world.enter(&submit(GroupId::ROOT, Op::Flush, 0));
    world.complete(first);
    assert_eq!(world.start().map(|start| start.id), Some(flush));
}

#[test]
fn an_exchange_keeps_what_is_queued_and_touches_nothing_in_flight() {
    let mut world = World::new(1);
    let ids: Vec<_> =
        (0..4).map(|at| world.enter(&submit(GroupId::ROOT, Op::Read, at * 4096))).collect();
    assert!(world.start().is_some());
    let deadline = &deadline::ALGORITHM;
    world.queue.insert(&mut world.cx, deadline, deadline.defaults()).expect("none is inserted");
    let again = world.queue.insert(&mut world.cx, deadline, deadline.defaults());
    assert!(again.is_err(), "one is inserted");
    world.complete(ids[0]);
    for id in &ids[1..] {
        assert_eq!(world.start().map(|start| start.id), Some(*id));
        world.complete(*id);
    }
    assert_eq!(world.queue.live_count(), 0);
}

#[test]
fn write_back_of_a_limited_group_waits_and_memory_is_told_when_it_goes_on() {
    let mut world = World::new(8).limited();
    let (first, run) = world.enter_run(0);
    let (second, _) = world.enter_run(4096);
    assert!(!world.queue.is_closed(&world.cx, LIMITED));
    let told: Vec<_> = world.admit().into_iter().map(|admitted| admitted.run).collect();
    assert_eq!(told, [Some((first, LIMITED, Bytes(4096)))], "its limit is used up");
    assert!(world.queue.is_closed(&world.cx, LIMITED) && world.queue.is_waiting(second));
    assert_eq!(world.start().map(|start| (start.id, start.write_back)), Some((first, true)));
    assert_eq!(world.complete(first), Some((run, true)));
    assert!(world.cx.outputs.is_empty(), "nobody is told of the end of write-back");
    world.cx.now = world.queue.next();
    assert!(!world.cx.now.is_never() && world.cx.now > Instant::ZERO);
    let told: Vec<_> = world.admit().into_iter().map(|admitted| admitted.run).collect();
    assert_eq!(told, [Some((second, LIMITED, Bytes(4096)))]);
    assert_eq!(world.start().map(|start| start.id), Some(second));
}

#[test]
fn an_operation_of_no_bytes_ends_with_its_slot() {
    let mut world = World::new(1);
    let extent = Extent::new(Bytes(0), Bytes(0)).expect("empty");
    world.enter(&Submit { extent, ..submit(GroupId::ROOT, Op::Write, 0) });
    assert!(world.queue.take_finish(&mut world.cx).is_some());
    assert_eq!((world.queue.live_count(), world.start().is_none()), (0, true));
}

#[test]
fn reads_are_seen_and_write_back_and_flushes_are_not() {
    let mut world = World::new(8);
    world.enter_run(0);
    world.enter(&submit(GroupId::ROOT, Op::Flush, 0));
    while world.start().is_some() {}
    assert_eq!(world.queue.read_at(), None);
    world.cx.now = Instant(5);
    world.enter(&submit(GroupId::ROOT, Op::Read, 0));
    assert!(world.start().is_some());
    assert_eq!(world.queue.read_at(), Some(Instant(5)));
}
