//! What the model learns, and what follows from it.

use super::super::cost::RequestKind;
use super::*;
use crate::request::Op;

#[test]
fn it_learns_flash_and_does_not_take_it_for_a_disk_with_a_head() {
    for (disk, window) in [(Disk::Flash, 1), (Disk::Flash, 32), (Disk::Shared, 32)] {
        let mut bench = Bench::new(disk, window, &[]);
        let mut clients = [
            client(1, 1).depth(32).sizes(&[4_096, 65_536, 262_144]),
            client(2, 2).depth(2).sequential(),
        ];
        bench.run(&mut clients, Instant(5_000_000_000));
        assert!(!bench.fair.model.has_head());
        assert_eq!(bench.fair.goes.count, 0);
    }
}

#[test]
fn it_finds_the_head_and_keeps_streams_going() {
    for window in [1, 4] {
        let mut bench = Bench::new(Disk::Head, window, &[]);
        let mut clients =
            [client(1, 1).sequential().think_us(100), client(2, 2).sequential().think_us(100)];
        bench.run(&mut clients, TEN_SECONDS);
        assert!(bench.fair.model.has_head());
        // 1.4 ms each in sequence, 9.3 ms with a seek.
        let served = bench.served(1) + bench.served(2);
        assert!(served >= 10_000 * 10 / 14 * 80 / 100, "window {window}: {served} requests");
        bench.assert_shares(&[(1, 1), (2, 1)], 30);
    }
}

#[test]
fn a_stream_beside_random_reads_has_its_share_of_time() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    let mut clients = [client(1, 1).sequential().think_us(100), client(2, 2).depth(8)];
    bench.run(&mut clients, TEN_SECONDS);
    bench.assert_shares(&[(1, 1), (2, 1)], 100);
}

#[test]
fn a_random_reader_that_thinks_has_its_share_beside_a_stream() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    let mut clients = [client(1, 1).sequential().depth(4), client(2, 2).think_us(1_000)];
    bench.run(&mut clients, TEN_SECONDS);
    // It is charged for the time it thinks: 8.2 of 9.2 ms are service.
    let (stream, reader) = (bench.service(1), bench.service(2));
    assert!(reader * 100 >= (stream + reader) * 44, "{stream} and {reader}");
}

#[test]
fn a_lost_command_teaches_nothing() {
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    bench.run(&mut [client(1, 1).depth(2)], Instant(1_000_000_000));
    let before = bench.fair.mean;
    bench.push(1, 1, false);
    let Pop::Ready(id) = bench.fair.pop(bench.now, &bench.table) else { panic!("held back") };
    let request = bench.table[id];
    bench.table.end(id);
    bench.now = bench.now + Nanos::from_secs(30);
    bench.fair.on_done(bench.now, id, &request, false);
    bench.push(1, 1, false);
    bench.run(&mut [], Instant(40_000_000_000));
    assert!(bench.fair.mean <= before * 2, "{before} to {}", bench.fair.mean);
}

/// So many reads at places of their own, one after the other, that take so long each.
fn reads(model: &mut Model, count: u32, kib: u32, micros: u64) {
    let kind =
        RequestKind { bytes: kib << 10, is_write: false, is_random: true, is_unclear: false };
    for _ in 0..count {
        model.done(kind, Nanos::from_micros(micros), 0, false);
    }
}

#[test]
fn reads_that_no_head_gives_are_those_of_no_head() {
    for told in [None, Some(true)] {
        let mut model = Model::new();
        told.into_iter().for_each(|told| model.set_rotational(told));
        // 512 KiB in 0.7 ms: 750 MB/s, and 0.6 ms more than what is begun at costs.
        reads(&mut model, 200, 512, 700);
        assert!(!model.has_head(), "{told:?}");
        assert_eq!(model.view().has_head, Some(false), "{told:?}");
        // Small ones show what it is: an array of disks, quick in sequence only.
        reads(&mut model, 200, 4, 6_000);
        assert!(model.has_head(), "{told:?}");
    }
}

#[test]
fn a_head_behind_a_cache_is_seen_again_when_reads_are_as_slow_as_its_own() {
    let mut model = Model::new();
    model.set_rotational(true);
    reads(&mut model, 400, 512, 150);
    assert!(!model.has_head());
    // 130 MB/s.
    reads(&mut model, 100, 512, 4_000);
    assert!(model.has_head());
}

#[test]
fn a_quick_stream_beside_writes_shows_that_there_is_no_head() {
    let mut bench = Bench::new(Disk::Flash, 1, &[]);
    bench.fair.set_rotational(true);
    for n in 0..40 {
        let write = bench.submit_at(2, Op::Write, (n * 7_000_039) << 12, 8 << 10);
        bench.serve_in(write, Nanos::from_micros(100));
        // It cannot be told whether the disk has to seek for this one.
        let read = bench.submit_at(1, Op::Read, (1 << 36) + (n << 19), 512 << 10);
        bench.serve_in(read, Nanos::from_micros(350));
    }
    assert!(!bench.fair.model.has_head());
}

#[test]
fn a_stream_beside_cached_writes_does_not_hide_the_head() {
    let mut bench = Bench::new(Disk::Head, 1, &[]);
    bench.fair.set_rotational(true);
    let (mut stream, kib) = (0, 1024);
    for n in 0..200 {
        // A write into the disk's cache: the head stays where it is, and the stream goes on.
        let write = bench.submit_at(2, Op::Write, (n * 7_000_039) << 12, 8 * kib);
        bench.serve_in(write, Nanos::from_micros(100));
        for _ in 0..2 {
            let read = bench.submit_at(1, Op::Read, (1 << 36) + stream, 512 * kib);
            bench.serve_in(read, Nanos::from_micros(8_000));
            stream += 512 * kib;
        }
    }
    assert!(bench.fair.model.has_head());
}

#[test]
fn a_head_that_is_told_of_is_believed_until_reads_show_otherwise() {
    for (disk, is_head) in [(Disk::Head, true), (Disk::Flash, false)] {
        let mut bench = Bench::new(disk, 4, &[]);
        bench.fair.set_rotational(true);
        // A stream alone shows nothing.
        bench.run(&mut [client(1, 1).sequential().depth(4)], Instant(2_000_000_000));
        assert!(bench.fair.model.has_head(), "{disk:?}");
        let mut clients = [client(1, 1).sequential().depth(4), client(2, 2).depth(2)];
        bench.run(&mut clients, Instant(6_000_000_000));
        assert_eq!(bench.fair.model.has_head(), is_head, "{disk:?}");
    }
}
