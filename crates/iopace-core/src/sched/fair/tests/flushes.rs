//! Commits first: who waits for a flush at the disk, and for the next.

use super::bench::{Bench, Disk, client};
use super::*;
use crate::request::{Extent, Op, Submit, Tag, TaskId};

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
    let done = bench.table[id].done(id, bench.now, true);
    bench.fair.on_flushed(bench.now, &done);
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
            while flushes.hold_writes(now).is_none() && written < 1 << 28 {
                flushes.wrote(Bytes::from_kib(4));
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
fn a_head_that_is_told_of_is_believed_until_reads_show_otherwise() {
    for (disk, is_head) in [(Disk::Head, true), (Disk::Flash, false)] {
        let mut bench = Bench::new(disk, 4, &[]);
        bench.fair.set_rotational(true);
        // A stream alone shows nothing.
        bench.run(&mut [client(1, 1).sequential().depth(4)], Instant(2_000 * MILLI));
        assert!(bench.fair.model.has_head(), "{disk:?}");
        let mut clients = [client(1, 1).sequential().depth(4), client(2, 2).depth(2)];
        bench.run(&mut clients, Instant(6_000 * MILLI));
        assert_eq!(bench.fair.model.has_head(), is_head, "{disk:?}");
    }
}
