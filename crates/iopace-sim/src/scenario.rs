//! A scenario: one story about one disk, with what must hold at its end.
//!
//! [`Scenario::parse`] reads one from a file's text (the format is in [`mod@file`]); tables and
//! sweeps make theirs in code. Everything in it is resolved: names are looked up, sizes fit the
//! disk.

mod arrivals;
pub(crate) mod database;
mod disk;
mod error;
pub mod file;
mod groups;
pub mod keys;
mod memory;
pub mod policies;
mod scheduler;
mod shape;
mod steps;
mod tasks;

pub use error::ScenarioError;

use crate::figure::Figure;
use crate::milli::Milli;
use crate::task::Task;
use iopace_core::admit::Mode;
use iopace_core::group::Settings;
use iopace_core::limits::PAUSE_TARGET_DEFAULT;
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::GroupId;
use iopace_core::sched::{self, Algorithm, Params};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::window;
use iopace_disk::faulty::FaultRates;
use iopace_disk::model::Model;
use iopace_groups::tree::Tree;

/// Longest run: a day of virtual time.
pub const DURATION_MAX: Nanos = Nanos::from_secs(86_400);

/// The name of the disk in the files of groups.
pub const DEVICE: &str = "disk";

/// Most tasks of one scenario.
pub const TASKS_MAX: usize = 1_024;

/// Most files of one task's pool: some ten bytes of memory each.
pub const FILES_MAX: u32 = 1_000_000;

/// Most requests one task keeps outstanding.
pub const TASK_DEPTH_MAX: u32 = 1_024;

/// One story.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Why it exists: the question that it answers.
    pub why: String,
    /// What its randomness is drawn from.
    pub seed: u64,
    /// Length of the run.
    pub duration: Nanos,
    /// Time at the beginning that counts in no figure (caches fill, queues settle).
    pub warmup: Nanos,
    /// The run ends as soon as all tasks have ended.
    pub until_done: bool,
    /// The disk, by its preset's name or by that of its model.
    pub disk: String,
    /// Its parameters, if they are not those of the preset of that name.
    pub model: Option<Model>,
    /// What goes wrong on the disk, drawn from the seed.
    pub faults: Option<FaultRates>,
    /// The page cache, if there is one.
    pub memory: Option<Memory>,
    /// `nr_requests` of the device.
    pub nr_requests: u32,
    /// How its slots are given.
    pub slots: Mode,
    /// Who pays.
    pub groups: Tree,
    /// The disk's name in their files: [`DEVICE`], but where one group is on several disks.
    pub device: &'static str,
    /// Most requests at the disk; `None`: what the disk takes.
    pub window_depth: Option<u32>,
    /// Most bytes of a command into which requests are merged that adjoin each other; zero: none.
    pub merge_max: Bytes,
    /// The policy of stage window.
    pub window: &'static window::WindowPolicy,
    /// The policy of stage pace.
    pub pace: &'static pace::PacePolicy,
    /// The pause that it aims at with few writers, if it aims at one.
    pub pause_target: Nanos,
    /// The scheduler where none is inserted.
    pub base: &'static Algorithm,
    /// The scheduler inserted at the beginning.
    pub scheduler: Option<Chosen>,
    /// Who uses the disk.
    pub tasks: Vec<Task>,
    /// What is changed while it runs.
    pub steps: Vec<Step>,
    /// Whether each task's [`crate::report::TaskReport::timeline`] is wanted: it grows with the
    /// length of the run.
    pub keeps_timeline: bool,
    /// Whether a buffered read that finds write-back under way is counted by `pace::counting` like
    /// a write: an experiment of [`crate::tables::congestion`].
    pub counts_reads: bool,
    /// What must hold at the end.
    pub checks: Vec<Check>,
}

impl Scenario {
    /// An empty story on a disk: the plain elevator, 60 s of which the first 5 do not count.
    pub fn new(why: &str, disk: &str) -> Scenario {
        Scenario {
            why: why.into(),
            seed: 1,
            duration: Nanos::from_secs(60),
            warmup: Nanos::from_secs(5),
            until_done: false,
            disk: disk.into(),
            model: None,
            faults: None,
            memory: None,
            nr_requests: iopace_core::limits::NR_REQUESTS_DEFAULT,
            slots: Mode::default(),
            groups: Tree::new(),
            device: DEVICE,
            window_depth: None,
            merge_max: Bytes::ZERO,
            window: &window::fixed::POLICY,
            pace: &pace::none::POLICY,
            pause_target: Nanos::from_millis(PAUSE_TARGET_DEFAULT),
            base: plain_elevator(),
            scheduler: None,
            tasks: Vec::new(),
            steps: Vec::new(),
            keeps_timeline: false,
            counts_reads: false,
            checks: Vec::new(),
        }
    }

    /// The same story with one task only, without any scheduler, fault or check, and without steps
    /// but for those that start or stop the task: what it gets when nobody else is there.
    pub fn alone(&self, task: &Task) -> Scenario {
        let index = self.tasks.iter().position(|other| other.name == task.name);
        let steps = self.steps.iter().filter_map(|step| {
            match step.change {
                Change::Start(of) if Some(of) == index => Some(Change::Start(0)),
                Change::Stop(of) if Some(of) == index => Some(Change::Stop(0)),
                _ => None,
            }
            .map(|change| Step { at: step.at, change })
        });
        let steps = steps.collect();
        Scenario {
            scheduler: None,
            faults: None,
            tasks: vec![task.clone()],
            steps,
            checks: Vec::new(),
            ..self.clone()
        }
    }

    /// Whether a check compares a task with the same task alone.
    pub fn needs_alone(&self) -> bool {
        self.checks.iter().any(|check| check.figure.compares_with_alone())
    }
}

/// The scheduler of a plain disk driver: one queue in C-LOOK order, as in the system of the source.
pub fn plain_elevator() -> &'static Algorithm {
    sched::find("elevator").expect("the registry has the elevator")
}

/// The modelled memory behind buffered I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Page frames, in bytes.
    pub size: Bytes,
    /// Write-back begins above this many dirty bytes.
    pub dirty_background: Bytes,
    /// Writers wait above this many dirty bytes.
    pub dirty_limit: Bytes,
    /// Longest write-back request.
    pub write_back_len: Bytes,
    /// Whether pages that were only written are evicted first once they are clean.
    pub drop_behind: bool,
}

impl Default for Memory {
    /// A machine of the time of the source (2008, FreeBSD 8): 1 GiB for the cache; writers are held
    /// at a tenth of it (`hidirtybuffers` is a quarter of a buffer cache of some hundred MiB); the
    /// file system writes 128 KiB clusters (MAXPHYS); how many at once is stage window's business.
    fn default() -> Memory {
        Memory {
            size: Bytes::from_mib(1024),
            dirty_background: Bytes::from_mib(32),
            dirty_limit: Bytes::from_mib(100),
            write_back_len: Bytes::from_kib(128),
            drop_behind: true,
        }
    }
}

/// A scheduler with its parameters.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Which one.
    pub algorithm: &'static Algorithm,
    /// Its parameters.
    pub params: Params,
}

impl Chosen {
    /// A scheduler with its defaults.
    pub fn defaults(algorithm: &'static Algorithm) -> Chosen {
        Chosen { algorithm, params: algorithm.defaults() }
    }
}

/// A change of the running device.
#[derive(Clone, Debug)]
pub struct Step {
    /// When.
    pub at: Instant,
    /// What.
    pub change: Change,
}

/// What a step changes.
#[derive(Clone, Debug)]
pub enum Change {
    /// A scheduler is put in.
    Insert(Chosen),
    /// It is exchanged or gets other parameters.
    Configure(Chosen),
    /// It is taken out.
    Destroy,
    /// A task, by its place, begins or goes on.
    Start(usize),
    /// A task submits nothing more until it is started again.
    Stop(usize),
    /// What holds for groups from now on, with their parents.
    Groups(Vec<(GroupId, GroupId, Settings)>),
    /// Another group pays for a task.
    Move(usize, GroupId),
    /// The policy of stage pace is exchanged.
    Pace(&'static pace::PacePolicy),
    /// The policy of stage window is exchanged.
    Window(&'static window::WindowPolicy),
    /// Most requests at the disk.
    Depth(u32),
    /// How much may be dirty.
    Memory(Thresholds),
    /// The disk is so many times slower than it is.
    Slow(u32),
    /// The disk does nothing for so long.
    Stall(Nanos),
}

/// A figure of the report and its bounds.
#[derive(Clone, Debug)]
pub struct Check {
    /// Which figure.
    pub figure: Figure,
    /// Of which task; `None` for figures of the whole run or of a group.
    pub task: Option<String>,
    /// Of which group, by its path.
    pub group: Option<String>,
    /// It must not be smaller.
    pub at_least: Option<Milli>,
    /// It must not be larger.
    pub at_most: Option<Milli>,
}
