//! The users that can make cgroups, by place: a name in a hierarchy says something only if no user
//! could choose it.
//!
//! A user whose part of the hierarchy was handed over to him (by systemd to every session, by a
//! container manager to every container) makes cgroups of any name in there, as `db.service`. He
//! owns the directory that they are made in; root owns those in which system services are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The hierarchies whose cgroups rules look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// Version 2.
    Unified,
    /// Version 1: the one that systemd names.
    Systemd,
    /// Version 1: that of block I/O.
    Blkio,
}

/// Bits of a mode that let others make entries.
const WRITABLE: u32 = 0o022;

/// Where hierarchies are mounted.
#[derive(Debug, Default)]
pub(super) struct Mounted(Vec<Place>);

#[derive(Debug, PartialEq, Eq)]
struct Place {
    hierarchy: Hierarchy,
    /// The cgroup that is at the mount point, as paths in `/proc/PID/cgroup` name it.
    root: String,
    mountpoint: PathBuf,
}

impl Mounted {
    /// As the daemon sees them. Once there is one they stay as they are.
    pub(super) fn seen() -> &'static Mounted {
        static SEEN: OnceLock<Mounted> = OnceLock::new();
        static NONE: Mounted = Mounted(Vec::new());
        if let Some(seen) = SEEN.get() {
            return seen;
        }
        let found = Mounted::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default());
        if found.0.is_empty() { &NONE } else { SEEN.get_or_init(|| found) }
    }

    /// Reads lines as in proc_pid_mountinfo(5).
    pub(super) fn parse(table: &[u8]) -> Mounted {
        Mounted(table.split(|byte| *byte == b'\n').filter_map(Place::parse).collect())
    }

    /// Whether nobody but root and `own` can make cgroups in the one at `path`; no also for one
    /// that cannot be seen.
    pub(super) fn is_own(&self, hierarchy: Hierarchy, path: &str, own: u32) -> bool {
        let is_own = |directory: PathBuf| {
            fs::symlink_metadata(directory).is_ok_and(|found| {
                let is_ours = found.uid() == 0 || found.uid() == own;
                found.is_dir() && is_ours && found.mode() & WRITABLE == 0
            })
        };
        self.directory(hierarchy, path).is_some_and(is_own)
    }

    pub(super) fn directory(&self, hierarchy: Hierarchy, path: &str) -> Option<PathBuf> {
        let (mountpoint, rest) = self.place(hierarchy, path)?;
        Some(mountpoint.join(rest))
    }

    /// Where the hierarchy that has the cgroup at `path` is mounted, and the path from there.
    pub(super) fn place<'a>(
        &'a self,
        hierarchy: Hierarchy,
        path: &'a str,
    ) -> Option<(&'a Path, &'a str)> {
        let inside = |place: &'a Place| {
            let rest = path.strip_prefix(place.root.trim_end_matches('/'))?;
            let is_below = rest.is_empty() || rest.starts_with('/');
            let is_plain = rest.split('/').all(|name| name != "..");
            (is_below && is_plain).then(|| (&*place.mountpoint, rest.trim_start_matches('/')))
        };
        self.0.iter().filter(|place| place.hierarchy == hierarchy).find_map(inside)
    }

    /// The hierarchies with a directory as their root, whatever is in it.
    #[cfg(test)]
    pub(super) fn at(hierarchy: Hierarchy, mountpoint: &Path) -> Mounted {
        let mountpoint = mountpoint.to_owned();
        Mounted(vec![Place { hierarchy, root: "/".into(), mountpoint }])
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl Mounted {
    /// Whether a directory is within one of them.
    pub(super) fn holds(&self, directory: &Path) -> bool {
        let is_plain = |rest: &Path| rest.iter().all(|name| name != "..");
        let holds = |place: &Place| directory.strip_prefix(&place.mountpoint).is_ok_and(is_plain);
        self.0.iter().any(holds)
    }
}

impl Place {
    fn parse(line: &[u8]) -> Option<Place> {
        let line: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let (root, mountpoint) = (line.get(3)?, line.get(4)?);
        let end = line.iter().position(|word| *word == b"-")?;
        let options = std::str::from_utf8(line.get(end + 3)?).ok()?;
        let hierarchy = match *line.get(end + 1)? {
            b"cgroup2" => Hierarchy::Unified,
            b"cgroup" if options.split(',').any(|one| one == "name=systemd") => Hierarchy::Systemd,
            b"cgroup" if options.split(',').any(|one| one == "blkio") => Hierarchy::Blkio,
            _ => return None,
        };
        // A place with a blank in its path is escaped in there; nobody mounts cgroups so.
        let mountpoint = Path::new(OsStr::from_bytes(mountpoint)).to_owned();
        let root = std::str::from_utf8(root).ok()?.to_owned();
        Some(Place { hierarchy, root, mountpoint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let table = b"\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:3 - cgroup cgroup rw,blkio\n\
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
41 31 0:38 /box /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
garbled -\n";
        let mounted = Mounted::parse(table);
        let at = |hierarchy, path| mounted.directory(hierarchy, path);
        assert_eq!(at(Hierarchy::Blkio, "/"), Some("/sys/fs/cgroup/blkio/".into()));
        assert_eq!(at(Hierarchy::Systemd, "/a/b"), Some("/sys/fs/cgroup/systemd/a/b".into()));
        assert_eq!(at(Hierarchy::Unified, "/box/a"), Some("/sys/fs/cgroup/unified/a".into()));
        for outside in ["/boxer", "/", "/../box", "/box/../a"] {
            assert_eq!(at(Hierarchy::Unified, outside), None, "{outside}");
        }
    }

    #[test]
    fn a_cgroup_is_own_if_nobody_else_can_make_some_in_it() {
        let root = tempfile::tempdir().expect("a directory");
        let own = rustix::process::geteuid().as_raw();
        let mounted = Mounted::at(Hierarchy::Unified, root.path());
        fs::create_dir_all(root.path().join("system.slice/db.service")).expect("made");
        let is_own = |path| mounted.is_own(Hierarchy::Unified, path, own);
        assert!(is_own("/system.slice") && is_own("/system.slice/db.service") && is_own("/"));
        assert!(!is_own("/no.slice"), "not there");
        assert!(!mounted.is_own(Hierarchy::Blkio, "/", own), "not mounted");
        let service = root.path().join("system.slice/db.service");
        fs::set_permissions(&service, fs::Permissions::from_mode(0o775)).expect("set");
        assert!(!is_own("/system.slice/db.service"));
        if own == 0 {
            fs::set_permissions(&service, fs::Permissions::from_mode(0o755)).expect("set");
            chown(&service, Some(4_242), None).expect("handed over");
            assert!(!is_own("/system.slice/db.service"));
        }
    }
}
