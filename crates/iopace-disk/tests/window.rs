//! The window policies against the disk models: random readers beside write-back without end.
//!
//! A simple loop stands for the engine. `cargo test -p iopace-disk --test window -- --nocapture`
//! prints the tables.

use iopace_core::request::{Done, Extent, GroupId, Op, RequestId, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::verdict::Verdict;
use iopace_core::window::{self, AnyWindow, Started, WriteBack};
use iopace_disk::{Command, Disk, presets};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const READ: u64 = 8 << 10;
const WRITE: u64 = 128 << 10;
const CHUNK: u64 = 4 << 20;

/// From the end of a request to the next of a reader who does not think.
const TURNAROUND: Nanos = Nanos::from_micros(20);

/// Which of those in line goes to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The oldest.
    Fifo,
    /// Reads first; after 48 of them in a row up to 16 writes (NetBSD's `bufq_readprio`).
    ReadsFirst,
}

/// What is asked of the disk.
#[derive(Clone, Copy, Debug)]
struct Load {
    readers: u64,
    think: Nanos,
    /// Streams of writes; zero: nothing is written.
    streams: u64,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    reader: Option<u64>,
    extent: Extent,
}

#[derive(Clone, Copy, Debug)]
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((u128::from(self.0 >> 11) * u128::from(bound)) >> 53) as u64
    }
}

struct Bench {
    disk: Box<dyn Disk>,
    window: AnyWindow,
    load: Load,
    now: Instant,
    again: Instant,
    arrivals: BTreeSet<(Instant, u64)>,
    reads: VecDeque<Queued>,
    writes: VecDeque<Queued>,
    /// In order of arrival: whether each is a read.
    line: VecDeque<bool>,
    reads_in_a_row: u32,
    flying: BTreeMap<u64, (Queued, Instant)>,
    sequence: u64,
    in_line: WriteBack,
    written_offset: u64,
    numbers: Numbers,
    reads_count: u64,
    written: u64,
    write_from: Instant,
    readers_active: u64,
    paused: Vec<u64>,
}

impl Bench {
    fn new(preset: &str, policy: &str, load: Load, length: Nanos) -> Bench {
        let disk = (presets::find(preset).expect("a preset").build)();
        let window = (window::find(policy).expect("a policy").build)(disk.depth());
        // One reader after the other comes, then the writers.
        let apart = length.0 / 6 / 256;
        let arrivals = (0..load.readers).map(|reader| (Instant(reader * apart), reader)).collect();
        let write_from = Instant(if load.readers > 0 { apart * 128 } else { 0 });
        Bench {
            disk,
            window,
            load,
            now: Instant::ZERO,
            again: Instant::NEVER,
            arrivals,
            reads: VecDeque::new(),
            writes: VecDeque::new(),
            line: VecDeque::new(),
            reads_in_a_row: 0,
            flying: BTreeMap::new(),
            sequence: 0,
            in_line: WriteBack::default(),
            written_offset: 0,
            numbers: Numbers(1),
            reads_count: 0,
            written: 0,
            write_from,
            readers_active: u64::MAX,
            paused: Vec::new(),
        }
    }

    /// Reads per second and bytes written per second in the time after the first sixth.
    fn run(mut self, length: Nanos) -> (f64, f64) {
        let (warm, end) = (Instant(length.0 / 6), Instant(length.0 * 7 / 6));
        while self.now < warm {
            self.step();
        }
        (self.reads_count, self.written) = (0, 0);
        let begin = self.now;
        while self.now < end {
            self.step();
        }
        let seconds = self.now.since(begin).0 as f64 / 1e9;
        (self.reads_count as f64 / seconds, self.written as f64 / seconds)
    }

    fn step(&mut self) {
        while let Some(completion) = self.disk.poll(self.now) {
            self.completed(completion.id);
        }
        self.put_write_back();
        self.start();
        while let Some(&(at, reader)) = self.arrivals.first().filter(|(at, _)| *at <= self.now) {
            self.arrivals.remove(&(at, reader));
            let half = self.disk.capacity().get() / 2;
            let offset = self.numbers.below(half / READ) * READ;
            self.reads.push_back(Queued { reader: Some(reader), extent: extent(offset, READ) });
            self.line.push_back(true);
        }
        self.start();
        let arrival = self.arrivals.first().map_or(Instant::NEVER, |(at, _)| *at);
        let next = self.disk.next().min(arrival).min(self.again);
        assert!(!next.is_never(), "nothing will ever happen: {:?}", self.window);
        self.now = self.now.max(next);
    }

    /// Only that many of the readers go on; the others wait until they may again.
    fn pause(&mut self, readers_active: u64) {
        self.readers_active = readers_active;
        let paused = std::mem::take(&mut self.paused);
        let (go_on, wait) = paused.into_iter().partition(|reader| *reader < readers_active);
        self.paused = wait;
        self.arrivals.extend(go_on.into_iter().map(|reader: u64| (self.now, reader)));
    }

    fn completed(&mut self, id: u64) {
        let (queued, started) = self.flying.remove(&id).expect("it was started");
        let sync = queued.reader.is_some();
        let done = Done {
            id: RequestId::forge(id),
            task: TaskId(queued.reader.unwrap_or(u64::MAX)),
            group: GroupId::ROOT,
            op: if sync { Op::Read } else { Op::Write },
            extent: queued.extent,
            started,
            sync,
            ok: true,
        };
        self.window.on_done(self.now, &done);
        if let Some(reader) = queued.reader {
            self.reads_count += 1;
            // Think times from a half to one and a half of the mean.
            let think = self.load.think.0 / 2 + self.numbers.below(self.load.think.0 + 1);
            if reader < self.readers_active {
                self.arrivals.insert((self.now + TURNAROUND + Nanos(think), reader));
            } else {
                self.paused.push(reader);
            }
        } else {
            self.in_line.requests_count -= 1;
            self.in_line.size = self.in_line.size - queued.extent.len();
            self.written += queued.extent.len().get();
        }
    }

    fn put_write_back(&mut self) {
        self.again = Instant::NEVER;
        if self.load.streams > 0 && self.now < self.write_from {
            self.again = self.write_from;
            return;
        }
        while self.load.streams > 0 {
            match self.window.write_back(self.now, &self.in_line, Bytes(WRITE)) {
                Verdict::Pass => {}
                Verdict::Wait(at, _) => {
                    assert!(at > self.now, "a wait that is over");
                    self.again = at;
                    return;
                }
            }
            let (chunk, within) = (self.written_offset / CHUNK, self.written_offset % CHUNK);
            let (stream, round) = (chunk % self.load.streams, chunk / self.load.streams);
            let half = self.disk.capacity().get() / 2;
            let area = half / self.load.streams / CHUNK * CHUNK;
            let offset = half / CHUNK * CHUNK + stream * area + (round * CHUNK + within) % area;
            self.writes.push_back(Queued { reader: None, extent: extent(offset, WRITE) });
            self.line.push_back(false);
            self.written_offset += WRITE;
            self.in_line.requests_count += 1;
            self.in_line.size += Bytes(WRITE);
        }
    }

    fn pop(&mut self) -> Option<Queued> {
        let is_read = match self.load.order {
            Order::Fifo => self.line.pop_front()?,
            Order::ReadsFirst if self.reads.is_empty() || self.writes.is_empty() => {
                self.reads_in_a_row = 0;
                !self.reads.is_empty()
            }
            Order::ReadsFirst => {
                let burst = self.reads_in_a_row;
                self.reads_in_a_row = (burst + 1) % 64;
                burst < 48
            }
        };
        if is_read { self.reads.pop_front() } else { self.writes.pop_front() }
    }

    fn start(&mut self) {
        while self.window.has_room(self.flying.len() as u32) {
            let Some(queued) = self.pop() else { return };
            let op = if queued.reader.is_some() { Op::Read } else { Op::Write };
            let (size, sync) = (queued.extent.len(), queued.reader.is_some());
            self.window.on_start(self.now, &Started { op, size, sync });
            self.sequence += 1;
            let command = Command { id: self.sequence, op, extent: queued.extent, fua: false };
            self.flying.insert(self.sequence, (queued, self.now));
            self.disk.submit(self.now, command);
        }
    }
}

fn extent(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("on the disk")
}

/// What both sides keep of what they have alone with `fixed`.
#[derive(Debug)]
struct Kept {
    reads: f64,
    writes: f64,
}

impl Kept {
    fn efficiency(&self) -> f64 {
        self.reads + self.writes
    }
}

const POLICIES: [&str; 3] = ["fixed", "aimd", "latency"];

/// A disk and how long it is measured.
struct Measure {
    preset: &'static str,
    length: Nanos,
}

impl Measure {
    fn rates(&self, policy: &str, load: Load) -> (f64, f64) {
        Bench::new(self.preset, policy, load, self.length).run(self.length)
    }

    /// Both beside each other, for each policy.
    fn beside(&self, load: Load) -> [Kept; 3] {
        let reads_alone = self.rates("fixed", Load { streams: 0, ..load }).0;
        let writes_alone = self.rates("fixed", Load { readers: 0, ..load }).1;
        POLICIES.map(|policy| {
            let (reads, writes) = self.rates(policy, load);
            Kept { reads: reads / reads_alone, writes: writes / writes_alone }
        })
    }

    /// Readers alone, and writers alone.
    fn alone(&self, load: Load) -> [Kept; 3] {
        let (readers, writers) = (Load { streams: 0, ..load }, Load { readers: 0, ..load });
        let fixed = (self.rates("fixed", readers).0, self.rates("fixed", writers).1);
        POLICIES.map(|policy| Kept {
            reads: self.rates(policy, readers).0 / fixed.0,
            writes: self.rates(policy, writers).1 / fixed.1,
        })
    }
}

fn print(kept: &[Kept; 3]) {
    for (policy, kept) in POLICIES.iter().zip(kept) {
        let (reads, writes) = (kept.reads, kept.writes);
        print!(" | {policy} {reads:.3} + {writes:.3} = {:.3}", kept.efficiency());
    }
    println!();
}

/// Prints the table of a disk and holds `latency` to its goals: reads keep nine tenths, the disk
/// loses less than a tenth, and who is alone keeps 97 %.
fn table(preset: &'static str, length_ms: u64, streams: &[u64]) {
    let measure = Measure { preset, length: Nanos::from_millis(length_ms) };
    let mut missed = Vec::new();
    println!("\n{preset}: reads kept + writes kept = efficiency, of what each has alone");
    for order in [Order::Fifo, Order::ReadsFirst] {
        for (readers, think_ms) in [(1, 0), (4, 0), (31, 0), (1, 20), (4, 20)] {
            for &streams in streams {
                let load = Load { readers, think: Nanos::from_millis(think_ms), streams, order };
                print!("{order:>10?} {readers:>2} readers think {think_ms:>2} ms {streams:>2} dd");
                let kept = measure.beside(load);
                print(&kept);
                let latency = &kept[2];
                if latency.reads < 0.90 || latency.efficiency() < 0.90 {
                    missed.push(format!("{load:?} {latency:?}"));
                }
            }
        }
    }
    for readers in [1, 4, 31, 200] {
        for &streams in streams {
            let load = Load { readers, think: Nanos::ZERO, streams, order: Order::Fifo };
            print!("     alone {readers:>3} readers / {streams:>2} dd    ");
            let kept = measure.alone(load);
            print(&kept);
            if kept[2].reads < 0.97 || kept[2].writes < 0.97 {
                missed.push(format!("alone {load:?} {:?}", kept[2]));
            }
        }
    }
    assert!(missed.is_empty(), "{preset}: latency misses its goals: {missed:#?}");
}

/// Readers come and go: each time the rate in quiet is another. Over all of it they keep nine
/// tenths.
fn changing(preset: &'static str, length_ms: u64) {
    let length = Nanos::from_millis(length_ms);
    let load = Load { readers: 5, think: Nanos::ZERO, streams: 10, order: Order::Fifo };
    let run = |streams| {
        let mut bench = Bench::new(preset, "latency", Load { streams, ..load }, length);
        let part = Nanos(length.0 / 8);
        let mut counts = Vec::new();
        for round in 1..=16u64 {
            let before = bench.reads_count;
            let end = Instant(part.0 * round);
            while bench.now < end {
                bench.step();
            }
            counts.push(bench.reads_count - before);
            // Four of them in every second part.
            bench.pause(if round % 2 == 1 { 1 } else { 5 });
        }
        counts
    };
    let (alone, beside) = (run(0), run(10));
    println!("{preset}: alone {alone:?}, beside write-back {beside:?}");
    let sum = |counts: &[u64]| counts[2..].iter().sum::<u64>() as f64;
    let kept = sum(&beside) / sum(&alone);
    assert!(kept >= 0.90, "{preset}: readers that come and go keep {kept}");
}

#[test]
fn a_7200_rpm_disk() {
    table("hdd-sata-250g", 120_000, &[1, 10, 50]);
}

#[test]
fn a_7200_rpm_disk_with_ncq() {
    table("hdd-sata-250g-ncq", 120_000, &[1, 10, 50]);
}

// Flash does not care how many streams there are: the figures of 1, 10 and 50 are the same.

#[test]
fn a_sata_flash_disk() {
    table("ssd-sata", 4_000, &[50]);
}

#[test]
fn an_nvme_disk() {
    table("ssd-nvme", 1_500, &[50]);
}

#[test]
fn readers_that_come_and_go() {
    changing("hdd-sata-250g", 160_000);
    changing("hdd-sata-250g-ncq", 160_000);
    changing("ssd-sata", 8_000);
}
