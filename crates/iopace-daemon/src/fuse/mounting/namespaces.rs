//! Mount namespaces of other processes: a mount that is not seen here may be mounted there.

use crate::fuse::record::Record;
use crate::mount_table::{self, Entry};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Mount namespaces in which a mount is looked for: a container or a service has one, and each
/// takes some 100 µs.
const NAMESPACES_MAX: usize = 256;

/// The mount of a record, with this connection, as a process sees it; none if that one cannot be
/// looked at.
pub fn seen_by(pid: u32, connection: u32, record: &Record) -> Option<Entry> {
    let table = mount_table::read_of(Path::new(&format!("/proc/{pid}"))).ok()?;
    table.into_iter().rev().find(|entry| record.is_of(connection, entry))
}

/// A process that sees the mount of a record, with this connection, in another mount namespace than
/// ours, as far as those of all processes can be looked at.
pub fn seen_elsewhere(connection: u32, record: &Record) -> Option<u32> {
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let mut known: BTreeSet<PathBuf> = namespace(Path::new("/proc/self")).into_iter().collect();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_new = |pid: &u32| {
        let found = namespace(Path::new(&format!("/proc/{pid}")));
        found.is_some_and(|found| known.insert(found))
    };
    let mut first = processes.filter(is_new).take(NAMESPACES_MAX);
    first.find(|pid| seen_by(*pid, connection, record).is_some())
}
