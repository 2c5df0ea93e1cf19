//! What is looked at of a caller.

use super::class::Class;
use crate::process::{Proc, Process};
use crate::rules::Rules;
use crate::rules::cgroup::Cgroup;

/// The parent of all threads of the kernel.
const KTHREADD: u32 = 2;

/// What was found in `/proc` about a thread and its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// When the thread was started.
    pub(super) thread_start: u64,
    pub(super) process: Process,
    /// The process that it is a child of.
    pub(super) parent: u32,
    /// The name of the process, not of the thread.
    pub(super) comm: String,
    /// The name of its file, if a rule looks at it and it may be seen.
    pub(super) program: Option<String>,
    /// Its cgroup, if a rule looks at it.
    pub(super) cgroup: Option<Cgroup>,
    pub(super) class: Option<Class>,
}

impl Facts {
    /// Looks at a thread; `None` if it is gone.
    pub(super) fn look(proc: &dyn Proc, thread: u32, rules: &Rules) -> Option<Facts> {
        let own = proc.stat(thread)?;
        let pid = proc.process(thread)?;
        let thread_start = own.start;
        let stat = if pid == thread { own } else { proc.stat(pid)? };
        let program = if rules.need_program() { proc.program(pid) } else { None };
        let cgroup = if rules.need_cgroup() { proc.cgroup(pid) } else { None };
        let facts = Facts {
            thread_start,
            process: Process { pid, start: stat.start },
            parent: stat.parent,
            comm: stat.comm,
            program,
            cgroup: cgroup.map(|text| Cgroup::look(&text, proc)),
            class: proc.ioprio(thread).and_then(Class::of),
        };
        // The number may have gone to another one while this was read.
        (proc.stat(thread)?.start == thread_start).then_some(facts)
    }

    /// Whether it is a thread of the kernel: a child of `kthreadd`, which is always number 2.
    pub(super) fn is_kernel(&self) -> bool {
        self.parent == KTHREADD
    }

    /// Whether this is of the same process with the same of everything that decides who pays. Its
    /// parent may have ended meanwhile.
    pub(super) fn as_before(&self, before: &Facts) -> bool {
        *self == Facts { parent: self.parent, ..before.clone() }
    }
}
