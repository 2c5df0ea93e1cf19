//! Commits first: who waits for a flush at the disk, and for the next.

use super::bench::{Bench, Disk, client, settings};
use super::*;
use crate::group::Class;
use crate::request::{Extent, Op, Submit, Tag, TaskId};
use crate::verdict::Reason;

const MILLI: u64 = 1_000_000;

/// A flush of a task of a group goes to the device.
fn flush(bench: &mut Bench, group: u32, task: u64) -> RequestId {
    let extent = Extent::new(Bytes::ZERO, Bytes::ZERO).expect("empty");
    let (task, group) = (TaskId(task), GroupId(group));
    let submit = Submit { tag: Tag(9), task, group, op: Op::Flush, extent, fua: false, sync: true };
    let id = bench.table.queue(bench.now, submit);
    bench.fair.on_flush(bench.now, id, &bench.table);
    id
}

fn flushed(bench: &mut Bench, id: RequestId) {
    bench.fair.on_flushed(bench.now, id, &bench.table[id]);
}

fn pop(bench: &mut Bench) -> Pop {
    bench.fair.pop(bench.now, &bench.table)
}

#[test]
fn nothing_joins_a_flush_on_a_disk_with_a_head() {
    let mut bench = Bench::new(Disk::Head, 8, &[]);
    bench.fair.set_rotational(true);
    bench.now = Instant(5 * MILLI);
    let first = flush(&mut bench, 0, 1);
    bench.push(0, 2, false);
    assert!(matches!(pop(&mut bench), Pop::At(Instant(at), Reason::Turn) if at == 105 * MILLI));
    bench.now = Instant(13 * MILLI);
    flushed(&mut bench, first);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
    // One that does not end stops nobody for longer than that.
    flush(&mut bench, 0, 1);
    bench.push(0, 2, false);
    assert!(matches!(pop(&mut bench), Pop::At(Instant(at), Reason::Turn) if at == 113 * MILLI));
    bench.now = Instant(113 * MILLI);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
}

#[test]
fn the_time_of_a_flush_is_charged_on_a_disk_with_a_head() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    bench.fair.set_rotational(true);
    let mut clients = [client(1, 1), client(2, 2)];
    bench.run(&mut clients, Instant(2_000 * MILLI));
    bench.begin_anew();
    // One of two equal tasks has flushes of 50 ms now and then, with the disk to itself.
    for _ in 0..40 {
        let until = bench.now + Nanos::from_millis(150);
        bench.run(&mut clients, until);
        while bench.in_flight() > 0 {
            let next = bench.now + Nanos(MILLI);
            bench.run(&mut [], next);
        }
        let id = flush(&mut bench, 1, 1);
        bench.now = bench.now + Nanos::from_millis(50);
        flushed(&mut bench, id);
    }
    let (one, other) = (bench.served(1), bench.served(2));
    assert!(one * 3 < other * 2, "{one} requests of who flushes, {other} of the other");
}

#[test]
fn on_flash_only_those_with_many_write_nothing_beside_a_flush() {
    let mut bench = Bench::new(Disk::Flash, 8, &[]);
    bench.fair.set_rotational(false);
    let first = flush(&mut bench, 0, 1);
    for _ in 0..8 {
        bench.push_op(2, Op::Write);
        bench.push_op(3, Op::Read);
    }
    let few = bench.push_op(4, Op::Write);
    let mut popped = Vec::new();
    while let Pop::Ready(id) = pop(&mut bench) {
        popped.push((id.sequence(), bench.table[id].op()));
    }
    assert!(popped.iter().any(|(sequence, _)| *sequence == few), "{popped:?}");
    let reads = popped.iter().filter(|(_, op)| *op == Op::Read).count();
    assert_eq!(reads, 8, "who reads waits for nobody: {popped:?}");
    let writes = popped.iter().filter(|(_, op)| op.is_write()).count();
    assert_eq!(writes, 1, "{popped:?}");
    flushed(&mut bench, first);
    assert!(matches!(pop(&mut bench), Pop::Ready(id) if bench.table[id].op().is_write()));
}

#[test]
fn class_idle_does_not_join_a_flush_of_others() {
    let mut bench = Bench::new(Disk::Flash, 8, &[]);
    bench.fair.set_rotational(false);
    bench.group(3, 0, &settings(100, Class::Idle));
    let first = flush(&mut bench, 0, 1);
    bench.push(3, 3, false);
    let other = bench.push(0, 2, false);
    assert!(matches!(pop(&mut bench), Pop::Ready(id) if id.sequence() == other));
    let until = 100 * MILLI;
    assert!(matches!(pop(&mut bench), Pop::At(Instant(at), Reason::Turn) if at == until));
    flushed(&mut bench, first);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
    // A flush that does not end holds it up no longer than that, and its own not at all.
    flush(&mut bench, 0, 1);
    bench.push(3, 3, false);
    assert!(matches!(pop(&mut bench), Pop::At(Instant(at), _) if at == until));
    bench.now = Instant(until);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
    let mut bench = Bench::new(Disk::Flash, 8, &[]);
    bench.fair.set_rotational(false);
    bench.group(3, 0, &settings(100, Class::Idle));
    bench.push(3, 3, false);
    bench.push(3, 3, false);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
    let idle = flush(&mut bench, 3, 3);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
    flushed(&mut bench, idle);
    // Nor does it join one of others because a flush of its own came after that.
    bench.push(3, 3, false);
    flush(&mut bench, 0, 1);
    flush(&mut bench, 3, 3);
    assert!(matches!(pop(&mut bench), Pop::At(Instant(at), _) if at == until));
}

#[test]
fn class_idle_waits_out_the_pauses_of_who_flushes_on_a_disk_with_a_head() {
    for (disk, waits) in [(Disk::Head, true), (Disk::Flash, false)] {
        let mut bench = Bench::new(disk, 8, &[]);
        bench.fair.set_rotational(disk == Disk::Head);
        bench.group(3, 0, &settings(100, Class::Idle));
        let mut idle = [client(3, 3).depth(8)];
        for _ in 0..50 {
            let id = flush(&mut bench, 0, 1);
            bench.now = bench.now + Nanos::from_millis(5);
            flushed(&mut bench, id);
            let next = bench.now + Nanos::from_millis(20);
            bench.run(&mut idle, next);
        }
        let (served, due) = (bench.served(3), bench.now.0 / (200 * MILLI));
        // The device takes eight before it is known that there is a series.
        assert_eq!(served <= due + 10, waits, "{disk:?}: {served} in {:?}", bench.now);
        assert!(served >= due - 1, "one each 200 ms: {served} in {:?}", bench.now);
        // The series is over.
        let until = bench.now + Nanos::from_secs(1);
        bench.run(&mut idle, until);
        assert!(bench.served(3) > served + 100, "{disk:?}");
    }
}

#[test]
fn class_idle_that_flushes_goes_past_nobody() {
    let mut bench = Bench::new(Disk::Flash, 8, &[]);
    bench.fair.set_rotational(false);
    bench.group(3, 0, &settings(100, Class::Idle));
    bench.push(3, 3, false);
    assert!(matches!(pop(&mut bench), Pop::Ready(_)));
    let idle = flush(&mut bench, 3, 3);
    flushed(&mut bench, idle);
    flush(&mut bench, 0, 1);
    bench.push(3, 3, false);
    bench.push(3, 3, false);
    assert!(matches!(pop(&mut bench), Pop::At(..)));
}

#[test]
fn class_idle_below_an_ordinary_group_holds_nobody_up() {
    let mut bench = Bench::new(Disk::Head, 8, &[]);
    bench.fair.set_rotational(true);
    bench.group(1, 0, &settings(100, Class::BestEffort));
    bench.group(2, 1, &settings(100, Class::Idle));
    bench.group(3, 0, &settings(100, Class::BestEffort));
    // More of class idle than are looked past, and a stream.
    let mut clients: Vec<_> = (0..6).map(|n| client(2, 20 + n)).collect();
    clients.push(client(3, 3).sequential().depth(8));
    let begin = bench.now;
    for _ in 0..50 {
        let id = flush(&mut bench, 3, 9);
        bench.now = bench.now + Nanos::from_millis(5);
        flushed(&mut bench, id);
        let next = bench.now + Nanos::from_millis(20);
        bench.run(&mut clients, next);
    }
    // 1.3 ms each: a quarter of the time, and half is due to it.
    let (served, time) = (bench.served(3), bench.now.since(begin).0);
    assert!(served * 6 * MILLI >= time, "{served} in {time} ns");
}

#[test]
fn many_of_class_idle_that_wait_for_the_next_flush_hold_nobody_up() {
    for count in [1, 6, 40] {
        let mut bench = Bench::new(Disk::Flash, 8, &[]);
        bench.fair.set_rotational(false);
        bench.group(1, 0, &settings(100, Class::BestEffort));
        bench.group(2, 1, &settings(100, Class::Idle));
        bench.group(3, 0, &settings(100, Class::BestEffort));
        let mut clients: Vec<_> = (0..count).map(|number| client(2, 20 + number)).collect();
        clients.iter_mut().for_each(|client| client.op = Op::Write);
        clients.push(client(3, 3).depth(8));
        for _ in 0..100 {
            let next = bench.now + Nanos::from_millis(20);
            bench.run(&mut clients, next);
            let id = flush(&mut bench, 0, 1);
            bench.now = bench.now + Nanos(MILLI);
            flushed(&mut bench, id);
            bench.fair.flushes.comes(bench.now);
        }
        assert!(bench.served(3) > 12_000, "of 24,000 beside nobody: {count} of class idle");
    }
}

#[test]
fn a_flush_of_class_idle_takes_nothing_from_who_flushes() {
    let mut bench = Bench::new(Disk::Head, 8, &[]);
    bench.fair.set_rotational(true);
    bench.group(3, 0, &settings(100, Class::Idle));
    let mut idle = [client(3, 3).depth(8)];
    let mut begin = bench.now;
    for cycle in 0..50 {
        // The series is known, and the device has no more of before.
        if cycle == 10 {
            bench.begin_anew();
            begin = bench.now;
        }
        for (group, task) in [(0, 1), (3, 3)] {
            let id = flush(&mut bench, group, task);
            bench.now = bench.now + Nanos::from_millis(5);
            flushed(&mut bench, id);
        }
        let next = bench.now + Nanos::from_millis(20);
        bench.run(&mut idle, next);
    }
    let due = bench.now.since(begin).0 / (200 * MILLI);
    assert!(bench.served(3) <= due + 1, "{due} are due");
}

#[test]
fn others_write_between_two_flushes_what_pays_for_both() {
    // Bytes per us of the disk, the flush of one's own and the pause, in us.
    for (rate, alone, pause) in [(500, 200, 100), (500, 200, 20_000), (55, 8_000, 500)] {
        let mut flushes = Flushes::default();
        let (mut now, mut written) = (Instant(MILLI), 0);
        let micros = |count: u64| Nanos::from_micros(count);
        let mut last = 0;
        for _ in 0..600 {
            flushes.begin(now);
            now = now + micros(alone + written / rate);
            flushes.end(now);
            now = now + micros(pause);
            flushes.comes(now);
            // The others write until they are held back.
            last = if written > 0 { written } else { last };
            written = 0;
            while flushes.hold_writes(now, false).is_none() && written < 1 << 28 {
                flushes.wrote(now, Bytes::from_kib(4), Nanos::ZERO);
                written += 4_096;
            }
        }
        let (took, due) = (last / rate, pause + alone);
        // At least what is always allowed.
        let least = (64 << 10) / rate;
        let most = (2 * due).max(2 * least);
        assert!((due / 3..=most).contains(&took), "{took} us of {due} (rate {rate})");
    }
}

#[test]
fn on_a_head_others_pay_for_what_their_bytes_make_of_a_flush() {
    // A flush of one's own of 8 ms, and one longer by what it writes of others at 50 bytes per us,
    // each second time.
    let mut flushes = Flushes::default();
    let (mut now, wait, bytes) = (Instant(MILLI), Nanos::from_millis(10), Bytes::from_kib(2_048));
    let mut last = [Nanos::ZERO; 2];
    for cycle in 0..100 {
        let others = if cycle % 2 == 0 { Bytes::ZERO } else { bytes };
        let paid = flushes.wrote(now, others, wait);
        flushes.begin(now);
        let took = Nanos::from_micros(8_000 + others.get() / 50);
        now = now + took;
        flushes.end(now);
        last = [paid, flushes.own_part(took)];
        now = now + Nanos::from_millis(3);
        flushes.comes(now);
    }
    let [paid, own] = last.map(|time| time.0 / 1_000);
    assert!((41_000..=43_000).contains(&paid), "{paid} us");
    assert!((7_000..=9_000).contains(&own), "{own} us");
    // Nobody pays when flushes come no more, or too far apart to be waited for in a go.
    assert_eq!(flushes.wrote(now, bytes, Nanos::from_millis(2)), Nanos::ZERO);
    now = now + Nanos::from_millis(1_100);
    assert_eq!(flushes.wrote(now, bytes, wait), Nanos::ZERO);
}

/// Flushes of 8 ms without a write of others and of `dear` after 2 MiB of them, `count` times; then
/// the price is known. The time after them.
fn priced(flushes: &mut Flushes, dear: Nanos, count: u64) -> Instant {
    let mut now = Instant(MILLI);
    for cycle in 0..count {
        let is_dear = cycle % 2 == 1;
        let others = if is_dear { Bytes::from_kib(2_048) } else { Bytes::ZERO };
        flushes.wrote(now, others, WAIT);
        now = flush_of(flushes, now, if is_dear { dear } else { Nanos::from_millis(8) });
    }
    now
}

const WAIT: Nanos = Nanos::from_millis(10);

/// A flush that takes so long, and 3 ms until the next one comes.
fn flush_of(flushes: &mut Flushes, now: Instant, took: Nanos) -> Instant {
    flushes.begin(now);
    flushes.end(now + took);
    let next = now + took + Nanos::from_millis(3);
    flushes.comes(next);
    next
}

#[test]
fn others_pay_no_more_between_two_flushes_than_one_may_hold_them_up() {
    let mut flushes = Flushes::default();
    let now = priced(&mut flushes, Nanos::from_millis(2_000), 20);
    // Some ms a KiB: one write of 32 MiB would be a minute.
    let whole = flushes.wrote(now, Bytes::from_mib(32), WAIT);
    assert_eq!(whole, Nanos::from_millis(100));
    assert_eq!(flushes.wrote(now, Bytes::from_mib(32), WAIT), Nanos::ZERO);
    let now = flush_of(&mut flushes, now, Nanos::from_millis(8));
    assert!(flushes.wrote(now, Bytes::from_kib(4), WAIT) > Nanos::ZERO, "for the next one");
}

#[test]
fn a_price_that_no_flush_confirms_fades() {
    let mut flushes = Flushes::default();
    let mut now = priced(&mut flushes, Nanos::from_millis(100), 20);
    let before = flushes.wrote(now, Bytes::from_kib(32), WAIT);
    for _ in 0..40 {
        now = flush_of(&mut flushes, now, Nanos::from_millis(8));
        flushes.wrote(now, Bytes::from_kib(32), WAIT);
    }
    now = flush_of(&mut flushes, now, Nanos::from_millis(8));
    let after = flushes.wrote(now, Bytes::from_kib(32), WAIT);
    assert!(before > Nanos::ZERO && after.0 < before.0 / 50, "{before} then {after}");
}

#[test]
fn flushes_that_overlap_teach_no_price() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    let mut now = priced(&mut bench.fair.flushes, Nanos::from_millis(50), 20);
    let before = bench.fair.flushes.wrote(now, Bytes::from_kib(4), WAIT);
    bench.fair.flushes.wrote(now, Bytes::from_kib(256), WAIT);
    // Two programs commit for three seconds such that always one flush is there.
    bench.now = now;
    let first = flush(&mut bench, 0, 1);
    let second = flush(&mut bench, 0, 2);
    bench.now = now + Nanos::from_millis(3_000);
    flushed(&mut bench, first);
    flushed(&mut bench, second);
    now = flush_of(&mut bench.fair.flushes, bench.now, Nanos::from_millis(8));
    assert_eq!(bench.fair.flushes.wrote(now, Bytes::from_kib(4), WAIT), before);
}

/// A task that thinks for so long comes back 40 ms after its last request, which was a flush if
/// `flushes`, beside one with twelve requests: how long the first of those waited, and whether the
/// task was served before the ninth of them.
fn comes_back(think_us: u64, flushes: bool) -> (Nanos, bool) {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    bench.fair.set_rotational(true);
    let mut clients = [client(0, 1).think_us(think_us), client(0, 2).depth(4)];
    bench.run(&mut clients, Instant(2_000 * MILLI));
    bench.run(&mut [], Instant(2_500 * MILLI));
    bench.push(0, 1, false);
    bench.run(&mut [], Instant(2_510 * MILLI));
    if flushes {
        let id = flush(&mut bench, 0, 1);
        bench.now = bench.now + Nanos(MILLI);
        flushed(&mut bench, id);
    }
    let place = |number: u64| (2 << 36) + number * 10_000_019;
    let others: Vec<u64> = (0..12).map(|at| bench.push_at(0, 2, place(at))).collect();
    let begun = bench.now;
    bench.run(&mut [], begun + Nanos::from_millis(40));
    let back = bench.push_at(0, 1, 1 << 36);
    bench.run(&mut [], begun + Nanos::from_millis(200));
    let waited = bench.started[&others[0]].since(begun);
    (waited, bench.started[&back] < bench.started[&others[8]])
}

#[test]
fn a_task_that_flushes_is_waited_for_while_it_thinks_for_longer_than_a_seek() {
    assert_eq!(comes_back(9_900, false).0, Nanos::ZERO);
    assert_eq!(comes_back(9_900, true).0, Nanos::from_millis(10));
}

#[test]
fn a_task_that_flushes_has_the_rest_of_its_share_when_it_comes_back_late() {
    assert_eq!(comes_back(2_000, false), (Nanos::from_millis(10), false));
    assert_eq!(comes_back(2_000, true), (Nanos::from_millis(10), true));
}
