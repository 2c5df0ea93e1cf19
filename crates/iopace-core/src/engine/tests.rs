mod audit;
mod groups;
mod memory;
mod nothing;
mod parked;
mod times;
mod totals;

use super::*;
use crate::limits::SCHEDULER_STALL;
use crate::pace::Thresholds;
use crate::request::{DiskError, Extent, GroupId, Tag, TaskId};
use crate::sched::{self, Algorithm, Changes, Pop, Profile, Scheduler, fifo};
use crate::table::Table;
use crate::time::Nanos;
use crate::trace::{Event, Fault};
use crate::units::Bytes;
use std::panic::resume_unwind;

fn submit(tag: u64, op: Op, offset: u64) -> Submit {
    let len = if op == Op::Flush { 0 } else { 4096 };
    Submit {
        tag: Tag(tag),
        task: TaskId(tag % 3),
        group: GroupId::ROOT,
        op,
        extent: Extent::new(Bytes(offset), Bytes(len)).expect("small"),
        fua: false,
        sync: true,
    }
}

/// Everything an engine said until it was drained.
#[derive(Debug, Default)]
struct Said {
    starts: Vec<Start>,
    finishes: Vec<Finish>,
    events: Vec<Event>,
    wait: Option<(Instant, Reason)>,
}

fn drain(engine: &mut Engine, now: Instant) -> Said {
    let mut said = Said::default();
    loop {
        match engine.poll(now) {
            Output::Start(start) => said.starts.push(start),
            Output::Finish(finish) => said.finishes.push(finish),
            Output::Resume(_) | Output::Cleaned(_) => {}
            Output::Event(event) => said.events.push(*event),
            Output::Wait(at, reason) => {
                said.wait = Some((at, reason));
                return said;
            }
        }
    }
}

fn send(engine: &mut Engine, now: u64, request: Submit) -> Said {
    engine.handle(Instant(now), Input::Submit(request));
    drain(engine, Instant(now))
}

fn done(engine: &mut Engine, now: u64, start: &Start) -> Said {
    engine.handle(Instant(now), Input::Done { id: start.id, outcome: Outcome::Ok });
    drain(engine, Instant(now))
}

fn config(base: &'static Algorithm, nr_requests: u32, window_depth: u32) -> Config {
    Config { base, nr_requests, window_depth, ..Config::default() }
}

fn tags(starts: &[Start]) -> Vec<u64> {
    starts.iter().map(|start| start.tag.0).collect()
}

/// A scheduler that misbehaves in one chosen way; otherwise fifo.
#[derive(Debug)]
struct Rogue {
    inner: sched::fifo::Fifo,
    pops: u64,
    fault: Fault,
}

impl Scheduler for Rogue {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        assert!(self.fault != Fault::Panicked || id.sequence() < 5, "rogue");
        self.inner.push(now, id, table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        self.pops += 1;
        match (self.fault, self.pops > 3) {
            (Fault::Stalled, true) => Pop::At(Instant::NEVER, Reason::Turn),
            (Fault::Invented, true) => Pop::Ready(RequestId::forge(99)),
            (Fault::Forgot, true) => {
                _ = self.inner.pop(now, table);
                self.inner.pop(now, table)
            }
            (Fault::Trapped | Fault::Endless, true) => resume_unwind(Box::new(self.fault)),
            _ => self.inner.pop(now, table),
        }
    }
}

fn rogue(fault: Fault) -> Box<dyn Scheduler> {
    Box::new(Rogue { inner: Default::default(), pops: 0, fault })
}

macro_rules! rogue_algorithm {
    ($name:ident, $fault:expr) => {
        static $name: Algorithm = Algorithm {
            name: "rogue",
            summary: "misbehaves",
            params: &[],
            counters: &[],
            profile: Profile::PLAIN,
            build: &|_| rogue($fault),
        };
    };
}

rogue_algorithm!(PANICS, Fault::Panicked);
rogue_algorithm!(STALLS, Fault::Stalled);
rogue_algorithm!(INVENTS, Fault::Invented);
rogue_algorithm!(FORGETS, Fault::Forgot);
rogue_algorithm!(TRAPS, Fault::Trapped);
rogue_algorithm!(LOOPS, Fault::Endless);
static UNBUILDABLE: Algorithm = Algorithm {
    name: "unbuildable",
    summary: "fails to start",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &|_| panic!("cannot start"),
};

#[test]
fn p1_and_p4_a_failed_scheduler_is_replaced_and_nothing_is_lost() {
    for (algorithm, fault) in [
        (&PANICS, Fault::Panicked),
        (&STALLS, Fault::Stalled),
        (&INVENTS, Fault::Invented),
        (&FORGETS, Fault::Forgot),
        (&TRAPS, Fault::Trapped),
        (&LOOPS, Fault::Endless),
    ] {
        let mut engine = Engine::new(config(&fifo::ALGORITHM, 64, 1));
        let insert = Control::Insert(algorithm, algorithm.defaults());
        engine.control(Instant(0), insert).expect("none is inserted");
        drain(&mut engine, Instant(0));
        let (mut now, mut flying, mut finished) = (0u64, Vec::new(), Vec::new());
        let mut faults = Vec::new();
        let mut take = |said: Said, flying: &mut Vec<Start>, finished: &mut Vec<u64>| {
            flying.extend(said.starts);
            finished.extend(said.finishes.iter().map(|finish| finish.tag.0));
            faults.extend(said.events.into_iter().filter_map(|event| match event {
                Event::SchedulerFailed { fault, dump, .. } => Some((fault, dump)),
                _ => None,
            }));
        };
        for tag in 0..20 {
            now += 1;
            take(
                send(&mut engine, now, submit(tag, Op::Write, tag << 12)),
                &mut flying,
                &mut finished,
            );
        }
        while finished.len() < 20 {
            now += SCHEDULER_STALL.0 / 4;
            let said = match flying.pop() {
                Some(start) => done(&mut engine, now, &start),
                None => drain(&mut engine, Instant(now)),
            };
            take(said, &mut flying, &mut finished);
            assert!(now < SCHEDULER_STALL.0 * 100, "{fault:?}: hangs");
        }
        finished.sort_unstable();
        assert_eq!(finished, (0..20).collect::<Vec<_>>(), "{fault:?}");
        assert_eq!(faults.len(), 1, "{fault:?}");
        assert_eq!(faults[0].0, fault);
        assert!(faults[0].1.contains("Rogue"), "the dump shows its state");
        assert_eq!(engine.status().algorithm.name, "fifo");
        assert_eq!(engine.stats().failed_over_count, 1);
    }
}

#[test]
fn p2_stage_times_sum_to_the_total() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 4, 1));
    let mut flying: Vec<Start> = Vec::new();
    for tag in 0..8 {
        flying.extend(send(&mut engine, tag * 10, submit(tag, Op::Read, tag << 20)).starts);
    }
    let (mut now, mut finishes) = (100, Vec::new());
    while let Some(start) = flying.pop() {
        now += 1_000;
        let said = done(&mut engine, now, &start);
        flying.extend(said.starts);
        finishes.extend(said.finishes.into_iter().map(|finish| (now, finish)));
    }
    assert_eq!(finishes.len(), 8);
    for (ended, Finish { tag, times, .. }) in &finishes {
        assert_eq!(times.total().0, ended - tag.0 * 10, "request {tag:?}");
    }
    let last = finishes[7].1.times;
    assert!(last.admit().0 > 0 && last.window.0 > 0 && last.disk.0 == 1_000, "{last:?}");
}

#[test]
fn p3_an_exchange_keeps_order_and_leaves_what_is_in_flight() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 64, 2));
    let mut flying = Vec::new();
    for tag in 0..10 {
        flying.extend(send(&mut engine, tag, submit(tag, Op::Read, (99 - tag) << 12)).starts);
    }
    assert_eq!(tags(&flying), [0, 1]);
    let insert = Control::Insert(&sched::fifo::ALGORITHM, sched::fifo::ALGORITHM.defaults());
    engine.control(Instant(20), insert).expect("insert");
    let said = drain(&mut engine, Instant(20));
    assert!(said.starts.is_empty(), "an exchange opens no window");
    assert!(matches!(said.events[0], Event::SchedulerExchanged { moved_count: 8, .. }));
    let mut order = Vec::new();
    while let Some(start) = flying.pop() {
        let said = done(&mut engine, 30, &start);
        order.extend(tags(&said.starts));
        flying.extend(said.starts);
    }
    assert_eq!(order, [2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn p5_a_flush_waits_for_no_scheduler() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 64, 1));
    let insert = Control::Insert(&STALLS, STALLS.defaults());
    engine.control(Instant(0), insert).expect("insert");
    drain(&mut engine, Instant(0));
    let first = send(&mut engine, 1, submit(0, Op::Write, 0)).starts;
    for tag in 1..6 {
        send(&mut engine, 1, submit(tag, Op::Write, tag << 12));
    }
    assert!(send(&mut engine, 2, submit(7, Op::Flush, 0)).starts.is_empty(), "the window is full");
    assert_eq!(tags(&done(&mut engine, 3, &first[0]).starts), [7]);
}

#[test]
fn p6_a_full_table_refuses() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 4, 1));
    for tag in 0..FRONTEND_REQUESTS_MAX as u64 {
        assert!(send(&mut engine, 0, submit(tag, Op::Read, 0)).finishes.is_empty());
    }
    let said = send(&mut engine, 0, submit(1 << 40, Op::Read, 0));
    assert_eq!(said.finishes[0].outcome, Outcome::Refused);
    assert_eq!(engine.stats().refused_count, 1);
}

#[test]
fn slots_and_window_can_be_changed_under_load() {
    let mut engine = Engine::new(config(&fifo::ALGORITHM, 4, 1));
    for tag in 0..10 {
        send(&mut engine, 0, submit(tag, Op::Read, 0));
    }
    let status = engine.status();
    assert_eq!((status.waiting_count, status.queued_count, status.in_flight_count), (6, 3, 1));
    engine.control(Instant(1), Control::Window(3)).expect("window");
    assert_eq!(tags(&drain(&mut engine, Instant(1)).starts), [1, 2]);
    engine.control(Instant(2), Control::Slots(8)).expect("slots");
    drain(&mut engine, Instant(2));
    let status = engine.status();
    assert_eq!((status.waiting_count, status.queued_count, status.in_flight_count), (2, 5, 3));
}

#[test]
fn changes_of_parameters_are_merged_where_they_take_effect() {
    let rr = sched::find("rr").expect("registered");
    let mut engine = Engine::new(Config::default());
    engine.control(Instant(0), Control::Insert(rr, rr.defaults())).expect("none is inserted");
    let mut configure = |algorithm, changes: &[(&str, u64)]| {
        let changes = changes.iter().map(|(name, value)| ((*name).into(), *value)).collect();
        let result = engine.control(Instant(0), Control::Configure(algorithm, changes));
        drain(&mut engine, Instant(0));
        (result, engine.status().params)
    };
    let mut expected = rr.defaults();
    expected.merge(&[("wait_ms".into(), 3), ("quantum_ms".into(), 7)].into()).expect("legal");
    // Two that know nothing of each other; the second names the scheduler, which is the same.
    configure(None, &[("wait_ms", 3)]).0.expect("legal");
    assert_eq!(configure(Some(rr), &[("quantum_ms", 7)]), (Ok(()), expected.clone()));
    for wrong in [&[("quantum_ms", 9), ("wait_ms", 99_999)], &[("quantum_ms", 9), ("x", 1)]] {
        let (refused, params) = configure(None, wrong);
        assert!(matches!(refused, Err(ControlError::Param("rr", _))), "{refused:?}");
        assert_eq!(params, expected, "nothing is half applied");
    }
    let deadline = sched::find("deadline").expect("registered");
    assert_eq!(configure(Some(deadline), &[]), (Ok(()), deadline.defaults()));
    assert_eq!(configure(Some(rr), &[]), (Ok(()), rr.defaults()), "exchanged: it begins anew");
}

#[test]
fn refused_changes_change_nothing_and_say_what_to_do() {
    let mut engine = Engine::new(Config::default());
    let fifo = || (&fifo::ALGORITHM, fifo::ALGORITHM.defaults());
    let mut control = |control| engine.control(Instant(0), control);
    assert_eq!(control(Control::Destroy), Err(ControlError::NotInserted));
    let refused = control(Control::Configure(None, Changes::new()));
    assert_eq!(refused, Err(ControlError::NotInserted));
    let params = UNBUILDABLE.defaults();
    let refused = control(Control::Insert(&UNBUILDABLE, params));
    assert_eq!(refused, Err(ControlError::BuildFailed("unbuildable")));
    let (algorithm, params) = fifo();
    control(Control::Insert(algorithm, params)).expect("none is inserted");
    let (algorithm, params) = fifo();
    let refused = control(Control::Insert(algorithm, params)).expect_err("one is");
    assert!(refused.to_string().contains("configure -a"), "{refused}");
}

#[test]
#[should_panic(expected = "before it was drained")]
fn an_undrained_engine_cannot_go_on() {
    let mut engine = Engine::new(Config::default());
    engine.handle(Instant(1), Input::Submit(submit(1, Op::Read, 0)));
    engine.handle(Instant(2), Input::Tick);
}

#[test]
#[should_panic(expected = "not in flight")]
fn a_second_completion_is_a_bug() {
    let mut engine = Engine::new(Config::default());
    let start = send(&mut engine, 1, submit(1, Op::Read, 0)).starts[0];
    done(&mut engine, 2, &start);
    done(&mut engine, 3, &start);
}
