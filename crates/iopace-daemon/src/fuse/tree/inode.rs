//! The inodes that the kernel knows, each held by a descriptor that opens nothing (`O_PATH`).
//!
//! Such a descriptor keeps the inode below from being freed, so its number is not given to another
//! file as long as the kernel knows it, whoever removes it by whatever way.

use super::super::data::FileState;
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

/// Set in the numbers of files of other devices than that of the root.
const FOREIGN: u64 = 1 << 62;

/// Bits of such a number that are the file's own number.
const FOREIGN_BITS: u32 = 48;

/// Most other devices with numbers of their own; files of any further are counted.
const FOREIGN_DEVICES: usize = (1 << (62 - FOREIGN_BITS)) - 1;

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
    #[cfg_attr(not(test), expect(dead_code, reason = "only tests look at it"))]
    pub(crate) number: u64,
    /// Its number in this mount.
    pub(super) id: u64,
    /// Tells two files apart that had the same number one after the other.
    pub(super) generation: u64,
    pub(super) kind: FileType,
    pub(super) path: OwnedFd,
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
}

/// All inodes that the kernel knows, by their number in this mount.
#[derive(Debug)]
pub(super) struct Inodes {
    root: Arc<Inode>,
    leaving: Arc<Leaving>,
    table: Mutex<Table>,
    numbers: Mutex<Numbers>,
}

/// How files of other devices get numbers.
#[derive(Debug, Default)]
struct Numbers {
    devices: Vec<u64>,
    counted: u64,
    generation: u64,
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
            state: FileState::default(),
            hold: leaving.hold(),
        });
        Ok(Inodes { root, leaving, table: Mutex::default(), numbers: Mutex::default() })
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
    pub(super) fn found(&self, path: OwnedFd, stat: &Stat, place: Place) -> Arc<Inode> {
        let id = self.id_of(stat.st_dev, stat.st_ino);
        let mut table = self.table();
        if let Some(one) = table.known.get_mut(&id) {
            one.lookups += 1;
            one.place = Some(place);
            return Arc::clone(&one.inode);
        }
        let inode = Arc::new(Inode {
            device: stat.st_dev,
            number: stat.st_ino,
            id,
            generation: self.generation(),
            kind: FileType::from_raw_mode(stat.st_mode),
            path,
            state: FileState::default(),
            hold: self.leaving.hold(),
        });
        let known = Known { inode: Arc::clone(&inode), lookups: 1, place: Some(place) };
        table.known.insert(id, known);
        table.order.push_back(id);
        if table.order.len() > 2 * table.known.len() + ORDER_SLACK {
            let Table { known, order } = &mut *table;
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
        table.known.remove(&id).map(|one| one.inode)
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
        if device == self.root.device && number > ROOT && number < FOREIGN {
            return number;
        }
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let place = numbers.devices.iter().position(|&known| known == device);
        let place = place.unwrap_or_else(|| {
            if numbers.devices.len() < FOREIGN_DEVICES {
                numbers.devices.push(device);
                numbers.devices.len() - 1
            } else {
                FOREIGN_DEVICES
            }
        });
        if place < FOREIGN_DEVICES && number >> FOREIGN_BITS == 0 {
            return FOREIGN | (place as u64) << FOREIGN_BITS | number;
        }
        drop(numbers);
        self.count()
    }

    /// A number in this mount that no file had or will have.
    pub(super) fn count(&self) -> u64 {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.counted += 1;
        FOREIGN | (FOREIGN_DEVICES as u64) << FOREIGN_BITS | numbers.counted
    }

    fn generation(&self) -> u64 {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.generation += 1;
        numbers.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inodes(folder: &std::path::Path) -> Inodes {
        Inodes::new(File::open(folder).unwrap().into()).unwrap()
    }

    #[test]
    fn numbers_of_other_devices_are_stable_and_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let inodes = inodes(folder.path());
        let own = inodes.root.device;
        assert_eq!(inodes.id_of(own, 12), 12);
        let ids = [(own, 1), (own + 1, 12), (own + 2, 12), (own, FOREIGN | 12)]
            .map(|(device, number)| inodes.id_of(device, number));
        assert!(ids.iter().all(|&id| id & FOREIGN != 0));
        assert!((1..ids.len()).all(|at| !ids[..at].contains(&ids[at])), "{ids:x?}");
        assert_eq!(inodes.id_of(own + 2, 12), ids[2]);
    }

    #[test]
    fn an_inode_goes_when_it_is_forgotten_as_often_as_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "a").unwrap();
        let inodes = inodes(folder.path());
        let find = || {
            let path: OwnedFd = File::open(folder.path().join("a")).unwrap().into();
            let stat = rustix::fs::fstat(&path).unwrap();
            inodes.found(path, &stat, (ROOT, OsStr::new("a").into()))
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
