//! Files that daemons and commands leave for each other: records, sockets, logs and tokens.
//!
//! # Trust
//!
//! A directory or file is used only if it belongs to root or to the effective user, and nobody else
//! can write to it. That holds for every directory on the way as well; one that everybody may write
//! to, as `/tmp`, is passed through only if it is sticky, so that nobody can replace what belongs
//! to us in there. Root therefore ignores the files of users, and a user those of other users.
//!
//! # Access
//!
//! Paths are walked by directory descriptors, one name at a time, and a symbolic link is followed
//! only if it belongs to root or to us: what was checked is what is used. Files are opened without
//! waiting (`O_NONBLOCK`) and looked at afterwards, so that a FIFO or a lease holds nobody up; only
//! regular files of a bounded size are read.

mod kept;
mod named;
mod replaced;

pub(crate) use kept::Kept;
pub use named::{open_log, read_config, read_module};

use crate::mount_table;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Statx, StatxFlags, fstat, mkdirat, open, openat,
    readlinkat, statat, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Longest record: a few paths, each of at most 4 KiB, every byte of which JSON may escape by six.
pub const RECORD_BYTES_MAX: u64 = 128 << 10;

/// Symbolic links on one path, as the kernel has it (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// Bits of a mode that let others write: group and everybody.
const WRITABLE: u32 = 0o022;

/// Bit of a directory in which only the owner of an entry, and of the directory, replaces it.
const STICKY: u32 = 0o1000;

/// Owner of files whose real owner has no number in this user namespace, see user_namespaces(7).
const OVERFLOW_UID: u32 = 65534;

/// Why a path is not used.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// It cannot be opened or made.
    #[error("{path}: {error}", path = .0.display(), error = io::Error::from(*.1))]
    System(PathBuf, Errno),
    /// It is somebody else's.
    #[error("{path} belongs to the user {1}, who is neither root nor you", path = .0.display())]
    Foreign(PathBuf, u32),
    /// Others can put into it what they like.
    #[error("{path} can be written to by others", path = .0.display())]
    Writable(PathBuf),
    /// Another kind of file was expected.
    #[error("{path} is not {1}", path = .0.display())]
    Kind(PathBuf, &'static str),
    /// It is longer than anything that belongs there.
    #[error("{path} is longer than {1} bytes", path = .0.display())]
    TooLong(PathBuf, u64),
    /// A file system that a user serves: it says what it likes, and need not answer.
    #[error("{path} is on a file system that the user {1} serves", path = .0.display())]
    Served(PathBuf, u32),
}

impl Distrust {
    /// As an error of the system.
    pub fn into_io(self) -> io::Error {
        match self {
            Distrust::System(_, errno) => errno.into(),
            other => io::Error::other(other.to_string()),
        }
    }

    /// Whether there is simply nothing.
    pub fn is_missing(&self) -> bool {
        matches!(self, Distrust::System(_, Errno::NOENT))
    }
}

/// A directory that only root and the effective user can have put anything into.
#[derive(Debug)]
pub struct RuntimeDir {
    /// Opened with `O_PATH`.
    directory: OwnedFd,
    path: PathBuf,
}

impl RuntimeDir {
    /// Opens a directory.
    ///
    /// # Errors
    /// It is not there, or not to be trusted.
    pub fn open(path: &Path) -> Result<RuntimeDir, Distrust> {
        let (directory, found) = walk(path)?;
        check(path, &found)?;
        Ok(RuntimeDir { directory, path: path.to_owned() })
    }

    /// Makes a directory of mode 0700 if it is missing, and opens it. It is ours then, and not
    /// root's if that is somebody else.
    ///
    /// # Errors
    /// It cannot be made, or is not to be trusted.
    pub fn make(path: &Path) -> Result<RuntimeDir, Distrust> {
        let system = |errno| Distrust::System(path.to_owned(), errno);
        let (parent, name) = parted(path)?;
        let (parent, _) = walk(parent)?;
        match mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(system(errno)),
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&parent, name, flags, Mode::empty()).map_err(system)?;
        let found = look(&directory).map_err(system)?;
        if kind(&found) != FileType::Directory {
            return Err(Distrust::Kind(path.to_owned(), "a directory"));
        }
        check(path, &found)?;
        if found.stx_uid != geteuid().as_raw() {
            return Err(Distrust::Foreign(path.to_owned(), found.stx_uid));
        }
        Ok(RuntimeDir { directory, path: path.to_owned() })
    }

    /// Whether a directory of ours may be made in `path`: nobody could replace it.
    pub fn is_safe_parent(path: &Path) -> bool {
        walk(path).is_ok()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its entries; none if it cannot be listed.
    pub fn names(&self) -> Vec<OsString> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(&self.directory, ".", flags, Mode::empty()).and_then(Dir::new);
        let entries = opened.into_iter().flatten().flatten();
        let mut names: Vec<OsString> =
            entries.map(|one| OsString::from_vec(one.file_name().to_bytes().to_vec())).collect();
        names.sort();
        names
    }

    /// A file in here, open, with what is in it.
    ///
    /// # Errors
    /// It is not there, not to be trusted, or longer than `bytes_max`.
    pub fn read(&self, name: &OsStr, bytes_max: u64) -> Result<(File, Vec<u8>), Distrust> {
        let path = self.path.join(name);
        let file = open_regular(&self.directory, name.as_ref(), &path)?;
        let found = look(&file).map_err(|errno| Distrust::System(path.clone(), errno))?;
        check(&path, &found)?;
        let text = read_bounded(&file, &path, bytes_max)?;
        Ok((file, text))
    }

    /// A record in here, with its file; `None` if there is none that can be believed.
    pub fn record<T: serde::de::DeserializeOwned>(&self, name: &OsStr) -> Option<(File, T)> {
        let read = self.read(name, RECORD_BYTES_MAX);
        let noted = read.inspect_err(note);
        let (file, text) = noted.ok()?;
        Some((file, serde_json::from_slice(&text).ok()?))
    }

    /// A new file with mode 0600; one of that name is removed.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        self.remove(name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags | OFlags::NOFOLLOW, MODE)?;
        Ok(file.into())
    }

    /// Removes a file in here, unless the name is another one's by now.
    pub(crate) fn remove_own(&self, name: &OsStr, file: &File) {
        let there = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(there), Ok(own)) = (there, fstat(file))
            && (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)
        {
            self.remove(name);
        }
    }

    /// Removes a file in here, if it is there.
    pub fn remove(&self, name: &OsStr) {
        let _ = unlinkat(&self.directory, name, AtFlags::empty());
    }
}

/// Of files that are made: only their owner may read and write them.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A directory, if it can be trusted. Why not is told with `-v`, unless there is nothing.
pub fn trusted(path: &Path) -> Option<RuntimeDir> {
    RuntimeDir::open(path).inspect_err(note).ok()
}

fn note(reason: &Distrust) {
    let is_private = matches!(reason, Distrust::System(_, Errno::ACCESS));
    if !reason.is_missing() && !is_private {
        tracing::debug!("ignored: {reason}");
    }
}

/// Opens a file that is named by a user, without waiting and without following a last link, and
/// looks at it: it is a regular file.
///
/// # Errors
/// It is not there, or is something else.
pub fn open_named(path: &Path) -> Result<File, Distrust> {
    open_regular(rustix::fs::CWD, path, path)
}

/// Opens `name` in `directory`, without waiting, as a regular file.
fn open_regular(directory: impl AsFd, name: &Path, path: &Path) -> Result<File, Distrust> {
    let system = |errno| Distrust::System(path.to_owned(), errno);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty()).map_err(system)?);
    let found = fstat(&file).map_err(system)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Distrust::Kind(path.to_owned(), "a regular file"));
    }
    Ok(file)
}

fn read_bounded(file: &File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Distrust> {
    let mut text = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut text);
    read.map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Distrust::System(path.to_owned(), errno)
    })?;
    if text.len() as u64 > bytes_max {
        return Err(Distrust::TooLong(path.to_owned(), bytes_max));
    }
    Ok(text)
}

fn parted(path: &Path) -> Result<(&Path, &OsStr), Distrust> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| Distrust::Kind(path.to_owned(), "a path with a name at its end"))
}

/// The directory at `path` and what was seen of it. All directories on the way, and this one, keep
/// what is ours from being replaced by others.
fn walk(path: &Path) -> Result<(OwnedFd, Statx), Distrust> {
    let path = std::path::absolute(path)
        .map_err(|_| Distrust::Kind(path.to_owned(), "a path with a name at its end"))?;
    let mut names: VecDeque<OsString> = parts(&path);
    let (mut shown, mut links) = (PathBuf::from("/"), 0);
    let (mut directory, mut found) = root()?;
    while let Some(name) = names.pop_front() {
        let next = shown.join(&name);
        let system = |errno| Distrust::System(next.clone(), errno);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(&directory, &name, flags, Mode::empty()).map_err(system)?;
        let seen = look(&entry).map_err(system)?;
        match kind(&seen) {
            FileType::Symlink => {
                links += 1;
                check_owner(&next, &seen)?;
                if links > LINKS_MAX {
                    return Err(system(Errno::LOOP));
                }
                let to = readlinkat(&entry, "", Vec::new()).map_err(system)?;
                let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
                if to.is_absolute() {
                    (directory, found) = root()?;
                    shown = PathBuf::from("/");
                }
                for part in parts(&to).into_iter().rev() {
                    names.push_front(part);
                }
            }
            FileType::Directory => {
                let is_other = (seen.stx_dev_major, seen.stx_dev_minor)
                    != (found.stx_dev_major, found.stx_dev_minor);
                if is_other {
                    check_served(&next, (seen.stx_dev_major, seen.stx_dev_minor))?;
                }
                check_passage(&next, &seen)?;
                (directory, found, shown) = (entry, seen, next);
            }
            _ => return Err(Distrust::Kind(next, "a directory")),
        }
    }
    Ok((directory, found))
}

/// The names in a path, without the root and without `.`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let named = |part| matches!(part, Component::Normal(_) | Component::ParentDir);
    let named = path.components().filter(|part| named(*part));
    named.map(|part| part.as_os_str().to_owned()).collect()
}

fn root() -> Result<(OwnedFd, Statx), Distrust> {
    let system = |errno| Distrust::System("/".into(), errno);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open("/", flags, Mode::empty()).map_err(system)?;
    let found = look(&root).map_err(system)?;
    check_passage(Path::new("/"), &found)?;
    Ok((root, found))
}

/// The attributes that the kernel knows of a file, without asking a process that serves it.
fn look(file: impl AsFd) -> Result<Statx, Errno> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(file, "", flags, StatxFlags::BASIC_STATS)
}

fn kind(found: &Statx) -> FileType {
    FileType::from_raw_mode(found.stx_mode.into())
}

/// Whether only root and we can write to it.
fn check(path: &Path, found: &Statx) -> Result<(), Distrust> {
    check_owner(path, found)?;
    match u32::from(found.stx_mode) & WRITABLE {
        0 => Ok(()),
        _ => Err(Distrust::Writable(path.to_owned())),
    }
}

/// Whether an entry of ours in there cannot be replaced by others.
fn check_passage(path: &Path, found: &Statx) -> Result<(), Distrust> {
    let is_unmapped = found.stx_uid == OVERFLOW_UID && !has_all_uids();
    if !is_unmapped {
        check_owner(path, found)?;
    }
    let mode = u32::from(found.stx_mode);
    match mode & WRITABLE != 0 && mode & STICKY == 0 {
        false => Ok(()),
        true => Err(Distrust::Writable(path.to_owned())),
    }
}

fn check_owner(path: &Path, found: &Statx) -> Result<(), Distrust> {
    match found.stx_uid == 0 || found.stx_uid == geteuid().as_raw() {
        true => Ok(()),
        false => Err(Distrust::Foreign(path.to_owned(), found.stx_uid)),
    }
}

/// Whether every user has a number here. In a user namespace the system's own directories may
/// belong to nobody.
fn has_all_uids() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A file system that another user serves is not to be asked anything.
fn check_served(path: &Path, device: (u32, u32)) -> Result<(), Distrust> {
    let table = mount_table::read().unwrap_or_default();
    let on = table.iter().find(|entry| entry.device == device && entry.fs_type.starts_with("fuse"));
    let own = geteuid().as_raw();
    match on.and_then(mount_table::Entry::uid).filter(|uid| *uid != 0 && *uid != own) {
        None => Ok(()),
        Some(uid) => Err(Distrust::Served(path.to_owned(), uid)),
    }
}

#[cfg(test)]
mod tests;
