//! All workloads of up to three operations, each followed by a sync or by none.
//!
//! The idea is that of ACE ("Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing",
//! Mohan and others, OSDI 2018): most bugs of crash consistency need few operations on few files
//! and a power cut right after a sync, so all of these can be tried.

mod calls;

use crate::bench::{Bench, Over};
use crate::cut::{Cutter, Names};
use crate::node::{Node, NodeKind, ROOT, Random, SECTOR};
use crate::promise::{Calls, Promise};
use crate::report::Report;
use calls::Caller;
use std::ffi::OsStr;
use std::io;

/// How the content of a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMethod {
    /// As usual.
    Buffered,
    /// By a file that was opened with these flags.
    Opened(i32),
    /// By one call with these flags (`RWF_`), on a file that was opened with those.
    Flagged(i32, u32),
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A new file.
    Create(&'static str),
    /// The first two sectors of a file that is there.
    Overwrite(&'static str, WriteMethod),
    /// A new file with content.
    Write(&'static str),
    /// Behind the end.
    Append(&'static str),
    /// A new directory.
    Mkdir(&'static str),
    /// A new name instead of the old one.
    Rename(&'static str, &'static str),
    /// Two names change places.
    Exchange(&'static str, &'static str),
    /// Another name.
    Link(&'static str, &'static str),
    /// A name less.
    Unlink(&'static str),
    /// Another size.
    Truncate(&'static str, u64),
    /// `fallocate` with that mode, from the second sector on.
    Allocate(&'static str, i32),
    /// A symbolic link.
    Symlink(&'static str),
    /// An extended attribute.
    Xattr(&'static str),
    /// Other permissions.
    Chmod(&'static str),
}

/// The sync after an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// None.
    Nothing,
    /// Of the file, by `fsync`.
    Fsync,
    /// Of the file, by `fdatasync`.
    Fdatasync,
    /// Of the directories whose names have changed.
    Directory,
}

const AFTER: [After; 4] = [After::Nothing, After::Fsync, After::Fdatasync, After::Directory];

/// One operation with what comes after it.
pub type Step = (Op, After);

const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;

/// The operations of which workloads of three are made.
const CORE: [Op; 16] = [
    Op::Create("b"),
    Op::Overwrite("a", WriteMethod::Buffered),
    Op::Write("d/b"),
    Op::Append("a"),
    Op::Mkdir("e"),
    Op::Rename("a", "b"),
    Op::Rename("d/c", "a"),
    Op::Link("a", "d/b"),
    Op::Unlink("a"),
    Op::Truncate("a", 700),
    Op::Allocate("a", 0),
    Op::Allocate("a", PUNCH),
    Op::Allocate("a", ZERO),
    Op::Symlink("b"),
    Op::Xattr("a"),
    Op::Overwrite("a", WriteMethod::Flagged(libc::O_DIRECT, libc::RWF_SYNC as u32)),
];

/// More operations, for workloads of one and two.
const MORE: [Op; 17] = [
    Op::Create("d/b"),
    Op::Append("d/c"),
    Op::Rename("a", "d/a"),
    Op::Rename("d", "e"),
    Op::Exchange("a", "d/c"),
    Op::Unlink("d/c"),
    Op::Truncate("a", 5000),
    Op::Chmod("a"),
    Op::Overwrite("a", WriteMethod::Opened(libc::O_DIRECT)),
    Op::Overwrite("a", WriteMethod::Opened(libc::O_SYNC)),
    Op::Overwrite("a", WriteMethod::Opened(libc::O_DSYNC)),
    Op::Overwrite("a", WriteMethod::Opened(libc::O_SYNC | libc::O_DIRECT)),
    Op::Overwrite("a", WriteMethod::Opened(libc::O_DSYNC | libc::O_DIRECT)),
    Op::Overwrite("a", WriteMethod::Flagged(0, libc::RWF_SYNC as u32)),
    Op::Overwrite("a", WriteMethod::Flagged(0, libc::RWF_DSYNC as u32)),
    Op::Overwrite("a", WriteMethod::Flagged(libc::O_DIRECT, libc::RWF_DSYNC as u32)),
    Op::Overwrite("d/c", WriteMethod::Opened(libc::O_APPEND | libc::O_SYNC)),
];

/// Workloads of so many operations; the last one is always followed by a sync.
pub fn workloads(len: usize) -> Vec<Vec<Step>> {
    let ops: Vec<Op> = if len > 2 { CORE.to_vec() } else { [&CORE[..], &MORE].concat() };
    let steps: Vec<Step> =
        ops.iter().flat_map(|op| AFTER.iter().map(|after| (*op, *after))).collect();
    let mut all = vec![Vec::new()];
    for _ in 0..len {
        let longer = |list: &Vec<Step>| {
            let list = list.clone();
            steps.iter().map(move |step| [&list[..], &[*step]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    // A write that is durable by itself needs no sync after it.
    all.retain(|list| {
        list.last().is_some_and(|(op, after)| {
            *after != After::Nothing || matches!(op, Op::Overwrite(_, WriteMethod::Flagged(..)))
        })
    });
    all
}

/// The content of a file that was always there.
fn content(first: u8) -> Vec<u8> {
    (0..3 * SECTOR + 100).map(|at| first + (at / SECTOR) as u8).collect()
}

/// Runs workloads, each thousand of them with an iopace of their own: the kernel remembers their
/// folders, and each takes a descriptor.
///
/// # Errors
/// The bench does not start.
pub fn run_all(over: Over, all: &[Vec<Step>], seed: u64) -> io::Result<Report> {
    let mut report = Report::default();
    for some in all.chunks(1000) {
        report += run(&Bench::mounted(over)?, some, seed);
    }
    Ok(report)
}

/// Runs workloads on a bench, and tries all cuts of each. Those that cannot be run (a name is
/// missing or taken) are left out.
pub fn run(bench: &Bench, all: &[Vec<Step>], seed: u64) -> Report {
    let (mut report, mut random) = (Report::default(), Random(seed));
    for (number, workload) in all.iter().enumerate() {
        let name = format!("w{number}");
        let top = {
            let mut tree = bench.tree.lock();
            let top = tree.preset(ROOT, &name, Node::new(NodeKind::Directory, 0o755));
            let below = tree.preset(top, "d", Node::new(NodeKind::Directory, 0o755));
            tree.preset(top, "a", Node::file(content(0x10)));
            tree.preset(below, "c", Node::file(content(0x20)));
            tree.begin(&[OsStr::new(&name)]);
            top
        };
        let mut caller = Caller::new(bench, &name, top);
        let done = workload.iter().try_for_each(|step| caller.step(*step));
        match done {
            Ok(()) => cut(bench, workload, &caller.calls, &mut random, &mut report),
            Err(error) if is_impossible(&error) => {}
            Err(error) => {
                report.checked(Err(error.to_string()), || format!("{workload:?}"));
            }
        }
    }
    report
}

/// The workload makes no sense: it creates what is there, or uses what is not.
fn is_impossible(error: &io::Error) -> bool {
    let number = error.raw_os_error().unwrap_or(0);
    error.kind() == io::ErrorKind::NotFound
        || [libc::EEXIST, libc::ELOOP, libc::EISDIR, libc::ENOTDIR].contains(&number)
}

fn cut(bench: &Bench, workload: &[Step], calls: &Calls, random: &mut Random, report: &mut Report) {
    report.workloads += 1;
    let (base, events) = {
        let tree = bench.tree.lock();
        (tree.base.clone(), tree.events.clone())
    };
    let mut cutter = Cutter::new(base.clone(), Names::Apart);
    for moment in 0..=events.len() {
        if moment > 0 {
            cutter.push(&events[moment - 1]);
        }
        report.cuts += 1;
        let promise = Promise::new(calls, &base, moment, Names::Apart);
        for choice in cutter.choices(4, random) {
            let state = cutter.state(&choice);
            report.checked(promise.check(&state), || {
                format!("{workload:?}, cut after event {moment} of {events:?}")
            });
        }
    }
}
