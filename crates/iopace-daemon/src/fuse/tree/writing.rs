//! Writes and copies, on their way to the data: privileges of the file go first, and what was given
//! up is overtaken by nobody.

use super::super::caller::Caller;
use super::super::inflight_operations::Touch;
use super::super::pending_replies::Room;
use super::Tree;
use super::data::{LateWrite, Opened, WriteMode};
use super::replies::give;
use iopace_fuse::{Errno, FileHandle, ReplyWrite};
use std::io;
use std::sync::Arc;

/// A write without its data.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) from: Caller,
    pub(super) file: Arc<Opened>,
    pub(super) offset: u64,
    pub(super) mode: WriteMode,
    /// The kernel says that the file's privileges have to go.
    pub(super) strips: bool,
}

/// A copy from one open file to another.
struct Copy {
    from: Caller,
    source: (Arc<Opened>, u64),
    to: (Arc<Opened>, u64),
    len: u64,
}

/// Carries out a write now, or when what was given up has come to pass. Who has waited has the
/// room that was taken for his data: it goes on with it.
pub(super) fn write(
    tree: &Arc<Tree>,
    write: &Write,
    (data, room): (&[u8], Option<Room>),
    reply: ReplyWrite,
) {
    let Write { from, file, offset, mode, strips } = write;
    if data.is_empty() {
        return reply.written(0);
    }
    let touch = Touch::one(file.inode.id());
    match tree.inflight.begin(*from, touch, reply) {
        Ok(late) => {
            let stripped = if *strips { tree.strip_privileges(*from, &file.inode) } else { Ok(()) };
            if goes_on(stripped, &late) {
                tree.data.write(*from, file, *offset, (data, room), *mode, &late);
            }
        }
        Err(reply) => {
            let (len, room) = match room {
                Some(room) => (data.len(), Some(room)),
                None => tree.data.room(file, *mode, data.len()),
            };
            let (weak, write, data) = (Arc::downgrade(tree), write.clone(), data[..len].to_vec());
            tree.inflight.park(*from, touch, reply, move |reply| {
                let Some(tree) = weak.upgrade() else { return reply.error(Errno::EIO) };
                self::write(&tree, &write, (&data, room), reply);
            });
        }
    }
}

/// Copies from one place in an open file to another.
pub(super) fn copy_between(
    tree: &Arc<Tree>,
    from: Caller,
    (source, to): ((FileHandle, u64), (FileHandle, u64)),
    len: u64,
    reply: ReplyWrite,
) {
    match tree.file(source.0).and_then(|file| Ok((file, tree.file(to.0)?))) {
        Ok((source_file, to_file)) => {
            let (source, to) = ((source_file, source.1), (to_file, to.1));
            copy(tree, Copy { from, source, to, len }, reply);
        }
        Err(error) => reply.error(error.into()),
    }
}

/// The same of a copy.
fn copy(tree: &Arc<Tree>, copy: Copy, reply: ReplyWrite) {
    let (from, file) = (copy.from, &copy.to.0);
    let touch = Touch::one(file.inode.id());
    match tree.inflight.begin(from, touch, reply) {
        Ok(late) => {
            let Copy { from, source, to, len } = copy;
            if goes_on(tree.strip_privileges_unless_kept(from, &to.0.inode), &late) {
                tree.data.copy(from, (&source.0, source.1), (&to.0, to.1), len, &late);
            }
        }
        Err(reply) => {
            let weak = Arc::downgrade(tree);
            tree.inflight.park(from, touch, reply, move |reply| match weak.upgrade() {
                Some(tree) => self::copy(&tree, copy, reply),
                None => reply.error(Errno::EIO),
            });
        }
    }
}

/// Whether the privileges are gone and somebody still waits; the error is given here.
fn goes_on(stripped: io::Result<()>, late: &LateWrite<'_>) -> bool {
    match stripped {
        Ok(()) => !late.is_given_up(),
        Err(error) => {
            give(Err(error), late, |reply: ReplyWrite, ()| reply.written(0));
            false
        }
    }
}
