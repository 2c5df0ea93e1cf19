//! Giving replies: what was found, or the error.

use super::super::data::Caller;
use super::names::Entry;
use super::xattr::Value;
use super::{Options, Served};
use fuser::{FileAttr, Generation, Request};
use fuser::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use std::io;

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
