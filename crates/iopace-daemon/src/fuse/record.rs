//! What is known of a running mount: a file in the runtime directory, locked by its daemon.
//!
//! The lock says that the daemon lives, whatever becomes of process numbers. The file is removed
//! when all that was written through the mount is durable. Only records that root or we ourselves
//! have put there are believed, see [`runtime_files`](crate::runtime_files).

use crate::mount_table::{Entry, source_of};
use crate::runtime_files::{Kept, trusted};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a daemon says of a mount of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The directory.
    pub directory: PathBuf,
    /// The name of its device.
    pub device: String,
    /// The daemon's process.
    pub pid: u32,
    /// The daemon's control socket.
    pub control: Option<PathBuf>,
    /// The daemon's log, if it goes to a file.
    pub log: Option<PathBuf>,
}

impl Record {
    /// Whether an entry of a table of mounts is this mount, which had that connection number. The
    /// number alone does not say so: the kernel gives it to the next mount as soon as nobody uses
    /// this one, and a daemon has its own in hand for longer. So long no other mount is of its
    /// directory.
    pub fn is_of(&self, connection: u32, entry: &Entry) -> bool {
        entry.is_ours()
            && entry.connection() == connection
            && entry.source == Path::new(&source_of(&self.directory))
    }
}

/// Writes the record of the mount with that connection number into `runtime`.
pub(crate) fn keep(runtime: &Path, connection: u32, record: &Record) -> io::Result<Kept> {
    Kept::write_as(runtime, &name(connection), record)
}

fn name(connection: u32) -> String {
    format!("mount-{connection}.json")
}

/// The record of a mount, and whether its daemon lives.
#[derive(Debug)]
pub struct Seen {
    /// What the daemon said.
    pub record: Record,
    file: File,
}

impl Seen {
    /// The user whose daemon has written it.
    pub fn owner(&self) -> Option<u32> {
        self.file.metadata().ok().map(|found| found.uid())
    }

    /// Whether the daemon has the mount still in hand: it serves it, or makes durable what was
    /// written.
    pub fn is_held(&self) -> bool {
        match flock(&self.file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                let _ = flock(&self.file, FlockOperation::Unlock);
                false
            }
            Err(_) => true,
        }
    }
}

/// The record of a mount, in the first of `runtimes` that has one.
pub fn find(runtimes: &[PathBuf], entry: &Entry) -> Option<Seen> {
    let read = |runtime: &PathBuf| -> Option<Seen> {
        let name = name(entry.connection());
        let (file, record) = trusted(runtime)?.record::<Record>(name.as_ref())?;
        // Nobody else has a word in what we believe of his mount.
        let owner = file.metadata().ok()?.uid();
        let is_right = entry.uid().is_none_or(|uid| uid == owner || owner == 0);
        (is_right && record.mountpoint == entry.mountpoint).then_some(Seen { record, file })
    };
    runtimes.iter().find_map(read)
}

/// The records of daemons that live, each with the number of its connection, wherever their mounts
/// are seen or not.
pub fn held(runtimes: &[PathBuf]) -> Vec<(u32, Seen)> {
    let mut all: Vec<(u32, Seen)> = Vec::new();
    for (connection, seen) in runtimes.iter().flat_map(|runtime| every(runtime)) {
        if seen.is_held() && all.iter().all(|(known, _)| *known != connection) {
            all.push((connection, seen));
        }
    }
    all
}

/// Removes what a killed daemon has left of the record of a mount.
pub(crate) fn remove_left(runtime: &Path, mountpoint: &Path) {
    for (connection, seen) in every(runtime) {
        if seen.record.mountpoint == mountpoint
            && !seen.is_held()
            && let Some(runtime) = trusted(runtime)
        {
            runtime.remove(name(connection).as_ref());
        }
    }
}

/// All records there, with the numbers of their connections.
fn every(runtime: &Path) -> Vec<(u32, Seen)> {
    let Some(runtime) = trusted(runtime) else { return Vec::new() };
    let read = |name: &OsString| -> Option<(u32, Seen)> {
        let number = name.to_str()?.strip_prefix("mount-")?.strip_suffix(".json")?;
        let number = number.parse().ok()?;
        let (file, record) = runtime.record(OsStr::new(name))?;
        Some((number, Seen { record, file }))
    };
    runtime.names().iter().filter_map(read).collect()
}

/// How many records in there are believed.
#[cfg(test)]
pub(crate) fn found_count(runtime: &Path) -> usize {
    every(runtime).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_found_while_it_is_kept() {
        let runtime = tempfile::tempdir().expect("a directory");
        let record = Record {
            mountpoint: "/mnt".into(),
            directory: "/srv".into(),
            device: "srv".into(),
            pid: 7,
            control: None,
            log: Some("/run/iopace/srv.log".into()),
        };
        let entry = Entry {
            id: 40,
            parent: 27,
            root: "/".into(),
            device: (0, 52),
            mountpoint: "/mnt".into(),
            fs_type: "fuse.iopace".into(),
            source: "/srv".into(),
            options: format!("rw,user_id={}", rustix::process::geteuid().as_raw()),
        };
        let places = ["/no/such".into(), runtime.path().to_owned()];
        assert!(find(&places, &entry).is_none());
        let kept = keep(runtime.path(), 52, &record).expect("written");
        let seen = find(&places, &entry).expect("found");
        assert_eq!(seen.record, record);
        assert!(seen.is_held() && seen.is_held(), "asking changes nothing");
        assert_eq!(held(&places).first().map(|(number, _)| *number), Some(52));
        let elsewhere = Entry { mountpoint: "/else".into(), ..entry.clone() };
        assert!(find(&places, &elsewhere).is_none());
        assert!(record.is_of(52, &entry) && record.is_of(52, &elsewhere));
        let next = Entry { source: "/other".into(), ..entry.clone() };
        assert!(!record.is_of(52, &next) && !record.is_of(53, &entry));
        let again = keep(runtime.path(), 52, &record).expect("in the place of an old one");
        drop(kept);
        assert!(!seen.is_held());
        assert!(find(&places, &entry).expect("the new one's stays").is_held());
        drop(again);
        assert!(find(&places, &entry).is_none());
    }
}
