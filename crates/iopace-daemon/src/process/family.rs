//! Processes with all that they have started: their numbers, threads, and the bytes they moved.
//!
//! # Counts
//! `/proc/PID/io` has what a process and the children that it has waited for have moved. Parents
//! are read before their children: one that ends meanwhile is missing once, and never counted
//! twice; sums that are smaller than the one before are left out. What a process has moved whose
//! parent has ended before it is lost when it ends.

use super::kernel::read;
use super::{Kernel, Proc, Process};
use std::collections::BTreeSet;

/// Most processes that are looked at: a build on a large machine.
const FAMILY_MAX: usize = 4096;

/// Bytes that were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedBytes {
    /// By system calls, or from a block device if that is more (a mapped file).
    pub read: u64,
    /// By system calls, or to a block device if that is more.
    pub written: u64,
}

/// A thread: numbers are used again, together with the start they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    /// Its number.
    pub number: u32,
    /// When it was started, in clock ticks since the machine was.
    pub start: u64,
}

/// Processes with all that they have started, those also whose parents have ended; never this one.
#[derive(Debug)]
pub struct ProcessFamily {
    /// All that were there at the last look, parents before their children.
    members: Vec<Process>,
    moved: MovedBytes,
}

impl ProcessFamily {
    /// The processes of those numbers with what they have started; those that are not there are
    /// left out.
    pub fn of(pids: &[u32]) -> ProcessFamily {
        let members = pids.iter().copied().filter_map(process).collect();
        let mut family = ProcessFamily { members, moved: MovedBytes::default() };
        family.look();
        family
    }

    /// Looks who is there and what they have moved.
    pub fn look(&mut self) {
        let (mut found, mut known) = (Vec::new(), BTreeSet::new());
        let before = std::mem::take(&mut self.members);
        let mut sum = MovedBytes::default();
        for member in before {
            let mut line = vec![member];
            while let Some(next) = line.pop().filter(|_| found.len() < FAMILY_MAX) {
                let is_own = next.pid == std::process::id();
                if is_own || known.contains(&next) || process(next.pid) != Some(next) {
                    continue;
                }
                known.insert(next);
                found.push(next);
                let moved = moved(next.pid).unwrap_or_default();
                sum.read = sum.read.saturating_add(moved.read);
                sum.written = sum.written.saturating_add(moved.written);
                line.extend(children(next.pid));
            }
        }
        self.members = found;
        self.moved.read = self.moved.read.max(sum.read);
        self.moved.written = self.moved.written.max(sum.written);
    }

    /// What they have moved as of the last look.
    pub fn moved(&self) -> MovedBytes {
        self.moved
    }

    /// Their numbers as of the last look.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().map(|member| member.pid)
    }

    /// The threads that they have now.
    pub fn threads(&self) -> Vec<Thread> {
        let started = |number| Some(Thread { number, start: Kernel.stat(number)?.start });
        self.pids().flat_map(threads).filter_map(started).collect()
    }

    /// Whether none of them was there at the last look.
    pub fn is_gone(&self) -> bool {
        self.members.is_empty()
    }
}

/// A process that runs, or has ended and was not waited for.
fn process(pid: u32) -> Option<Process> {
    Kernel.stat(pid).map(|stat| Process { pid, start: stat.start })
}

/// The processes whose program has that name or file name, those also of other users.
pub fn processes_named(name: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_named = |pid: &u32| {
        let comm = Kernel.stat(*pid).map(|stat| stat.comm);
        comm.as_deref() == Some(name) || Kernel.program(*pid).as_deref() == Some(name)
    };
    numbers.filter(is_named).collect()
}

/// The numbers of the threads of a process.
fn threads(pid: u32) -> Vec<u32> {
    let names = std::fs::read_dir(format!("/proc/{pid}/task"));
    let names = names.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The children of a process; none on a kernel that does not list them.
fn children(pid: u32) -> Vec<Process> {
    let listed = threads(pid).into_iter().filter_map(|thread| {
        let text = read(pid, &format!("task/{thread}/children"))?;
        Some(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
    });
    let listed: Vec<Vec<u32>> = listed.collect();
    listed.into_iter().flatten().filter_map(process).collect()
}

/// What a process has moved, with those that it has waited for; `None` if it may not be seen.
fn moved(pid: u32) -> Option<MovedBytes> {
    parse(&read(pid, "io")?)
}

fn parse(text: &str) -> Option<MovedBytes> {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(": ")?.trim().parse::<u64>().ok()
    };
    let read = value("rchar")?.max(value("read_bytes")?);
    let written = value("wchar")?.max(value("write_bytes")?);
    Some(MovedBytes { read, written })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn what_children_have_moved_counts_once() {
        // A child reads, is waited for, and another one is there; then the shell waits.
        let script = "head -c 3000000 /dev/zero >/dev/null; sleep 60 & echo here; read line";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("read");
        let mut family = ProcessFamily::of(&[child.id()]);
        let moved = family.moved();
        assert!((3_000_000..4_000_000).contains(&moved.read), "{moved:?}");
        let pids: Vec<u32> = family.pids().collect();
        assert_eq!((pids[0], pids.len()), (child.id(), 2));
        assert_eq!(family.threads().len(), 2);
        assert!(processes_named("sleep").contains(&pids[1]));
        family.look();
        assert!(family.moved().read < 4_000_000, "not counted twice");
        // Whoever was left is still of the family.
        child.stdin.take().expect("piped").write_all(b"on\n").expect("written");
        child.wait().expect("ended");
        family.look();
        assert_eq!(family.pids().collect::<Vec<u32>>(), pids[1..]);
        let left = rustix::process::Pid::from_raw(pids[1].cast_signed()).expect("a number");
        rustix::process::kill_process(left, rustix::process::Signal::KILL).expect("ended");
    }

    #[test]
    fn a_mapped_file_counts_as_it_is_read() {
        let text = "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 0\n\
                    cancelled_write_bytes: 0\n";
        assert_eq!(parse(text), Some(MovedBytes { read: 4096, written: 20 }));
        assert_eq!((parse(""), parse("rchar: x\n")), (None, None));
        assert!(ProcessFamily::of(&[u32::MAX]).is_gone());
        assert!(ProcessFamily::of(&[std::process::id()]).is_gone(), "never this one");
    }
}
