//! One abuse after the other, and the time until all is as it was.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-disk --test abuse` writes the tables anew; the commit then
//! says in words why the numbers moved.

use crate::disk::Skew;
use crate::world::{Sample, World};
use iopace_core::engine::Control;
use iopace_core::pace;
use iopace_core::request::GroupId;
use iopace_core::time::{Instant, Nanos};
use std::path::Path;

const MIB: u64 = 1 << 20;

/// How often the world is looked at.
const LOOK: Nanos = Nanos::from_millis(200);

/// Looks in a second.
const SECOND: usize = 5;

/// Bandwidth is that of so many looks: with readers, stage window writes in batches with gaps of
/// up to seconds between.
const BANDWIDTH: usize = 4 * SECOND;

/// Before the abuse; what is measured begins in the middle.
const BEFORE: u64 = 10;

/// After it.
const AFTER: u64 = 16;

/// Where a batch of write-back is a good part of memory.
const BATCH: Nanos = Nanos::from_millis(50);

/// What happens to whom.
#[derive(Clone, Copy)]
struct Story {
    name: &'static str,
    /// Of the disk, MiB/s.
    rate_mib: u64,
    /// Of each write before it.
    block: u64,
    /// The abuse, up to its end.
    abuse: fn(&mut Run),
    /// A write may pause for so long afterwards, whatever it was before.
    pause: Nanos,
}

/// What `rate` has to keep: the times below, and no task that finishes nothing for longer.
const BANDWIDTH_MAX: Nanos = Nanos::from_secs(5);
const DIRTY_MAX: Nanos = Nanos::from_secs(5);
const PAUSE_MAX: Nanos = Nanos::from_secs(5);
const GAP_MAX: Nanos = Nanos::from_secs(3);

/// Of a writer at work.
const BLOCK: u64 = 64 << 10;

/// A pause that nobody minds.
const SHORT: Nanos = Nanos::from_millis(20);

const STORIES: [Story; 10] = [
    Story { name: "disk-stalls-30s", rate_mib: 100, block: BLOCK, abuse: stall, pause: SHORT },
    Story { name: "disk-100x-slower", rate_mib: 100, block: BLOCK, abuse: slow, pause: SHORT },
    Story { name: "memory-8x-less", rate_mib: 100, block: BLOCK, abuse: less_memory, pause: BATCH },
    Story {
        name: "10000-at-once",
        rate_mib: 400,
        block: 4 << 10,
        abuse: many,
        pause: Nanos::from_millis(200),
    },
    Story { name: "byte-by-byte", rate_mib: 100, block: BLOCK, abuse: bytes, pause: SHORT },
    Story {
        name: "gigabyte-one-write",
        rate_mib: 100,
        block: BLOCK,
        abuse: gigabyte,
        pause: SHORT,
    },
    Story {
        name: "gigabyte-32-writes",
        rate_mib: 100,
        block: BLOCK,
        abuse: gigabyte_in_32,
        pause: SHORT,
    },
    Story { name: "clock-3h-ahead", rate_mib: 100, block: BLOCK, abuse: clock_ahead, pause: SHORT },
    Story { name: "clock-1s-back", rate_mib: 100, block: BLOCK, abuse: clock_back, pause: SHORT },
    Story {
        name: "clock-stands-1s",
        rate_mib: 100,
        block: BLOCK,
        abuse: clock_stands,
        pause: SHORT,
    },
];

/// Here memory is less than what comes in the time that stage window keeps quiet: 50 ms in a
/// second, to see what readers get alone, are 4 MiB of the 2 between set point and limit. So now
/// and then dirty memory comes to the limit and writers wait for a batch, however small batches
/// are. Instead of the times until that is over, the pauses themselves are held.
const SWINGS: (&str, &str) = (STORIES[2].name, "latency");

/// Longest pause there at the end.
const SWING_MAX: Nanos = Nanos::from_millis(100);

/// The stories in which memory is full.
const FULL: [&str; 4] = [STORIES[0].name, STORIES[1].name, STORIES[2].name, STORIES[3].name];

fn stall(run: &mut Run) {
    run.world.disk.set_rate(run.world.now, 0);
    run.go(30);
    run.world.disk.set_rate(run.world.now, 100 * MIB);
}

fn slow(run: &mut Run) {
    run.world.disk.set_rate(run.world.now, MIB);
    run.go(30);
    run.world.disk.set_rate(run.world.now, 100 * MIB);
}

fn less_memory(run: &mut Run) {
    run.world.set_limit(run.world.limit / 8, 0);
}

fn many(run: &mut Run) {
    for _ in 0..10_000 {
        run.world.start(GroupId::ROOT, 4096, 1, Nanos::ZERO);
    }
}

fn bytes(run: &mut Run) {
    run.world.start(GroupId::ROOT, 1, 1, Nanos::from_micros(50));
}

fn gigabyte(run: &mut Run) {
    let task = run.world.start(GroupId::ROOT, 1 << 30, 1, Nanos::ZERO);
    run.go_short();
    run.world.writers[task].is_running = false;
}

fn gigabyte_in_32(run: &mut Run) {
    let task = run.world.start(GroupId::ROOT, 32 * MIB, 32, Nanos::ZERO);
    run.go_short();
    run.world.writers[task].is_running = false;
}

fn clock_ahead(run: &mut Run) {
    let ahead = Nanos::from_secs(3 * 3600);
    run.world.set_skew(Skew { ahead, ..Skew::default() });
}

fn clock_back(run: &mut Run) {
    let behind = Nanos::from_secs(1);
    run.world.set_skew(Skew { behind, ..Skew::default() });
    run.go(1);
}

fn clock_stands(run: &mut Run) {
    for milli in 1..=1_000 {
        let now = run.world.now + Nanos::from_millis(1);
        run.world.run(now);
        let behind = Nanos::from_millis(milli);
        run.world.set_skew(Skew { behind, ..Skew::default() });
    }
}

/// A world and what was seen of it.
struct Run {
    world: World,
    samples: Vec<Sample>,
}

impl Run {
    fn go(&mut self, seconds: u64) {
        (0..seconds * SECOND as u64).for_each(|_| self.go_short());
    }

    fn go_short(&mut self) {
        self.world.run(self.world.now + LOOK);
        self.samples.push(self.world.sample());
    }
}

/// How a story ended, times from the end of the abuse.
#[derive(Debug)]
struct Ended {
    /// Until three quarters of the bandwidth are back, and stay.
    bandwidth: Nanos,
    /// Until dirty memory is away from the limit and from where write-back ends, and stays.
    dirty: Nanos,
    /// Until pauses are at most twice what they were, or what is allowed, and stay.
    pause: Nanos,
    /// The longest time in which a task finished nothing.
    gap: Nanos,
    /// Longest pause before the abuse, and in the last five seconds.
    pauses: [Nanos; 2],
}

/// The time until all looks are good, by number of looks.
fn settled(is_good: impl Iterator<Item = bool>) -> Nanos {
    let mut until = 0;
    for (look, is_good) in (1..).zip(is_good) {
        until = if is_good { until } else { look };
    }
    LOOK.times(until)
}

fn run(story: &Story, pace: &str, window: &str) -> Ended {
    let world = World::new(pace, window, story.rate_mib * MIB, story.rate_mib * 5 / 4 * MIB);
    let mut run = Run { world, samples: vec![Sample::default()] };
    for _ in 0..10 {
        run.world.start(GroupId::ROOT, story.block, 1, Nanos::ZERO);
    }
    run.world.start_reader();
    run.go(BEFORE);
    let before = run.samples.len() - BEFORE as usize / 2 * SECOND..run.samples.len();
    (story.abuse)(&mut run);
    run.world.take_gap();
    let from = run.samples.len() - 1;
    run.go(AFTER);
    let gap = run.world.take_gap();
    let Run { world, samples } = &mut run;
    world.end(Nanos::from_secs(60));
    let base = &samples[before];
    let count = base.len() as u64;
    let bandwidth = (base[base.len() - 1].written - base[0].written) * SECOND as u64 / (count - 1);
    // Write-back begins at a half.
    let is_settled = |sample: &Sample| {
        let (least, most) = (sample.limit / 2, sample.limit / 100 * 97);
        (least..=most).contains(&sample.dirty)
    };
    let paused = base.iter().map(|sample| sample.pause).max().unwrap_or_default();
    let most = paused.times(2).max(story.pause);
    let after = &samples[from..];
    let rates = after.windows(BANDWIDTH + 1).map(|look| look[BANDWIDTH].written - look[0].written);
    let last = after[after.len() - 5 * SECOND..].iter().map(|sample| sample.pause).max();
    Ended {
        bandwidth: settled(
            rates.map(|rate| rate * SECOND as u64 / BANDWIDTH as u64 >= bandwidth / 4 * 3),
        ),
        dirty: settled(after[1..].iter().map(is_settled)),
        pause: settled(after[1..].iter().map(|sample| sample.pause <= most)),
        gap,
        pauses: [paused, last.unwrap_or_default()],
    }
}

impl Ended {
    fn line(&self, story: &str, pace: &str, window: &str) -> String {
        let seconds = |time: Nanos| {
            let tenths = time.0 / 100_000_000;
            format!("{}.{}", tenths / 10, tenths % 10)
        };
        // A policy without a set point does not come back to it.
        let dirty = if pace == "rate" { seconds(self.dirty) } else { "-".into() };
        let (bandwidth, pause) = (seconds(self.bandwidth), seconds(self.pause));
        let [gap, before, after] =
            [self.gap, self.pauses[0], self.pauses[1]].map(|time| time.0 / 1_000_000);
        format!(
            "{story:<18} {pace:<9} {window:<7} {bandwidth:>11} {dirty:>7} {pause:>7} {gap:>6} \
             {before:>15} {after:>14}\n"
        )
    }

    /// Whether none of it is longer than it may be.
    fn is_kept(&self, swings: bool) -> bool {
        let is_steady = self.dirty <= DIRTY_MAX && self.pause <= PAUSE_MAX;
        let is_steady = if swings { self.pauses[1] <= SWING_MAX } else { is_steady };
        self.bandwidth <= BANDWIDTH_MAX && self.gap <= GAP_MAX && is_steady
    }
}

/// Lives through stories under a stage pace and a stage window, those in which memory is full or
/// the others, and compares the table.
fn review(pace: &str, window: &str, is_full: bool) {
    let mut text = String::from(
        "abuse              pace      window  bandwidth_s dirty_s pause_s gap_ms \
         pause_before_ms pause_after_ms\n",
    );
    let mut broken = String::new();
    for story in &STORIES {
        if FULL.contains(&story.name) != is_full {
            continue;
        }
        let ended = run(story, pace, window);
        let line = ended.line(story.name, pace, window);
        if pace == "rate" && !ended.is_kept((story.name, window) == SWINGS) {
            broken += &line;
        }
        text += &line;
    }
    println!("{text}");
    let part = if is_full { "full" } else { "other" };
    let name = format!("abuse-{pace}-{window}-{part}.txt");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots").join(&name);
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(broken.is_empty(), "too long:\n{broken}");
    assert!(
        text == reviewed,
        "the table differs from snapshots/{name} (IOPACE_BLESS=1 accepts it):\n{text}"
    );
}

#[test]
fn a_full_memory_is_left_behind_as_reviewed() {
    review("rate", "fixed", true);
}

#[test]
fn a_full_memory_is_left_behind_beside_readers_as_reviewed() {
    review("rate", "latency", true);
}

#[test]
fn other_abuse_is_left_behind_as_reviewed() {
    review("rate", "fixed", false);
}

#[test]
fn other_abuse_is_left_behind_beside_readers_as_reviewed() {
    review("rate", "latency", false);
}

/// Where the hard limit is reached, it holds under the old scheme as well.
#[test]
fn the_old_scheme_holds_the_limit_as_reviewed() {
    review("threshold", "fixed", true);
}

#[test]
fn writes_that_wait_are_asked_for_anew_when_the_policy_is_exchanged() {
    // A disk so slow that all pause at the set point, with room for all of them up to the limit.
    let mut world = World::new("rate", "fixed", MIB, 64 * MIB);
    for _ in 0..50 {
        world.start(GroupId::ROOT, BLOCK, 1, Nanos::ZERO);
    }
    world.run(Instant::ZERO + Nanos::from_secs(5));
    assert!(world.machine.engine().status().paced_count >= 40, "they pause");
    world.control(Control::Pace(pace::find("none").expect("a policy")));
    assert_eq!(world.machine.engine().status().paced_count, 0, "nobody is to pause any more");
}
