//! What a directory holds: looking up, creating, removing and renaming.

use super::super::caller::Caller;
use super::attr::to_attr;
use super::credentials::set_umask;
use super::descriptors::descriptors;
use super::forbids::Forbids;
use super::handle::Origin;
use super::inode::Inode;
use super::{Tree, refused};
use iopace_fuse::{FileAttr, INodeNo};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A file that the kernel is told of.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) inode: Arc<Inode>,
    pub(super) attr: FileAttr,
}

/// What is to be created, besides regular files that are opened at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum New<'a> {
    Directory { mode: u32 },
    Node { mode: u32, device: u32 },
    Symlink { target: &'a Path },
}

impl Tree {
    /// The file of this name, of which the kernel is told now.
    pub(super) fn lookup(&self, parent: INodeNo, name: &OsStr) -> io::Result<Entry> {
        self.find(&*self.inode(parent)?, name)
    }

    /// The same, with the directory at hand.
    pub(super) fn find(&self, parent: &Inode, name: &OsStr) -> io::Result<Entry> {
        check(name)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The usual case in one call: nothing is mounted there, so it is not the mount itself.
        let near = ResolveFlags::NO_XDEV;
        let open = || Ok(rustix::fs::openat2(&parent.path, name, flags, Mode::empty(), near)?);
        match self.inodes.with_room(open) {
            Ok(path) => return self.known(path, parent),
            // A border, or a kernel before 5.6.
            Err(error) if is_border(&error) => {}
            Err(error) => return Err(error),
        }
        let open = || Ok(rustix::fs::openat(&parent.path, name, flags, Mode::empty())?);
        let path = self.inodes.with_room(open)?;
        if let Some(&own) = self.own_device.get() {
            // Asking the mount for attributes would be asking ourselves.
            let known = rustix::fs::statx(
                &path,
                "",
                AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC,
                StatxFlags::TYPE,
            )?;
            if rustix::fs::makedev(known.stx_dev_major, known.stx_dev_minor) == own {
                return Err(refused(libc::ELOOP));
            }
        }
        let forbids = Forbids::of(&path);
        let origin = self.inodes.origin_of(path.as_fd());
        self.known_from(path, &origin, forbids)
    }

    /// The file behind a descriptor, on the same mount below as its directory, of which the kernel
    /// is told now.
    pub(super) fn known(&self, path: OwnedFd, parent: &Inode) -> io::Result<Entry> {
        self.known_from(path, &parent.origin, parent.forbidden.get())
    }

    /// The same, on any mount below.
    fn known_from(
        &self,
        path: OwnedFd,
        origin: &Arc<Origin>,
        forbids: Forbids,
    ) -> io::Result<Entry> {
        let stat = rustix::fs::fstat(&path)?;
        let is_own = stat.st_dev == self.inodes.device();
        // What is mounted here is what was meant, whoever serves it.
        let forbids = if is_own { forbids.without(Forbids::SCHEDULING) } else { forbids };
        let inode = self.inodes.found(path, &stat, origin, forbids);
        self.trim_if_many();
        let attr = to_attr(&inode, &stat);
        Ok(Entry { inode, attr })
    }

    /// Creates what is not a regular file that is opened at once, in the name of the caller.
    pub(super) fn make(
        &self,
        from: Caller,
        umask: u32,
        parent: INodeNo,
        name: &OsStr,
        new: New<'_>,
    ) -> io::Result<Entry> {
        check(name)?;
        let parent = self.inode(parent)?;
        let folder = parent.path.as_fd();
        let make = || {
            match new {
                New::Directory { mode } => {
                    rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(mode & 0o7777))?;
                }
                New::Node { mode, device } => {
                    let mode = self.mode_for(from, mode);
                    let kind = FileType::from_raw_mode(mode);
                    let mode = Mode::from_raw_mode(mode & 0o7777);
                    rustix::fs::mknodat(folder, name, kind, mode, device.into())?;
                }
                New::Symlink { target } => rustix::fs::symlinkat(target, folder, name)?,
            }
            Ok(())
        };
        parent.hold.with_space(|| {
            let make = || {
                set_umask(umask);
                make()
            };
            self.act_for(from, &[&parent], make)
        })?;
        self.find(&parent, name)
    }

    /// Gives a file another name.
    pub(super) fn link(
        &self,
        from: Caller,
        id: INodeNo,
        parent: INodeNo,
        name: &OsStr,
    ) -> io::Result<Entry> {
        check(name)?;
        let (inode, parent) = (self.inode(id)?, self.inode(parent)?);
        let flags = AtFlags::SYMLINK_FOLLOW;
        let (folder, own) = (descriptors()?, inode.name());
        let link = || Ok(rustix::fs::linkat(folder, &own, &parent.path, name, flags)?);
        parent.hold.with_space(|| self.act_for(from, &[&inode, &parent], link))?;
        self.find(&parent, name)
    }

    /// Takes a name away: of a directory (`AtFlags::REMOVEDIR`) or of anything else.
    pub(super) fn remove(
        &self,
        from: Caller,
        (parent, name): (INodeNo, &OsStr),
        flags: AtFlags,
    ) -> io::Result<()> {
        check(name)?;
        let parent = self.inode(parent)?;
        let named = self.named(&parent, name);
        let files: Vec<&Inode> =
            [Some(&parent), named.as_ref()].into_iter().flatten().map(|inode| &**inode).collect();
        self.act_for(from, &files, || Ok(rustix::fs::unlinkat(&parent.path, name, flags)?))?;
        has_lost_a_name(named);
        Ok(())
    }

    /// The file of this name, if the kernel knows it.
    fn named(&self, parent: &Inode, name: &OsStr) -> Option<Arc<Inode>> {
        let stat = rustix::fs::statat(&parent.path, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        self.inodes.get(self.inodes.id_of(stat.st_dev, stat.st_ino)).ok()
    }

    /// Renames, with the flags of `renameat2`.
    pub(super) fn rename(
        &self,
        from: Caller,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: u32,
    ) -> io::Result<()> {
        check(name)?;
        check(new_name)?;
        let (old, new) = (self.inode(parent)?, self.inode(new_parent)?);
        let flags = RenameFlags::from_bits_retain(flags);
        let (moved, named) = (self.named(&old, name), self.named(&new, new_name));
        let all = [Some(&old), Some(&new), moved.as_ref(), named.as_ref()];
        let files: Vec<&Inode> = all.into_iter().flatten().map(|inode| &**inode).collect();
        let rename = || {
            // `RENAME_WHITEOUT` creates a file where the old name was.
            set_umask(0);
            rustix::fs::renameat_with(&old.path, name, &new.path, new_name, flags)?;
            Ok(())
        };
        new.hold.with_space(|| self.act_for(from, &files, rename))?;
        has_lost_a_name(named);
        Ok(())
    }

    /// Where a symbolic link points to.
    pub(super) fn target(&self, id: INodeNo) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.inode(id)?.path, "", Vec::new())?.into_bytes())
    }
}

/// Whether another file system begins there, or the kernel cannot tell.
fn is_border(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::ENOSYS | libc::EPERM))
}

/// A file has one name less. If that was the last one, its space comes free when it is closed.
fn has_lost_a_name(inode: Option<Arc<Inode>>) {
    if let Some(inode) = inode.filter(|inode| inode.stat().is_ok_and(|stat| stat.st_nlink == 0)) {
        inode.hold.leaves();
    }
}

/// The kernel sends single names only. Anything else would lead out of the directory.
pub(super) fn check(name: &OsStr) -> io::Result<()> {
    let name = name.as_bytes();
    if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
        return Err(refused(libc::EINVAL));
    }
    Ok(())
}
