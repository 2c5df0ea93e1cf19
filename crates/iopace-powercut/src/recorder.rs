//! The recorder: a file system in memory, mounted by FUSE, below iopace.

mod answers;

use crate::faults::Failed;
use crate::node::{Change, Fill, Node, NodeId, NodeKind};
use crate::tree::Shared;
use answers::{attributes, carried_out, empty, entry, xattr};
use iopace_fuse::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReleaseFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, Session, SetxattrFlags, TimeOrNow, WriteFlags,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Nothing changes but by calls through the mount, which the kernel knows of.
const TTL: Duration = Duration::from_secs(3600);

/// The file system.
pub struct Recorder {
    tree: Shared,
    handles: AtomicU64,
}

impl Recorder {
    /// Mounts it.
    ///
    /// # Errors
    /// The error of the mount.
    pub fn mount(tree: &Shared, at: &Path) -> io::Result<BackgroundSession> {
        let recorder = Recorder { tree: tree.clone(), handles: AtomicU64::new(0) };
        Session::new(recorder, at, &Config::default())?.spawn()
    }

    fn handle(&self, id: NodeId) -> FileHandle {
        let handle = self.handles.fetch_add(1, Relaxed) + 1;
        self.tree.lock().faults.opened(id, handle);
        FileHandle(handle)
    }

    /// Gives a new node a name.
    fn make(&self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        let mut tree = self.tree.lock();
        if tree.child(parent.0, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let id = tree.add(node);
        tree.change(Change::Names(vec![(parent.0, name.to_owned(), Some(id))]));
        attributes(&tree, id).ok_or(Errno::ENOENT)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, is_directory: bool) -> Result<(), Errno> {
        let mut tree = self.tree.lock();
        let id = tree.child(parent.0, name).ok_or(Errno::ENOENT)?;
        if is_directory && !tree.nodes[&id].entries.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        tree.change(Change::Names(vec![(parent.0, name.to_owned(), None)]));
        Ok(())
    }
}

impl Filesystem for Recorder {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.tree.lock();
        let found = tree.child(parent.0, name).and_then(|id| attributes(&tree, id));
        entry(found.ok_or(Errno::ENOENT), reply);
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attributes(&self.tree.lock(), id.0) {
            Some(found) => reply.attr(&Duration::ZERO, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        id: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let mut tree = self.tree.lock();
        if let Some(size) = size {
            tree.change(Change::Truncate { node: id.0, size });
        }
        if size.is_none() || mode.is_some() || uid.is_some() || gid.is_some() {
            let mode = mode.map(|mode| mode & 0o7777);
            tree.change(Change::Attributes { node: id.0, mode, owner: (uid, gid) });
        }
        match attributes(&tree, id.0) {
            Some(found) => reply.attr(&Duration::ZERO, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readlink(&self, _: &Request, id: INodeNo, reply: ReplyData) {
        match self.tree.lock().nodes.get(&id.0).map(|node| &node.kind) {
            Some(NodeKind::Link(target)) => reply.data(target.as_encoded_bytes()),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let owner = (request.uid(), request.gid());
        let node = Node { owner, ..Node::new(NodeKind::Directory, mode & !umask) };
        entry(self.make(parent, name, node), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let owner = (request.uid(), request.gid());
        let node = Node { owner, ..Node::new(NodeKind::Link(target.into()), 0o777) };
        entry(self.make(parent, name, node), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(parent, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.remove(parent, name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut tree = self.tree.lock();
        let Some(id) = tree.child(parent.0, name) else { return reply.error(Errno::ENOENT) };
        let other = tree.child(new_parent.0, new_name);
        let replaced = other.filter(|_| flags.bits() & libc::RENAME_EXCHANGE != 0);
        if other.is_some_and(|other| replaced.is_none() && !tree.nodes[&other].entries.is_empty()) {
            return reply.error(Errno::ENOTEMPTY);
        }
        tree.change(Change::Names(vec![
            (parent.0, name.to_owned(), replaced),
            (new_parent.0, new_name.to_owned(), Some(id)),
        ]));
        reply.ok();
    }

    fn link(&self, _: &Request, id: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = self.tree.lock();
        tree.change(Change::Names(vec![(parent.0, name.to_owned(), Some(id.0))]));
        entry(attributes(&tree, id.0).ok_or(Errno::ENOENT), reply);
    }

    fn open(&self, _: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(self.handle(id.0), FopenFlags::empty());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: ReleaseFlags,
        reply: ReplyEmpty,
    ) {
        self.tree.lock().faults.closed(handle.0);
        reply.ok();
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let owner = (request.uid(), request.gid());
        match self.make(parent, name, Node { owner, ..Node::new(NodeKind::File, mode & !umask) }) {
            Ok(found) => {
                let handle = self.handle(found.ino.0);
                let asked_by = (found.ino, Generation(0));
                reply.created(&TTL, &found, asked_by, handle, FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let tree = self.tree.lock();
        let Some(node) = tree.nodes.get(&id.0) else { return reply.error(Errno::ENOENT) };
        let from = node.data.len().min(offset as usize);
        let to = node.data.len().min(from + size as usize);
        reply.data(&node.data[from..to]);
    }

    fn write(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut tree = self.tree.lock();
        let Some(node) = tree.nodes.get(&id.0) else { return reply.error(Errno::ENOENT) };
        let is_append = flags.0 & libc::O_APPEND != 0;
        let offset = if is_append { node.data.len() as u64 } else { offset };
        let fill = Fill::Data(Arc::from(data));
        let mut done = tree.try_change(Change::Fill { node: id.0, offset, fill });
        if flags.0 & libc::O_DSYNC != 0 && done.is_ok() {
            let full = flags.0 & libc::O_SYNC == libc::O_SYNC;
            let range = (offset, offset + data.len() as u64);
            done = tree.written(id.0, range, full, (handle.0, request.pid()));
        }
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(Failed) => reply.error(Errno::EIO),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        carried_out(self.tree.lock().sync(id.0, data_only, (handle.0, request.pid())), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let tree = self.tree.lock();
        let Some(node) = tree.nodes.get(&id.0) else { return reply.error(Errno::ENOENT) };
        let dots = [".", ".."].map(|name| (OsString::from(name), id.0));
        let all = dots.into_iter().chain(node.entries.clone()).enumerate();
        for (at, (name, id)) in all.skip(offset as usize) {
            let kind = attributes(&tree, id).map_or(FileType::Directory, |found| found.kind);
            if reply.add(INodeNo(id), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        carried_out(self.tree.lock().sync(id.0, data_only, (handle.0, request.pid())), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 30, 1 << 29, 1 << 29, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn setxattr(
        &self,
        _: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (name.to_owned(), Some(value.to_owned()));
        self.tree.lock().change(Change::Xattr { node: id.0, name, value });
        reply.ok();
    }

    fn getxattr(&self, _: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.tree.lock().nodes.get(&id.0).and_then(|node| node.xattrs.get(name)) {
            Some(value) => xattr(value, size, reply),
            None => reply.error(Errno::ENODATA),
        }
    }

    fn removexattr(&self, _: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let change = Change::Xattr { node: id.0, name: name.to_owned(), value: None };
        self.tree.lock().change(change);
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
        const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
        const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE | KEEP;
        let fill = match mode {
            0 => Fill::Room(len),
            PUNCH | ZERO => Fill::Zeroes(len),
            KEEP => return reply.ok(),
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        carried_out(self.tree.lock().try_change(Change::Fill { node: id.0, offset, fill }), reply);
    }
}
