//! Whether a mount answers, asked so that nobody waits for one that does not.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How a mount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It answers, if only that we may not look.
    Alive,
    /// Its daemon was killed: "Transport endpoint is not connected".
    Dead,
    /// It has not answered in time.
    Silent,
}

/// Asks the mount at `mountpoint` for the attributes of its root, for at most `patience`. A thread
/// that gets no answer stays behind; it uses nothing but its stack.
pub fn probe(mountpoint: &Path, patience: Duration) -> Answer {
    let (sender, receiver) = mpsc::sync_channel(1);
    let path: PathBuf = mountpoint.to_owned();
    let asked = thread::Builder::new().name("probe".into()).spawn(move || {
        // What the kernel remembers of a dead mount would be as good as an answer.
        let asked = statx(CWD, &path, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
        let _ = sender.send(asked.map(|_| ()));
    });
    match (asked, receiver.recv_timeout(patience)) {
        (Ok(_), Ok(Err(Errno::NOTCONN | Errno::CONNABORTED))) => Answer::Dead,
        (Ok(_), Ok(_)) => Answer::Alive,
        _ => Answer::Silent,
    }
}
