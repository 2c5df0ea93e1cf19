//! Records of exports that are block devices of the kernel: a file for each in the runtime
//! directory, locked by its daemon.

use crate::insertion::{Inserted, Way};
use crate::runtime_files::{Kept, trusted};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The word of a daemon on an export that it has attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The block device: a loop device, or that of `ublk`.
    pub loop_device: PathBuf,
    /// The file in the mount that is behind it; of a ublk device, where its daemon serves it.
    pub image: PathBuf,
    /// Where the exports are mounted; nothing of a ublk device.
    pub mountpoint: PathBuf,
    /// What the user named: an image file or block device; `None` for a disk in memory.
    pub source: Option<PathBuf>,
    /// The name of the device in the daemon.
    pub device: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// The daemon's process.
    pub pid: u32,
    /// When that was started, see [`started_ticks`]. Older daemons do not say it.
    #[serde(default)]
    pub started_ticks: Option<u64>,
    /// The daemon's control socket.
    pub control: Option<PathBuf>,
    /// The daemon's log, if it goes to a file.
    pub log: Option<PathBuf>,
    /// More of a ublk device; a loop device has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ublk: Option<UblkFacts>,
    /// The volume that the device is inserted into, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inserted: Option<Inserted>,
}

/// The part of a ublk device that another daemon must know to go on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UblkFacts {
    /// Its number, as in `/dev/ublkb0`.
    pub id: u32,
    /// Told to the kernel when the device is made, at random: a device of this number with another
    /// mark is somebody else's.
    pub mark: u64,
    /// Smallest request in bytes.
    pub block_bytes: u32,
    /// The file behind it, see [`file_of`]; none of a disk in memory.
    #[serde(default)]
    pub file: Option<(u64, u64)>,
}

/// The identity of a file: its device and inode; of a block device its number, and 0. It stays when
/// the file gets another name, and is another one when another file gets its name.
pub fn file_of(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    let is_block = found.file_type().is_block_device();
    Some(if is_block { (found.rdev(), 0) } else { (found.dev(), found.ino()) })
}

impl Record {
    /// The number of the block device (`st_rdev`), if it is there.
    pub fn number(&self) -> Option<u64> {
        let found = fs::metadata(&self.loop_device).ok()?;
        found.file_type().is_block_device().then(|| found.rdev())
    }

    /// Where requests for the volume go that it is inserted into.
    pub fn way(&self) -> Option<Way> {
        self.inserted.as_ref().map(Inserted::way)
    }

    /// Keeps it in `runtime` as long as what is given back is there.
    pub(crate) fn keep(&self, runtime: &Path) -> io::Result<Kept> {
        let name = self.loop_device.file_name().unwrap_or_default().to_string_lossy();
        // A number of a process is given again, in a container soon: the time of its start tells
        // them apart, so that no record is replaced that is needed still.
        let (pid, started) = (self.pid, self.started_ticks.unwrap_or(0));
        Kept::write_as(runtime, &format!("attach-{name}-{pid}-{started}.json"), self)
    }
}

/// A record, and whether its daemon lives.
#[derive(Debug)]
pub struct Seen {
    /// What the daemon said.
    pub record: Record,
    path: PathBuf,
    file: File,
}

impl Seen {
    /// Whether the daemon lives and has not let go of it.
    pub fn is_held(&self) -> bool {
        match flock(&self.file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(&self.file, FlockOperation::Unlock);
                false
            }
            Err(_) => true,
        }
    }

    /// The daemon's process, also when it has let go of this and ends; `None` if it is gone.
    pub fn process(&self) -> Option<OwnedFd> {
        let Record { pid, started_ticks: started, .. } = self.record;
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let process = pidfd_open(number, PidfdFlags::empty()).ok()?;
        // If the daemon has the number now, it had it when that was opened.
        let is_daemon = match started {
            Some(_) => started_ticks(pid) == started,
            None => self.is_held(),
        };
        is_daemon.then_some(process)
    }

    /// Whether the record is still there: a daemon that ends in order removes it.
    pub fn is_left(&self) -> bool {
        self.path.exists()
    }

    /// The directory that it was found in.
    pub fn runtime(&self) -> Option<&Path> {
        self.path.parent()
    }

    /// Takes the lock of a daemon that is gone, for as long as this is there. False if it lives, or
    /// another process has taken it.
    pub fn try_hold(&self) -> bool {
        flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Removes what a daemon that is gone has left: this, and its control socket, if nobody else
    /// listens there by now.
    pub fn remove(&self) {
        let Record { control, .. } = &self.record;
        if let Some(control) = control.as_ref().filter(|path| UnixStream::connect(path).is_err()) {
            let _ = fs::remove_file(control);
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// When a process was started, in clock ticks since the system was (field 22 of `/proc/PID/stat`,
/// see `proc_pid_stat(5)`): that and the number are one process's alone.
pub fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // There may be anything in the name, field 2.
    stat.rsplit_once(')')?.1.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// All records in `runtime`, by the name of the loop device.
pub fn all(runtime: &Path) -> Vec<Seen> {
    let Some(directory) = trusted(runtime) else { return Vec::new() };
    let read = |name: OsString| -> Option<Seen> {
        name.to_str()?.strip_prefix("attach-")?.strip_suffix(".json")?;
        let (file, record) = directory.record(&name)?;
        // Nobody else has a word in what is detached.
        let is_own = file.metadata().ok()?.uid() == rustix::process::geteuid().as_raw();
        is_own.then_some(Seen { record, path: runtime.join(name), file })
    };
    let mut all: Vec<Seen> = directory.names().into_iter().filter_map(read).collect();
    all.sort_by(|a, b| a.record.loop_device.cmp(&b.record.loop_device));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_seen_until_it_is_dropped() {
        let runtime = tempfile::tempdir().expect("a directory");
        let record = Record {
            loop_device: "/dev/loop7".into(),
            image: "/run/iopace/attach-3/disk".into(),
            mountpoint: "/run/iopace/attach-3".into(),
            source: Some("/srv/disk.img".into()),
            device: "disk".into(),
            size_bytes: 1 << 20,
            read_only: false,
            pid: 3,
            started_ticks: None,
            control: None,
            log: None,
            ublk: None,
            inserted: None,
        };
        assert!(all(runtime.path()).is_empty());
        fs::write(runtime.path().join("attach-x.json"), "{").expect("written");
        let kept = record.keep(runtime.path()).expect("written");
        let seen = all(runtime.path());
        assert_eq!(seen.len(), 1, "what cannot be read is left out");
        assert_eq!(seen[0].record, record);
        assert!(seen[0].is_held() && seen[0].is_held(), "asking changes nothing");
        drop(kept);
        assert!(!seen[0].is_held() && all(runtime.path()).is_empty());
        // A killed daemon leaves the file, without its lock.
        let left = serde_json::to_string(&record).expect("text");
        fs::write(runtime.path().join("attach-loop7-3.json"), left).expect("written");
        let seen = all(runtime.path());
        assert!(!seen[0].is_held());
        seen[0].remove();
        assert!(all(runtime.path()).is_empty());
    }
}
