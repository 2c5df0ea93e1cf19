//! What cgroups had before they were held back, for whoever comes after an iopace that was killed.
//!
//! As of `nice`, each has a file in the directory of our sockets, locked for as long as iopace
//! holds the cgroup.

use crate::cgroup_limits::FormerLimits;
use crate::output::Failure;
use crate::paths::{SocketDir, runtime_dir};
use iopace_daemon::printable;
use iopace_daemon::runtime_files::{RuntimeDir, trusted};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a file is called: this, a process number, a number and an ending.
const NAME: (&str, &str) = ("govern-", ".json");

/// What is in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    /// The cgroup, below the root.
    cgroup: PathBuf,
    /// What it had.
    former: FormerLimits,
}

/// The file of a cgroup. It goes with this.
pub(super) struct GovernRecord {
    /// Of no use where the directory is kept by others.
    _kept: SocketDir,
    dir: RuntimeDir,
    name: OsString,
    _file: File,
}

impl GovernRecord {
    /// `None` where no file can be made: then a killed iopace leaves the cgroup held back.
    pub(super) fn make(cgroup: &Path, former: &FormerLimits) -> Option<GovernRecord> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let place = runtime_dir();
        let kept = SocketDir::open(&place).ok()?;
        let dir = RuntimeDir::open(&place).ok()?;
        let (pid, number) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
        let name = OsString::from(format!("{}{pid}-{number}{}", NAME.0, NAME.1));
        let mut file = dir.create(&name).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let held = Held { cgroup: cgroup.to_owned(), former: former.clone() };
        file.write_all(&serde_json::to_vec(&held).ok()?).ok()?;
        Some(GovernRecord { _kept: kept, dir, name, _file: file })
    }
}

impl Drop for GovernRecord {
    fn drop(&mut self) {
        self.dir.remove(&self.name);
    }
}

/// What a cgroup had before an iopace that was killed held it back; its file is removed.
///
/// # Errors
/// Another iopace holds it.
pub(super) fn left_behind(cgroup: &Path) -> Result<Option<FormerLimits>, Failure> {
    let Some(dir) = trusted(&runtime_dir()) else { return Ok(None) };
    for name in dir.names() {
        let shown = name.to_string_lossy();
        if !shown.starts_with(NAME.0) || !shown.ends_with(NAME.1) {
            continue;
        }
        let Some((file, held)) = dir.record::<Held>(&name) else { continue };
        if held.cgroup != cgroup {
            continue;
        }
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let pid = shown[NAME.0.len()..].split('-').next().unwrap_or_default();
            return Err(Failure::new(format!(
                "/{}: another 'iopace govern' (pid {pid}) holds it back already: end that one",
                printable::name(&cgroup.display().to_string())
            )));
        }
        dir.remove(&name);
        return Ok(Some(held.former));
    }
    Ok(None)
}
