//! The calls of a workload, made through the mount and noted down.

use super::{After, Op, Step, WriteMethod};
use crate::bench::Bench;
use crate::cut::Sync;
use crate::node::{Change, Fill, NodeId, SECTOR};
use crate::promise::Calls;
use rustix::fs::{CWD, FallocateFlags, RenameFlags, XattrFlags, renameat_with};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A direct write is of whole pages, wherever it is.
const PAGE: usize = 4096;

/// The program that makes the calls.
pub(super) struct Caller<'a> {
    bench: &'a Bench,
    /// The folder of the workload, through the mount and in the tree.
    at: PathBuf,
    below: PathBuf,
    top: NodeId,
    /// Content of the next write.
    byte: u8,
    pub(super) calls: Calls,
}

impl<'a> Caller<'a> {
    pub(super) fn new(bench: &'a Bench, name: &str, top: NodeId) -> Caller<'a> {
        let (at, below) = (bench.at.join(name), PathBuf::from(name));
        Caller { bench, at, below, top, byte: 0x40, calls: Calls::default() }
    }

    fn node(&self, name: &str) -> io::Result<NodeId> {
        let found = self.bench.tree.lock().find(&self.below.join(name));
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn parent(&self, name: &str) -> io::Result<(NodeId, String)> {
        match name.rsplit_once('/') {
            Some((parent, name)) => Ok((self.node(parent)?, name.to_owned())),
            None => Ok((self.top, name.to_owned())),
        }
    }

    fn stamp(&self, node: NodeId) -> u64 {
        self.bench.tree.lock().nodes.get(&node).map_or(0, |node| node.stamp)
    }

    /// Makes a call, and says during which events it was.
    fn call<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<(T, (usize, usize))> {
        let begin = self.bench.tree.moment();
        let result = call()?;
        Ok((result, (begin, self.bench.tree.moment())))
    }

    pub(super) fn step(&mut self, (op, after): Step) -> io::Result<()> {
        self.byte += 0x10;
        // Where names change is known before they do.
        let (file, names) = targets(op);
        let mut directories = Vec::new();
        for name in names {
            let (directory, _) = self.parent(name)?;
            let path = Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
            directories.push((directory, path));
        }
        directories.dedup();
        self.operate(op)?;
        match after {
            After::Nothing => Ok(()),
            After::Fsync | After::Fdatasync => {
                let file = file.ok_or(io::Error::from_raw_os_error(libc::ENOENT))?;
                self.sync(self.node(file)?, Path::new(file), after == After::Fdatasync)
            }
            After::Directory => {
                directories.into_iter().try_for_each(|(node, path)| self.sync(node, &path, false))
            }
        }
    }

    fn sync(&mut self, node: NodeId, path: &Path, data_only: bool) -> io::Result<()> {
        let file = File::open(self.at.join(path))?;
        let stamp = self.stamp(node);
        let sync = || if data_only { file.sync_data() } else { file.sync_all() };
        let ((), during) = self.call(sync)?;
        self.calls.synced(Sync::all(node, data_only), during, stamp);
        Ok(())
    }

    fn operate(&mut self, op: Op) -> io::Result<()> {
        let at = self.at.clone();
        let path = |name: &str| at.join(name);
        match op {
            Op::Create(name) => self.make(name, || File::create_new(path(name)).map(drop)),
            Op::Mkdir(name) => self.make(name, || fs::create_dir(path(name))),
            Op::Symlink(name) => self.make(name, || symlink("target", path(name))),
            Op::Link(from, to) => self.make(to, || fs::hard_link(path(from), path(to))),
            Op::Write(name) => {
                self.make(name, || File::create_new(path(name)).map(drop))?;
                self.write(name, WriteMethod::Buffered, 0, 2 * SECTOR)
            }
            Op::Overwrite(name, way) => self.write(name, way, 0, 2 * SECTOR),
            Op::Append(name) => {
                let len = fs::metadata(path(name))?.len();
                self.write(name, WriteMethod::Buffered, len, 2 * SECTOR)
            }
            Op::Rename(from, to) => self.rename((from, to), false),
            Op::Exchange(from, to) => self.rename((from, to), true),
            Op::Unlink(name) => {
                let (directory, last) = self.parent(name)?;
                let ((), during) = self.call(|| fs::remove_file(path(name)))?;
                let names = vec![(directory, last.into(), None)];
                self.calls.changed(Change::Names(names), during);
                Ok(())
            }
            _ => self.reshape(op),
        }
    }

    /// Changes of a file that is there and that write nothing.
    fn reshape(&mut self, op: Op) -> io::Result<()> {
        let (name, _) = targets(op);
        let name = name.ok_or(io::ErrorKind::NotFound)?;
        let (node, path) = (self.node(name)?, self.at.join(name));
        let (change, during) = match op {
            Op::Truncate(_, size) => {
                let file = OpenOptions::new().write(true).open(path)?;
                let ((), during) = self.call(|| file.set_len(size))?;
                (Change::Truncate { node, size }, during)
            }
            Op::Allocate(_, mode) => {
                let file = OpenOptions::new().write(true).open(path)?;
                let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
                let (offset, len) = (SECTOR as u64, 4 * SECTOR as u64);
                let call = || Ok(rustix::fs::fallocate(&file, flags, offset, len)?);
                let ((), during) = self.call(call)?;
                let fill = if mode == 0 { Fill::Room(len) } else { Fill::Zeroes(len) };
                (Change::Fill { node, offset, fill }, during)
            }
            Op::Xattr(_) => {
                let (name, value) = ("user.note", vec![self.byte; 20]);
                let set = || Ok(rustix::fs::setxattr(&path, name, &value, XattrFlags::empty())?);
                let ((), during) = self.call(set)?;
                (Change::Xattr { node, name: name.into(), value: Some(value) }, during)
            }
            _ => {
                let mode = u32::from(self.byte) & 0o77 | 0o600;
                let set = || fs::set_permissions(&path, fs::Permissions::from_mode(mode));
                let ((), during) = self.call(set)?;
                (Change::Attributes { node, mode: Some(mode), owner: (None, None) }, during)
            }
        };
        self.calls.changed(change, during);
        Ok(())
    }

    /// A new name.
    fn make(&mut self, name: &str, make: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let (directory, last) = self.parent(name)?;
        let ((), during) = self.call(make)?;
        let node = Some(self.node(name)?);
        self.calls.changed(Change::Names(vec![(directory, last.into(), node)]), during);
        Ok(())
    }

    fn rename(&mut self, (from, to): (&str, &str), exchange: bool) -> io::Result<()> {
        let ((old, name), (new, new_name)) = (self.parent(from)?, self.parent(to)?);
        let node = self.node(from)?;
        let other = if exchange { Some(self.node(to)?) } else { None };
        if Some(node) == self.node(to).ok() {
            // Two names of one file: nothing happens.
            return Err(io::ErrorKind::NotFound.into());
        }
        let flags = if exchange { RenameFlags::EXCHANGE } else { RenameFlags::empty() };
        let (from, to) = (self.at.join(from), self.at.join(to));
        let ((), during) = self.call(|| Ok(renameat_with(CWD, &from, CWD, &to, flags)?))?;
        let names = vec![(old, name.into(), other), (new, new_name.into(), Some(node))];
        self.calls.changed(Change::Names(names), during);
        Ok(())
    }

    fn write(&mut self, name: &str, way: WriteMethod, offset: u64, len: usize) -> io::Result<()> {
        let (node, path) = (self.node(name)?, self.at.join(name));
        let (opened, flags) = match way {
            WriteMethod::Buffered => (0, 0),
            WriteMethod::Opened(opened) => (opened, 0),
            WriteMethod::Flagged(opened, flags) => (opened, flags),
        };
        let len = if opened & libc::O_DIRECT != 0 { PAGE } else { len };
        let offset = if opened & libc::O_APPEND != 0 { fs::metadata(&path)?.len() } else { offset };
        let file = OpenOptions::new().write(true).custom_flags(opened).open(path)?;
        let data = vec![self.byte; len];
        let ((), during) = self.call(|| {
            if flags == 0 {
                return file.write_all_at(&data, offset);
            }
            let flags = rustix::io::ReadWriteFlags::from_bits_retain(flags);
            let written = rustix::io::pwritev2(&file, &[IoSlice::new(&data)], offset, flags)?;
            if written == len { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
        })?;
        let stamp = self.stamp(node);
        let fill = Fill::Data(Arc::from(data));
        self.calls.changed(Change::Fill { node, offset, fill }, during);
        let flags = flags.cast_signed();
        let full = opened & libc::O_SYNC == libc::O_SYNC || flags & libc::RWF_SYNC != 0;
        if full || opened & libc::O_DSYNC != 0 || flags & libc::RWF_DSYNC != 0 {
            let range = Some(offset..offset + len as u64);
            self.calls.synced(Sync { node, data_only: !full, range }, during, stamp);
        }
        Ok(())
    }
}

/// The file that an operation is about, and the names that change.
fn targets(op: Op) -> (Option<&'static str>, Vec<&'static str>) {
    match op {
        Op::Create(name) | Op::Write(name) | Op::Mkdir(name) => (Some(name), vec![name]),
        Op::Link(_, to) => (Some(to), vec![to]),
        Op::Rename(from, to) | Op::Exchange(from, to) => (Some(to), vec![from, to]),
        Op::Unlink(name) | Op::Symlink(name) => (None, vec![name]),
        Op::Overwrite(name, _)
        | Op::Append(name)
        | Op::Truncate(name, _)
        | Op::Allocate(name, _)
        | Op::Xattr(name)
        | Op::Chmod(name) => (Some(name), vec![name]),
    }
}
