//! Opening a directory by a path that strangers may have a hand in.
//!
//! A path is walked part by part, each part opened by the directory before it. A symbolic link that
//! belongs to neither root nor us leads nowhere, as with `fs.protected_symlinks`: its owner would
//! choose what is mounted over. From then on the descriptor is the directory, whatever becomes of
//! its path.

use super::region::path_of;
use crate::mount_error::MountError;
use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Most symbolic links on a path, as the kernel has it (`MAXSYMLINKS`).
const LINKS_MAX: u32 = 40;

/// A directory, open by `O_PATH`, and its path in full.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    /// The directory.
    pub(crate) fd: OwnedFd,
    /// Its path when it was opened.
    pub(crate) path: PathBuf,
}

impl OpenDirectory {
    /// Opens a directory.
    ///
    /// # Errors
    /// There is none, or a stranger's link is on the way.
    pub(crate) fn open(path: &Path) -> Result<OpenDirectory, MountError> {
        let failed = |error: Errno| MountError::open(path.to_owned(), error.into());
        let absolute =
            std::path::absolute(path).map_err(|error| MountError::Open(path.to_owned(), error))?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = || open("/", flags | OFlags::DIRECTORY, Mode::empty());
        let mut at = root().map_err(failed)?;
        let mut parts: VecDeque<OsString> = VecDeque::new();
        push(&mut parts, &absolute);
        let mut links = 0;
        while let Some(part) = parts.pop_front() {
            let next = openat(&at, &part, flags | OFlags::NOFOLLOW, Mode::empty());
            let next = next.map_err(failed)?;
            let found = fstat(&next).map_err(failed)?;
            if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
                at = next;
                continue;
            }
            let own = [0, geteuid().as_raw()];
            if !own.contains(&found.st_uid) {
                return Err(MountError::StrangersLink(path.to_owned(), found.st_uid));
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(failed(Errno::LOOP));
            }
            let target = readlinkat(&next, "", Vec::new()).map_err(failed)?;
            let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
            if target.is_absolute() {
                at = root().map_err(failed)?;
            }
            push(&mut parts, &target);
        }
        if FileType::from_raw_mode(fstat(&at).map_err(failed)?.st_mode) != FileType::Directory {
            return Err(MountError::NotADirectory(path.to_owned()));
        }
        let full = path_of(&at).map_err(|error| MountError::Open(path.to_owned(), error))?;
        Ok(OpenDirectory { fd: at, path: full })
    }
}

/// Opens a directory by a path in full, on which no part may be a symbolic link.
///
/// # Errors
/// One is, or there is no such directory.
pub(super) fn without_links(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let mut at = open("/", flags | OFlags::DIRECTORY, Mode::empty())?;
    let mut parts: VecDeque<OsString> = VecDeque::new();
    push(&mut parts, path);
    for part in parts {
        // A symbolic link is opened itself, and is no directory.
        at = openat(&at, &part, flags | OFlags::NOFOLLOW | OFlags::DIRECTORY, Mode::empty())?;
    }
    Ok(at)
}

/// Puts the parts of a path before those that are left.
fn push(parts: &mut VecDeque<OsString>, path: &Path) {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    for name in names.collect::<Vec<_>>().into_iter().rev() {
        parts.push_front(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn own_links_are_followed_and_strangers_links_are_not() {
        let folder = tempfile::tempdir().expect("a directory");
        let full = folder.path().canonicalize().expect("there");
        fs::create_dir_all(full.join("a/b")).expect("made");
        fs::write(full.join("file"), "").expect("written");
        symlink("a/../a", full.join("relative")).expect("linked");
        symlink(full.join("relative"), full.join("absolute")).expect("linked");
        let found = OpenDirectory::open(&full.join("absolute/./b")).expect("opened");
        assert_eq!(found.path, full.join("a/b"));
        let refused = |name: &str| OpenDirectory::open(&full.join(name)).expect_err("refused");
        assert!(matches!(refused("none"), MountError::Missing(_)));
        assert!(matches!(refused("file"), MountError::NotADirectory(_)));
        symlink("loop", full.join("loop")).expect("linked");
        assert!(matches!(refused("loop"), MountError::Open(..)));
        if geteuid().is_root() {
            lchown(full.join("relative"), Some(1001), Some(1001)).expect("given");
            assert!(matches!(refused("absolute"), MountError::StrangersLink(_, 1001)));
        }
    }
}
