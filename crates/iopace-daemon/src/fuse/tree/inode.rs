//! The inodes that the kernel knows, each held by a descriptor that opens nothing (`O_PATH`).
//!
//! Such a descriptor keeps the inode below from being freed, so its number is not given to another
//! file as long as the kernel knows it, whoever removes it by whatever way.

use super::super::data::FileState;
use super::forbids::{Forbidden, Forbids};
use super::numbers::{Key, Numbers};
use crate::io::leaving::{Hold, Leaving};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The kernel's number of the root of a mount.
pub(super) const ROOT: u64 = 1;

/// So many that are gone may stand in the order of those known, besides as many as are known.
const ORDER_SLACK: usize = 1024;

/// Room is made for this many descriptors at the start: half a MiB of the kernel's memory.
const ROOM_MAX: usize = 65_536;

/// `/proc/self/fd`, opened once: the mount may hide `/proc`.
static DESCRIPTORS: OnceLock<OwnedFd> = OnceLock::new();

/// The folder in which each descriptor of this process has a name.
///
/// # Errors
///
/// `/proc` is not mounted.
pub(super) fn descriptors() -> io::Result<BorrowedFd<'static>> {
    if let Some(folder) = DESCRIPTORS.get() {
        return Ok(folder.as_fd());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty())?;
    Ok(DESCRIPTORS.get_or_init(|| folder).as_fd())
}

/// Has the kernel make room for so many descriptors of this process, at once. It doubles the room
/// each time that it is full, and in a process with threads it then waits until no processor looks
/// at the old one any more: some 10 ms, in the middle of a request.
pub(super) fn make_room(root: &OwnedFd, count: usize) {
    let last = count.min(ROOM_MAX).saturating_sub(1);
    let Ok(last) = i32::try_from(last) else { return };
    // Where there is no room for that many, there is none to make.
    let _ = rustix::io::fcntl_dupfd_cloexec(root, last);
}

/// A file of any type that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inode {
    /// The device that it is on, as `st_dev`.
    pub(crate) device: u64,
    /// Its number there, as `st_ino`.
    pub(crate) number: u64,
    /// Its number in this mount.
    pub(super) id: u64,
    /// Tells two files apart that had the same number one after the other.
    pub(super) generation: u64,
    pub(super) kind: FileType,
    pub(super) path: OwnedFd,
    /// The flags of the file system that it is on.
    pub(super) forbidden: Forbidden,
    /// What the scheduled path keeps here.
    pub(crate) state: FileState,
    /// Let go after the descriptor: the last field.
    pub(crate) hold: Arc<Hold>,
}

impl Inode {
    /// Opens the file itself, whatever its name is now.
    ///
    /// # Errors
    ///
    /// What `open` says.
    pub(crate) fn reopen(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(descriptors()?, self.name(), flags, Mode::empty())?.into())
    }

    /// Its number in this mount.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    fn key(&self) -> Key {
        (self.device, self.number)
    }

    /// Its name in [`descriptors`].
    pub(super) fn name(&self) -> String {
        self.path.as_raw_fd().to_string()
    }

    /// Its attributes.
    ///
    /// # Errors
    ///
    /// What `fstat` says.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.path)?)
    }

    /// Whether it is a regular file.
    pub(super) fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }
}

/// One inode and how often the kernel was told of it.
#[derive(Debug)]
struct Known {
    inode: Arc<Inode>,
    lookups: u64,
    /// The directory and the name that it was last found by; none if it never was.
    place: Option<Place>,
}

/// A directory and a name in it.
pub(super) type Place = (u64, Box<OsStr>);

/// All that the kernel knows, and in which order it got to.
#[derive(Debug, Default)]
struct Table {
    known: HashMap<u64, Known>,
    /// Some may be gone again, and some here twice.
    order: VecDeque<u64>,
    numbers: Numbers,
}

/// All inodes that the kernel knows, by their number in this mount.
#[derive(Debug)]
pub(super) struct Inodes {
    root: Arc<Inode>,
    leaving: Arc<Leaving>,
    table: Mutex<Table>,
}

impl Inodes {
    /// Only the root is known.
    pub(super) fn new(root: OwnedFd) -> io::Result<Inodes> {
        let stat = rustix::fs::fstat(&root)?;
        let leaving = Arc::new(Leaving::default());
        let root = Arc::new(Inode {
            device: stat.st_dev,
            number: stat.st_ino,
            id: ROOT,
            generation: 0,
            kind: FileType::from_raw_mode(stat.st_mode),
            path: root,
            // This the mount itself forbids.
            forbidden: Forbidden::default(),
            state: FileState::default(),
            hold: leaving.hold(),
        });
        let numbers = Numbers::new(stat.st_dev);
        let table = Mutex::new(Table { numbers, ..Table::default() });
        Ok(Inodes { root, leaving, table })
    }

    /// The inode with this number; `ESTALE` if the kernel should not know it.
    pub(super) fn get(&self, id: u64) -> io::Result<Arc<Inode>> {
        if id == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        match self.table().known.get(&id) {
            Some(one) => Ok(Arc::clone(&one.inode)),
            None => Err(io::Error::from_raw_os_error(libc::ESTALE)),
        }
    }

    /// The inode behind `path`, of which the kernel is told now, and by which name.
    pub(super) fn found(
        &self,
        path: OwnedFd,
        stat: &Stat,
        place: Place,
        forbids: Forbids,
    ) -> Arc<Inode> {
        let mut table = self.table();
        let key = (stat.st_dev, stat.st_ino);
        let id = table.id_of(key);
        if let Some(one) = table.known.get_mut(&id) {
            one.lookups += 1;
            one.place = Some(place);
            one.inode.forbidden.add(forbids);
            return Arc::clone(&one.inode);
        }
        let inode = Arc::new(Inode {
            device: stat.st_dev,
            number: stat.st_ino,
            id,
            generation: table.numbers.generation(),
            kind: FileType::from_raw_mode(stat.st_mode),
            path,
            forbidden: Forbidden::new(forbids),
            state: FileState::default(),
            hold: self.leaving.hold(),
        });
        let known = Known { inode: Arc::clone(&inode), lookups: 1, place: Some(place) };
        table.numbers.told(key, id);
        table.known.insert(id, known);
        table.order.push_back(id);
        if table.order.len() > 2 * table.known.len() + ORDER_SLACK {
            let Table { known, order, .. } = &mut *table;
            order.retain(|id| known.contains_key(id));
        }
        inode
    }

    /// The kernel forgets `lookups` of the times that it was told; returns what it knows no more.
    pub(super) fn forget(&self, id: u64, lookups: u64) -> Option<Arc<Inode>> {
        let mut table = self.table();
        let one = table.known.get_mut(&id)?;
        one.lookups = one.lookups.saturating_sub(lookups);
        if one.lookups > 0 {
            return None;
        }
        let inode = table.known.remove(&id)?.inode;
        table.numbers.forgotten(inode.key());
        Some(inode)
    }

    /// Up to `count` of those that the kernel has known longest, and that nobody has open: what it
    /// may be asked to forget. Not directories, in which somebody may be.
    pub(super) fn oldest(&self, count: usize) -> Vec<Place> {
        let mut table = self.table();
        let mut places = Vec::new();
        for _ in 0..table.order.len() {
            let Some(id) = table.order.pop_front() else { break };
            let Some(one) = table.known.get_mut(&id) else { continue };
            let is_used = Arc::strong_count(&one.inode) > 1;
            if !is_used && one.inode.kind != FileType::Directory {
                places.extend(one.place.take());
            }
            table.order.push_back(id);
            if places.len() == count {
                break;
            }
        }
        places
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many inodes the kernel knows, besides the root.
    pub(super) fn len(&self) -> usize {
        self.table().known.len()
    }

    /// The number in this mount of a file of a device.
    pub(super) fn id_of(&self, device: u64, number: u64) -> u64 {
        self.table().id_of((device, number))
    }

    /// A number in this mount that no file had or will have.
    pub(super) fn count(&self) -> u64 {
        self.table().numbers.count()
    }
}

impl Table {
    fn id_of(&mut self, key: Key) -> u64 {
        let Table { known, numbers, .. } = self;
        let is_other = |id| known.get(&id).is_some_and(|one: &Known| one.inode.key() != key);
        numbers.id_of(key, is_other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inodes(folder: &std::path::Path) -> Inodes {
        Inodes::new(File::open(folder).unwrap().into()).unwrap()
    }

    #[test]
    fn an_inode_goes_when_it_is_forgotten_as_often_as_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "a").unwrap();
        let inodes = inodes(folder.path());
        let find = || {
            let path: OwnedFd = File::open(folder.path().join("a")).unwrap().into();
            let stat = rustix::fs::fstat(&path).unwrap();
            inodes.found(path, &stat, (ROOT, OsStr::new("a").into()), Forbids::default())
        };
        let (first, again) = (find(), find());
        assert!(Arc::ptr_eq(&first, &again));
        assert!(inodes.forget(first.id, 1).is_none());
        assert!(inodes.get(first.id).is_ok());
        assert!(inodes.forget(first.id, 1).is_some());
        assert_eq!(inodes.get(first.id).unwrap_err().raw_os_error(), Some(libc::ESTALE));
        assert_ne!(find().generation, first.generation);
        assert_eq!(inodes.len(), 1);
    }
}
