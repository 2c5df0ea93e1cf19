use super::*;
use crate::testing::{closed_loop, scattered};
use iopace_core::request::Extent;

const MIB: u64 = 1 << 20;

fn command(id: u64, op: Op, offset: u64, len: u64) -> Command {
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("small");
    Command { id, op, extent, fua: false }
}

/// A server at a round trip of 2 ms: 1 MiB takes 10 ms on the link, 20 ms on its disks.
fn small() -> NfsConfig {
    NfsConfig {
        capacity: Bytes(1 << 40),
        round_trip: Nanos::from_millis(2),
        rate_link: BytesPerSec(100 * MIB),
        rate_write: BytesPerSec(50 * MIB),
        rate_read: BytesPerSec(100 * MIB),
        read_time: Nanos::from_millis(5),
        spindles: 2,
        memory: Bytes(1 << 30),
        commit_time: Nanos::ZERO,
        commit_bytes: Bytes(8 * MIB),
        commit_interval: Nanos::from_secs(2),
        commit_idle: Nanos::from_millis(50),
        depth: 64,
    }
}

/// Milliseconds at which each command is done, by id; each with the one at which it is submitted.
fn run(disk: &mut Nfs, commands: &[(u64, Command)]) -> BTreeMap<u64, u64> {
    let (mut now, mut times, mut next) = (Instant::ZERO, BTreeMap::new(), 0);
    while next < commands.len() || !disk.next().is_never() {
        let submit = commands.get(next).map(|(at, _)| Instant::ZERO + Nanos::from_millis(*at));
        now = now.max(disk.next().min(submit.unwrap_or(Instant::NEVER)));
        while let Some(done) = disk.poll(now) {
            times.insert(done.id, now.0 / 1_000_000);
        }
        if submit == Some(now) {
            disk.submit(now, commands[next].1);
            next += 1;
        }
    }
    assert_eq!(times.len(), commands.len());
    times
}

/// Writes of 1 MiB in sequence, all at once.
fn writes(count: u64) -> Vec<(u64, Command)> {
    (0..count).map(|id| (0, command(id, Op::Write, id * MIB, MIB))).collect()
}

#[test]
fn writes_end_together_when_nothing_more_comes() {
    let times = run(&mut Nfs::new(small()), &writes(3));
    // Answered at 32 ms, on the server's disks at 71 ms; committed from 82 ms on.
    assert!(times.values().all(|&at| at == 84), "{times:?}");
}

#[test]
fn so_many_bytes_are_committed_while_more_is_sent() {
    let times = run(&mut Nfs::new(small()), &writes(20));
    // Eight are answered at 82 ms and on the disks at 171. By then nine more are answered, which
    // are on the disks at 351, and while they are committed the last three.
    let done: BTreeSet<u64> = times.values().copied().collect();
    assert_eq!(done, BTreeSet::from([172, 352, 412]), "{times:?}");
    let count = |time| times.values().filter(|&&at| at == time).count();
    assert_eq!((count(172), count(352), count(412)), (8, 9, 3));
}

#[test]
fn no_write_stays_unstable_longer_than_the_interval() {
    let config = NfsConfig { commit_idle: Nanos::from_secs(100), ..small() };
    let one = (0, command(0, Op::Write, 0, MIB));
    let times = run(&mut Nfs::new(config), &[one]);
    assert_eq!(times[&0], 2_014, "12 ms, 2 s and a round trip");
}

#[test]
fn the_memory_of_the_server_bounds_the_burst() {
    let config = NfsConfig { memory: Bytes(4 * MIB), ..small() };
    let times = run(&mut Nfs::new(config), &writes(60));
    let mut bursts = BTreeMap::<u64, u64>::new();
    times.values().for_each(|&at| *bursts.entry(at).or_default() += 1);
    let (sizes, at): (Vec<u64>, Vec<u64>) = bursts.iter().map(|(&at, &n)| (n, at)).unzip();
    assert_eq!(sizes[..sizes.len() - 1], vec![8; sizes.len() - 1], "{bursts:?}");
    let gaps: Vec<u64> = at[1..at.len() - 1].windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.iter().all(|gap| gap.abs_diff(160) < 5), "8 MiB at 50 MiB/s: {gaps:?}");
}

#[test]
fn a_flush_commits_what_came_before_it_and_waits_for_nothing_else() {
    let mut all = writes(2);
    all.push((0, command(10, Op::Flush, 0, 0)));
    all.push((0, command(11, Op::Write, 8 * MIB, MIB)));
    let times = run(&mut Nfs::new(small()), &all);
    // Both are answered at 22 ms and on the disks at 51 ms.
    assert_eq!((times[&0], times[&1], times[&10]), (52, 52, 52));
    assert!(times[&11] > 52);
    let idle = run(&mut Nfs::new(small()), &[(5, command(1, Op::Flush, 0, 0))]);
    assert_eq!(idle[&1], 5, "nothing to commit");
}

#[test]
fn fua_is_answered_when_it_is_on_the_disks() {
    let fua = Command { fua: true, ..command(1, Op::Write, 0, MIB) };
    let times = run(&mut Nfs::new(small()), &[(0, fua), (0, command(2, Op::Flush, 0, 0))]);
    assert_eq!((times[&1], times[&2]), (32, 32), "10 ms, 20 ms and a round trip");
}

#[test]
fn reads_end_one_by_one_and_the_server_reads_ahead() {
    let reads: Vec<(u64, Command)> =
        (0..4).map(|id| (0, command(id, Op::Read, id * MIB, MIB))).collect();
    let times = run(&mut Nfs::new(small()), &reads);
    // The first is found at 6 ms, what follows is there already and passes it.
    let mut done: Vec<u64> = times.into_values().collect();
    done.sort_unstable();
    assert_eq!(done, [22, 32, 42, 52]);
    let far = |id: u64| (0, command(id, Op::Read, id * 7_000 * MIB, 4096));
    let times = run(&mut Nfs::new(small()), &[far(1), far(2), far(3)]);
    assert_eq!((times[&1], times[&2], times[&3]), (7, 7, 12), "two disks position at once");
}

#[test]
fn reads_pass_writes_that_wait_for_their_commit() {
    let mut all = writes(4);
    all.push((45, command(10, Op::Read, 9 * MIB, 4096)));
    let times = run(&mut Nfs::new(small()), &all);
    assert_eq!(times[&10], 52);
    assert!(times[&0] > times[&10]);
}

#[test]
fn it_is_busy_while_something_is_outstanding() {
    let mut disk = Nfs::new(small());
    let read = |at, id| (at, command(id, Op::Read, id << 30, 4096));
    run(&mut disk, &[read(0, 1), read(1_000, 2)]);
    let busy = disk.stats().busy.0 / 1_000_000;
    assert_eq!((busy, disk.stats().commands_count), (14, 2));
}

#[test]
#[should_panic(expected = "more commands than the disk holds")]
fn more_than_its_depth_is_a_bug() {
    let mut disk = Nfs::new(NfsConfig { depth: 1, ..small() });
    disk.submit(Instant(0), command(1, Op::Read, 0, 4096));
    disk.submit(Instant(0), command(2, Op::Read, 0, 4096));
}

/// Bytes and instant of each burst of a preset under a writer that always has more, 128 KiB each.
fn bursts(depth: u64, bytes: u64) -> Vec<(u64, Nanos)> {
    const LEN: u64 = 131_072;
    let mut disk = (crate::presets::find("nfs-gigabit").expect("a preset").build)();
    let (mut now, mut sent, mut bursts) = (Instant::ZERO, 0, Vec::new());
    let mut send = |disk: &mut dyn Disk, now| {
        disk.submit(now, command(sent, Op::Write, sent * LEN, LEN));
        sent += 1;
    };
    (0..depth).for_each(|_| send(&mut *disk, now));
    let mut done = 0;
    while done < bytes {
        now = now.max(disk.next());
        let mut burst = 0;
        while disk.poll(now).is_some() {
            burst += LEN;
            send(&mut *disk, now);
        }
        if burst > 0 {
            bursts.push((burst, now.since(Instant::ZERO)));
        }
        done += burst;
    }
    bursts
}

#[test]
fn the_preset_gives_64_mib_every_two_seconds() {
    let bursts = bursts(1_024, 1 << 30);
    let steady = &bursts[2..];
    for two in steady.windows(2) {
        let gap = (two[1].1.0 - two[0].1.0) / 1_000_000;
        assert!((1_800..=2_100).contains(&gap), "{gap} ms: {bursts:?}");
        assert!((60 * MIB..=68 * MIB).contains(&two[1].0), "{bursts:?}");
    }
    let time = steady[steady.len() - 1].1.0 - steady[0].1.0;
    let bytes: u64 = steady[1..].iter().map(|burst| burst.0).sum();
    let mb_per_second = bytes * 1_000 / time;
    assert!((33..=35).contains(&mb_per_second), "{mb_per_second}");
}

#[test]
fn a_shallow_window_gives_small_bursts_and_less() {
    let bursts = bursts(32, 1 << 28);
    assert!(bursts.iter().all(|burst| burst.0 == 32 * 131_072), "{bursts:?}");
    let (last, first) = (bursts[bursts.len() - 1].1.0, bursts[0].1.0);
    let mb_per_second = (bursts.len() as u64 - 1) * 32 * 131_072 * 1_000 / (last - first);
    assert!((25..=32).contains(&mb_per_second), "{mb_per_second}");
}

#[test]
fn the_preset_reads_at_its_rate_and_positions_two_disks() {
    let build = crate::presets::find("nfs-gigabit").expect("a preset").build;
    let reads = |len, depth, offset: fn(u64) -> u64| {
        closed_loop(&mut *build(), Op::Read, len, depth, 2_000, offset)
    };
    let in_sequence = reads(131_072, 16, |i| i * 131_072).mb_per_second;
    assert!((76..=80).contains(&in_sequence), "{in_sequence}");
    let (one, many) = (reads(4096, 1, scattered).per_second, reads(4096, 64, scattered).per_second);
    assert!((70..=80).contains(&one), "{one}");
    assert!((145..=155).contains(&many), "{many}");
}
