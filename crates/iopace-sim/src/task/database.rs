//! A database: transactions that read pages by index and end with a durable record in a log, and
//! checkpoints that write the changed pages in bulk.
//!
//! # Model
//! ```text
//!  NAME             read read think [log]  read read think [log]  ...     one after the other
//!  NAME-checkpoint  page..page..page..page..page..page flush ....... page..page..page..
//!                   └──────── nine tenths of `checkpoint` ──────┘
//! ```
//! *Transactions.* `reads` random pages, `think`, then a record of `record` bytes is appended to
//! the log. The log is written in whole pages: the page with the end of the log is written again
//! and
//! again until it is full. With `sync = "fua"` the write itself is durable (PostgreSQL's
//! `open_datasync`), with `sync = "flush"` a flush follows (`fdatasync`). With `group_commit` one
//! write makes so many transactions durable.
//!
//! *Checkpoints.* `checkpoint_pages` distinct pages, in order of place, evenly over nine tenths of
//! the interval; then a flush. If the disk is slower than that, the checkpoint takes longer. They
//! are buffered if there is memory.
//!
//! # Limits
//! A flush covers everything that is dirty, also of others, as on ext3 with ordered data. One log
//! write is outstanding at a time. No full-page images, no vacuum, no replication.
//!
//! # Sources
//! PostgreSQL 16 documentation: `block_size` 8 kB (SQLite: `page_size` 4096 B), `shared_buffers`
//! 128 MB, `checkpoint_timeout` 5 min, `checkpoint_completion_target` 0.9, `max_wal_size` 1 GB;
//! checkpoints in order of place since 9.6. SQLite: `wal_autocheckpoint` 1000 pages. Size of a
//! record, reads and think time are typical of a small updating transaction, not stated.

use super::{Action, Workload};
use crate::random::Random;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// A page: `block_size` of PostgreSQL.
pub const PAGE: Bytes = Bytes::from_kib(8);

/// The processor's part of a small transaction.
pub const THINK: Nanos = Nanos::from_micros(100);

/// What a scenario may say of one.
pub(super) const SETTINGS: &[&str] = &[
    "block",
    "think",
    "reads",
    "record",
    "log",
    "sync",
    "group_commit",
    "checkpoint",
    "checkpoint_pages",
];

/// What is special about a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// Pages read per transaction.
    pub reads: u32,
    /// Bytes of the log per transaction.
    pub record: Bytes,
    /// Size of the log, which begins again at its end.
    pub log: Bytes,
    /// A flush makes the log durable; otherwise its writes are durable by themselves.
    pub flushes: bool,
    /// Transactions per write to the log.
    pub group_commit: u32,
    /// From one checkpoint to the next.
    pub checkpoint: Nanos,
    /// Pages that each writes; 0: there are none.
    pub checkpoint_pages: u32,
}

impl Default for Database {
    fn default() -> Database {
        Database {
            reads: 2,
            record: Bytes(512),
            log: Bytes::from_mib(1024),
            flushes: false,
            group_commit: 1,
            checkpoint: Nanos::from_secs(300),
            checkpoint_pages: 16_384,
        }
    }
}

/// The log and the pages of a region: the log comes first.
fn parts(region: Extent, log: Bytes) -> (Extent, Extent) {
    let log = Extent::new(region.offset(), log).expect("a part of the region");
    let pages = Extent::new(log.end(), region.len() - log.len()).expect("the rest of the region");
    (log, pages)
}

/// The transactions.
#[derive(Debug)]
pub struct Transactions {
    database: Database,
    page: Bytes,
    think: Nanos,
    log: Extent,
    pages: Extent,
    random: Random,
    buffered: bool,
    /// Reads of this transaction, or group of them, that are done.
    reads_count: u64,
    /// Where the log ends, from its beginning.
    at: u64,
    is_flush_due: bool,
}

impl Transactions {
    /// Over a region that holds the log and one page at least.
    pub fn new(
        region: Extent,
        database: Database,
        page: Bytes,
        think: Nanos,
        buffered: bool,
        random: Random,
    ) -> Transactions {
        let (log, pages) = parts(region, database.log);
        let (reads_count, at, is_flush_due) = (0, 0, false);
        Transactions {
            database,
            page,
            think,
            log,
            pages,
            random,
            buffered,
            reads_count,
            at,
            is_flush_due,
        }
    }

    /// The pages of the log from its end to the end of the next records.
    fn append(&mut self) -> Extent {
        let page = self.page.0;
        let len = self.database.record.0 * u64::from(self.database.group_commit);
        if (self.at + len).div_ceil(page) * page > self.log.len().0 {
            self.at = 0;
        }
        let (from, to) = (self.at / page * page, (self.at + len).div_ceil(page) * page);
        self.at += len;
        Extent::new(self.log.offset() + Bytes(from), Bytes(to - from)).expect("inside the log")
    }
}

impl Workload for Transactions {
    fn next(&mut self) -> Action {
        let Database { reads, group_commit, flushes, .. } = self.database;
        let payload = true;
        if std::mem::take(&mut self.is_flush_due) {
            let (think, op, extent) = (Nanos::ZERO, Op::Flush, Extent::EMPTY);
            return Action { think, op, extent, fua: false, buffered: false, payload: false };
        }
        if self.reads_count < u64::from(reads) * u64::from(group_commit) {
            self.reads_count += 1;
            let extent = page_at(&self.pages, self.page, &mut self.random);
            let (think, op, buffered) = (Nanos::ZERO, Op::Read, self.buffered);
            return Action { think, op, extent, fua: false, buffered, payload };
        }
        self.reads_count = 0;
        self.is_flush_due = flushes;
        let think = self.think.times(u64::from(group_commit));
        let (op, extent) = (Op::Write, self.append());
        Action { think, op, extent, fua: !flushes, buffered: false, payload }
    }
}

fn page_at(pages: &Extent, page: Bytes, random: &mut Random) -> Extent {
    let at = random.below(pages.len().0 / page.0) * page.0;
    Extent::new(pages.offset() + Bytes(at), page).expect("inside the region")
}

/// The checkpoints.
#[derive(Debug)]
pub struct Checkpoints {
    database: Database,
    page: Bytes,
    pages: Extent,
    random: Random,
    buffered: bool,
    /// Pages of this checkpoint that are written.
    count: u32,
    /// Whether no checkpoint has begun.
    is_first: bool,
}

impl Checkpoints {
    /// Over the region of the database.
    pub fn new(
        region: Extent,
        database: Database,
        page: Bytes,
        buffered: bool,
        random: Random,
    ) -> Checkpoints {
        let (_, pages) = parts(region, database.log);
        Checkpoints { database, page, pages, random, buffered, count: 0, is_first: true }
    }
}

impl Workload for Checkpoints {
    fn next(&mut self) -> Action {
        let Database { checkpoint, checkpoint_pages, .. } = self.database;
        let (count, buffered) = (u64::from(checkpoint_pages.max(1)), self.buffered);
        if self.count == checkpoint_pages {
            self.count = 0;
            let (think, op, extent) = (Nanos::ZERO, Op::Flush, Extent::EMPTY);
            return Action { think, op, extent, fua: false, buffered, payload: false };
        }
        // The pages in order of place: one anywhere in each of as many equal parts.
        let places = self.pages.len().0 / self.page.0;
        let part =
            |number: u64| (u128::from(places) * u128::from(number) / u128::from(count)) as u64;
        let (from, to) = (part(u64::from(self.count)), part(u64::from(self.count) + 1));
        let place = from + self.random.below((to - from).max(1));
        let offset = self.pages.offset() + Bytes(place.min(places - 1) * self.page.0);
        let think = match self.count {
            0 if !std::mem::take(&mut self.is_first) => Nanos(checkpoint.0 / 10),
            _ => Nanos(checkpoint.0 / 10 * 9 / count),
        };
        self.count += 1;
        let extent = Extent::new(offset, self.page).expect("inside the region");
        Action { think, op: Op::Write, extent, fua: false, buffered, payload: true }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region;
    use super::*;

    fn database() -> Database {
        Database { log: Bytes(64 << 10), record: Bytes(3_000), ..Database::default() }
    }

    #[test]
    fn the_last_page_of_the_log_is_written_again_until_it_is_full() {
        let all = region(1 << 20, 1 << 30);
        let mut task = Transactions::new(all, database(), PAGE, THINK, false, Random::new(1, "db"));
        let actions: Vec<Action> = (0..75).map(|_| task.next()).collect();
        let (log, reads): (Vec<&Action>, Vec<_>) = actions.iter().partition(|a| a.op == Op::Write);
        assert_eq!((log.len(), reads.len()), (25, 50));
        assert!(log.iter().all(|a| a.fua && a.extent.end().0 <= (1 << 20) + (64 << 10)));
        assert!(reads.iter().all(|a| a.op == Op::Read && a.extent.offset() >= log[0].extent.end()));
        let pages: Vec<(u64, u64)> = log
            .iter()
            .map(|a| ((a.extent.offset().0 - (1 << 20)) / 8192, a.extent.len().0))
            .collect();
        assert_eq!(pages[..4], [(0, 8192), (0, 8192), (0, 16_384), (1, 8192)]);
        assert_eq!(pages[21].0, 0, "after 21 records of 3000 B in 64 KiB it begins again");
    }

    #[test]
    fn with_flushes_each_commit_is_a_write_and_a_flush() {
        let database = Database { flushes: true, reads: 0, group_commit: 8, ..database() };
        let all = region(0, 1 << 30);
        let mut task = Transactions::new(all, database, PAGE, THINK, false, Random::new(1, "db"));
        for _ in 0..10 {
            let (write, flush) = (task.next(), task.next());
            assert!(write.op == Op::Write && !write.fua && write.extent.len().0 >= 24_000);
            assert_eq!(flush.op, Op::Flush);
        }
    }

    #[test]
    fn a_checkpoint_writes_its_pages_in_order_over_nine_tenths_of_its_time() {
        let database = Database { checkpoint_pages: 100, ..database() };
        let mut task =
            Checkpoints::new(region(0, 1 << 30), database, PAGE, true, Random::new(1, "db"));
        for round in 0..3 {
            let pages: Vec<Action> = (0..100).map(|_| task.next()).collect();
            assert!(pages.windows(2).all(|two| two[0].extent.end() <= two[1].extent.offset()));
            assert!(pages.iter().all(|a| a.op == Op::Write && a.buffered));
            let time: u64 = pages.iter().map(|a| a.think.0).sum();
            let gap = Nanos::from_millis(2_700).0;
            let pause = if round == 0 { gap } else { Nanos::from_secs(30).0 };
            assert_eq!(time, 99 * gap + pause);
            assert_eq!(task.next().op, Op::Flush);
        }
    }
}
