//! The properties, on a device with one server. `bench` is the device and its clients.

use super::tasks::EXPIRE;
use super::*;
use crate::group::Class;
use crate::limits::TASKS_MAX;
use bench::{Bench, Client, Disk, client, settings};
use core::num::NonZeroU64;

mod bench;
mod flushes;
mod goes;
mod model;
mod shares;
mod sides;

const TEN_SECONDS: Instant = Instant(10_000_000_000);

#[test]
fn p2_a_higher_class_goes_first() {
    for (disk, window) in [(Disk::Flash, 1), (Disk::Flash, 16), (Disk::Head, 1), (Disk::Head, 8)] {
        let mut bench = Bench::new(disk, window, &[("idle_starve_ms", 10_000)]);
        bench.group(1, 0, &settings(1, Class::RealTime));
        bench.group(2, 0, &settings(10_000, Class::BestEffort));
        bench.group(3, 0, &settings(10_000, Class::Idle));
        let mut clients = [client(1, 1), client(2, 2), client(3, 3)].map(|it| it.depth(32));
        clients[0].starts_at = Instant(1_000_000_000);
        bench.run(&mut clients, Instant(1_000_000_000));
        assert_eq!(bench.service(3), 0, "idle waits for best effort");
        let before = bench.service(2);
        bench.run(&mut clients, Instant(5_000_000_000));
        // What was at the device when the class came up, and nothing after that.
        let most = u64::from(window + 1) * 10_000_000;
        let after = bench.service(2) - before;
        assert!(after <= most, "{disk:?}, window {window}: best effort had {after} ns more");
        assert_eq!(bench.service(3), 0);
    }
}

#[test]
fn p2_classes_count_at_each_level() {
    // Idle below a best-effort group has the group's share against its best-effort uncle.
    let mut bench = Bench::new(Disk::Flash, 4, &[]);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 1, &settings(100, Class::Idle));
    let mut clients = [client(2, 2), client(3, 3)].map(|it| it.depth(16));
    bench.run(&mut clients, TEN_SECONDS);
    bench.assert_shares(&[(2, 1), (3, 1)], 20);
}

#[test]
fn p3_idle_alone_has_everything() {
    for disk in [Disk::Flash, Disk::Head] {
        let mut bench = Bench::new(disk, 1, &[]);
        bench.group(3, 0, &settings(1, Class::Idle));
        bench.run(&mut [client(3, 3).depth(4)], TEN_SECONDS);
        assert_eq!(bench.idle_total, Nanos::ZERO, "{disk:?}");
        assert!(bench.service(3) >= 9_980_000_000);
    }
}

#[test]
fn p4_idle_gets_one_request_each_idle_starve_ms() {
    for disk in [Disk::Flash, Disk::Head] {
        let mut bench = Bench::new(disk, 1, &[]);
        bench.group(3, 0, &settings(1, Class::Idle));
        let mut clients = [client(1, 2).depth(32).sequential(), client(3, 3).depth(8)];
        bench.run(&mut clients, TEN_SECONDS);
        let served = bench.served(3);
        assert!((45..=50).contains(&served), "{disk:?}: {served} of 50 in ten seconds");
        let mut counters = Vec::new();
        bench.fair.counters(&mut counters);
        assert_eq!(counters[4], served);
    }
}

#[test]
fn p5_flash_is_held_back_only_in_the_turn_of_the_few() {
    for window in [1, 8] {
        let idle = |beside: Client| {
            let mut bench = Bench::new(Disk::Flash, window, &[]);
            let thinks = client(3, 3).sequential().think_us(2_000);
            let mut clients = [client(1, 1).sequential().think_us(50), beside, thinks];
            bench.run(&mut clients, TEN_SECONDS);
            (bench.idle_total, bench.idle_max)
        };
        assert_eq!(idle(client(2, 2).sequential()), (Nanos::ZERO, Nanos::ZERO));
        // Two of the three read many bytes at a time.
        let (total, longest) = idle(client(2, 2).depth(2).think_us(200));
        assert!(total < Nanos::from_secs(3), "{total:?}");
        assert!(longest <= Nanos::from_millis(1), "{longest:?}");
    }
}

#[test]
fn p5_a_wait_is_bounded_and_pays() {
    for wait_ms in [0, 4, 10] {
        let mut bench = Bench::new(Disk::Head, 1, &[("wait_ms", wait_ms)]);
        let mut clients = [
            client(1, 1).sequential().think_us(500),
            client(2, 2).think_us(500),
            client(3, 3).sequential().think_us(30_000),
        ];
        bench.run(&mut clients, TEN_SECONDS);
        assert!(bench.idle_max <= Nanos::from_millis(wait_ms), "{}", bench.idle_max);
        let hits = bench.fair.wait_hit_count;
        assert_eq!(hits > 100, wait_ms > 0, "wait_ms {wait_ms}: {hits} waits that paid");
        let misses = bench.fair.wait_miss_count;
        assert!(misses <= hits / 20, "{misses} misses");
    }
}

#[test]
fn p5_random_tasks_keep_a_deep_window_full() {
    let mut bench = Bench::new(Disk::Head, 16, &[]);
    let mut clients = [client(1, 1).depth(500), client(2, 2).depth(500)];
    bench.run(&mut clients, TEN_SECONDS);
    assert_eq!(bench.idle_total, Nanos::ZERO);
    assert_eq!(bench.least_in_flight, 16);
}

#[test]
fn p6_reserved_requests_go_first_and_are_charged() {
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    let mut clients = [client(1, 1).depth(16), client(2, 2).depth(16), client(3, 3).reserved()];
    clients[2].think = Nanos::from_micros(500);
    bench.run(&mut clients, TEN_SECONDS);
    assert!(clients[2].wait_max <= Nanos::from_millis(1), "{}", clients[2].wait_max);
    bench.assert_shares(&[(1, 1), (2, 1)], 10);
    // Group 3 had more for its reserved ones than the weights give; now it also has others.
    let mut clients = [client(1, 1).depth(16), client(3, 4).depth(16), clients[2].clone()];
    let before = (bench.service(1), bench.service(3));
    bench.run(&mut clients, Instant(20_000_000_000));
    let (one, three) = (bench.service(1) - before.0, bench.service(3) - before.1);
    assert!(three <= one + 100_000_000, "the guarantee is within the share: {three} and {one}");
}

#[test]
fn p6_a_group_that_has_moved_is_charged_to_the_guarantees_above_it_now() {
    let mut guaranteed = settings(100, Class::BestEffort);
    guaranteed.min.riops = NonZeroU64::new(1);
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    for (id, parent) in [(1, 0), (2, 0), (3, 1), (3, 2)] {
        bench.group(id, parent, &guaranteed);
    }
    bench.push(3, 1, false);
    bench.run(&mut [], Instant(1_000));
    assert_eq!(bench.fair.guarantees.owed(bench.now), [GroupId(1)]);
}

#[test]
fn p6_a_guaranteed_rate_is_served_before_weights_count() {
    for disk in [Disk::Flash, Disk::Head] {
        let mut bench = Bench::new(disk, 1, &[]);
        let riops = core::num::NonZeroU64::new(50);
        let min = crate::group::Rates { riops, ..Default::default() };
        bench.group(1, 0, &crate::group::Settings { min, ..settings(1, Class::BestEffort) });
        bench.group(2, 0, &settings(10_000, Class::BestEffort));
        let mut clients = [client(1, 1).depth(16), client(2, 2).depth(16)];
        bench.run(&mut clients, TEN_SECONDS);
        let served = bench.served(1);
        assert!((495..530).contains(&served), "{disk:?}: {served} of 500 guaranteed");
    }
}

#[test]
fn p6_a_guarantee_leaves_a_bounded_debt() {
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    bench.run(&mut [client(1, 1).depth(16), client(2, 2).depth(4).reserved()], TEN_SECONDS);
    let before = bench.service(2);
    bench.run(&mut [client(1, 3).depth(16), client(2, 2).depth(4)], Instant(15_000_000_000));
    let after = bench.service(2) - before;
    assert!(after >= 1_200_000_000, "two seconds of the other's at most: {after}");
}

#[test]
fn p7_a_newcomer_has_no_credit_and_is_served_at_once() {
    for (disk, window) in [(Disk::Flash, 1), (Disk::Head, 1)] {
        let mut bench = Bench::new(disk, window, &[]);
        bench.group(1, 0, &settings(100, Class::BestEffort));
        bench.group(2, 0, &settings(100, Class::BestEffort));
        let mut clients = [client(1, 1).depth(32), client(2, 2).depth(32)];
        clients[1].starts_at = Instant(5_000_000_000);
        bench.run(&mut clients, Instant(5_000_000_000));
        let before = bench.service(1);
        bench.run(&mut clients, Instant(5_400_000_000));
        assert!(clients[1].first_wait <= Nanos::from_millis(120), "{}", clients[1].first_wait);
        let one = bench.service(1) - before;
        assert!(one >= 100_000_000, "{disk:?}: the other goes on: {one}");
        bench.run(&mut clients, Instant(10_000_000_000));
        let (one, two) = (bench.service(1) - before, bench.service(2));
        assert!(one.abs_diff(two) <= 220_000_000, "{disk:?}: {one} and {two}");
    }
}

#[test]
fn p8_ten_thousand_groups_come_and_go() {
    let mut bench = Bench::new(Disk::Flash, 4, &[]);
    for round in 0..3u32 {
        for id in 1..=10_000 {
            bench.group(id, id / 100, &settings(1 + id % 1_000, Class::BestEffort));
            bench.push(id, u64::from(id + round), false);
        }
        bench.run(&mut [], Instant(bench.now.0 + 60_000_000_000));
        for id in (1..=10_000).rev() {
            bench.groups.forget(GroupId(id));
            bench.fair.remove_group(GroupId(id));
        }
        assert_eq!((bench.fair.forest.len(), bench.fair.tasks.len()), (1, 0));
    }
}

#[test]
fn p8_tasks_are_forgotten() {
    let mut bench = Bench::new(Disk::Flash, 4, &[]);
    for task in 0..200_000u64 {
        bench.push(task as u32 % 7, task, false);
        let until = Instant(bench.now.0 + 200_000);
        bench.run(&mut [], until);
        bench.now = bench.now.max(until);
    }
    assert!(bench.fair.tasks.len() <= TASKS_MAX + 1, "{}", bench.fair.tasks.len());
    bench.now = bench.now + EXPIRE + Nanos(1);
    for _ in 0..2 * TASKS_MAX {
        bench.push(1, 1, false);
        bench.run(&mut [], Instant(bench.now.0 + 1_000_000));
    }
    assert_eq!(bench.fair.tasks.len(), 1, "all but the one that goes on");
    assert_eq!(bench.fair.forest.len(), 3, "and with them groups nobody told of");
}

#[test]
fn p9_no_request_of_a_task_is_passed_over_for_ever() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    bench.run(&mut [client(1, 1).depth(4)], Instant(2_000_000_000));
    assert!(bench.fair.model.has_head());
    let mut stream = client(1, 1).depth(4).sequential();
    stream.position = 1 << 45;
    let mut stream = [stream];
    bench.run(&mut stream, Instant(3_000_000_000));
    let behind = bench.push_at(1, 1, 0);
    bench.run(&mut stream, TEN_SECONDS);
    let started = bench.started[&behind];
    assert!((8_000..=9_100).contains(&(started.0 / 1_000_000)), "{started:?}");
}
