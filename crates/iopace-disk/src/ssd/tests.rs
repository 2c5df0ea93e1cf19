use super::*;
use crate::testing::{closed_loop, scattered};
use iopace_core::request::Extent;
use iopace_core::units::BytesPerSec;

fn command(id: u64, op: Op, offset: u64, len: u64) -> Command {
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
    Command { id, op, extent, fua: false }
}

/// Two units of 100 us per read and 1 ms per program, a controller and an interface of no time.
fn tiny() -> SsdConfig {
    SsdConfig {
        capacity: Bytes(1 << 30),
        units: 2,
        stripe: Bytes(16_384),
        command_time: Nanos::ZERO,
        overhead: Nanos::ZERO,
        read_time: Nanos::from_micros(100),
        program_time: Nanos::from_millis(1),
        rate_bus: BytesPerSec(u64::MAX),
        write_cache: Bytes(8 * 16_384),
        spare: Bytes(4 * 16_384),
        gc_permille: 3_000,
        clean_rate: BytesPerSec(16_384_000),
        block: Bytes::ZERO,
        open_blocks: 0,
        merge_time: Nanos::ZERO,
        flush_time: Nanos::ZERO,
        depth: 32,
    }
}

/// The time at which each command is done, by id, in whole microseconds. They are submitted 20 ns
/// one after the other: even the fastest interface takes a nanosecond.
fn run(disk: &mut Ssd, from: Instant, commands: &[Command]) -> BTreeMap<u64, Nanos> {
    for (&command, i) in commands.iter().zip(0..) {
        disk.submit(from + Nanos(20 * i), command);
    }
    let (mut now, mut times) = (from, BTreeMap::new());
    while !disk.next().is_never() {
        now = now.max(disk.next());
        while let Some(done) = disk.poll(now) {
            times.insert(done.id, Nanos(now.since(from).0 / 1_000 * 1_000));
        }
    }
    assert_eq!(times.len(), commands.len());
    times
}

#[test]
fn the_presets_reach_the_figures_of_their_data_sheets() {
    // Reads at depth 1 and at full depth, writes at depth 1 per second; MB/s read and written.
    for (name, sheet) in [
        ("ssd-sata", [10_000, 98_000, 40_000, 540, 520]),
        ("ssd-nvme", [14_000, 380_000, 50_000, 3_200, 1_900]),
    ] {
        let preset = crate::presets::find(name).expect("a preset");
        let run = |op, len, depth, offset: fn(u64) -> u64| {
            closed_loop(&mut *(preset.build)(), op, len, depth, 20_000, offset)
        };
        let depth = u64::from((preset.build)().depth());
        let in_sequence = |i: u64| i * 131_072;
        let reached = [
            run(Op::Read, 4096, 1, scattered).per_second,
            run(Op::Read, 4096, depth, scattered).per_second,
            run(Op::Write, 4096, 1, scattered).per_second,
            run(Op::Read, 131_072, 16, in_sequence).mb_per_second,
            run(Op::Write, 131_072, 16, in_sequence).mb_per_second,
        ];
        for (reached, sheet) in reached.iter().zip(sheet) {
            assert!(
                (sheet * 9 / 10..=sheet * 11 / 10).contains(reached),
                "{name}: {reached} of {sheet}"
            );
        }
    }
}

#[test]
fn pieces_on_two_units_are_read_side_by_side_and_on_one_after_another() {
    let mut disk = Ssd::new(tiny());
    let reads = [command(1, Op::Read, 0, 32_768), command(2, Op::Read, 32_768, 4096)];
    let times = run(&mut disk, Instant(0), &reads);
    assert_eq!(times[&1], Nanos::from_micros(100));
    assert_eq!(times[&2], Nanos::from_micros(200));
}

#[test]
fn a_write_is_done_in_the_cache_a_flush_and_fua_in_the_flash() {
    let mut disk = Ssd::new(tiny());
    let write = command(1, Op::Write, 0, 16_384);
    let times = run(&mut disk, Instant(0), &[write, command(2, Op::Flush, 0, 0)]);
    assert_eq!(times[&1], Nanos::ZERO);
    assert_eq!(times[&2], Nanos::from_millis(1));
    let later = Instant::ZERO + Nanos::from_secs(1);
    let fua = Command { fua: true, ..command(1, Op::Write, 0, 16_384) };
    let times = run(&mut disk, later, &[fua, command(2, Op::Flush, 0, 0)]);
    assert_eq!(times[&1], Nanos::from_millis(1));
    let times = run(&mut disk, later + Nanos::from_secs(1), &[command(3, Op::Flush, 0, 0)]);
    assert_eq!(times[&3], Nanos::ZERO, "nothing is left");
}

#[test]
fn a_flush_takes_its_time_if_anything_was_written() {
    let mut disk = Ssd::new(SsdConfig { flush_time: Nanos::from_millis(3), ..tiny() });
    let flush = |id| command(id, Op::Flush, 0, 0);
    let write = |id| command(id, Op::Write, 0, 16_384);
    let times = run(&mut disk, Instant(0), &[flush(0), write(1), flush(2), flush(3), write(4)]);
    assert_eq!(times[&0], Nanos::ZERO, "nothing was written");
    assert_eq!(times[&2], Nanos::from_millis(4));
    assert_eq!(times[&3], Nanos::from_millis(4), "what it covers is durable with the one before");
    assert_eq!(times[&4], Nanos::ZERO);
    let later = |secs| Instant::ZERO + Nanos::from_secs(secs);
    assert_eq!(run(&mut disk, later(1), &[flush(5)])[&5], Nanos::from_millis(3), "for write 4");
    assert_eq!(run(&mut disk, later(2), &[flush(6)])[&6], Nanos::ZERO);
}

#[test]
fn a_flush_does_not_wait_for_writes_after_it() {
    let mut disk = Ssd::new(tiny());
    let mut all = vec![command(0, Op::Write, 0, 16_384), command(1, Op::Flush, 0, 0)];
    all.extend((2..10).map(|id| command(id, Op::Write, id * 16_384, 16_384)));
    all.push(command(10, Op::Flush, 0, 0));
    let times = run(&mut disk, Instant(0), &all);
    assert_eq!(times[&1], Nanos::from_millis(1));
    assert!(times[&10] >= Nanos::from_millis(4), "{}", times[&10]);
}

#[test]
fn a_write_waits_for_room_in_the_cache() {
    let mut disk = Ssd::new(tiny());
    let all: Vec<Command> = (0..12).map(|i| command(i, Op::Write, i * 16_384, 16_384)).collect();
    let times = run(&mut disk, Instant(0), &all);
    assert_eq!(times[&7], Nanos::ZERO, "eight fit");
    assert_eq!(times[&8], Nanos::from_millis(1));
    assert_eq!(times[&10], Nanos::from_millis(2));
    let large = run(&mut Ssd::new(tiny()), Instant(0), &[command(1, Op::Write, 0, 1 << 20)]);
    assert_eq!(large[&1], Nanos::ZERO, "one larger than the cache does not wait for ever");
}

#[test]
fn reads_go_before_programs_but_not_for_ever() {
    let mut disk = Ssd::new(SsdConfig { units: 1, ..tiny() });
    let mut all = vec![command(0, Op::Write, 0, 4 * 16_384)];
    all.extend((1..=20).map(|id| command(id, Op::Read, id * 16_384, 4096)));
    all.push(command(30, Op::Flush, 0, 0));
    let times = run(&mut disk, Instant(0), &all);
    // The first program is under way; then eight reads, a program, eight reads, a program ...
    assert_eq!(times[&1], Nanos::from_micros(1_100));
    assert_eq!(times[&8], Nanos::from_micros(1_800));
    assert_eq!(times[&9], Nanos::from_micros(2_900));
    assert_eq!(times[&17], Nanos::from_micros(4_700));
    assert_eq!(times[&30], Nanos::from_millis(6));
}

#[test]
fn random_writes_use_up_what_is_erased_and_a_rest_or_a_trim_brings_it_back() {
    let flushed = |disk: &mut Ssd, from: Instant, place: u64| {
        let write = command(1, Op::Write, place << 20, 16_384);
        run(disk, from, &[write, command(2, Op::Flush, 0, 0)])[&2]
    };
    let mut disk = Ssd::new(SsdConfig { clean_rate: BytesPerSec(0), ..tiny() });
    let mut now = Instant::ZERO;
    let mut times: Vec<u64> = Vec::new();
    for place in 1..=6 {
        times.push(flushed(&mut disk, now, place).0 / 1_000_000);
        now = now + Nanos::from_millis(10);
    }
    assert_eq!(times, [1, 1, 1, 1, 3, 3]);
    let follows = command(1, Op::Write, (6 << 20) + 16_384, 16_384);
    let times = run(&mut disk, now, &[follows, command(2, Op::Flush, 0, 0)]);
    assert_eq!(times[&2], Nanos::from_millis(1), "one that follows needs no copying");
    now = now + Nanos::from_secs(1);
    run(&mut disk, now, &[command(1, Op::Trim, 0, 16_384)]);
    assert_eq!(flushed(&mut disk, now, 20), Nanos::from_millis(1));
    assert_eq!(flushed(&mut disk, now + Nanos::from_secs(1), 30), Nanos::from_millis(3));
    let mut rested = Ssd::new(tiny());
    for place in 1..=5 {
        flushed(&mut rested, Instant::ZERO, place);
    }
    assert_eq!(flushed(&mut rested, Instant(1_000_000_000_000), 9), Nanos::from_millis(1));
}

#[test]
fn another_block_than_the_open_ones_costs_a_merge() {
    let config = SsdConfig {
        units: 1,
        block: Bytes(64 * 1024),
        open_blocks: 2,
        merge_time: Nanos::from_millis(100),
        spare: Bytes(1 << 30),
        ..tiny()
    };
    let mut disk = Ssd::new(config);
    let mut now = Instant::ZERO;
    // The time of a flushed write of one stripe into a block, in milliseconds.
    let mut flushed = |block: u64, len: u64| {
        let write = command(1, Op::Write, block * 65_536, len);
        now = now + Nanos::from_secs(1);
        run(&mut disk, now, &[write, command(2, Op::Flush, 0, 0)])[&2].0 / 1_000_000
    };
    assert_eq!((flushed(0, 16_384), flushed(7, 16_384)), (1, 1), "two may be open");
    assert_eq!((flushed(0, 16_384), flushed(7, 16_384)), (1, 1), "they still are");
    assert_eq!(flushed(3, 16_384), 101, "block 0 is closed");
    assert_eq!(flushed(7, 16_384), 1, "it was written later than block 0");
    assert_eq!(flushed(0, 16_384), 101, "now block 3 is closed");
    assert_eq!(flushed(20, 4 * 65_536), 4 * 104, "a write over four blocks closes four");
}

/// Time of each of some commands, one after the other, in microseconds.
fn one_by_one(disk: &mut dyn Disk, op: Op, len: u64, count: u64) -> Vec<u64> {
    let (mut now, mut times) = (Instant::ZERO, Vec::new());
    for i in 0..count {
        let from = now;
        disk.submit(now, command(i, op, i * len, len));
        while disk.poll(now).is_none() {
            now = now.max(disk.next());
        }
        times.push(now.since(from).0 / 1_000);
    }
    times
}

#[test]
fn the_usb_key_reads_at_24_mb_s_writes_at_6_and_stalls_every_4_mib() {
    let build = crate::presets::find("usb-key").expect("a preset").build;
    assert_eq!(build().depth(), 1);
    let rate = |op| closed_loop(&mut *build(), op, 131_072, 1, 4_096, |i| i * 131_072);
    let (read, written) = (rate(Op::Read).mb_per_second, rate(Op::Write).mb_per_second);
    assert!((20..=30).contains(&read), "{read}");
    assert!((5..=8).contains(&written), "{written}");
    let times = one_by_one(&mut *build(), Op::Write, 131_072, 1_024);
    let stalls: Vec<usize> = (0..times.len()).filter(|&i| times[i] > 100_000).collect();
    assert!(stalls.len() > 25, "{}", stalls.len());
    assert!(stalls.windows(2).all(|two| two[1] - two[0] == 32), "{stalls:?}");
    assert!(stalls.iter().all(|&i| (100_000..300_000).contains(&times[i])));
    let quiet = times.iter().filter(|&&time| time < 20_000).count();
    assert_eq!(quiet + stalls.len(), 1_024, "nothing between a write and a stall");
}

#[test]
#[should_panic(expected = "more commands than the disk holds")]
fn more_than_its_depth_is_a_bug() {
    let mut disk = Ssd::new(SsdConfig { depth: 1, ..tiny() });
    disk.submit(Instant(0), command(1, Op::Read, 0, 4096));
    disk.submit(Instant(0), command(2, Op::Read, 0, 4096));
}

#[test]
fn it_is_busy_while_something_is_under_way() {
    let mut disk = Ssd::new(tiny());
    run(&mut disk, Instant(0), &[command(1, Op::Read, 0, 4096)]);
    run(&mut disk, Instant(1_000_000_000), &[command(2, Op::Read, 0, 4096)]);
    assert_eq!(disk.stats().busy.0 / 1_000, 200);
}
