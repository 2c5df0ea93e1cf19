//! Goes on a disk with a head: the group that has one, and the tasks that may interrupt it.

use super::bench::{Bench, Disk, client, settings};
use super::*;
use crate::group::Class;

const TWO_SECONDS: Instant = Instant(2_000_000_000);

#[test]
fn many_tasks_of_a_group_have_no_more_than_one() {
    for window in [1, 8] {
        let mut bench = Bench::new(Disk::Head, window, &[]);
        bench.group(1, 0, &settings(100, Class::BestEffort));
        bench.group(2, 0, &settings(100, Class::BestEffort));
        let mut clients = vec![client(2, 100)];
        clients.extend((1..=16).map(|task| client(1, task)));
        bench.run(&mut clients, TWO_SECONDS);
        bench.begin_anew();
        bench.run(&mut clients, Instant(TWO_SECONDS.0 + TEN_SECONDS.0));
        bench.assert_shares(&[(1, 1), (2, 1)], 30);
    }
}

#[test]
fn a_light_task_does_not_wait_for_the_end_of_a_go() {
    let mut bench = Bench::new(Disk::Head, 8, &[]);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 0, &settings(100, Class::BestEffort));
    let mut clients = [client(1, 1).think_us(50_000), client(2, 2).depth(64)];
    bench.run(&mut clients, TWO_SECONDS);
    clients[0].wait_max = Nanos::ZERO;
    bench.run(&mut clients, TEN_SECONDS);
    // Two of the go are at the disk, and nothing joins them.
    assert!(clients[0].wait_max <= Nanos::from_millis(30), "{}", clients[0].wait_max);
    assert!(bench.served(1) > 120, "{} in ten seconds", bench.served(1));
}

#[test]
fn a_light_task_does_not_interrupt_a_higher_class() {
    let mut bench = Bench::new(Disk::Head, 8, &[]);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 0, &settings(100, Class::RealTime));
    let mut clients = [client(1, 1).think_us(50_000), client(2, 2).depth(64)];
    clients[1].starts_at = TWO_SECONDS;
    bench.run(&mut clients, TWO_SECONDS);
    let before = bench.served(1);
    assert!(before > 20, "{before} in two seconds");
    bench.run(&mut clients, TEN_SECONDS);
    let after = bench.served(1) - before;
    assert!(after <= 1, "{after} went before real time");
}
