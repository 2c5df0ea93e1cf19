//! An inode of the mount, held by a descriptor that opens nothing (`O_PATH`).
//!
//! Such a descriptor keeps the inode below from being freed, so its number is not given to another
//! file as long as the descriptor is there, whoever removes it by whatever way. Which inodes have
//! one: see `known`.

use super::descriptors::descriptors;
use super::file_state::FileState;
use super::forbids::{Forbidden, Forbids};
use super::handle::Origin;
use super::locks::FileLocks;
use super::numbers::Key;
use crate::io::pending_space::Hold;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// A file of any type that the kernel knows.
#[derive(Debug)]
pub(crate) struct Inode {
    /// The device that it is on, as `st_dev`.
    pub(crate) device: u64,
    /// Its number there, as `st_ino`.
    pub(crate) number: u64,
    /// The number by which the kernel asks for it.
    pub(super) id: u64,
    /// The number that it shows in this mount: the same, unless the kernel still knows a file by it
    /// that was removed below.
    pub(super) shown: u64,
    /// Tells two files apart that had the same number one after the other.
    pub(super) generation: u64,
    pub(super) kind: FileType,
    pub(super) path: OwnedFd,
    /// The mount below that it was found through.
    pub(super) origin: Arc<Origin>,
    /// The flags of the file system that it is on.
    pub(super) forbidden: Forbidden,
    /// The holders of its locks.
    pub(super) locks: FileLocks,
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

    pub(super) fn key(&self) -> Key {
        (self.device, self.number)
    }

    /// Whether its data does not pass the device.
    pub(crate) fn is_aside(&self) -> bool {
        self.forbidden.get().has(Forbids::SCHEDULING)
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
