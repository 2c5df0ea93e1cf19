//! How far the programs are that run under `iopace nice`, for `iopace top`.
//!
//! Each has a file in the directory of our sockets, locked for as long as iopace drives it: one
//! without a lock is left behind by an iopace that was killed, and tells nothing.

use crate::paths::{SocketDir, runtime_dir, runtime_dirs};
use iopace_daemon::printable;
use iopace_daemon::runtime_files::{RuntimeDir, trusted};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What a file is called: this, a process number and an ending.
const NAME: (&str, &str) = ("nice-", ".json");

/// Most programs that are told of.
const TOLD_MAX: usize = 8;

/// What is in a file.
#[derive(Debug, Serialize, Deserialize)]
struct ProgressRecord {
    /// As on the terminal of `iopace nice`.
    line: String,
}

/// The file of a program. It goes with this.
pub(super) struct NiceProgress {
    /// Of no use where the directory is kept by others.
    _kept: SocketDir,
    dir: RuntimeDir,
    name: OsString,
    file: File,
    said: String,
}

impl NiceProgress {
    /// That of the program which the iopace of this number drives; `None` where no file can be
    /// made, as then nobody is told.
    pub(super) fn of(pid: u32) -> Option<NiceProgress> {
        let place = runtime_dir();
        let kept = SocketDir::open(&place).ok()?;
        let dir = RuntimeDir::open(&place).ok()?;
        let name = OsString::from(format!("{}{pid}{}", NAME.0, NAME.1));
        let file = dir.create(&name).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(NiceProgress { _kept: kept, dir, name, file, said: String::new() })
    }

    /// Tells how far it is.
    pub(super) fn tell(&mut self, line: &str) {
        if self.said != line && self.write(line).is_ok() {
            line.clone_into(&mut self.said);
        }
    }

    fn write(&self, line: &str) -> io::Result<()> {
        let text =
            serde_json::to_vec(&ProgressRecord { line: line.into() }).map_err(io::Error::other)?;
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }
}

impl Drop for NiceProgress {
    fn drop(&mut self) {
        self.dir.remove(&self.name);
    }
}

/// How far each is that runs here, by name.
pub fn all() -> Vec<String> {
    let mut lines = Vec::new();
    for dir in runtime_dirs(None).iter().filter_map(|place| trusted(place)) {
        for name in dir.names() {
            let shown = name.to_string_lossy();
            if !shown.starts_with(NAME.0) || !shown.ends_with(NAME.1) {
                continue;
            }
            let Some((file, ProgressRecord { line })) = dir.record::<ProgressRecord>(&name) else {
                continue;
            };
            if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
                lines.push(printable::name(&line).into_owned());
            }
        }
    }
    lines.sort();
    lines.dedup();
    lines.truncate(TOLD_MAX);
    lines
}
