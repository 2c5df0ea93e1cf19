//! Who is on the disk together.
//!
//! | mix | who | for |
//! |---|---|---|
//! | bulk-read | the *reader* beside a sequential reader, 128 KiB, 8 at once | isolation |
//! | bulk-write | the reader beside the same that writes past the page cache | isolation |
//! | buffered | the reader beside four `dd` that write through the page cache | isolation |
//! | background | the reader beside random reads of class idle, 32 at once | isolation |
//! | lone | random reads of a group of weight 1; one of weight 10 000 is silent | conservation |
//! | lone-idle | the sequential reader in class idle, nobody else | conservation |
//! | equal | four random readers, 8 at once each | fairness |
//! | weights | three random readers of weights 100, 200 and 400, 32 at once each | fairness |
//! | sizes | random readers of 4 KiB and 64 KiB, 16 at once each | fairness |
//! | newcomer | a random reader, 128 at once; half way, a second one, 8 at once | rise |
//!
//! The *reader* stands for a service with users: random reads of 4 KiB, one at a time, with time to
//! think ([`Bench::think`]). Everybody has a group of its own, of weight 100 where none is said,
//! and a sixteenth of the disk. Random reads have 16 KiB where nothing is said.

use super::{Bench, Policy};
use crate::scenario::{Chosen, DEVICE, Memory, Scenario};
use crate::task::{Task, TaskKind};
use iopace_core::request::Extent;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::presets;

/// The reader's name.
pub(super) const READER: &str = "reader";

/// The part of a run that counts in no figure: a sixth.
const WARMUP_PART: u64 = 6;

/// A mix of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreMix {
    /// See the table above; so do all.
    BulkRead,
    /// As its name says.
    BulkWrite,
    /// As its name says.
    Buffered,
    /// As its name says.
    Background,
    /// As its name says.
    Lone,
    /// As its name says.
    LoneIdle,
    /// As its name says.
    Equal,
    /// As its name says.
    Weights,
    /// As its name says.
    Sizes,
    /// As its name says.
    Newcomer,
}

/// All of them, in the order in which they are run.
pub const MIXES: [ScoreMix; 10] = [
    ScoreMix::BulkRead,
    ScoreMix::BulkWrite,
    ScoreMix::Buffered,
    ScoreMix::Background,
    ScoreMix::Lone,
    ScoreMix::LoneIdle,
    ScoreMix::Equal,
    ScoreMix::Weights,
    ScoreMix::Sizes,
    ScoreMix::Newcomer,
];

/// What has to be known of a disk beforehand: somebody alone, without a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The reader.
    Reader,
    /// A mix without the reader.
    Others(ScoreMix),
}

/// All of them.
pub const BASES: [Baseline; 7] = [
    Baseline::Reader,
    Baseline::Others(ScoreMix::BulkRead),
    Baseline::Others(ScoreMix::BulkWrite),
    Baseline::Others(ScoreMix::Buffered),
    Baseline::Others(ScoreMix::Background),
    Baseline::Others(ScoreMix::Lone),
    Baseline::Others(ScoreMix::LoneIdle),
];

impl Baseline {
    /// Its scenario: the tasks without their groups.
    pub(super) fn scenario(self, bench: &Bench, policy: &Policy, seed: u64) -> Scenario {
        let (mix, wants_reader) = match self {
            Baseline::Reader => (ScoreMix::BulkRead, true),
            Baseline::Others(mix) => (mix, false),
        };
        let mut scenario = mix.scenario(bench, policy, seed);
        scenario.tasks.retain(|task| (task.name == READER) == wants_reader);
        for task in &mut scenario.tasks {
            task.group = iopace_core::request::GroupId::ROOT;
        }
        scenario
    }
}

impl ScoreMix {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            ScoreMix::BulkRead => "bulk-read",
            ScoreMix::BulkWrite => "bulk-write",
            ScoreMix::Buffered => "buffered",
            ScoreMix::Background => "background",
            ScoreMix::Lone => "lone",
            ScoreMix::LoneIdle => "lone-idle",
            ScoreMix::Equal => "equal",
            ScoreMix::Weights => "weights",
            ScoreMix::Sizes => "sizes",
            ScoreMix::Newcomer => "newcomer",
        }
    }

    /// Its scenario.
    ///
    /// # Panics
    /// If the disk does not exist.
    pub fn scenario(self, bench: &Bench, policy: &Policy, seed: u64) -> Scenario {
        let mut scenario = Scenario::new(self.name(), bench.disk);
        scenario.keeps_timeline = true;
        scenario.seed = seed;
        scenario.duration = bench.duration;
        scenario.warmup = Nanos(bench.duration.0 / WARMUP_PART);
        scenario.scheduler = policy.scheduler.map(Chosen::defaults);
        scenario.window = policy.window;
        scenario.pace = policy.pace;
        let mut stage = Stage { scenario, think: bench.think, middle: bench.duration.0 / 2 };
        stage.fill(self);
        stage.scenario
    }
}

/// A scenario being made.
struct Stage {
    scenario: Scenario,
    think: Nanos,
    middle: u64,
}

impl Stage {
    fn fill(&mut self, mix: ScoreMix) {
        if matches!(
            mix,
            ScoreMix::BulkRead | ScoreMix::BulkWrite | ScoreMix::Buffered | ScoreMix::Background
        ) {
            let think = self.think;
            let reader = self.add(READER, TaskKind::Random, 1, &[]);
            (reader.block, reader.think) = (Bytes::from_kib(4), think);
        }
        match mix {
            ScoreMix::BulkRead => _ = self.add("bulk", TaskKind::Sequential, 8, &[]),
            ScoreMix::BulkWrite => {
                self.add("bulk", TaskKind::Sequential, 8, &[]).write_percent = 100;
            }
            ScoreMix::Buffered => {
                self.scenario.memory = Some(Memory::default());
                for name in ["dd-1", "dd-2", "dd-3", "dd-4"] {
                    self.add(name, TaskKind::DdWrite, 1, &[]);
                }
            }
            ScoreMix::Background => {
                _ = self.add("low", TaskKind::Random, 32, &[("io.ioprio_class", "IDLE")]);
            }
            ScoreMix::Lone => {
                self.group("/silent", &[("io.weight", "10000")]);
                self.add("lone", TaskKind::Random, 32, &[("io.weight", "1")]);
            }
            ScoreMix::LoneIdle => {
                self.add("lone", TaskKind::Sequential, 8, &[("io.ioprio_class", "IDLE")]);
            }
            ScoreMix::Equal => {
                for name in ["a", "b", "c", "d"] {
                    self.add(name, TaskKind::Random, 8, &[]);
                }
            }
            ScoreMix::Weights => {
                for (name, weight) in [("a", "100"), ("b", "200"), ("c", "400")] {
                    self.add(name, TaskKind::Random, 32, &[("io.weight", weight)]);
                }
            }
            ScoreMix::Sizes => {
                for (name, kib) in [("small", 4), ("large", 64)] {
                    self.add(name, TaskKind::Random, 16, &[]).block = Bytes::from_kib(kib);
                }
            }
            ScoreMix::Newcomer => {
                self.add("first", TaskKind::Random, 128, &[]);
                let middle = Instant(self.middle);
                self.add("second", TaskKind::Random, 8, &[]).start = middle;
            }
        }
    }

    fn group(&mut self, path: &str, lines: &[(&str, &str)]) -> iopace_core::request::GroupId {
        let groups = &mut self.scenario.groups;
        let id = groups.create(path).expect("a new name");
        for (file, text) in lines {
            groups.write(id, file, text, &[DEVICE]).expect("legal lines");
        }
        id
    }

    fn add(&mut self, name: &str, kind: TaskKind, depth: u32, lines: &[(&str, &str)]) -> &mut Task {
        let disk = presets::find(&self.scenario.disk).expect("a disk of the set");
        let part = ((disk.build)().capacity().0 / 16) & !0xf_ffff;
        let place = self.scenario.tasks.len() as u64 * 3;
        let region = Extent::new(Bytes(place * part), Bytes(part)).expect("within the disk");
        let mut task = Task { depth, ..Task::new(name, kind, region) };
        if kind == TaskKind::Random {
            task.block = Bytes::from_kib(16);
        }
        task.group = self.group(&format!("/{name}"), lines);
        self.scenario.tasks.push(task);
        self.scenario.tasks.last_mut().expect("just added")
    }
}
