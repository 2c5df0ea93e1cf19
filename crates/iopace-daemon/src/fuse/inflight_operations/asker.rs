//! The callers that wait for an answer.

use crate::clock;
use iopace_core::time::Nanos;

/// The thread that waits for an answer, and since when: its number may be another one's later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) pid: u32,
    /// Since the machine was started.
    pub(crate) since: Nanos,
}

impl Asker {
    /// It asks now.
    pub(crate) fn now(pid: u32) -> Asker {
        Asker { pid, since: clock::since_boot() }
    }
}
