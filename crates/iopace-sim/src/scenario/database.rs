//! Tasks of kind `database` of a scenario file.
//!
//! ```toml
//! [[task]]
//! name = "db"                         # and a second task, db-checkpoint
//! kind = "database"
//! size = "32GiB"                      # the log first, then the pages
//! block = "8KiB"                      # a page
//! reads = 2                           # pages read per transaction, 0 to 1000
//! think = "100us"                     # per transaction
//! record = "512B"                     # of the log per transaction, 1 B to 1 MiB
//! log = "1GiB"                        # size of the log
//! sync = "fua"                        # or "flush": what makes it durable
//! group_commit = 1                    # transactions per write to the log, 1 to 1000
//! checkpoint = "5min"                 # from one to the next, 1 ms to a day
//! checkpoint_pages = 16384            # that each writes, 0 (no checkpoints) to 10 million
//! ```

use super::DURATION_MAX;
use super::error::Mistake;
use super::shape::TaskTable;
use crate::task::{Task, TaskKind};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use toml::Spanned;

/// Most of what is counted per transaction.
pub(crate) const COUNT_MAX: u32 = 1_000;

/// Most pages of a checkpoint.
pub(crate) const PAGES_MAX: u32 = 10_000_000;

/// Largest record.
pub(crate) const RECORD_MAX: Bytes = Bytes::from_mib(1);

/// The log and the checkpoints.
pub(super) fn apply(task: &mut Task, given: &TaskTable, has_memory: bool) -> Result<(), Mistake> {
    if !matches!(task.kind, TaskKind::Database | TaskKind::Checkpoint) {
        return Ok(());
    }
    let number =
        |value: &Option<Spanned<u32>>, least: u32, most: u32, what: &str, or: u32| match value {
            Some(n) if !(least..=most).contains(n.get_ref()) => {
                Err((n.span(), format!("{what} is {least} to {most}")))
            }
            Some(n) => Ok(*n.get_ref()),
            None => Ok(or),
        };
    let database = &mut task.database;
    database.reads = number(&given.reads, 0, COUNT_MAX, "reads", database.reads)?;
    database.group_commit =
        number(&given.group_commit, 1, COUNT_MAX, "group_commit", database.group_commit)?;
    let pages = database.checkpoint_pages;
    database.checkpoint_pages =
        number(&given.checkpoint_pages, 0, PAGES_MAX, "checkpoint_pages", pages)?;
    if let Some(record) = &given.record {
        let size = record.get_ref().0;
        if size == Bytes::ZERO || size > RECORD_MAX {
            return Err((record.span(), format!("a record has 1 B to {RECORD_MAX}")));
        }
        database.record = size;
    }
    if let Some(time) = &given.checkpoint {
        let length = time.get_ref().0;
        if !(Nanos::from_millis(1)..=DURATION_MAX).contains(&length) {
            return Err((time.span(), format!("checkpoints are 1 ms to {DURATION_MAX} apart")));
        }
        database.checkpoint = length;
    }
    database.flushes = match given.sync.as_ref().map(|word| (word.get_ref().as_str(), word.span()))
    {
        None | Some(("fua", _)) => false,
        Some(("flush", _)) => true,
        Some((other, span)) => {
            return Err((span, format!("sync is 'fua' or 'flush', not '{other}'")));
        }
    };
    if let Some(block) = given.block.as_ref().filter(|_| !task.block.0.is_multiple_of(512)) {
        return Err((block.span(), "a page is a multiple of 512 B".into()));
    }
    let page = task.block.0;
    let group = database.record.0 * u64::from(database.group_commit);
    database.log = given.log.as_ref().map_or(database.log, |log| log.get_ref().0);
    if database.log.0 < group + 2 * page || !database.log.0.is_multiple_of(512) {
        let span = given.log.as_ref().map_or(given.kind.span(), Spanned::span);
        let least = Bytes((group + 2 * page).div_ceil(512) * 512);
        return Err((span, format!("the log is a multiple of 512 B, at least {least}")));
    }
    task.buffered = has_memory;
    Ok(())
}

/// The checkpoints that go with a database.
pub(super) fn checkpoints(database: &Task) -> Option<Task> {
    let has = database.kind == TaskKind::Database && database.database.checkpoint_pages > 0;
    has.then(|| Task {
        name: format!("{}-checkpoint", database.name),
        kind: TaskKind::Checkpoint,
        total: None,
        ..database.clone()
    })
}
