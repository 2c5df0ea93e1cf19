//! Attributes of nodes, and replies with results.

use super::TTL;
use crate::faults::Failed;
use crate::node::{NodeId, NodeKind};
use crate::tree::Tree;
use iopace_fuse::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyEmpty, ReplyEntry, ReplyXattr,
};
use std::time::{Duration, UNIX_EPOCH};

pub(super) fn attributes(tree: &Tree, id: NodeId) -> Option<FileAttr> {
    let node = tree.nodes.get(&id)?;
    let (kind, size) = match &node.kind {
        NodeKind::File => (FileType::RegularFile, node.data.len()),
        NodeKind::Directory => (FileType::Directory, 4096),
        NodeKind::Link(target) => (FileType::Symlink, target.len()),
    };
    let time = UNIX_EPOCH + Duration::from_millis(node.stamp);
    Some(FileAttr {
        ino: INodeNo(id),
        size: size as u64,
        blocks: size.div_ceil(512) as u64,
        atime: time,
        mtime: time,
        ctime: time,
        kind,
        perm: node.mode as u16 & 0o7777,
        nlink: if node.is_directory() { 2 } else { tree.links(id) },
        uid: node.owner.0,
        gid: node.owner.1,
        rdev: 0,
        blksize: 4096,
    })
}

pub(super) fn entry(made: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match made {
        Ok(found) => reply.entry(&TTL, &found, Generation(0)),
        Err(error) => reply.error(error),
    }
}

pub(super) fn empty(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

pub(super) fn carried_out(done: Result<(), Failed>, reply: ReplyEmpty) {
    empty(done.map_err(|Failed| Errno::EIO), reply);
}

pub(super) fn xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match size as usize {
        0 => reply.size(value.len() as u32),
        size if size < value.len() => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
