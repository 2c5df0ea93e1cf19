//! The tasks of a scenario file.
//!
//! ```toml
//! [[task]]
//! name = "dd"
//! kind = "dd-write"
//! count = 100                         # a hundred of them: dd-001 to dd-100, each in its own
//! offset = "64GiB"                    # hundredth of the region
//! size = "32GiB"
//! block = "1MiB"
//! ```
//! `rate`, `arrival`, `total` and `wave`: see `arrivals.rs`.
//!
//! Each kind takes some settings, see [`TaskKind::settings`]; one that it does not take is a
//! mistake.

use super::error::Mistake;
use super::groups;
use super::shape::TaskTable;
use super::{FILES_MAX, TASK_DEPTH_MAX, TASKS_MAX};
use super::{arrivals, database};
use crate::spelling;
use crate::task::{Task, TaskKind};
use core::num::NonZeroU64;
use core::ops::Range;
use iopace_core::pace::{self, PacePolicy};
use iopace_core::request::Extent;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_groups::tree::Tree;
use toml::Spanned;

/// Largest request: the largest that a network block device carries.
const REQUEST_MAX: Bytes = Bytes::from_mib(32);

/// Parts of a region that several tasks share begin on pages.
const PAGE: u64 = 4_096;

/// Resolves the tables.
pub(super) fn resolve(
    tables: &[Spanned<TaskTable>],
    capacity: Bytes,
    has_memory: bool,
    groups: &Tree,
    pace: &PacePolicy,
) -> Result<Vec<Task>, Mistake> {
    let mut tasks: Vec<Task> = Vec::with_capacity(tables.len());
    for table in tables {
        let given = table.get_ref();
        for mut task in resolve_table(table, capacity, has_memory)? {
            if tasks.len() == TASKS_MAX {
                return Err((table.span(), format!("at most {TASKS_MAX} tasks")));
            }
            task.group = groups::find(groups, given.group.as_ref())?;
            groups::check_blocking(table, &task, &tasks)?;
            if tasks.iter().any(|other| other.name == task.name) {
                return Err((given.name.span(), format!("a second task named '{}'", task.name)));
            }
            if task.buffered && !has_memory {
                let message = "a buffered task needs a [memory] table: the page cache is modelled";
                return Err((given.kind.span(), message.into()));
            }
            task.dirty_cap = dirty_cap(given, &task, pace)?;
            tasks.push(task);
        }
    }
    Ok(tasks)
}

/// The cap on what a task dirties.
fn dirty_cap(
    given: &TaskTable,
    task: &Task,
    pace: &PacePolicy,
) -> Result<Option<NonZeroU64>, Mistake> {
    let Some(cap) = &given.dirty_cap else { return Ok(None) };
    let wrong = |message| (cap.span(), message);
    if !task.buffered {
        return Err(wrong("only a buffered task dirties memory: say `buffered = true`".into()));
    }
    // Nothing at all is as wrong as too little.
    let rate = NonZeroU64::new(cap.get_ref().0.0).unwrap_or(NonZeroU64::MIN);
    pace::check_cap(pace, rate).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(rate))
}

/// The tasks of one table: one, or `count` of them.
fn resolve_table(
    table: &Spanned<TaskTable>,
    capacity: Bytes,
    has_memory: bool,
) -> Result<Vec<Task>, Mistake> {
    let given = table.get_ref();
    let word = given.kind.get_ref();
    let Some((kind, ..)) = TaskKind::ALL.iter().find(|(_, name, _)| name == word) else {
        let names: Vec<&str> = TaskKind::ALL.iter().map(|(_, name, _)| *name).collect();
        let message = spelling::unknown("kind of task", word, &names);
        return Err((given.kind.span(), message));
    };
    let offset = given.offset.map_or(Bytes::ZERO, |size| size.0);
    let len = given.size.map_or(capacity - offset, |size| size.0);
    let region = Extent::new(offset, len).filter(|region| region.end() <= capacity);
    let Some(region) = region else {
        let message = format!("offset + size is past the end of the disk, which has {capacity}");
        return Err((table.span(), message));
    };
    let mut task = Task::new(given.name.get_ref(), *kind, region);
    task.start = Instant::ZERO + given.start.map_or(Nanos::ZERO, |time| time.0);
    task.stop = given.stop.map_or(Instant::NEVER, |time| Instant::ZERO + time.0);
    refuse_foreign(*kind, given)?;
    apply_requests(&mut task, given)?;
    apply_files(&mut task, given)?;
    arrivals::apply(&mut task, given)?;
    database::apply(&mut task, given, has_memory)?;
    let mut tasks = copies(task, given.count.as_ref())?;
    let (least, len) = (tasks[0].needs(), tasks[0].region.len());
    if len < least {
        let message = match given.count {
            Some(_) => format!("the region has {len} for each, a {word} needs {least}"),
            None => format!("the region has {len}, a {word} needs {least}"),
        };
        return Err((table.span(), message));
    }
    tasks.extend(tasks.iter().filter_map(database::checkpoints).collect::<Vec<_>>());
    Ok(tasks)
}

/// The task as often as it is wanted, each with its own part of the region.
fn copies(task: Task, count: Option<&Spanned<usize>>) -> Result<Vec<Task>, Mistake> {
    let Some(count) = count else { return Ok(vec![task]) };
    let (span, count) = (count.span(), *count.get_ref());
    if !(1..=TASKS_MAX).contains(&count) {
        return Err((span, format!("the count is 1 to {TASKS_MAX}")));
    }
    let (width, len) = (count.to_string().len(), task.region.len().0 / count as u64 / PAGE * PAGE);
    let copy = |number: usize| {
        let offset = task.region.offset() + Bytes(len * (number as u64 - 1));
        let region = Extent::new(offset, Bytes(len)).expect("a part of the region");
        Task { name: format!("{}-{number:0width$}", task.name), region, ..task.clone() }
    };
    Ok((1..=count).map(copy).collect())
}

/// Refuses a setting that the kind does not take.
fn refuse_foreign(kind: TaskKind, given: &TaskTable) -> Result<(), Mistake> {
    fn span<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
        value.as_ref().map(Spanned::span)
    }
    let spans = [
        ("block", span(&given.block)),
        ("think", span(&given.think)),
        ("write_percent", span(&given.write_percent)),
        ("buffered", span(&given.buffered)),
        ("fua", span(&given.fua)),
        ("depth", span(&given.depth)),
        ("blocking", span(&given.blocking)),
        ("files", span(&given.files)),
        ("file_min", span(&given.file_min)),
        ("file_max", span(&given.file_max)),
        ("link", span(&given.link)),
        ("think_every", span(&given.think_every)),
        ("flush_every", span(&given.flush_every)),
        ("trim", span(&given.trim)),
        ("rate", span(&given.rate)),
        ("arrival", span(&given.arrival)),
        ("ceiling", span(&given.ceiling)),
        ("reads", span(&given.reads)),
        ("record", span(&given.record)),
        ("log", span(&given.log)),
        ("sync", span(&given.sync)),
        ("group_commit", span(&given.group_commit)),
        ("checkpoint", span(&given.checkpoint)),
        ("checkpoint_pages", span(&given.checkpoint_pages)),
    ];
    let is_foreign = |name: &str| !kind.settings().contains(&name);
    let foreign = spans.into_iter().find(|(name, span)| span.is_some() && is_foreign(name));
    let Some((name, Some(span))) = foreign else { return Ok(()) };
    let word = kind.name();
    let message = if kind.settings().is_empty() {
        format!(
            "a task of kind '{word}' takes no `{name}`: it stands for one program; use the kinds \
             'sequential' or 'random'"
        )
    } else {
        format!("a task of kind '{word}' takes no `{name}`, only {}", kind.settings().join(", "))
    };
    Err((span, message))
}

/// What one request is, and how they follow each other.
fn apply_requests(task: &mut Task, given: &TaskTable) -> Result<(), Mistake> {
    if let Some(depth) = &given.depth {
        if !(1..=TASK_DEPTH_MAX).contains(depth.get_ref()) {
            return Err((depth.span(), format!("the depth is 1 to {TASK_DEPTH_MAX}")));
        }
        task.depth = *depth.get_ref();
    }
    if let Some(block) = &given.block {
        let size = block.get_ref().0;
        let is_plain = matches!(task.kind, TaskKind::Sequential | TaskKind::Random);
        if size.0 == 0 || size > REQUEST_MAX || (is_plain && !size.0.is_multiple_of(512)) {
            let message = match is_plain {
                true => "a block is a multiple of 512 B, at most 32 MiB",
                false => "a block is 1 B to 32 MiB",
            };
            return Err((block.span(), message.into()));
        }
        task.block = size;
    }
    if let Some(percent) = &given.write_percent {
        if *percent.get_ref() > 100 {
            return Err((percent.span(), "write_percent is 0 to 100".into()));
        }
        task.write_percent = *percent.get_ref();
    }
    if let Some(link) = &given.link {
        if link.get_ref().0.0 == 0 {
            return Err((link.span(), "the link carries at least 1 B/s".into()));
        }
        task.link = link.get_ref().0;
    }
    task.think = given.think.as_ref().map_or(task.think, |time| time.get_ref().0);
    task.buffered = given.buffered.as_ref().map_or(task.buffered, |b| *b.get_ref());
    task.blocking = given.blocking.as_ref().is_some_and(|blocking| *blocking.get_ref());
    task.fua = given.fua.as_ref().map_or(task.fua, |fua| *fua.get_ref());
    Ok(())
}

/// How many files there are, and of which sizes.
fn apply_files(task: &mut Task, given: &TaskTable) -> Result<(), Mistake> {
    if let Some(files) = &given.files {
        if !(1..=FILES_MAX).contains(files.get_ref()) {
            return Err((files.span(), format!("a pool has 1 to {FILES_MAX} files")));
        }
        task.files.count = *files.get_ref();
    }
    task.files.min = given.file_min.as_ref().map_or(task.files.min, |size| size.get_ref().0);
    task.files.max = given.file_max.as_ref().map_or(task.files.max, |size| size.get_ref().0);
    let (min, max) = (task.files.min, task.files.max);
    let place = given.file_min.as_ref().or(given.file_max.as_ref()).map(Spanned::span);
    let Some(place) = place else { return Ok(()) };
    if min == Bytes::ZERO || min > max {
        let message = format!("files have 1 B or more, file_min <= file_max: {min}, {max}");
        return Err((place, message));
    }
    if task.kind == TaskKind::Postmark && max > REQUEST_MAX {
        let place = given.file_max.as_ref().map_or(place, Spanned::span);
        return Err((place, "a file is read at once: file_max is at most 32 MiB".into()));
    }
    Ok(())
}
