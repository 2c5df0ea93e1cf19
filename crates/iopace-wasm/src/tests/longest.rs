//! The longest call: whatever a module does with all of its fuel, the call ends soon.

use super::modules::module;
use super::{compiled, processor_time};
use crate::policy::Policy;
use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::sched::Scheduler;
use iopace_core::table::Table;
use iopace_core::time::Instant;
use iopace_core::trace::Fault;
use iopace_core::units::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

/// Several times what the slowest took when it was measured (32 ms), as processors may be slow:
/// this finds instructions that are nearly free, which take seconds.
const BOUND: Duration = Duration::from_millis(150);

/// A policy that does this when it is asked for a request.
fn policy(code: &str) -> Policy {
    let deep = "(func $deep (param i32) (result i32)
        (if (i32.eqz (local.get 0)) (then (return (i32.const 0))))
        (i32.add (call $deep (i32.sub (local.get 0) (i32.const 1))) (i32.const 1)))
      (type $unary (func (param i32) (result i32)))
      (table 1000 funcref) (elem (i32.const 0) $deep)
      (global $step (mut i32) (i32.const 0))";
    let locals = "(local $i i32) (local $a i64) (local $f f64)";
    let bytes = module(&[
        (
            "(local $count i32) (local $place i32)",
            &format!("{locals} (local $count i32) (local $place i32)"),
        ),
        (";; POP", code),
        (";; MORE", deep),
        ("(memory (export \"memory\") 10)", "(memory (export \"memory\") 512)"),
    ]);
    let module = compiled(&bytes).unwrap_or_else(|problem| panic!("{code}: {problem}"));
    Policy::new(&module, module.defaults()).expect("it is good until asked")
}

/// The longest of some calls of `iopace_pop`, and how the last one ended.
fn longest_of(mut policy: Policy, calls: usize) -> (Duration, Option<Fault>) {
    let mut table = Table::default();
    let (task, group, op) = (TaskId(1), GroupId::ROOT, Op::Read);
    let extent = Extent::new(Bytes(0), Bytes(4096)).expect("small");
    let submit = Submit { tag: Tag(1), task, group, op, extent, fua: false, sync: true };
    let id = table.queue(Instant(1), submit);
    policy.push(Instant(1), id, &table);
    let (mut longest, mut fault) = (Duration::ZERO, None);
    for _ in 0..calls {
        let begin = processor_time();
        let popped = catch_unwind(AssertUnwindSafe(|| policy.pop(Instant(1), &table)));
        longest = longest.max(processor_time() - begin);
        fault = popped.err().map(|panic| *panic.downcast_ref().expect("a fault"));
    }
    (longest, fault)
}

/// An expression within itself, so many times.
fn nested(outer: &str, inner: &str) -> String {
    const TIMES: usize = 60;
    let opened = 1 + outer.matches('(').count() - outer.matches(')').count();
    format!("{}{inner}{}", format!("({outer} ").repeat(TIMES), ")".repeat(opened * TIMES))
}

/// Whole numbers, for ever.
fn numbers(outer: &str) -> String {
    on(&format!("(local.set $a {})", nested(outer, "(i64.or (local.get $a) (i64.const 3))")))
}

/// Floats, for ever.
fn floats(outer: &str) -> String {
    on(&format!("(local.set $f {})", nested(outer, "(f64.add (local.get $f) (f64.const 7e299))")))
}

/// It, for ever.
fn on(code: &str) -> String {
    format!("(loop $on {code} (br $on))")
}

/// So many loads, each at the address that the one before gave.
fn chase() -> String {
    on(&format!("(local.set $i {})", nested("i32.load", "(local.get $i)")))
}

/// The same after the memory was filled, in some calls, with one long way through all of it that
/// jumps far each time.
fn chase_everywhere() -> String {
    let next = "(i32.shl (i32.and (i32.const 8388607) (i32.add (i32.const 1013904223)
        (i32.mul (global.get $step) (i32.const 1664525)))) (i32.const 2))";
    let fill = format!(
        "(loop $on
           (i32.store (i32.shl (global.get $step) (i32.const 2)) {next})
           (global.set $step (i32.add (global.get $step) (i32.const 1)))
           (br_if $on (i32.and (global.get $step) (i32.const 16383))))
         (i64.store (i32.const 16384) (i64.const 9))
         (return (i32.const 3))"
    );
    let is_filled = "(i32.ge_u (global.get $step) (i32.const 8388608))";
    format!("(if {is_filled} (then) (else {fill})) {}", chase())
}

/// A byte is written to each page.
fn touch() -> String {
    on("(i32.store8 (i32.and (local.get $i) (i32.const 0x1ffffff)) (i32.const 1))
        (local.set $i (i32.add (local.get $i) (i32.const 4096)))")
}

/// Bytes are written all over the memory, each far from the one before.
fn stores_everywhere() -> String {
    on("(local.set $i (i32.add (i32.const 1013904223)
          (i32.mul (local.get $i) (i32.const 1664525))))
        (i32.store8 (i32.shr_u (local.get $i) (i32.const 7)) (i32.const 1))")
}

#[test]
fn a_deep_recursion_ends_within_the_stack_of_a_small_thread() {
    let deep = "(drop (call $deep (i32.const 1000000)))";
    // The threads of connections have as much, and here the compiler has its thread.
    let policy = policy(deep);
    let call = move || longest_of(policy, 1).1;
    let small = thread::Builder::new().stack_size(256 << 10).spawn(call);
    let fault = small.expect("a thread").join().expect("it did not end the process");
    assert_eq!(fault, Some(Fault::Trapped));
}

#[test]
fn no_call_takes_long_whatever_it_does() {
    let cases: Vec<(&str, String, usize)> = vec![
        ("nothing", on(""), 1),
        (
            "fill of 31 MiB",
            on("(memory.fill (i32.const 0) (i32.const 7) (i32.const 0x1f00000))"),
            1,
        ),
        ("fill of 64 KiB", on("(memory.fill (i32.const 0) (i32.const 7) (i32.const 65536))"), 1),
        ("fill of nothing", on("(memory.fill (i32.const 0) (i32.const 7) (i32.const 0))"), 1),
        ("fill of 1 byte", on("(memory.fill (i32.const 0) (i32.const 7) (i32.const 1))"), 1),
        ("copy of 16 MiB", on("(memory.copy (i32.const 0) (i32.const 9) (i32.const 0xfffff0))"), 1),
        ("copy of nothing", on("(memory.copy (i32.const 0) (i32.const 8) (local.get $i))"), 1),
        ("grow by nothing", on("(drop (memory.grow (i32.const 0)))"), 1),
        ("grow beyond", on("(drop (memory.grow (i32.const 1)))"), 1),
        ("touch each page", touch(), 1),
        ("stores all over", stores_everywhere(), 2),
        ("divide", numbers("i64.div_u (i64.const -1)"), 1),
        ("remainder", numbers("i64.or (i64.const 3) (i64.rem_s (i64.const 0x7ffffffffffffff1)"), 1),
        ("square root", floats("f64.sqrt"), 1),
        ("divide floats", floats("f64.div (f64.const 7e200)"), 1),
        ("nearest", floats("f64.nearest"), 1),
        ("call deep", on("(drop (call $deep (i32.const 1000)))"), 1),
        (
            "call by table",
            on("(drop (call_indirect (type $unary) (i32.const 0) (i32.const 0)))"),
            1,
        ),
        ("log", on("(call $log (i32.const 32000) (i32.const 60000))"), 1),
        ("size", on("(drop (memory.size))"), 1),
        ("loads in a row", chase(), 1),
        ("loads all over", chase_everywhere(), 514),
    ];
    let mut worst = Duration::ZERO;
    for (name, code, calls) in cases {
        let (longest, fault) = longest_of(policy(&code), calls);
        println!("{:>8.3} ms  {name}", longest.as_secs_f64() * 1e3);
        assert_eq!(fault, Some(Fault::Endless), "{name}");
        assert!(longest < BOUND, "{name}: {longest:?}");
        worst = worst.max(longest);
    }
    println!("{:>8.3} ms  the longest call", worst.as_secs_f64() * 1e3);
}
