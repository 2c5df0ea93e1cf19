//! A process that stays in memory: one by which the pages of others are written must never wait
//! for a page of its own that is on the same disk.

use rustix::mm::{MlockAllFlags, mlockall};
use std::fs;
use std::io;

/// Takes the process from what the kernel ends when memory is short (proc_pid_oom_score_adj(5)).
const NEVER: &str = "-1000";

/// Has all that the process is made of read into memory and kept there, also what comes later once
/// it is touched. The kernel ends others first when memory is short.
///
/// # Errors
/// The limit of locked memory is too small (`ulimit -l`), without CAP_IPC_LOCK.
pub fn stay_in_memory() -> io::Result<()> {
    // Pages that are mapped now are read now; later ones, as stacks of threads, when touched.
    mlockall(MlockAllFlags::CURRENT)?;
    mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    if let Err(error) = fs::write("/proc/self/oom_score_adj", NEVER) {
        tracing::debug!(%error, "the kernel may end this process when memory is short");
    }
    Ok(())
}
