//! The claim of a directory: the promise that one daemon at a time mounts it.
//!
//! Root's claim is a locked file below `/run/iopace-claims`, which only root can open: whoever may
//! read the directory could hold a lock of the directory itself, and so keep root from mounting.
//! The directory is locked as well, for users' daemons, which have no such place; a lock that root
//! does not hold is no obstacle to root.

use crate::mount_error::MountError;
use crate::process::{lock_holders, lock_name};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RawMode};
use rustix::fs::{flock, fstat, mkdirat, open, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where root's claims are: known to all daemons of root, whatever `XDG_RUNTIME_DIR` says.
const CLAIMS: &str = "/run/iopace-claims";

/// A claim; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Claim {
    file: Option<(OwnedFd, String, fs::File)>,
    /// The directory, locked if it could be.
    directory: OwnedFd,
}

/// Why a directory cannot be claimed now.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Another daemon has it: its process and the connection that it has mounted, if known.
    Held(Option<(u32, u32)>),
    /// The system refuses.
    Failed(MountError),
}

impl Claim {
    /// Claims an open directory. `path` is for messages.
    pub(crate) fn take(directory: impl AsFd, path: &Path) -> Result<Claim, Refused> {
        let failed =
            |error: Errno| Refused::Failed(MountError::open(path.to_owned(), error.into()));
        let is_root = geteuid().is_root();
        let file = match is_root {
            true => claim_as_root(&directory, Path::new(CLAIMS))?,
            false => None,
        };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let opened = openat(&directory, ".", flags, Mode::empty()).map_err(failed)?;
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            // A file system without locks: the table of mounts has been looked at.
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK) => {}
            Err(Errno::WOULDBLOCK) if file.is_none() => return Err(Refused::Held(None)),
            Err(Errno::WOULDBLOCK) => {
                if let Some(pid) = roots_lock(&opened) {
                    return Err(Refused::Held(Some((pid, 0))));
                }
                let shown = path.display();
                tracing::warn!("{shown}: is locked by a process that is not root's: ignored");
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Claim { file, directory: opened })
    }

    /// The directory, open for reading.
    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Says by which connection it is mounted, for those who find it held.
    pub(crate) fn mounted_as(&mut self, connection: u32) {
        let Some((.., file)) = &mut self.file else { return };
        let text = format!("{} {connection}\n", std::process::id());
        let written = file.set_len(0).and_then(|()| file.rewind());
        if let Err(error) = written.and_then(|()| file.write_all(text.as_bytes())) {
            tracing::debug!(%error, "the claim does not say who has it");
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some((folder, name, _)) = &self.file {
            // Still locked: whoever opened it before sees that it is gone, and makes a new one.
            let _ = unlinkat(folder, name.as_str(), AtFlags::empty());
        }
    }
}

/// `None` where there is no place for claims; it was said then.
fn claim_as_root(
    directory: &impl AsFd,
    claims: &Path,
) -> Result<Option<(OwnedFd, String, fs::File)>, Refused> {
    let unusable = |error: io::Error| {
        tracing::warn!(%error, "{} cannot be used for claims", claims.display());
        Ok(None)
    };
    let folder = match open_folder(claims) {
        Ok(folder) => folder,
        Err(error) => return unusable(error),
    };
    let found = match fstat(directory) {
        Ok(found) => found,
        Err(error) => return unusable(error.into()),
    };
    let name = format!("{}:{}", found.st_dev, found.st_ino);
    loop {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file,
            Err(error) => return unusable(error.into()),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Refused::Held(holder(file))),
            Err(error) => return unusable(error.into()),
        }
        // A holder that let go meanwhile has removed the file that is locked now.
        let there = statat(&folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
        let is_there =
            there.is_ok_and(|there| fstat(&file).is_ok_and(|own| own.st_ino == there.st_ino));
        if is_there {
            return Ok(Some((folder, name, file.into())));
        }
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    match mkdirat(rustix::fs::CWD, path, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty())?;
    let found = fstat(&folder)?;
    let writable = RawMode::from(Mode::WGRP | Mode::WOTH);
    if found.st_uid != geteuid().as_raw() || found.st_mode & writable != 0 {
        return Err(io::Error::other("others can write there: remove it"));
    }
    Ok(folder)
}

/// The process and the connection that a held claim names.
fn holder(file: OwnedFd) -> Option<(u32, u32)> {
    let mut text = String::new();
    fs::File::from(file).take(64).read_to_string(&mut text).ok()?;
    let (pid, connection) = text.trim().split_once(' ')?;
    Some((pid.parse().ok()?, connection.parse().ok()?))
}

/// The daemon of root's that holds the lock of the directory, by `/proc/locks`, as where it sees
/// another `/run`. A number may be another's by now, so that the process is asked for its lock. A
/// user may hand a lock on to a program that becomes root, as `sudo`: so it has to be our program.
fn roots_lock(directory: &OwnedFd) -> Option<u32> {
    let found = fstat(directory).ok()?;
    let inode = lock_name(&found);
    let is_roots = |pid: &u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let of_root = fs::read_to_string(process.join("status")).is_ok_and(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
            line.is_some_and(|line| line.split_whitespace().all(|uid| uid == "0"))
        });
        let infos = fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
        let mut infos = infos.filter_map(|info| fs::read_to_string(info.path()).ok());
        of_root
            && is_our_program(&process)
            && infos.any(|info| {
                info.lines().any(|line| line.starts_with("lock:") && line.contains(&inode))
            })
    };
    lock_holders(&found).into_iter().find(is_roots)
}

/// Whether a process runs a program of our name, by its file: one that was replaced is `(deleted)`.
fn is_our_program(process: &Path) -> bool {
    let name = |link: PathBuf| {
        let file = fs::read_link(link).ok()?.file_name()?.to_string_lossy().into_owned();
        Some(file.trim_end_matches(" (deleted)").to_owned())
    };
    let own = name("/proc/self/exe".into());
    own.is_some() && name(process.join("exe")) == own
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_directory_has_one_claim_at_a_time() {
        let folder = tempfile::tempdir().expect("a directory");
        let directory = File::open(folder.path()).expect("opened");
        let mut first = Claim::take(&directory, folder.path()).expect("free");
        first.mounted_as(52);
        let second = Claim::take(&directory, folder.path());
        let is_root = geteuid().is_root() && first.file.is_some();
        match second {
            Err(Refused::Held(Some(held))) if is_root => {
                assert_eq!(held, (std::process::id(), 52));
            }
            Err(Refused::Held(None)) if !is_root => {}
            other => panic!("{other:?}"),
        }
        drop(first);
        drop(Claim::take(&directory, folder.path()).expect("free again"));
    }

    #[test]
    fn a_claim_is_kept_where_only_root_can_write() {
        if !geteuid().is_root() {
            return println!("skipped: only root has such a place");
        }
        let folder = tempfile::tempdir().expect("a directory");
        let directory = File::open(folder.path()).expect("opened");
        let claims = folder.path().join("claims");
        let made = claim_as_root(&directory, &claims).expect("free").expect("made");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode(&claims), mode(&claims.join(&made.1))), (0o755, 0o600));
        drop(made);
        fs::set_permissions(&claims, PermissionsExt::from_mode(0o777)).expect("set");
        assert!(claim_as_root(&directory, &claims).expect("not held").is_none());
        symlink(&claims, folder.path().join("link")).expect("linked");
        fs::set_permissions(&claims, PermissionsExt::from_mode(0o755)).expect("set");
        assert!(open_folder(&claims).is_ok() && open_folder(&folder.path().join("link")).is_err());
    }
}
