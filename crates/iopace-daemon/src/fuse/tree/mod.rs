//! A directory, passed through: names, attributes, locks and space are those of the directory
//! below; the data of regular files is handed to a [`Data`].
//!
//! | file | what |
//! | --- | --- |
//! | `filesystem`, `wishes`, `replies` | the requests of the kernel, one function each |
//! | `names` | what a directory holds: lookup, create, remove, rename |
//! | `dir` | listing a directory |
//! | `attr`, `xattr` | attributes, plain and extended |
//! | `writing` | writes and copies, as far as the tree has a part in them |
//! | `open`, `space` | open files, and where they have space |
//! | `locks` | locks, which are taken below as well |
//! | `inode`, `known`, `numbers` | the files that the kernel knows, and by which numbers |
//! | `handle` | finding files again whose descriptors were closed |
//! | `forbids` | `nosuid`, `nodev` and `noexec` of file systems below |
//! | `trim` | having the kernel forget some |
//! | `credentials` | acting for a caller |

mod attr;
pub(crate) mod credentials;
pub(crate) mod data;
mod descriptors;
mod dir;
pub(crate) mod file_state;
mod filesystem;
mod forbids;
mod handle;
pub(crate) mod inode;
mod known;
mod locks;
mod names;
mod numbers;
mod open;
mod open_file;
pub(crate) mod open_shares;
mod replies;
mod space;
pub(crate) mod trim;
mod wishes;
mod writing;
mod xattr;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod hostile;
#[cfg(test)]
mod tests;

use super::caller::Caller;
use super::inflight_operations::InflightOperations;
use crate::limits::FUSE_KNOWN_MAX;
use data::Data;
use dir::Listing;
use inode::Inode;
use known::Inodes;
use locks::Locks;
use open::OpenFiles;
use open_shares::{OpenPlace, OpenShares};
use slab::Slab;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use trim::Trim;

/// How long the kernel may go without asking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// A name stays that of the same file for this long.
    pub(crate) names: Duration,
    /// Attributes stay as they are for this long, unless changed through the mount.
    pub(crate) attributes: Duration,
    /// A name that is not there does not appear for this long, unless through the mount.
    pub(crate) absent: Duration,
    /// Descriptors that this process may have: files that the kernel knows take a part of them.
    pub(crate) descriptors: usize,
    /// Files that the kernel may know before it is asked to forget some.
    pub(crate) known_max: usize,
    /// Nobody else changes files: cached data stays valid while a file is not open.
    pub(crate) alone: bool,
    /// Closing a file may tell something.
    pub(crate) flush: bool,
}

impl Options {
    /// For a mount over the directory itself: nobody else gets at it.
    pub(crate) fn alone() -> Options {
        let long = Duration::from_secs(3600);
        Options {
            names: long,
            attributes: long,
            absent: long,
            descriptors: trim::descriptors(),
            known_max: FUSE_KNOWN_MAX,
            alone: true,
            flush: true,
        }
    }

    /// For a mount elsewhere: others may change the directory below.
    pub(crate) fn shared() -> Options {
        let short = Duration::from_secs(1);
        Options {
            names: short,
            attributes: short,
            absent: Duration::ZERO,
            descriptors: trim::descriptors(),
            known_max: FUSE_KNOWN_MAX,
            alone: false,
            flush: true,
        }
    }
}

/// The directory that is mounted, and what the kernel knows of it.
pub(crate) struct Tree {
    data: Arc<dyn Data>,
    /// What is carried out for it now.
    inflight: Arc<InflightOperations>,
    options: Options,
    inodes: Inodes,
    files: Arc<OpenFiles>,
    open_shares: Arc<OpenShares>,
    listings: Mutex<Slab<Arc<Listing>>>,
    locks: Arc<Locks>,
    /// Whether what callers create can be made theirs.
    acts_for_others: bool,
    /// The device number of the mount itself, if it can be met below the directory.
    own_device: OnceLock<u64>,
    trim: Trim,
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (known, open) = (self.inodes_known(), self.files_open());
        let waiting = self.locks.waiting_count();
        let mut text = f.debug_struct("Tree");
        text.field("known", &known).field("open", &open).field("locks waiting", &waiting);
        text.finish_non_exhaustive()
    }
}

impl Tree {
    /// Passes through `directory`, which may be hidden below the mount.
    ///
    /// # Errors
    ///
    /// `/proc` is not mounted, or the directory has no attributes.
    pub(crate) fn new(
        directory: OwnedFd,
        (data, inflight): (Arc<dyn Data>, Arc<InflightOperations>),
        options: Options,
    ) -> io::Result<Tree> {
        descriptors::descriptors()?;
        descriptors::make_room(&directory, options.descriptors);
        let teller = (!options.alone).then(|| Arc::downgrade(&inflight));
        let files = Arc::<OpenFiles>::default();
        let inodes = Inodes::new(directory, trim::inodes_for(options.descriptors))?;
        let files_and_device = (Arc::clone(&files), inodes.device());
        let locks = Locks::new(options.descriptors, teller, files_and_device);
        Ok(Tree {
            data,
            inflight,
            options,
            inodes,
            files,
            open_shares: Arc::default(),
            listings: Mutex::default(),
            locks,
            acts_for_others: credentials::may_act_for_others(),
            own_device: OnceLock::new(),
            trim: Trim::new(options.known_max),
        })
    }

    /// Says which device number the mount got. It is then not entered through itself, where it lies
    /// below its own directory.
    pub(crate) fn mounted_as(&self, device: u64) {
        let _ = self.own_device.set(device);
    }

    /// How many inodes the kernel knows.
    pub(crate) fn inodes_known(&self) -> usize {
        self.inodes.len()
    }

    /// How many files are open.
    pub(crate) fn files_open(&self) -> usize {
        self.files.lock().len()
    }

    /// Has the file system below decide as if `from` had called there itself, see `credentials`.
    /// A daemon that may not act for others does it as its own user.
    fn act_for<T>(
        &self,
        from: Caller,
        files: &[&Inode],
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if self.acts_for_others {
            return credentials::act_for(from, files, act);
        }
        credentials::prepare_thread()?;
        act()
    }

    /// The mode of a file that `from` creates. Where it becomes the daemon's own, somebody else
    /// must not make a program of it that runs as the daemon's user.
    fn mode_for(&self, from: Caller, mode: u32) -> u32 {
        if self.acts_for_others || credentials::is_own(from) { mode } else { mode & !0o6000 }
    }

    /// A place for one more open file of the caller.
    fn open_place(&self, from: Caller) -> io::Result<OpenPlace> {
        let descriptors = self.inodes.part_of(self.options.descriptors);
        self.open_shares.place(from.uid, descriptors)
    }

    /// The inode with this number.
    fn inode(&self, id: iopace_fuse::INodeNo) -> io::Result<Arc<Inode>> {
        self.inodes.get(id.0)
    }

    /// The kernel forgets that it was told `lookups` times of `id`.
    fn forget(&self, id: u64, lookups: u64) {
        let Some(inode) = self.inodes.forget(id, lookups) else {
            return;
        };
        // It asks in nobody's name: a user who serves the file is not asked for its attributes, and
        // nothing is kept of it.
        if !inode.is_file() || inode.is_aside() {
            return;
        }
        // The kernel keeps what is open. So a file without names is gone from here on.
        if inode.stat().is_ok_and(|stat| stat.st_nlink == 0) {
            self.data.forgotten(&inode);
        }
    }
}

/// A tree that the kernel asks: hands the requests of a session to it.
#[derive(Clone)]
pub(crate) struct Served(pub(crate) Arc<Tree>);

fn refused(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}
