//! The files at and below a directory, told from all others by the mount that they were opened
//! through and their path: whoever has one of them open is found, also by a bind mount, from
//! another mount namespace, or under a mount that has come to lie over the directory since.

use super::busy::{Scope, Use, User};
use super::look::Looked;
use super::users;
use crate::mount_table::{self, Entry};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, readlinkat, statx};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A directory and all below it.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// Its path in our mount namespace.
    path: PathBuf,
    /// The number of the mount that it is on.
    own: u64,
    /// The device of its file system.
    device: (u32, u32),
    /// Its path in that file system.
    inner: PathBuf,
    /// Mounts of that file system in any namespace, by number.
    mounts: HashMap<u64, Entry>,
    /// Mounts that lie below the directory: all that is opened through them is below.
    below: HashMap<u64, Entry>,
    /// Mount namespaces whose tables were read for this look.
    namespaces: HashSet<PathBuf>,
    /// The process whose namespace was asked for last.
    asked: PathBuf,
}

impl Region {
    /// That of an open directory.
    ///
    /// # Errors
    /// The table of mounts cannot be read, or has no mount for it.
    pub(crate) fn of(directory: impl AsFd) -> io::Result<Region> {
        let directory = directory.as_fd();
        let path = path_of(directory)?;
        let own = mount_of(directory)?;
        let table = mount_table::read()?;
        let entry = table.iter().find(|entry| entry.id == own).ok_or_else(unknown)?;
        Region::below(&table, entry, &path)
    }

    /// That of a directory on a mount of this table, also where another mount lies over it.
    ///
    /// # Errors
    /// The directory is not on that mount.
    pub(crate) fn below(table: &[Entry], entry: &Entry, path: &Path) -> io::Result<Region> {
        let inner = inner(entry, path).ok_or_else(unknown)?;
        let is_below =
            |entry: &&Entry| entry.mountpoint.starts_with(path) && entry.mountpoint != path;
        let below = table.iter().filter(is_below).map(|entry| (entry.id, entry.clone())).collect();
        let mut region = Region {
            path: path.to_owned(),
            own: entry.id,
            device: entry.device,
            inner,
            mounts: HashMap::new(),
            below,
            namespaces: HashSet::new(),
            asked: PathBuf::new(),
        };
        region.learn(table.to_vec());
        Ok(region)
    }

    fn learn(&mut self, table: Vec<Entry>) {
        let same = table.into_iter().filter(|entry| entry.device == self.device);
        self.mounts.extend(same.map(|entry| (entry.id, entry)));
    }

    /// Everybody who uses something of it, but this process, the command that started it, and
    /// daemons of ours that have it open only, as one whose mount has ended has for a moment. Ends
    /// in time, and says who was not looked at.
    pub(crate) fn users(&mut self, patience: Duration) -> Looked {
        self.namespaces = fs::read_link("/proc/self/ns/mnt").into_iter().collect();
        self.asked.clear();
        self.learn(mount_table::read().unwrap_or_default());
        let mut looked = users::all(self.clone(), patience);
        let front = front();
        looked.users.retain(|user| Some(user.pid) != front);
        looked
    }

    /// Where else the same files are seen, past a mount over the directory or elsewhere.
    pub(crate) fn elsewhere(&self) -> Vec<PathBuf> {
        let table = mount_table::read().unwrap_or_default();
        let others = table.iter().filter(|entry| entry.device == self.device);
        let others = others.filter(|entry| entry.id != self.own);
        let seen = others.filter_map(|entry| match self.inner.strip_prefix(&entry.root) {
            Ok(rest) if rest.as_os_str().is_empty() => Some(entry.mountpoint.clone()),
            Ok(rest) => Some(entry.mountpoint.join(rest)),
            Err(_) => entry.root.starts_with(&self.inner).then(|| entry.mountpoint.clone()),
        });
        let mut all: Vec<PathBuf> = seen.filter(|path| !path.starts_with(&self.path)).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Reads the table of the process, once for each mount namespace and look.
    fn learn_of(&mut self, process: &Path) {
        if self.asked == process {
            return;
        }
        process.clone_into(&mut self.asked);
        let Ok(namespace) = fs::read_link(process.join("ns/mnt")) else { return };
        if self.namespaces.insert(namespace) {
            self.learn(mount_table::read_of(process).unwrap_or_default());
        }
    }

    /// Whether the path, as the kernel shows it, lies in the directory by that mount.
    fn covers(&self, entry: &Entry, path: &Path) -> bool {
        match inner(entry, path) {
            Some(full) => full.starts_with(&self.inner),
            // Seen from outside a changed root: the mount alone tells.
            None => entry.root.starts_with(&self.inner),
        }
    }
}

impl Scope for Region {
    fn counts(&self, user: &User) -> bool {
        let only_open = BTreeSet::from([Use::OpenFile]);
        user.uses != only_open || !is_ours(user.pid)
    }

    fn has_file(&mut self, process: &Path, link: &Path) -> bool {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let Ok(found) = statx(CWD, link, flags, StatxFlags::TYPE | StatxFlags::MNT_ID) else {
            return false;
        };
        // Devices, pipes and sockets are not served by a mount: what is done with them passes it.
        let kind = FileType::from_raw_mode(found.stx_mode.into());
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return false;
        }
        let id = match StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID) {
            true => found.stx_mnt_id,
            false => return self.has_path(process, link),
        };
        if self.below.contains_key(&id) {
            return true;
        }
        if !self.mounts.contains_key(&id) {
            self.learn_of(process);
        }
        let Some(entry) = self.mounts.get(&id) else { return false };
        fs::read_link(link).is_ok_and(|path| self.covers(entry, &path))
    }

    fn has_mapping(&mut self, process: &Path, device: (u32, u32), path: &[u8]) -> bool {
        let path = mount_table::unescape(path);
        if device != self.device {
            let mut below = self.below.values();
            return below
                .any(|entry| entry.device == device && path.starts_with(&entry.mountpoint));
        }
        self.learn_of(process);
        let above = self.mounts.values().filter(|entry| path.starts_with(&entry.mountpoint));
        let nearest = above.max_by_key(|entry| entry.mountpoint.components().count());
        nearest.is_some_and(|entry| self.covers(entry, &path))
    }
}

impl Region {
    /// The same where the kernel does not tell the mount of a file (before Linux 5.8).
    fn has_path(&mut self, process: &Path, link: &Path) -> bool {
        self.learn_of(process);
        fs::read_link(link).is_ok_and(|path| path.starts_with(&self.path))
    }
}

fn unknown() -> io::Error {
    io::Error::other("its mount is not in /proc/self/mountinfo")
}

/// The path of an open file as it is now.
pub(crate) fn path_of(file: impl AsFd) -> io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let path = readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(path.as_bytes())))
}

/// The number of the mount that an open file is on, see proc_pid_fdinfo(5).
pub(crate) fn mount_of(file: impl AsFd) -> io::Result<u64> {
    let info = format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd());
    let info = fs::read_to_string(info)?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel does not tell the mount of a descriptor"))
}

/// The path in the file system of a path that is seen by a mount of it.
fn inner(entry: &Entry, path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(&entry.mountpoint).ok()?;
    let rest = rest.as_os_str();
    let full = if rest.is_empty() { entry.root.clone() } else { entry.root.join(rest) };
    let bytes = full.into_os_string().into_vec();
    let plain = bytes.strip_suffix(b" (deleted)").unwrap_or(&bytes);
    Some(PathBuf::from(OsStr::from_bytes(plain)))
}

/// The command that has started this process as its daemon, and waits for it.
fn front() -> Option<u32> {
    let parent = u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()?;
    is_ours(parent).then_some(parent)
}

/// Whether a process runs the same program as this one.
fn is_ours(pid: u32) -> bool {
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    program("self").is_some_and(|own| program(&pid.to_string()) == Some(own))
}

/// Whether a process is one that has started this one, or those before it.
pub fn is_ancestor(pid: u32) -> bool {
    let mut at = std::process::id();
    // As deep as sessions within sessions come to be.
    for _ in 0..64 {
        let stat = fs::read_to_string(format!("/proc/{at}/stat")).unwrap_or_default();
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let Some(parent) = rest.split_whitespace().nth(1).and_then(|text| text.parse().ok()) else {
            return false;
        };
        if parent == pid {
            return true;
        }
        at = parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::{Command, Stdio};

    fn entry(mountpoint: &str, root: &str) -> Entry {
        Entry {
            id: 7,
            parent: 1,
            device: (8, 1),
            root: root.into(),
            mountpoint: mountpoint.into(),
            fs_type: "ext4".into(),
            source: "/dev/sda1".into(),
            options: "rw".into(),
        }
    }

    #[test]
    fn a_path_in_the_file_system_is_told_by_the_mount() {
        let by = |mountpoint, root, path: &str| inner(&entry(mountpoint, root), Path::new(path));
        assert_eq!(by("/", "/", "/srv/a"), Some("/srv/a".into()));
        assert_eq!(by("/mnt", "/srv/a", "/mnt/b"), Some("/srv/a/b".into()));
        assert_eq!(by("/mnt", "/srv/a", "/mnt"), Some("/srv/a".into()));
        assert_eq!(by("/", "/", "/srv/a (deleted)"), Some("/srv/a".into()));
        assert_eq!(by("/mnt", "/", "/srv"), None);
    }

    #[test]
    fn users_below_are_found_and_others_are_not() {
        let folder = tempfile::tempdir().expect("a directory");
        let (inside, beside) = (folder.path().join("in"), folder.path().join("in2"));
        for path in [&inside, &beside] {
            fs::create_dir(path).expect("made");
            fs::write(path.join("file"), "content").expect("written");
        }
        let start = |at: &Path, files: &str| {
            let script = format!("{files}; echo; exec sleep 600");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(at).stdin(Stdio::null());
            let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
            let mut line = [0];
            io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut line).expect("read");
            child
        };
        let remove = format!("exec 9<>{0}/file; rm {0}/file", inside.display());
        let mut children = [
            start(&inside, "exec 9<file"),
            start(Path::new("/"), &remove),
            start(&beside, "exec 9<>file"),
        ];
        let mut region = Region::of(File::open(&inside).expect("opened")).expect("known");
        let found = region.users(Duration::from_secs(120)).users;
        let pids = [0, 1, 2].map(|at: usize| children[at].id());
        for child in &mut children {
            child.kill().and_then(|()| child.wait()).expect("ended");
        }
        let of = |pid| found.iter().find(|user: &&User| user.pid == pid).map(|user| &user.uses);
        assert_eq!(of(pids[0]), Some(&[Use::OpenFile, Use::WorkingDirectory].into()));
        assert_eq!(of(pids[1]), Some(&[Use::FileForWriting].into()), "a removed file");
        assert_eq!(of(pids[2]), None);
        assert!(found.iter().all(|user| user.pid != std::process::id()));
        assert!(is_ancestor(std::os::unix::process::parent_id()) && !is_ancestor(pids[0]));
    }
}
