//! Giving replies: what was found, or the error.

use super::super::data::{Caller, Kind};
use super::attr::nothing;
use super::names::Entry;
use super::open::Handle;
use super::xattr::Value;
use super::{Options, Served, Tree};
use fuser::{FileAttr, Generation, INodeNo, Request};
use fuser::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;

/// What an operation counts as in limits, see [`Served::turn`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// It reads; nobody else waits for it meanwhile.
    Look,
    /// It changes a file or directory, which the kernel keeps locked meanwhile.
    Change(INodeNo),
    /// It reads a directory, which is kept locked.
    LookAtNames,
    /// It changes a directory, which is kept locked.
    ChangeNames,
}

/// A reply that may be an error.
pub(super) trait Refuse {
    fn refuse(self, error: io::Error);
}

macro_rules! refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, error: io::Error) {
                self.error(error.into());
            }
        })*
    };
}

refuse!(ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty);
refuse!(ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr);

impl Served {
    /// Who asks, for something that is passed through.
    pub(super) fn passed(&self, request: &Request) -> Caller {
        let from = caller(request);
        self.0.data.passed_through(from);
        from
    }

    /// Has `run` carry out an operation that may need the disk: at once, or, if the caller's group
    /// has a limit, when that lets it go on. `names` are what the request has borrowed.
    pub(super) fn turn<R: Refuse + Send + 'static, const N: usize>(
        &self,
        request: &Request,
        turn: Turn,
        names: [&OsStr; N],
        reply: R,
        run: impl FnOnce(&Tree, Caller, [&OsStr; N], R) + Send + 'static,
    ) {
        let from = self.passed(request);
        let Some(pays) = self.0.data.limited(from) else {
            return run(&self.0, from, names, reply);
        };
        // What waits in a device must not keep alive what keeps the device alive.
        let (tree, names) = (Arc::downgrade(&self.0), names.map(OsStr::to_owned));
        let operation = move |may: Result<(), fuser::Errno>| match (may, tree.upgrade()) {
            (Ok(()), Some(tree)) => {
                run(&tree, from, names.each_ref().map(OsString::as_os_str), reply);
            }
            (Ok(()), None) => reply.refuse(io::Error::from_raw_os_error(libc::EIO)),
            (Err(errno), _) => reply.refuse(io::Error::from_raw_os_error(errno.code())),
        };
        self.0.data.hold(from, pays, self.kind(turn), Box::new(operation));
    }

    fn kind(&self, turn: Turn) -> Kind {
        let is_file = |id| self.0.inode(id).is_ok_and(|inode| inode.is_file());
        match turn {
            Turn::Look => Kind { changes: false, locks: false },
            Turn::Change(id) => Kind { changes: true, locks: !is_file(id) },
            Turn::LookAtNames => Kind { changes: false, locks: true },
            Turn::ChangeNames => Kind { changes: true, locks: true },
        }
    }
}

/// Who asks.
pub(super) fn caller(request: &Request) -> Caller {
    Caller { pid: request.pid(), uid: request.uid(), gid: request.gid() }
}

/// Gives what was found in the way of `give`, or the error.
pub(super) fn give<T, R: Refuse>(found: io::Result<T>, reply: R, give: impl FnOnce(R, T)) {
    match found {
        Ok(found) => give(reply, found),
        Err(error) => reply.refuse(error),
    }
}

/// A file that the kernel is told of.
pub(super) fn entry(options: &Options, found: io::Result<Entry>, reply: ReplyEntry) {
    give(found, reply, |reply, Entry { inode, attr }| {
        let generation = Generation(inode.generation);
        reply.entry_with_ttls(&options.attributes, &options.names, &attr, generation);
    });
}

/// A file that was looked for.
pub(super) fn found(options: &Options, found: io::Result<Entry>, reply: ReplyEntry) {
    let missing = found.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOENT));
    if missing && !options.absent.is_zero() {
        // Number 0 says that there is nothing, and for how long.
        reply.entry(&options.absent, &nothing(), Generation(0));
    } else {
        entry(options, found, reply);
    }
}

/// A file that was created and opened.
pub(super) fn created(options: &Options, made: io::Result<(Entry, Handle)>, reply: ReplyCreate) {
    give(made, reply, |reply, (Entry { inode, attr }, handle)| {
        let time = options.names.min(options.attributes);
        let generation = Generation(inode.generation);
        reply.created(&time, &attr, generation, handle.id, handle.flags);
    });
}

/// Attributes.
pub(super) fn attr(options: &Options, found: io::Result<FileAttr>, reply: ReplyAttr) {
    give(found, reply, |reply, attr| reply.attr(&options.attributes, &attr));
}

/// Nothing but that it is done.
pub(super) fn done(done: io::Result<()>, reply: ReplyEmpty) {
    give(done, reply, |reply, ()| reply.ok());
}

/// An extended attribute, or their names.
pub(super) fn value(found: io::Result<Value>, reply: ReplyXattr) {
    give(found, reply, |reply, value| match value {
        Value::Size(size) => reply.size(size as u32),
        Value::Bytes(bytes) => reply.data(&bytes),
    });
}
