//! Processes that tests make up.

use super::{CgroupFiles, Hierarchy, Proc, Stat};
use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A thread or process that is made up.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) process: u32,
    pub(crate) parent: u32,
    pub(crate) start: u64,
    pub(crate) comm: String,
    pub(crate) program: Option<String>,
    pub(crate) cgroup: String,
    pub(crate) ioprio: u16,
    pub(crate) users: [u32; 3],
    /// Whether its files can be opened.
    pub(crate) is_readable: bool,
}

/// Made-up processes, and a clock that stands until it is moved.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    all: Mutex<BTreeMap<u32, Made>>,
    now: AtomicU64,
    /// Cgroups in which a user makes others.
    delegated: Mutex<Vec<String>>,
    /// The files of cgroups, by path; `None` cannot be read.
    cgroups: Mutex<BTreeMap<String, Option<CgroupFiles>>>,
    /// How often the files of a cgroup were read.
    pub(crate) cgroup_looks: AtomicU64,
    /// How often a `stat` was read.
    pub(crate) looks: AtomicU64,
}

/// Clock ticks are 10 ms.
const TICK_NS: u64 = 10_000_000;

impl Fake {
    /// A process begins now, in cgroup `/`.
    pub(crate) fn start(&self, pid: u32, comm: &str) {
        let made = Made {
            process: pid,
            parent: 1,
            start: self.ticks(),
            comm: comm.into(),
            program: Some(comm.into()),
            cgroup: "0::/\n".into(),
            ioprio: 0,
            users: [0; 3],
            is_readable: true,
        };
        self.all.lock().expect("whole").insert(pid, made);
    }

    /// One that is there is changed.
    pub(crate) fn set(&self, pid: u32, change: impl FnOnce(&mut Made)) {
        change(self.all.lock().expect("whole").get_mut(&pid).expect("there"));
    }

    pub(crate) fn end(&self, pid: u32) {
        self.all.lock().expect("whole").remove(&pid);
    }

    pub(crate) fn pass(&self, time: Nanos) {
        self.now.fetch_add(time.as_nanos(), Relaxed);
    }

    /// A cgroup, with all below it, is handed over to a user.
    pub(crate) fn delegate(&self, path: &str) {
        self.delegated.lock().expect("whole").push(path.into());
    }

    /// The files of a cgroup are these from now on; `None`: they cannot be read.
    pub(crate) fn set_cgroup(&self, path: &str, files: Option<&[(&'static str, &str)]>) {
        let owned = |files: &[(&'static str, &str)]| {
            files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect()
        };
        self.cgroups.lock().expect("whole").insert(path.into(), files.map(owned));
    }

    /// A cgroup ends.
    pub(crate) fn end_cgroup(&self, path: &str) {
        self.cgroups.lock().expect("whole").remove(path);
    }

    fn get<T>(&self, pid: u32, what: impl FnOnce(&Made) -> T) -> Option<T> {
        self.all.lock().expect("whole").get(&pid).map(what)
    }
}

impl Proc for Fake {
    fn stat(&self, pid: u32) -> Option<Stat> {
        self.looks.fetch_add(1, Relaxed);
        let stat =
            |made: &Made| Stat { comm: made.comm.clone(), parent: made.parent, start: made.start };
        self.get(pid, |made| made.is_readable.then(|| stat(made)))?
    }

    fn is_gone(&self, pid: u32) -> bool {
        !self.all.lock().expect("whole").contains_key(&pid)
    }

    fn process(&self, thread: u32) -> Option<u32> {
        self.get(thread, |made| made.process)
    }

    fn users(&self, pid: u32) -> Option<[u32; 3]> {
        self.get(pid, |made| made.users)
    }

    fn program(&self, pid: u32) -> Option<String> {
        self.get(pid, |made| made.program.clone())?
    }

    fn cgroup(&self, pid: u32) -> Option<String> {
        self.get(pid, |made| made.cgroup.clone())
    }

    fn is_own_cgroup(&self, _hierarchy: Hierarchy, path: &str) -> bool {
        self.delegated.lock().expect("whole").iter().all(|one| path != one)
    }

    fn cgroup_files(&self, _hierarchy: Hierarchy, path: &str) -> io::Result<Option<CgroupFiles>> {
        self.cgroup_looks.fetch_add(1, Relaxed);
        match self.cgroups.lock().expect("whole").get(path) {
            None => Ok(None),
            Some(None) => Err(io::ErrorKind::Other.into()),
            Some(files) => Ok(files.clone()),
        }
    }

    fn ioprio(&self, thread: u32) -> Option<u16> {
        self.get(thread, |made| made.ioprio)
    }

    fn now(&self) -> Instant {
        Instant(self.now.load(Relaxed))
    }

    fn ticks(&self) -> u64 {
        self.now.load(Relaxed) / TICK_NS
    }
}
