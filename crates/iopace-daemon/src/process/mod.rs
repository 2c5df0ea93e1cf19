//! What the kernel says of processes: the one place that reads `/proc/PID`.
//!
//! Nothing here waits for a disk or for the process that is asked about: only files of `/proc` are
//! read that take no lock of its memory (never `cmdline`).

mod cgroup_files;
mod credentials;
#[cfg(test)]
pub(crate) mod fake;
mod family;
mod hierarchy;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod hostile;
mod kernel;
mod locks;
mod user;

pub(crate) use cgroup_files::CgroupFiles;
pub(crate) use credentials::{Credentials, Namespace};
pub use family::{MovedBytes, ProcessFamily, Thread, processes_named};
pub(crate) use hierarchy::Hierarchy;
pub(crate) use kernel::Kernel;
pub(crate) use locks::{lock_holders, lock_name};
pub use user::{group_number, user_number};

use crate::printable;
use iopace_core::request::TaskId;
use iopace_core::time::Instant;
use std::io;

/// Tasks with this bit are processes; connections are counted from 1 and never come here.
const PROCESS_BIT: u64 = 1 << 63;

/// A process, told apart from others that had its number before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Process {
    /// Its number: that of its first thread.
    pub(crate) pid: u32,
    /// When it was started, in clock ticks since the machine was.
    pub(crate) start: u64,
}

impl From<Process> for TaskId {
    /// The number of the process, and when it was started: 31 bits of clock ticks, which come again
    /// after 248 days.
    fn from(process: Process) -> TaskId {
        TaskId(PROCESS_BIT | (process.start & 0x7fff_ffff) << 32 | u64::from(process.pid))
    }
}

/// The process that a task is, and the low 31 bits of when it was started; `None` if it is none.
pub(crate) fn process_of_task(task: TaskId) -> Option<(u32, u64)> {
    let is_process = task.0 & PROCESS_BIT != 0;
    is_process.then_some((task.0 as u32, task.0 >> 32 & 0x7fff_ffff))
}

/// The process that a thread belongs to, if it is there and can be seen.
pub fn process_of(thread: u32) -> Option<u32> {
    Kernel.process(thread)
}

/// `/proc/PID/stat` of a process, or of a thread under its own number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The name of the program, up to 15 bytes, or what the thread calls itself.
    pub(crate) comm: String,
    /// The process that it is a child of.
    pub(crate) parent: u32,
    /// When it was started, in clock ticks since the machine was.
    pub(crate) start: u64,
}

/// The kernel's knowledge of processes. What is gone, or cannot be seen from here, is `None`.
pub(crate) trait Proc: Send + Sync {
    /// Who it is.
    fn stat(&self, pid: u32) -> Option<Stat>;

    /// Whether there is surely no process of that number: not that it cannot be read, as when the
    /// daemon has as many files open as it may.
    fn is_gone(&self, pid: u32) -> bool;

    /// The process that a thread belongs to.
    fn process(&self, thread: u32) -> Option<u32>;

    /// The users of a process: real, effective, saved.
    fn users(&self, pid: u32) -> Option<[u32; 3]>;

    /// The base name of its program; `None` also for what may not be looked at.
    fn program(&self, pid: u32) -> Option<String>;

    /// `/proc/PID/cgroup` as it is.
    fn cgroup(&self, pid: u32) -> Option<String>;

    /// Whether only root and the daemon's own user can make cgroups in the one at that path.
    fn is_own_cgroup(&self, hierarchy: Hierarchy, path: &str) -> bool;

    /// Settings that the kernel has for the cgroup at that path; `None` if it is not there, or
    /// cannot be seen.
    ///
    /// # Errors
    /// It cannot be read now, as when the daemon has as many files open as it may.
    fn cgroup_files(&self, hierarchy: Hierarchy, path: &str) -> io::Result<Option<CgroupFiles>>;

    /// What `ionice` has set for a thread, as `ioprio_get(2)` says it.
    fn ioprio(&self, thread: u32) -> Option<u16>;

    /// The time.
    fn now(&self) -> Instant;

    /// The time in clock ticks since the machine was started.
    fn ticks(&self) -> u64;
}

impl Stat {
    /// Reads a line of `/proc/PID/stat`. The name stands in brackets and may have any in itself.
    fn parse(line: &str) -> Option<Stat> {
        let (head, rest) = line.rsplit_once(')')?;
        let (_, comm) = head.split_once('(')?;
        // Field 3 is the first behind the name: 4 is the parent, 22 the start (proc_pid_stat(5)).
        let mut fields = rest.split_ascii_whitespace();
        let parent = fields.nth(1)?.parse().ok()?;
        let start = fields.nth(17)?.parse().ok()?;
        // A process calls itself what it likes, and the kernel passes that on.
        Some(Stat { comm: printable::name(comm).into_owned(), parent, start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let line = "12 (a) R 9 (b) S 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3\n";
        let stat = Stat { comm: "a) R 9 (b".into(), parent: 7, start: 98_765 };
        assert_eq!(Stat::parse(line), Some(stat));
        let named =
            Stat::parse("12 (\x1b[2J\n) R 9 7 7 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 5 2 3");
        assert_eq!(named.map(|stat| stat.comm).as_deref(), Some(r"\x1b[2J\x0a"));
        for wrong in ["", "12", "12 (a", "12 (a) S", "12 (a) S x 1", "12 (a) S 1 2 3"] {
            assert_eq!(Stat::parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_odd(line in "\\PC{0,80}", comm in "\\PC{1,15}", start: u64) {
            let _ = Stat::parse(&line);
            let line = format!("1 ({comm}) S 2 {}{start} 9", "0 ".repeat(17));
            let stat = Stat::parse(&line).expect("right");
            let comm = printable::name(&comm).into_owned();
            prop_assert_eq!((stat.comm, stat.parent, stat.start), (comm, 2, start));
        }
    }
}
