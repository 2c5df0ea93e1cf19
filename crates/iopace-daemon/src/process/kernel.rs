//! `/proc` of the running kernel, and what `ionice` has set.

use super::hierarchy::Mounted;
use super::{CgroupFiles, Hierarchy, Proc, Stat};
use crate::clock;
use crate::ioprio::{self, IoPriority};
use crate::printable;
use iopace_core::time::Instant;
use std::fs::File;
use std::io::{self, Read};

/// More than any of these files has: a cgroup's path is at most 4096 bytes, for up to 14
/// hierarchies.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// More than `status`, the longest that is read often, has (about 1.5 KiB).
const FILE_BYTES_USUAL: usize = 4096;

/// The running kernel.
#[derive(Debug)]
pub(crate) struct Kernel;

impl Proc for Kernel {
    fn stat(&self, pid: u32) -> Option<Stat> {
        Stat::parse(&read(pid, "stat")?)
    }

    fn is_gone(&self, pid: u32) -> bool {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        pid.is_none_or(|pid| {
            rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
        })
    }

    fn process(&self, thread: u32) -> Option<u32> {
        let status = read(thread, "status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
        line.trim().parse().ok()
    }

    fn users(&self, pid: u32) -> Option<[u32; 3]> {
        parse_users(&read(pid, "status")?)
    }

    fn program(&self, pid: u32) -> Option<String> {
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let name = path.file_name()?.to_string_lossy();
        // What the kernel adds to the name of a program that was replaced while it runs.
        let name = name.strip_suffix(" (deleted)").unwrap_or(&name);
        Some(printable::name(name).into_owned())
    }

    fn cgroup(&self, pid: u32) -> Option<String> {
        read(pid, "cgroup")
    }

    fn is_own_cgroup(&self, hierarchy: Hierarchy, path: &str) -> bool {
        Mounted::seen().is_own(hierarchy, path, rustix::process::geteuid().as_raw())
    }

    fn cgroup_files(&self, hierarchy: Hierarchy, path: &str) -> io::Result<Option<CgroupFiles>> {
        Mounted::seen().files(hierarchy, path)
    }

    fn ioprio(&self, thread: u32) -> Option<u16> {
        // Zero would be the thread that asks.
        (thread > 0).then(|| ioprio::get(thread).ok()).flatten().map(|IoPriority(set)| set)
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn ticks(&self) -> u64 {
        let per_second = rustix::param::clock_ticks_per_second().clamp(1, 1_000_000_000);
        clock::since_boot().as_nanos() / (1_000_000_000 / per_second)
    }
}

/// Reads them from `/proc/PID/status`: real, effective, saved, and for file systems.
fn parse_users(status: &str) -> Option<[u32; 3]> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some([users.next()?, users.next()?, users.next()?])
}

pub(super) fn read(pid: u32, file: &str) -> Option<String> {
    // Room for all of it, as a rule: a buffer that grows asks for such a file in eight pieces.
    let mut bytes = Vec::with_capacity(FILE_BYTES_USUAL);
    let file = File::open(format!("/proc/{pid}/{file}")).ok()?;
    // A process that ends meanwhile: ESRCH.
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_thread_is_of_its_process() {
        let own = std::process::id();
        let of_thread = std::thread::spawn(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            (thread, Kernel.process(thread), Kernel.stat(thread).map(|stat| stat.start))
        });
        let (thread, process, started) = of_thread.join().expect("looked");
        assert_ne!(thread, own);
        assert_eq!(process, Some(own));
        let stat = Kernel.stat(own).expect("we are here");
        assert!(started.expect("a time") >= stat.start);
        assert!(stat.start <= Kernel.ticks());
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        let program = Kernel.program(own).expect("our own");
        assert!(program.starts_with(&stat.comm) || stat.comm.len() == 15, "{program}");
        assert!(Kernel.cgroup(own).expect("our own").contains(":/"));
    }

    #[test]
    fn who_has_ended_is_nobody() {
        let mut child = Command::new("true").spawn().expect("a child");
        let pid = child.id();
        child.wait().expect("ended");
        assert_eq!((Kernel.stat(pid), Kernel.is_gone(pid)), (None, true));
        assert!(Kernel.is_gone(0) && Kernel.is_gone(u32::MAX));
        let own = std::process::id();
        assert!(!Kernel.is_gone(own) && !Kernel.is_gone(1), "one of our own, and one of root");
        assert_eq!((Kernel.process(pid), Kernel.program(pid)), (None, None));
        assert_eq!((Kernel.cgroup(pid), Kernel.ioprio(pid)), (None, None));
        assert_eq!(Kernel.ioprio(u32::MAX), None);
    }
}
