//! `cargo test`: the policy in a small world, on this machine, without iopace.

use super::*;
use crate::kit::{MILLISECOND, Op, World};

#[test]
fn p1_reads_go_first() {
    let mut world = World::<ReadsFirst>::new(&[]);
    let write = world.push(1, Op::Write, 0, 4096);
    let reads = [0, 1].map(|page| world.push(2, Op::Read, page * 4096, 4096));
    assert_eq!(world.drain(), [reads[0], reads[1], write]);
}

#[test]
fn p2_writes_are_bounded() {
    let mut world = World::<ReadsFirst>::new(&[("reads_max", 2)]);
    let write = world.push(1, Op::Write, 0, 4096);
    for page in 0..4 {
        world.push(2, Op::Read, page * 4096, 4096);
    }
    assert_eq!(world.drain().iter().position(|id| *id == write), Some(2));
    assert_eq!(world.counter("relieved"), 1);
}

#[test]
fn p3_nothing_is_held_back() {
    let mut world = World::<ReadsFirst>::new(&[]);
    for page in 0..100 {
        let op = if page % 3 == 0 { Op::Write } else { Op::Read };
        world.push(page, op, page * 4096, 4096);
    }
    for _ in 0..100 {
        assert!(matches!(world.pop(), Pop::Next(_)));
    }
    assert_eq!(world.pop(), Pop::Empty);
}

#[test]
fn a_parameter_holds_at_once() {
    let mut world = World::<ReadsFirst>::new(&[]);
    let write = world.push(1, Op::Write, 0, 4096);
    let read = world.push(2, Op::Read, 0, 4096);
    world.push(2, Op::Read, 4096, 4096);
    world.configure(&[("reads_max", 1)]);
    assert_eq!(world.serve().map(|request| request.id), Some(read));
    assert_eq!(world.serve().map(|request| request.id), Some(write));
}

/// Any load: nothing is lost, and no request waits longer than the policy says.
#[test]
fn the_bound_holds_in_any_load() {
    for seed in 0..20 {
        for reads_max in [1, 4, 32] {
            let mut world = World::<ReadsFirst>::new(&[("reads_max", reads_max)]);
            let load = Load { is_stream: true, clients: 4, requests: 9, service: 10 * MILLISECOND };
            let longest = world.run(seed, 9, load.service);
            let bound = world.instance.policy.wait_max(&load).expect("it has one");
            assert!(longest <= bound, "seed {seed}: {longest} ns, of {bound} ns");
        }
    }
}
