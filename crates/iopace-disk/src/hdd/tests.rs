use super::*;
use crate::presets;
use crate::testing::{closed_loop, scattered};
use iopace_core::request::Extent;

fn disk(name: &str) -> Box<dyn Disk> {
    (presets::find(name).expect("a preset").build)()
}

fn command(id: u64, op: Op, offset: u64, len: u64) -> Command {
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
    Command { id, op, extent, fua: false }
}

/// Submits one command and waits for it.
fn one(disk: &mut dyn Disk, now: Instant, command: Command) -> Instant {
    disk.submit(now, command);
    let mut now = now;
    loop {
        now = now.max(disk.next());
        assert!(!now.is_never(), "{command:?} never ends");
        if disk.poll(now).is_some() {
            return now;
        }
    }
}

#[test]
fn it_reads_in_sequence_at_the_rate_of_the_outer_edge() {
    let reached =
        closed_loop(&mut *disk("hdd-sata-250g"), Op::Read, 131_072, 1, 5_000, |i| i * 131_072);
    assert!((70..=72).contains(&reached.mb_per_second), "{reached:?}");
}

#[test]
fn a_gap_between_sequential_reads_is_covered_by_read_ahead() {
    let mut disk = disk("hdd-sata-250g");
    let mut now = Instant::ZERO;
    for i in 0..2_000 {
        now = one(&mut *disk, now, command(i, Op::Read, i * 131_072, 131_072));
        now = now + Nanos::from_micros(100);
    }
    let rate = 2_000 * 131_072 * 1_000 / (now.0 / 1_000_000);
    assert!(rate >= 69_000_000, "{rate} B/s");
    assert!(disk.stats().buffer_hits_count > 1_900);
}

#[test]
fn random_reads_take_a_seek_and_half_a_turn() {
    let reached = closed_loop(&mut *disk("hdd-sata-250g"), Op::Read, 4096, 1, 3_000, scattered);
    assert!((70..=90).contains(&reached.per_second), "{reached:?}");
}

#[test]
fn within_a_narrow_region_they_take_mostly_the_turn() {
    let narrow = |i: u64| scattered(i) / 100;
    let reached = closed_loop(&mut *disk("hdd-sata-250g"), Op::Read, 4096, 1, 3_000, narrow);
    assert!((120..=180).contains(&reached.per_second), "{reached:?}");
}

#[test]
fn the_mean_rotational_wait_is_half_a_turn() {
    let mut disk = Hdd::new(HddConfig {
        seek_track: Nanos::ZERO,
        seek_average: Nanos::ZERO,
        seek_full: Nanos::ZERO,
        overhead: Nanos::ZERO,
        ..tiny()
    });
    let reached = closed_loop(&mut disk, Op::Read, 512, 1, 5_000, scattered);
    let mean_us = reached.mean.0 / 1_000;
    assert!((3_900..=4_450).contains(&mean_us), "{mean_us} us");
}

pub(super) fn tiny() -> HddConfig {
    HddConfig {
        capacity: Bytes(250_000_000_000),
        rotation: Nanos(8_333_333),
        seek_track: Nanos::from_millis(1),
        seek_average: Nanos::from_millis(8),
        seek_full: Nanos::from_millis(18),
        write_settle: Nanos::ZERO,
        rate_outer: BytesPerSec(72_000_000),
        rate_inner: BytesPerSec(40_000_000),
        write_permille: 1_000,
        rate_bus: BytesPerSec(150_000_000),
        overhead: Nanos::from_micros(200),
        read_ahead: Bytes(512 * 1024),
        segments: 8,
        write_cache: Bytes(1 << 20),
        destage_idle: Nanos::from_millis(100),
        depth: 1,
        ncq_age_max: Nanos::from_millis(500),
    }
}

#[test]
fn the_inner_edge_is_slower() {
    let inner = |i: u64| 240_000_000_000 + i * 131_072;
    let reached = closed_loop(&mut *disk("hdd-sata-250g"), Op::Read, 131_072, 1, 1_000, inner);
    assert!((33..=40).contains(&reached.mb_per_second), "{reached:?}");
}

#[test]
fn sequential_writes_are_limited_by_the_medium_once_the_cache_is_full() {
    let reached =
        closed_loop(&mut *disk("hdd-sata-250g"), Op::Write, 131_072, 1, 8_000, |i| i * 131_072);
    assert!((52..=57).contains(&reached.mb_per_second), "{reached:?}");
}

#[test]
fn two_readers_one_by_one_get_little_of_the_disk() {
    // One reads in sequence from the outer edge, one at random in a partition of 32 GiB.
    let mut disk = disk("hdd-sata-250g");
    let mut now = Instant::ZERO;
    for i in 0..2_000 {
        now = one(&mut *disk, now, command(i, Op::Read, i * 131_072, 131_072));
        let random = (32 << 30) + scattered(i) % (32 << 30);
        now = one(&mut *disk, now, command(i, Op::Read, random, 8_192));
    }
    let rate = 2_000 * 131_072 * 1_000 / (now.0 / 1_000_000);
    assert!((4_500_000..=7_500_000).contains(&rate), "{rate} B/s");
}

#[test]
fn a_cached_write_is_quick_a_flush_and_fua_are_not() {
    let mut disk = Hdd::new(tiny());
    let start = Instant(1_000);
    let written = one(&mut disk, start, command(1, Op::Write, 100_000_000_000, 4096));
    assert!(written.since(start) < Nanos::from_millis(1), "{}", written.since(start));
    let flushed = one(&mut disk, written, command(2, Op::Flush, 0, 0));
    assert!(flushed.since(written) > Nanos::from_millis(2), "{}", flushed.since(written));
    let again = one(&mut disk, flushed, command(3, Op::Flush, 0, 0));
    assert!(again.since(flushed) < Nanos::from_millis(1), "nothing was left to write");
    let fua = Command { fua: true, ..command(4, Op::Write, 5_000_000_000, 4096) };
    let durable = one(&mut disk, again, fua);
    assert!(durable.since(again) > Nanos::from_millis(2), "{}", durable.since(again));
}

#[test]
fn a_quiet_disk_empties_its_cache() {
    let mut disk = Hdd::new(tiny());
    let written = one(&mut disk, Instant(0), command(1, Op::Write, 1 << 30, 65_536));
    let later = written + Nanos::from_secs(1);
    let flushed = one(&mut disk, later, command(2, Op::Flush, 0, 0));
    assert!(flushed.since(later) < Nanos::from_millis(1), "{}", flushed.since(later));
}

#[test]
fn ncq_serves_more_random_reads_than_one_at_a_time() {
    let one = closed_loop(&mut *disk("hdd-sata-250g"), Op::Read, 4096, 1, 2_000, scattered);
    let many = closed_loop(&mut *disk("hdd-sata-250g-ncq"), Op::Read, 4096, 31, 2_000, scattered);
    assert!(many.per_second * 10 > one.per_second * 18, "{one:?} {many:?}");
}

#[test]
#[should_panic(expected = "more commands than the disk holds")]
fn more_than_its_depth_is_a_bug() {
    let mut disk = disk("hdd-sata-250g");
    disk.submit(Instant(0), command(1, Op::Read, 0, 4096));
    disk.submit(Instant(0), command(2, Op::Read, 0, 4096));
}

#[test]
fn mixed_commands_all_end_on_every_preset() {
    for preset in presets::PRESETS {
        let mut disk = (preset.build)();
        let (mut now, mut open, mut done) = (Instant::ZERO, 0u32, 0);
        for i in 0..2_000u64 {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::Trim][(i * 7 % 5) as usize];
            let offset = scattered(i) / 8;
            let fua = i % 11 == 0;
            disk.submit(now, Command { fua, ..command(i, op, offset, 4096 * (1 + i % 40)) });
            open += 1;
            while open >= disk.depth() || (i == 1_999 && open > 0) {
                let next = disk.next();
                assert!(!next.is_never(), "{}: {open} never end", preset.name);
                now = now.max(next);
                while disk.poll(now).is_some() {
                    (open, done) = (open - 1, done + 1);
                }
            }
        }
        assert_eq!(done, 2_000, "{}", preset.name);
    }
}

#[test]
fn cached_writes_do_not_slow_reads_that_come_in_short_pauses() {
    let time_of_reads = |with_writes: bool| {
        let mut disk = disk("hdd-sata-250g");
        let mut now = Instant::ZERO;
        if with_writes {
            for i in 0..32 {
                now = one(
                    &mut *disk,
                    now,
                    command(i, Op::Write, 200_000_000_000 + i * 131_072, 131_072),
                );
            }
        }
        let begin = now;
        for i in 0..50 {
            now = one(&mut *disk, now, command(i, Op::Read, scattered(i) / 10, 4096));
            now = now + Nanos::from_millis(2);
        }
        now.since(begin)
    };
    let (alone, beside) = (time_of_reads(false), time_of_reads(true));
    assert!(beside < alone + Nanos::from_millis(40), "{beside} beside, {alone} alone");
}

/// Runs until every command is done; panics if that takes longer than `most`.
fn finish_within(disk: &mut dyn Disk, from: Instant, count: usize, most: Nanos) -> Vec<u64> {
    let (mut now, mut done) = (from, Vec::new());
    while done.len() < count {
        now = now.max(disk.next());
        assert!(now <= from + most, "{done:?} of {count} after {}", now.since(from));
        done.extend(std::iter::from_fn(|| disk.poll(now)).map(|completion| completion.id));
    }
    done
}

#[test]
fn a_flush_beside_endless_reads_and_writes_ends() {
    let mut disk = disk("hdd-sata-250g-ncq");
    let mut now = Instant::ZERO;
    for i in 0..20 {
        now = one(&mut *disk, now, command(i, Op::Write, scattered(i), 4096));
    }
    disk.submit(now, command(1_000, Op::Flush, 0, 0));
    let from = now;
    for id in 0..30 {
        let op = if id % 2 == 0 { Op::Read } else { Op::Write };
        disk.submit(now, command(id, op, scattered(id + 100), 4096));
    }
    let mut next = 0;
    loop {
        now = now.max(disk.next());
        assert!(now.since(from) < Nanos::from_secs(2), "the flush never ends");
        let Some(done) = disk.poll(now) else { continue };
        if done.id == 1_000 {
            break;
        }
        next += 1;
        let op = if done.id % 2 == 0 { Op::Read } else { Op::Write };
        disk.submit(now, command(done.id, op, scattered(next + 200), 4096));
    }
}

#[test]
fn with_ncq_no_command_is_passed_over_for_ever() {
    let mut disk = disk("hdd-sata-250g-ncq");
    // Far from all others.
    disk.submit(Instant(0), command(99, Op::Read, 240_000_000_000, 4096));
    for id in 0..30 {
        disk.submit(Instant(0), command(id, Op::Read, scattered(id) / 1_000, 4096));
    }
    let (mut now, mut next) = (Instant(0), 100);
    loop {
        now = now.max(disk.next());
        assert!(now < Instant::ZERO + Nanos::from_secs(1), "passed over");
        let Some(done) = disk.poll(now) else { continue };
        if done.id == 99 {
            return;
        }
        next += 1;
        disk.submit(now, command(next, Op::Read, scattered(next) / 1_000, 4096));
    }
}

#[test]
fn a_quiet_disk_writes_its_whole_cache_in_one_go() {
    let mut disk = Hdd::new(tiny());
    let mut now = Instant::ZERO;
    for i in 0..8 {
        now = one(&mut disk, now, command(i, Op::Write, i * 65_536, 65_536));
    }
    // 512 KiB take 8 ms at the outer edge, and a turn to begin.
    let later = now + Nanos::from_millis(100 + 8 + 20);
    let flushed = one(&mut disk, later, command(9, Op::Flush, 0, 0));
    assert!(flushed.since(later) < Nanos::from_millis(1), "{}", flushed.since(later));
}

#[test]
fn what_was_just_written_is_read_from_the_cache_and_what_was_passed_long_ago_is_not() {
    let mut disk = Hdd::new(tiny());
    let written = one(&mut disk, Instant(0), command(1, Op::Write, 1 << 30, 65_536));
    let read = one(&mut disk, written, command(2, Op::Read, (1 << 30) + 4096, 4096));
    assert!(read.since(written) < Nanos::from_millis(1), "{}", read.since(written));
    let mut now = read;
    for i in 0..100 {
        now = one(&mut disk, now, command(i, Op::Read, i * 131_072, 131_072));
    }
    let hits_count = disk.stats().buffer_hits_count;
    one(&mut disk, now, command(200, Op::Read, 0, 4096));
    assert_eq!(disk.stats().buffer_hits_count, hits_count, "12 MB ago, in a buffer of 512 KiB");
}

#[test]
fn the_same_commands_take_the_same_time_however_often_it_is_polled() {
    let run = |step: Option<Nanos>| {
        let mut disk = disk("hdd-sata-250g");
        let (mut now, mut times) = (Instant::ZERO, Vec::new());
        for i in 0..300 {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush][(scattered(i) >> 20) as usize % 4];
            disk.submit(now, command(i, op, scattered(i * 3) / 50, 65_536));
            loop {
                let at = disk.next();
                now = match step {
                    Some(step) if now + step < at => now + step,
                    _ => now.max(at),
                };
                if disk.poll(now).is_some() {
                    break;
                }
            }
            times.push(now);
            now = now + Nanos::from_millis(scattered(i) % 200);
        }
        times
    };
    assert_eq!(run(None), run(None));
    assert_eq!(run(None), run(Some(Nanos::from_micros(700))));
}

#[test]
fn a_write_larger_than_the_cache_and_a_disk_without_one_work() {
    for write_cache in [Bytes::ZERO, Bytes(65_536)] {
        let mut disk = Hdd::new(HddConfig { write_cache, depth: 4, ..tiny() });
        for id in 0..3 {
            disk.submit(Instant(0), command(id, Op::Write, id << 30, 131_072));
        }
        disk.submit(Instant(0), command(3, Op::Flush, 0, 0));
        finish_within(&mut disk, Instant(0), 4, Nanos::from_millis(200));
    }
}
