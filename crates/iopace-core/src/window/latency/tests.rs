use super::batches::{BULK_DEPTH, GAP_MAX};
use super::price::PARTS;
use super::readers::{READER_GONE, READER_LOST};
use super::*;
use crate::request::{Extent, Op};
use crate::time::Nanos;
use crate::verdict::Reason;
use crate::window::WRITE_BACK_DEPTH;
use crate::window::tests::requests::{Numbers, done, started};
use std::collections::VecDeque;

mod shared;

const SIZE: Bytes = Bytes::from_kib(128);
const NEVER: Verdict = Verdict::Wait(Instant::NEVER, Reason::Window);

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

fn in_line(requests_count: u32) -> WriteBack {
    let size = Bytes(SIZE.get() * u64::from(requests_count));
    WriteBack { requests_count, size, is_awaited: false }
}

/// A device that serves one request after the other in order of arrival, with one reader.
struct Toy {
    window: Latency,
    /// Time of a read, of a write, and what it takes to turn from one to the other.
    read: Nanos,
    write: Nanos,
    turn: Nanos,
    /// The reader's mean time between two reads.
    think: Nanos,
    now: Instant,
    reader_at: Instant,
    writes: VecDeque<Instant>,
    last_sync: bool,
    is_awaited: bool,
    /// The scheduler gives turns: write-back the first 100 of every 300 ms, if it has any.
    takes_turns: bool,
    reads_count: u64,
    writes_count: u64,
    /// Longest time between two writes, and the gaps that were seen.
    longest: Nanos,
    passed_at: Instant,
    gaps: Vec<Nanos>,
    numbers: Numbers,
}

impl Toy {
    fn new(read: Nanos, write: Nanos, turn: Nanos, think: Nanos) -> Toy {
        Toy {
            window: Latency::new(1),
            read,
            write,
            turn,
            think,
            now: Instant::ZERO,
            reader_at: Instant::ZERO,
            writes: VecDeque::new(),
            last_sync: true,
            is_awaited: false,
            takes_turns: false,
            reads_count: 0,
            writes_count: 0,
            longest: Nanos::ZERO,
            passed_at: Instant::ZERO,
            gaps: Vec::new(),
            numbers: Numbers(1),
        }
    }

    /// Puts write-back into line; when to ask again.
    fn ask(&mut self) -> Instant {
        loop {
            let line =
                WriteBack { is_awaited: self.is_awaited, ..in_line(self.writes.len() as u32) };
            match self.window.write_back(self.now, &line, SIZE) {
                Verdict::Pass => {
                    self.longest = self.longest.max(self.now.since(self.passed_at));
                    self.passed_at = self.now;
                    self.writes.push_back(self.now);
                }
                Verdict::Wait(at, _) => {
                    assert!(at > self.now);
                    return at;
                }
            }
        }
    }

    /// Runs with endless write-back, or none.
    fn run(&mut self, time: Nanos, is_writing: bool) {
        let end = self.now + time;
        while self.now < end {
            let again = if is_writing { self.ask() } else { Instant::NEVER };
            let mut write_at = self.writes.front().copied().unwrap_or(Instant::NEVER);
            let mut sync = self.reader_at <= write_at;
            if self.takes_turns {
                let is_its_turn = self.now.0 % ms(300).0 < ms(100).0;
                sync = !is_its_turn || write_at.is_never();
                write_at = if sync { Instant::NEVER } else { write_at };
            }
            if self.reader_at.min(write_at) > self.now {
                self.now = self.reader_at.min(again);
                continue;
            }
            let from = self.now;
            self.window.on_start(from, &started(sync));
            let time = if sync { self.read } else { self.write };
            let turn = if sync == self.last_sync { Nanos::ZERO } else { self.turn };
            self.now = from + time + turn;
            self.last_sync = sync;
            self.window.on_done(self.now, &done(sync, from.0));
            if sync {
                self.reads_count += 1;
                self.reader_at = self.now + Nanos(1 + self.numbers.below(2 * self.think.0 + 1));
            } else {
                self.writes_count += 1;
                self.writes.pop_front();
            }
            self.gaps.push(self.window.picture().write_back_gap);
        }
    }

    /// The part of its reads, in thousandths, that the reader keeps beside write-back.
    fn kept(&self) -> u64 {
        let alone = self.now.0 / (self.read + self.think).0;
        self.reads_count * 1000 / alone
    }
}

#[test]
fn p1_between_one_and_what_was_set() {
    let mut window = Latency::new(64);
    learn(&mut window);
    load(&mut window, 5_000, 1_000_000);
    assert_eq!(window.depth(), 1);
    assert_eq!(window.picture().narrowed, Some(Narrowed::Latency));
    assert!(window.has_room(0) && !window.has_room(1));
    load(&mut window, 50_000, 1_000);
    assert_eq!(window.depth(), 64);
    assert_eq!(window.picture().narrowed, None);
    window.set_depth(0);
    assert_eq!(window.depth(), 1);
}

/// One request alone: 1000 ns.
fn learn(window: &mut Latency) {
    window.on_start(Instant::ZERO, &started(true));
    window.on_done(Instant(1_000), &done(true, 0));
}

/// Requests of that latency, none of them alone.
fn load(window: &mut Latency, count: u32, latency: u64) {
    for _ in 0..count {
        window.on_start(Instant::ZERO, &started(true));
        window.on_start(Instant::ZERO, &started(true));
        window.on_done(Instant(latency), &done(true, 0));
        window.on_done(Instant(latency), &crate::request::Done { ok: false, ..done(true, 0) });
    }
}

#[test]
fn p2_latency_above_the_target_narrows_the_depth() {
    let mut window = Latency::new(64);
    learn(&mut window);
    load(&mut window, 127, 31_000);
    assert_eq!(window.depth(), 64, "within 32 times");
    load(&mut window, 128, 64_000);
    assert!((50..64).contains(&window.depth()), "{}", window.depth());
    // A queue whose latency is a request's time each, and a time alone of 1 us: FAST's balance
    // w (1 - 32/w) = 1.
    for _ in 0..1_000 {
        let latency = u64::from(window.depth()) * 1_000;
        load(&mut window, 1, latency);
    }
    assert!((32..=35).contains(&window.depth()), "{}", window.depth());
}

#[test]
fn p2_a_target_of_an_easier_load_fades() {
    let mut window = Latency::new(64);
    learn(&mut window);
    // From now on a request takes 50 us of the device, and none is alone.
    let mut now = Instant(1_000);
    let mut narrowest = 64;
    while now < Instant::ZERO + Nanos::from_secs(60) {
        let latency = 50_000 * u64::from(window.depth());
        window.on_start(now, &started(true));
        window.on_start(now, &started(true));
        now = now + Nanos(50_000);
        let from = now.0.saturating_sub(latency);
        window.on_done(now, &done(true, from));
        window.on_done(now, &crate::request::Done { ok: false, ..done(true, from) });
        narrowest = narrowest.min(window.depth());
    }
    assert!(narrowest <= 2, "{narrowest}: the old target did bind");
    assert_eq!(window.depth(), 64);
}

#[test]
fn p3_without_readers_there_is_no_brake() {
    let mut toy = Toy::new(ms(10), ms(2), ms(10), Nanos::ZERO);
    toy.run(Nanos::from_secs(20), true);
    assert!(toy.window.picture().write_back_gap > Nanos::ZERO);
    let quiet = toy.now + READER_GONE;
    let mut passed = 0;
    while toy.window.write_back(quiet, &in_line(passed), SIZE) == Verdict::Pass {
        passed += 1;
    }
    assert_eq!(passed, WRITE_BACK_DEPTH);
    assert_eq!(toy.window.picture().write_back_gap, Nanos::ZERO);
}

#[test]
fn p4_a_cycle_is_sixteen_times_what_the_batch_took() {
    for (read_ms, write_ms, turn_ms, think_ms) in
        [(10, 2, 10, 0), (10, 2, 10, 10), (1, 2, 10, 0), (10, 10, 0, 30), (5, 40, 5, 0)]
    {
        let mut toy = Toy::new(ms(read_ms), ms(write_ms), ms(turn_ms), ms(think_ms));
        toy.run(Nanos::from_secs(300), true);
        let goal = 1000 - 1000 / PARTS;
        let kept = toy.kept();
        assert!(kept.abs_diff(goal) < 25, "{read_ms} {write_ms} {turn_ms} {think_ms}: {kept}");
    }
}

/// One of the shapes of a batch has nothing beside it at the disk.
#[test]
fn a_batch_that_narrows_the_window_says_so() {
    let mut toy = Toy::new(ms(10), ms(2), ms(10), Nanos::ZERO);
    toy.window = Latency::new(4);
    let end = Instant::ZERO + Nanos::from_secs(300);
    while toy.window.picture().narrowed != Some(Narrowed::WriteBack) {
        assert!(toy.now < end, "{:?}", toy.window.picture());
        toy.run(Nanos(1), true);
    }
    assert_eq!(toy.window.picture().depth, 1);
}

#[test]
fn p4_readers_who_leave_time_leave_it_to_write_back() {
    let writes = |think_ms| {
        let mut toy = Toy::new(ms(5), ms(2), ms(5), ms(think_ms));
        toy.run(Nanos::from_secs(300), true);
        assert!(toy.kept() > 910, "{}", toy.kept());
        toy.writes_count
    };
    let (busy, some, rare) = (writes(0), writes(50), writes(400));
    assert!(busy * 4 < some && busy * 4 < rare, "{busy} {some} {rare}");
}

#[test]
fn p5_what_takes_nothing_has_no_gap() {
    let mut toy = Toy::new(ms(1), Nanos::from_micros(50), Nanos::ZERO, ms(9));
    toy.run(Nanos::from_secs(60), true);
    // Nine tenths of the time are free; of them some go to looking at the quiet rate.
    let free = 60_000_000 / 50 * 9 / 10;
    assert!(toy.writes_count > free * 8 / 10, "{} of {free}", toy.writes_count);
    assert!(toy.kept() > 950, "{}", toy.kept());
}

#[test]
fn p6_write_back_never_starves() {
    for (read, write) in [(ms(1), ms(50)), (ms(100), ms(500)), (Nanos(50_000), ms(5))] {
        let mut toy = Toy::new(read, write, ms(10), Nanos::ZERO);
        toy.run(Nanos::from_secs(300), true);
        assert!(toy.gaps.iter().all(|gap| *gap <= GAP_MAX));
        // A gap and the batch before it.
        let bound = GAP_MAX + write.times(u64::from(BULK_DEPTH)) + ms(500);
        assert!(toy.longest <= bound, "{} > {bound}", toy.longest);
        assert!(toy.writes_count > 100, "{}", toy.writes_count);
    }
}

#[test]
fn p7_a_reader_that_never_comes_back_is_not_waited_for() {
    let mut window = Latency::new(8);
    window.on_start(Instant::ZERO, &started(true));
    let lost = Instant::ZERO + READER_LOST;
    assert_ne!(window.write_back(Instant(1), &in_line(0), SIZE), Verdict::Pass);
    for count in 0..WRITE_BACK_DEPTH {
        assert_eq!(window.write_back(lost, &in_line(count), SIZE), Verdict::Pass);
    }
}

#[test]
fn p7_lost_completions_and_failures_hold_nothing_back() {
    let mut toy = Toy::new(ms(10), ms(2), ms(10), Nanos::ZERO);
    toy.run(Nanos::from_secs(5), true);
    // Everything in line is forgotten, and all reads fail from now on.
    let mut now = toy.now;
    let mut passed_at = now;
    for _ in 0..2_000 {
        toy.window.on_start(now, &started(true));
        let failed = crate::request::Done { ok: false, ..done(true, now.0) };
        now = now + ms(5);
        toy.window.on_done(now, &failed);
        match toy.window.write_back(now, &in_line(0), SIZE) {
            Verdict::Pass => passed_at = now,
            Verdict::Wait(at, _) => assert!(at > now && !at.is_never()),
        }
        assert!(now.since(passed_at) < READER_LOST);
    }
}

#[test]
fn p7_a_jump_of_the_clock_belongs_to_nobody() {
    let mut toy = Toy::new(ms(10), ms(2), ms(10), Nanos::ZERO);
    toy.run(Nanos::from_secs(60), true);
    let before = toy.window.picture().write_back_gap;
    // The host sleeps for an hour, wherever the cycle stands.
    for _ in 0..10 {
        toy.now = toy.now + Nanos::from_secs(3_600);
        toy.run(Nanos::from_millis(5_300), true);
    }
    let after = toy.window.picture().write_back_gap;
    assert!(after.0.abs_diff(before.0) < before.0 / 3, "{before} {after}");
    // And a clock that ran backwards does no harm.
    assert_ne!(toy.window.write_back(Instant(5), &in_line(1), SIZE), Verdict::Pass);
}

#[test]
fn p8_what_a_flush_waits_for_has_an_eighth_of_the_gap() {
    let run = |is_awaited| {
        let mut toy = Toy::new(ms(10), ms(2), ms(10), Nanos::ZERO);
        toy.is_awaited = is_awaited;
        toy.run(Nanos::from_secs(300), true);
        (toy.kept(), toy.writes_count)
    };
    let ((_, writes), (kept, writes_awaited)) = (run(false), run(true));
    assert!(writes_awaited > writes * 4, "{writes_awaited} {writes}");
    assert!((600..800).contains(&kept), "{kept}");
}

#[test]
fn p8_a_task_that_only_flushes_is_no_reader() {
    let mut window = Latency::new(8);
    for begin in (0..100).map(|number| Instant(number * 30_000_000)) {
        let line = WriteBack { is_awaited: true, ..in_line(0) };
        assert_eq!(window.write_back(begin, &line, SIZE), Verdict::Pass);
        window.on_start(begin, &started(false));
        window.on_done(begin + ms(8), &done(false, begin.0));
        let flush = begin + ms(8);
        window.on_start(flush, &Started { op: Op::Flush, size: Bytes::ZERO, sync: true });
        let flushed = Done { op: Op::Flush, extent: Extent::EMPTY, ..done(true, flush.0) };
        window.on_done(flush + ms(1), &flushed);
    }
}

#[test]
fn p8_a_flush_waits_an_eighth_for_a_quiet_that_is_not_known() {
    let mut window = Latency::new(1);
    window.on_start(Instant::ZERO, &started(true));
    window.on_done(Instant::ZERO + ms(10), &done(true, 0));
    let line = WriteBack { is_awaited: true, ..in_line(0) };
    let mut now = Instant::ZERO + ms(10);
    while let Verdict::Wait(at, _) = window.write_back(now, &line, SIZE) {
        now = at;
    }
    assert!(now < Instant::ZERO + ms(200), "{now:?}");
}

#[test]
fn p9_a_wait_for_its_turn_is_no_cost() {
    let read = Nanos::from_micros(100);
    let mut toy = Toy::new(read, Nanos::from_micros(400), Nanos::ZERO, Nanos::ZERO);
    toy.takes_turns = true;
    toy.run(Nanos::from_secs(60), true);
    // A batch each turn, of a sixteenth of its wait of about 200 ms.
    let writing = toy.writes_count * 400 / 60_000;
    assert!((25..=75).contains(&writing), "{writing} thousandths of the time");
    assert!(toy.longest < ms(700), "{}", toy.longest);
    assert!(toy.kept() > 900, "{}", toy.kept());
}

#[test]
fn the_first_batch_waits_until_quiet_is_known() {
    let mut window = Latency::new(1);
    for count in 0..3 {
        assert_eq!(window.write_back(Instant::ZERO, &in_line(count), SIZE), Verdict::Pass);
    }
    window.on_start(Instant::ZERO, &started(true));
    assert_eq!(window.write_back(Instant::ZERO, &in_line(3), SIZE), NEVER, "drains first");
    let mut toy = Toy::new(ms(10), ms(2), ms(10), Nanos::ZERO);
    toy.run(ms(50), false);
    let Verdict::Wait(at, _) = toy.window.write_back(toy.now, &in_line(0), SIZE) else {
        panic!("three reads say nothing")
    };
    assert!(at > toy.now && at.since(toy.now) <= ms(500));
}
