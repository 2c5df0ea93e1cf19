//! Settings that the kernel has for a cgroup: the files of its controller `io` or `blkio`.
//!
//! Only what the kernel says counts: a user to whom a cgroup was handed over may mount something of
//! his own over its directory (FUSE). So no mount and no symbolic link is crossed on the way from
//! the root of the hierarchy.

use super::Hierarchy;
use super::hierarchy::Mounted;
use crate::limits::CGROUP_FILE_BYTES_MAX;
use iopace_groups::cgroup::{BLKIO_FILES, CGROUP_FILES};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The names and contents of files of a cgroup.
pub(crate) type CgroupFiles = Vec<(&'static str, String)>;

/// The files of a hierarchy that are read.
fn names(hierarchy: Hierarchy) -> &'static [&'static str] {
    match hierarchy {
        Hierarchy::Unified => &CGROUP_FILES,
        Hierarchy::Blkio => &BLKIO_FILES,
        Hierarchy::Systemd => &[],
    }
}

impl Mounted {
    /// The files of a cgroup, without those that it has not; `None` if it is not there, or cannot
    /// be seen.
    ///
    /// # Errors
    /// They cannot be read now, as when the daemon has as many files open as it may.
    pub(super) fn files(
        &self,
        hierarchy: Hierarchy,
        path: &str,
    ) -> io::Result<Option<CgroupFiles>> {
        let Some((mountpoint, path)) = self.place(hierarchy, path) else { return Ok(None) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(mountpoint, flags, Mode::empty())?;
        let path = if path.is_empty() { "." } else { path };
        let Some(cgroup) = open(&root, Path::new(path), flags)? else { return Ok(None) };
        let mut files = Vec::new();
        for &name in names(hierarchy) {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let Some(file) = open(&cgroup, Path::new(name), flags)? else { continue };
            let mut text = Vec::new();
            match File::from(file).take(CGROUP_FILE_BYTES_MAX).read_to_end(&mut text) {
                Ok(_) => files.push((name, String::from_utf8_lossy(&text).into_owned())),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(files))
    }
}

/// Opens what is below a directory in the same mount; `None` if nothing of the kernel is there.
fn open(below: &impl AsFd, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(below, path, flags, Mode::empty(), within).map_err(io::Error::from) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether it is not there (any more), is in another mount, behind a link, or not for us to see.
fn is_gone(error: &io::Error) -> bool {
    let gone = [
        Errno::NOENT,
        Errno::NODEV,
        Errno::NOTDIR,
        Errno::XDEV,
        Errno::LOOP,
        Errno::ACCESS,
        Errno::NAMETOOLONG,
    ];
    Errno::from_io_error(error).is_some_and(|error| gone.contains(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_files_of_a_cgroup_are_read() {
        let root = tempfile::tempdir().expect("a directory");
        let cgroup = root.path().join("box/web.service");
        fs::create_dir_all(&cgroup).expect("made");
        fs::write(cgroup.join("io.max"), "8:0 rbps=1\n").expect("written");
        fs::write(cgroup.join("io.stat"), "8:0 rbytes=1\n").expect("written");
        let mounted = Mounted::at(Hierarchy::Unified, root.path());
        let files = |path| mounted.files(Hierarchy::Unified, path).expect("read");
        assert_eq!(files("/box/web.service"), Some(vec![("io.max", "8:0 rbps=1\n".to_owned())]));
        assert_eq!(files("/box"), Some(Vec::new()));
        assert_eq!(files("/"), Some(Vec::new()));
        let long = "/a".repeat(4096);
        for gone in ["/no.slice", "/../box", "/box/web.service/io.max", &long] {
            assert_eq!(files(gone), None, "{gone}");
        }
        assert_eq!(mounted.files(Hierarchy::Blkio, "/box").expect("read"), None, "not mounted");
        let much = "8:0 rbps=1\n".repeat(100_000);
        fs::write(cgroup.join("io.max"), much).expect("written");
        let read = files("/box/web.service").expect("there");
        assert_eq!(read[0].1.len() as u64, CGROUP_FILE_BYTES_MAX);
    }

    #[test]
    fn a_link_leads_nowhere() {
        let root = tempfile::tempdir().expect("a directory");
        for cgroup in ["a", "b"] {
            fs::create_dir(root.path().join(cgroup)).expect("made");
        }
        fs::write(root.path().join("a/io.max"), "8:0 rbps=1\n").expect("written");
        symlink("a", root.path().join("c")).expect("linked");
        symlink("../a/io.max", root.path().join("b/io.max")).expect("linked");
        let mounted = Mounted::at(Hierarchy::Unified, root.path());
        let files = |path| mounted.files(Hierarchy::Unified, path).expect("read");
        assert_eq!(files("/a").map(|files| files.len()), Some(1));
        assert_eq!((files("/b"), files("/c")), (Some(Vec::new()), None));
    }
}
