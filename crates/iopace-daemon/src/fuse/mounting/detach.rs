//! Ending one mount, told from all others by its number: whatever its path leads to by now, nothing
//! else is unmounted.
//!
//! The directory above the mount point is opened part by part without following a symbolic link,
//! and what is seen there has to be the mount itself. `umount2` then gets the descriptor of that
//! directory and a name, which nobody can rename while something is mounted there. A descriptor of
//! the mount would be exact, but keeps it in use: it serves for lazy unmounts, which do not mind.

use super::abort::abort;
use super::helper;
use super::region::mount_of;
use super::walk::without_links;
use crate::mount_error::UnmountError;
use crate::mount_table::{self, Entry};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// `STATX_MNT_ID_UNIQUE` of Linux 6.8: a number that no other mount gets until the machine ends.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Somebody may rename a directory above a mount while it is opened: it is looked for again.
const TRIES: u32 = 3;

/// One mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MountId {
    /// Its number in the table, which is given again as soon as it is gone.
    number: u64,
    /// The number of its file system, which is given again likewise.
    device: (u32, u32),
    /// The number that is never given again, where the kernel has one.
    unique: Option<u64>,
}

impl MountId {
    /// The mount of an entry of the table. The number that is never given again is known of a mount
    /// that is to be seen at its place.
    pub fn of(entry: &Entry) -> MountId {
        let plain = MountId { number: entry.id, device: entry.device, unique: None };
        let seen = Seen::open(&entry.mountpoint).ok();
        let seen = seen.filter(|seen| plain.is(&seen.top));
        MountId { unique: seen.and_then(|seen| unique(&seen.top)), ..plain }
    }

    /// The same of a mount of which a descriptor is open.
    pub(super) fn of_open(entry: &Entry, mount: impl AsFd) -> MountId {
        MountId { number: entry.id, device: entry.device, unique: unique(mount) }
    }

    /// Whether no other mount is ever taken for it.
    pub(crate) fn is_unique(&self) -> bool {
        self.unique.is_some()
    }

    /// Where it is mounted by now.
    fn entry(&self) -> Result<Entry, UnmountError> {
        let table = mount_table::read().map_err(|error| UnmountError::Failed(error.to_string()))?;
        let is_it = |entry: &&Entry| entry.id == self.number && entry.device == self.device;
        table.iter().find(is_it).cloned().ok_or(UnmountError::NotMounted)
    }

    /// Whether an open directory is on this mount.
    fn is(&self, directory: impl AsFd) -> bool {
        let same = mount_of(&directory).is_ok_and(|number| number == self.number);
        same && self.unique.is_none_or(|own| unique(directory) == Some(own))
    }

    /// It, as it is seen at its place.
    fn seen(&self) -> Result<Seen, UnmountError> {
        let mut failed = UnmountError::NotMounted;
        for _ in 0..TRIES {
            let entry = self.entry()?;
            match Seen::open(&entry.mountpoint) {
                Ok(seen) if self.is(&seen.top) => return Ok(seen),
                // Its number was given to another mount since.
                Ok(seen) if mount_of(&seen.top).is_ok_and(|number| number == self.number) => {
                    return Err(UnmountError::NotMounted);
                }
                Ok(_) => failed = UnmountError::Covered,
                Err(error) => failed = UnmountError::Failed(error.to_string()),
            }
        }
        Err(failed)
    }

    /// Unmounts it. Lazily: takes it out of sight at once, and ends it when nobody uses it any
    /// more.
    ///
    /// # Errors
    /// See [`UnmountError`]; nothing is changed then.
    pub fn unmount(&self, lazily: bool) -> Result<(), UnmountError> {
        let seen = self.seen()?;
        if lazily {
            return seen.unmount_lazily();
        }
        let Seen { above, name, top } = seen;
        // It would keep the mount in use.
        drop(top);
        let path = link(&above).join(&name);
        match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::BUSY) => return Err(UnmountError::Busy),
            Err(Errno::INVAL | Errno::NOENT) => return Err(UnmountError::NotMounted),
            Err(Errno::PERM) => helper::unmount(&link(&above), &name, false)?,
            Err(error) => return Err(UnmountError::Failed(error.to_string())),
        }
        // A mount that somebody has put over it in between was what ended.
        match self.seen() {
            Ok(_) => Err(UnmountError::Covered),
            Err(_) => Ok(()),
        }
    }

    /// Takes it out of sight and cuts its connection: who uses it gets errors.
    ///
    /// # Errors
    /// It is not to be seen, and was not cut then, or the system refuses.
    pub fn cut(&self) -> Result<(), UnmountError> {
        // As long as it is open, the number of its connection is that of no other.
        let seen = self.seen()?;
        let unmounted = seen.unmount_lazily();
        match abort(connection(self.device)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                unmounted.and(Err(UnmountError::Failed(format!("it cannot be cut: {error}"))))
            }
            _ => unmounted,
        }
    }
}

/// The number of the connection of a mount with that device, see [`Entry::connection`].
fn connection((major, minor): (u32, u32)) -> u32 {
    (major << 20) | minor
}

/// The mount seen at a mount point.
struct Seen {
    /// The directory that the mount point is in, and its name there.
    above: OwnedFd,
    name: OsString,
    /// The root of what is mounted.
    top: OwnedFd,
}

impl Seen {
    fn open(mountpoint: &Path) -> io::Result<Seen> {
        let (Some(above), Some(name)) = (mountpoint.parent(), mountpoint.file_name()) else {
            return Err(io::Error::other("nothing of ours is mounted there"));
        };
        let above = without_links(above)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = openat(&above, name, flags, Mode::empty())?;
        Ok(Seen { above, name: name.to_owned(), top })
    }

    fn unmount_lazily(&self) -> Result<(), UnmountError> {
        match rustix::mount::unmount(link(&self.top), UnmountFlags::DETACH) {
            Ok(()) => Ok(()),
            Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted),
            Err(Errno::PERM) => helper::unmount(&link(&self.above), &self.name, true),
            Err(error) => Err(UnmountError::Failed(error.to_string())),
        }
    }
}

/// Detaches the mount that an open directory is on, at whatever path.
pub(super) fn detach_open(mount: impl AsFd) {
    let _ = rustix::mount::unmount(link(mount), UnmountFlags::DETACH);
}

/// A path of an open file that no other process can change; for other programs too.
fn link(file: impl AsFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_fd().as_raw_fd()).into()
}

fn unique(directory: impl AsFd) -> Option<u64> {
    // The mount is not asked: it may not answer.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(directory, "", flags, UNIQUE).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask).contains(UNIQUE).then_some(found.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, mount};
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A directory with mounts in it, which are gone at the end.
    struct Bench(tempfile::TempDir);

    impl Bench {
        /// `None`, aloud, where nothing can be mounted.
        fn new() -> Option<Bench> {
            if !rustix::process::geteuid().is_root() {
                println!("skipped: mounting needs root");
                return None;
            }
            Some(Bench(tempfile::tempdir().expect("a directory")))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().expect("there").join(name)
        }

        fn mount(&self, name: &str) -> Entry {
            let path = self.path(name);
            fs::create_dir_all(&path).expect("made");
            mount("iopace-test", &path, "tmpfs", MountFlags::empty(), c"size=64k")
                .expect("mounted");
            self.at(name).expect("in the table")
        }

        fn at(&self, name: &str) -> Option<Entry> {
            mount_table::at(&mount_table::read().expect("read"), &self.path(name)).cloned()
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let all = mount_table::read().unwrap_or_default();
            for entry in
                all.iter().rev().filter(|entry| entry.mountpoint.starts_with(self.0.path()))
            {
                let _ = rustix::mount::unmount(&entry.mountpoint, UnmountFlags::DETACH);
            }
        }
    }

    #[test]
    fn a_mount_is_ended_wherever_it_was_renamed_to() {
        let Some(bench) = Bench::new() else { return };
        for lazily in [false, true] {
            let id = MountId::of(&bench.mount("a/m"));
            let other = bench.mount("c/m");
            fs::rename(bench.path("a"), bench.path("b")).expect("renamed");
            symlink(bench.path("c"), bench.path("a")).expect("linked");
            id.unmount(lazily).expect("unmounted");
            assert!(bench.at("b/m").is_none() && bench.at("c/m") == Some(other.clone()));
            assert!(matches!(id.unmount(lazily), Err(UnmountError::NotMounted)));
            MountId::of(&other).unmount(lazily).expect("unmounted");
            fs::remove_file(bench.path("a")).expect("removed");
            fs::remove_dir_all(bench.path("b")).expect("removed");
        }
    }

    #[test]
    fn what_lies_over_a_mount_stays_and_so_does_the_mount() {
        let Some(bench) = Bench::new() else { return };
        let id = MountId::of(&bench.mount("m"));
        let over = bench.mount("m");
        for lazily in [false, true] {
            assert!(matches!(id.unmount(lazily), Err(UnmountError::Covered)));
            assert!(matches!(id.cut(), Err(UnmountError::Covered)));
        }
        assert_eq!(bench.at("m"), Some(over.clone()));
        MountId::of(&over).unmount(false).expect("unmounted");
        let file = fs::File::create(bench.path("m/file")).expect("made");
        assert!(matches!(id.unmount(false), Err(UnmountError::Busy)));
        drop(file);
        id.unmount(false).expect("unmounted");
        assert_eq!(bench.at("m"), None);
    }

    #[test]
    fn a_number_that_was_given_again_is_another_mount() {
        let Some(bench) = Bench::new() else { return };
        let first = MountId::of(&bench.mount("m"));
        if first.unique.is_none() {
            println!("skipped: mounts have numbers of their own since Linux 6.8");
            return;
        }
        first.unmount(false).expect("unmounted");
        let entry = bench.mount("m");
        let again = MountId { number: entry.id, device: entry.device, ..first };
        for lazily in [false, true] {
            assert!(matches!(again.unmount(lazily), Err(UnmountError::NotMounted)));
        }
        assert_eq!(bench.at("m"), Some(entry));
    }
}
