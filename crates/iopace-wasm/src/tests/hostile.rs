//! Modules that do wrong: the engine is told which way, `fifo` takes over, and nothing is lost.

use super::modules::{module, popping};
use super::{TRIED, run};
use iopace_core::engine::{Input, Output};
use iopace_core::request::{Extent, GroupId, Op, Outcome, Submit, Tag, TaskId};
use iopace_core::time::Instant;
use iopace_core::trace::{Event, Fault};
use iopace_core::units::Bytes;
use iopace_suites::world::{Setup, World};

/// Does it after a hundred requests.
fn later(code: &str) -> Vec<u8> {
    popping("later", &format!("(if (i64.gt_u (global.get $served) (i64.const 100)) (then {code}))"))
}

fn setup() -> Setup {
    Setup { requests: 400, ..Setup::new(5) }
}

#[test]
fn what_a_module_does_wrong_is_found_and_nothing_is_lost() {
    let answer = |slot: u32, sequence: &str| {
        format!(
            "(i64.store (i32.const 16384) (i64.const {slot}))
             (i64.store (i32.const 16392) (i64.const {sequence})) (return (i32.const 0x10001))"
        )
    };
    let (invents, of_the_past) = (answer(0, "123456789"), answer(3, "3"));
    let cases = [
        ("(loop $for_ever (br $for_ever))", Fault::Endless),
        ("(unreachable)", Fault::Trapped),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", Fault::Trapped),
        ("(drop (i32.load (i32.const -4)))", Fault::Trapped),
        ("(i32.store8 (i32.const 0x2000000) (i32.const 1))", Fault::Trapped),
        ("(drop (call $deep (i32.const 0)))", Fault::Trapped),
        ("(call $log (i32.const -8) (i32.const 16))", Fault::Trapped),
        ("(call $log (i32.const 0x7fffffff) (i32.const -1))", Fault::Trapped),
        ("(loop $on (call $log (i32.const 32000) (i32.const 8)) (br $on))", Fault::Endless),
        (
            "(drop (memory.grow (i32.const 502)))
             (loop $on
               (memory.fill (i32.const 1048576) (i32.const 1) (i32.const 0x1f00000)) (br $on))",
            Fault::Endless,
        ),
        ("(return (i32.const 7))", Fault::Trapped),
        ("(return (i32.const 1))", Fault::Trapped),
        ("(return (i32.const 0x20001))", Fault::Trapped),
        ("(return (i32.const 0xffff0001))", Fault::Trapped),
        ("(return (i32.const 0x202))", Fault::Trapped),
        ("(return (i32.const 0xff03))", Fault::Trapped),
        ("(i64.store (i32.const 16384) (i64.const -1)) (return (i32.const 3))", Fault::Trapped),
        (&invents, Fault::Invented),
        (&of_the_past, Fault::Invented),
        ("(return (i32.const 0))", Fault::Forgot),
        (
            "(i64.store (i32.const 16384) (i64.const 0x7fffffffffffffff)) (return (i32.const 3))",
            Fault::Stalled,
        ),
    ];
    const DEEP: &str = "(func $deep (param i32) (result i32)
        (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))";
    for (code, fault) in cases {
        let guarded = format!("(if (i64.gt_u (global.get $served) (i64.const 100)) (then {code}))");
        let bytes = module(&[(";; POP", &guarded), (";; MORE", DEEP)]);
        let world = run(&bytes, setup()).unwrap_or_else(|problem| panic!("{code}: {problem}"));
        assert_eq!(world.report.faults, [fault], "{code}");
        assert_eq!(world.engine.status().algorithm.name, "fifo", "{code}");
    }
}

#[test]
fn memory_does_not_grow_beyond_its_bound_and_the_module_goes_on() {
    let code = "(if (i32.ne (memory.grow (i32.const 503)) (i32.const -1)) (then unreachable))
                (if (i32.ne (memory.grow (i32.const 600)) (i32.const -1)) (then unreachable))";
    let world = run(&later(code), setup()).expect("a good module");
    assert_eq!(world.report.faults, []);
    assert_eq!(world.engine.status().algorithm.name, TRIED.name);
}

/// A read that is queued behind others.
fn submit(world: &mut World, tag: u64) {
    let extent = Extent::new(Bytes(tag * 4096), Bytes(4096)).expect("small");
    let (task, group, op) = (TaskId(1), GroupId::ROOT, Op::Read);
    let submit = Submit { tag: Tag(tag), task, group, op, extent, fua: false, sync: true };
    world.engine.handle(world.now, Input::Submit(submit));
}

/// The events until nothing more starts, and how many requests have started.
fn drained(world: &mut World) -> (Vec<Event>, usize) {
    let (mut events, mut started_count) = (Vec::new(), 0);
    loop {
        match world.engine.poll(world.now) {
            Output::Wait(..) => return (events, started_count),
            Output::Event(event) => events.push(*event),
            Output::Start(_) => started_count += 1,
            _ => {}
        }
    }
}

/// A world with the module at work and a window of one.
fn at_work(bytes: &[u8]) -> World {
    run(bytes, Setup { requests: 0, window_depth: 1, ..Setup::new(1) }).expect("a good module")
}

/// The words of the engine for the failure of a scheduler.
fn failure(events: &[Event]) -> (Fault, &str) {
    let failed = events.iter().find_map(|event| match event {
        Event::SchedulerFailed { fault, dump, .. } => Some((*fault, dump.as_str())),
        _ => None,
    });
    failed.expect("it has failed")
}

#[test]
fn an_endless_loop_ends_at_the_same_instruction_each_time() {
    // The number of turns, as letters: its dump.
    let digits: String = (0..5)
        .map(|digit| {
            format!(
                "(i32.store8 (i32.const {}) (i32.add (i32.const 97)
                   (i32.and (i32.shr_u (local.get $count) (i32.const {})) (i32.const 15))))",
                32_000 + digit,
                4 * digit
            )
        })
        .collect();
    let turn = "(local.set $count (i32.add (local.get $count) (i32.const 1)))";
    let bytes = popping("turns", &format!("(loop $on {turn} {digits} (br $on))"));
    let dumps = [(); 3].map(|()| {
        let mut world = at_work(&bytes);
        submit(&mut world, 1);
        let (events, started_count) = drained(&mut world);
        assert_eq!(started_count, 1, "fifo has taken over in the same drain");
        let (fault, dump) = failure(&events);
        assert_eq!(fault, Fault::Endless);
        dump.to_owned()
    });
    assert!(!dumps[0].contains("the ring"), "{}", dumps[0]);
    assert!(dumps[0].contains("iopace_pop failed: it used up its 4000000 units"), "{}", dumps[0]);
    assert_eq!(dumps[0], dumps[1]);
    assert_eq!(dumps[1], dumps[2]);
}

#[test]
fn counters_that_trap_cost_the_module_its_place_and_nothing_else() {
    let mut world = at_work(&module(&[(";; COUNTERS", "unreachable")]));
    submit(&mut world, 1);
    assert_eq!(drained(&mut world).1, 1);
    assert_eq!(world.engine.status().counters, [0; 0]);
    submit(&mut world, 2);
    let (events, _) = drained(&mut world);
    assert_eq!(failure(&events).0, Fault::Trapped);
    assert_eq!(world.engine.status().algorithm.name, "fifo");
}

#[test]
fn a_dump_that_does_not_end_is_told_as_such() {
    for (dump, told) in [
        ("(loop $on (br $on))", "iopace_dump failed: it used up"),
        ("(return (i64.const -1))", "iopace_dump failed: it answered 4294967295 bytes"),
        ("(return (i64.const 0x7fffffff00000010))", "outside its memory"),
    ] {
        let mut world = at_work(&module(&[(";; DUMP", dump), (";; POP", "unreachable")]));
        submit(&mut world, 1);
        let (events, _) = drained(&mut world);
        let (_, dump) = failure(&events);
        assert!(dump.contains(told), "{dump}");
    }
}

#[test]
fn one_request_of_many_that_is_lost_is_found_while_there_are_always_others() {
    // It takes one out of the ring after ten others, and never answers it.
    let loses = "(if (i64.eq (global.get $served) (i64.const 10))
          (then (global.set $head (i32.add (global.get $head) (i32.const 1)))))";
    let mut world = at_work(&popping("loses", loses));
    (0..20).for_each(|tag| submit(&mut world, tag));
    let (mut failed_at, mut finished) = (None, [false; 20]);
    let mut flying = None;
    // The disk takes a second for each, and another one comes for each that ends.
    for second in 0..90 {
        world.now = Instant(second * 1_000_000_000);
        submit(&mut world, 100 + second);
        if let Some(id) = flying.take() {
            world.engine.handle(world.now, Input::Done { id, outcome: Outcome::Ok });
        }
        loop {
            match world.engine.poll(world.now) {
                Output::Wait(..) => break,
                Output::Start(start) => flying = Some(start.id),
                Output::Finish(finish) if finish.tag.0 < 20 => {
                    finished[finish.tag.0 as usize] = true;
                }
                Output::Event(event) => {
                    let (fault, dump) = failure(std::slice::from_ref(&*event));
                    assert_eq!((fault, dump.contains("1 queued")), (Fault::Forgot, true), "{dump}");
                    failed_at = Some(second);
                }
                _ => {}
            }
        }
    }
    // The one after it was served 11 s later; then 30 s, and a tenth until it is looked for.
    assert!(failed_at.is_some_and(|second| (40..=60).contains(&second)), "{failed_at:?}");
    assert_eq!(finished, [true; 20]);
}
