use super::*;
use crate::disk::{Command, Completion, DiskStats};
use crate::faulty::{FaultRates, Faulty};
use crate::presets;
use iopace_core::pace::Thresholds;
use iopace_core::request::{DiskError, GroupId, Op, Submit, TaskId};
use iopace_core::sched::{self, fifo};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;

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
    Machine::new(config, cached.then_some(cache), disk)
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

/// Drains at `now`; returns what finished and when to come back.
fn drain(machine: &mut Machine, now: Instant) -> (Vec<Finished>, Instant) {
    let mut finished = Vec::new();
    loop {
        match machine.poll(now) {
            MachineOutput::Finished(one) => finished.push(one),
            MachineOutput::Event(_) => {}
            MachineOutput::Wait(at, _) => {
                assert!(at > now, "it must not ask to come back at once");
                return (finished, at);
            }
        }
    }
}

fn run_until_idle(machine: &mut Machine, mut now: Instant) -> (Vec<Finished>, Instant) {
    let mut all = Vec::new();
    loop {
        let (finished, at) = drain(machine, now);
        all.extend(finished);
        if at.is_never() {
            return (all, now);
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
        let mut note = |finished: Vec<Finished>| {
            for one in finished {
                *seen.entry(one.tag.0).or_default() += 1;
            }
        };
        const COUNT: u64 = 400;
        for tag in 0..COUNT {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::Trim, Op::Cache]
                [random.next_random(6) as usize];
            let offset = random.next_random(16_000) * 4096;
            let len = if op == Op::Flush { 0 } else { (1 + random.next_random(32)) * 512 };
            let fua = op == Op::Write && random.next_random(8) == 0;
            let one = Submit { fua, ..submit(tag, op, offset, len) };
            machine.submit(now, Io { submit: one, buffered: random.next_random(5) > 0 });
            if random.next_random(20) == 0 {
                exchange(&mut machine, now, random.next_random(100));
            }
            let (finished, at) = drain(&mut machine, now);
            note(finished);
            now = at.min(now + Nanos(random.next_random(3_000_000) + 1));
        }
        note(run_until_idle(&mut machine, now).0);
        assert_eq!(seen.len() as u64, COUNT, "seed {seed}: each finished");
        assert!(seen.values().all(|&times| times == 1), "seed {seed}: none twice");
        assert_eq!(machine.cache().map_or(Bytes::ZERO, PageCache::dirty), Bytes::ZERO);
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
        let mut times = BTreeMap::<u64, u32>::new();
        for tag in 0..300 {
            let op = [Op::Read, Op::Write, Op::Write, Op::Flush, Op::WriteZeroes][next(5) as usize];
            let len = if op == Op::Flush { 0 } else { (1 + next(32)) * 4096 };
            let one = submit(tag, op, next(1 << 20) * 4096, len);
            machine.submit(now, Io { submit: one, buffered: next(4) > 0 });
            if tag % 10 == 0 {
                exchange(&mut machine, now, next(100));
            }
            let (finished, at) = drain(&mut machine, now);
            finished.iter().for_each(|one| *times.entry(one.tag.0).or_default() += 1);
            now = at.min(now + Nanos(1 + next(5_000_000)));
        }
        switch.set(false);
        let (finished, end) = run_until_idle(&mut machine, now);
        finished.iter().for_each(|one| *times.entry(one.tag.0).or_default() += 1);
        assert_eq!(times.len(), 300, "{}", preset.name);
        assert!(times.values().all(|&count| count == 1), "{}", preset.name);
        // One flush may still report what failed before.
        let mut flush = |tag| {
            let io = Io { submit: submit(tag, Op::Flush, 0, 0), buffered: true };
            machine.submit(end, io);
            run_until_idle(&mut machine, end).0[0].outcome
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
        let (mut now, mut log) = (Instant::ZERO, String::new());
        for tag in 0..200 {
            let op = [Op::Read, Op::Write, Op::Flush][tag as usize % 3];
            let len = if op == Op::Flush { 0 } else { 65_536 };
            let one = submit(tag, op, (tag * 7_919 % 1_000) << 20, len);
            machine.submit(now, Io { submit: one, buffered: true });
            let (finished, at) = drain(&mut machine, now);
            log += &format!("{now:?} {finished:?}\n");
            now = at.min(now + Nanos::from_millis(5));
        }
        log + &format!("{:?}", run_until_idle(&mut machine, now))
    };
    assert_eq!(run(), run());
}

#[test]
fn the_stages_of_a_request_sum_to_the_time_it_took() {
    let disk = (presets::find("hdd-sata-250g").expect("a preset").build)();
    let mut machine = machine(disk, true);
    let mut submitted = BTreeMap::new();
    for tag in 0..60 {
        let op = [Op::Read, Op::Write, Op::Write, Op::Flush][tag as usize % 4];
        let len = if op == Op::Flush { 0 } else { 131_072 };
        let now = Instant(tag * 1_000);
        submitted.insert(tag, now);
        let io = Io { submit: submit(tag, op, tag << 24, len), buffered: tag % 7 != 0 };
        machine.submit(now, io);
        assert!(drain(&mut machine, now).1 > now);
    }
    let mut now = Instant(60_000);
    while !now.is_never() {
        let (finished, at) = drain(&mut machine, now);
        for one in finished {
            assert_eq!(one.times.total(), now.since(submitted[&one.tag.0]), "{one:?}");
        }
        now = at;
    }
}

#[test]
fn a_buffered_write_is_finished_at_once_and_read_back_without_the_disk() {
    let mut machine = machine(shaky(1, 0, 0), true);
    for (tag, op) in [(1, Op::Write), (2, Op::Read)] {
        machine.submit(Instant(tag), Io { submit: submit(tag, op, 8192, 4096), buffered: true });
        let (finished, _) = drain(&mut machine, Instant(tag));
        assert_eq!(finished.len(), 1);
        assert!(finished[0].cached);
    }
    assert_eq!(machine.engine().stats().write.finished_count, 0);
}

#[test]
fn p2_a_flush_waits_for_write_back_and_reports_its_failure() {
    for (fail_permille, outcome) in [(0, Outcome::Ok), (1000, Outcome::Failed(DiskError::Io))] {
        let mut machine = machine(shaky(1, fail_permille, 0), true);
        for tag in 0..5 {
            let write = submit(tag, Op::Write, tag << 20, 4096);
            machine.submit(Instant(1), Io { submit: write, buffered: true });
        }
        assert_eq!(drain(&mut machine, Instant(1)).0.len(), 5);
        let flush = submit(9, Op::Flush, 0, 0);
        machine.submit(Instant(2), Io { submit: flush, buffered: true });
        let (finished, _) = run_until_idle(&mut machine, Instant(2));
        assert_eq!(finished.len(), 1);
        assert_eq!(finished[0].outcome, outcome);
        assert_eq!(machine.engine().stats().write.finished_count, 5, "all were written back first");
    }
}

#[test]
fn a_writer_faster_than_the_disk_waits_for_dirty_memory() {
    let mut machine = machine(shaky(3, 0, 0), true);
    for tag in 0..200 {
        let write = submit(tag, Op::Write, tag * 8192, 8192);
        machine.submit(Instant(1), Io { submit: write, buffered: true });
    }
    let (at_once, _) = drain(&mut machine, Instant(1));
    assert!(at_once.len() < 100, "{} were taken at once", at_once.len());
    let dirty = machine.cache().expect("cached").dirty();
    assert!(dirty <= Bytes::from_mib(1), "{dirty}");
    let (later, _) = run_until_idle(&mut machine, Instant(1));
    assert_eq!(at_once.len() + later.len(), 200);
    assert!(later.iter().all(|one| one.times.pace() > Nanos::ZERO));
}

#[test]
fn a_lost_command_fails_after_the_timeout() {
    let mut machine = machine(shaky(1, 0, 1000), false);
    machine.submit(Instant(5), Io { submit: submit(1, Op::Read, 0, 4096), buffered: false });
    let (finished, at) = run_until_idle(&mut machine, Instant(5));
    assert_eq!(finished[0].outcome, Outcome::Failed(DiskError::Io));
    assert_eq!(at, Instant(5) + COMMAND_TIMEOUT);
}
