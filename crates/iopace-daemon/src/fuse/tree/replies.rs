//! Giving replies: what was found, or the error.

use super::super::caller::{Caller, Deferred};
use super::super::inflight_operations::{Late, Refuse, Touch};
use super::attr::nothing;
use super::data::Kind;
use super::inode::Inode;
use super::names::Entry;
use super::open::Handle;
use super::xattr::Value;
use super::{Served, Tree};
use iopace_fuse::{Errno, FileAttr, FileHandle, Generation, INodeNo, Request};
use iopace_fuse::{ReplyAttr, ReplyCreate, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen};
use iopace_fuse::{ReplyStatfs, ReplyXattr};
use rustix::fs::StatVfs;
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
    /// It changes a name in a directory, which is kept locked.
    ChangeName(INodeNo),
    /// It gives a file another name in a directory, which is kept locked.
    Link(INodeNo, INodeNo),
    /// It changes a name in each of two directories.
    ChangeNames(INodeNo, INodeNo),
}

impl Turn {
    fn touch(self) -> Touch {
        match self {
            Turn::Look | Turn::LookAtNames => Touch::NOTHING,
            Turn::Change(id) | Turn::ChangeName(id) => Touch::one(id.0),
            Turn::ChangeNames(one, other) | Turn::Link(one, other) => Touch::two(one.0, other.0),
        }
    }

    /// Of the names of a request, those that may change, each in its directory.
    fn changed(self, names: &[&OsStr]) -> Vec<(u64, OsString)> {
        let parents = match self {
            Turn::ChangeName(parent) | Turn::Link(_, parent) => vec![parent],
            Turn::ChangeNames(from, to) => vec![from, to],
            Turn::Look | Turn::Change(_) | Turn::LookAtNames => Vec::new(),
        };
        let own = |(parent, name): (INodeNo, &&OsStr)| (parent.0, (*name).to_owned());
        parents.into_iter().zip(names).map(own).collect()
    }
}

/// An operation that waits for its turn.
struct Waiting<R, F> {
    reply: R,
    run: F,
}

impl<R: Refuse + Send, F: FnOnce(R, Result<(), Errno>) + Send> Deferred for Waiting<R, F> {
    fn is_interrupted(&self) -> bool {
        self.reply.is_interrupted()
    }

    fn end(self: Box<Self>, may: Result<(), Errno>) {
        (self.run)(self.reply, may);
    }
}

impl Served {
    /// Has `run` carry out what is passed through whatever the caller's limits.
    pub(super) fn pass<R: Refuse + Send + 'static>(
        &self,
        request: &Request,
        reply: R,
        run: impl FnOnce(&Tree, Caller, &Late<'_, R>),
    ) {
        let from = caller(request);
        self.0.data.passed_through(from);
        run(&self.0, from, &self.0.inflight.begin_look(from.pid, reply));
    }

    /// Has `run` carry out an operation that may need the disk: at once, or, if the caller's group
    /// has a limit, when that lets it go on. `names` are what the request has borrowed.
    pub(super) fn turn<R: Refuse + Send + 'static, const N: usize>(
        &self,
        request: &Request,
        turn: Turn,
        names: [&OsStr; N],
        reply: R,
        run: impl FnOnce(&Tree, Caller, [&OsStr; N], &Late<'_, R>) + Send + 'static,
    ) {
        let from = caller(request);
        self.0.data.passed_through(from);
        let Some(pays) = self.0.data.limited(from) else {
            return carry_out(&self.0, (from, turn), names, reply, run);
        };
        // What waits in a device must not keep alive what keeps the device alive.
        let (tree, names) = (Arc::downgrade(&self.0), names.map(OsStr::to_owned));
        let run = move |reply: R, may: Result<(), Errno>| match (may, tree.upgrade()) {
            (Ok(()), Some(tree)) => {
                let names = names.each_ref().map(OsString::as_os_str);
                carry_out(&tree, (from, turn), names, reply, run);
            }
            (Ok(()), None) => reply.refuse(Errno::EIO),
            (Err(errno), _) => reply.refuse(errno),
        };
        self.0.data.hold(from, pays, self.kind(turn), Box::new(Waiting { reply, run }));
    }

    fn kind(&self, turn: Turn) -> Kind {
        let is_file = |id| self.0.inode(id).is_ok_and(|inode| inode.is_file());
        match turn {
            Turn::Look => Kind { changes: false, locks: false },
            Turn::Change(id) => Kind { changes: true, locks: !is_file(id) },
            Turn::LookAtNames => Kind { changes: false, locks: true },
            Turn::ChangeName(_) | Turn::Link(..) | Turn::ChangeNames(..) => {
                Kind { changes: true, locks: true }
            }
        }
    }
}

/// Has `run` carry out an operation now, or when what was given up has come to pass. Its caller may
/// be given up meanwhile.
fn carry_out<R: Refuse + Send + 'static, const N: usize>(
    tree: &Arc<Tree>,
    (from, turn): (Caller, Turn),
    names: [&OsStr; N],
    reply: R,
    run: impl FnOnce(&Tree, Caller, [&OsStr; N], &Late<'_, R>) + Send + 'static,
) {
    let late = match tree.inflight.begin(from, turn.touch(), reply) {
        Ok(late) => late,
        Err(reply) => {
            let (weak, names) = (Arc::downgrade(tree), names.map(OsStr::to_owned));
            let work = move |reply: R| {
                let Some(tree) = weak.upgrade() else { return reply.refuse(Errno::EIO) };
                let names = names.each_ref().map(OsString::as_os_str);
                carry_out(&tree, (from, turn), names, reply, run);
            };
            return tree.inflight.park(from, turn.touch(), reply, work);
        }
    };
    run(tree, from, names, &late);
    if late.is_untold() {
        let changed = turn.changed(&names);
        drop(late);
        tree.inflight.ask_anew(from.uid, changed);
    }
}

/// Who asks.
pub(super) fn caller(request: &Request) -> Caller {
    Caller { pid: request.pid(), uid: request.uid(), gid: request.gid() }
}

/// Gives what was found in the way of `give`, or the error. What was found is returned if nobody
/// waits for it any more.
pub(super) fn give<T, R: Refuse + Send>(
    found: io::Result<T>,
    reply: &Late<'_, R>,
    give: impl FnOnce(R, T),
) -> Option<T> {
    match (reply.take(), found) {
        (Some(reply), Ok(found)) => give(reply, found),
        (Some(reply), Err(error)) => reply.refuse(error.into()),
        (None, Ok(found)) => return Some(found),
        (None, Err(_)) => reply.failed(),
    }
    None
}

/// The number by which the kernel asks for a file from now on.
fn asked_by(inode: &Inode) -> (INodeNo, Generation) {
    (INodeNo(inode.id), Generation(inode.generation))
}

/// A file that the kernel is told of.
pub(super) fn entry(tree: &Tree, found: io::Result<Entry>, reply: &Late<'_, ReplyEntry>) {
    let untold = give(found, reply, |reply, Entry { inode, attr }| {
        let options = &tree.options;
        reply.entry_with_ttls(&options.attributes, &options.names, &attr, asked_by(&inode));
    });
    if let Some(Entry { inode, .. }) = untold {
        tree.forget(inode.id, 1);
    }
}

/// A file that was looked for.
pub(super) fn found(tree: &Tree, found: io::Result<Entry>, reply: &Late<'_, ReplyEntry>) {
    let missing = found.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ENOENT));
    if !missing || tree.options.absent.is_zero() {
        return entry(tree, found, reply);
    }
    if let Some(reply) = reply.take() {
        // Number 0 says that there is nothing, and for how long.
        reply.entry(&tree.options.absent, &nothing(), Generation(0));
    }
}

/// A file that was created and opened.
pub(super) fn created(
    tree: &Tree,
    made: io::Result<(Entry, Handle)>,
    reply: &Late<'_, ReplyCreate>,
) {
    let untold = give(made, reply, |reply, (Entry { inode, attr }, handle)| {
        let time = tree.options.names.min(tree.options.attributes);
        reply.created(&time, &attr, asked_by(&inode), handle.id, handle.flags);
    });
    if let Some((Entry { inode, .. }, handle)) = untold {
        tree.release(handle.id);
        tree.forget(inode.id, 1);
    }
}

/// A file that was opened.
pub(super) fn opened(tree: &Tree, handle: io::Result<Handle>, reply: &Late<'_, ReplyOpen>) {
    let give_handle = |reply: ReplyOpen, handle: Handle| reply.opened(handle.id, handle.flags);
    if let Some(handle) = give(handle, reply, give_handle) {
        tree.release(handle.id);
    }
}

/// A directory that was opened.
pub(super) fn opened_directory(
    tree: &Tree,
    handle: io::Result<FileHandle>,
    reply: &Late<'_, ReplyOpen>,
) {
    let untold = give(handle, reply, |reply, handle| reply.opened(handle, tree.directory_flags()));
    if let Some(handle) = untold {
        tree.release_directory(handle);
    }
}

/// Names of a directory, each with the file that it leads to.
pub(super) fn listed_found(
    tree: &Tree,
    handle: FileHandle,
    offset: u64,
    reply: &Late<'_, ReplyDirectoryPlus>,
) {
    let mut told = Vec::new();
    let listed = tree.list_found(handle, offset, reply, &mut told);
    if give(listed, reply, |reply, ()| reply.ok()).is_some() {
        told.into_iter().for_each(|id| tree.forget(id, 1));
    }
}

/// Attributes.
pub(super) fn attr(tree: &Tree, found: io::Result<FileAttr>, reply: &Late<'_, ReplyAttr>) {
    give(found, reply, |reply, attr| reply.attr(&tree.options.attributes, &attr));
}

/// Nothing but that it is done.
pub(super) fn done(done: io::Result<()>, reply: &Late<'_, ReplyEmpty>) {
    give(done, reply, |reply, ()| reply.ok());
}

/// How much space there is.
pub(super) fn space(found: io::Result<StatVfs>, reply: &Late<'_, ReplyStatfs>) {
    give(found, reply, |reply, space| {
        reply.statfs(
            space.f_blocks,
            space.f_bfree,
            space.f_bavail,
            space.f_files,
            space.f_ffree,
            space.f_bsize as u32,
            space.f_namemax as u32,
            space.f_frsize as u32,
        );
    });
}

/// An extended attribute, or their names.
pub(super) fn value(found: io::Result<Value>, reply: &Late<'_, ReplyXattr>) {
    give(found, reply, |reply, value| match value {
        Value::Size(size) => reply.size(size as u32),
        Value::Bytes(bytes) => reply.data(&bytes),
    });
}
