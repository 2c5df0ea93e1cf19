//! Who uses the disk: tasks that submit, wait and think, as small state machines.
//!
//! A task has one or more *lanes*. A lane is a loop: think, submit one request, wait until it is
//! finished. A program with synchronous I/O has one lane; one with depth N has N lanes that draw
//! from the same [`Workload`]. The workloads know neither simulator nor clock, so that a live
//! client can draw the very same requests.

mod arrivals;
mod cvs;
mod database;
mod dd;
mod generic;
mod postmark;
mod rsync;
mod writer;

pub use arrivals::{Arrivals, Clock, Process};
pub use cvs::{Cvs, TREE_FILES};
pub use database::{Checkpoints, Database, Transactions};
pub use dd::{DdRead, DdWrite, write_gap};
pub use generic::{Mixed, Pattern};
pub use postmark::Postmark;
pub use rsync::Rsync;
pub use writer::Writer;

use crate::random::Random;
use core::fmt::Debug;
use core::num::NonZeroU64;
use iopace_core::request::{Extent, GroupId, Op};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};

/// What a task does next: think, then submit this request and wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// How long the task computes before it submits.
    pub think: Nanos,
    /// What it asks for.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Durable before it is finished.
    pub fua: bool,
    /// Through the page cache.
    pub buffered: bool,
    /// Whether it counts as the task's own work (a file system's metadata does not).
    pub payload: bool,
}

/// Where a task's requests come from.
pub trait Workload: Debug + Send {
    /// The next action. Sequences never end; the task's stop time ends them.
    fn next(&mut self) -> Action;
}

/// The kinds of task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// `dd bs=128k` reading the raw disk.
    DdRead,
    /// `dd` writing a file through the page cache.
    DdWrite,
    /// `cvs update` over a source tree.
    Cvs,
    /// One request after the other, ascending.
    Sequential,
    /// Anywhere in the region.
    Random,
    /// Postmark's reads: whole small files, chosen at random.
    Postmark,
    /// rsync receiving files over a link.
    Rsync,
    /// A log that grows by small buffered writes.
    Append,
    /// One small block, written again and again through the page cache.
    Rewrite,
    /// Transactions with a log, and the reads of pages that they need.
    Database,
    /// The checkpoints of a database; a table of kind `database` makes it.
    Checkpoint,
}

impl TaskKind {
    /// Every kind with its word in a scenario and what it is.
    pub const ALL: &[(TaskKind, &str, &str)] = &[
        (TaskKind::DdRead, "dd-read", "dd bs=128k reading the raw disk"),
        (
            TaskKind::DdWrite,
            "dd-write",
            "dd writing a file through the page cache, bs=128k or `block`",
        ),
        (TaskKind::Cvs, "cvs", "cvs update: small synchronous reads, some writes, think time"),
        (TaskKind::Sequential, "sequential", "ascending requests of one size"),
        (TaskKind::Random, "random", "requests of one size anywhere in a region"),
        (
            TaskKind::Postmark,
            "postmark",
            "reads of whole small files of a pool, through the page cache",
        ),
        (
            TaskKind::Rsync,
            "rsync",
            "files from a link of limited rate, written through the page cache",
        ),
        (TaskKind::Append, "append", "a log that grows by small buffered writes"),
        (TaskKind::Rewrite, "rewrite", "one small block written again and again, buffered"),
        (
            TaskKind::Database,
            "database",
            "transactions with a durable log, beside checkpoints in bulk",
        ),
        (TaskKind::Checkpoint, "checkpoint", "the checkpoints alone that belong to a database"),
    ];

    /// Its word in a scenario.
    pub fn name(self) -> &'static str {
        let entry = TaskKind::ALL.iter().find(|(kind, ..)| *kind == self);
        entry.map_or("?", |(_, name, _)| name)
    }

    /// The settings that a scenario may give a task of this kind, beside those of every task.
    pub fn settings(self) -> &'static [&'static str] {
        match self {
            TaskKind::DdRead | TaskKind::Cvs => &[],
            TaskKind::DdWrite | TaskKind::Append | TaskKind::Rewrite => &["block"],
            TaskKind::Sequential | TaskKind::Random => generic::SETTINGS,
            TaskKind::Postmark => &["files", "file_min", "file_max", "think"],
            TaskKind::Rsync => &["block", "link", "file_min", "file_max"],
            TaskKind::Database | TaskKind::Checkpoint => database::SETTINGS,
        }
    }
}

/// The files of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// How many.
    pub count: u32,
    /// Size of the smallest.
    pub min: Bytes,
    /// Size of the largest.
    pub max: Bytes,
}

/// One task of a scenario.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name in the report, unique in the scenario.
    pub name: String,
    /// What it does.
    pub kind: TaskKind,
    /// When it begins.
    pub start: Instant,
    /// When it submits nothing more ([`Instant::NEVER`]: at the end of the run).
    pub stop: Instant,
    /// When steps let it begin (true) or stop (false), in order of time; it runs before the first
    /// one.
    pub turns: Vec<(Instant, bool)>,
    /// The part of the disk that it uses.
    pub region: Extent,
    /// Requests it keeps outstanding.
    pub depth: u32,
    /// Size of a request; `dd-read`, `cvs` and `postmark` have their own.
    pub block: Bytes,
    /// Time between a completion and the next request (kinds `sequential`, `random`, `postmark`).
    pub think: Nanos,
    /// What there is to read or to receive (kinds `postmark`, and `rsync` but for their number).
    pub files: Files,
    /// The log and the checkpoints (kinds `database` and `checkpoint`).
    pub database: Database,
    /// Rate of the link (kind `rsync`).
    pub link: BytesPerSec,
    /// Of 100 requests, how many write (kinds `sequential` and `random`).
    pub write_percent: u32,
    /// Through the page cache (kinds `sequential` and `random`).
    pub buffered: bool,
    /// Writes are durable before they finish (kinds `sequential` and `random`).
    pub fua: bool,
    /// What it reads is in memory when the run begins, as far as that goes (kind `postmark`).
    pub warm: bool,
    /// It thinks only after so many requests (kinds `sequential` and `random`).
    pub think_every: u32,
    /// After so many writes it flushes; 0: never (kinds `sequential` and `random`).
    pub flush_every: u32,
    /// It trims where it would write (kinds `sequential` and `random`).
    pub trim: bool,
    /// Requests come by the clock (kinds `sequential` and `random`). A depth above 1 is then the
    /// most that are outstanding.
    pub arrivals: Option<Arrivals>,
    /// It ends when it has moved so much.
    pub total: Option<Bytes>,
    /// It begins when all tasks of smaller waves have ended.
    pub wave: u32,
    /// Bytes of clean memory that it dirties in a second at most, if it has a cap.
    pub dirty_cap: Option<NonZeroU64>,
    /// Who pays for it.
    pub group: GroupId,
    /// It sleeps until its request has a slot, and takes a completion only when all its requests
    /// are out, one for each submission, as fio with libaio on a kernel of 2009. It must be alone
    /// in its group.
    pub blocking: bool,
}

impl Task {
    /// A task of that kind with the kind's own settings, over `region`, from beginning to end.
    pub fn new(name: &str, kind: TaskKind, region: Extent) -> Task {
        let (block, think, buffered) = match kind {
            TaskKind::DdRead => (dd::BLOCK, dd::READ_GAP, false),
            TaskKind::DdWrite => (dd::BLOCK, write_gap(dd::BLOCK), true),
            TaskKind::Cvs => (cvs::SIZE_MAX, cvs::THINK_MEAN, false),
            TaskKind::Sequential => (dd::BLOCK, Nanos::ZERO, false),
            TaskKind::Random => (Bytes::from_kib(4), Nanos::ZERO, false),
            TaskKind::Postmark => (postmark::SIZES.1, postmark::THINK, true),
            TaskKind::Rsync => (rsync::CHUNK, rsync::LINK.time_for(rsync::CHUNK), true),
            TaskKind::Append | TaskKind::Rewrite => (writer::BLOCK, write_gap(writer::BLOCK), true),
            TaskKind::Database | TaskKind::Checkpoint => (database::PAGE, database::THINK, false),
        };
        let (min, max) = if kind == TaskKind::Rsync { rsync::SIZES } else { postmark::SIZES };
        Task {
            name: name.into(),
            kind,
            start: Instant::ZERO,
            stop: Instant::NEVER,
            turns: Vec::new(),
            region,
            depth: 1,
            block,
            think,
            files: Files { count: postmark::FILES, min, max },
            database: Database::default(),
            link: rsync::LINK,
            write_percent: 0,
            buffered,
            fua: false,
            warm: false,
            think_every: 1,
            flush_every: 0,
            trim: false,
            arrivals: None,
            total: None,
            wave: 0,
            dirty_cap: None,
            group: GroupId::ROOT,
            blocking: false,
        }
    }

    /// Bytes of the disk that it needs at least.
    pub fn needs(&self) -> Bytes {
        match self.kind {
            TaskKind::DdRead | TaskKind::Cvs => Bytes::from_kib(128),
            // Metadata and one block at least.
            TaskKind::DdWrite => Bytes::from_mib(64),
            TaskKind::Sequential | TaskKind::Random | TaskKind::Append | TaskKind::Rewrite => {
                self.block
            }
            TaskKind::Postmark => Postmark::needs(&self.files),
            TaskKind::Rsync => Rsync::needs(&self.files),
            TaskKind::Database | TaskKind::Checkpoint => {
                let pages = u64::from(self.database.checkpoint_pages.max(1));
                Bytes(self.database.log.0.saturating_add(self.block.0.saturating_mul(pages)))
            }
        }
    }

    /// What it finds in memory when the run begins, in the order in which it came there.
    pub fn warmed(&self, seed: u64) -> Vec<Extent> {
        match self.kind {
            TaskKind::Postmark if self.warm => {
                let random = Random::new(seed, &self.name);
                Postmark::new(self.region, self.files, self.think, random).pages()
            }
            _ => Vec::new(),
        }
    }

    /// Its source of requests under a seed.
    pub fn workload(&self, seed: u64) -> Box<dyn Workload> {
        let random = Random::new(seed, &self.name);
        let pattern = |is_random| Pattern {
            region: self.region,
            block: self.block,
            think: self.think,
            write_percent: self.write_percent,
            buffered: self.buffered,
            fua: self.fua,
            think_every: self.think_every,
            flush_every: self.flush_every,
            trim: self.trim,
            is_random,
        };
        match self.kind {
            TaskKind::DdRead => Box::new(DdRead::new(self.region)),
            TaskKind::DdWrite => Box::new(DdWrite::new(self.region, self.block)),
            TaskKind::Cvs => Box::new(Cvs::new(self.region, random)),
            TaskKind::Sequential => Box::new(Mixed::new(pattern(false), random)),
            TaskKind::Random => Box::new(Mixed::new(pattern(true), random)),
            TaskKind::Postmark => {
                Box::new(Postmark::new(self.region, self.files, self.think, random))
            }
            TaskKind::Rsync => {
                Box::new(Rsync::new(self.region, self.block, self.link, self.files, random))
            }
            TaskKind::Append => Box::new(Writer::append(self.region, self.block)),
            TaskKind::Rewrite => Box::new(Writer::rewrite(self.region, self.block)),
            TaskKind::Database => {
                let (page, think, buffered) = (self.block, self.think, self.buffered);
                let all = self.region;
                Box::new(Transactions::new(all, self.database, page, think, buffered, random))
            }
            TaskKind::Checkpoint => {
                let (page, buffered) = (self.block, self.buffered);
                Box::new(Checkpoints::new(self.region, self.database, page, buffered, random))
            }
        }
    }
}

/// A cursor that walks a region in equal steps and begins again at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    region: Extent,
    step: Bytes,
    at: u64,
}

impl Walk {
    /// Walks `region`, which must hold at least one step.
    pub(crate) fn new(region: Extent, step: Bytes) -> Walk {
        assert!(step.0 > 0 && region.len() >= step, "a region of {region} holds no step");
        Walk { region, step, at: 0 }
    }

    /// The next piece.
    pub(crate) fn next(&mut self) -> Extent {
        if self.at + self.step.0 > self.region.len().0 {
            self.at = 0;
        }
        let offset = self.region.offset() + Bytes(self.at);
        self.at += self.step.0;
        Extent::new(offset, self.step).expect("inside a region, which does not wrap")
    }
}

#[cfg(test)]
pub(crate) fn region(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("small numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_stays_inside_and_begins_again() {
        let mut walk = Walk::new(region(100, 25), Bytes(10));
        let offsets: Vec<u64> = (0..4).map(|_| walk.next().offset().0).collect();
        assert_eq!(offsets, [100, 110, 100, 110]);
    }

    #[test]
    fn every_kind_stays_in_its_region_and_repeats_for_a_seed() {
        for (kind, name, _) in TaskKind::ALL {
            let region = region(1 << 30, 4 << 30);
            let task = Task::new(name, *kind, region);
            let (mut one, mut two) = (task.workload(5), task.workload(5));
            for _ in 0..2_000 {
                let action = one.next();
                assert_eq!(action, two.next(), "{name}");
                let extent = action.extent;
                if action.op == Op::Flush {
                    continue;
                }
                assert!(
                    extent.offset() >= region.offset() && extent.end() <= region.end(),
                    "{name}"
                );
                assert!(extent.len().0 > 0, "{name}");
            }
            assert_eq!(kind.name(), *name);
        }
    }
}
