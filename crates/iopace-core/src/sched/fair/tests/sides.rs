//! Who asks for few beside who asks for many, on a disk without a head, and class idle at the disk.

use super::bench::{Bench, Client, Disk, client, settings};
use super::*;
use crate::group::Class;
use crate::request::Op;

const SECOND: u64 = 1_000_000_000;

/// What a client with one request of 16 KiB at a time has alone, in ten seconds.
const ALONE: u64 = 10 * SECOND / 82_768;

/// Runs for some milliseconds; in how many of them the device had at least, and at most, so many.
fn looks(bench: &mut Bench, clients: &mut [Client], millis: u64, least: usize, most: usize) -> u64 {
    let looks = (0..millis).filter(|_| {
        bench.run(clients, bench.now + Nanos::from_millis(1));
        (least..=most).contains(&bench.in_flight())
    });
    looks.count() as u64
}

/// How much of that a client has in ten seconds beside others, after two.
fn part(bench: &mut Bench, clients: &mut [Client], group: u32) -> u64 {
    bench.run(clients, Instant(2 * SECOND));
    bench.begin_anew();
    bench.run(clients, Instant(12 * SECOND));
    100 * bench.served(group) / ALONE
}

#[test]
fn few_requests_do_not_stand_behind_a_deep_queue() {
    // One that keeps 64 going, and 64 that keep one going each, in one group.
    let deep = vec![client(2, 2).depth(64)];
    let many: Vec<Client> = (0..64).map(|task| client(2, 2 + task)).collect();
    for mut clients in [deep, many] {
        clients.insert(0, client(1, 1));
        let mut bench = Bench::new(Disk::Shared, 32, &[]);
        // The disk works on all at the same rate, whatever it holds: the product is the largest
        // when each side has half. Without a bound it would be a 32nd and the rest.
        let part = part(&mut bench, &mut clients, 1);
        assert!((45..=50).contains(&part), "{part} % of alone beside {}", clients.len() - 1);
    }
}

#[test]
fn weights_count_where_the_bound_is_sought() {
    let mut depths = Vec::new();
    for weight in [10, 100, 400] {
        let mut bench = Bench::new(Disk::Shared, 32, &[]);
        bench.group(1, 0, &settings(100, Class::BestEffort));
        bench.group(2, 0, &settings(weight, Class::BestEffort));
        let mut clients = [client(1, 1), client(2, 2).depth(64)];
        depths.push(part(&mut bench, &mut clients, 1));
    }
    // The many have D of D + 1 parts. The best D is their weight over that of the few, and one at
    // least; near it a step changes less than chance does. Without a bound the few have 3.
    assert!(depths[0] >= 45 && depths[1] >= 45, "{depths:?}");
    assert!((9..=25).contains(&depths[2]), "{depths:?}");
}

/// One that reads beside one that keeps 32 writes going, on a disk where no depth divides them.
fn reader_and_writer(weights: [u32; 2]) -> (Bench, [Client; 2]) {
    let mut bench = Bench::new(Disk::Cached, 32, &[]);
    for (group, weight) in [(1, weights[0]), (2, weights[1])] {
        bench.group(group, 0, &settings(weight, Class::BestEffort));
    }
    let mut writer = client(2, 2).depth(32);
    writer.op = Op::Write;
    (bench, [client(1, 1), writer])
}

#[test]
fn where_no_depth_divides_them_they_take_turns() {
    for (weights, least) in [([100, 100], [42, 42]), ([300, 100], [64, 18]), ([100, 300], [20, 68])]
    {
        let (mut bench, mut clients) = reader_and_writer(weights);
        let reader = part(&mut bench, &mut clients, 1);
        // Of 149,152 ns each.
        let writer = 100 * bench.served(2) / (10 * SECOND / 149_152);
        assert!(reader >= least[0] && writer >= least[1], "{weights:?}: {reader} {writer}");
    }
}

#[test]
fn class_idle_has_hardly_a_turn() {
    // Two writes at a time keep the cache full: the reader would have a fifth.
    let (mut bench, mut clients) = reader_and_writer([100, 100]);
    bench.group(2, 0, &settings(100, Class::Idle));
    let reader = part(&mut bench, &mut clients, 1);
    assert!(reader >= 85 && bench.served(2) > 0, "{reader} % and {} writes", bench.served(2));
}

#[test]
fn turns_end_with_the_load_for_which_they_are() {
    let (mut bench, mut clients) = reader_and_writer([100, 100]);
    let wait = |bench: &mut Bench, clients: &mut [Client]| {
        clients[1].wait_max = Nanos::ZERO;
        let until = bench.now + Nanos::from_secs(1);
        bench.run(clients, until);
        clients[1].wait_max
    };
    bench.run(&mut clients, Instant(3 * SECOND));
    let in_turns = wait(&mut bench, &mut clients);
    assert!(in_turns >= Nanos::from_millis(30), "{in_turns:?}");
    clients[1].op = Op::Read;
    bench.run(&mut clients, Instant(20 * SECOND));
    let after = wait(&mut bench, &mut clients);
    assert!(after < Nanos::from_millis(30), "{after:?}");
}

#[test]
fn who_has_the_part_of_its_weight_takes_no_turns() {
    // One request at a time at the disk: weights divide it.
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    let mut clients = [client(1, 1).depth(2), client(2, 2).depth(16)];
    for _ in 0..6 {
        bench.begin_anew();
        let until = bench.now + Nanos::from_secs(10);
        bench.run(&mut clients, until);
        bench.assert_shares(&[(1, 1), (2, 1)], 100);
    }
}

#[test]
fn turns_that_show_nothing_are_over() {
    // The few think for so long that no turn of theirs lasts: from the beginning, or while turns
    // are taken, which are not for them then.
    for is_late in [false, true] {
        let (mut bench, mut clients) = reader_and_writer([100, 100]);
        let think = Nanos::from_millis(15);
        clients[0].think = if is_late { Nanos::ZERO } else { think };
        bench.run(&mut clients, Instant(2 * SECOND));
        clients[0].think = think;
        bench.run(&mut clients, Instant(40 * SECOND));
        let busy = looks(&mut bench, &mut clients, 20_000, 1, 32);
        assert!(busy >= 19_000, "{is_late}: in {busy} of 20,000 looks the disk had something");
    }
}

#[test]
fn queued_requests_of_the_many_do_not_keep_a_turn_of_the_few() {
    let (mut bench, mut clients) = reader_and_writer([100, 100]);
    bench.run(&mut clients, Instant(3 * SECOND));
    clients[0].think = Nanos::from_millis(200);
    // Bursts: the first four requests of each came as few.
    let mut bursts = vec![clients[0].clone(), clients[1].clone(), client(3, 3).depth(20)];
    bursts[2].think = Nanos::from_millis(30);
    bench.idle_max = Nanos::ZERO;
    bench.run(&mut bursts, Instant(6 * SECOND));
    assert!(bench.idle_max <= Nanos::from_millis(10), "{:?}", bench.idle_max);
}

#[test]
fn who_seldom_asks_costs_the_others_nothing() {
    let mut bench = Bench::new(Disk::Shared, 32, &[]);
    let mut clients = [client(1, 1).think_us(100_000), client(2, 2).depth(64)];
    let full = looks(&mut bench, &mut clients, 10_000, 32, 32);
    assert!(bench.served(1) > 90);
    assert!(full >= 9_000, "{full} of 10,000 looks found the disk full");
}

#[test]
fn among_equals_nothing_is_bounded() {
    for depth in [4, 32] {
        let mut bench = Bench::new(Disk::Shared, 16, &[]);
        let mut clients: Vec<Client> =
            (1..=4).map(|n| client(n, u64::from(n)).depth(depth)).collect();
        let full = looks(&mut bench, &mut clients, 5_000, 16, 16);
        assert_eq!(full, 5_000, "{depth} each");
    }
}

#[test]
fn a_bound_goes_with_those_for_whom_it_is() {
    let mut bench = Bench::new(Disk::Shared, 32, &[]);
    let mut clients = vec![client(1, 1), client(2, 2).depth(64)];
    bench.run(&mut clients, Instant(2 * SECOND));
    assert!(bench.in_flight() <= 4, "{} at the disk", bench.in_flight());
    clients[0].think = Nanos::from_secs(3);
    bench.run(&mut clients, Instant(4 * SECOND));
    assert_eq!(bench.in_flight(), 32);
}

#[test]
fn nobody_stands_behind_more_than_two_requests_of_class_idle() {
    for disk in [Disk::Shared, Disk::Flash, Disk::Head] {
        let mut bench = Bench::new(disk, 32, &[]);
        bench.group(3, 0, &settings(100, Class::Idle));
        let mut clients = [client(1, 1).think_us(20_000), client(3, 3).depth(64)];
        bench.run(&mut clients, Instant(SECOND));
        let few = looks(&mut bench, &mut clients, 5_000, 0, 3);
        assert_eq!(few, 5_000, "{disk:?}");
        // With nobody there it has the whole disk.
        clients[0].think = Nanos::from_secs(3);
        bench.run(&mut clients, Instant(8 * SECOND));
        assert_eq!(bench.in_flight(), 32, "{disk:?}");
    }
}

#[test]
fn who_asks_for_lots_at_a_time_is_not_held_back_for_the_first_of_each() {
    // As a client does that takes in all answers before it asks again.
    for group in [0, 1] {
        let mut bench = Bench::new(Disk::Shared, 32, &[]);
        for lot in 0..20_000 {
            let mut at_disk = Vec::new();
            for number in 0..32 {
                bench.push_at(group, 7, (lot * 37 + number * 1_009) << 16);
                // Its first ones are those of a client with few, once.
                while let Pop::Ready(id) = bench.fair.pop(bench.now, &bench.table) {
                    at_disk.push(id);
                }
            }
            assert_eq!(at_disk.len(), 32, "lot {lot} in group {group}");
            for id in at_disk {
                let request = bench.table[id];
                bench.table.end(id);
                bench.now = bench.now + Nanos::from_micros(10);
                bench.fair.on_done(bench.now, id, &request, true);
            }
        }
    }
}

#[test]
fn class_idle_is_bounded_at_the_disk_in_whatever_group_it_is() {
    let mut bench = Bench::new(Disk::Shared, 32, &[]);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 1, &settings(100, Class::Idle));
    bench.group(3, 0, &settings(100, Class::BestEffort));
    let mut clients = [client(2, 2).depth(64), client(3, 3).think_us(20_000)];
    bench.run(&mut clients, Instant(SECOND));
    assert_eq!(looks(&mut bench, &mut clients, 5_000, 0, 3), 5_000);
    assert!(bench.served(2) > 0);
}

#[test]
fn nobody_waits_behind_those_who_are_held_back() {
    // Below one of two groups only class idle has work, below the other there is a lot to do, and
    // somebody comes and goes, so that the idle ones are held back.
    let mut bench = Bench::new(Disk::Shared, 32, &[]);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 1, &settings(100, Class::Idle));
    bench.group(3, 0, &settings(100, Class::BestEffort));
    let mut clients =
        [client(2, 2).depth(64), client(3, 3).depth(64), client(4, 4).think_us(100_000)];
    bench.run(&mut clients, Instant(2 * SECOND));
    let full = looks(&mut bench, &mut clients, 2_000, 30, 32);
    assert!(full >= 1_900, "{full} of 2,000 looks found the disk full");
}

#[test]
fn nobody_is_held_back_for_a_lower_class() {
    let mut bench = Bench::new(Disk::Shared, 32, &[]);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 0, &settings(100, Class::RealTime));
    let mut clients = [client(1, 1), client(2, 2).depth(64)];
    bench.run(&mut clients, Instant(SECOND));
    let full = looks(&mut bench, &mut clients, 1_000, 32, 32);
    assert_eq!(full, 1_000);
}

#[test]
fn the_first_task_is_listed_as_all_others() {
    let mut bench = Bench::new(Disk::Flash, 32, &[]);
    for task in 0..3 {
        bench.push_op(task, Op::Read);
    }
    assert_eq!(bench.fair.passing.len(), 3);
}

#[test]
fn a_thousand_tasks_a_second_leave_nothing_behind() {
    let mut bench = Bench::new(Disk::Flash, 32, &[]);
    for task in 0..30_000 {
        bench.push_op(task, Op::Read);
        let Pop::Ready(id) = bench.fair.pop(bench.now, &bench.table) else { panic!("held back") };
        let request = bench.table[id];
        bench.table.end(id);
        bench.now = bench.now + Nanos::from_millis(1);
        bench.fair.on_done(bench.now, id, &request, true);
    }
    assert!(bench.fair.passing.len() <= 4_096, "{}", bench.fair.passing.len());
}
