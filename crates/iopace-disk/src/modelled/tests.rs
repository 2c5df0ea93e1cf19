use super::*;
use crate::disk::{Completion, DiskStats};
use crate::faulty::{FaultRates, Faulty};
use crate::null::Null;
use crate::presets;
use crate::scripted::{Scripted, ScriptedStep};
use iopace_core::engine::Control;
use iopace_core::group::{Limits, Rates, Settings};
use iopace_core::pace::Thresholds;
use iopace_core::request::{GroupId, TaskId};
use iopace_core::sched::{self, fifo};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// A disk with a volatile cache that takes a pseudo-random time and may fail or lose commands.
#[derive(Debug)]
struct Shaky {
    random: u64,
    /// Of 1000 commands, how many fail and how many are lost.
    fail_permille: u64,
    lose_permille: u64,
    pending: BTreeMap<(Instant, u64), Command>,
    outstanding: u32,
}

impl Shaky {
    fn next_random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
        (self.random >> 33) % below
    }
}

fn shaky(seed: u64, fail_permille: u64, lose_permille: u64) -> Box<dyn Disk> {
    let (pending, outstanding) = (BTreeMap::new(), 0);
    Box::new(Shaky { random: seed, fail_permille, lose_permille, pending, outstanding })
}

impl Disk for Shaky {
    fn capacity(&self) -> Bytes {
        Bytes::from_mib(64)
    }

    fn depth(&self) -> u32 {
        4
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now: Instant, command: Command) {
        assert!(command.extent.end() <= self.capacity());
        if self.next_random(1000) < self.lose_permille {
            return;
        }
        self.outstanding += 1;
        assert!(self.outstanding <= self.depth());
        let at = now + Nanos(1 + self.next_random(5_000_000));
        self.pending.insert((at, command.id), command);
    }

    fn next(&self) -> Instant {
        self.pending.first_key_value().map_or(Instant::NEVER, |((at, _), _)| *at)
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let entry = self.pending.first_entry().filter(|entry| entry.key().0 <= now)?;
        let id = entry.remove().id;
        self.outstanding -= 1;
        let fails = self.next_random(1000) < self.fail_permille;
        let outcome = if fails { Outcome::Failed(DiskError::Io) } else { Outcome::Ok };
        Some(Completion { id, outcome })
    }

    fn stats(&self) -> DiskStats {
        DiskStats::default()
    }
}

fn machine(disk: Box<dyn Disk>, cached: bool) -> Machine {
    let cache = PageCacheConfig { memory: Bytes::from_mib(1), drop_behind: true };
    let (background, limit) = (Bytes::from_kib(100), Bytes::from_kib(200));
    let config = Config {
        base: &fifo::ALGORITHM,
        nr_requests: 16,
        window_depth: 32,
        memory: Thresholds { background, limit },
        ..Config::default()
    };
    Modelled::pump(config, cached.then_some(cache), disk)
}

fn submit(tag: u64, op: Op, offset: u64, len: u64) -> Submit {
    Submit {
        tag: Tag(tag),
        task: TaskId(tag % 5),
        group: GroupId::ROOT,
        op,
        extent: Extent::new(Bytes(offset), Bytes(len)).expect("small"),
        fua: false,
        sync: true,
    }
}

/// Requests that have ended.
type Ended = Vec<(Io, End)>;

/// Drains at `now`; says when to come back.
fn drain(machine: &mut Machine, now: Instant, ended: &mut Ended) -> Instant {
    let at = machine.drain(now, ended, |_| {});
    assert!(at > now, "it must not ask to come back at once");
    at
}

/// Drains until nothing is left to do; says when that is.
fn run_until_idle(machine: &mut Machine, mut now: Instant, ended: &mut Ended) -> Instant {
    loop {
        let at = drain(machine, now, ended);
        if at.is_never() {
            return now;
        }
        now = at;
    }
}

#[test]
fn p1_every_request_finishes_exactly_once_on_any_disk() {
    for seed in 1..=30u64 {
        let (fail, lose) = [(0, 0), (50, 0), (20, 20)][seed as usize % 3];
        let mut machine = machine(shaky(seed, fail, lose), seed % 4 != 0);
        let mut random = Shaky {
            random: seed,
            fail_permille: 0,
            lose_permille: 0,
            pending: BTreeMap::new(),
            outstanding: 0,
        };
        let (mut now, mut seen) = (Instant::ZERO, BTreeMap::<u64, u32>::new());
        let mut ended = Ended::new();
        const COUNT: u64 = 400;
        for tag in 0..COUNT {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::Trim, Op::Cache]
                [random.next_random(6) as usize];
            let offset = random.next_random(16_000) * 4096;
            let len = if op == Op::Flush { 0 } else { (1 + random.next_random(32)) * 512 };
            let fua = op == Op::Write && random.next_random(8) == 0;
            let one = Submit { fua, ..submit(tag, op, offset, len) };
            let io = Io { submit: one, buffered: random.next_random(5) > 0 };
            machine.submit(now, io, &mut ended);
            if random.next_random(20) == 0 {
                exchange(&mut machine, now, random.next_random(100));
            }
            let at = drain(&mut machine, now, &mut ended);
            now = at.min(now + Nanos(random.next_random(3_000_000) + 1));
        }
        run_until_idle(&mut machine, now, &mut ended);
        ended.iter().for_each(|(io, _)| *seen.entry(io.submit.tag.0).or_default() += 1);
        assert_eq!(seen.len() as u64, COUNT, "seed {seed}: each finished");
        assert!(seen.values().all(|&times| times == 1), "seed {seed}: none twice");
        assert_eq!(machine.backend().cache().map_or(Bytes::ZERO, PageCache::dirty), Bytes::ZERO);
    }
}

/// Puts some scheduler of the registry in, or in the place of the one that is.
fn exchange(machine: &mut Machine, now: Instant, random: u64) {
    let to = sched::REGISTRY[random as usize % sched::REGISTRY.len()];
    let control = if machine.engine().status().inserted {
        Control::Configure(Some(to), to.defaults().changes())
    } else {
        Control::Insert(to, to.defaults())
    };
    machine.control(now, control).expect("a legal change");
}

/// A faulty disk under every preset, exchanges under load; then faults off: everything is done, and
/// what comes after fails no more.
#[test]
fn p1_on_every_preset_with_faults_and_exchanges_nothing_is_lost_and_then_all_is_well() {
    for (preset, seed) in presets::PRESETS.iter().zip(1..) {
        let rates = FaultRates {
            error_permille: 30,
            stall_permille: 30,
            stall: Nanos::from_secs(2),
            lost_permille: 10,
        };
        let faulty = Faulty::new((preset.build)(), rates, seed);
        let switch = faulty.switch();
        let mut machine = machine(Box::new(faulty), true);
        let (mut now, mut random) = (Instant::ZERO, seed);
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
            (random >> 33) % below
        };
        let (mut times, mut ended) = (BTreeMap::<u64, u32>::new(), Ended::new());
        for tag in 0..300 {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::WriteZeroes][next(5) as usize];
            let len = if op == Op::Flush { 0 } else { (1 + next(32)) * 4096 };
            let one = submit(tag, op, next(1 << 20) * 4096, len);
            machine.submit(now, Io { submit: one, buffered: next(4) > 0 }, &mut ended);
            if tag % 10 == 0 {
                exchange(&mut machine, now, next(100));
            }
            let at = drain(&mut machine, now, &mut ended);
            now = at.min(now + Nanos(1 + next(5_000_000)));
        }
        switch.set(false);
        let end = run_until_idle(&mut machine, now, &mut ended);
        ended.iter().for_each(|(io, _)| *times.entry(io.submit.tag.0).or_default() += 1);
        assert_eq!(times.len(), 300, "{}", preset.name);
        assert!(times.values().all(|&count| count == 1), "{}", preset.name);
        // One flush may still report what failed before.
        let mut flush = |tag| {
            let io = Io { submit: submit(tag, Op::Flush, 0, 0), buffered: true };
            let mut ended = Ended::new();
            machine.submit(end, io, &mut ended);
            run_until_idle(&mut machine, end, &mut ended);
            ended[0].1.outcome
        };
        flush(1_000);
        assert_eq!(flush(1_001), Outcome::Ok, "{}", preset.name);
    }
}

#[test]
fn the_same_requests_give_the_same_times() {
    let run = || {
        let disk = (presets::find("hdd-sata-250g").expect("a preset").build)();
        let mut machine = machine(disk, true);
        let (mut now, mut log, mut ended) = (Instant::ZERO, String::new(), Ended::new());
        for tag in 0..200 {
            let op = [Op::Read, Op::Write, Op::Flush][tag as usize % 3];
            let len = if op == Op::Flush { 0 } else { 65_536 };
            let one = submit(tag, op, (tag * 7_919 % 1_000) << 20, len);
            machine.submit(now, Io { submit: one, buffered: true }, &mut ended);
            let at = drain(&mut machine, now, &mut ended);
            log += &format!("{now:?} {ended:?}\n");
            ended.clear();
            now = at.min(now + Nanos::from_millis(5));
        }
        let end = run_until_idle(&mut machine, now, &mut ended);
        log + &format!("{end:?} {ended:?}")
    };
    assert_eq!(run(), run());
}

#[test]
fn the_stages_of_a_request_sum_to_the_time_it_took() {
    let disk = (presets::find("hdd-sata-250g").expect("a preset").build)();
    let mut machine = machine(disk, true);
    let (mut submitted, mut ended) = (BTreeMap::new(), Ended::new());
    for tag in 0..60 {
        let op = [Op::Read, Op::Write, Op::Write, Op::Flush][tag as usize % 4];
        let len = if op == Op::Flush { 0 } else { 131_072 };
        let now = Instant(tag * 1_000);
        submitted.insert(tag, now);
        let io = Io { submit: submit(tag, op, tag << 24, len), buffered: tag % 7 != 0 };
        machine.submit(now, io, &mut ended);
        drain(&mut machine, now, &mut ended);
    }
    ended.clear();
    let mut now = Instant(60_000);
    while !now.is_never() {
        let at = drain(&mut machine, now, &mut ended);
        for (io, end) in ended.drain(..) {
            assert_eq!(end.times.total(), now.since(submitted[&io.submit.tag.0]), "{end:?}");
        }
        now = at;
    }
}

#[test]
fn a_buffered_write_is_finished_at_once_and_read_back_without_the_disk() {
    let mut machine = machine(shaky(1, 0, 0), true);
    for (tag, op) in [(1, Op::Write), (2, Op::Read)] {
        let (mut ended, io) =
            (Ended::new(), Io { submit: submit(tag, op, 8192, 4096), buffered: true });
        machine.submit(Instant(tag), io, &mut ended);
        drain(&mut machine, Instant(tag), &mut ended);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].1.cached);
    }
    assert_eq!(machine.engine().stats().write.finished_count, 0);
}

#[test]
fn p2_a_flush_waits_for_write_back_and_reports_its_failure() {
    for (fail_permille, outcome) in [(0, Outcome::Ok), (1000, Outcome::Failed(DiskError::Io))] {
        let (mut machine, mut ended) = (machine(shaky(1, fail_permille, 0), true), Ended::new());
        for tag in 0..5 {
            let write = submit(tag, Op::Write, tag << 20, 4096);
            machine.submit(Instant(1), Io { submit: write, buffered: true }, &mut ended);
        }
        drain(&mut machine, Instant(1), &mut ended);
        assert_eq!(ended.len(), 5);
        let flush = submit(9, Op::Flush, 0, 0);
        machine.submit(Instant(2), Io { submit: flush, buffered: true }, &mut ended);
        run_until_idle(&mut machine, Instant(2), &mut ended);
        assert_eq!(ended.len(), 6);
        assert_eq!(ended[5].1.outcome, outcome);
        assert_eq!(machine.engine().stats().write.finished_count, 5, "all were written back first");
    }
}

#[test]
fn a_writer_faster_than_the_disk_waits_for_dirty_memory() {
    let (mut machine, mut ended) = (machine(shaky(3, 0, 0), true), Ended::new());
    for tag in 0..200 {
        let write = submit(tag, Op::Write, tag * 8192, 8192);
        machine.submit(Instant(1), Io { submit: write, buffered: true }, &mut ended);
    }
    drain(&mut machine, Instant(1), &mut ended);
    let at_once = ended.len();
    assert!(at_once < 100, "{at_once} were taken at once");
    let dirty = machine.backend().cache().expect("cached").dirty();
    assert!(dirty <= Bytes::from_mib(1), "{dirty}");
    run_until_idle(&mut machine, Instant(1), &mut ended);
    assert_eq!(ended.len(), 200);
    assert!(ended[at_once..].iter().all(|(_, end)| end.times.pace() > Nanos::ZERO));
}

#[test]
fn a_lost_command_fails_after_the_timeout() {
    let (mut machine, mut ended) = (machine(shaky(1, 0, 1000), false), Ended::new());
    let io = Io { submit: submit(1, Op::Read, 0, 4096), buffered: false };
    machine.submit(Instant(5), io, &mut ended);
    let at = run_until_idle(&mut machine, Instant(5), &mut ended);
    assert_eq!(ended[0].1.outcome, Outcome::Failed(DiskError::Io));
    assert_eq!(at, Instant(5) + COMMAND_TIMEOUT);
}

/// Reads of 4 KiB beside each other that come at once, on a disk that does what it is told, with
/// merging or without.
fn adjoining(merge_max: Bytes, steps: Vec<ScriptedStep>) -> (Machine, Ended, Instant) {
    let config = Config { merge_max, window_depth: 32, ..Config::default() };
    let disk = Box::new(Scripted::new(Bytes::from_mib(64), 4, steps));
    let (mut machine, mut ended) = (Modelled::pump(config, None, disk), Ended::new());
    for tag in 0..8 {
        let submit = Submit { task: TaskId(1), ..submit(tag, Op::Read, tag * 4096, 4096) };
        machine.submit(Instant(5), Io { submit, buffered: false }, &mut ended);
    }
    let at = run_until_idle(&mut machine, Instant(5), &mut ended);
    (machine, ended, at)
}

#[test]
fn requests_that_are_merged_are_one_command_for_the_disk() {
    let steps = vec![ScriptedStep::ok(Nanos(1_000))];
    let (_, ended, at) = adjoining(Bytes::ZERO, steps.clone());
    assert_eq!((ended.len(), at), (8, Instant(5 + 2_000)), "four at a time");
    let (machine, ended, at) = adjoining(Bytes::from_kib(512), steps);
    assert_eq!((ended.len(), at), (8, Instant(5 + 1_000)));
    let stats = machine.backend().disk().stats();
    assert_eq!((stats.commands_count, stats.read), (1, Bytes(8 * 4096)));
    assert_eq!(machine.engine().status().merged_count, 7);
    let mut tags: Vec<u64> = ended.iter().map(|(io, _)| io.submit.tag.0).collect();
    tags.sort_unstable();
    assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn all_parts_of_a_command_end_as_it_does() {
    let failed = Outcome::Failed(DiskError::Io);
    let step = ScriptedStep { service: Nanos(10), outcome: failed };
    let (_, ended, _) = adjoining(Bytes::from_kib(512), vec![step]);
    assert!(ended.len() == 8 && ended.iter().all(|(_, end)| end.outcome == failed));
    let lost = ScriptedStep::ok(Nanos(u64::MAX));
    let (_, ended, at) = adjoining(Bytes::from_kib(512), vec![lost]);
    assert!(ended.len() == 8 && ended.iter().all(|(_, end)| end.outcome == failed));
    assert_eq!(at, Instant(5) + COMMAND_TIMEOUT);
}

#[test]
fn a_limit_holds_for_what_the_cache_serves() {
    let mut machine = machine(Box::new(Null::new(Bytes::from_mib(64), 32)), true);
    let all = Extent::new(Bytes(0), Bytes(64 * 4096)).expect("small");
    machine.backend_mut().warm(all);
    let sustained = Rates { riops: NonZeroU64::new(100), ..Rates::default() };
    let max = Limits { sustained, ..Limits::default() };
    let settings = Settings { max, ..Settings::default() };
    let root = Control::SetGroup(GroupId::ROOT, GroupId::ROOT, settings);
    machine.control(Instant::ZERO, root).expect("taken");
    let mut ended = Ended::new();
    for tag in 0..50 {
        let submit = submit(tag, Op::Read, tag * 4096, 4096);
        machine.submit(Instant::ZERO, Io { submit, buffered: true }, &mut ended);
    }
    let end = run_until_idle(&mut machine, Instant::ZERO, &mut ended);
    assert_eq!(ended.len(), 50);
    assert!((480..=500).contains(&(end.0 / 1_000_000)), "{end:?}");
    assert_eq!(machine.backend().disk().stats().commands_count, 0, "the disk has read nothing");
}
