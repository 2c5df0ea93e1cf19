//! Records that daemons keep for as long as what they say is true.

use super::{Distrust, RuntimeDir};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

/// A record that is kept; dropping it removes the file, unless another one has its name by now.
#[derive(Debug)]
pub(crate) struct Kept {
    runtime: RuntimeDir,
    name: OsString,
    lock: File,
}

impl Kept {
    /// Writes a record of that name into `runtime`.
    pub(crate) fn write_as(
        runtime: &Path,
        name: &str,
        record: &impl Serialize,
    ) -> io::Result<Kept> {
        let runtime = RuntimeDir::open(runtime).map_err(Distrust::into_io)?;
        // In the place of the file that a killed daemon left: numbers are given again.
        let file = runtime.create(name.as_ref())?;
        let kept = Kept { runtime, name: name.into(), lock: file };
        flock(&kept.lock, FlockOperation::NonBlockingLockExclusive)?;
        serde_json::to_writer(&kept.lock, record)?;
        Ok(kept)
    }

    /// The file stays: another daemon goes on with what it says.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.runtime.remove_own(&self.name, &self.lock);
    }
}
